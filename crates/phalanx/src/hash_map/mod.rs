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
use gpu::{Buffer, Device, Stream};
pub use phalanx_kernels::probing::{Coded, Merge, Outcome};
use phalanx_kernels::probing::{Config, MapView, Scalar};
use simt::{Instance, Word};
use std::ops::RangeInclusive;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use table::{Counts, Table};

/// What a key may be: `u32` and `u64`. Other plain types of these sizes go by their bits (`i32 as u32`, `f32::to_bits`).
pub trait Key: Scalar {}
impl Key for u32 {}
impl Key for u64 {}

/// What a value may be: `u32` and `u64`. Other plain types of these sizes go by their bits; [`Merge`] then still takes them for
/// unsigned numbers.
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
    /// The operation's code, its key, and its argument, as [`Batches::execute`] takes them.
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
/// Open addressing over buckets of 64 bytes, each read by a tile of lanes at once; see the repository's page
/// `docs/structures/hashmap.md` for layout, proof and costs. No key is reserved. A batch may name a key many times. The hash is
/// fixed: it has no seed, so whoever chooses the keys can choose slow ones.
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
///
/// # Errors
///
/// A blocking call that must grow and gets no memory is an error, and its outcomes are not told: the elements that had room are done,
/// the others are not, and the map is valid. Where that may happen, [`Builder::capacity`] or [`Growth::Fixed`] prevents it.
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
    /// A map on [`Device::from_environment`] (a GPU where there is one, else the emulator) that holds `capacity` pairs and grows
    /// beyond.
    ///
    /// # Errors
    /// Those of [`Builder::build`].
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        Self::builder().capacity(capacity).build()
    }

    /// The parameters, to be chosen one by one:
    ///
    /// ```
    /// use phalanx::hash_map::{Growth, HashMap, Outcome};
    ///
    /// let map = HashMap::<u32, u32>::builder().capacity(100).growth(Growth::Fixed).build()?;
    /// let keys: Vec<u32> = (0..1000).collect();
    /// let outcomes = map.insert(&keys, &keys)?;
    /// let refused = outcomes.iter().filter(|&&outcome| outcome == Outcome::Refused).count();
    /// assert_eq!(map.len()? + refused, 1000);
    /// assert!(map.len()? >= 100);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
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
    #[doc(alias = "size")]
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

    /// The map as kernels of your own take it: `M` is the kind of table that [`Self::variant`] names, as a type. In the kernel, open a
    /// [`Session`](phalanx_kernels::probing::Session) on it.
    ///
    /// ```
    /// use gpu::{Device, Grid};
    /// use phalanx::hash_map::{Growth, HashMap};
    /// use phalanx_kernels::probing::{Hinted, Lanes, MapView, Merge, Packed, Session, Table};
    /// use simt::{GlobalSlice, Thread, kernel};
    ///
    /// /// `hinted8_64_2x4_u32_u32`, the default for 32-bit keys and values.
    /// type Counts = Table<Packed, Hinted<8>, 2, 4>;
    ///
    /// #[kernel]
    /// fn count_words(map: MapView<Counts>, words: GlobalSlice<u32>) {
    ///     let mut session = Session::new(map, Lanes);
    ///     let index = Thread::index();
    ///     session.upsert(Merge::Add, (index < words.len()).then(|| (words.read(index), 1)));
    ///     session.finish();
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Device::emulator(Default::default());
    /// let map = HashMap::<u32, u32>::builder().device(&device).capacity(100).growth(Growth::Fixed).build()?;
    /// let words = device.from_slice(&[7u32, 1, 7, 3, 7])?;
    /// // SAFETY: the table stays, since the map does not grow; the map is read after the kernel has ended, and `words` outlives it.
    /// unsafe {
    ///     let launch = CountWords { map: map.view::<Counts>()?, words: words.slice() };
    ///     device.default_stream().launch(Grid::for_items(words.len(), 128), launch)?;
    /// }
    /// device.synchronize()?;
    /// assert_eq!(map.get(&[7, 1, 2])?, [Some(3), Some(1), None]);
    /// assert_eq!(map.len()?, 3);
    /// # Ok(())
    /// # }
    /// ```
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
        if M::NAME != self.name {
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
    /// Says of each pair [`Outcome::Inserted`], [`Outcome::Replaced`] or, where the table is full and does not grow,
    /// [`Outcome::Refused`]; the value that was replaced is not told. Cost: one line read and one sector written a pair, at a load of
    /// 0.8.
    ///
    /// # Errors
    /// [`Error::Length`] when the slices differ in length; the device's.
    #[doc(alias = "insert_or_assign")]
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
    /// Says [`Outcome::Inserted`], [`Outcome::Replaced`] for a merge, or [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[doc(alias = "insert_or_apply")]
    #[doc(alias = "entry")]
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

    /// Removes keys. Says of each whether it was there; of several that are equal, one. What the value was is not told: ask before.
    /// The slots come back as [`Growth`] says.
    ///
    /// # Errors
    /// The device's.
    #[doc(alias = "erase")]
    pub fn remove(&self, keys: &[K]) -> Result<Vec<bool>> {
        let keys = self.device.from_slice(keys)?;
        let mut outcomes = self.device.buffer::<u8>(keys.len())?;
        self.on(&self.device.default_stream()).remove(&keys, &mut outcomes)?;
        let removed = outcomes.read()?.into_iter().map(|code| code == Outcome::Removed as u8).collect();
        self.settle(0)?;
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
        let mut results = self.run_once(codes, keys, arguments)?;
        let Some(codes) = codes else { return Ok(results) };
        loop {
            let refused: Vec<usize> =
                (0..keys.len()).filter(|&index| results.outcomes[index] == Outcome::Refused).collect();
            if !self.settle(refused.len())? || refused.is_empty() {
                return Ok(results);
            }
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
    /// Batches on device buffers, asked of a stream; see [`Batches`] for an example.
    pub fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a, K, V> {
        Batches::new(self, stream)
    }

    /// After a blocking call that was refused room for `refused` elements: makes room, if that is the policy and there is need.
    /// Gives whether the table has changed.
    fn settle(&self, refused: usize) -> Result<bool> {
        if self.growth == Growth::Fixed {
            return Ok(false);
        }
        let needs = |table: &Table| -> Result<Option<Counts>> {
            let counts = table.counts()?;
            Ok((refused > 0 || counts.taken > self.most_taken(table.slots())).then_some(counts))
        };
        if needs(&self.read())?.is_none() {
            return Ok(false);
        }
        let mut table = self.write();
        // Another thread may have been here first.
        let Some(counts) = needs(&table)? else { return Ok(false) };
        *table = self.rehash(&table, self.size_for(counts.live + refused, table.slots(), counts))?;
        Ok(true)
    }

    /// The slots of a table that may be taken before a blocking call makes room: all that its capacity needs.
    fn most_taken(&self, slots: usize) -> usize {
        (slots as f64 * self.load_factor.max(0.9)) as usize
    }

    /// The slots that a table of `slots` gets when it must have room for `pairs`.
    fn size_for(&self, pairs: usize, slots: usize, counts: Counts) -> usize {
        let wanted = (pairs as f64 / self.load_factor) as usize;
        // A rehash that leaves less than a tenth of the slots to take would be due again too soon.
        let pays = counts.taken > counts.live && pairs + slots / 10 <= self.most_taken(slots);
        if wanted <= slots && pays { slots } else { wanted.max(slots * 2) }
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
        let live = self.len()?;
        let slots = ((live.saturating_add(additional)) as f64 / self.load_factor).ceil() as usize;
        if slots > self.slots() {
            let table = self.rehash(&self.read(), slots)?;
            *self.table_mut() = table;
        }
        Ok(())
    }

    /// Gives the slots of removed keys back, by a rehash into a table of the same size.
    ///
    /// # Errors
    /// The device's: a second table needs its memory while this runs. The map is then as it was.
    #[doc(alias = "rehash")]
    pub fn compact(&mut self) -> Result<()> {
        let table = self.rehash(&self.read(), self.slots())?;
        *self.table_mut() = table;
        Ok(())
    }

    /// Rehashes into the smallest table that holds the pairs at the map's load factor.
    ///
    /// # Errors
    /// The device's: the smaller table needs its memory beside the old one. The map is then as it was.
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
        self.launch_alone(Launch::RetainBetween { by_value, low, high })?;
        self.settle(0).map(drop)
    }

    /// Launches what must run alone: under the exclusive lock, and until it has ended.
    fn launch_alone(&self, launch: Launch<K, V>) -> Result<()> {
        let table = self.write();
        self.device.synchronize()?;
        // SAFETY: the lock keeps other launches out, and those asked for before have ended; the slices outlive this call.
        unsafe { self.engine.launch(&self.device.default_stream(), table.parts(), launch)? };
        Ok(self.device.synchronize()?)
    }

    /// All pairs, copied to the host at once, in no order. Waits for all launches, as [`Self::export`] does.
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
        let len = self.len()?;
        let (keys, values) = (self.device.buffer::<K>(len)?, self.device.buffer::<V>(len)?);
        let count = self.device.zeroed::<u64>(1)?;
        self.launch_alone(Launch::Export {
            keys: keys.slice(),
            values: values.slice(),
            count: count.slice(),
        })?;
        let found = count.read()?[0] as usize;
        if found > len {
            // Another thread inserted between the two: take all that there is now.
            return self.export();
        }
        let (mut keys, mut values) = (keys.read()?, values.read()?);
        keys.truncate(found);
        values.truncate(found);
        Ok((keys, values))
    }
}

/// The device's view of a buffer, or of nothing.
fn slice_of<T: Word>(buffer: Option<&Buffer<T>>) -> simt::GlobalSlice<T> {
    buffer.map_or_else(engine::nothing, Buffer::slice)
}
