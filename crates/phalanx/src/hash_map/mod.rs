//! A hash map in device memory, filled and asked in batches.
mod batches;
mod builder;
mod engine;
mod file;
mod table;

use crate::{Error, Result};
pub use batches::Batches;
pub use builder::{Builder, Growth, variants};
use engine::{Engine, Launch};
use gpu::{Device, Stream};
use phalanx_kernels::probing::{Coded, Config, MapView, Scalar};
pub use phalanx_kernels::probing::{Merge, Outcome};
use simt::Instance;
use std::any::TypeId;
use std::ops::RangeInclusive;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use table::{Counts, Table};

/// What a key may be: `u32` and `u64`.
pub trait Key: Scalar {}
impl Key for u32 {}
impl Key for u64 {}

/// What a value may be: `u32` and `u64`.
pub trait Value: Scalar {}
impl Value for u32 {}
impl Value for u64 {}

/// One operation of a mixed batch (see [`HashMap::execute`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<K, V> {
    /// Looks the value up.
    Get(K),
    /// Inserts, or replaces the value.
    Insert(K, V),
    /// Inserts where the key is not there.
    InsertNew(K, V),
    /// Inserts, or merges the values.
    Upsert(Merge, K, V),
    /// Inserts where the key is not there, and looks the value up.
    GetOrInsert(K, V),
    /// Removes.
    Remove(K),
}

impl<K: Key, V: Value> Op<K, V> {
    /// The operation's code, its key, and its argument.
    pub fn parts(self) -> (Coded, K, V) {
        let none = V::from_u64(0);
        match self {
            Self::Get(key) => (Coded::GET, key, none),
            Self::Insert(key, value) => (Coded::INSERT, key, value),
            Self::InsertNew(key, value) => (Coded::INSERT_NEW, key, value),
            Self::Upsert(merge, key, value) => (merge.operation(), key, value),
            Self::GetOrInsert(key, value) => (Coded::GET_OR_INSERT, key, value),
            Self::Remove(key) => (Coded::REMOVE, key, none),
        }
    }
}

/// A map from `u32` or `u64` to `u32` or `u64` in device memory.
///
/// Open addressing over buckets of 64 bytes, each read by a tile of lanes at once; see the page `docs/structures/hashmap.md` for
/// layout, proof and costs. No key is reserved. A batch may name a key many times.
///
/// ```
/// use phalanx::hash_map::{HashMap, Merge, Op, Outcome};
///
/// let map = HashMap::<u64, u64>::with_capacity(100)?;
/// assert_eq!(map.insert(&[7, 8], &[70, 80])?, [Outcome::Inserted, Outcome::Inserted]);
/// assert_eq!(map.upsert(Merge::Add, &[7, 7, 9], &[1, 1, 1])?[2], Outcome::Inserted);
/// assert_eq!(map.get(&[7, 8, 10])?, [Some(72), Some(80), None]);
/// assert_eq!(map.remove(&[8, 11])?, [true, false]);
/// let results = map.execute(&[Op::Get(7), Op::GetOrInsert(12, 5)])?;
/// assert_eq!(results, [(Outcome::Found, 72), (Outcome::Inserted, 5)]);
/// assert_eq!(map.len()?, 3);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Every operation that takes `&self` may run beside every other: from several threads by blocking calls, and in several streams by
/// [`HashMap::on`]. Each operation on a key is linearizable: it takes effect at one compare-and-swap or one read. The operations of
/// one batch run in no order. What changes the table as a whole takes `&mut self`, or waits by itself until no launch runs (growth).
pub struct HashMap<K, V> {
    device: Device,
    engine: Box<dyn Engine<K, V>>,
    name: String,
    load_factor: f64,
    growth: Growth,
    table: RwLock<Table>,
}

impl<K, V> std::fmt::Debug for HashMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashMap")
            .field("variant", &self.name)
            .field("device", &self.device.name())
            .finish_non_exhaustive()
    }
}

/// Making one, and asking about it.
impl<K: Key, V: Value> HashMap<K, V> {
    /// A map on [`Device::auto`] that holds `capacity` pairs and grows beyond.
    ///
    /// # Errors
    /// Those of [`Builder::build`].
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        Self::builder().capacity(capacity).build()
    }

    /// All parameters.
    pub fn builder() -> Builder<K, V> {
        Builder::default()
    }

    /// The device that holds the map.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The name of the kind of table, one of [`variants`].
    pub fn variant(&self) -> &str {
        &self.name
    }

    /// Pairs in the map: exact, once the launches that were asked for before have ended; this waits for them. Reads 8 KiB.
    ///
    /// # Errors
    /// The device's.
    pub fn len(&self) -> Result<usize> {
        Ok(self.counts()?.live)
    }

    /// Whether there are no pairs. As [`Self::len`].
    ///
    /// # Errors
    /// The device's.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    fn counts(&self) -> Result<Counts> {
        let table = self.read();
        self.device.synchronize()?;
        table.counts()
    }

    /// How many pairs the table holds at its load factor without growing.
    pub fn capacity(&self) -> usize {
        (self.slots() as f64 * self.load_factor) as usize
    }

    /// Slots of the table.
    pub fn slots(&self) -> usize {
        self.read().slots()
    }

    /// Pairs over slots. As [`Self::len`].
    ///
    /// # Errors
    /// The device's.
    pub fn load_factor(&self) -> Result<f64> {
        Ok(self.len()? as f64 / self.slots() as f64)
    }

    /// Bytes of device memory that the map holds between calls.
    pub fn memory_usage(&self) -> usize {
        self.read().bytes()
    }

    /// The map as kernels of your own take it: `M` is the kind of table that [`Self::variant`] names. In the kernel, open a
    /// [`Session`](phalanx_kernels::probing::Session) on it.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] when the map is of another kind.
    ///
    /// # Safety
    /// The view does not keep the table alive, nor in its place:
    /// - From this call until the launch of the last kernel that takes the view, nothing replaces the table: no method that takes
    ///   `&mut self`, and on a map that grows no blocking call that inserts or removes, in any thread.
    /// - Those kernels run on the map's device, and have ended when the map is dropped, or asked for anything that takes
    ///   `&mut self`, [`Self::iter`] or [`Self::export`]. (Dropping the map waits for them on a GPU.)
    /// - They change the map through the view's functions alone, and count what they do: sessions do so by themselves.
    pub unsafe fn view<M>(&self) -> Result<MapView<M>>
    where
        M: Config<Key = K, Value = V> + Instance,
    {
        if TypeId::of::<M>() != self.engine.kind() {
            return Err(Error::OtherVariant { asked: M::NAME, found: self.name.clone() });
        }
        Ok(engine::view(self.read().parts()))
    }

    // A lock is poisoned by a panic while it is held; the table is then what the last finished launch left, which is valid.
    fn read(&self) -> RwLockReadGuard<'_, Table> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Table> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn table_mut(&mut self) -> &mut Table {
        self.table.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Batches of operations on host slices. They block until the results are there.
impl<K: Key, V: Value> HashMap<K, V> {
    /// Inserts pairs, replacing the values of keys that are there. Of several pairs with one key in the batch, any one stays.
    ///
    /// Says of each pair [`Outcome::Inserted`], [`Outcome::Replaced`] or, where the table is full and does not grow or there is no memory
    /// for that, [`Outcome::Refused`]. Cost: one line read and one sector written a pair, at a load of 0.8.
    ///
    /// # Errors
    /// [`Error::Length`] when the slices differ in length; the device's.
    pub fn insert(&self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.apply(Coded::INSERT, keys, values).map(|results| results.outcomes)
    }

    /// Inserts the pairs whose keys are not there. Says [`Outcome::Inserted`], [`Outcome::Found`] or [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[doc(alias = "insert_if_absent")]
    pub fn insert_new(&self, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.apply(Coded::INSERT_NEW, keys, values).map(|results| results.outcomes)
    }

    /// Inserts pairs, merging with the values of keys that are there. Every pair of a key that comes several times counts.
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[doc(alias = "insert_or_apply")]
    pub fn upsert(&self, merge: Merge, keys: &[K], values: &[V]) -> Result<Vec<Outcome>> {
        self.apply(merge.operation(), keys, values).map(|results| results.outcomes)
    }

    /// The values of the keys, which are inserted with the given values where they are not there. `None` where there was no room.
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[doc(alias = "insert_and_find")]
    pub fn get_or_insert(&self, keys: &[K], values: &[V]) -> Result<Vec<Option<V>>> {
        let results = self.apply(Coded::GET_OR_INSERT, keys, values)?;
        let pairs = results.outcomes.into_iter().zip(results.values);
        Ok(pairs.map(|(outcome, value)| (outcome != Outcome::Refused).then_some(value)).collect())
    }

    /// The values of the keys, or nothing where a key is not there. Cost: one line read a key.
    ///
    /// # Errors
    /// The device's.
    #[doc(alias = "find")]
    pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let results = self.run(None, keys, &[])?;
        let pairs = results.outcomes.into_iter().zip(results.values);
        Ok(pairs.map(|(outcome, value)| (outcome == Outcome::Found).then_some(value)).collect())
    }

    /// Whether the keys are there.
    ///
    /// # Errors
    /// The device's.
    #[doc(alias = "contains")]
    pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
        let keys = self.device.from_slice(keys)?;
        let mut outcomes = self.device.buffer::<u8>(keys.len())?;
        self.on(&self.device.default_stream()).contains_key(&keys, &mut outcomes)?;
        Ok(outcomes.read()?.into_iter().map(|code| code == Outcome::Found as u8).collect())
    }

    /// Removes keys. Says of each whether it was there; of several that are equal, one.
    ///
    /// # Errors
    /// The device's.
    #[doc(alias = "erase")]
    pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
        let keys = self.device.from_slice(keys)?;
        let mut outcomes = self.device.buffer::<u8>(keys.len())?;
        self.on(&self.device.default_stream()).remove(&keys, &mut outcomes)?;
        let removed = outcomes.read()?.into_iter().map(|code| code == Outcome::Removed as u8).collect();
        self.make_room()?;
        Ok(removed)
    }

    /// A mixed batch: every element an operation of its own, all in one launch, in no order. Gives for each what became of it and a
    /// value: the one that was there, or the argument where the key was not. A removal does not tell
    /// what it took away: its argument comes back.
    ///
    /// # Errors
    /// The device's.
    pub fn execute(&self, operations: &[Op<K, V>]) -> Result<Vec<(Outcome, V)>> {
        let parts = || operations.iter().map(|operation| operation.parts());
        let codes: Vec<u8> = parts().map(|(code, ..)| code.code() as u8).collect();
        let keys: Vec<K> = parts().map(|(_, key, _)| key).collect();
        let arguments: Vec<V> = parts().map(|(.., argument)| argument).collect();
        let results = self.run(Some(&codes), &keys, &arguments)?;
        Ok(results.outcomes.into_iter().zip(results.values).collect())
    }

    fn apply(&self, code: Coded, keys: &[K], arguments: &[V]) -> Result<Results<V>> {
        check("values", keys.len(), arguments.len())?;
        let codes = vec![code.code() as u8; keys.len()];
        self.run(Some(&codes), keys, arguments)
    }

    /// Runs a batch (of look-ups, where there are no codes), and again what was refused as long as the table grows.
    fn run(&self, codes: Option<&[u8]>, keys: &[K], arguments: &[V]) -> Result<Results<V>> {
        let mut age = self.read().age();
        let mut results = self.run_once(codes, keys, arguments)?;
        let Some(codes) = codes else { return Ok(results) };
        loop {
            let refused: Vec<usize> =
                (0..keys.len()).filter(|&index| results.outcomes[index] == Outcome::Refused).collect();
            if refused.is_empty() {
                self.make_room()?;
                return Ok(results);
            }
            if !self.make_room_for(refused.len(), age)? {
                return Ok(results);
            }
            age = self.read().age();
            let again = self.run_once(
                Some(&pick(codes, &refused)),
                &pick(keys, &refused),
                &pick(arguments, &refused),
            )?;
            for (from, &to) in refused.iter().enumerate() {
                (results.outcomes[to], results.values[to]) = (again.outcomes[from], again.values[from]);
            }
        }
    }

    fn run_once(&self, codes: Option<&[u8]>, keys: &[K], arguments: &[V]) -> Result<Results<V>> {
        let stream = self.device.default_stream();
        let (keys, mut values) = (self.device.from_slice(keys)?, self.device.buffer::<V>(keys.len())?);
        let mut outcomes = self.device.buffer::<u8>(keys.len())?;
        match codes {
            None => self.on(&stream).get(&keys, &mut values, &mut outcomes)?,
            Some(codes) => {
                let (codes, arguments) = (self.device.from_slice(codes)?, self.device.from_slice(arguments)?);
                self.on(&stream).execute(&codes, &keys, &arguments, &mut values, &mut outcomes)?;
            }
        }
        let outcomes =
            outcomes.read()?.into_iter().map(|code| Outcome::from_code(code).unwrap_or(Outcome::Refused));
        Ok(Results { outcomes: outcomes.collect(), values: values.read()? })
    }
}

fn pick<T: Copy>(slice: &[T], indices: &[usize]) -> Vec<T> {
    indices.iter().map(|&index| slice[index]).collect()
}

struct Results<V> {
    outcomes: Vec<Outcome>,
    values: Vec<V>,
}

fn check(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}

/// The table as a whole.
impl<K: Key, V: Value> HashMap<K, V> {
    /// Batches on device buffers, asked of a stream.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a, K, V> {
        Batches::new(self, stream)
    }

    /// After a blocking call: makes room if that is the policy and the table is too full.
    fn make_room(&self) -> Result<()> {
        let is_full = |table: &Table| -> Result<Option<Counts>> {
            let counts = table.counts()?;
            Ok((counts.taken as f64 > table.slots() as f64 * self.fullest()).then_some(counts))
        };
        if self.growth == Growth::Fixed || is_full(&self.read())?.is_none() {
            return Ok(());
        }
        let mut table = self.write();
        // Another thread may have been here first.
        match is_full(&table)? {
            Some(counts) => self.grow(&mut table, counts, 0).map(drop),
            None => Ok(()),
        }
    }

    /// After a blocking call that was refused room for `refused` elements by a table of this `age`, or a later one: makes room, if
    /// that is the policy. Gives whether it is worth trying again.
    fn make_room_for(&self, refused: usize, age: u64) -> Result<bool> {
        if self.growth == Growth::Fixed {
            return Ok(false);
        }
        let mut table = self.write();
        if table.age() != age {
            // Another thread has made room meanwhile, perhaps for all.
            return Ok(true);
        }
        let counts = table.counts()?;
        self.grow(&mut table, counts, refused)
    }

    /// The part of the slots that may be taken before the table grows by itself: well above the load factor, so that a table at its
    /// capacity is not rehashed for a few removed keys.
    fn fullest(&self) -> f64 {
        (0.5 + self.load_factor / 2.0).max(0.9)
    }

    /// Replaces the table by one with room for `refused` more pairs. Gives whether there was memory for it: the call that wants
    /// room has done what it could, and its caller must learn of each element what became of it.
    fn grow(&self, table: &mut Table, counts: Counts, refused: usize) -> Result<bool> {
        let wanted = ((counts.live + refused) as f64 / self.load_factor) as usize;
        let suffices = wanted <= table.slots() && counts.taken > counts.live;
        let slots = if suffices { table.slots() } else { table.slots() * 2 };
        match self.rehash(table, slots.max(wanted)) {
            Ok(grown) => *table = grown,
            Err(error) if error.is_lack_of_room() => return Ok(false),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    fn rehash(&self, table: &Table, mut slots: usize) -> Result<Table> {
        loop {
            if let Some(table) = table.rehashed(&*self.engine, slots)? {
                return Ok(table);
            }
            slots += slots / 4 + 1;
        }
    }

    /// Makes room for `additional` more pairs than there are now, all at once.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; the device's when it lacks the memory. The map is then as it was.
    #[doc(alias = "try_reserve")]
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        let counts = self.counts()?;
        let slots =
            |pairs: usize| (pairs.saturating_add(additional) as f64 / self.load_factor).ceil() as usize;
        // Slots of removed keys are no room before a rehash.
        if slots(counts.taken) > self.slots() {
            let table = self.rehash(&self.read(), slots(counts.live).max(self.slots()))?;
            *self.table_mut() = table;
        }
        Ok(())
    }

    /// Gives the slots of removed keys back, by a rehash into a table of the same size (a little larger, where a table that is
    /// nearly full has no place for some pair within [`Builder::looks`]).
    ///
    /// # Errors
    /// The device's: a second table needs its memory while this runs.
    pub fn compact(&mut self) -> Result<()> {
        let table = self.rehash(&self.read(), self.slots())?;
        *self.table_mut() = table;
        Ok(())
    }

    /// Rehashes into the smallest table that holds the pairs at the map's load factor.
    ///
    /// # Errors
    /// The device's.
    pub fn shrink_to_fit(&mut self) -> Result<()> {
        let slots = (self.len()?.max(1) as f64 / self.load_factor).ceil() as usize;
        let table = self.rehash(&self.read(), slots)?;
        *self.table_mut() = table;
        Ok(())
    }

    /// Removes all pairs. The table keeps its size.
    ///
    /// # Errors
    /// The device's.
    pub fn clear(&mut self) -> Result<()> {
        self.device.synchronize()?;
        self.table_mut().clear()
    }

    /// Keeps the pairs of which `keep` is true. The pairs travel to the host and the rejected keys back; for a range of keys or
    /// values use [`Self::retain_keys`] or [`Self::retain_values`], which stay on the device.
    ///
    /// # Errors
    /// The device's.
    pub fn retain(&mut self, mut keep: impl FnMut(K, V) -> bool) -> Result<()> {
        let rejected: Vec<K> =
            self.iter()?.filter(|&(key, value)| !keep(key, value)).map(|(key, _)| key).collect();
        self.remove(&rejected).map(drop)
    }

    /// Keeps the pairs whose keys lie in the range.
    ///
    /// # Errors
    /// [`Error::Range`] when the ends are swapped; the device's.
    pub fn retain_keys(&mut self, range: RangeInclusive<K>) -> Result<()> {
        self.retain_between(false, range.start().to_u64(), range.end().to_u64())
    }

    /// Keeps the pairs whose values lie in the range.
    ///
    /// # Errors
    /// [`Error::Range`] when the ends are swapped; the device's.
    pub fn retain_values(&mut self, range: RangeInclusive<V>) -> Result<()> {
        self.retain_between(true, range.start().to_u64(), range.end().to_u64())
    }

    fn retain_between(&mut self, by_value: bool, low: u64, high: u64) -> Result<()> {
        if low > high {
            return Err(Error::Range { low, high });
        }
        self.device.synchronize()?;
        self.launch_alone(&mut self.write(), Launch::RetainBetween { by_value, low, high })?;
        self.make_room()
    }

    /// Launches what must run alone: under the exclusive lock, which the caller holds, and until it has ended.
    fn launch_alone(&self, table: &mut Table, launch: Launch<K, V>) -> Result<()> {
        self.device.synchronize()?;
        // SAFETY: the lock keeps other launches out, and those asked for before have ended; the slices outlive this call.
        unsafe { self.engine.launch(&self.device.default_stream(), table.parts(), launch)? };
        Ok(self.device.synchronize()?)
    }

    /// All pairs, copied to the host at once, in no order.
    ///
    /// # Errors
    /// The device's.
    pub fn iter(&self) -> Result<impl Iterator<Item = (K, V)> + use<K, V>> {
        let (keys, values) = self.export()?;
        Ok(keys.into_iter().zip(values))
    }

    /// All keys and, at the same places, their values, in no order.
    ///
    /// # Errors
    /// The device's.
    #[doc(alias = "retrieve_all")]
    pub fn export(&self) -> Result<(Vec<K>, Vec<V>)> {
        // Counted and listed under one lock: what another thread inserts between the two would find no room in the buffers.
        let mut table = self.write();
        self.device.synchronize()?;
        let len = table.counts()?.live;
        let (keys, values) = (self.device.buffer::<K>(len)?, self.device.buffer::<V>(len)?);
        let count = self.device.zeroed::<u64>(1)?;
        let (k, v, c) = (keys.slice(), values.slice(), count.slice());
        self.launch_alone(&mut table, Launch::Export { keys: k, values: v, count: c })?;
        drop(table);
        let found = (count.read()?[0] as usize).min(len);
        let (mut keys, mut values) = (keys.read()?, values.read()?);
        keys.truncate(found);
        values.truncate(found);
        Ok((keys, values))
    }
}
