//! A table of bounded capacity that evicts keys: [`CacheTable`].
mod batches;
mod builder;
mod chunks;
mod element;
mod file;
mod groups;
mod growth;
mod host;
mod host_rows;
mod kernels;
mod lease;
mod many;
mod memory;
mod merge;
mod queue;
mod scans;
#[cfg(test)]
mod schedules;
mod since;
mod summary;

use crate::number::Number;
use crate::{Error, Result};
use bytemuck::Pod;
use gpu::{Device, Stream};
use groups::Groups;
use growth::Growth;
use kernels::{Kernels, Launch};
use lease::Leases;
use memory::Memory;
use merge::Merger;
use phalanx_kernels::cache::{SLOTS, Time};
use phalanx_kernels::keyed::Scalar;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

pub use batches::{Batches, EvictedBuffers};
pub use builder::Builder;
pub use element::Summand;
pub use groups::Lock;
pub use host::{EvictedRows, Exported, Rows};
pub use host_rows::HostRows;
pub use lease::Lease;
pub use many::{BatchesOfMany, CacheTables, MissedBuffers};
pub use merge::MergeBy;
pub use phalanx_kernels::cache::{Filter, Rule};
pub use since::ExportSince;
pub use summary::Victims;

/// A table of bounded capacity from keys to rows of elements, in device memory, which holds the keys with the
/// highest scores: a cache. An insertion into a full bucket evicts the key with the lowest score of the
/// bucket. No key is reserved.
///
/// Keys are `u32` or `u64`. A row has [`dim`](Self::dim) elements of any plain type, 4 to 4096 bytes in all.
/// Scores are `u64` or `u32`; a [`Rule`] says how they change, or a policy of your own
/// ([`Builder::variant_of`]). Source: HierarchicalKV, sections 3.2 to 3.5.
/// The page `docs/structures/cache-table.md` has the layout and the proof.
///
/// ```
/// use phalanx::{CacheTable, Outcome};
///
/// let table = CacheTable::<u64, f32>::builder().capacity(1000).dim(2).build()?;
/// assert!(table.insert(&[7, 8], &[0.5, 1.5, 2.5, 3.5])?.all_placed());
/// let rows = table.get(&[8, 9])?;
/// assert_eq!((rows.of(0), rows.of(1)), (Some(&[2.5, 3.5][..]), None));
/// assert_eq!(table.accumulate(&[7, 7], &[1.0, 1.0, 2.0, 2.0])?, [Outcome::Replaced; 2]);
/// assert_eq!(table.get(&[7])?.of(0), Some(&[3.5, 4.5][..]));
/// assert_eq!((table.len()?, table.remove(&[7])?.as_slice()), (2, &[true][..]));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::cache_table::Rule;
/// use phalanx::{CacheTable, Outcome};
///
/// let table = CacheTable::<u32, u32>::builder().capacity(100).rule(Rule::Lfu).build()?;
/// assert!(table.insert_scored(&[1, 2], &[10, 20], &[5, 1])?.all_placed()); // five uses, and one
/// assert_eq!(table.get_or_insert(&[2, 3], &[99, 30])?.of(0), Some(&[20][..]));
/// assert_eq!(table.assign(&[3, 4], &[31, 41])?, [Outcome::Replaced, Outcome::Absent]);
/// assert_eq!(table.assign_scores(&[3], &[7])?, [Outcome::Replaced]); // seven uses more
/// assert_eq!(table.get_and_touch(&[1])?.outcomes(), &[Outcome::Found]);
/// assert_eq!((table.len_scored(6..)?, table.contains_key(&[1, 4])?), (2, vec![true, false]));
/// let (outcomes, evicted) = table.insert_evict(&[5], &[50])?;
/// assert!(outcomes.all_placed() && evicted.keys.is_empty() && !table.is_empty()?);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::CacheTable;
/// use phalanx::cache_table::Rule;
///
/// let mut table = CacheTable::<u32, u64>::builder().capacity(100).rule(Rule::EpochLru).build()?;
/// assert!(table.variant() == CacheTable::<u32, u64>::variants()[0] && table.rule() == Some(Rule::EpochLru));
/// table.set_epoch(3)?;
/// let (device, stream) = (table.device(), table.device().stream()?);
/// let (keys, rows) = (device.from_slice(&[1u32, 2])?, device.from_slice(&[10u64, 20])?);
/// let (mut addresses, mut outcomes) = (device.zeroed::<u64>(2)?, device.zeroed::<u8>(2)?);
/// table.on(&stream).insert(&keys, &rows, None)?;
/// let lease = table.on(&stream).get_ref(&keys, &mut addresses, &mut outcomes)?;
/// assert_eq!(table.leases(), [lease.number()]);
/// drop(lease);
/// assert_eq!(table.remove_scored(3 << 32..)?, 2);
/// assert!(table.memory_usage() > 128 * (4 + 8 + 8 + 1) && table.host_memory_usage() == 0);
/// table.clear()?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::CacheTable;
/// use phalanx::cache_table::{Filter, Rule};
///
/// let builder = || CacheTable::<u64, u32>::builder().capacity(1000).rule(Rule::EpochLru);
/// let table = builder().max_capacity(4000).build()?;
/// assert!(table.insert(&[1, 2, 3, 4], &[10, 20, 30, 40])?.all_placed() && table.max_capacity() >= 2000);
/// let even = Filter::all().key_bits(1, 0);
/// assert_eq!((table.len_if(even)?, table.export_if(even.keys(3..))?.keys), (2, vec![4]));
///
/// table.set_epoch(1)?;
/// let (mut full, mut changes) = (Vec::new(), Vec::new());
/// let since = table.save(&mut full)?;
/// table.assign(&[3], &[31])?;
/// table.save_since(since, &mut changes)?;
/// let loaded = CacheTable::load(&full[..], builder().seed(7))?;
/// assert_eq!((loaded.apply(&changes[..])?, loaded.get(&[3])?.of(0)), (1, Some(&[31][..])));
/// assert_eq!(loaded.remove_if(even)?, 2);
/// let mut found = [false; 2];
/// loaded.contains_into(&[2, 3], &mut found)?;
/// assert_eq!(found, [false, true]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// All batches take `&self`. There are three groups. Batches that only read run concurrently. Batches that
/// change only rows and scores of present keys run concurrently: a row is never torn, and each element takes
/// effect at once. A batch that inserts or removes keys runs alone. Batches of different groups take effect
/// in the order of the calls. With [`Lock::Concurrent`], lookups run concurrently with all batches except
/// promotions. Within a batch, outcomes are those of some serial order of its elements, except that an
/// eviction may overlook a key whose slot another element of the batch changes at that moment.
///
/// # Cost
///
/// A search reads 128 bytes of digests in each of the key's buckets, one or two, and the key where a digest
/// agrees. A row is read or written by whole sectors. An insertion locks and releases the slot by an atomic
/// each; an eviction reads the 128 scores of each of the key's buckets.
///
/// `get`, `get_into`, `get_and_touch`, `contains_key`, `contains_into`, `insert`, `insert_scored`,
/// `insert_evict`, `get_or_insert`, `accumulate`, `assign`, `assign_scores` and `remove` on host slices use
/// staging memory, which the device keeps for later calls. Kernels access the elements of a call of at most
/// 1024 in pinned memory. A larger call is divided into chunks of 131 072 elements or more, but at most
/// 8 MiB: each is copied to the device and is a batch as [`Batches`] states for the call of this name, with a
/// time of its own. Copies overlap with other chunks' kernels, and the call waits for all of them.
/// `len`, `is_empty`, `len_scored`, `len_if`, `remove_scored` and `remove_if` launch a kernel that reads a
/// byte per slot, and the keys or scores if the filter has a condition on them, and wait; `export` and
/// `export_if` do so twice, and copy the keys, scores and rows.
/// `export_since`, `save` and `save_since` read the table by steps: see [`ExportSince`]. `load` and `apply`
/// insert the keys of a file, which `apply` first reads as a whole.
///
/// A table whose capacity is below its [maximum](Self::set_max_capacity) counts its keys, and those of the
/// batch that it lacks, before a batch that might exceed the load at which it grows: two launches and two
/// waits, at most once for every 32nd of the capacity. Growth, and `reserve`, allocate a table of the new
/// size beside the old one and up to 32 MiB, copy every row twice, and wait; `set_max_capacity` sets a number
/// on the host.
///
/// `promote` and `promote_scored` launch a kernel that reads the digests and scores, and copies two rows for
/// each key that moves; they wait. `clear` waits for the device and writes a byte per slot. `set_epoch` sets
/// a number on the host.
pub struct CacheTable<K, V, S = u64> {
    /// Replaced when the table grows, by a batch of the inserters' group.
    memory: RwLock<Memory<K, S>>,
    growth: Mutex<Growth>,
    kernels: Box<dyn Kernels<K, S>>,
    device: Device,
    dim: usize,
    clock: Clock,
    groups: Groups,
    merger: Merger,
    host_rows: HostRows,
    merge_by: MergeBy,
    leases: Leases,
    of: PhantomData<fn() -> V>,
}

/// Parameters of a table's memory. Only the number of buckets ever changes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    buckets: u32,
    /// Number of buckets in which a key can be.
    choices: u32,
    /// Words in a row.
    words: u32,
    /// Number of slots of a bucket whose rows are on the device.
    near_slots: u32,
    seed: u64,
}

impl Shape {
    fn slots(self) -> usize {
        self.buckets as usize * SLOTS as usize
    }

    /// Returns the words of the rows of so many slots of each bucket.
    fn row_words(self, slots: u32) -> usize {
        self.buckets as usize * slots as usize * self.words as usize
    }
}

/// The time of batches, and what their score policy makes of it.
#[derive(Debug)]
struct Clock {
    /// None if the policy is not the library's.
    rule: Option<Rule>,
    /// Parameter of the policy.
    parameter: u32,
    time: Mutex<Time>,
}

impl Clock {
    fn new(rule: Option<Rule>, parameter: u32) -> Self {
        Self { rule, parameter, time: Mutex::default() }
    }

    /// Returns the time of the next batch. Called when the batch is submitted, in the order of the batches.
    fn next_time(&self) -> Time {
        let mut time = self.time();
        time.now += 1;
        *time
    }

    /// Sets the time to that of a saved table, unless it is later.
    fn catch_up(&self, saved: Time) {
        let mut time = self.time();
        *time = Time { now: time.now.max(saved.now), epoch: time.epoch.max(saved.epoch) };
    }

    fn set_epoch(&self, epoch: u32) -> Result<()> {
        let mut time = self.time();
        if epoch < time.epoch {
            return Err(Error::Epoch { asked: epoch, current: time.epoch });
        }
        time.epoch = epoch;
        Ok(())
    }

    // The time is valid even after a panic.
    fn time(&self) -> MutexGuard<'_, Time> {
        self.time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, V, S> std::fmt::Debug for CacheTable<K, V, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CacheTable").field("dim", &self.dim).field("rule", &self.clock.rule).finish()
    }
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Returns a builder, for options other than the defaults.
    pub fn builder() -> Builder<K, V, S> {
        Builder::new()
    }

    fn create(
        device: &Device,
        kernels: Box<dyn Kernels<K, S>>,
        (shape, growth): (Shape, Growth),
        (clock, groups): (Clock, Groups),
        (dim, victims, host_rows, merge_by): (usize, Victims, HostRows, MergeBy),
    ) -> Result<Self> {
        let (has_summary, has_versions) = (victims == Victims::Summary, groups.lock().is_concurrent());
        Ok(Self {
            memory: RwLock::new(Memory::new(device, shape, has_summary, has_versions)?),
            growth: Mutex::new(growth),
            kernels,
            device: device.clone(),
            dim,
            clock,
            groups,
            merger: Merger::default(),
            host_rows,
            merge_by,
            leases: Leases::default(),
            of: PhantomData,
        })
    }

    /// Returns the names of the kinds of table with these types of keys and scores, the default first. Kinds
    /// differ in the tiles that search keys.
    pub fn variants() -> Vec<&'static str> {
        kernels::all::<K, S>().map(|kernels| kernels.name()).collect()
    }

    /// Returns the name of the table's kind.
    pub fn variant(&self) -> &'static str {
        self.kernels.name()
    }

    /// Returns the device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    // The memory is replaced as a whole.
    fn memory(&self) -> RwLockReadGuard<'_, Memory<K, S>> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn shape(&self) -> Shape {
        self.memory().shape()
    }

    /// Returns the number of keys for which the table has memory now.
    pub fn capacity(&self) -> usize {
        self.shape().slots()
    }

    /// Returns the number of elements in a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Returns the rule of the scores, or `None` if the table has a score policy of your own: see
    /// [`Builder::variant_of`].
    pub fn rule(&self) -> Option<Rule> {
        self.clock.rule
    }

    /// Returns how insertions into full buckets find the key with the lowest score.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::Victims;
    ///
    /// let table = CacheTable::<u64, u32>::builder().build()?;
    /// assert_eq!(table.victims(), Victims::Summary);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn victims(&self) -> Victims {
        if self.memory().summary().is_some() { Victims::Summary } else { Victims::Exact }
    }

    /// Returns the device memory in use, in bytes.
    pub fn memory_usage(&self) -> usize {
        // The memory is not locked while the merger is: a lookup locks them in the other order.
        let memory = self.memory().memory_usage();
        memory + self.merger.memory_usage() + self.leases.memory_usage()
    }

    /// Returns the pinned host memory in use, in bytes: that of the rows which
    /// [`Builder::rows_on_device`] leaves there.
    pub fn host_memory_usage(&self) -> usize {
        self.memory().host_memory_usage()
    }

    /// Sets the epoch of later batches, for [`Rule::EpochLru`] and [`Rule::EpochLfu`]: keys used in a later
    /// epoch stay longer than those of earlier ones.
    ///
    /// # Errors
    /// [`Error::Epoch`] if it is below the current epoch.
    pub fn set_epoch(&self, epoch: u32) -> Result<()> {
        self.clock.set_epoch(epoch)
    }

    /// Returns the numbers of the [leases](Lease) that have not ended, the oldest first: one that was leaked
    /// stays here.
    pub fn leases(&self) -> Vec<u64> {
        self.leases.numbers()
    }

    /// Returns the batches on device buffers, submitted to a stream.
    pub fn on(&self, stream: &Stream) -> Batches<'_, K, V, S> {
        Batches::new(self, stream)
    }

    /// Submits a launch, with the time of a new batch if it changes scores.
    ///
    /// # Safety
    /// - As for [`Kernels::launch`]: the slices live until the stream has executed it, and the caller has
    ///   entered the launch's group.
    unsafe fn launch(&self, stream: &Stream, mut launch: Launch<K, S>) -> Result<()> {
        if let Some(batch) = launch.changes_mut() {
            batch.time = self.clock.next_time();
        }
        let memory = self.memory();
        let leased = match launch.frees_slots() {
            true => self.leases.bits(&self.device, stream, memory.shape().slots())?,
            false => None,
        };
        // SAFETY: the caller's obligations. Dropping the memory waits for the launch.
        unsafe { Ok(self.kernels.launch(stream, &memory, leased, launch)?) }
    }
}
