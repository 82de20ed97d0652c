//! Checks the PTX instructions of each primitive of `simt`.
//!
//! The crate `primitives` beside this file has one kernel per primitive. This test builds it for both
//! architectures and removes parameters, moves and labels from each kernel. It compares the rest with a
//! snapshot, which was reviewed by hand against the documentation of the primitive.
use ptx_builder::{Arch, Ptx, PtxBuilder, Ptxas};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::OnceLock;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/primitives");

fn build(arch: Arch) -> &'static Ptx {
    static BUILT: [OnceLock<Ptx>; 2] = [const { OnceLock::new() }; 2];
    let place = &BUILT[usize::from(arch == Arch::Sm90)];
    place.get_or_init(|| PtxBuilder::new(FOLDER).arch(arch).build().unwrap_or_else(|error| panic!("{error}")))
}

/// Returns the instructions of each kernel, by name.
fn kernels(ptx: &Ptx) -> BTreeMap<&str, Vec<String>> {
    let bodies = ptx.text().split(".visible .entry ").skip(1);
    bodies
        .map(|body| (body.split('(').next().unwrap(), instructions(body.split("\n}").next().unwrap())))
        .collect()
}

fn instructions(body: &str) -> Vec<String> {
    let lines = body.lines().skip_while(|line| *line != "{").skip(1).map(str::trim);
    let kept = lines.filter(|line| !line.is_empty() && !line.starts_with("//") && !line.starts_with(".reg"));
    // The instructions that LLVM emits after a trap differ between its versions.
    let kept = kept.map(|line| without_names(&line.replace('\t', "").replace("trap; exit;", "trap;")));
    kept.filter(|line| !line.starts_with("ld.param") && !line.starts_with("griddepcontrol")).collect()
}

/// Removes the numbers of registers, and labels and mangled names as a whole, since the compiler picks them
/// freely.
fn without_names(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(start) = rest.find(|letter: char| letter.is_ascii_alphabetic() || "%$_".contains(letter)) {
        let (before, after) = rest.split_at(start);
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "%$_.".contains(letter);
        let (name, tail) = after.split_at(after.find(|letter| !is_name(letter)).unwrap_or(after.len()));
        text.extend([before, stem(name)]);
        rest = tail;
    }
    text + rest
}

fn stem(name: &str) -> &str {
    match name {
        "%clock64" => name,
        _ if name.starts_with("$L") => "$L",
        _ if name.starts_with("_R") => "_R",
        _ if name.starts_with('%') => name.trim_end_matches(|letter: char| letter.is_ascii_digit()),
        _ => name,
    }
}

/// Lists the instructions of the kernels that `wanted` selects, one per line.
fn describe(ptx: &Ptx, wanted: impl Fn(&str) -> bool) -> String {
    let chosen = kernels(ptx).into_iter().filter(|(name, _)| wanted(name));
    chosen.map(|(name, lines)| format!("{name}\n    {}\n", lines.join("\n    "))).collect()
}

/// Instructions that access memory or other threads; all others are omitted.
const EFFECTS: [&str; 12] = [
    "ld.", "st.", "atom.", "fence.", "trap;", "vote.", "shfl.", "match.", "redux.", "bar.", "barrier.",
    "nanosleep.",
];

fn effects(ptx: &Ptx, wanted: impl Fn(&str) -> bool) -> String {
    let is_effect = |line: &&str| {
        let mut words = line.trim().split(' ');
        !line.starts_with(' ') || words.any(|word| EFFECTS.iter().any(|effect| word.starts_with(effect)))
    };
    let text = describe(ptx, wanted);
    let kept = text.lines().filter(is_effect).filter(|line| !line.contains("st.param"));
    kept.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the kernel's name without its instance.
fn family(name: &str) -> &str {
    name.split("__").next().unwrap()
}

const COLLECTIVES: [&str; 17] = [
    "rank", "ballot", "any", "all", "any_converged", "elect", "shuffle", "shuffle_wide", "shuffle_xor",
    "shuffle_up", "shuffle_down", "match_any", "match_bits", "reduce_add", "reduce_min", "reduce_max",
    "tile_sync",
];
const ATOMICS: [&str; 7] =
    ["compare_exchange", "exchange", "fetch_add", "fetch_min", "fetch_max", "fetch_or", "fetch_and"];
const LOADS: [&str; 7] =
    ["load", "load_pair", "load_quad", "load_eight", "load_sixteen", "load_if", "load_pair_if"];
const STORES: [&str; 3] = ["store", "store_pair", "store_quad"];
const HOT: &str = "hot";
const REST: [&str; 12] = [
    "heap", "hidden_value", "thread_ids", "clocks", "spin_hint", "pause", "fault", "trap", "panic",
    "block_sync", "fences", "sc_fences",
];

#[test]
fn collectives() {
    insta::assert_snapshot!(describe(build(Arch::Sm80), |name| COLLECTIVES.contains(&family(name))));
}

#[test]
fn loads() {
    insta::assert_snapshot!(effects(build(Arch::Sm80), |name| LOADS.contains(&family(name))));
}

#[test]
fn stores() {
    insta::assert_snapshot!(effects(build(Arch::Sm80), |name| STORES.contains(&family(name))));
}

#[test]
fn hot_words() {
    insta::assert_snapshot!(effects(build(Arch::Sm80), |name| family(name) == HOT));
}

#[test]
fn atomics() {
    insta::assert_snapshot!(effects(build(Arch::Sm80), |name| ATOMICS.contains(&family(name))));
}

#[test]
fn ids_clocks_fences_and_ends() {
    insta::assert_snapshot!(describe(build(Arch::Sm80), |name| REST.contains(&name)));
}

#[test]
fn shared_memory() {
    insta::assert_snapshot!(effects(build(Arch::Sm80), |name| name.starts_with("shared")));
}

#[test]
fn sixteen_bytes_are_one_access_from_sm_90_on() {
    insta::assert_snapshot!(
        effects(build(Arch::Sm90), |name| name.ends_with("__u128") && !name.starts_with("shared"))
    );
}

#[test]
fn nothing_else_differs_between_the_architectures() {
    // Except for the traps after calls that never return.
    let is_other =
        |name: &str| !name.ends_with("__u128") && family(name) != "panic" && !name.starts_with("shared");
    let (old, new) = (effects(build(Arch::Sm80), is_other), effects(build(Arch::Sm90), is_other));
    let difference = old.lines().zip(new.lines()).find(|(old, new)| old != new);
    assert_eq!((difference, old.len()), (None, new.len()));
}

#[test]
fn every_entry_waits_for_the_launch_before_from_sm_90_on() {
    let order = ["griddepcontrol.launch_dependents;", "griddepcontrol.wait;"];
    for (arch, expected) in [(Arch::Sm80, &order[..0]), (Arch::Sm90, &order)] {
        let bodies = build(arch).text().split(".visible .entry ").skip(1);
        for body in bodies.map(|body| body.split("\n}").next().unwrap()) {
            let found: Vec<_> = body.lines().map(str::trim).filter(|line| line.starts_with("grid")).collect();
            assert_eq!(found, expected, "{body}");
        }
    }
}

#[test]
fn nothing_reaches_memory_before_an_entry_has_waited() {
    for body in build(Arch::Sm90).text().split(".visible .entry ").skip(1) {
        let before = body.split("griddepcontrol.wait").next().unwrap();
        let reaches = |line: &str| {
            !line.starts_with("ld.param")
                && ["ld.", "st.", "atom.", "red.", "call"].iter().any(|word| line.starts_with(word))
        };
        assert!(!before.lines().map(str::trim).any(reaches), "{before}");
    }
}

#[test]
fn every_kernel_is_in_a_snapshot() {
    let known = |name: &&str| {
        let family = family(name);
        name.starts_with("shared")
            || family == HOT
            || [&COLLECTIVES[..], &ATOMICS, &LOADS, &STORES, &REST].concat().contains(&family)
    };
    let unknown: Vec<_> = build(Arch::Sm80).entries().filter(|name| !known(name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

#[test]
fn two_shared_arrays_are_two_places() {
    let text = build(Arch::Sm80).text();
    let sites =
        text.lines().filter(|line| line.starts_with(".func") && line.contains("shared_twice")).count();
    assert_eq!(sites, 2);
}

#[test]
fn two_shapes_are_two_arrays_and_one_shape_is_one() {
    let text = build(Arch::Sm80).text();
    let arrays = text.lines().filter(|line| line.starts_with(".func") && line.contains("shared_shape"));
    assert_eq!(arrays.count(), 2);
}

#[test]
fn all_of_it_assembles_without_local_memory() {
    let ptxas = match Ptxas::find(Path::new(FOLDER)) {
        Ok(ptxas) => ptxas,
        Err(missing) => panic!("{missing}"),
    };
    for (built, assembled) in [(Arch::Sm80, Arch::Sm80), (Arch::Sm90, Arch::Sm90), (Arch::Sm90, Arch::Sm100)]
    {
        let report = ptxas.check(build(built), assembled).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(report.entries.len(), build(built).entries().count());
        for entry in report.entries {
            assert!(!entry.uses_local_memory(), "{assembled}: {entry:?}");
        }
    }
}
