//! A hash map in device memory, filled and asked in batches.
mod builder;
mod engine;
mod table;

#[allow(unused_imports)] // documentation names it
use crate::Error;
use crate::Result;
use crate::error::made_room;
use crate::map::batches::belongs;
use crate::map::counts::{Counts, distinct};
use crate::map::launch::Batch;
use crate::map::owner::{Memory as _, Owner};
use crate::map::structure::{Room, Scans, Structure};
pub use crate::map::{Batches, Coded, Key, Merge, Op, Outcome, Value};
use crate::map::{Map, file};
pub use builder::{Builder, Growth, variants};
use engine::Engine;
use gpu::{Device, Stream};
use phalanx_kernels::probing::{Config, MapView};
use simt::Instance;
use std::io::Read;
use table::Table;

/// A map from `u32` or `u64` to `u32` or `u64` in device memory.
///
/// Open addressing over buckets of 64 bytes, each read by a tile of lanes at once; see the repository's page
/// `docs/structures/hashmap.md` for layout, proof and costs. What it can do is mostly in [`Map`]. The hash is
/// fixed: it has no seed, so whoever chooses the keys can choose slow ones.
///
/// ```
/// use phalanx::{HashMap, Map};
///
/// let mut map = HashMap::<u32, u32>::with_capacity(100)?;
/// map.insert(&[1, 2], &[10, 20])?;
/// map.reserve(1_000_000)?;
/// assert_eq!(map.get(&[2, 3])?, [Some(20), None]);
/// assert!(map.load_factor()? < 0.01);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// That of [`Map`]. What changes the table as a whole takes `&mut self`, or waits by itself until no launch
/// runs (growth).
///
/// # Errors
///
/// A blocking call that must grow and finds no memory is [`Error::NoRoom`], which holds the outcome of every
/// element: those that had room are done. With [`Growth::Fixed`] it is `Ok`, and says [`Outcome::Refused`] of
/// the others.
pub struct HashMap<K, V> {
    owner: Owner<dyn Engine<K, V>, Table>,
    load_factor: f64,
    growth: Growth,
}

impl<K, V> std::fmt::Debug for HashMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashMap")
            .field("variant", &self.owner.name)
            .field("device", &self.owner.device.name())
            .finish_non_exhaustive()
    }
}

/// Making one, and asking about it.
impl<K: Key, V: Value> HashMap<K, V> {
    /// A map on [`Device::from_environment`] (a GPU where there is one, else the emulator) that holds
    /// `capacity` pairs and grows beyond.
    ///
    /// # Errors
    /// Those of [`Builder::build`].
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        Self::builder().capacity(capacity).build()
    }

    /// The parameters, to be chosen one by one:
    ///
    /// ```
    /// use phalanx::hash_map::Growth;
    /// use phalanx::{HashMap, Map, Outcome};
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

    /// The name of the kind of table, one of [`variants`].
    pub fn variant(&self) -> &str {
        &self.owner.name
    }

    /// How many pairs the table holds at its load factor without growing.
    pub fn capacity(&self) -> usize {
        (self.slots() as f64 * self.load_factor) as usize
    }

    /// Slots of the table.
    pub fn slots(&self) -> usize {
        self.owner.read().slots()
    }

    /// Pairs over slots. As [`Self::len`].
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    pub fn load_factor(&self) -> Result<f64> {
        Ok(self.len()? as f64 / self.slots() as f64)
    }

    /// How many tables it has had before this one, and slots of removed keys. For this package's tests.
    #[doc(hidden)]
    pub fn wear(&self) -> Result<(u64, usize)> {
        Ok((self.owner.read().age(), self.owner.counts()?.removed()))
    }

    /// The map as kernels of your own take it: `M` is the kind of table that [`Self::variant`] names, as a
    /// type. In the kernel, open a [`Session`](phalanx_kernels::probing::Session) on it.
    ///
    /// ```
    /// use phalanx::gpu::{Device, Grid};
    /// use phalanx::hash_map::Growth;
    /// use phalanx::kernels::probing::{DefaultTable, Lanes, MapView, Merge, Session};
    /// use phalanx::{HashMap, Map};
    /// use simt::{GlobalSlice, Thread, kernel};
    ///
    /// #[kernel]
    /// fn count_words(map: MapView<DefaultTable>, words: GlobalSlice<u32>) {
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
    /// // SAFETY: the table stays, since the map does not grow; the map is read after the kernel has ended,
    /// // and `words` outlives it.
    /// unsafe {
    ///     let launch = CountWords { map: map.view::<DefaultTable>()?, words: words.slice() };
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
    /// - From this call until the launch of the last kernel that takes the view, nothing replaces the table:
    ///   no method that takes `&mut self`, and on a map that grows no blocking call that inserts or removes,
    ///   in any thread.
    /// - Those kernels run on the map's device, and have ended when the map is dropped, or asked for anything
    ///   that takes `&mut self`, [`Self::iter`] or [`Self::export`]. (Dropping the map waits for them on a
    ///   GPU.)
    /// - They change the map through the view's functions alone, and count what they do: sessions do so by
    ///   themselves.
    pub unsafe fn view<M>(&self) -> Result<MapView<M>>
    where
        M: Config<Key = K, Value = V> + Instance,
    {
        self.owner.view::<M>()
    }
}

/// The table as a whole.
impl<K: Key, V: Value> HashMap<K, V> {
    /// The slots of a table that may be taken before a blocking call makes room: well above the load factor,
    /// so that a table at its capacity is not rehashed for a few removed keys.
    fn most_taken(&self, slots: usize) -> usize {
        (slots as f64 * (0.5 + self.load_factor / 2.0).max(0.9)) as usize
    }

    /// The slots that a table of `slots` gets when it must have room for `pairs`.
    fn size_for(&self, pairs: usize, slots: usize, counts: Counts) -> usize {
        let wanted = (pairs as f64 / self.load_factor) as usize;
        // A rehash that leaves less than a tenth of the slots to take would be due again too soon.
        let pays = counts.taken > counts.live && pairs + slots / 10 <= self.most_taken(slots);
        if wanted <= slots && pays { slots } else { wanted.max(slots * 2) }
    }

    /// Replaces the table by one with room for `refused` more pairs. Returns whether there was memory for it.
    fn grow(&self, table: &mut Table, counts: Counts, refused: usize) -> Result<bool> {
        let grown = self.rehash(table, self.size_for(counts.live + refused, table.slots(), counts));
        made_room(grown.map(|grown| {
            *table = grown;
            true
        }))
    }

    fn rehash(&self, table: &Table, mut slots: usize) -> Result<Table> {
        loop {
            if let Some(table) = table.rehashed(&*self.owner.engine, slots)? {
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
        let counts = self.owner.counts()?;
        let slots =
            |pairs: usize| (pairs.saturating_add(additional) as f64 / self.load_factor).ceil() as usize;
        // Slots of removed keys are no room before a rehash.
        if slots(counts.taken) > self.slots() {
            let table = self.rehash(&self.owner.read(), slots(counts.live).max(self.slots()))?;
            *self.owner.get_mut() = table;
        }
        Ok(())
    }

    /// Gives the slots of removed keys back, by a rehash into a table of the same size (a little larger,
    /// where a table that is nearly full has no place for some pair within [`Builder::looks`]).
    ///
    /// # Errors
    /// [`Error::Device`]: a second table needs its memory while this runs. The map is then as it was.
    #[doc(alias = "rehash")]
    pub fn compact(&mut self) -> Result<()> {
        let table = self.rehash(&self.owner.read(), self.slots())?;
        *self.owner.get_mut() = table;
        Ok(())
    }

    /// [`Map::clear`] without waiting: the stream clears the map when it comes to it, after the batches that
    /// were asked of it before.
    ///
    /// ```
    /// use phalanx::{HashMap, Map};
    ///
    /// let mut map = HashMap::<u32, u32>::with_capacity(100)?;
    /// let stream = map.device().stream()?;
    /// let keys = map.device().from_slice(&[1u32, 2, 3])?;
    /// for _ in 0..2 {
    ///     // SAFETY: no other stream uses the map.
    ///     unsafe { map.clear_on(&stream)? };
    ///     map.on(&stream).insert(&keys, &keys, None)?;
    /// }
    /// stream.synchronize()?;
    /// assert_eq!(map.len()?, 3);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::OtherDevice`] when the stream is not of the map's device; [`Error::Device`] when the device
    /// is lost or lacks the memory.
    ///
    /// # Safety
    /// - Batches of other streams, blocking calls and kernels of your own that use the map have ended when
    ///   the stream comes to this, and none begins before it has cleared the map.
    pub unsafe fn clear_on(&mut self, stream: &Stream) -> Result<()> {
        belongs(&self.owner.device, "stream", stream.device())?;
        // SAFETY: the caller's promise.
        unsafe { self.owner.get_mut().clear_on(stream) }
    }

    /// Rehashes into the smallest table that holds the pairs at the map's load factor.
    ///
    /// # Errors
    /// [`Error::Device`]: the smaller table needs its memory beside the old one. The map is then as it was.
    pub fn shrink_to_fit(&mut self) -> Result<()> {
        let slots = (self.len()?.max(1) as f64 / self.load_factor).ceil() as usize;
        let table = self.rehash(&self.owner.read(), slots)?;
        *self.owner.get_mut() = table;
        Ok(())
    }

    /// Reads a map that [`Map::save`] wrote, into one with the builder's parameters, and with room for all
    /// pairs where the builder's capacity is less. Takes no byte beyond the map's last from the reader.
    ///
    /// ```
    /// use phalanx::{HashMap, Map};
    ///
    /// let map = HashMap::<u32, u32>::with_capacity(10)?;
    /// map.insert(&[1, 2], &[10, 20])?;
    /// let mut saved = Vec::new();
    /// map.save(&mut saved)?;
    /// let loaded = HashMap::<u32, u32>::load(&saved[..], HashMap::builder())?;
    /// assert_eq!(loaded.get(&[1, 2, 3])?, [Some(10), Some(20), None]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Format`] when it is none, of another version or other types, or damaged;
    /// [`Error::DoesNotFit`] when not all of it finds room; [`Error::Io`]; those of [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        // The pairs find room, whatever the policy is afterwards: in another order of insertion a full table
        // may refuse some.
        let growth = builder.growth;
        let build = |pairs| builder.at_least(pairs).growth(Growth::Doubling).build();
        let mut map: Self = file::load(reader, build)?;
        map.growth = growth;
        Ok(map)
    }
}

impl<K: Key, V: Value> Structure for HashMap<K, V> {
    type Key = K;
    type Value = V;

    fn home(&self) -> &Device {
        &self.owner.device
    }

    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        self.owner.launch(stream, batch)
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.owner.scans(run)
    }

    fn age(&self) -> u64 {
        self.owner.read().age()
    }

    fn grows(&self) -> bool {
        self.growth == Growth::Doubling
    }

    fn make_room(&self) -> Result<()> {
        let is_full = |table: &Table| -> Result<Option<Counts>> {
            let counts = table.counts()?;
            let is_full = counts.taken > self.most_taken(table.slots()) || table.is_worn(counts);
            Ok(is_full.then_some(counts))
        };
        if !self.grows() || is_full(&self.owner.read())?.is_none() {
            return Ok(());
        }
        // Another thread may be here first.
        self.owner.alone(|_, _, table| match is_full(table)? {
            Some(counts) => self.grow(table, counts, 0).map(drop),
            None => Ok(()),
        })
    }

    fn make_room_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() {
            return Ok(Room::None);
        }
        self.owner.alone(|_, _, table| {
            if seen.is_some_and(|age| age != table.age()) {
                // Another thread has made room meanwhile, perhaps for all.
                return Ok(Room::More);
            }
            self.grow(table, table.counts()?, distinct(refused)).map(Room::more_if)
        })
    }

    fn pairs(&self) -> Result<usize> {
        Ok(self.owner.counts()?.live)
    }

    fn empty(&mut self) -> Result<()> {
        self.owner.get_mut().clear()
    }

    fn bytes(&self) -> usize {
        self.owner.read().bytes()
    }
}

impl<K: Key, V: Value> Map for HashMap<K, V> {}
