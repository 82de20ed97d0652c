//! Benchmarks of `phalanx::TieredMap` and `phalanx::TieredSkipList` with pairs of 32 bits, or both of 64.
//! Keys, values and outcomes of a batch are in pinned host memory. The host measures the time of the call,
//! which blocks.
//!
//! | op | before | what is timed |
//! |---|---|---|
//! | `get` | `pairs` pairs | lookups of `n` present keys |
//! | `get_missed` | `pairs` pairs | lookups of `n` absent keys |
//! | `insert` | empty | insertion of `n` keys |
//! | `remove` | `n` keys | their removal |
//! | `count` | empty | of `n` keys, how often each occurs: 1 is added for each |
//!
//! | param | what |
//! |---|---|
//! | `capacity` | pairs that a map holds at load 0.8, or a list at any order of insertion; by default `pairs`, or `n` |
//! | `pairs` | pairs before a lookup; by default `n` |
//! | `budget` | bytes of device memory |
//! | `oversubscription` | instead of a budget: bytes of the table beyond the budget, in per cent of it |
//! | `shards` | number of shards of a map; by default the map chooses |
//! | `list_capacity` | pairs of an inner list; by default the list chooses |
//! | `placement` | `by_cost` (default), `copy`, `in_place`, or the baselines `remote` and `managed` |
//! | `keys` | `random` (default), `zipf` (lookups only, with `theta`), `kmers` of reads of a random genome, or a key sequence of the paper, such as `MI` (32 bits only; its blocks have `block` keys) |
//! | `batch` | elements of a call; by default all `n` elements are one batch |
//! | `absent` | of `get`: each so many-th key is absent |
//! | `sorted` | of `insert`: 1: each batch is sorted on the device before the call, and the time of that counts |
//! | `hot_pairs` | bytes that hot pairs always have; by default up to a third of the budget while they pay |
//! | `log_copies` | 1: `counted` has bytes and times of the copies between host and device; costs two events for each |
//! | `redraw` | 1: each repetition of `get` has other keys (by default all have the same) |
//! | `warm` | lookups of other keys by Zipf's law before the first repetition, in batches of 2^24, unless the case before had the same distribution |
//! | `moved`, `after` | with `redraw`: before each repetition other keys become the `moved` most frequent ones by Zipf's law, and then `after` - 1 batches are looked up |
//!
//! `counted.off_bus` is the share of lookups that read no shard over the bus: those of hot pairs, and those
//! in shards that were on the device.
//!
//! With `log_copies`, `counted.bytes_up` and `bytes_down` are the bytes that copy engines moved to the device
//! and from it, `busy_up` and `busy_down` the shares of the time in which they did, by events, and `up_gb_s`
//! and `down_gb_s` the rates in this time. Bytes that kernels read and write in host memory are not in them.
//!
//! A map that lookups leave as it is serves all cases that differ in `n`, `keys` of a batch and `placement`,
//! so that it is filled once.
mod interface;
mod keys;

use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use gpu::{Buffer, CopyTimes, Tier};
use interface::{DEFAULT, Tiered, placement};
use keys::{Lookups, counts, distinct, keys, replace_by_absent, size};
use phalanx::map::Word as MapWord;
use phalanx::primitives::{Bits, Workspace, sort_bytes};
use phalanx::tiered_map::{Traffic, variants};
use phalanx::{Outcome, TieredMap, TieredSkipList, tiered_skip_list};
use rayon::prelude::*;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Instant;
use workloads::random::tabulate;
use workloads::{Key as Word, UniqueKeys, parallel, value_of};

/// Operations that can be timed.
const OPS: [&str; 5] = ["get", "get_missed", "insert", "remove", "count"];
/// Pairs that are inserted at a time to fill a map.
const FILL: usize = 1 << 26;
/// Bytes of a budget by oversubscription beside those for the table.
const WORKSPACE: usize = 64 << 20;

/// Structure that is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Map,
    List,
}

/// Variants of the tiered map, or of the tiered skip list.
pub struct TieredMaps<'a> {
    gpu: &'a Gpu,
    kind: Kind,
    /// The last map that was filled for lookups, and the parameters that it was built with.
    filled: RefCell<Option<(String, Rc<dyn Any>)>>,
    /// Map, distribution and number of the lookups that have warmed this map up.
    warmed: RefCell<String>,
    /// Number of cases so far, so that each draws other batches.
    cases: Cell<u64>,
}

impl<'a> TieredMaps<'a> {
    /// Returns the hash map for a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self::of(gpu, Kind::Map)
    }

    /// Returns the skip list for a device.
    pub fn lists(gpu: &'a Gpu) -> Self {
        Self::of(gpu, Kind::List)
    }

    fn of(gpu: &'a Gpu, kind: Kind) -> Self {
        Self { gpu, kind, filled: RefCell::default(), warmed: RefCell::default(), cases: Cell::default() }
    }
}

impl Structure for TieredMaps<'_> {
    fn name(&self) -> &'static str {
        if self.kind == Kind::Map { "TieredMap" } else { "TieredSkipList" }
    }

    fn variants(&self) -> Vec<String> {
        let [small, large] = match self.kind {
            Kind::Map => [variants::<u32, u32>(), variants::<u64, u64>()],
            Kind::List => {
                [tiered_skip_list::variants::<u32, u32>(), tiered_skip_list::variants::<u64, u64>()]
            }
        };
        std::iter::once(DEFAULT).chain(small).chain(large).map(str::to_owned).collect()
    }

    fn ops(&self) -> Vec<&'static str> {
        OPS.to_vec()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        match (self.kind, case.key_bits, case.value_bits) {
            (Kind::Map, 32, 32) => Ok(Box::new(Prepared::<u32, u32, TieredMap<_, _>>::new(self, case)?)),
            (Kind::Map, 64, 64) => Ok(Box::new(Prepared::<u64, u64, TieredMap<_, _>>::new(self, case)?)),
            (Kind::List, 32, 32) => {
                Ok(Box::new(Prepared::<u32, u32, TieredSkipList<_, _>>::new(self, case)?))
            }
            (Kind::List, 64, 64) => {
                Ok(Box::new(Prepared::<u64, u64, TieredSkipList<_, _>>::new(self, case)?))
            }
            (_, key, value) => bail!("{} has no pairs of {key} and {value} bits here", self.name()),
        }
    }
}

/// Builds an empty map for a case.
fn build<K, V, M: Tiered<K, V>>(gpu: &Gpu, case: &Case) -> Result<M> {
    let pairs = size(case, "pairs", case.n as usize)?;
    let capacity = size(case, "capacity", pairs.max(1))?;
    let table = (capacity as f64 * M::BYTES_EACH) as usize;
    let budget = match case.number_if_given("oversubscription")? {
        Some(percent) => (table as f64 / (1.0 + percent / 100.0)) as usize + table / 32 + WORKSPACE,
        None => size(case, "budget", 256 << 20)?,
    };
    M::build(gpu, case, capacity, &|least| budget.max(least))
}

/// Memory of a batch.
struct Pinned<T>(Buffer<T>);

impl<T: bytemuck::Pod> Pinned<T> {
    fn of(gpu: &Gpu, elements: &[T]) -> Result<Self> {
        let mut buffer = gpu.device.buffer_on(Tier::Pinned, elements.len())?;
        buffer.as_mut_slice()?.copy_from_slice(elements);
        Ok(Self(buffer))
    }
}

/// Prepared case.
struct Prepared<'a, K: MapWord, V: MapWord, M> {
    gpu: &'a Gpu,
    op: String,
    map: Rc<RefCell<M>>,
    keys: Pinned<K>,
    values: Pinned<V>,
    outcomes: Pinned<u8>,
    /// Number of distinct keys.
    distinct: u64,
    /// Elements of a call.
    batch: usize,
    /// Each so many-th key is absent; 0 for none.
    absent: usize,
    sorter: Option<Sorter<K, V>>,
    /// Bytes and operations of the last launch.
    spent: BTreeMap<String, f64>,
    ms: f64,
    /// Free device memory before the map was built.
    free: usize,
    /// Source of the keys of each repetition, if they differ, and which batch after a move is timed.
    lookups: Option<Lookups<K>>,
    after: usize,
    logs_copies: bool,
}

/// Keys of a batch that is not timed.
const WARM: usize = 1 << 24;

impl<'a, K: MapWord + Word, V: MapWord + Word, M: Tiered<K, V>> Prepared<'a, K, V, M> {
    fn new(maps: &'a TieredMaps<'a>, case: &Case) -> Result<Self> {
        let gpu = maps.gpu;
        let is_lookup = case.op.starts_with("get");
        let (free, _) = gpu.device.memory()?;
        let is_sequence =
            case.params.get("keys").is_some_and(|keys| !["random", "zipf"].contains(&&*keys.to_string()));
        let pairs = size(case, "pairs", case.n as usize)?;
        let mut keys = keys::<K>(case, pairs as u64)?;
        let map = if is_lookup && !is_sequence {
            maps.filled::<K, V, M>(case, pairs)?
        } else {
            maps.filled.replace(None);
            Rc::new(RefCell::new(build(gpu, case)?))
        };
        let is_count = case.op == "count";
        let values = parallel::map(&keys, |&key| if is_count { V::truncate(1) } else { value_of(key) });
        if is_lookup && is_sequence {
            fill(&*map.borrow(), &keys, &values)?;
        }
        let absent = if case.op == "get" { size(case, "absent", 0)? } else { 0 };
        if absent > 0 {
            ensure!(is_sequence, "`absent` needs the keys of a sequence, which are all in the map");
            replace_by_absent(&mut keys, absent, case.seed)?;
        }
        let batch = size(case, "batch", keys.len())?.clamp(1, keys.len().max(1));
        let is_sorted = case.op == "insert" && size(case, "sorted", 0)? > 0;
        let is_redrawn = case.op == "get" && size(case, "redraw", 0)? > 0;
        let first = (maps.cases.replace(maps.cases.get() + 1) + 1) << 20;
        let mut lookups = if is_redrawn { Some(Lookups::new(case, pairs as u64, first)?) } else { None };
        if let Some(source) = &mut lookups {
            maps.warm_up(case, &*map.borrow(), source)?;
        }
        Ok(Self {
            gpu,
            op: case.op.clone(),
            lookups,
            after: size(case, "after", 1)?,
            logs_copies: size(case, "log_copies", 0)? > 0,
            map,
            distinct: if is_lookup { 0 } else { distinct(&keys) },
            batch,
            absent,
            sorter: if is_sorted { Some(Sorter::new(gpu, batch)?) } else { None },
            outcomes: Pinned::of(gpu, &vec![0; keys.len()])?,
            keys: Pinned::of(gpu, &keys)?,
            values: Pinned::of(gpu, &values)?,
            spent: BTreeMap::new(),
            ms: 0.0,
            free,
        })
    }

    /// Makes the calls that are timed.
    fn call(&mut self) -> Result<()> {
        let (map, keys, batch) = (self.map.borrow(), self.keys.0.as_slice()?, self.batch);
        let outcomes = self.outcomes.0.as_mut_slice()?;
        match self.op.as_str() {
            "insert" => {
                let values = self.values.0.as_slice()?.chunks(batch);
                for ((keys, values), outcomes) in
                    keys.chunks(batch).zip(values).zip(outcomes.chunks_mut(batch))
                {
                    match &mut self.sorter {
                        Some(sorter) => sorter.insert(&*map, keys, values, outcomes)?,
                        None => map.insert_into(keys, values, outcomes)?,
                    }
                }
            }
            "count" => {
                let mut calls = keys.chunks(batch).zip(self.values.0.as_slice()?.chunks(batch));
                calls.try_for_each(|(keys, values)| map.add(keys, values))?;
            }
            "remove" => {
                let mut calls = keys.chunks(batch).zip(outcomes.chunks_mut(batch));
                calls.try_for_each(|(keys, outcomes)| map.remove_into(keys, outcomes))?;
            }
            _ => {
                let (found, len) = (outcomes.as_mut_ptr().cast::<bool>(), outcomes.len());
                // SAFETY: `restore` has written zeros, which are booleans, as are those that the call writes.
                let found = unsafe { std::slice::from_raw_parts_mut(found, len) };
                let results = self.values.0.as_mut_slice()?.chunks_mut(batch).zip(found.chunks_mut(batch));
                let mut calls = keys.chunks(batch).zip(results);
                calls.try_for_each(|(keys, (values, found))| map.get_into(keys, values, found))?;
            }
        }
        Ok(())
    }

    /// Checks the results of a lookup.
    fn verify_values(&self) -> Result<Verified> {
        let (keys, values) = (self.keys.0.as_slice()?, self.values.0.as_slice()?);
        let (found, is_get, absent) = (self.outcomes.0.as_slice()?, self.op == "get", self.absent);
        let is_there = |place: usize| is_get && !(place + 1).is_multiple_of(absent);
        let wrong = parallel::first(keys.len(), |place| {
            found[place] != u8::from(is_there(place))
                || is_there(place) && values[place] != value_of(keys[place])
        });
        if let Some(place) = wrong {
            bail!("lookup {place} of {:?} has {} and {:?}", keys[place], found[place], values[place]);
        }
        let succeeded = parallel::count(keys.len(), is_there);
        Ok(Verified { compared: keys.len() as u64, succeeded: succeeded as u64 })
    }

    /// Checks the count of each key.
    fn verify_counts(&self) -> Result<Verified> {
        let (keys, counts) = counts(self.keys.0.as_slice()?);
        let map = self.map.borrow();
        ensure!(map.len() == keys.len(), "{} keys are counted, not {}", map.len(), keys.len());
        let (mut values, mut found) = (vec![V::default(); keys.len()], vec![false; keys.len()]);
        map.get_into(&keys, &mut values, &mut found)?;
        let wrong =
            parallel::first(keys.len(), |place| !found[place] || values[place] != V::truncate(counts[place]));
        ensure!(wrong.is_none(), "the key {:?} has a wrong count", wrong.map(|place| keys[place]));
        Ok(Verified::all(self.keys.0.len()))
    }

    /// Checks the outcomes of a change: each key has exactly one element with `first`, and the map's pairs.
    fn verify_outcomes(&self, first: Outcome, others: Outcome) -> Result<Verified> {
        let outcomes = self.outcomes.0.as_slice()?;
        let count =
            |wanted: Outcome| parallel::count(outcomes.len(), |place| outcomes[place] == wanted as u8) as u64;
        let (firsts, rest) = (count(first), count(others));
        let len = outcomes.len() as u64;
        ensure!(
            firsts == self.distinct && firsts + rest == len,
            "{firsts} of {len} elements are {first:?} and {rest} {others:?}, but {} keys are distinct",
            self.distinct
        );
        let map = self.map.borrow();
        let left = if first == Outcome::Inserted { self.distinct } else { 0 };
        ensure!(map.len() as u64 == left, "the map has {} pairs, not {left}", map.len());
        let keys = self.keys.0.as_slice()?;
        let (mut values, mut found) =
            (vec![V::default(); FILL.min(keys.len())], vec![false; FILL.min(keys.len())]);
        for part in keys.chunks(FILL) {
            let (values, found) = (&mut values[..part.len()], &mut found[..part.len()]);
            map.get_into(part, values, found)?;
            let is_wrong = |place: usize| {
                found[place] != (left > 0) || left > 0 && values[place] != value_of(part[place])
            };
            let wrong = parallel::first(part.len(), is_wrong);
            ensure!(wrong.is_none(), "the key {:?} has the wrong value", wrong.map(|place| part[place]));
        }
        Ok(Verified::all(keys.len()))
    }
}

/// Sorts batches on the device before they are inserted.
struct Sorter<K, V> {
    on_device: (Buffer<K>, Buffer<V>),
    work: Workspace,
    sorted: (Pinned<K>, Pinned<V>),
}

impl<K: MapWord, V: MapWord> Sorter<K, V> {
    fn new(gpu: &Gpu, batch: usize) -> Result<Self> {
        let device = &gpu.device;
        let pinned = (device.buffer_on(Tier::Pinned, batch)?, device.buffer_on(Tier::Pinned, batch)?);
        Ok(Self {
            on_device: (device.buffer(batch)?, device.buffer(batch)?),
            work: Workspace::on_device(device, sort_bytes::<K, V>(batch))?,
            sorted: (Pinned(pinned.0), Pinned(pinned.1)),
        })
    }

    /// Inserts a batch in key order. The outcomes are in that order, too.
    fn insert(
        &mut self,
        map: &impl Tiered<K, V>,
        keys: &[K],
        values: &[V],
        outcomes: &mut [u8],
    ) -> Result<()> {
        let (len, device) = (keys.len(), &mut self.on_device);
        device.0.slice_mut(..len)?.write(keys)?;
        device.1.slice_mut(..len)?.write(values)?;
        self.work.sort_pairs_in_place(device.0.slice_mut(..len)?, device.1.slice_mut(..len)?, Bits::ALL)?;
        let sorted =
            (&mut self.sorted.0.0.as_mut_slice()?[..len], &mut self.sorted.1.0.as_mut_slice()?[..len]);
        device.0.slice(..len)?.read_into(0, sorted.0)?;
        device.1.slice(..len)?.read_into(0, sorted.1)?;
        Ok(map.insert_into(sorted.0, sorted.1, outcomes)?)
    }
}

/// Looks up batches of keys without a check.
fn look_up<K: MapWord + Word, V: MapWord>(
    gpu: &Gpu,
    map: &impl Tiered<K, V>,
    source: &mut Lookups<K>,
    (batches, n): (usize, usize),
) -> Result<()> {
    if batches == 0 {
        return Ok(());
    }
    let mut keys = Pinned::of(gpu, &vec![K::default(); n])?;
    let (mut values, mut found) = (Pinned::of(gpu, &vec![V::default(); n])?, vec![false; n]);
    for _ in 0..batches {
        keys.0.as_mut_slice()?.copy_from_slice(&source.next(n));
        map.get_into(keys.0.as_slice()?, values.0.as_mut_slice()?, &mut found)?;
    }
    Ok(())
}

/// Returns the bytes and operations between two moments.
fn spent(before: Traffic, after: Traffic) -> BTreeMap<String, f64> {
    let spent = [
        ("copied_in", after.copied_in - before.copied_in),
        ("copied_out", after.copied_out - before.copied_out),
        ("on_device", after.on_device - before.on_device),
        ("in_place", after.in_place - before.in_place),
        ("resident", after.resident - before.resident),
        ("hot_lookups", after.hot_lookups - before.hot_lookups),
        ("hot_hits", after.hot_hits - before.hot_hits),
    ];
    spent.into_iter().map(|(name, count)| (name.to_owned(), count as f64)).collect()
}

/// Returns the bytes and times of copies in `ms` milliseconds.
fn copied(times: CopyTimes, ms: f64) -> BTreeMap<String, f64> {
    let of = |way: &str, time: gpu::CopyTime| {
        let rate = if time.busy_ms > 0.0 { time.bytes as f64 / time.busy_ms / 1e6 } else { 0.0 };
        [
            (format!("bytes_{way}"), time.bytes as f64),
            (format!("busy_{way}"), time.busy_ms / ms),
            (format!("{way}_gb_s"), rate),
        ]
    };
    of("up", times.up).into_iter().chain(of("down", times.down)).collect()
}

/// Inserts pairs.
fn fill<K, V>(map: &impl Tiered<K, V>, keys: &[K], values: &[V]) -> Result<()> {
    let mut outcomes = vec![0; FILL.min(keys.len())];
    for (keys, values) in keys.chunks(FILL).zip(values.chunks(FILL)) {
        map.insert_into(keys, values, &mut outcomes[..keys.len()])?;
    }
    Ok(())
}

impl TieredMaps<'_> {
    /// Looks up keys of a skewed distribution, unless the last case has had the same one on the same map.
    fn warm_up<K: MapWord + Word, V: MapWord>(
        &self,
        case: &Case,
        map: &impl Tiered<K, V>,
        source: &mut Lookups<K>,
    ) -> Result<()> {
        let warm = size(case, "warm", 0)?;
        let name = match (&source.zipf, &*self.filled.borrow()) {
            (Some(zipf), Some((map, _))) => format!("{map} {zipf:?} {warm}"),
            _ => String::new(),
        };
        if self.warmed.replace(name.clone()) != name {
            look_up(self.gpu, map, source, (warm.div_ceil(WARM), warm.min(WARM)))?;
        }
        Ok(())
    }

    /// Returns a map with the first `pairs` keys: the last one, if it was built with the same parameters.
    fn filled<K: MapWord + Word, V: MapWord + Word, M: Tiered<K, V>>(
        &self,
        case: &Case,
        pairs: usize,
    ) -> Result<Rc<RefCell<M>>> {
        let placement = placement(case)?;
        let mut params = case.params.clone();
        let of_lookups = ["keys", "theta", "redraw", "warm", "moved", "after", "log_copies"];
        let own = |name: &str| of_lookups.contains(&name) || name == "placement" && !placement.is_flat();
        params.retain(|name, _| !own(name));
        let key = format!("{params:?} {} {} {pairs} {}", case.key_bits, case.variant, case.seed);
        let last = self.filled.borrow().as_ref().filter(|(last, _)| *last == key).map(|(_, map)| map.clone());
        let map: Rc<RefCell<M>> = match last {
            Some(map) => map.downcast().ok().context("the key names the types")?,
            None => {
                self.filled.replace(None);
                let case = Case { n: pairs as u64, ..case.clone() };
                let map: M = build(self.gpu, &case)?;
                let unique = UniqueKeys::<K>::new(case.seed);
                for first in (0..pairs).step_by(FILL) {
                    let len = FILL.min(pairs - first);
                    let keys: Vec<K> = tabulate(len, |index| unique.at(first as u64 + index));
                    let values: Vec<V> = parallel::map(&keys, |&key| value_of(key));
                    fill(&map, &keys, &values)?;
                }
                ensure!(map.len() == pairs, "the map has {} pairs, not {pairs}", map.len());
                let map = Rc::new(RefCell::new(map));
                self.filled.replace(Some((key, map.clone())));
                map
            }
        };
        map.borrow_mut().set_placement(placement);
        Ok(map)
    }
}

impl<K: MapWord + Word, V: MapWord + Word, M: Tiered<K, V>> Benchmark for Prepared<'_, K, V, M> {
    fn restore(&mut self) -> Result<()> {
        let n = self.keys.0.len();
        if let Some(source) = &mut self.lookups {
            if source.moved > 0 {
                source.move_hot_keys();
                look_up(self.gpu, &*self.map.borrow(), source, (self.after - 1, n))?;
            }
            self.keys.0.as_mut_slice()?.copy_from_slice(&source.next(n));
        }
        let mut map = self.map.borrow_mut();
        match self.op.as_str() {
            "insert" | "count" => map.clear()?,
            "remove" => {
                map.clear()?;
                fill(&*map, self.keys.0.as_slice()?, self.values.0.as_slice()?)?;
            }
            _ => self.values.0.as_mut_slice()?.par_iter_mut().for_each(|value| *value = V::default()),
        }
        self.outcomes.0.as_mut_slice()?.par_iter_mut().for_each(|outcome| *outcome = 0);
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        let log = if self.logs_copies { Some(self.gpu.device.log_copies()?) } else { None };
        let (before, start) = (self.map.borrow().traffic(), Instant::now());
        self.call()?;
        self.ms = start.elapsed().as_secs_f64() * 1e3;
        self.spent = spent(before, self.map.borrow().traffic());
        if let Some(log) = log {
            self.spent.extend(copied(log.finish()?, self.ms));
        }
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        let [budget, _, peak, _] = self.map.borrow().sizes();
        ensure!(peak <= budget, "the budget was exceeded");
        match self.op.as_str() {
            "insert" => self.verify_outcomes(Outcome::Inserted, Outcome::Replaced),
            "remove" => self.verify_outcomes(Outcome::Removed, Outcome::Absent),
            "count" => self.verify_counts(),
            _ => self.verify_values(),
        }
    }

    fn operations(&self) -> u64 {
        self.keys.0.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let map = self.map.borrow();
        let [budget, least, peak, host] = map.sizes();
        let (costs, free) = (map.costs(), self.gpu.device.memory().map_or(0, |(free, _)| free));
        let counted = [
            ("budget", budget as f64),
            ("min_budget", least as f64),
            ("shards", map.parts() as f64),
            ("chunk", map.chunk() as f64),
            ("hot_capacity", map.hot_capacity() as f64),
            ("access_ns", costs.access_ns),
            ("copy_gb_s", costs.copy_rate),
            ("free_memory_fell_by", self.free.saturating_sub(free) as f64),
        ];
        let mut all = self.spent.clone();
        let off_bus = ["hot_hits", "resident"].iter().filter_map(|name| all.get(*name)).sum::<f64>();
        all.insert("off_bus".to_owned(), off_bus / self.keys.0.len().max(1) as f64);
        all.extend(counted.map(|(name, count)| (name.to_owned(), count)));
        vec![Metric::TableBytes(host as u64), Metric::PeakBytes(peak as u64), Metric::Counted(all)]
    }
}
