//! Tests of each rule with a planted violation and with its exceptions.
use super::bounds;
use super::rules::check;
use crate::files::File;

fn reasons(path: &str, text: &str) -> Vec<String> {
    check(&File::new(path, text)).iter().map(ToString::to_string).collect()
}

fn breaks(path: &str, text: &str) -> bool {
    !reasons(path, text).is_empty()
}

#[test]
fn instructions_and_atomics_stay_in_the_back_ends() {
    for line in [
        "use core::sync::atomic::AtomicU32;",
        "use std::sync::{Mutex, atomic::AtomicU64};",
        "asm!(\"trap;\")",
        "core::arch::global_asm!(\"\")",
        "#[link_name = \"llvm.nvvm.barrier\"]",
    ] {
        assert!(breaks("kernels-gpu/src/map.rs", line), "{line}");
        assert!(breaks("crates/simt/src/tile.rs", line), "{line}");
        assert!(!breaks("crates/simt/src/nvptx/mod.rs", line), "{line}");
        assert!(!breaks("crates/simt/src/emulator/mod.rs", line), "{line}");
    }
    assert!(!breaks("crates/simt/src/lib.rs", "//! Nothing else contains `asm!`."));
    assert!(!breaks("crates/gpu/src/lib.rs", "use std::sync::{Mutex, OnceLock};"));
}

#[test]
fn only_the_host_runtime_speaks_to_the_driver() {
    assert!(breaks("crates/phalanx/src/lib.rs", "use cust::prelude::*;"));
    assert!(!breaks("crates/gpu/src/cuda.rs", "use cust::prelude::*;"));
    assert!(!breaks("crates/phalanx/src/lib.rs", "use robust::prelude::*;"));
    assert!(breaks("crates/phalanx/Cargo.toml", "[dependencies]\ncust.workspace = true\n"));
}

#[test]
fn the_engine_of_benchmarks_names_no_subject() {
    for line in ["use phalanx::HashMap;", "/// See [`crate::subjects`].", "use phalanx_kernels::keyed;"] {
        assert!(breaks("benches/src/engine/runner.rs", line), "{line}");
        assert!(!breaks("benches/src/subjects/hash_map.rs", line), "{line}");
    }
}

#[test]
fn dependencies_point_one_way() {
    assert!(breaks("kernels-gpu/Cargo.toml", "[dependencies]\ngpu.workspace = true\n"));
    assert!(breaks("kernels-gpu/Cargo.toml", "[target.'cfg(unix)'.dependencies]\ngpu = \"1\"\n"));
    assert!(breaks("crates/gpu/Cargo.toml", "[dependencies]\nphalanx-kernels.workspace = true\n"));
    assert!(breaks("apps/kmer-count/Cargo.toml", "[dependencies]\ncust = \"0.3\"\n"));
    assert!(!breaks(
        "kernels-gpu/Cargo.toml",
        "[dependencies]\nsimt.workspace = true\n[dev-dependencies]\nchecker.workspace = true\n"
    ));
    assert!(!breaks(
        "crates/phalanx/Cargo.toml",
        "[dependencies]\ngpu.workspace = true\nphalanx-kernels.workspace = true\n"
    ));
}

#[test]
fn dependencies_of_the_workspace_have_versions() {
    let manifest = |entry| format!("[workspace.dependencies]\n{entry}\n");
    assert!(breaks("Cargo.toml", &manifest("genomes = { path = \"apps/genomes\" }")));
    assert!(!breaks("Cargo.toml", &manifest("genomes = { path = \"apps/genomes\", version = \"0.1.0\" }")));
    assert!(!breaks("Cargo.toml", &manifest("rand = \"0.9\"")));
}

#[test]
fn lines_end_at_column_110() {
    let (fits, long) = ("x".repeat(110), "é ".repeat(56));
    for path in ["crates/gpu/src/lib.rs", "docs/a.md", "Cargo.toml", "xtask/a.sh"] {
        assert!(!breaks(path, &fits), "{path}");
        assert_eq!(reasons(path, &long), [format!("{path}:1: 112 columns: break the line at 110")]);
        assert!(!breaks(path, &format!("| {long} |")) && !breaks(path, &format!("    /// | {long} |")));
    }
    assert!(!breaks("docs/results/a.jsonl", &long) && !breaks("Cargo.lock", &long));
}

#[test]
fn device_code_has_no_branch_for_one_machine() {
    assert!(breaks("kernels-gpu/src/map.rs", "_ => unreachable!(\"host\"),"));
    assert!(!breaks("crates/phalanx/src/map.rs", "_ => unreachable!(\"checked above\"),"));
}

#[test]
fn nothing_is_left_unfinished() {
    for line in ["todo!()", "unimplemented!()", "#[ignore]", "#[ignore = \"slow\"]", "// FIXME: later"] {
        assert!(breaks("crates/gpu/src/lib.rs", line), "{line}");
    }
}

#[test]
fn files_are_short() {
    let lines = |count| "fn a() {}\n".repeat(count);
    assert!(!breaks("crates/gpu/src/lib.rs", &lines(800)));
    assert!(breaks("crates/gpu/src/lib.rs", &lines(801)));
    assert!(!breaks("docs/results/h200/map.jsonl", &lines(801)));
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    for line in ["cd /work/main", "path = \"/root/.cargo\"", "(/home/someone)", "see /home/someone"] {
        assert!(breaks("README.md", line), "{line}");
    }
    for line in ["https://example.org/work/paper", "$HOME/work/x", "target/work/x", "~/home/x"] {
        assert!(!breaks("README.md", line), "{line}");
    }
}

#[test]
fn a_violation_says_where_and_why() {
    let found = reasons("kernels-gpu/src/map.rs", "fn a() {}\nuse core::sync::atomic::AtomicU32;\n");
    assert_eq!(found.len(), 1);
    assert!(found[0].starts_with("kernels-gpu/src/map.rs:2: `sync::atomic`: "), "{}", found[0]);
}

/// Returns the violations of the rule for safe device functions in a source and a list.
fn bounds(source: &str, list: &str) -> Vec<String> {
    let files = [File::new("kernels-gpu/src/map.rs", source), File::new(bounds::LIST, list)];
    bounds::check(&files).iter().map(ToString::to_string).collect()
}

#[test]
fn safe_device_functions_with_an_index_are_listed() {
    let list = |lines: &str| format!("[\"kernels-gpu/src/map.rs\"]\n{lines}");
    for source in [
        "impl<M> Map<M> { pub fn head(self, bucket: u32) -> Node { self.0 } }",
        "impl Map { #[inline] pub const fn head(self, _: bool, any: Option<Handle>) {} }",
        "pub unsafe trait Map { fn head(self, number: usize); }",
        "mod inner { impl Map { pub fn head(self, rank: u64) {} } }",
    ] {
        assert!(bounds(source, "")[0].contains("`Map::head` takes an index"), "{source}");
        assert_eq!(bounds(source, &list("\"Map::head\" = \"traps\"")), [""; 0], "{source}");
        assert!(bounds(source, &list("\"Map::head\" = \"well\""))[0].contains("begins with"), "{source}");
    }
    for source in [
        "impl Map { pub unsafe fn head(self, bucket: u32) {} }",
        "impl Map { pub(crate) fn head(self, bucket: u32) {} }",
        "impl Map { pub fn head(self, seed: u32) {} }",
        "impl Kind for Map { fn head(self, bucket: u32) {} }",
        "#[cfg(test)] mod tests { pub fn head(bucket: u32) {} }",
    ] {
        assert_eq!(bounds(source, ""), [""; 0], "{source}");
        assert!(bounds(source, &list("\"Map::head\" = \"traps\""))[0].contains("has no safe"), "{source}");
    }
}
