//! Execution of a [`Plan`] on a table.
use super::items::{Key, Numbered, Value};
use super::plan::{NONE, Plan, Step};
use super::table::{Elements, Table, Verb, cache_share};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use crate::subjects::driver::UNWRITTEN;
use anyhow::{Result, bail, ensure};
use gpu::Buffer;
use phalanx_kernels::keyed::Outcome;
use std::collections::{BTreeMap, HashSet};
use std::time::Instant;
use workloads::parallel;

/// Pairs that are loaded or checked at once.
const PART: usize = 1 << 20;

/// Insertions of which one may be refused, for want of a slot among those of its key.
const REFUSALS: usize = 1000;

/// Prepared case.
pub struct Run<'a, K, V, T> {
    gpu: &'a Gpu,
    table: T,
    plan: Plan,
    numbered: Numbered,
    device: OnDevice<K, V>,
    /// Whether the host waits for each batch.
    waits: bool,
    /// Share of the capacity that the pairs fill after the operations, if the case says so.
    load: Option<f64>,
    is_loaded: bool,
    /// Whether the table has a cache that is filled after a launch of the lookups.
    has_cache: bool,
    /// Cache hits and misses before the last launch, and during it.
    hits: [[u64; 2]; 2],
    /// Milliseconds of each batch, if the host waits.
    ms: Vec<f64>,
    refused: HashSet<u32>,
    filled: f64,
}

/// Elements on the device.
struct OnDevice<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    results: Buffer<V>,
    outcomes: Buffer<u8>,
}

impl<K: Key, V: Value> OnDevice<K, V> {
    fn new(gpu: &Gpu, plan: &Plan, numbered: &Numbered) -> Result<Self> {
        let len = plan.numbers.len();
        let word = |index: usize| numbered.word(plan.numbers[index]);
        let has = |is: &dyn Fn(Verb) -> bool| plan.batches.iter().flatten().any(|step| is(step.verb));
        let written = if has(&Verb::writes_values) { len } else { 0 };
        let read = if has(&|verb| verb == Verb::Get) { len } else { 0 };
        let values = parallel::tabulate(written, |index| V::of(word(index), plan.versions[index]));
        Ok(Self {
            keys: gpu.device.from_slice(&parallel::tabulate(len, |index| K::of(word(index))))?,
            values: gpu.device.from_slice(&values)?,
            results: gpu.device.zeroed(read)?,
            outcomes: gpu.device.filled(len, UNWRITTEN)?,
        })
    }

    /// Returns the elements of a step.
    fn elements(&mut self, step: &Step) -> Result<Elements<'_, K, V>> {
        let Step { verb, elements } = step;
        let used = |is_used: bool| if is_used { elements.clone() } else { 0..0 };
        Ok(Elements {
            keys: self.keys.slice(elements.clone())?,
            values: self.values.slice(used(verb.writes_values()))?,
            results: self.results.slice_mut(used(*verb == Verb::Get))?,
            outcomes: self.outcomes.slice_mut(elements.clone())?,
        })
    }
}

impl<'a, K: Key, V: Value, T: Table<K, V>> Run<'a, K, V, T> {
    /// Creates the inputs. `make` creates the table for a number of pairs.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid, or the machine lacks the memory.
    pub fn new(gpu: &'a Gpu, case: &Case, make: impl Fn(usize) -> Result<T>) -> Result<Self> {
        let (plan, numbered) = (Plan::new(case)?, Numbered::new(case.seed));
        let table = make((plan.before as usize).max(plan.left.len()))?;
        Ok(Self {
            gpu,
            device: OnDevice::new(gpu, &plan, &numbered)?,
            table,
            plan,
            numbered,
            waits: case.number_if_given("batch")?.is_some(),
            load: case.number_if_given("load")?,
            is_loaded: false,
            has_cache: cache_share(case)?.is_some(),
            hits: [[0; 2]; 2],
            ms: Vec::new(),
            refused: HashSet::new(),
            filled: 0.0,
        })
    }

    /// Fills the table with the pairs that are there before.
    fn load(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_loaded, true) {
            if self.plan.before > 0 && self.table.reuses_slots() {
                return self.undo();
            }
            self.table.clear()?;
        }
        load(&mut self.table, &self.numbered, self.plan.before)
    }

    /// Fills the cache with the pairs that the plan's lookups read.
    fn warm_up(&mut self) -> Result<()> {
        for step in self.plan.batches.iter().flatten().filter(|step| step.verb == Verb::Get) {
            self.table.submit(&self.gpu.stream, step.verb, self.device.elements(step)?)?;
        }
        self.gpu.device.synchronize()?;
        self.table.refresh()
    }

    /// Undoes the changes of the last launch.
    fn undo(&mut self) -> Result<()> {
        let Self { gpu, table, plan, numbered, refused, .. } = self;
        let numbers = 0..plan.left.len() as u32;
        let changed: Vec<(u32, Verb)> = numbers
            .filter(|number| !refused.contains(number))
            .filter_map(|number| match (plan.first_version(number), plan.left[number as usize]) {
                (first, left) if first == left => None,
                (NONE, _) => Some((number, Verb::Remove)),
                (_, NONE) => Some((number, Verb::Insert)),
                _ => Some((number, Verb::Update)),
            })
            .collect();
        for verb in [Verb::Remove, Verb::Update, Verb::Insert] {
            let of_verb = changed.iter().filter(|(_, other)| *other == verb);
            let numbers: Vec<u32> = of_verb.map(|(number, _)| *number).collect();
            numbers.chunks(PART).try_for_each(|part| change(gpu, table, numbered, verb, part))?;
        }
        let len = table.len()?;
        ensure!(len == plan.before as usize, "the table has {len} pairs, not {}", plan.before);
        Ok(())
    }

    /// Checks the results of each element. Returns how many found or changed something.
    fn check_results(&mut self) -> Result<usize> {
        let (outcomes, results) = (self.device.outcomes.read()?, self.device.results.read()?);
        let Self { plan, numbered, refused, .. } = self;
        let is = |index: usize, outcome: Outcome| outcomes[index] == outcome as u8;
        let refusals = (0..outcomes.len()).filter(|&index| is(index, Outcome::Refused));
        *refused = refusals.map(|index| plan.numbers[index]).collect();
        let is_right = |index: usize| {
            let (number, version) = (plan.numbers[index], plan.versions[index]);
            let is_absent = version == NONE || refused.contains(&number);
            match plan.verbs[index] {
                Verb::Get if is_absent => is(index, Outcome::Absent),
                Verb::Get => is(index, Outcome::Found) && results[index].is(numbered.word(number), version),
                Verb::Insert => is(index, Outcome::Inserted) || is(index, Outcome::Refused),
                Verb::Update => is(index, Outcome::Replaced),
                Verb::Remove => is(index, Outcome::Removed),
            }
        };
        if let Some(index) = parallel::first(outcomes.len(), |index| !is_right(index)) {
            let (verb, number) = (plan.verbs[index], plan.numbers[index]);
            bail!("element {index}, {verb:?} of key {number}, has {:?}", Outcome::from_code(outcomes[index]));
        }
        let most = plan.operations / REFUSALS;
        ensure!(refused.len() <= most, "{} keys were refused", refused.len());
        let fails = |index: usize| is(index, Outcome::Absent) || is(index, Outcome::Refused);
        Ok(parallel::count(outcomes.len(), |index| !fails(index)))
    }

    /// Checks the value of every number that is or was in the table.
    fn check_contents(&mut self) -> Result<()> {
        let expected = |number: u32| match self.plan.left[number as usize] {
            version if version != NONE && !self.refused.contains(&number) => Some(version),
            _ => None,
        };
        let numbers = 0..self.plan.left.len() as u32;
        check_contents(self.gpu, &mut self.table, &self.numbered, numbers, &expected)
    }

    /// Checks that the table is as full as the case says.
    fn check_fill(&mut self) -> Result<()> {
        let Some(capacity) = self.table.capacity() else { return Ok(()) };
        let planned = self.plan.left.len() as f64 / capacity as f64;
        self.filled = self.table.len()? as f64 / capacity as f64;
        // Small tables have a little more room than asked for.
        let tolerance = 0.01 + 64.0 / capacity as f64;
        let is_right = self.load.is_none_or(|load| (planned - load).abs() < tolerance);
        ensure!(is_right, "the pairs fill {planned:.3} of the table, not {:?}", self.load);
        Ok(())
    }
}

/// Inserts the pairs with numbers below `before`, at version 0.
///
/// # Errors
/// Returns [`anyhow::Error`] when a pair finds no room or the device fails.
pub fn load<K: Key, V: Value>(table: &mut impl Table<K, V>, numbered: &Numbered, before: u32) -> Result<()> {
    for first in (0..before as usize).step_by(PART) {
        let word = |index: usize| numbered.word((first + index) as u32);
        let len = PART.min(before as usize - first);
        let keys = parallel::tabulate(len, |index| K::of(word(index)));
        let values = parallel::tabulate(len, |index| V::of(word(index), 0));
        table.load(&keys, &values)?;
    }
    let len = table.len()?;
    ensure!(len == before as usize, "the table has {len} pairs, not {before}");
    Ok(())
}

/// Removes keys, or gives them version 0.
fn change<K: Key, V: Value>(
    gpu: &Gpu,
    table: &mut impl Table<K, V>,
    numbered: &Numbered,
    verb: Verb,
    numbers: &[u32],
) -> Result<()> {
    let (device, word) = (&gpu.device, |index: usize| numbered.word(numbers[index]));
    let keys = parallel::tabulate(numbers.len(), |index| K::of(word(index)));
    let written = if verb.writes_values() { numbers.len() } else { 0 };
    let values = parallel::tabulate(written, |index| V::of(word(index), 0));
    if verb == Verb::Insert {
        return table.load(&keys, &values);
    }
    let (keys, values) = (device.from_slice(&keys)?, device.from_slice(&values)?);
    let mut outcomes = device.filled(numbers.len(), UNWRITTEN)?;
    let mut results = device.buffer::<V>(0)?;
    let (results, codes) = (results.slice_mut(..)?, outcomes.slice_mut(..)?);
    let elements = Elements { keys: keys.slice(..)?, values: values.slice(..)?, results, outcomes: codes };
    table.submit(&gpu.stream, verb, elements)?;
    Ok(gpu.stream.synchronize()?)
}

/// Checks which numbers are in the table, and their versions.
///
/// # Errors
/// Returns [`anyhow::Error`] with the first number that is wrong.
pub fn check_contents<K: Key, V: Value>(
    gpu: &Gpu,
    table: &mut impl Table<K, V>,
    numbered: &Numbered,
    numbers: std::ops::Range<u32>,
    expected: &(dyn Fn(u32) -> Option<u32> + Sync),
) -> Result<()> {
    for first in numbers.clone().step_by(PART) {
        let word = |index: usize| numbered.word(first + index as u32);
        let len = PART.min((numbers.end - first) as usize);
        let keys = gpu.device.from_slice(&parallel::tabulate(len, |index| K::of(word(index))))?;
        let values = gpu.device.buffer::<V>(0)?;
        let mut results = gpu.device.zeroed::<V>(len)?;
        let mut outcomes = gpu.device.filled(len, UNWRITTEN)?;
        let elements = Elements {
            keys: keys.slice(..)?,
            values: values.slice(..)?,
            results: results.slice_mut(..)?,
            outcomes: outcomes.slice_mut(..)?,
        };
        table.submit(&gpu.stream, Verb::Get, elements)?;
        gpu.stream.synchronize()?;
        let (found, codes) = (results.read()?, outcomes.read()?);
        let is_right = |index: usize| match expected(first + index as u32) {
            Some(version) => codes[index] == Outcome::Found as u8 && found[index].is(word(index), version),
            None => codes[index] == Outcome::Absent as u8,
        };
        if let Some(index) = parallel::first(len, |index| !is_right(index)) {
            let number = first + index as u32;
            bail!("key {number} is {:?}, not at version {:?}", codes[index], expected(number));
        }
    }
    Ok(())
}

impl<K: Key, V: Value, T: Table<K, V>> Benchmark for Run<'_, K, V, T> {
    fn restore(&mut self) -> Result<()> {
        let is_new = !self.is_loaded;
        if self.plan.changes() || is_new {
            self.load()?;
        }
        if self.has_cache && (is_new || self.plan.before == 0) {
            self.warm_up()?;
        }
        self.hits[0] = self.table.cache_hits()?;
        self.ms.clear();
        self.device.results.fill_bytes(0)?;
        self.device.outcomes.fill_bytes(UNWRITTEN)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        for batch in &self.plan.batches {
            let start = Instant::now();
            for step in batch {
                self.table.submit(&self.gpu.stream, step.verb, self.device.elements(step)?)?;
            }
            if self.waits {
                self.gpu.stream.synchronize()?;
                self.ms.push(start.elapsed().as_secs_f64() * 1e3);
            }
        }
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        self.waits.then(|| self.ms.iter().sum())
    }

    fn verify(&mut self) -> Result<Verified> {
        let (before, after) = (self.hits[0], self.table.cache_hits()?);
        self.hits[1] = std::array::from_fn(|index| after[index].saturating_sub(before[index]));
        let succeeded = self.check_results()?;
        if self.plan.changes() {
            self.check_contents()?;
        }
        self.check_fill()?;
        Ok(Verified { compared: self.plan.numbers.len() as u64, succeeded: succeeded as u64 })
    }

    fn operations(&self) -> u64 {
        self.plan.operations as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let [device, host] = self.table.memory_usage();
        let mut counted = BTreeMap::from([
            ("refused", self.refused.len() as f64),
            ("load", self.filled),
            ("device_bytes", device as f64),
            ("host_bytes", host as f64),
        ]);
        let [hits, misses] = self.hits[1];
        if hits + misses > 0 {
            counted.insert("hit_rate", 100.0 * hits as f64 / (hits + misses) as f64);
        }
        let mut metrics = vec![Metric::TableBytes((device + host) as u64)];
        if self.waits {
            counted.insert("batch_us", quantile(&self.ms, 0.5) * 1e3);
            metrics.push(Metric::P99(quantile(&self.ms, 0.99)));
        }
        metrics.push(named(counted));
        metrics
    }
}

/// Returns counters as a metric.
pub fn named(counted: BTreeMap<&str, f64>) -> Metric {
    Metric::Counted(counted.into_iter().map(|(name, count)| (name.to_owned(), count)).collect())
}

/// Returns the value below which a share of the values lies; 0 of none.
pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let index = ((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::super::host_map::HostMap;
    use super::super::table::builder;
    use super::super::undo_log::LoggedLists;
    use super::*;
    use crate::engine::record::Param;
    use crate::machine::DeviceChoice;
    use gpu::Stream;
    use phalanx::PersistentMap;

    type Word = [u64; 1];

    /// Table that executes no operation of a verb, but answers as if it had.
    struct Mute<T>(T, Option<(Verb, Outcome)>);

    impl<T: Table<Word, Word>> Table<Word, Word> for Mute<T> {
        fn submit(&mut self, stream: &Stream, verb: Verb, elements: Elements<'_, Word, Word>) -> Result<()> {
            match self.1 {
                Some((mute, outcome)) if mute == verb => {
                    let mut outcomes = elements.outcomes;
                    Ok(outcomes.fill_bytes(outcome as u8)?)
                }
                _ => self.0.submit(stream, verb, elements),
            }
        }

        fn load(&mut self, keys: &[Word], values: &[Word]) -> Result<()> {
            self.0.load(keys, values)
        }

        fn reuses_slots(&self) -> bool {
            self.0.reuses_slots()
        }

        fn clear(&mut self) -> Result<()> {
            self.0.clear()
        }

        fn len(&self) -> Result<usize> {
            self.0.len()
        }

        fn capacity(&self) -> Option<usize> {
            self.0.capacity()
        }

        fn memory_usage(&self) -> [usize; 2] {
            self.0.memory_usage()
        }
    }

    fn case(op: &str) -> Case {
        let params = [("pairs", 150.0), ("theta", 0.9), ("batch", 25.0), ("threads", 2.0)];
        let params = params.map(|(name, value)| (name.to_owned(), Param::Number(value))).into();
        let (op, variant) = (op.to_owned(), "default".to_owned());
        Case { op, variant, n: 100, seed: 5, key_bits: 64, value_bits: 64, params, ..Case::default() }
    }

    /// Runs two repetitions. Returns the last result.
    fn repetitions<T: Table<Word, Word>>(
        gpu: &Gpu,
        case: &Case,
        mute: Option<(Verb, Outcome)>,
        make: &dyn Fn(usize) -> Result<T>,
    ) -> Result<Verified> {
        let mut run = Run::new(gpu, case, |pairs| Ok(Mute(make(pairs)?, mute)))?;
        let mut repeat = || -> Result<Verified> {
            run.restore()?;
            run.launch()?;
            gpu.device.synchronize()?;
            run.verify()
        };
        repeat()?;
        repeat()
    }

    /// Calls `test` with each table.
    fn with_tables(test: impl Fn(&str, Option<(Verb, Outcome)>) -> [Result<Verified>; 3]) -> [bool; 3] {
        let faults: [(&str, Verb, Outcome); 4] = [
            ("get", Verb::Get, Outcome::Found),
            ("insert", Verb::Insert, Outcome::Inserted),
            ("update", Verb::Update, Outcome::Replaced),
            ("remove", Verb::Remove, Outcome::Removed),
        ];
        let mut are_found = [true; 3];
        for (op, verb, outcome) in faults {
            let results = test(op, Some((verb, outcome)));
            are_found.iter_mut().zip(results).for_each(|(is_found, result)| *is_found &= result.is_err());
        }
        are_found
    }

    #[test]
    fn operations_that_do_nothing_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let found = with_tables(|op, mute| {
            let case = case(op);
            let map = |pairs: usize| Ok(builder::<Word, Word>(&gpu, &case, pairs)?.build()?);
            [
                repetitions::<PersistentMap<Word, Word>>(&gpu, &case, mute, &map),
                repetitions(&gpu, &case, mute, &|pairs| LoggedLists::new(&gpu, &case, pairs)),
                repetitions(&gpu, &case, mute, &|pairs| HostMap::new(&gpu, &case, pairs)),
            ]
        });
        assert_eq!(found, [true; 3]);
    }

    #[test]
    fn every_table_executes_every_operation() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        for op in crate::subjects::persistent_map::plan::OPS {
            let case = case(op);
            let map = |pairs: usize| Ok(builder::<Word, Word>(&gpu, &case, pairs)?.build()?);
            let results = [
                repetitions::<PersistentMap<Word, Word>>(&gpu, &case, None, &map),
                repetitions(&gpu, &case, None, &|pairs| LoggedLists::new(&gpu, &case, pairs)),
                repetitions(&gpu, &case, None, &|pairs| HostMap::new(&gpu, &case, pairs)),
            ];
            let [first, ..] = results.map(|result| result.unwrap_or_else(|error| panic!("{op}: {error:#}")));
            assert_eq!(first.succeeded > 0, op != "get_missed", "{op}");
        }
    }

    #[test]
    fn a_table_filled_otherwise_than_the_case_says_is_a_fault() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut case = Case { n: 3000, params: Default::default(), ..case("get") };
        case.params.insert("load".to_owned(), Param::Number(0.5));
        let make = |load: f64| {
            let mut other = case.clone();
            other.params.insert("load".to_owned(), Param::Number(load));
            let map = |pairs: usize| Ok(builder::<Word, Word>(&gpu, &other, pairs)?.build()?);
            repetitions::<PersistentMap<Word, Word>>(&gpu, &case, None, &map)
        };
        assert_eq!(make(0.5).unwrap().succeeded, 3000);
        assert!(format!("{:#}", make(0.8).unwrap_err()).contains("of the table"));
    }
}
