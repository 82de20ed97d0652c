//! Small batches: one kernel executes the elements in place, in the order of the batch. Each tile finds the
//! shard of its element by its key, and the table of the shard by a row in pinned memory.
use super::chunk::{Division, Request, write_pinned};
use super::placement::Placement;
use super::serve::fold;
use super::shards::Shards;
use super::tiers::{SUM_WORDS, Tiers};
use super::work::Failure;
use crate::Result;
use crate::hash_map::table::RawTable;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, THREADS, nothing};
use crate::map::variant::{HasVariant, Variant, VariantTag, variants};
use gpu::{Buffer, Device, Grid, Stream, Tier};
use phalanx_kernels::hash_map::Config;
use phalanx_kernels::tiered::scattered::{
    CHANGE_WORDS, ROW_WORDS, ShardRows, TieredAddChanges, TieredScattered,
};
use phalanx_kernels::tiered::tables;
use simt::{GlobalSlice, Instance};

/// Number of shards up to which a batch writes the rows of all of them. With more, the shards of its keys are
/// computed on the host.
const FEW: usize = 1 << 12;

/// Launches of small batches, on tables of one variant.
pub trait ScatteredKernels<K, V>: HasVariant + Send + Sync {
    /// Launches a batch with an operation that [`has_code`].
    ///
    /// # Safety
    /// - Rows, tables and slices stay as they are until the kernel has ended, and no other kernel uses the
    ///   tables.
    unsafe fn launch(&self, stream: &Stream, shards: ShardRows<K>, batch: Batch<K, V>) -> gpu::Result<()>;
}

impl<M: Config + Instance> ScatteredKernels<M::Key, M::Value> for VariantTag<M> {
    unsafe fn launch(
        &self,
        stream: &Stream,
        shards: ShardRows<M::Key>,
        batch: Batch<M::Key, M::Value>,
    ) -> gpu::Result<()> {
        let Batch { op, codes, keys, arguments, results, outcomes } = batch;
        let code = op.coded().code();
        let grid = Grid::for_items(keys.max_len() * M::TILE as usize, THREADS);
        let kernel = TieredScattered::<M> { shards, code, codes, keys, arguments, results, outcomes };
        // SAFETY: the caller's obligations. The grid has a tile per element.
        unsafe { stream.launch(grid, kernel) }
    }
}

variants! {
    /// Returns the kernels of all variants with these key and value types.
    all: ScatteredKernels, tables, Config
}

/// Returns the kernels of a variant, if there are any.
pub fn of_variant<K: Word, V: Word>(variant: Variant) -> Option<&'static dyn ScatteredKernels<K, V>> {
    all::<K, V>().find(|kernels| kernels.variant() == variant)
}

/// Returns whether a code tells all of an operation on a table.
fn has_code(op: BatchOp) -> bool {
    !matches!(op, BatchOp::Take | BatchOp::Replace)
}

/// Rows of the shards for small batches.
#[derive(Debug, Default)]
pub struct Rows {
    /// A row for each shard, in pinned memory. None before the first small batch.
    rows: Option<Buffer<u64>>,
    /// Sums of the counters of the last batch, in pinned memory.
    sums: Option<Buffer<u64>>,
    /// The shards of the last batch that changed some, and whether each shard is one of them.
    touched: Vec<usize>,
    is_touched: Vec<bool>,
    /// Whether a batch has met long probe sequences, of whatever shard. The next one is sorted, so that its
    /// shards are known.
    is_long: bool,
}

impl Rows {
    /// Provides rows for so many shards. Nothing may use them.
    fn fit(&mut self, device: &Device, shards: usize) -> Result<()> {
        if self.is_touched.len() != shards {
            let sums = device.buffer_on(Tier::Pinned, SUM_WORDS)?;
            self.rows = Some(device.buffer_on(Tier::Pinned, shards * ROW_WORDS)?);
            self.sums = Some(sums);
            self.is_touched = vec![false; shards];
            self.touched.clear();
        }
        self.sums.iter_mut().for_each(|sums| write_pinned(sums, 0));
        Ok(())
    }

    /// Notes the shards of a batch, each once.
    fn touch(&mut self, shards: impl Iterator<Item = usize>) {
        for shard in self.touched.drain(..) {
            self.is_touched[shard] = false;
        }
        for shard in shards {
            if !std::mem::replace(&mut self.is_touched[shard], true) {
                self.touched.push(shard);
            }
        }
    }

    /// Writes the row of a shard: that of a table or, without one, zeros.
    fn write(&self, shard: usize, table: Option<RawTable>) {
        let Some(rows) = self.rows.as_ref().and_then(Buffer::host_pointer) else { return };
        let row = table.map_or([0; ROW_WORDS], |table| {
            let [buckets, filters] = [table.buckets as u64, table.filters as u64];
            [buckets, filters, table.count.into(), table.max_probes.into()]
        });
        for (word, value) in row.into_iter().enumerate() {
            // SAFETY: the rows have this shard, and no kernel uses them.
            unsafe { rows.add(shard * ROW_WORDS + word).write_volatile(value) };
        }
    }

    fn rows(&self) -> GlobalSlice<u64> {
        self.rows.as_ref().map_or_else(nothing, Buffer::global)
    }

    fn sums(&self) -> GlobalSlice<u64> {
        self.sums.as_ref().map_or_else(nothing, Buffer::global)
    }

    /// Returns the bytes of pinned memory.
    pub fn byte_len(&self) -> usize {
        self.rows.as_ref().map_or(0, Buffer::byte_len)
    }
}

impl<K: Word, V: Word> Tiers<K, V> {
    /// Runs a batch as it comes if it is small, and returns the number of refused elements.
    pub fn run_small(&mut self, request: &mut Request<'_, K, V>) -> Option<Result<u64, Failure>> {
        let kernels = self.inner.scattered?;
        if !self.is_small(request) || std::mem::take(&mut self.rows.is_long) {
            return None;
        }
        match self.write_rows(request) {
            Ok(true) => Some(self.run_scattered(kernels, request)),
            Ok(false) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Returns whether a batch is executed as it comes.
    fn is_small(&self, request: &Request<'_, K, V>) -> bool {
        let (len, shards, writes) = (request.len(), self.shards.len(), request.op.writes());
        // The host must know which shards change.
        let is_known = request.on_device.is_none() || (!writes && shards <= FEW);
        let may_be_in_place = matches!(self.config.placement, Placement::ByCost | Placement::AlwaysInPlace);
        has_code(request.op)
            && is_known
            && may_be_in_place
            && !self.spares.source().is_staged()
            && len <= self.plan.chunk
            && self.changes().len() == shards * CHANGE_WORDS
            && self.config.costs.scatters((len, shards), writes)
    }

    /// Returns memory for the changes of all shards, which only sorts use otherwise; less if there is less.
    fn changes(&self) -> GlobalSlice<u32> {
        self.buffers
            .first()
            .map_or_else(nothing, |buffer| buffer.words())
            .part(0, self.shards.len() * CHANGE_WORDS)
    }

    /// Writes the rows of a batch's shards, after it has provided the images of those that insertions need.
    /// Returns whether kernels can access all of them.
    fn write_rows(&mut self, request: &Request<'_, K, V>) -> Result<bool> {
        let (shards, op) = (self.shards.len(), request.op);
        self.rows.fit(&self.device, shards)?;
        let mut rows = std::mem::take(&mut self.rows);
        match op.writes() || shards > FEW {
            true => rows.touch(request.keys.iter().map(|&key| self.shard_of(key))),
            false => rows.touch(0..shards),
        }
        let listed = self.write_rows_of(&rows, op);
        self.rows = rows;
        listed
    }

    /// [`Self::write_rows`] for the shards that are touched.
    fn write_rows_of(&mut self, rows: &Rows, op: BatchOp) -> Result<bool> {
        for &shard in &rows.touched {
            let is_accessible = match op.places() {
                true => self.is_provided(shard, 0)?,
                false => !self.is_staged(shard),
            };
            if !is_accessible {
                return Ok(false);
            }
            let table = (!self.shards[shard].is_blank()).then(|| self.raw_in_place(shard, 0));
            rows.write(shard, table);
        }
        Ok(true)
    }

    /// Runs a batch whose rows are written.
    fn run_scattered(
        &mut self,
        kernels: &dyn ScatteredKernels<K, V>,
        request: &mut Request<'_, K, V>,
    ) -> Result<u64, Failure> {
        if request.op.writes() {
            let Self { rows, slots, .. } = self;
            rows.touched.iter().for_each(|&shard| slots.forget(shard));
        }
        let launch = |tiers: &Self, stream: &Stream, batch: Batch<K, V>| {
            // SAFETY: `run_unsorted` keeps the batch. Rows and tables stay, and nothing else uses them, since
            // the map runs one batch at a time.
            unsafe { tiers.launch_scattered(stream, kernels, batch) }
        };
        self.run_unsorted(request, launch, |tiers, request| {
            tiers.note_operations(request.len(), false);
            if request.op.writes() {
                tiers.count_touched();
            }
            Ok(())
        })
    }

    /// Submits a batch, and the sums of what it changes.
    ///
    /// # Safety
    /// - As for [`ScatteredKernels::launch`].
    unsafe fn launch_scattered(
        &self,
        stream: &Stream,
        kernels: &dyn ScatteredKernels<K, V>,
        batch: Batch<K, V>,
    ) -> Result<()> {
        let (changes, counters) = (self.changes(), self.places[0].counters.global());
        let (splitters, seed) = match self.inner.division() {
            Division::ByHash { seed } => (nothing(), seed),
            Division::ByRange { splitters } => (splitters, self.inner.parameters.seed),
        };
        let by = (splitters, self.bits(), seed);
        // SAFETY: the rows describe tables of the map's variant and seed; counters and changes are as long as
        // is required. All live as long as the map, which waits.
        let shards = unsafe { ShardRows::new(self.rows.rows(), by, (counters, changes)) };
        let writes = batch.op.writes();
        // SAFETY: the caller's obligations; nothing else uses changes and sums.
        unsafe {
            if writes {
                self.hot.forget::<K, V>(stream, batch.keys.resolve())?;
                stream.fill(changes, 0)?;
            }
            kernels.launch(stream, shards, batch)?;
            if !writes {
                return Ok(());
            }
            let (grid, sums) = (Grid::for_items(self.shards.len(), THREADS), self.sums.global());
            stream.launch(grid, TieredAddChanges { changes, sums, each: SUM_WORDS as u32 })?;
            fold(stream, counters, self.rows.sums())
        }
    }

    /// Counts the changes of a batch that has ended.
    fn count_touched(&mut self) {
        let rows = std::mem::take(&mut self.rows);
        rows.touched.iter().for_each(|&shard| self.count(shard));
        let is_long = rows.sums.as_ref().map(super::chunk::pinned).is_some_and(|sums| sums[2] != 0);
        self.rows = Rows { is_long, ..rows };
    }
}
