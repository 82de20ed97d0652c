//! Baseline: lists of slabs with an undo log, in the same memory.
use super::table::{Elements, Table, Verb};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use crate::subjects::driver::UNWRITTEN;
use anyhow::{Result, ensure};
use gpu::{Buffer, Device, Grid, Slice, Stream, Tier};
use phalanx_kernels::baseline::undo_log::{self, LoggedBatch, LoggedExecute};
use phalanx_kernels::baseline::undo_log::{EMPTY, ENTRY, PAIRS, REMOVED, SLAB};
use phalanx_kernels::keyed::{OpCode, Outcome};
use simt::GlobalSlice;
use workloads::parallel;

/// Threads per block, as in the structures.
const THREADS: u32 = 128;

/// Entries of the log: more than threads that run at the same time.
const ENTRIES: usize = 1 << 20;

/// Default share of the pairs that fit the first slabs of the lists: slab hash is planned for this share.
const UTILISATION: f64 = 0.6;

/// Operation code of updates, which the kernel takes any other code for.
const UPDATE: OpCode = OpCode::MAX;

/// Item of 8 bytes.
type Word = [u64; 1];

/// Lists of slabs, and their log.
pub struct LoggedLists {
    device: Device,
    stream: Stream,
    slabs: Buffer<u64>,
    log: Buffer<u64>,
    added: Buffer<u32>,
}

impl LoggedLists {
    /// Creates empty lists for `pairs` pairs. `utilisation` is the share of the first slabs that pairs fill.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid, or the memory does not suffice.
    pub fn new(gpu: &Gpu, case: &Case, pairs: usize) -> Result<Self> {
        let tier = case.choice("storage", &[("device", Tier::Device), ("pinned", Tier::Pinned)])?;
        let share = case.number_if_given("utilisation")?.unwrap_or(UTILISATION);
        ensure!(share > 0.0 && share <= 4.0, "lists cannot be filled to {share}");
        let lists = ((pairs as f64 / share) as usize).div_ceil(PAIRS).max(1);
        let entries = ENTRIES.min(pairs.next_multiple_of(32));
        let device = gpu.device.clone();
        let mut made = Self {
            slabs: device.buffer_on(tier, 2 * lists * SLAB)?,
            log: device.buffer_on(tier, entries * ENTRY)?,
            added: device.zeroed(1)?,
            stream: device.stream()?,
            device,
        };
        made.log.fill_bytes(0)?;
        made.slabs.fill_bytes(0xff)?;
        Ok(made)
    }

    fn lists(&self) -> undo_log::LoggedLists {
        let Self { slabs, log, added, .. } = self;
        undo_log::LoggedLists { slabs: slabs.global(), log: log.global(), added: added.global() }
    }
}

/// Returns items as the words that they are.
fn words(items: Slice<'_, Word>) -> GlobalSlice<u64> {
    // SAFETY: an item is a word, and the caller of the launch keeps the items.
    unsafe { GlobalSlice::from_raw_parts(items.pointer().cast(), items.len()) }
}

impl Table<Word, Word> for LoggedLists {
    fn submit(&mut self, stream: &Stream, verb: Verb, elements: Elements<'_, Word, Word>) -> Result<()> {
        let Elements { keys, values, results, outcomes } = elements;
        let code = match verb {
            Verb::Get => OpCode::GET,
            Verb::Insert => OpCode::INSERT,
            Verb::Update => UPDATE,
            Verb::Remove => OpCode::REMOVE,
        };
        let batch = LoggedBatch {
            keys: words(keys),
            values: words(values),
            results: words(results.slice(..)?),
            outcomes: outcomes.slice(..)?.global(),
        };
        let launch = LoggedExecute { lists: self.lists(), code: code.code(), batch };
        // SAFETY: dropping a buffer waits for the launch. Only launches of this kernel access the slabs.
        // Each thread accesses its own element of the other buffers.
        unsafe { stream.launch(Grid::for_items(keys.len(), THREADS), launch)? };
        Ok(())
    }

    fn load(&mut self, keys: &[Word], values: &[Word]) -> Result<()> {
        let (keys, values) = (self.device.from_slice(keys)?, self.device.from_slice(values)?);
        let mut results = self.device.buffer(0)?;
        let mut outcomes = self.device.filled(keys.len(), UNWRITTEN)?;
        let (results, codes) = (results.slice_mut(..)?, outcomes.slice_mut(..)?);
        let elements =
            Elements { keys: keys.slice(..)?, values: values.slice(..)?, results, outcomes: codes };
        self.submit(&self.stream.clone(), Verb::Insert, elements)?;
        let codes = outcomes.read()?;
        let inserted = parallel::count(codes.len(), |index| codes[index] == Outcome::Inserted as u8);
        ensure!(inserted == codes.len(), "{inserted} of {} initial pairs are new", codes.len());
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.added.fill_bytes(0)?;
        Ok(self.slabs.fill_bytes(0xff)?)
    }

    fn reuses_slots(&self) -> bool {
        false
    }

    fn len(&self) -> Result<usize> {
        let words = self.slabs.read()?;
        let is_key = |index: usize| index % SLAB < PAIRS && words[index] != EMPTY && words[index] != REMOVED;
        Ok(parallel::count(words.len(), is_key))
    }

    fn capacity(&self) -> Option<usize> {
        None
    }

    fn memory_usage(&self) -> [usize; 2] {
        let bytes = self.slabs.byte_len() + self.log.byte_len();
        match self.slabs.tier() {
            Tier::Device => [bytes, 0],
            _ => [0, bytes],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::DeviceChoice;

    /// Executes an operation on keys. Returns the outcomes, and the values that were found.
    fn execute(lists: &mut LoggedLists, verb: Verb, keys: &[u64], value: u64) -> (Vec<Outcome>, Vec<u64>) {
        let items = |words: &[u64]| words.iter().map(|&word| [word]).collect::<Vec<_>>();
        let device = lists.device.clone();
        let written = if verb.writes_values() { keys.len() } else { 0 };
        let read = if verb == Verb::Get { keys.len() } else { 0 };
        let keys = device.from_slice(&items(keys)).unwrap();
        let values = device.from_slice(&vec![[value]; written]).unwrap();
        let mut results = device.zeroed::<Word>(read).unwrap();
        let mut outcomes = device.filled(keys.len(), UNWRITTEN).unwrap();
        let elements = Elements {
            keys: keys.slice(..).unwrap(),
            values: values.slice(..).unwrap(),
            results: results.slice_mut(..).unwrap(),
            outcomes: outcomes.slice_mut(..).unwrap(),
        };
        lists.submit(&lists.stream.clone(), verb, elements).unwrap();
        let outcomes = outcomes.read().unwrap().into_iter().map(|code| Outcome::from_code(code).unwrap());
        (outcomes.collect(), results.read().unwrap().into_iter().map(|[word]| word).collect())
    }

    fn lists(gpu: &Gpu, pairs: usize) -> LoggedLists {
        LoggedLists::new(gpu, &Case::default(), pairs).unwrap()
    }

    #[test]
    fn equal_keys_of_a_batch_get_one_slot() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut lists = lists(&gpu, 40);
        let keys: Vec<u64> = (0..96).map(|index| index % 24).collect();
        let (outcomes, _) = execute(&mut lists, Verb::Insert, &keys, 7);
        let count = |wanted: Outcome| outcomes.iter().filter(|&&outcome| outcome == wanted).count();
        assert_eq!((count(Outcome::Inserted), count(Outcome::Replaced)), (24, 72));
        assert_eq!(lists.len().unwrap(), 24);
        let (outcomes, values) = execute(&mut lists, Verb::Get, &keys, 0);
        assert!(outcomes.iter().all(|&outcome| outcome == Outcome::Found) && values == [7; 96]);
        let (outcomes, _) = execute(&mut lists, Verb::Remove, &keys, 0);
        assert_eq!(outcomes.iter().filter(|&&outcome| outcome == Outcome::Removed).count(), 24);
        assert_eq!(lists.len().unwrap(), 0);
        let (outcomes, _) = execute(&mut lists, Verb::Update, &keys, 8);
        assert_eq!(outcomes, [Outcome::Absent; 96]);
    }

    #[test]
    fn lists_grow_by_slabs_until_none_is_left() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut lists = lists(&gpu, 4);
        let keys: Vec<u64> = (0..32).collect();
        let (outcomes, _) = execute(&mut lists, Verb::Insert, &keys, 1);
        let inserted = outcomes.iter().filter(|&&outcome| outcome == Outcome::Inserted).count();
        assert!((PAIRS..=2 * PAIRS).contains(&inserted) && lists.len().unwrap() == inserted);
        assert!(outcomes.contains(&Outcome::Refused));
    }

    /// Each change writes the old contents to the log, and marks the entry as complete afterwards.
    #[test]
    fn changes_are_logged_and_completed() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut lists = lists(&gpu, 32);
        let keys: Vec<u64> = (100..132).collect();
        let entries = |lists: &LoggedLists| -> Vec<[u64; ENTRY]> {
            let words = lists.log.read().unwrap();
            words.chunks(ENTRY).map(|entry| entry.try_into().unwrap()).collect()
        };
        execute(&mut lists, Verb::Insert, &keys, 5);
        assert!(entries(&lists).iter().all(|[slot, key, _, link]| (*slot, *key, *link) == (0, EMPTY, 0)));
        execute(&mut lists, Verb::Update, &keys, 6);
        let updated = entries(&lists);
        assert!((100..132).zip(updated).all(|(key, entry)| entry == [0, key, 5, 0]));
    }
}
