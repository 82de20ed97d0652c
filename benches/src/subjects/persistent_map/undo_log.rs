//! Baseline: lists of slabs with an undo log, in the same memory.
use super::table::{Elements, Table, Verb};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use crate::subjects::driver::UNWRITTEN;
use anyhow::{Result, ensure};
use gpu::{Buffer, Device, Grid, Slice, Stream, Tier};
use phalanx_kernels::baseline::undo_log::{self, EMPTY, ENTRY, LoggedBatch, LoggedExecute, PAIRS, REMOVED, SLAB};
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
        // SAFETY: dropping a buffer waits for the launch. Meanwhile only launches of this kernel access slabs,
        // and each thread accesses its own element of the other buffers.
        unsafe { stream.launch(Grid::for_items(keys.len(), THREADS), launch)? };
        Ok(())
    }

    fn load(&mut self, keys: &[Word], values: &[Word]) -> Result<()> {
        let (keys, values) = (self.device.from_slice(keys)?, self.device.from_slice(values)?);
        let mut results = self.device.buffer(0)?;
        let mut outcomes = self.device.filled(keys.len(), UNWRITTEN)?;
        let (results, codes) = (results.slice_mut(..)?, outcomes.slice_mut(..)?);
        let elements = Elements { keys: keys.slice(..)?, values: values.slice(..)?, results, outcomes: codes };
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

    fn bytes(&self) -> [usize; 2] {
        let bytes = self.slabs.byte_len() + self.log.byte_len();
        match self.slabs.tier() {
            Tier::Device => [bytes, 0],
            _ => [0, bytes],
        }
    }
}
