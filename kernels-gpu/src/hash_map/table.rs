//! A kind of table, and the map view that kernels take.
use super::probing_scheme::{Cursor, OVERFLOW_BUCKETS, Phased, Probe};
use crate::keyed::{
    Bucket, Combination, Counters, EntryRef, Kind, Operation, Outcome, Scalar, Slot, TileKind, View, hash,
    kind_name,
};
use core::marker::PhantomData;
use simt::{Convergence, Global, Instance, Name, Tile, bound, device};

/// A kind of table: slots `S`, probing scheme `P`, and buckets of `W * L` slots read by tiles of `W` lanes,
/// `L` slots per lane.
#[derive(Clone, Copy, Debug)]
pub struct Table<S, P, const W: u32, const L: usize>(PhantomData<(S, P)>);

/// The properties of a [`Table`] that hosts need beyond those of a [`Kind`].
///
/// Every [`Table`] of a [`Slot`] and a [`Probe`] implements it, also with types from other packages.
///
/// # Safety
/// - [`Self::BUCKET_BYTES`] is the size of [`Self::SLOTS`] words of the kind's slots; scans rely on it.
/// - [`Self::filter_words`] covers every bucket that operations probe, and they probe only the view's buckets
///   and overflow buckets.
pub unsafe trait Config: Kind<View = MapView<Self>> {
    /// Number of slots in a bucket.
    const SLOTS: u32;
    /// Number of filter bits per bucket, or 0.
    const FILTER_BITS: u32;
    /// Number of bytes in a bucket.
    const BUCKET_BYTES: usize;
    /// Number of probes that an operation may make beyond one per bucket.
    const EXTRA_PROBES: u32;

    /// Returns the number of filter words for a table of `count` buckets and its overflow buckets.
    fn filter_words(count: u32) -> usize {
        ((count + OVERFLOW_BUCKETS) as usize * Self::FILTER_BITS as usize).div_ceil(32)
    }
}

/// A kind of table whose kernels only read, while nothing writes.
pub trait ReadOnly: Config {
    /// The kind of table that it reads.
    type Writers: Config<Key = Self::Key, Value = Self::Value>;
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> ReadOnly for Table<S, Phased<P>, W, L> {
    type Writers = Table<S, P, W, L>;
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> Instance for Table<S, P, W, L> {
    const NAME: &'static str = const {
        let name = Name::of(S::NAME).part(P::NAME).text("_").number(Self::BUCKET_BYTES);
        &kind_name::<S>(name, W, L)
    }
    .as_str();
}

/// Compiles the kernels of hash maps for kinds of tables, like [`simt::instances!`]. A package with a probing
/// scheme of its own needs this line:
///
/// ```ignore
/// phalanx_kernels::table_instances! { types { linear3_64_2x4_u32_u32: LinearTable } }
/// ```
#[macro_export]
macro_rules! table_instances {
    ($($types:tt)*) => {
        ::simt::instances! {
            $($types)*
            kernels {
                $crate::keyed::kernels::Insert, $crate::keyed::kernels::InsertNew,
                $crate::keyed::kernels::Get, $crate::keyed::kernels::ContainsKey,
                $crate::keyed::kernels::Remove, $crate::keyed::kernels::Take,
                $crate::keyed::kernels::Replace, $crate::keyed::kernels::Upsert,
                $crate::keyed::kernels::GetOrInsert, $crate::keyed::kernels::Mixed,
                $crate::keyed::kernels::Export,
                $crate::keyed::kernels::Rehash, $crate::keyed::kernels::RetainBetween,
                $crate::keyed::kernels::SketchAbsent,
            }
            visitor: $crate::hash_map::Config
        }
    };
}

/// A map as a kernel sees it.
#[repr(C)]
pub struct MapView<M> {
    pub(super) buckets: Global<u64>,
    pub(super) filters: Global<u32>,
    pub(super) counters: Counters,
    pub(super) count: u32,
    pub(super) max_probes: u32,
    pub(super) seed: u64,
    of: PhantomData<fn() -> M>,
}

impl<M> Clone for MapView<M> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<M> Copy for MapView<M> {}

impl<M> core::fmt::Debug for MapView<M> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("MapView").field("buckets", &self.buckets).field("count", &self.count).finish()
    }
}

impl<M: Config> View for MapView<M> {
    type Kind = M;
}

impl<M: Config> MapView<M> {
    /// Returns a view of a table of `count` buckets, which the [`OVERFLOW_BUCKETS`] follow. An operation
    /// gives up after `max_probes` probes.
    ///
    /// # Safety
    /// - `buckets` points to `(count + OVERFLOW_BUCKETS) * M::BUCKET_BYTES` bytes, `filters` to
    ///   `M::filter_words(count)` words and `counters` to `COUNTER_SHARDS * SHARD_WORDS` words of device
    ///   memory that outlive all uses of the view, aligned to 128 bytes.
    /// - `count` is a prime below 2^31 - 64.
    /// - Every byte of buckets and filters was `0xFF` before the first operation, and only operations of this
    ///   kind have written to them.
    #[device(caller)]
    pub unsafe fn new(
        buckets: *mut u64,
        filters: *mut u32,
        counters: *mut u64,
        count: u32,
        max_probes: u32,
    ) -> Self {
        // SAFETY: the caller's obligation; kernels make only relaxed accesses to all three.
        let (buckets, filters, counters) =
            unsafe { (Global::new(buckets), Global::new(filters), Counters::new(Global::new(counters))) };
        Self {
            buckets,
            filters,
            counters,
            count,
            max_probes: max_probes.min(count + M::EXTRA_PROBES),
            seed: 0,
            of: PhantomData,
        }
    }

    /// Returns the view with the seed of its hash function, by which all operations on the table must find
    /// the keys. A view begins with the seed 0.
    #[device]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// Returns the number of buckets without the overflow buckets.
    #[device]
    pub fn bucket_count(self) -> u32 {
        self.count
    }

    /// Returns the number of slots in all buckets, including the overflow buckets.
    #[device]
    pub fn slot_count(self) -> usize {
        (self.count + OVERFLOW_BUCKETS) as usize * M::SLOTS as usize
    }

    /// Returns the stored form of the key and the start of its probe sequence.
    #[device]
    pub(super) fn start(self, key: M::Key) -> (StoredOf<M>, Cursor) {
        if let Some(alias) = M::Slot::alias(key) {
            return (alias, Cursor::overflow(self.count));
        }
        let stored = StoredOf::<M>::from_u64(key.to_u64());
        // mutation: more equivalent, because all operations then probe one bucket more, in the same order.
        (stored, Cursor::start(hash(stored, self.seed), self.count, bound(self.max_probes)))
    }

    #[device]
    fn slot_at(self, position: usize) -> Global<<M::Slot as Slot>::Word> {
        if position >= self.slot_count() {
            simt::trap();
        }
        // SAFETY: the position is that of a slot of the table.
        unsafe { self.buckets.cast::<<M::Slot as Slot>::Word>().offset(position) }
    }
}

type StoredOf<M> = <<M as Kind>::Slot as Slot>::Stored;

// SAFETY: a bucket has `W * L` slots; `Slot` and `Probe` promise that probes stay within the table.
unsafe impl<S: Slot, P: Probe, const W: u32, const L: usize> Kind for Table<S, P, W, L> {
    type Key = S::Key;
    type Value = S::Value;
    type Slot = S;
    type View = MapView<Self>;
    const TILE: u32 = W;
    /// Measured: with 40 registers an insert of 8-byte pairs is 2 % faster than with the 45 that the
    /// assembler chooses, a mixed batch 8 %; with 48 for 16-byte pairs, 1 % and 3 %.
    const REGISTERS: u32 = if size_of::<S::Word>() == 8 { 40 } else { 48 };
    /// These kernels spill nothing with 40 registers, unless pairs are published in steps.
    const UPDATES_IN: u32 = if S::PUBLISHES { Self::REGISTERS } else { 40 };
    /// Measured: with 32 registers, which allow the maximum number of resident threads per multiprocessor,
    /// lookups are 12 % faster than with the 40 that the assembler chooses; of 16-byte pairs, 5 %.
    const READS_IN: u32 = 32;
    const COMBINES: Combination = Combination::Always;

    #[device(caller)]
    fn execute<O: Operation>(
        map: MapView<Self>,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value) {
        map.share(Tile::<W>::lockstep(), pending, operation, key, argument)
    }

    #[device]
    fn counters(map: MapView<Self>) -> Counters {
        map.counters
    }

    fn scan_threads(map: MapView<Self>) -> usize {
        map.slot_count()
    }

    /// Shows each thread one slot, in memory order.
    #[device(caller)]
    fn scan(map: MapView<Self>, index: usize, mut see: impl FnMut(Option<EntryRef<Self>>)) {
        let in_overflow = index / Self::SLOTS as usize >= map.count as usize;
        let exists = index < map.slot_count();
        see(if exists { EntryRef::read(map.slot_at(index), in_overflow) } else { None });
    }
}

// SAFETY: as for `Kind`.
unsafe impl<S: Slot, P: Probe, const W: u32, const L: usize> Config for Table<S, P, W, L> {
    const SLOTS: u32 = W * L as u32;
    const FILTER_BITS: u32 = P::FILTER_BITS;
    const BUCKET_BYTES: usize = Bucket::<S, W, L>::BYTES;
    const EXTRA_PROBES: u32 = P::EXTRA_PROBES;
}

impl<S: Slot, P: Probe, const W: u32, const L: usize> TileKind<W> for Table<S, P, W, L> {
    #[device(caller)]
    fn share<O: Operation>(
        map: MapView<Self>,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: S::Key,
        argument: S::Value,
    ) -> (Outcome, S::Value) {
        map.share(tile, pending, operation, key, argument)
    }
}
