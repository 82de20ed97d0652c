//! Rules for single files.
use crate::files::{File, Violation};

/// Rule about words: where they are allowed, and the reason.
struct Words {
    words: &'static [&'static str],
    /// Prefixes of the paths that the rule applies to.
    within: &'static [&'static str],
    /// Prefixes of exempt paths, with the reason.
    except: &'static [(&'static str, &'static str)],
    /// Whether the rule applies to comments, too.
    comments: bool,
    reason: &'static str,
}

const TIDY: (&str, &str) = ("xtask/src/tidy/", "names what it forbids");
const LATE: (&str, &str) = (
    "crates/cuda-late/",
    "forwards the driver's symbols, by jumps through a table that the first call fills",
);

const WORDS: &[Words] = &[
    Words {
        words: &["asm!", "sync::atomic", "atomic::Atomic", "core::intrinsics", "llvm.nvvm"],
        within: &[""],
        except: &[
            ("crates/simt/src/nvptx/", "the device back end"),
            ("crates/simt/src/emulator/", "the host back end"),
            LATE,
            TIDY,
        ],
        comments: false,
        reason: "instructions and atomics belong to the back ends of simt; use simt, or Mutex and OnceLock \
            on the host",
    },
    Words {
        words: &["cust::", "extern crate cust"],
        within: &[""],
        except: &[("crates/gpu/", "the host runtime"), LATE, TIDY],
        comments: false,
        reason: "only crates/gpu speaks to the driver",
    },
    Words {
        words: &["unreachable!(", "unreachable_unchecked"],
        within: &["kernels-gpu/src/"],
        except: &[],
        comments: false,
        reason: "device code runs on the emulator too: no branch may exist on one machine only",
    },
    Words {
        words: &["phalanx::", "phalanx_kernels::", "crate::subjects", "crate::streams"],
        within: &["benches/src/engine/"],
        except: &[],
        comments: true,
        reason: "the engine runs any subject and names none",
    },
    Words {
        words: &["todo!", "unimplemented!", "#[ignore", "FIXME"],
        within: &[""],
        except: &[TIDY],
        comments: true,
        reason: "unfinished: finish it, or remove it",
    },
];

/// Files that may exceed [`LONGEST`] lines, with the reason.
const LONG: &[(&str, &str)] = &[];
const LONGEST: usize = 800;

/// Maximum number of characters per line, and the file types that people read and write.
const COLUMNS: usize = 110;
const WRITTEN: [&str; 6] = [".rs", ".md", ".toml", ".sh", ".c", ".py"];

/// Paths of one machine, which are meaningless on others.
const PLACES: [&str; 3] = ["/work/", "/root/", "/home/"];

/// Packages, or all packages in a folder if the name ends in a slash, and the dependencies that they must not
/// have except in tests.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    (
        "kernels-gpu",
        &["gpu", "cuda-late", "cust", "phalanx", "ptx-builder", "workloads", "checker", "phalanx-bench"],
    ),
    (
        "crates/simt",
        &["gpu", "cuda-late", "cust", "phalanx", "phalanx-kernels", "ptx-builder", "workloads", "checker"],
    ),
    ("crates/gpu", &["phalanx", "phalanx-kernels", "workloads", "checker", "phalanx-bench"]),
    ("crates/exchange", &["cust", "cuda-late", "phalanx", "phalanx-kernels", "workloads", "phalanx-bench"]),
    ("crates/nccl-late", &["gpu", "cust", "cuda-late"]),
    ("crates/phalanx", &["cust", "workloads", "checker", "phalanx-bench", "phalanx-testing"]),
    ("crates/testing", &["cust", "workloads", "phalanx-bench"]),
    ("crates/ptx-builder", &["simt", "gpu", "cust", "phalanx", "phalanx-kernels"]),
    ("crates/workloads", &["gpu", "cust", "phalanx", "phalanx-kernels"]),
    ("benches", &["cust"]),
    ("apps/", &["cust"]),
    ("examples/", &["cust"]),
    ("xtask", &["cust", "phalanx", "phalanx-kernels"]),
];

/// Reports all violations in a file.
pub fn check(file: &File) -> Vec<Violation> {
    let mut violations = places(file);
    violations.extend(columns(file));
    if file.path.ends_with(".rs") {
        violations.extend(WORDS.iter().flat_map(|rule| words(rule, file)));
        violations.extend(length(file));
    }
    if file.path.ends_with("Cargo.toml") {
        violations.extend(dependencies(file));
        violations.extend(versions(file));
    }
    violations
}

/// Reports the lines of a file for which `reason` returns one.
fn each_line(file: &File, reason: impl Fn(&str) -> Option<String>) -> Vec<Violation> {
    let lines = file.text.lines().enumerate();
    lines.filter_map(|(index, line)| Some(Violation::new(&file.path, index + 1, reason(line)?))).collect()
}

fn words(rule: &Words, file: &File) -> Vec<Violation> {
    let begins = |beginning: &&str| file.path.starts_with(beginning);
    if !rule.within.iter().any(begins) || rule.except.iter().any(|(beginning, _)| begins(beginning)) {
        return Vec::new();
    }
    each_line(file, |line| {
        let looked_at = if rule.comments { line } else { code(line) };
        let word = rule.words.iter().find(|word| contains_word(looked_at, word))?;
        Some(format!("`{word}`: {}", rule.reason))
    })
}

/// Returns the line without its comment. (If a string contains two slashes, the rest of the line is ignored
/// too.)
fn code(line: &str) -> &str {
    line.split_once("//").map_or(line, |(code, _)| code)
}

/// Returns whether `word` occurs in the line and is not the end of a longer name.
fn contains_word(line: &str, word: &str) -> bool {
    let is_start = |start: usize| !line[..start].ends_with(|letter: char| letter.is_alphanumeric());
    line.match_indices(word).any(|(start, _)| is_start(start) || word == "asm!")
}

fn length(file: &File) -> Option<Violation> {
    let lines = file.text.lines().count();
    let is_listed = LONG.iter().any(|(path, _)| *path == file.path);
    let reason = format!("{lines} lines; split it at {LONGEST}, or list it in xtask with the reason");
    (lines > LONGEST && !is_listed).then(|| Violation::new(&file.path, 0, reason))
}

/// Whether a line is too long and is not a row of a table, which cannot be broken.
pub fn is_too_long(line: &str) -> bool {
    let is_row = line.trim_start().trim_start_matches(['/', '!']).trim_start().starts_with('|');
    line.chars().count() > COLUMNS && !is_row
}

/// Reports lines that are too long.
fn columns(file: &File) -> Vec<Violation> {
    if !WRITTEN.iter().any(|ending| file.path.ends_with(ending)) {
        return Vec::new();
    }
    let reason = |line: &str| format!("{} columns: break the line at {COLUMNS}", line.chars().count());
    each_line(file, |line| is_too_long(line).then(|| reason(line)))
}

fn places(file: &File) -> Vec<Violation> {
    if file.path.starts_with(TIDY.0) {
        return Vec::new();
    }
    each_line(file, |line| {
        let place = PLACES.into_iter().find(|place| contains_place(line, place))?;
        Some(format!("`{place}`: a folder of one machine"))
    })
}

/// Returns whether the line contains a path below `place`, not a path or an address that has it in the
/// middle.
fn contains_place(line: &str, place: &str) -> bool {
    let inside = |letter: char| letter.is_alphanumeric() || "._-~}$".contains(letter);
    line.match_indices(place).any(|(start, _)| !line[..start].ends_with(inside))
}

fn dependencies(file: &File) -> Vec<Violation> {
    let folder = file.path.trim_end_matches("Cargo.toml").trim_end_matches('/');
    let is_about =
        |package: &str| folder == package || (package.ends_with('/') && folder.starts_with(package));
    let rules = DEPENDENCIES.iter().filter(|(package, _)| is_about(package));
    let found = dependency_names(&file.text);
    let forbidden =
        rules.flat_map(|(_, names)| *names).filter(|name| found.iter().any(|found| found == *name));
    let reason = |name| format!("depends on {name}: docs/architecture.md says what may depend on what");
    forbidden.map(|name| Violation::new(&file.path, 0, reason(name))).collect()
}

/// Reports dependencies of the workspace that have a path alone: packages with such a dependency cannot be
/// packed.
fn versions(file: &File) -> Vec<Violation> {
    let manifest: toml::Table = file.text.parse().unwrap_or_default();
    let list = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
    let has_path_alone =
        |(_, entry): &(&String, &toml::Value)| entry.get("path").is_some() && entry.get("version").is_none();
    let reason = |name| format!("dependency {name} needs a version beside its path: packages need it");
    let unversioned = list.into_iter().flatten().filter(has_path_alone);
    unversioned.map(|(name, _)| Violation::new(&file.path, 0, reason(name))).collect()
}

/// Returns the dependencies except those of tests.
fn dependency_names(manifest: &str) -> Vec<String> {
    let table: toml::Table = manifest.parse().unwrap_or_default();
    let targets =
        table.get("target").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
    let tables = [&table].into_iter().chain(targets.filter_map(toml::Value::as_table));
    let lists = tables.filter_map(|table| table.get("dependencies")?.as_table());
    lists.flat_map(|list| list.keys().cloned()).collect()
}
