//! The program behind `cargo xtask bench`.
use std::process::ExitCode;

fn main() -> ExitCode {
    phalanx_bench::cli::main()
}
