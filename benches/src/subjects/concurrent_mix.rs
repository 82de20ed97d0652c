//! Concurrent mixes of two operations: insertions and range queries in a kernel with persistent blocks,
//! removals and look-ups in one batch.
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use crate::subjects::driver::UNWRITTEN;
use anyhow::{Result, bail, ensure};
use gpu::{Buffer, Grid};
use phalanx::map::Word as MapWord;
use phalanx::{BTree, Map};
use phalanx_kernels::btree::{Config, Sink, TreeView};
use phalanx_kernels::keyed::Outcome;
use phalanx_kernels::mvbtree::kernels::InsertAndRange;
use rayon::prelude::*;
use simt::Instance;
use std::marker::PhantomData;
use workloads::parallel;
use workloads::random::{Source, below};
use workloads::{Key as Word, UniqueKeys, value_of};

/// Concurrent insertions and range queries.
pub const INSERT_RANGE: &str = "insert_range";
/// Concurrent look-ups and removals.
pub const FIND_REMOVE: &str = "find_remove";

/// Threads per persistent block.
const THREADS: u32 = 128;
/// Extra space in the results of a range, in pairs, beyond its pairs and those that may be inserted into it.
const SPARE: usize = 8;

/// Returns the mix that a case of [`FIND_REMOVE`] stands for, and any other case unchanged.
///
/// # Errors
/// Returns [`anyhow::Error`] when the case has no valid share of updates.
pub fn as_mix(case: &Case) -> Result<Case> {
    if case.op != FIND_REMOVE {
        return Ok(case.clone());
    }
    let removals = (100.0 * share(case)?).round();
    Ok(Case { op: format!("mixed_{removals}r{}f", 100.0 - removals), ..case.clone() })
}

fn share(case: &Case) -> Result<f64> {
    let share = case.number("update_ratio")?;
    ensure!(share > 0.0 && share < 1.0, "`update_ratio` is {share}; it can be between 0 and 1");
    Ok(share)
}

/// Tree that a persistent kernel operates on.
pub trait Stays<K: MapWord, V: MapWord>: Map<Key = K, Value = V> {
    /// Rebuilds the tree from sorted pairs.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] when the device fails or runs out of memory.
    fn build(&mut self, keys: &Buffer<K>, values: &Buffer<V>) -> Result<()>;

    /// Returns the tree's kernel view.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] when the tree is of another variant.
    ///
    /// # Safety
    /// - The caller fulfils the obligations of the tree's `view`.
    unsafe fn kernels_view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K, Value = V> + Instance;

    /// Checks the invariants of the whole tree.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when an invariant is violated.
    fn look_through(&self) -> Result<()>;

    /// Returns the number of slabs that are not free.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] when the device fails.
    fn live(&self) -> Result<u64>;

    /// Frees all versions and checks that none is left.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when versions are left.
    fn free_versions(&self) -> Result<()> {
        Ok(())
    }

    /// Returns `[epoch, bytes retired so far, bytes reclaimed so far]` for each epoch that has ended.
    ///
    /// # Errors
    /// Returns [`phalanx::Error`] when the device fails.
    fn epochs(&self) -> Result<Vec<[u64; 3]>> {
        Ok(Vec::new())
    }
}

impl<K: MapWord + Word, V: MapWord + Word> Stays<K, V> for BTree<K, V> {
    fn build(&mut self, keys: &Buffer<K>, values: &Buffer<V>) -> Result<()> {
        Ok(self.bulk_build_sorted(keys, values, 0.7)?)
    }

    unsafe fn kernels_view<M>(&self) -> Result<TreeView<M>>
    where
        M: Config<Key = K, Value = V> + Instance,
    {
        // SAFETY: the caller fulfils the obligations of `view`.
        Ok(unsafe { self.view::<M>()? })
    }

    fn look_through(&self) -> Result<()> {
        Ok(self.validate()?)
    }

    fn live(&self) -> Result<u64> {
        Ok(self.stats()?.live as u64)
    }
}

/// Inputs and outputs of the kernel.
struct Sheet {
    keys: Buffer<u32>,
    values: Buffer<u32>,
    outcomes: Buffer<u8>,
    lows: Buffer<u32>,
    highs: Buffer<u32>,
    room: u32,
    found: Buffer<u32>,
    found_values: Buffer<u32>,
    counts: Buffer<u64>,
}

/// Insertions of new keys and range queries on existing pairs, `n` operations together, on a tree of
/// `initial_n` pairs.
pub struct InsertRange<'a, T, M> {
    gpu: &'a Gpu,
    tree: T,
    initial: Vec<u32>,
    inserted: Vec<u32>,
    ends: Vec<(u32, u32)>,
    first: (Buffer<u32>, Buffer<u32>),
    sheet: Sheet,
    /// Live slabs when the launch had ended, and after versions were then freed.
    live: Option<(u64, u64)>,
    epochs: Vec<[u64; 3]>,
    of: PhantomData<fn() -> M>,
}

impl<'a, T, M> InsertRange<'a, T, M>
where
    T: Stays<u32, u32>,
    M: Config<Key = u32, Value = u32> + Instance,
{
    /// Prepares a case on a tree.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid or does not fit into the machine's memory.
    pub fn new(gpu: &'a Gpu, case: &Case, tree: T) -> Result<Self> {
        let (share, many) = (share(case)?, case.number("initial_n")? as usize);
        let results = case.number_if_given("range_results")?.unwrap_or(16.0) as usize;
        let updates = (case.n as f64 * share).round() as usize;
        ensure!(results > 0 && results <= many, "`range_results` is {results}, of {many} pairs");
        let keys = UniqueKeys::<u32>::new(case.seed);
        let (mut initial, inserted) = (keys.present(many)?, keys.absent(updates)?);
        initial.par_sort_unstable();
        let questions = case.n as usize - updates;
        let ends: Vec<(u32, u32)> = Source::new(case.seed, "ranges").generate(questions, |generator, _| {
            let first = below(generator, (many - results + 1) as u64) as usize;
            (initial[first], initial[first + results - 1])
        });
        // Includes the average number of concurrent insertions into a range. If a range has more pairs, only
        // the first are returned.
        let room = results + SPARE + results * updates / many;
        let sheet = Sheet::new(gpu, &inserted, &ends, room as u32)?;
        let device = &gpu.device;
        let values: Vec<u32> = parallel::map(&initial, |&key| value_of(key));
        let first = (device.from_slice(&initial)?, device.from_slice(&values)?);
        let (live, epochs) = (None, Vec::new());
        Ok(Self { gpu, tree, initial, inserted, ends, first, sheet, live, epochs, of: PhantomData })
    }

    /// Returns a grid with as many blocks as can be resident on the device at once.
    fn grid(&self) -> Result<Grid> {
        Ok(self.gpu.device.occupancy_grid::<InsertAndRange<M>>(THREADS)?)
    }
}

/// Reference data to check range queries.
struct Judge<'a> {
    initial: &'a [u32],
    ends: &'a [(u32, u32)],
    room: usize,
    /// All keys, including the inserted ones.
    all: &'a [u32],
}

impl Judge<'_> {
    /// Returns whether the result of a range query contains, in order, all initial pairs of the range and
    /// otherwise only inserted ones.
    fn is_right(&self, index: usize, found: &[u32], values: &[u32], count: u64) -> bool {
        let ((low, high), count) = (self.ends[index], count as usize);
        if count > self.room {
            return false;
        }
        let first = index * self.room;
        let (keys, values) = (&found[first..][..count], &values[first..][..count]);
        let last = if count == self.room { keys[count - 1] } else { high };
        let known = &self.initial[self.initial.partition_point(|key| *key < low)..];
        let mut rest = keys.iter();
        keys.is_sorted_by(|a, b| a < b)
            && keys.iter().zip(values).all(|(key, value)| value_of::<u32, u32>(*key) == *value)
            && keys.iter().all(|key| (low..=high).contains(key) && self.all.binary_search(key).is_ok())
            && known.iter().take_while(|key| **key <= last).all(|key| rest.any(|found| found == key))
    }
}

impl Sheet {
    fn new(gpu: &Gpu, inserted: &[u32], ends: &[(u32, u32)], room: u32) -> Result<Self> {
        let device = &gpu.device;
        let values: Vec<u32> = parallel::map(inserted, |&key| value_of(key));
        let (lows, highs): (Vec<u32>, Vec<u32>) = ends.iter().copied().unzip();
        let places = ends.len() * room as usize;
        Ok(Self {
            keys: device.from_slice(inserted)?,
            values: device.from_slice(&values)?,
            outcomes: device.filled(inserted.len(), UNWRITTEN)?,
            lows: device.from_slice(&lows)?,
            highs: device.from_slice(&highs)?,
            room,
            found: device.zeroed(places)?,
            found_values: device.zeroed(places)?,
            counts: device.zeroed(ends.len())?,
        })
    }
}

impl<T, M> Benchmark for InsertRange<'_, T, M>
where
    T: Stays<u32, u32>,
    M: Config<Key = u32, Value = u32> + Instance,
{
    fn restore(&mut self) -> Result<()> {
        self.tree.build(&self.first.0, &self.first.1)?;
        self.sheet.outcomes.fill_bytes(UNWRITTEN)?;
        self.sheet.counts.fill_bytes(UNWRITTEN)?;
        self.sheet.found.fill_bytes(0)?;
        // Waits for the build.
        let _ = self.tree.live()?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let grid = self.grid()?;
        let sheet = &self.sheet;
        // SAFETY: the tree and the buffers outlive the launch, and `verify` waits for it before the next
        // operation on the tree.
        unsafe {
            let launch = InsertAndRange::<M> {
                tree: self.tree.kernels_view::<M>()?,
                keys: sheet.keys.global(),
                values: sheet.values.global(),
                outcomes: sheet.outcomes.global(),
                lows: sheet.lows.global(),
                highs: sheet.highs.global(),
                room: sheet.room,
                found: Sink { keys: sheet.found.global(), values: sheet.found_values.global() },
                counts: sheet.counts.global(),
            };
            Ok(self.gpu.stream.launch(grid, launch)?)
        }
    }

    fn verify(&mut self) -> Result<Verified> {
        self.gpu.device.synchronize()?;
        let outcomes = self.sheet.outcomes.read()?;
        let wrong = outcomes.iter().filter(|code| **code != Outcome::Inserted as u8).count();
        ensure!(wrong == 0, "{wrong} of {} insertions did not insert", outcomes.len());
        let mut all = [&self.initial[..], &self.inserted[..]].concat();
        all.par_sort_unstable();
        let (found, values) = (self.sheet.found.read()?, self.sheet.found_values.read()?);
        let counts = self.sheet.counts.read()?;
        let judge =
            Judge { initial: &self.initial, ends: &self.ends, room: self.sheet.room as usize, all: &all };
        let first = (0..counts.len())
            .into_par_iter()
            .find_first(|&index| !judge.is_right(index, &found, &values, counts[index]));
        if let Some(index) = first {
            let (low, high) = self.ends[index];
            bail!("the range from {low} to {high} was answered wrongly, by {} pairs", counts[index]);
        }
        let before = self.tree.live()?;
        self.epochs = self.tree.epochs()?;
        self.tree.free_versions()?;
        self.live = Some((before, self.tree.live()?));
        self.tree.look_through()?;
        let (found, pairs) = (self.tree.len()?, all.len());
        ensure!(found == pairs, "{pairs} pairs should be there, and {found} are");
        let mut held: Vec<u32> = self.tree.iter()?.map(|(key, _)| key).collect();
        held.par_sort_unstable();
        ensure!(held == all, "other keys are there than were put there");
        Ok(Verified::all(outcomes.len() + counts.len()))
    }

    fn operations(&self) -> u64 {
        (self.inserted.len() + self.ends.len()) as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let Some((before, after)) = self.live else { return Vec::new() };
        let mut metrics =
            vec![Metric::TableBytes(128 * after), Metric::Overhead(before as f64 / after as f64 - 1.0)];
        if !self.epochs.is_empty() {
            let step = self.epochs.len().div_ceil(64);
            metrics.push(Metric::Epochs(self.epochs.iter().copied().step_by(step).collect()));
        }
        metrics
    }
}
