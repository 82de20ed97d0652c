//! Read-only access while nothing writes.
use super::HashMap;
use super::growth::Growing;
use super::kernels::Reader;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::encoding::Word;
pub use crate::map::frozen::Lookups;
use crate::map::frozen::{LookUp, as_a_whole, by_key, read_only};
use crate::map::launch::Batch;
use crate::map::variant::{Variant, VariantTag};
use crate::{Key, Result, Value};
use gpu::{Device, Stream};
use phalanx_kernels::hash_map::{Config, MapView, ReadOnly, phased};
use simt::Instance;
use std::fmt;

/// A read-only handle of a map. It borrows the map, so nothing writes while it lives, and lookups use faster
/// kernels: buckets may come from the L1 cache, which serves keys that are asked for again and again. Created
/// by [`HashMap::frozen`].
///
/// ```
/// use phalanx::HashMap;
///
/// let mut map = HashMap::<u32, u32>::with_capacity(100)?;
/// assert!(map.insert(&[30, 10, 20], &[3, 1, 2])?.all_placed());
/// let frozen = map.frozen()?;
/// assert_eq!(frozen.get(&[10, 11])?, [Some(1), None]);
/// assert_eq!(frozen.contains_key(&[20, 21])?, [true, false]);
/// assert_eq!((frozen.len()?, frozen.is_empty()?), (3, false));
/// assert!(map.insert(&[40], &[4])?.all_placed()); // the borrow has ended
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Such kernels exist for the default variants on devices with a 16-byte compare-and-swap. Maps of other
/// variants are read by their own kernels ([`Self::variant`] returns which).
///
/// ```
/// use phalanx::HashMap;
/// use phalanx::kernels::hash_map::{Hinted, Packed, Phased, Table};
///
/// let mut map = HashMap::<u32, u32>::from_pairs(&[1, 2], &[10, 20])?;
/// let frozen = map.frozen()?;
/// assert_eq!(frozen.variant(), "phased_hinted8_64_2x4_u32_u32");
/// // SAFETY: no kernel takes this view.
/// let _view = unsafe { frozen.view::<Table<Packed, Phased<Hinted<8>>, 2, 4>>()? };
/// let (mut values, mut found) = ([0; 2], [false; 2]);
/// frozen.get_into(&[2, 3], &mut values, &mut found)?;
/// assert_eq!((values[0], found), (20, [true, false]));
/// frozen.contains_into(&[3, 1], &mut found)?;
/// assert_eq!(found, [false, true]);
/// let device = frozen.device();
/// let (keys, mut outcomes) = (device.from_slice(&[1u32, 3])?, device.zeroed::<u8>(2)?);
/// frozen.on(&device.default_stream()).contains_key(&keys, &mut outcomes)?;
/// assert_ne!(outcomes.read()?, [0, 0]);
/// assert_eq!((frozen.iter()?.count(), frozen.export()?.0.len()), (2, 2));
/// frozen.save(Vec::new())?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
/// All operations here may run concurrently, from several threads and in several streams. While the handle
/// lives, the borrow checker prevents writes. Batches in streams may outlive it: the next operation that
/// writes waits for them.
///
/// # Cost
///
/// As those of [`HashMap`]: `get` and `contains_key` cost one launch and a wait for a small call; `len`,
/// `is_empty`, `iter`, `export` and `save` wait for the device. `view` is O(1) on the host and launches
/// nothing.
pub struct Frozen<'a, K: Key, V: Value> {
    map: &'a HashMap<K, V>,
    /// Read-only kernels, or those of the map if its variant has none.
    reader: &'a dyn Reader<K::Word, V::Word>,
}

impl<K: Key, V: Value> fmt::Debug for Frozen<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frozen").field("map", self.map).finish_non_exhaustive()
    }
}

impl<K: Key, V: Value> HashMap<K, V> {
    /// Returns a read-only handle, whose kernels are compiled for reading without writers. Waits for all
    /// earlier launches, unless nothing that writes was submitted since the last call.
    ///
    /// ```
    /// use phalanx::HashMap;
    ///
    /// let mut map = HashMap::<u32, u32>::from_pairs(&[1, 2], &[10, 20])?;
    /// assert_eq!(map.frozen()?.get(&[2, 3])?, [Some(20), None]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn frozen(&mut self) -> Result<Frozen<'_, K, V>> {
        if !self.is_frozen() {
            drop(self.table.handle.settled()?);
            self.table.freezer.freeze();
        }
        Ok(Frozen { reader: self.table.reader(), map: self })
    }

    /// Returns whether the map is frozen. For this package's tests.
    #[doc(hidden)]
    pub fn is_frozen(&self) -> bool {
        self.table.freezer.is_frozen()
    }
}

impl<K: Word, V: Word> Growing<K, V> {
    /// Returns read-only kernels, or those of the map if its variant has none.
    pub fn reader(&self) -> &dyn Reader<K, V> {
        let kernels = self.handle.kernels();
        read_only(kernels.variant()).unwrap_or(kernels)
    }
}

as_a_whole! {
    /// Operations on the whole map.
    HashMap in map
}

impl<K: Key, V: Value> Frozen<'_, K, V> {
    /// Returns a view of the map for your own read-only kernels. `M` is the type of the variant that
    /// [`Self::variant`] names.
    ///
    /// # Errors
    /// [`Error::OtherVariant`] if the map is read by kernels of another variant.
    ///
    /// # Safety
    /// - The view may be used only while this handle lives, on the map's device, and the kernels must have
    ///   ended when the borrow ends.
    /// - The kernels may only read: get values, check keys.
    pub unsafe fn view<M>(&self) -> Result<MapView<M>>
    where
        M: Config<Key = K::Word, Value = V::Word> + Instance,
    {
        self.reader.variant().check::<M>()?;
        // SAFETY: a table of the variant whose buckets this one reads; the caller keeps the memory.
        Ok(unsafe { self.map.table.handle.read().raw().view() })
    }
}

by_key! {
    /// Operations on single keys.
    Frozen<'_, K, V>
}

impl<K: Key, V: Value> LookUp<K::Word, V::Word> for Frozen<'_, K, V> {
    fn device(&self) -> &Device {
        self.map.device()
    }

    fn look_up(&self, stream: &Stream, batch: Batch<K::Word, V::Word>) -> Result<()> {
        let table = self.map.table.handle.read();
        // SAFETY: as for `Growing::submit`. Nothing writes while `self` lives, and later writers first wait:
        // see `Freezer::thaw`.
        Ok(unsafe { self.reader.launch_look_up(stream, &table.raw(), batch) }?)
    }
}

read_only! { read_only: Reader, phased, ReadOnly }
