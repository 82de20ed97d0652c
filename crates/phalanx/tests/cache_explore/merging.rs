//! Merging of equal keys by a hash table: schedules of its three kernels, compared with a model, and faults.
use crate::common::{Rng, replay, seeds};
use crate::world::{Finding, Setting};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::cache::merge::{
    ByKeys, CacheClaim, CacheNumber, CachePlace, ClaimTable, NUMBERED, Owners,
};
use phalanx_kernels::cache::{MOST_TABLES, Sections};
use phalanx_kernels::primitives::words::Words;
use simt::emulator::{Fault, Launch, Options, SiteId};
use std::collections::BTreeMap;

/// Number of seeds within which a fault must be found.
const SEEDS: u64 = 1000;

/// Elements of a batch for several tables, and the buffers of the kernels.
struct World {
    device: Device,
    keys: Vec<u64>,
    ends: Vec<u32>,
    typed: Buffer<u64>,
    slots: Buffer<u32>,
    /// Owners, other elements, lowest and highest indices, last places, order.
    words: [Buffer<u32>; 6],
    distinct: Buffer<u64>,
    counts: Buffer<u64>,
}

impl World {
    fn new(seed: u64, setting: &Setting) -> gpu::Result<Self> {
        let options = Options {
            stale_l1: true,
            weak_memory: setting.weak_memory,
            faults: setting.faults.clone(),
            step_limit: 1 << 20,
            ..Options::explore(setting.schedule.clone())
        };
        let (device, mut rng, mut end) = (Device::emulator(options), Rng::new(seed), 0);
        let tables = rng.pick(&[3, 3, MOST_TABLES]);
        let mut ends = Vec::new();
        for _ in 0..tables {
            // Some tables have several warps in the kernel that numbers keys, too.
            let most = if tables > 3 { 20 } else { rng.pick(&[50, 50, 300]) };
            end += rng.below(most) as u32;
            ends.push(end);
        }
        let range = rng.pick(&[1, 3, 20, 1000]);
        let keys: Vec<_> = (0..end).map(|_| rng.below(range)).collect();
        let len = keys.len();
        Ok(Self {
            ends,
            typed: device.from_slice(&keys)?,
            slots: device.zeroed((2 * len).next_power_of_two())?,
            words: [device.zeroed(len)?, device.zeroed(len)?, device.zeroed(len)?, device.zeroed(len)?]
                .into_iter()
                .chain([device.filled(len, 0xff)?, device.filled(len, 0xff)?])
                .collect::<Vec<_>>()
                .try_into()
                .expect("six"),
            distinct: device.zeroed(len)?,
            counts: device.zeroed(16)?,
            keys,
            device,
        })
    }

    /// Runs the kernels one after the other.
    fn run(&self) -> Result<(), Finding> {
        let sections = Sections::of(&self.ends);
        let [owners, others, lowest, highest, ends, order] =
            [0, 1, 2, 3, 4, 5].map(|index: usize| self.words[index].global());
        let found = Owners { owners, others, lowest, highest };
        let claims = ClaimTable { keys: self.typed.global(), slots: self.slots.global() };
        let by_keys = ByKeys { keys: self.distinct.global(), ends, order, counts: self.counts.global() };
        let grid = |each| Grid::new(sections.threads(each) as u32 / 32, 32);
        let emulator = self.device.emulator_handle().expect("an emulator");
        for launch in [
            Launch::new(grid(1), CacheClaim::<Words<u64>> { claims, found, sections }),
            Launch::new(grid(NUMBERED), CacheNumber::<Words<u64>> { claims, found, by_keys, sections }),
            Launch::new(grid(1), CachePlace { found, order, sections }),
        ] {
            emulator.launch_all(vec![launch]).map_err(Finding::Machine)?;
        }
        Ok(())
    }

    /// Compares the result with the batch.
    fn check(&self) -> Result<(), Finding> {
        let counts = self.counts.read().expect("memory");
        let distinct = self.distinct.read().expect("memory");
        let [ends, order] = [4, 5].map(|index: usize| self.words[index].read().expect("memory"));
        let mut first = 0;
        for (table, end) in self.ends.iter().map(|end| *end as usize).enumerate() {
            let mut model = BTreeMap::<u64, Vec<u32>>::new();
            for index in first..end {
                model.entry(self.keys[index]).or_default().push(index as u32);
            }
            let wrong = |text: String| Err(Finding::Wrong(format!("table {table}: {text}")));
            let (keys, places) = ((counts[table] >> 32) as usize, counts[table] as u32 as usize);
            if (keys, places) != (model.len(), end - first) {
                return wrong(format!(
                    "{keys} keys and {places} places, not {} and {}",
                    model.len(),
                    end - first
                ));
            }
            let mut place = first;
            for number in first..first + keys {
                let last = first + ends[number] as usize;
                let Some(mine) = order.get(place..=last) else {
                    return wrong(format!("places {place} to {last}"));
                };
                let mut sorted = mine.to_vec();
                sorted.sort_unstable();
                let is_right = model.remove(&distinct[number]).is_some_and(|expected| expected == sorted);
                if !is_right || (mine[0], mine[mine.len() - 1]) != (sorted[0], sorted[sorted.len() - 1]) {
                    return wrong(format!("the key {} has the elements {mine:?}", distinct[number]));
                }
                place = last + 1;
            }
            first = end;
        }
        Ok(())
    }
}

fn play(seed: u64, setting: &Setting) -> Result<(), Finding> {
    let world = World::new(seed, setting).expect("memory");
    world.run()?;
    world.check()
}

#[test]
fn equal_keys_are_merged() {
    for seed in seeds(300) {
        for weak in [false, true] {
            let result = play(seed, &Setting::new(seed, weak));
            result.unwrap_or_else(|finding| panic!("weak memory {weak}: {finding}\n{}", replay(seed)));
        }
    }
}

/// Requires that an operation in two steps is found, and replays it.
#[track_caller]
fn is_found_torn(function: &str, text: &str) {
    let site = SiteId::find("kernels-gpu/src/cache/merge.rs", function, text);
    let fault = Fault::tear(site.unwrap_or_else(|error| panic!("{error}")));
    let run = |seed| play(seed, &Setting { faults: vec![fault.clone()], ..Setting::new(seed, false) });
    let found = (0..SEEDS).find_map(|seed| run(seed).err().map(|finding| (seed, finding)));
    let (seed, finding) = found.unwrap_or_else(|| panic!("not found by {SEEDS} seeds: {fault}"));
    assert!(run(seed).expect_err("it replays").is_same(&finding), "{fault}: {finding}; {}", replay(seed));
    println!("{fault}: found by seed {seed}: {finding}");
}

/// A key has two owners.
#[test]
fn claims_in_two_steps_are_found() {
    is_found_torn("owner", "slot.compare_exchange");
}

/// A key gets too few places.
#[test]
fn elements_that_are_counted_in_two_steps_are_found() {
    is_found_torn("cache_claim", "found.others.at(place).fetch_add");
}

/// A later element counts as the first one of its key.
#[test]
fn first_elements_that_are_noted_in_two_steps_are_found() {
    is_found_torn("cache_claim", "found.lowest.at(place).fetch_max");
}

/// The row of an earlier element stays.
#[test]
fn last_elements_that_are_noted_in_two_steps_are_found() {
    is_found_torn("cache_claim", "found.highest.at(place).fetch_max");
}

/// Two keys get the same number.
#[test]
fn numbers_that_are_reserved_in_two_steps_are_found() {
    is_found_torn("reserve_places", "fetch_add(sum");
}

/// Two elements get the same place.
#[test]
fn places_that_are_taken_in_two_steps_are_found() {
    is_found_torn("cache_place", "fetch_add(same.count_ones()");
}
