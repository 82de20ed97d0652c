//! Hash map that may be larger than the device memory that it uses. The repository's page
//! `docs/structures/tiered-map.md` describes guarantees, layout, algorithm and costs.
mod adapt;
mod batches;
pub(crate) mod builder;
pub(crate) mod chunk;
mod empty;
mod growth;
mod hot;
pub(crate) mod ledger;
mod measure;
pub(crate) mod operations;
pub(crate) mod partition;
mod parts;
mod pieces;
pub(crate) mod placement;
pub(crate) mod plan;
mod repartition;
mod scan;
mod scattered;
pub(crate) mod serve;
pub(crate) mod shard;
pub(crate) mod shard_file;
pub(crate) mod shards;
pub(crate) mod slots;
pub(crate) mod staged;
pub(crate) mod storage;
mod streams;
pub(crate) mod tiers;
pub(crate) mod work;

#[allow(unused_imports)] // for links in the documentation
use crate::Error;
pub use crate::hash_map::Growth;
use crate::map::encoding::decode_pairs;
use crate::map::{IntoIter, Pairs, file};
pub use batches::Batches;
pub use builder::{Builder, variants};
use ledger::Ledger;
use operations::prelude::*;
use operations::tiered_methods;
pub use partition::Partition;
pub use placement::{Costs, Placement};
use std::io::{Read, Write};
use std::sync::{Arc, Mutex};
pub use storage::Storage;
pub use streams::Progress;
use tiers::Tiers;
pub use tiers::Traffic;

/// A hash map whose pairs lie in pinned host memory, if they do not fit the device memory that the map may
/// use: its *budget*. The map never uses more, batches and workspace included.
///
/// The pairs are divided into *shards* by a hash of the key. A batch is sorted by shard on the device. Each
/// shard of which the batch has many keys is copied to the device once; operations on the others are executed
/// in place, over the bus ([`Placement`]). Pairs that lookups find often stay on the device
/// ([`Self::hot_pairs`]). A map that fits its budget is one table on the device, as a
/// [`HashMap`](crate::HashMap).
///
/// No key is reserved. A batch may contain a key several times. The operations of a batch run in no
/// particular order, and each is linearizable.
///
/// ```
/// use phalanx::{Merge, Op, Outcome, TieredMap};
///
/// let map = TieredMap::<u64, u64>::builder().capacity(1000).budget(4 << 20).build()?;
/// assert_eq!(map.insert(&[7, 8], &[70, 80])?, [Outcome::Inserted, Outcome::Inserted]);
/// assert_eq!(map.insert_new(&[8, 9], &[0, 90])?, [Outcome::Found, Outcome::Inserted]);
/// assert_eq!(map.upsert(Merge::Add, &[7, 7], &[1, 1])?, [Outcome::Replaced; 2]);
/// assert_eq!(map.get(&[7, 8, 10])?, [Some(72), Some(80), None]);
/// assert_eq!(map.get_or_insert(&[7, 10], &[0, 100])?, [Some(72), Some(100)]);
/// assert_eq!(map.contains_key(&[7, 11])?, [true, false]);
/// assert_eq!(map.remove(&[8, 11])?, [true, false]);
/// assert_eq!(map.take(&[9, 11])?, [Some(90), None]);
/// assert_eq!(map.replace(&[7, 12], &[71, 120])?, [Some(72), None]);
/// let results = map.execute(&[Op::Get(7), Op::Remove(12)])?;
/// assert_eq!(results, [(Outcome::Found, Some(71)), (Outcome::Removed, None)]);
/// assert_eq!((map.len(), map.is_empty()), (2, false));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Batches in slices of the caller, all pairs, and files:
///
/// ```
/// use phalanx::{HashMap, Merge, Outcome, TieredMap};
///
/// let mut map = TieredMap::<u32, u32>::builder().capacity(1000).shards(4).build()?;
/// let mut outcomes = [0; 3];
/// map.insert_into(&[1, 2, 3], &[10, 20, 30], &mut outcomes)?;
/// assert_eq!(outcomes, [Outcome::Inserted as u8; 3]);
/// map.upsert_into(Merge::Add, &[2, 4], &[0, 40], &mut outcomes[..2])?;
/// assert_eq!(outcomes[..2], [Outcome::Replaced as u8, Outcome::Inserted as u8]);
/// map.remove_into(&[4], &mut outcomes[..1])?;
/// let (mut values, mut found) = ([0; 2], [false; 2]);
/// map.get_into(&[2, 4], &mut values, &mut found)?;
/// assert_eq!((values[0], found), (20, [true, false]));
/// map.remove_into(&[1, 4], &mut outcomes[..2])?;
/// assert_eq!(outcomes[..2], [Outcome::Removed as u8, Outcome::Absent as u8]);
/// map.contains_into(&[1, 3], &mut found)?;
/// assert_eq!(found, [false, true]);
///
/// map.retain(|key, _| key != 2)?;
/// assert_eq!((map.iter()?.collect::<Vec<_>>(), map.export()?), (vec![(3, 30)], (vec![3], vec![30])));
/// let mut file = Vec::new();
/// map.save(&mut file)?;
/// map.clear()?;
/// map.release_host_memory()?;
/// assert!(map.is_empty());
/// let loaded = TieredMap::<u32, u32>::load(&file[..], TieredMap::builder().shards(2))?;
/// assert_eq!(loaded.get(&[2, 3])?, [None, Some(30)]);
/// assert_eq!(HashMap::<u32, u32>::load(&file[..], HashMap::builder())?.len()?, 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Streams of batches, and what the map needs and does:
///
/// ```
/// use phalanx::TieredMap;
/// use phalanx::tiered_map::Progress;
/// use std::ops::ControlFlow;
///
/// let map = TieredMap::<u32, u32>::builder().capacity(1000).shards(4).build()?;
/// let batches = [(vec![1, 2], vec![10, 20]), (vec![3], vec![30]), (vec![4], vec![40])];
/// let stop = |progress: &Progress| match progress.batches {
///     2 => ControlFlow::Break(()),
///     _ => ControlFlow::Continue(()),
/// };
/// let done = map.insert_stream(batches, stop)?;
/// assert_eq!((done.batches, done.elements, map.len()), (2, 3, 3)); // the third batch is not inserted
/// let mut all = Vec::new();
/// let sink = |_: &[u32], values: Vec<Option<u32>>| all.extend(values);
/// map.get_stream([vec![1], vec![3, 4]], sink, |_| ControlFlow::Continue(()))?;
/// assert_eq!(all, [Some(10), Some(30), None]);
///
/// assert_eq!((map.shards(), map.is_resident()), (4, false));
/// assert!(map.slots() >= 1250 && map.chunk() > 0); // a load factor of at most 0.8
/// assert!(map.min_budget() <= map.budget() && map.peak_device_bytes() <= map.budget());
/// assert!(map.device_bytes() <= map.peak_device_bytes() && map.host_bytes() > 0);
/// let (traffic, costs) = (map.traffic(), map.costs());
/// assert!(traffic.on_device + traffic.in_place + traffic.ended == 6 && costs.copy_rate > 0.0);
/// println!("{} on {}", map.variant(), map.device().name());
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// Calls of several threads on one map run one after the other. Calls on several maps of one device run
/// concurrently.
///
/// # Errors
///
/// Memory: if shards cannot grow, a call returns [`Error::NoRoom`] with the outcome of each element; with
/// [`Growth::Fixed`] it returns `Ok` with [`Outcome::Refused`]. If the device or the driver fails during a
/// batch that changes the map, the call returns [`Error::Interrupted`], which says which elements are done,
/// or the cause alone if none is. A file of the shards that cannot be extended, read or written is such a
/// cause, too: [`Error::ShardFile`]. In each case the map is valid: each element is done as a whole, or not
/// at all.
///
/// # Cost
///
/// For a batch of n elements with keys of k bytes and values of v bytes, and S bytes of shards that are
/// executed on the device. To the device, shards that are there already do not count; from the device, all
/// changed shards count. The bus carries both directions at once; kernels and copies overlap.
///
/// | call | bytes to the device | bytes from the device |
/// |---|---|---|
/// | `get`, up to 3 chunks | n k + S | n (v + 1) |
/// | `get`, more chunks | n (2 k + v + 2) + S | n (k + 2 v + 3) |
/// | `insert`, up to 3 chunks | n (k + v) + S | n + S |
/// | `insert`, more chunks | n (2 k + 2 v + 2) + S | n (k + v + 3) + S |
/// | any, in place | instead of S, 1.1 buckets of 64 bytes per key | for writes, 1.1 atomic operations per key |
/// | `len`, `is_empty`, `traffic`, `peak_device_bytes` | none: O(shards) on the host | |
/// | `export`, `iter` | none | the pairs; a kernel reads all slots over the bus |
/// | `clear` | none: the host writes S bytes | |
/// | `release_host_memory` | none: waits for the device and frees up to n (k + 2 v + 3) bytes and 8 shards | |
///
/// `get_into` costs as `get`; `contains_key` and `contains_into` the same without v. `insert_into`,
/// `insert_new`, `upsert` and `upsert_into` cost as `insert`. `take` costs as `get`, `remove` and
/// `remove_into` as `contains_key`, and each of them copies S bytes from the device, too. `get_or_insert`,
/// `replace` and `execute` copy all columns of `insert`, and also n v bytes from the device; with more than 3
/// chunks, n v to the device and 2 n v from it. `execute` also copies a byte per element to the device; with
/// more than 3 chunks, 2 to the device and 1 from it.
///
/// A lookup of a hot pair copies k bytes to the device (2 k with more than 3 chunks) and v + 1 from it. On
/// the device, lookups read 128 bytes per key of the hot pairs, and changes as many, unless there are none.
/// While hot pairs have no memory, `get` computes a hash value per key for a sample of them. To give or take
/// memory, a call frees and allocates up to a third of the budget.
///
/// With more than 3 chunks, a batch takes about 20 launches per chunk and at most 4 per shard, unless a shard
/// has more elements than half a chunk.
///
/// `insert_stream` and `get_stream` cost as `insert` and `get` of each batch. `retain` exports each shard,
/// and removes the rejected keys. `save` exports all pairs, and writes them on the host. `load` reads the
/// file on the host, and inserts its pairs in batches of 2^22.
///
/// Batches on device buffers are those of [`Self::on`].
///
/// Slices in pinned memory ([`Tier::Pinned`](gpu::Tier::Pinned)) are copied by the device at the speed of the
/// bus; others by the driver, through its own buffers.
pub struct TieredMap<K: Key, V: Value> {
    tiers: Mutex<Tiers<K::Word, V::Word>>,
    device: Device,
    ledger: Arc<Ledger>,
    least_budget: usize,
}

impl<K: Key, V: Value> std::fmt::Debug for TieredMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TieredMap")
            .field("budget", &self.ledger.budget())
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

/// Construction and properties.
impl<K: Key, V: Value> TieredMap<K, V> {
    /// Returns a builder to set the parameters.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// Returns the name of the variant of the shards' tables, one of [`variants`].
    pub fn variant(&self) -> String {
        self.tiers().inner.kernels.variant().name.to_owned()
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.tiers().shards.len()
    }

    /// Returns whether the map is one table in device memory.
    pub fn is_resident(&self) -> bool {
        self.tiers().plan.form == plan::Form::Resident
    }

    /// Returns the number of slots of all shards.
    pub fn slots(&self) -> usize {
        self.tiers().shards.iter().map(|shard| shard.size.slots).sum()
    }

    /// Returns the bytes of the file in which the shards are; 0 without a file ([`Storage`]). It grows with
    /// the map, and its free space is used again, but it does not shrink.
    ///
    /// Cost: takes the map's lock.
    ///
    /// ```
    /// use phalanx::TieredMap;
    ///
    /// let map = TieredMap::<u32, u32>::builder().capacity(1000).shards(4).build()?;
    /// assert_eq!(map.file_bytes(), 0); // the shards are in pinned memory
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn file_bytes(&self) -> u64 {
        self.tiers().spares.source().file_bytes()
    }

    /// Returns the number of hot pairs that the map has memory for: those that lookups find without an access
    /// to a shard. Unless [`Builder::hot_pairs`] sets their memory, it is 0 until a call of [`Self::get`] has
    /// shown that they pay, and again when they no longer do.
    ///
    /// ```
    /// use phalanx::TieredMap;
    ///
    /// let builder = TieredMap::<u32, u32>::builder().capacity(1000).shards(4).hot_pairs(1 << 12);
    /// let map = builder.clone().budget(builder.min_budget()? + (1 << 12)).build()?;
    /// assert!(map.hot_pairs() > 400);
    /// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
    /// for _ in 0..2 {
    ///     assert_eq!(map.get(&[1, 3])?, [Some(10), None]);
    /// }
    /// let traffic = map.traffic(); // the first lookups find no hot pairs, and make one
    /// assert_eq!((traffic.hot_lookups, traffic.hot_hits), (2, 1));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn hot_pairs(&self) -> usize {
        self.tiers().hot.capacity::<K::Word, V::Word>()
    }

    /// Changes where operations on shards are executed from now on. A map without shards stays as it is;
    /// [`Placement::Remote`] and [`Placement::Managed`] stand for [`Placement::AlwaysInPlace`].
    ///
    /// ```
    /// use phalanx::TieredMap;
    /// use phalanx::tiered_map::Placement;
    ///
    /// let mut map = TieredMap::<u32, u32>::builder().capacity(1000).shards(4).build()?;
    /// map.set_placement(Placement::AlwaysInPlace);
    /// assert!(map.insert(&[1], &[10])?.all_placed());
    /// assert_eq!((map.traffic().in_place, map.traffic().copied_in), (1, 0));
    /// assert!(map.costs().copy_rate > 0.0);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn set_placement(&mut self, placement: Placement) {
        let tiers = self.tiers_mut();
        if matches!(tiers.plan.form, plan::Form::Sharded { .. }) {
            let is_flat = placement.is_flat();
            tiers.config.placement = if is_flat { Placement::AlwaysInPlace } else { placement };
        }
    }
}

/// The state that the lock of a map protects.
type TiersOf<K, V> = Tiers<<K as Key>::Word, <V as Value>::Word>;

tiered_methods!(TieredMap);

/// Operations on all pairs.
impl<K: Key, V: Value> TieredMap<K, V> {
    /// Returns all keys and, at the same indices, their values, in no particular order.
    ///
    /// # Errors
    /// [`Error::Format`] if a stored word is no key or value of the map's types; [`Error::Device`] if the
    /// device is lost.
    #[doc(alias = "retrieve_all")]
    pub fn export(&self) -> Result<Pairs<K, V>> {
        decode_pairs(self.tiers().export()?)
    }

    /// Returns all pairs, in no particular order. They are copied to the host before the iterator is
    /// returned.
    ///
    /// # Errors
    /// As [`Self::export`].
    pub fn iter(&self) -> Result<IntoIter<K, V>> {
        let (keys, values) = self.export()?;
        Ok(keys.into_iter().zip(values))
    }

    /// Keeps the pairs for which `keep` returns true, shard by shard.
    ///
    /// # Errors
    /// As [`Self::export`] and [`Self::remove`]; some of the rejected keys may then be removed.
    pub fn retain(&mut self, mut keep: impl FnMut(K, V) -> bool) -> Result<()> {
        let mut shard = 0;
        while shard < self.shards() {
            let bits = self.tiers_mut().bits();
            let (keys, values) = decode_pairs::<K, V>(self.tiers_mut().export_shard(shard)?)?;
            let pairs = keys.into_iter().zip(values);
            let rejected: Vec<K> =
                pairs.filter(|&(key, value)| !keep(key, value)).map(|(key, _)| key).collect();
            self.remove(&rejected)?;
            // The maintenance after a removal may divide the map. The first bits of a hash select the shard,
            // so the shards up to this one then become the first ones of the division.
            shard = (shard + 1) << (self.tiers_mut().bits() - bits);
        }
        Ok(())
    }
}

/// Files.
impl<K: Key, V: Value> TieredMap<K, V> {
    /// Saves the pairs, as [`Map::save`](crate::Map::save) does: other maps can load them.
    ///
    /// # Errors
    /// [`Error::Io`] if the writer fails; [`Error::Device`] if the device is lost.
    pub fn save(&self, writer: impl Write) -> Result<()> {
        let pairs = self.tiers().export()?;
        file::save::<K, V>(pairs, writer)
    }

    /// Loads a map that [`Self::save`] or [`Map::save`](crate::Map::save) wrote, with the builder's
    /// parameters; its capacity is raised to the number of saved pairs if needed.
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved map, is of another version or other types, or is damaged;
    /// [`Error::DoesNotFit`] if some pairs do not fit; [`Error::Io`] if the reader fails; otherwise as
    /// [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        let growth = builder.config.growth;
        let build = |pairs| builder.at_least(pairs).growth(Growth::Doubling).build();
        let mut map = file::load_into::<K, V, _>(reader, build, Self::insert_new_words)?;
        map.tiers_mut().config.growth = growth;
        Ok(map)
    }
}
