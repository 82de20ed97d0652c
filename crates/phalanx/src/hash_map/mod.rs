//! A hash map in device memory, accessed in batches.
mod builder;
mod frozen;
mod growth;
pub(crate) mod kernels;
#[cfg(feature = "sharded-map")]
mod owned;
pub(crate) mod table;

#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::Result;
use crate::map::batches::check_same_device;
use crate::map::structure::Structure;
pub use crate::map::{Batches, Key, Merge, Op, OpCode, Outcome, Value};
use crate::map::{Map, file};
pub use builder::{Builder, variants};
pub use frozen::{Frozen, Lookups};
use gpu::Stream;
use growth::Growing;
pub use growth::Growth;
#[cfg(feature = "tiered-map")]
pub(crate) use growth::{most_taken, size_for};
use phalanx_kernels::hash_map::{Config, MapView};
use simt::Instance;
use std::io::Read;

/// A map in device memory, from [keys](Key) to [values](Value) of 32 or 64 bits.
///
/// The map uses open addressing over buckets of 64 bytes. A tile of lanes reads a bucket at once. The
/// repository's page `docs/structures/hashmap.md` describes layout, proof and costs. The page of [`Map`] has
/// examples of the operations that all maps have. An adversary who chooses the keys and knows the
/// [seed](Builder::seed) of the hash function can make operations slow; so maps of such keys need a [random
/// one](Builder::random_seed).
///
/// ```
/// use phalanx::HashMap;
///
/// let mut map = HashMap::<u32, u32>::with_capacity(100)?;
/// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
/// map.reserve(1_000_000)?;
/// assert_eq!(map.get(&[2, 3])?, [Some(20), None]);
/// assert!(map.load_factor()? < 0.01);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::HashMap;
///
/// let mut map = HashMap::<u32, u32>::with_capacity(1000)?;
/// assert!(map.capacity() >= 1000 && map.slots() > map.capacity());
/// assert!(phalanx::hash_map::variants::<u32, u32>().contains(&map.variant()));
/// let keys: Vec<u32> = (0..1000).collect();
/// assert!(map.insert(&keys, &keys)?.all_placed());
/// map.remove(&keys[10..])?;
/// map.compact()?; // reclaims the slots of the removed keys
/// map.shrink_to_fit()?;
/// assert!(map.capacity() < 1000);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// As for [`Map`]. Methods that replace the table take `&mut self`, except growth, which waits until no
/// launch runs. [`Self::frozen`] returns a read-only handle without concurrent writers.
///
/// # Errors
///
/// A blocking call that must grow and finds no memory returns [`Error::NoRoom`], which holds the outcome of
/// every element; the elements that fit are done. With [`Growth::Fixed`] the call returns `Ok`, with
/// [`Outcome::Refused`] for the elements that do not fit.
///
/// # Cost
///
/// An operation on a key reads 1.1 buckets of 64 bytes on average at load 0.8, and 1.4 at load 0.95. An
/// insertion also executes a compare-and-swap. Calls on the whole map:
///
/// | call | cost |
/// |---|---|
/// | `with_capacity` | allocates and writes the table: 8 or 16 bytes per slot, filters of 1/8 byte per slot for pairs of 32 bits, 8 KiB of counters |
/// | `load_factor` | as [`Map::len`]: waits for the device, copies 8 KiB |
/// | `reserve` | the same, and a rehash if the table is too small |
/// | `compact`, `shrink_to_fit` | waits for the device, and rehashes |
/// | a rehash | allocates and writes the new table beside the old one; one launch reads each old bucket and inserts each pair; waits for it |
/// | `clear_on` | three fills in the stream, of all bytes of the table; no wait but that of `view` |
/// | `frozen` | waits for the device, unless nothing was submitted since the last time |
/// | `view` | O(1) on the host; waits for the device once after [`Self::frozen`], or a sharded map with this shard, was used |
/// | `load` | reads the file on the host, then an insertion in batches of 2^22 pairs |
pub struct HashMap<K: Key, V: Value> {
    table: Growing<K::Word, V::Word>,
}

impl<K: Key, V: Value> std::fmt::Debug for HashMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HashMap")
            .field("variant", &self.table.handle.kernels().variant())
            .field("device", &self.table.handle.device.name())
            .finish_non_exhaustive()
    }
}

/// Construction and properties.
impl<K: Key, V: Value> HashMap<K, V> {
    /// Creates a map on [`Device::from_environment`](crate::Device::from_environment) (a GPU if there is one,
    /// else the emulator) that holds `capacity` pairs and grows when needed.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn with_capacity(capacity: usize) -> Result<Self> {
        Self::builder().capacity(capacity).build()
    }

    /// Returns a builder to set the parameters:
    ///
    /// ```
    /// use phalanx::hash_map::Growth;
    /// use phalanx::{HashMap, Outcome};
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

    /// Returns the name of the map's variant, one of [`variants`].
    pub fn variant(&self) -> &str {
        self.table.handle.kernels().variant().name
    }

    /// Returns the number of pairs that the table holds at its load factor without growing.
    pub fn capacity(&self) -> usize {
        (self.slots() as f64 * self.table.load_factor) as usize
    }

    /// Returns the [seed](Builder::seed) of the hash function.
    ///
    /// ```
    /// assert_eq!(phalanx::HashMap::<u32, u32>::builder().seed(7).build()?.seed(), 7);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn seed(&self) -> u64 {
        self.table.handle.read().seed()
    }

    /// Returns the number of slots of the table.
    pub fn slots(&self) -> usize {
        self.table.handle.read().slots()
    }

    /// Returns the ratio of pairs to slots. Waits, as [`Self::len`] does.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn load_factor(&self) -> Result<f64> {
        Ok(self.len()? as f64 / self.slots() as f64)
    }

    /// Returns the number of earlier tables and the number of tombstones. For this package's tests.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    #[doc(hidden)]
    pub fn rebuilds_and_tombstones(&self) -> Result<(u64, usize)> {
        let table = self.table.handle.settled()?;
        Ok((table.generation(), table.counts()?.removed()))
    }

    /// Returns a view of the map for your own kernels. `M` is the type of the variant that [`Self::variant`]
    /// names. In the kernel, open a [`Session`](phalanx_kernels::hash_map::Session) on it.
    ///
    /// ```
    /// use phalanx::gpu::{Device, Grid};
    /// use phalanx::hash_map::Growth;
    /// use phalanx::kernels::hash_map::{DefaultTable, MapView, Merge, PerLane, Session};
    /// use phalanx::HashMap;
    /// use simt::{GlobalSlice, Thread, kernel};
    ///
    /// #[kernel]
    /// fn count_words(map: MapView<DefaultTable>, words: GlobalSlice<u32>) {
    ///     let mut session = Session::new(map, PerLane);
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
    ///     let launch = CountWords { map: map.view::<DefaultTable>()?, words: words.global() };
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
    /// [`Error::OtherVariant`] if the map is of another variant; [`Error::Device`] if the device is lost.
    ///
    /// # Safety
    /// The view does not keep the table alive or at its address:
    /// - From this call until the launch of the last kernel that takes the view, nothing may replace the
    ///   table: no thread may call a method that takes `&mut self`, nor, on a map that grows, a blocking call
    ///   that inserts or removes.
    /// - Those kernels must run on the map's device. They must have ended before the map is dropped, and
    ///   before any call that takes `&mut self`, [`Self::iter`] or [`Self::export`]. (On a GPU, dropping the
    ///   map waits for them.)
    /// - They must change the map only through the view's functions, and count what they change: sessions do
    ///   so automatically.
    pub unsafe fn view<M>(&self) -> Result<MapView<M>>
    where
        M: Config<Key = K::Word, Value = V::Word> + Instance,
    {
        self.table.handle.kernels().variant().check::<M>()?;
        self.table.freezer.thaw(self.device())?;
        self.table.checks.viewed();
        // SAFETY: of this variant; the caller keeps the table.
        Ok(unsafe { self.table.handle.read().raw().view() })
    }
}

/// Operations on the table as a whole.
impl<K: Key, V: Value> HashMap<K, V> {
    /// Grows the table, in one step if needed, so that it holds `additional` more pairs than now.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the table would have too many slots; [`Error::Device`] if the device lacks the
    /// memory. On error the map is unchanged.
    #[doc(alias = "try_reserve")]
    pub fn reserve(&mut self, additional: usize) -> Result<()> {
        let counts = self.table.counts()?;
        let load_factor = self.table.load_factor;
        let slots = |pairs: usize| (pairs.saturating_add(additional) as f64 / load_factor).ceil() as usize;
        // The slots of removed keys can be taken again only after a rehash.
        if slots(counts.taken) > self.slots() {
            return self.table.replace(slots(counts.live).max(self.slots()));
        }
        Ok(())
    }

    /// Reclaims the slots of removed keys by a rehash into a table of the same size, or a slightly larger one
    /// if a pair does not fit a nearly full table within [`Builder::max_probes`] probes.
    ///
    /// # Errors
    /// [`Error::Device`] if there is no memory for the second table, which exists beside the first during the
    /// call; [`Error::TooLarge`] if a larger table would have too many slots. On error the map is unchanged.
    #[doc(alias = "rehash")]
    pub fn compact(&mut self) -> Result<()> {
        self.table.replace(self.slots())
    }

    /// Clears the map in stream order, without waiting: after the batches submitted to the stream before. See
    /// [`Map::clear`].
    ///
    /// ```
    /// use phalanx::HashMap;
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
    /// [`Error::OtherDevice`] if the stream is not of the map's device; [`Error::Device`] if the device is
    /// lost or lacks the memory.
    ///
    /// # Safety
    /// - Batches of other streams, blocking calls and your own kernels that use the map must have ended
    ///   before the stream executes this operation, and none may begin before it has cleared the map.
    pub unsafe fn clear_on(&mut self, stream: &Stream) -> Result<()> {
        check_same_device(self.device(), "stream", stream.device())?;
        self.table.freezer.thaw(self.device())?;
        // SAFETY: the caller's obligation.
        unsafe { self.table.handle.get_mut().clear_on(stream) }
    }

    /// Rehashes into the smallest table that holds the pairs at the map's load factor.
    ///
    /// # Errors
    /// [`Error::Device`] if there is no memory for the smaller table, which exists beside the old one during
    /// the call. On error the map is unchanged.
    pub fn shrink_to_fit(&mut self) -> Result<()> {
        let slots = (self.len()?.max(1) as f64 / self.table.load_factor).ceil() as usize;
        self.table.replace(slots)
    }

    /// Loads a map that [`Map::save`] wrote, with the builder's parameters; its capacity is raised to the
    /// number of saved pairs if needed. Reads no byte beyond the saved map.
    ///
    /// ```
    /// use phalanx::HashMap;
    ///
    /// let map = HashMap::<u32, u32>::with_capacity(10)?;
    /// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
    /// let mut saved = Vec::new();
    /// map.save(&mut saved)?;
    /// let loaded = HashMap::<u32, u32>::load(&saved[..], HashMap::builder())?;
    /// assert_eq!(loaded.get(&[1, 2, 3])?, [Some(10), Some(20), None]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved map, is of another version or other types, or is damaged;
    /// [`Error::DoesNotFit`] if some pairs do not fit; [`Error::Io`] if the reader fails; otherwise as
    /// [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<K, V>) -> Result<Self> {
        // The map grows while it is loaded, whatever its policy is afterwards: a full table may refuse pairs
        // that come in another order of insertion.
        let growth = builder.growth;
        let build = |pairs| builder.at_least(pairs).growth(Growth::Doubling).build();
        let mut map: Self = file::load(reader, build)?;
        map.table.growth = growth;
        Ok(map)
    }
}

impl<K: Key, V: Value> Map for HashMap<K, V> {
    type Key = K;
    type Value = V;

    fn with_capacity(capacity: usize) -> Result<Self> {
        Self::with_capacity(capacity)
    }

    fn inner(&self) -> &dyn Structure<Key = K::Word, Value = V::Word> {
        &self.table
    }

    fn inner_mut(&mut self) -> &mut dyn Structure<Key = K::Word, Value = V::Word> {
        &mut self.table
    }
}
