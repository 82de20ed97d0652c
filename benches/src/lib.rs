//! Benchmark program: suites are data, subjects implement one trait, and every timed result is verified.
//!
//! | module | contents |
//! |---|---|
//! | [`engine`] | suites, runner, records and reports, for any subjects |
//! | [`subjects`] | measured structures: a new one is one file and one line |
//! | [`machine`] | device that runs the subjects |
//! | [`streams`] | runs pairs of verbs in four concurrent streams, and checks every result |
//! | [`scale_out`] | what a map over several GPUs shows beside its suites |
//! | [`cli`] | command-line interface |

/// Defines `main` of a benchmark program that also has hash maps of the given kinds, which suites name as
/// they name those of the library. On a GPU it needs their PTX: `bench! { Kind; &PROGRAM }`.
///
/// ```no_run
/// phalanx_bench::bench! { phalanx_kernels::hash_map::DefaultTable }
/// ```
#[macro_export]
macro_rules! bench {
    ($($of:ty),* $(,)? $(; $program:expr)?) => {
        fn main() -> std::process::ExitCode {
            $($crate::machine::add_program($program);)?
            $($crate::subjects::hash_map::register::<$of>();)*
            $crate::cli::main()
        }
    };
}

pub mod cli;
pub mod engine;
pub mod machine;
#[cfg(feature = "sharded")]
pub mod scale_out;
#[cfg(feature = "trees")]
pub mod streams;
pub mod subjects;
