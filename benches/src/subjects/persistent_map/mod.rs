//! Benchmarks of `phalanx::PersistentMap` with batches on device buffers. Keys have `key_bits`, values
//! `value_bits`; each value is a function of its key and a version, and all of them are checked.
//!
//! | op | before | what is timed |
//! |---|---|---|
//! | `get`, `get_missed`, `update`, `remove` | `pairs` pairs (`n`) | `n` operations |
//! | `insert`, `ycsb_load` | `pairs` pairs (none) | insertions of `n` new keys |
//! | `ycsb_a` .. `ycsb_f` | `pairs` pairs | `n` operations of that workload, one launch for each kind of operation |
//! | `dlrm` | `pairs` rows | lookups of a row in each of 26 tables in turn, by Zipf's law |
//! | `pagerank` | `pairs` vertices | `n` edges: lookups of one end, updates of the other |
//! | `fill` | none | insertions by `batch` keys until one is refused, in a table for `n` pairs |
//! | `grow` | `n` pairs | addition of a level |
//! | `open` | a file with `pairs` pairs | opening it; `n` pairs are looked up afterwards |
//! | `refresh_get` | `pairs` pairs, an empty cache | batches of `n` lookups before, beside and after a refresh |
//! | `sync_get` | a file with `pairs` pairs | batches of `n` lookups while `sync` writes changed pages |
//! | `sync_update` | a file with `pairs` pairs | small batches of updates while `sync` runs |
//!
//! | param | what |
//! |---|---|
//! | `load` | share of the slots that pairs fill after the operation; 0.9 |
//! | `batch` | elements of a batch; the host then waits for each, and its time is recorded |
//! | `theta` | exponent of Zipf's law; without it each key occurs once |
//! | `storage` | image in `device` or `pinned` memory |
//! | `durability` | of the map's file: `machine` or `process`; without it, only `open` and `sync_*` have a file |
//! | `until` | `fill` ends at this load in per cent, if no key is refused before; 100 |
//! | `folder` | folder of files; otherwise the variable `PHALANX_BENCH_FOLDER`, `/dev/shm`, or that for temporary files |
//! | `system` | `map`, or a baseline: `undo_log` (slab lists with an undo log in the same storage), `cpu` (a concurrent map of the host, `threads` threads, 16) |
//! | `cache` | share of the slots in the cache, which is filled by the keys of the lookups before the first repetition |
//! | `policy` | `lfu`, `lru` or `random` |
//! | `count_hits` | 1: lookups count hits and misses of the cache, `counted.hit_rate` in per cent |
mod files;
mod fill;
mod grow;
mod host_map;
mod items;
mod open;
mod plan;
mod refresh;
mod run;
mod sync;
mod table;
mod undo_log;

use super::both_widths::DEFAULT;
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use host_map::HostMap;
use items::{Key, Value};
use phalanx::PersistentMap;
use run::Run;
use undo_log::LoggedLists;

/// Variants of the persistent map.
#[derive(Debug)]
pub struct PersistentMaps<'a>(pub &'a Gpu);

/// Calls a function with the types of a case's keys and values.
macro_rules! with_types {
    ($case:expr, $function:ident ( $($argument:expr),* ), $otherwise:expr) => {
        match ($case.key_bits, $case.value_bits) {
            (64, 64) => $function::<[u64; 1], [u64; 1]>($($argument),*),
            (64, 1024) => $function::<[u64; 1], [u64; 16]>($($argument),*),
            (128, 1024) => $function::<[u64; 2], [u64; 16]>($($argument),*),
            (256, 1024) => $function::<[u64; 4], [u64; 16]>($($argument),*),
            (512, 1024) => $function::<[u64; 8], [u64; 16]>($($argument),*),
            _ => $otherwise,
        }
    };
}

fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    PersistentMap::<K, V>::variants()
}

impl Structure for PersistentMaps<'_> {
    fn name(&self) -> &'static str {
        "PersistentMap"
    }

    fn variants(&self) -> Vec<String> {
        let mut names = vec![DEFAULT];
        let sizes = [64, 128, 256, 512].map(|key_bits| (key_bits, 1024));
        for (key_bits, value_bits) in [(64, 64)].into_iter().chain(sizes) {
            let case = Case { key_bits, value_bits, ..Case::default() };
            names.extend(with_types!(case, variants(), Vec::new()));
        }
        names.into_iter().map(str::to_owned).collect()
    }

    fn ops(&self) -> Vec<&'static str> {
        plan::OPS.into_iter().chain(SPECIAL).collect()
    }

    fn is_possible(&self, case: &Case) -> bool {
        let fitting = with_types!(case, variants(), return false);
        case.variant == DEFAULT || fitting.contains(&case.variant.as_str())
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let (key, value) = (case.key_bits, case.value_bits);
        with_types!(case, prepare(self.0, case), bail!("no pairs of {key} and {value} bits here"))
    }
}

/// Operations without a plan.
const SPECIAL: [&str; 6] = ["fill", "grow", "open", "refresh_get", "sync_get", "sync_update"];

/// Tables that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum System {
    Map,
    UndoLog,
    Cpu,
}

fn prepare<'a, K: Key, V: Value>(gpu: &'a Gpu, case: &Case) -> Result<Box<dyn Benchmark + 'a>> {
    let systems = [("map", System::Map), ("undo_log", System::UndoLog), ("cpu", System::Cpu)];
    let system = case.choice("system", &systems)?;
    let is_planned = plan::OPS.contains(&case.op.as_str());
    ensure!(is_planned || system == System::Map, "no baseline has '{}'", case.op);
    Ok(match (system, case.op.as_str()) {
        (System::Map, "fill") => Box::new(fill::Fill::<K, V>::new(gpu, case)?),
        (System::Map, "grow") => Box::new(grow::Grow::<K, V>::new(gpu, case)?),
        (System::Map, "open") => Box::new(open::Open::<K, V>::new(gpu, case)?),
        (System::Map, "refresh_get") => Box::new(refresh::Refresh::<K, V>::new(gpu, case)?),
        (System::Map, "sync_get" | "sync_update") => Box::new(sync::Beside::<K, V>::new(gpu, case)?),
        (System::Map, _) => {
            let make = |pairs| files::new::<K, V>(gpu, case, pairs);
            Box::new(Run::<K, V, _>::new(gpu, case, make)?)
        }
        (System::UndoLog, _) => {
            let small = Case { key_bits: 64, value_bits: 64, ..case.clone() };
            ensure!(*case == small, "the baseline with an undo log has pairs of 8 bytes each");
            let make = |pairs| LoggedLists::new(gpu, case, pairs);
            Box::new(Run::<[u64; 1], [u64; 1], _>::new(gpu, case, make)?)
        }
        (System::Cpu, _) => Box::new(Run::<K, V, _>::new(gpu, case, |pairs| HostMap::new(gpu, case, pairs))?),
    })
}
