//! Rates of the operations on a table of a given load: the timed batch, and the check of every result.
use super::addresses::Addresses;
use super::batch::{Batch, Keys};
use super::evictions::Evictions;
use super::inputs::RowOf;
use super::loaded::{Loaded, UNWRITTEN};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use gpu::Buffer;
use phalanx::cache_table::Rule;
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use workloads::parallel;

/// Timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Get,
    GetRef,
    Contains,
    GetAndTouch,
    Insert,
    InsertEvict,
    GetOrInsert,
    Assign,
    Accumulate,
    Remove,
}

/// Operations by their names.
pub const VERBS: &[(&str, Verb)] = &[
    ("get", Verb::Get),
    ("get_ref", Verb::GetRef),
    ("contains", Verb::Contains),
    ("get_and_touch", Verb::GetAndTouch),
    ("insert", Verb::Insert),
    ("insert_evict", Verb::InsertEvict),
    ("get_or_insert", Verb::GetOrInsert),
    ("assign", Verb::Assign),
    ("accumulate", Verb::Accumulate),
    ("remove", Verb::Remove),
];

impl Verb {
    /// Returns whether the operation places keys that are absent.
    fn places(self) -> bool {
        matches!(self, Self::Insert | Self::InsertEvict | Self::GetOrInsert | Self::Accumulate)
    }

    /// Returns whether the operation changes the table's keys or rows.
    fn changes(self) -> bool {
        self.places() || matches!(self, Self::Assign | Self::Remove)
    }

    /// Returns whether the operation takes rows.
    fn takes_rows(self) -> bool {
        self.places() || self == Self::Assign
    }

    /// Returns whether the operation returns rows.
    fn returns_rows(self) -> bool {
        matches!(self, Self::Get | Self::GetAndTouch | Self::GetOrInsert)
    }

    /// Returns the fraction of the batch's keys that are present, unless the case says otherwise.
    fn usual_hits(self) -> f64 {
        match self {
            Self::Insert | Self::InsertEvict => 0.0,
            Self::GetOrInsert | Self::Accumulate => 0.5,
            _ => 1.0,
        }
    }

    /// Returns the outcome for a key that is present.
    fn present(self) -> Outcome {
        match self {
            Self::Get | Self::GetRef | Self::Contains => Outcome::Found,
            Self::GetAndTouch | Self::GetOrInsert => Outcome::Found,
            Self::Insert | Self::InsertEvict | Self::Assign | Self::Accumulate => Outcome::Replaced,
            Self::Remove => Outcome::Removed,
        }
    }
}

/// Prepared case.
pub struct Rates<'a> {
    loaded: Loaded<'a>,
    verb: Verb,
    keys: Keys,
    hits: f64,
    seed: u64,
    batch: Batch,
    /// Keys of the batch on the device.
    asked: Buffer<u64>,
    /// Rows of the batch's elements, if the operation takes rows.
    given: Buffer<f32>,
    /// Output: rows.
    results: Buffer<f32>,
    /// Output: outcomes.
    outcomes: Buffer<u8>,
    /// Output: addresses of rows.
    addresses: Addresses,
    evictions: Evictions,
    /// Number of keys before the batch.
    len_before: usize,
    /// Number of keys that the last batch evicted.
    evicted: u64,
    is_prepared: bool,
}

impl<'a> Rates<'a> {
    /// Fills a table, and prepares the buffers of a batch.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing or do not fit each other.
    pub fn new(gpu: &'a Gpu, case: &Case, verb: Verb) -> Result<Self> {
        let (loaded, keys, n) = (Loaded::new(gpu, case)?, Keys::of(case)?, case.n as usize);
        let hits = case.number_if_given("hits")?.unwrap_or(verb.usual_hits());
        ensure!(loaded.table.rule() == Some(Rule::Lru), "rates are measured with the rule Lru");
        ensure!((0.0..=1.0).contains(&hits), "`hits` is {hits}; it must lie in 0..=1");
        let may_repeat = matches!(verb, Verb::Insert | Verb::InsertEvict);
        ensure!(keys.are_distinct() || may_repeat, "only insertions are measured with duplicate keys");
        let (device, row_len) = (&gpu.device, n * loaded.table.dim());
        let given = if verb.takes_rows() { loaded.inputs.rows(n, RowOf::Given) } else { Vec::new() };
        let results = if verb.returns_rows() || verb.changes() { row_len } else { 0 };
        let evicted = if verb == Verb::InsertEvict { n } else { 0 };
        Ok(Self {
            verb,
            keys,
            hits,
            seed: case.seed,
            batch: Batch::default(),
            asked: device.zeroed(n)?,
            given: device.from_slice(&given)?,
            results: device.zeroed(results)?,
            outcomes: device.filled(n, UNWRITTEN)?,
            addresses: Addresses::new(gpu, if verb == Verb::GetRef { n } else { 0 })?,
            evictions: Evictions::new(gpu, evicted, loaded.table.dim())?,
            len_before: 0,
            evicted: 0,
            is_prepared: false,
            loaded,
        })
    }

    /// Chooses the keys of the batch.
    fn choose(&mut self) -> Result<()> {
        let n = self.asked.len();
        let hits = (n as f64 * self.hits).round() as usize;
        let mut numbers = self.loaded.present(hits, self.seed)?;
        let first = self.loaded.numbers;
        numbers.extend(first..first + (n - hits) as u64);
        self.batch = Batch::new(numbers, self.keys, self.seed)?;
        self.asked.write(&self.loaded.inputs.keys(&self.batch.numbers))?;
        self.len_before = self.loaded.table.len()?;
        Ok(())
    }

    /// Resets the rows and the outcomes, and waits.
    fn forget(&mut self) -> Result<()> {
        self.results.fill_bytes(0xff)?;
        self.outcomes.fill_bytes(UNWRITTEN)?;
        Ok(self.loaded.gpu.device.synchronize()?)
    }

    fn is_hit(&self, index: usize) -> bool {
        self.batch.numbers[index] < self.loaded.numbers
    }

    /// Returns whether an outcome is right. A key that was present may have been evicted by another element
    /// before its own turn: it is then inserted again.
    fn is_right(&self, index: usize, outcome: Option<Outcome>) -> bool {
        let Some(outcome) = outcome else { return false };
        let is_first = self.batch.first(index) == index;
        match self.is_hit(index) {
            true if self.verb.places() && is_first && outcome == Outcome::Inserted => true,
            true => outcome == self.verb.present(),
            false if !self.verb.places() => outcome == Outcome::Absent,
            false => outcome == if is_first { Outcome::Inserted } else { self.verb.present() },
        }
    }

    /// Returns the source of the row that the operation returned.
    fn returned(&self, index: usize, outcome: Outcome) -> RowOf {
        match outcome {
            Outcome::Found => RowOf::Loaded(self.batch.numbers[index]),
            Outcome::Inserted => RowOf::Given(index as u64),
            _ => RowOf::Unwritten,
        }
    }

    /// Returns the source of the row that a key has after the batch.
    fn left(&self, index: usize, outcome: Outcome) -> RowOf {
        let number = self.batch.numbers[index];
        match (self.verb, outcome) {
            (Verb::Remove, _) | (_, Outcome::Absent) => RowOf::Unwritten,
            (Verb::GetOrInsert, Outcome::Found) => RowOf::Loaded(number),
            (Verb::Accumulate, Outcome::Replaced) => RowOf::Sum(number, index as u64),
            _ => RowOf::Given(self.batch.last(index) as u64),
        }
    }

    /// Checks rows, one for each element.
    fn check_rows(&self, what: &str, rows: &[f32], of: impl Fn(usize) -> RowOf + Sync) -> Result<()> {
        let dim = self.loaded.table.dim();
        let is_wrong = |(index, row): (usize, &[f32])| !self.loaded.inputs.is_row(of(index), row);
        match rows.par_chunks(dim).enumerate().position_first(is_wrong) {
            None => Ok(()),
            Some(index) => {
                let row = &rows[index * dim..(index + 1) * dim];
                bail!("element {index}: the row {what} is {row:?}, not {:?}", of(index))
            }
        }
    }

    /// Checks the outcomes.
    fn judge(&self, outcomes: &[Option<Outcome>]) -> Result<()> {
        let wrong = parallel::first(outcomes.len(), |index| !self.is_right(index, outcomes[index]));
        let Some(index) = wrong else { return Ok(()) };
        let hit = if self.is_hit(index) { "present" } else { "absent" };
        bail!("element {index}, {:?} of a key that was {hit}, answered {:?}", self.verb, outcomes[index])
    }

    /// Checks the number of keys after the batch. Returns the number of evictions.
    fn count(&self, outcomes: &[Outcome]) -> Result<u64> {
        let number_of = |of: Outcome| parallel::count(outcomes.len(), |index| outcomes[index] == of);
        let (inserted, removed) = (number_of(Outcome::Inserted), number_of(Outcome::Removed));
        let (before, after) = (self.len_before, self.loaded.table.len()?);
        let evicted = (before + inserted).checked_sub(after + removed);
        let evicted = evicted.with_context(|| {
            format!("{before} keys, {inserted} inserted, {removed} removed: {after} keys are too many")
        })?;
        let is_again = |index: usize| self.is_hit(index) && outcomes[index] == Outcome::Inserted;
        let again = parallel::count(outcomes.len(), is_again);
        ensure!(again <= evicted, "{again} present keys were inserted, but {evicted} were evicted");
        ensure!(evicted <= inserted, "{inserted} insertions evicted {evicted} keys");
        Ok(evicted as u64)
    }

    /// Looks the keys of the batch up after it, and compares their rows.
    fn verify_after(&mut self, outcomes: &[Outcome]) -> Result<()> {
        self.forget()?;
        let Self { loaded, asked, results, outcomes: codes, .. } = self;
        loaded.table.on(&loaded.gpu.stream).get(&*asked, &mut *results, &mut *codes)?;
        let (found, rows) = (self.outcomes.read()?, self.results.read()?);
        let first = |index| outcomes[self.batch.first(index)];
        let of = |index| self.left(index, first(index));
        self.check_rows("after the batch", &rows, of)?;
        let is_wrong = |index: usize| {
            let is_left = of(index) != RowOf::Unwritten;
            found[index] != if is_left { Outcome::Found } else { Outcome::Absent } as u8
        };
        let wrong = parallel::first(found.len(), is_wrong);
        wrong.map_or(Ok(()), |index| {
            bail!("element {index}: its key is {:?} after the batch", Outcome::from_code(found[index]))
        })
    }
}

impl Benchmark for Rates<'_> {
    fn restore(&mut self) -> Result<()> {
        if self.is_prepared && self.verb.changes() {
            self.loaded.refill().context("what is to be there before")?;
        }
        if !self.is_prepared || self.verb.changes() {
            self.choose()?;
            self.is_prepared = true;
        }
        self.evictions.forget()?;
        self.addresses.forget()?;
        self.forget()
    }

    fn launch(&mut self) -> Result<()> {
        let Self { loaded, verb, keys, asked, given, results, outcomes, addresses, evictions, .. } = self;
        let batches = loaded.table.on(&loaded.gpu.stream);
        let batches = if keys.are_merged() { batches } else { batches.distinct() };
        let (asked, given) = (&*asked, &*given);
        match verb {
            Verb::Get => batches.get(asked, results, outcomes)?,
            // The lease ends behind the batch.
            Verb::GetRef => drop(batches.get_ref(asked, addresses.buffer(), outcomes)?),
            Verb::Contains => batches.contains_key(asked, outcomes)?,
            Verb::GetAndTouch => batches.get_and_touch(asked, results, outcomes)?,
            Verb::Insert => batches.insert(asked, given, outcomes)?,
            Verb::InsertEvict => batches.insert_evict(asked, given, evictions.buffers(), outcomes)?,
            Verb::GetOrInsert => batches.get_or_insert(asked, given, results, outcomes)?,
            Verb::Assign => batches.assign(asked, given, outcomes)?,
            Verb::Accumulate => batches.accumulate(asked, given, outcomes)?,
            Verb::Remove => batches.remove(asked, outcomes)?,
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let codes = self.outcomes.read()?;
        let outcomes: Vec<_> = parallel::map(&codes, |&code| Outcome::from_code(code));
        self.judge(&outcomes)?;
        let outcomes: Vec<_> = outcomes.into_iter().flatten().collect();
        self.evicted = self.count(&outcomes)?;
        if self.verb.returns_rows() {
            let rows = self.results.read()?;
            self.check_rows("returned", &rows, |index| self.returned(index, outcomes[index]))?;
        }
        if self.verb == Verb::GetRef {
            let of = |index: usize| self.returned(index, outcomes[index]);
            self.addresses.verify(&self.loaded.inputs, self.loaded.table.dim(), of)?;
        }
        if self.verb == Verb::InsertEvict {
            self.evictions.verify(&self.loaded, &self.batch, self.evicted)?;
        }
        if self.verb.changes() {
            self.verify_after(&outcomes)?;
        }
        let failed = |outcome: &&Outcome| matches!(outcome, Outcome::Absent | Outcome::Refused);
        let succeeded = outcomes.len() - outcomes.par_iter().filter(failed).count();
        Ok(Verified { compared: outcomes.len() as u64, succeeded: succeeded as u64 })
    }

    fn operations(&self) -> u64 {
        self.asked.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let load = self.len_before as f64 / self.loaded.table.capacity() as f64;
        let distinct = self.batch.distinct as f64 / self.batch.numbers.len().max(1) as f64;
        let counted = [
            ("evicted".to_owned(), self.evicted as f64),
            ("load_before".to_owned(), load),
            ("distinct_share".to_owned(), distinct),
        ];
        vec![Metric::TableBytes(self.loaded.table.memory_usage() as u64), Metric::Counted(counted.into())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::engine::record::Param;
    use crate::machine::DeviceChoice;

    fn opened() -> Gpu {
        Gpu::open(DeviceChoice::Emulator).unwrap()
    }

    fn rates<'a>(gpu: &'a Gpu, suite: &str, part: usize, op: &str) -> Rates<'a> {
        let case = first_case(suite, part);
        let (_, verb) = VERBS.iter().find(|(name, _)| *name == op).unwrap();
        let mut rates = Rates::new(gpu, &case, *verb).unwrap();
        rates.restore().unwrap();
        rates
    }

    fn fault(rates: &mut Rates<'_>) -> String {
        format!("{:#}", rates.verify().unwrap_err())
    }

    #[test]
    fn batches_that_do_nothing_are_faults() {
        let gpu = opened();
        for (op, _) in VERBS {
            let mut rates = rates(&gpu, "hkv/fig7", 0, op);
            assert!(fault(&mut rates).contains("answered None"), "{op}");
            for _ in 0..2 {
                rates.restore().unwrap();
                rates.launch().unwrap();
                assert_eq!(rates.verify().unwrap(), Verified::all(64), "{op}");
            }
        }
    }

    #[test]
    fn rows_of_other_keys_are_faults() {
        let gpu = opened();
        for op in ["get", "get_and_touch", "get_or_insert"] {
            let mut rates = rates(&gpu, "hkv/fig7", 0, op);
            rates.launch().unwrap();
            let mut rows = rates.results.read().unwrap();
            (0..8).for_each(|at| rows.swap(at, 8 + at));
            rates.results.write(&rows).unwrap();
            let error = fault(&mut rates);
            assert!(error.contains("element 0: the row returned is"), "{op}: {error}");
        }
    }

    #[test]
    fn addresses_of_other_rows_are_faults() {
        let gpu = opened();
        let spoilt = |spoil: fn(&mut [u64])| {
            let mut rates = rates(&gpu, "hkv/fig7", 0, "get_ref");
            rates.launch().unwrap();
            let mut addresses = rates.addresses.buffer().read().unwrap();
            spoil(&mut addresses);
            rates.addresses.buffer().write(&addresses).unwrap();
            fault(&mut rates)
        };
        assert!(spoilt(|addresses| addresses.swap(0, 1)).contains("the row at its address is"));
        assert!(spoilt(|addresses| addresses[1] = addresses[0]).contains("rows overlap"));
        assert!(spoilt(|addresses| addresses[1] = 0).contains("element 1: address 0"));
        assert!(spoilt(|addresses| addresses[1] = u64::MAX).contains("was not written"));
    }

    #[test]
    fn keys_that_are_lost_or_stay_are_faults() {
        let gpu = opened();
        for (op, wrong) in [("insert", "keys are too many"), ("assign", "row after the batch")] {
            let mut rates = rates(&gpu, "hkv/fig7", 0, op);
            rates.launch().unwrap();
            if op == "insert" {
                rates.len_before -= 1;
            } else {
                rates.loaded.refill().unwrap();
            }
            let error = fault(&mut rates);
            assert!(error.contains(wrong), "{op}: {error}");
        }
        let mut rates = rates(&gpu, "hkv/fig7", 0, "remove");
        rates.launch().unwrap();
        rates.loaded.refill().unwrap();
        assert!(fault(&mut rates).contains("keys are too many"));
    }

    #[test]
    fn evictions_that_are_wrong_are_faults() {
        let gpu = opened();
        let evicted = || {
            let mut rates = rates(&gpu, "hkv/fig7", 1, "insert_evict");
            rates.launch().unwrap();
            rates
        };
        assert_eq!(evicted().verify().unwrap().succeeded, 64);
        let mut lost = evicted();
        lost.evictions.forget().unwrap();
        assert!(fault(&mut lost).contains("keys are in the output"));
        let spoilt = |spoil: fn(&mut Evictions)| {
            let mut rates = evicted();
            spoil(&mut rates.evictions);
            fault(&mut rates)
        };
        assert!(spoilt(Evictions::swap_keys).contains("this row"));
        assert!(spoilt(Evictions::repeat).contains("was evicted twice"));
        assert!(spoilt(Evictions::number_scores).contains("higher score"));
    }

    #[test]
    fn duplicates_that_are_not_merged_are_faults() {
        let gpu = opened();
        let mut case = first_case("hkv/merged", 0);
        case.params.insert("keys".to_owned(), Param::Text("uniform".to_owned()));
        let mut rates = Rates::new(&gpu, &case, Verb::Insert).unwrap();
        rates.restore().unwrap();
        rates.launch().unwrap();
        let mut codes = rates.outcomes.read().unwrap();
        let repeated = (0..codes.len()).find(|index| rates.batch.first(*index) != *index).unwrap();
        codes[repeated] = Outcome::Inserted as u8;
        rates.outcomes.write(&codes).unwrap();
        assert!(fault(&mut rates).contains(&format!("element {repeated}, Insert")));
    }
}
