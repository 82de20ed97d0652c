//! The structure of which each shard is one, and the division of keys among shards: what batches, slots and
//! placement need to know of both.
use super::chunk::{Division, Request};
use super::ledger::{Ledger, Metered};
use super::partition::{RangeTable, Ranges};
use super::plan::Form;
use super::scattered::{ScatteredKernels, of_variant};
use super::shard::{Shard, Size};
use super::tiers::Tiers;
use super::work::{Failure, Work};
use crate::Result;
use crate::hash_map::kernels::Kernels;
use crate::hash_map::table::RawTable;
use crate::map::encoding::Word;
use crate::map::launch::Batch;
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::keyed::SKETCH_REGISTERS;
use phalanx_kernels::tiered::shard_of;
use simt::GlobalSlice;
use std::sync::Arc;

/// Size of a shard's image.
pub trait ImageSize: Copy {
    /// Returns the words of 8 bytes.
    fn words(self) -> usize;

    /// Returns the bytes.
    fn byte_len(self) -> usize {
        8 * self.words()
    }
}

/// Work on the shards: columns of elements, which are launched shard by shard.
pub trait Part: Copy {
    /// Returns the elements from `first` on, at most `len`.
    fn part(self, first: usize, len: usize) -> Self;

    /// Returns the outcomes, unless the elements have none.
    fn outcomes(self) -> Option<GlobalSlice<u8>>;
}

impl<K: Word, V: Word> Part for Batch<K, V> {
    fn part(self, first: usize, len: usize) -> Self {
        Batch::part(self, first, len)
    }

    fn outcomes(self) -> Option<GlobalSlice<u8>> {
        Some(self.outcomes)
    }
}

/// A structure whose shards have keys `K` and values `V`, and the division of keys among its shards.
pub trait Shards<K: Word, V: Word>: Sized {
    /// Size of a shard's image.
    type Size: ImageSize;
    /// A shard as kernels take it: the addresses of its memory.
    type Table: Copy;
    /// Work on shards.
    type Part: Part + From<Batch<K, V>>;

    /// Returns the shard whose image is at `memory`.
    fn table(&self, shard: &Shard<Self::Size>, memory: *mut u64, counters: *mut u64) -> Self::Table;

    /// Submits the creation of an empty shard in `memory`, whose contents may be anything.
    ///
    /// # Safety
    /// - The memory is that of the table. It lives until the stream has executed the work, and nothing else
    ///   uses it.
    unsafe fn create(&self, stream: &Stream, table: &Self::Table, memory: GlobalSlice<u64>) -> Result<()>;

    /// Returns whether a shard has no pairs, and is as [`Self::create`] creates it.
    fn is_new(&self, shard: &Shard<Self::Size>) -> bool {
        shard.is_blank()
    }

    /// Submits work on a shard, and notes in `table` what later work must know of it.
    ///
    /// # Safety
    /// - Shard and elements live until the stream has executed the work; no other stream uses the shard.
    unsafe fn launch(&self, stream: &Stream, table: &mut Self::Table, part: Self::Part) -> Result<()>;

    /// Returns whether [`Placement::ByCost`](super::placement::Placement::ByCost) may change shards in place.
    fn changes_in_place(&self) -> bool {
        true
    }

    /// Returns whether shards grow for batches on device buffers, too. Such batches always wait.
    fn grows_on_streams(&self) -> bool {
        false
    }

    /// Notes in the size of a shard what launches have changed.
    fn launched(&self, size: &mut Self::Size, table: &Self::Table) {
        let _ = (size, table);
    }

    /// Returns the bytes of host memory beside the images.
    fn host_bytes(&self) -> usize {
        0
    }

    /// Frees host memory that is kept for later calls.
    fn release(&mut self) -> Result<()> {
        Ok(())
    }

    /// Returns the bits of a route that select the shard.
    fn bits(&self, form: Form) -> u32;

    /// Returns the shard of a key.
    fn shard_of(&self, form: Form, key: K) -> usize;

    /// Returns how routes are computed.
    fn division(&self) -> Division<K>;

    /// Returns whether elements of a shard may also be sorted by their routes.
    fn sorts_within(&self) -> bool {
        true
    }

    /// Returns a number that changes when keys go to other shards.
    fn generation(&self, form: Form) -> u64;

    /// Runs a batch without a sort if this is faster, and returns the number of refused elements.
    fn run_small(
        tiers: &mut Tiers<K, V, Self>,
        request: &mut Request<'_, K, V>,
    ) -> Option<Result<u64, Failure>> {
        let (_, _) = (tiers, request);
        None
    }

    /// Prepares shards for a batch, before its elements are sorted.
    fn before_batch(tiers: &mut Tiers<K, V, Self>, request: &Request<'_, K, V>) -> Result<()>;

    /// Prepares shards for the sorted elements of a batch.
    fn before_shards(
        tiers: &mut Tiers<K, V, Self>,
        request: &Request<'_, K, V>,
        work: &Work<Self::Part>,
    ) -> Result<()>;

    /// Grows the shards in which elements with these keys were refused.
    fn grow_for(tiers: &mut Tiers<K, V, Self>, refused: &[K]) -> Result<()>;

    /// Maintains shards after a batch that has changed some.
    fn maintain(tiers: &mut Tiers<K, V, Self>) -> Result<()>;

    /// Removes all pairs.
    fn clear(tiers: &mut Tiers<K, V, Self>) -> Result<()>;
}

/// Parameters of the tables of hash maps.
#[derive(Clone, Copy, Debug)]
pub struct TableParameters {
    pub load_factor: f64,
    pub max_probes: u32,
    pub seed: u64,
}

/// Shards that are tables of a hash map. A hash of the key or its range selects the shard.
pub struct Tables<K: 'static, V: 'static> {
    pub kernels: Box<dyn Kernels<K, V>>,
    pub parameters: TableParameters,
    /// Registers of a sketch.
    pub sketch: Metered<Buffer<u32>>,
    /// The ranges of keys, if shards have them.
    pub ranges: Option<RangeTable<K>>,
    /// Kernels of small batches, if the variant has them.
    pub scattered: Option<&'static dyn ScatteredKernels<K, V>>,
}

impl<K: Word, V: Word> Tables<K, V> {
    /// Allocates the memory that all shards share.
    pub fn new(
        kernels: Box<dyn Kernels<K, V>>,
        (parameters, ranges): (TableParameters, Option<Ranges>),
        (device, ledger): (&Device, &Arc<Ledger>),
    ) -> Result<Self> {
        let ranges = ranges.map(|ranges| RangeTable::new(ranges, (device, ledger))).transpose()?;
        let scattered = of_variant(kernels.variant());
        Ok(Self { kernels, parameters, sketch: ledger.buffer(device, SKETCH_REGISTERS)?, ranges, scattered })
    }

    /// Returns the parameters of a table's views.
    pub fn view_parameters(&self) -> (u32, u64) {
        (self.parameters.max_probes, self.parameters.seed)
    }
}

impl ImageSize for Size {
    fn words(self) -> usize {
        self.words
    }
}

impl<K: Word, V: Word> Shards<K, V> for Tables<K, V> {
    type Size = Size;
    type Table = RawTable;
    type Part = Batch<K, V>;

    fn table(&self, shard: &Shard, memory: *mut u64, counters: *mut u64) -> RawTable {
        shard.size.raw(memory, counters, self.view_parameters())
    }

    fn is_new(&self, shard: &Shard) -> bool {
        shard.is_blank() || shard.counts.taken == 0
    }

    unsafe fn create(&self, stream: &Stream, _: &RawTable, memory: GlobalSlice<u64>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { Ok(stream.fill(memory, 0xff)?) }
    }

    unsafe fn launch(&self, stream: &Stream, table: &mut RawTable, batch: Batch<K, V>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { Ok(self.kernels.launch_batch(stream, table, batch)?) }
    }

    fn bits(&self, form: Form) -> u32 {
        match form {
            Form::Sharded { bits } => bits,
            Form::Resident | Form::Flat => 0,
        }
    }

    fn shard_of(&self, form: Form, key: K) -> usize {
        match &self.ranges {
            Some(table) => table.ranges.of(key.to_u64()),
            None => shard_of(key, self.bits(form), self.parameters.seed) as usize,
        }
    }

    fn division(&self) -> Division<K> {
        match &self.ranges {
            Some(table) => Division::ByRange { splitters: table.splitters.global() },
            None => Division::ByHash { seed: self.parameters.seed },
        }
    }

    /// The order of keys is not that of a table's buckets.
    fn sorts_within(&self) -> bool {
        self.ranges.is_none()
    }

    fn generation(&self, form: Form) -> u64 {
        self.bits(form).into()
    }

    fn run_small(tiers: &mut Tiers<K, V>, request: &mut Request<'_, K, V>) -> Option<Result<u64, Failure>> {
        tiers.run_small(request)
    }

    fn before_batch(tiers: &mut Tiers<K, V>, request: &Request<'_, K, V>) -> Result<()> {
        tiers.grow_resident(request)
    }

    fn before_shards(
        tiers: &mut Tiers<K, V>,
        request: &Request<'_, K, V>,
        work: &Work<Batch<K, V>>,
    ) -> Result<()> {
        tiers.grow_before(request, work)
    }

    fn grow_for(tiers: &mut Tiers<K, V>, refused: &[K]) -> Result<()> {
        tiers.grow_for(refused)
    }

    fn maintain(tiers: &mut Tiers<K, V>) -> Result<()> {
        tiers.maintain()
    }

    fn clear(tiers: &mut Tiers<K, V>) -> Result<()> {
        tiers.slots.forget_all();
        for shard in &mut tiers.shards {
            shard.image.clear()?;
            (shard.counts, shard.long) = Default::default();
        }
        Ok(())
    }
}
