//! A map that is divided among several devices.
mod batches;
mod columns;
mod combine;
mod direct;
mod engine;
mod geometry;
mod host;
pub(crate) mod partition;
mod ranks;
mod remote;
mod shape;
mod small;
mod stages;
mod steps;
mod tables;
mod whole;
mod work;

use crate::map::launch::{Batch, BatchOp};
use crate::map::{Key, Map, Outcomes, Value};
use crate::{Error, HashMap, Result, register_kernels};
pub use batches::ShardedBatches;
use columns::Columns;
use combine::{Equal, SAMPLE};
use direct::Direct;
use engine::Engine;
pub use engine::Report;
use exchange::{Exchange, Traffic};
use geometry::Geometry;
use gpu::{Device, Stream, Tier};
use phalanx_kernels::sharded::MOST_OWNERS;
use phalanx_kernels::sharded::direct::{ShardedReceive, ShardedSend};
use phalanx_kernels::sharded::equal::{ShardedDistinct, ShardedExpand, ShardedHeads, ShardedSample};
use phalanx_kernels::sharded::kernels::{ShardedBounds, ShardedCount, ShardedGather, ShardedScatter};
use phalanx_kernels::sharded::small::{ShardedCollect, ShardedRoute};
use phalanx_kernels::sharded::{Pair, owner_of};
pub use ranks::{on_devices, share};
use remote::Remote;
use shape::Call;
use stages::Clock;
pub use stages::Stages;
use std::fmt;
use std::marker::PhantomData;
use steps::Step;
use work::Work;

/// One rank's end of a map that is divided among the devices of several ranks.
///
/// Each rank is a thread or process with a device and a *shard*: a [`HashMap`], or another [`Map`] `M`, with
/// the keys that a hash assigns to this rank. All ranks call the same operations in the same order, each with
/// a batch of its own, which may have any keys: an operation is *collective*, as those of an [`Exchange`]
/// are. The repository's page `docs/scale-out.md` describes the algorithm and its costs.
///
/// ```
/// use phalanx::exchange::Limits;
/// use phalanx::sharded_map::on_devices;
/// use phalanx::{Device, HashMap, ShardedMap};
///
/// let devices = [(); 3].map(|()| Device::emulator(Default::default()));
/// let limits = Limits { part_bytes: 1 << 12, slot_bytes: 256, ..Limits::default() };
/// let lens = on_devices(&devices, limits, |exchange| {
///     let shard = HashMap::<u64, u64>::builder().device(exchange.device()).capacity(100).build()?;
///     let mut map = ShardedMap::new(exchange, shard)?;
///     let rank = map.rank() as u64;
///     assert!(map.insert(&[rank, 10 + rank], &[1, 2])?.all_placed());
///     assert_eq!(map.get(&[0, 11, 2, 3])?, [Some(1), Some(2), Some(1), None]);
///     assert_eq!(map.remove(&[rank, 99])?, [true, false]);
///     map.len()
/// })?;
/// assert_eq!(lens, [3; 3]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Guarantees
/// - An operation has the outcomes of some serial order of the elements of all ranks' batches.
/// - Results are in the order of the caller's batch.
/// - An error of arguments is an error on all ranks, and nothing is done.
/// - No call waits for other ranks longer than [`Limits::deadline`](exchange::Limits::deadline) in one step.
///   When a rank is lost, all others return [`Error::Exchange`] with
///   [`PeerLost`](exchange::Error::PeerLost), from then on. A batch in flight may be done in part. Each shard
///   stays usable by [`shard`](Self::shard).
///
/// # Concurrency
/// Operations take `&mut self`: one at a time. [`shard`](Self::shard) gives access to the pairs of this rank
/// for calls that concern no other.
///
/// # Cost
///
/// | call | cost |
/// |---|---|
/// | `new` | loads the kernels, and, unless kernels write messages to the other ranks' memory, allocates messages and answers for two chunks, about a GiB with default limits; on GPUs of one process, times up to 320 lookups of up to 2^22 keys |
/// | operations on host slices | copies the batch to the device and the results back, as a whole, by the threads of the host unless the slices lie in buffers on [`Tier::Pinned`] and are their own words; otherwise as [`batches`](Self::batches). A batch that is longer than all before allocates up to 28 bytes per element, which are kept until a shard has to grow for refused elements |
/// | `len`, `is_empty` | [`Map::len`] of the shard, and one step of the exchange |
/// | `retain`, `retain_keys`, `clear`, `export`, `save` | those of the shard, and one step or two |
/// | `load` | reads the parts on the host; then `insert_new` of up to 2^22 pairs at a time |
/// | the others | no access to the device |
///
/// With one rank, batches go straight to the shard (but see [`force_exchange`](Self::force_exchange)).
pub struct ShardedMap<K: Key, V: Value, M = HashMap<K, V>> {
    engine: Engine<K::Word, V::Word>,
    shard: M,
    /// Whether the shard may have become another one since it was checked.
    is_lent: bool,
    /// Device memory for batches on host slices.
    columns: Columns<K::Word, V::Word>,
    /// Whether a batch may run: none was waited for since it was submitted.
    is_running: bool,
    of: PhantomData<fn() -> (K, V)>,
}

/// When equal keys of a batch are combined before the exchange: one of them goes to its owner, and the others
/// take their answers from its. The elements of an `upsert` are never combined here; kernels of the shard
/// combine those of a warp.
///
/// ```
/// use phalanx::sharded_map::Combining;
///
/// assert_eq!(Combining::default(), Combining::BySample);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Combining {
    /// If a sample of 1024 keys says that it pays: some keys are so frequent that their owners would have
    /// much more work than others. Batches of less than 2^20 elements are not combined.
    #[default]
    BySample,
    /// Always. Sorts each batch, and waits for the device once more.
    Always,
    /// Never.
    Never,
}

/// A batch, and what a call keeps until it has run.
type BatchWith<K, V, T> = (Batch<<K as Key>::Word, <V as Value>::Word>, T);

impl<K: Key, V: Value, M: fmt::Debug> fmt::Debug for ShardedMap<K, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Engine { exchange, report, .. } = &self.engine;
        let mut debug = f.debug_struct("ShardedMap");
        debug.field("exchange", exchange).field("shard", &self.shard).field("report", report).finish()
    }
}

/// Making a map, and its properties.
impl<K: Key, V: Value, M: Map<Key = K, Value = V>> ShardedMap<K, V, M> {
    /// Makes this rank's end of a map, with a shard on the exchange's device. All ranks call it. A shard with
    /// pairs must have only keys of its rank: see [`owner`](Self::owner).
    ///
    /// # Errors
    /// [`Error::OtherDevice`] if the shard is on another device; [`Error::Device`] if the device lacks the
    /// memory; [`Error::Exchange`] for more than 32 ranks ([`Arguments`](exchange::Error::Arguments)), if the
    /// types of other ranks differ ([`Mismatch`](exchange::Error::Mismatch)) or a rank has failed or not
    /// called in time ([`PeerLost`](exchange::Error::PeerLost)).
    pub fn new(exchange: Exchange, shard: M) -> Result<Self> {
        let ranks = exchange.ranks();
        if !geometry::is_possible(ranks) {
            let (what, expected) = ("ranks of a sharded map", format!("at most {MOST_OWNERS} are possible"));
            return Err(Error::from(exchange::Error::Arguments { what, found: ranks as u64, expected }));
        }
        crate::map::batches::check_same_device(exchange.device(), "shard", shard.inner().device())?;
        let pair = size_of::<K::Word>() + size_of::<V::Word>();
        let geometry = Geometry::new(&exchange.limits(), (exchange.rank(), ranks), pair);
        register_kernels(exchange.device());
        let work = Work::new(exchange.stream())?;
        let sample = exchange.device().buffer_on(Tier::Pinned, SAMPLE)?;
        let (side, own) = (exchange.device().urgent_stream()?, exchange.device().stream()?);
        let (report, clock, of) = (Report::default(), Clock::default(), PhantomData);
        let engine = Engine {
            exchange,
            geometry,
            work,
            report,
            is_forced: false,
            side,
            own,
            clock,
            remote: None,
            most_remote: 0,
            pending: Default::default(),
            combining: Combining::default(),
            sample,
            equal: None,
            direct: None,
            of,
        };
        let columns = Columns::new(shard.inner().device())?;
        let mut map = Self { engine, shard, is_lent: false, columns, is_running: true, of: PhantomData };
        map.load_kernels()?;
        map.agree_on_types()?;
        map.engine.connect_windows()?;
        if ranks > 1 && map.engine.direct.is_none() {
            // A single rank executes most batches without this memory.
            map.engine.reserve_work()?;
        }
        map.engine.remote = Remote::connect(&mut map.engine.exchange, map.shard.inner())?;
        map.engine.calibrate(map.shard.inner())?;
        map.wait()?; // so that the first call need not
        Ok(map)
    }

    /// Loads all kernels: with NCCL, loading one while another rank waits may deadlock. Waits for the device.
    fn load_kernels(&self) -> Result<()> {
        let device = self.device();
        device.prepare::<ShardedCount<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedBounds>()?;
        device.prepare::<ShardedScatter<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedGather<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedRoute<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedCollect<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedSend<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedReceive<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedSample<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedHeads<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedDistinct<Pair<K::Word, V::Word>>>()?;
        device.prepare::<ShardedExpand<Pair<K::Word, V::Word>>>()?;
        // Batches whose count on the device is 0 do nothing, but load the shard's kernels: for lookups those
        // for tables with writers, too.
        let (none, keys) = (device.zeroed::<u32>(1)?, device.zeroed::<K::Word>(1)?);
        let (values, outcomes) = (device.zeroed::<V::Word>(1)?, device.zeroed::<u8>(1)?);
        let keys = keys.bounded_by(&none)?.global();
        let batch = |op| match op {
            BatchOp::Get => {
                Batch { results: values.global(), outcomes: outcomes.global(), ..Batch::new(op, keys) }
            }
            _ => Batch { arguments: values.global(), outcomes: outcomes.global(), ..Batch::new(op, keys) },
        };
        let (shard, lookups) = (self.shard.inner(), [BatchOp::Get, BatchOp::ContainsKey]);
        let upsert = BatchOp::Upsert(crate::map::OpCode::MAX);
        let changes = [BatchOp::Insert, BatchOp::InsertNew, upsert, BatchOp::Remove];
        changes.into_iter().chain(lookups).try_for_each(|op| shard.submit(self.stream(), batch(op)))?;
        shard.settle()?;
        lookups.into_iter().try_for_each(|op| shard.submit_in_order(self.stream(), batch(op)))
    }

    /// Compares the types of all ranks.
    fn agree_on_types(&mut self) -> Result<()> {
        let name = [K::name(), V::name()].join(" ");
        let words = [crc32fast::hash(name.as_bytes()).into(), size_of::<K::Word>() as u64];
        let all = self.engine.exchange_numbers(Step::Types, words)?;
        match all.iter().position(|found| *found != words) {
            None => Ok(()),
            Some(rank) => {
                let (what, found, expected) =
                    ("types of keys and values, as a checksum", all[rank][0], words[0]);
                Err(exchange::Error::Mismatch { what, rank, found, expected }.into())
            }
        }
    }

    /// Returns the number of this rank, counted from 0.
    pub fn rank(&self) -> usize {
        self.engine.geometry.rank
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.engine.geometry.ranks
    }

    /// Returns the rank whose shard has a key, or would have it.
    pub fn owner(&self, key: K) -> usize {
        owner_of(key.encode(), self.ranks() as u32) as usize
    }

    /// Returns the device of this rank.
    pub fn device(&self) -> &Device {
        self.engine.exchange.device()
    }

    /// Returns the stream in whose order batches read and write their buffers.
    pub fn stream(&self) -> &Stream {
        self.engine.exchange.stream()
    }

    /// Returns this rank's shard. Its own calls concern the pairs of this rank alone, and work also when
    /// another rank is lost. A call that inserts must insert keys of this rank only.
    ///
    /// Other ranks may read the shard until they have executed their part of a
    /// [`batches().get`](ShardedBatches::get) that needed no exchange. So before a rank changes its shard by
    /// itself after such a batch, all ranks [`wait`](Self::wait), and then call an operation of all ranks,
    /// such as [`all_gather`](Self::all_gather). When another call returns, no rank uses this shard for it
    /// any more. The next lookup waits for the device if the shard's own calls may have changed it. The other
    /// way round, these calls wait for lookups of this map that still run: where a rank may be lost
    /// meanwhile, call `wait` first, which has a deadline.
    pub fn shard(&self) -> &M {
        &self.shard
    }

    /// Returns this rank's shard for exclusive operations such as [`HashMap::reserve`]: see
    /// [`shard`](Self::shard). If another map takes its place, it must be on the same device, or later
    /// operations are an [`Error::OtherDevice`]; and this map's pairs are no longer looked up without an
    /// exchange. The [`get_remote`](Self::get_remote) of other ranks still reads the former map. The next
    /// operation waits for the device, and loads the shard's kernels.
    pub fn shard_mut(&mut self) -> &mut M {
        self.is_lent = true;
        &mut self.shard
    }

    /// Checks the shard after [`Self::shard_mut`]. It may be another one, with other kernels, on which
    /// batches of another sharded map run.
    fn check_shard(&mut self) -> Result<()> {
        if self.is_lent {
            self.engine.exchange.wait()?; // with a deadline, which the shard's own wait has not
            let shard = self.shard.inner();
            crate::map::batches::check_same_device(self.engine.exchange.device(), "shard", shard.device())?;
            let table = shard.readable().map(|table| table.id());
            let (rank, remote) = (self.rank(), self.engine.remote.take());
            self.engine.remote = remote.filter(|remote| remote.id(rank) == table);
            self.load_kernels()?;
            self.is_lent = false;
        }
        Ok(())
    }

    /// Before lookups, waits for what the shard's own calls have submitted, if they may write, so that
    /// read-only kernels execute the lookups.
    fn settle_shard(&mut self, op: BatchOp) -> Result<()> {
        if !op.writes() && self.shard.inner().is_unsettled() {
            self.engine.exchange.wait()?; // with a deadline, which the shard's own wait has not
            self.shard.inner().settle()?;
        }
        Ok(())
    }

    /// Ends the exchange, and returns the shard. The other ranks get
    /// [`PeerLost`](exchange::Error::PeerLost) from now on, unless they do the same.
    pub fn into_shard(self) -> M {
        self.shard
    }

    /// Returns what the last batch has done.
    pub fn report(&self) -> Report {
        self.engine.report
    }

    /// Returns the data that this rank has sent since the exchange was made, and its waits for the device.
    pub fn traffic(&self) -> Traffic {
        self.engine.exchange.traffic()
    }

    /// Returns the bytes of device memory of the shard and of this rank's messages and windows, and those in
    /// which equal keys of batches have been combined, or which batches on host slices have used: both are
    /// kept for the next batch.
    pub fn memory_usage(&self) -> usize {
        let windows = 3 * self.engine.exchange.limits().window_bytes(self.ranks());
        let equal = self.engine.equal.as_ref().map_or(0, Equal::memory_usage);
        let direct = self.engine.direct.as_ref().map_or(0, Direct::memory_usage);
        let batches = direct + equal + self.columns.memory_usage();
        self.shard.inner().memory_usage() + self.engine.work.memory_usage() + batches + windows
    }

    /// Returns whether [`get_remote`](Self::get_remote) is possible: all ranks are threads of this process,
    /// this device can access the memory of all others, and the shards are hash maps.
    pub fn is_readable(&self) -> bool {
        self.engine.remote.is_some()
    }

    /// Returns the largest batch of `get` for which this rank prefers lookups without an exchange.
    pub fn most_remote(&self) -> usize {
        self.engine.most_remote
    }

    /// Sets up to how many elements a `get` is executed by kernels that read the tables of all ranks, as
    /// [`get_remote`](Self::get_remote), if it is [possible](Self::is_readable) on all ranks. The longest
    /// batch of all ranks counts, and the smallest number that a rank has set. Changes by other operations of
    /// this map are ordered before and after such lookups.
    ///
    /// `new` measures the number: both ways, for some sizes of batches, until the exchange is faster, or
    /// takes more than 5 ms; then it is 2^22 if the exchange is more than twice as slow. On emulated devices
    /// it is 0.
    pub fn set_most_remote(&mut self, elements: usize) {
        self.engine.most_remote = elements;
    }

    /// Selects when equal keys of this rank's batches are combined before the exchange. Ranks may differ.
    pub fn set_combining(&mut self, combining: Combining) {
        self.engine.combining = combining;
    }

    /// Makes batches go through partition and exchange even if there is one rank, to measure them.
    pub fn force_exchange(&mut self, is_forced: bool) {
        self.engine.is_forced = is_forced;
    }

    /// Measures the stages of later batches, or no longer. The measurement adds some events to the stream.
    pub fn measure_stages(&mut self, is_measured: bool) {
        self.engine.clock.is_on = is_measured;
    }

    /// Returns the times of the stages since the last call. Waits for the stream.
    ///
    /// # Errors
    /// As [`wait`](Self::wait); [`Error::Device`] if the clock of the device fails.
    pub fn stages(&mut self) -> Result<Stages> {
        self.wait()?;
        self.engine.clock.take()
    }

    /// Returns batches on device buffers.
    pub fn batches(&mut self) -> ShardedBatches<'_, K, V, M> {
        ShardedBatches::new(self)
    }

    /// Waits until the stream has executed all batches.
    ///
    /// # Errors
    /// [`Error::Exchange`] when it has not before the deadline or a rank was lost before
    /// ([`PeerLost`](exchange::Error::PeerLost)), or a kernel failed ([`Device`](exchange::Error::Device)).
    pub fn wait(&mut self) -> Result<()> {
        self.engine.exchange.wait()?;
        self.engine.remote.iter_mut().for_each(Remote::forget);
        self.is_running = false;
        Ok(())
    }

    /// Runs this rank's part of a collective batch. Returns what comes with it.
    fn run<T>(&mut self, call: Call, batch: Result<BatchWith<K, V, T>>) -> Result<T> {
        let ready = self.check_shard().and_then(|()| self.settle_shard(call.op));
        let batch = ready.and(batch);
        self.is_running = true;
        self.engine.run(self.shard.inner(), call, batch)
    }
}
