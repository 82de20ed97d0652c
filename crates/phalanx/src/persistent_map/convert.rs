//! Conversions from and to hash maps in device memory.
#[cfg(feature = "hash-map")]
use super::{PersistentMap, Plain};
#[cfg(feature = "hash-map")]
use crate::map::{Key, Value};
#[cfg(feature = "hash-map")]
use crate::{HashMap, Result};

/// For keys and values of 8 bytes.
#[cfg(feature = "hash-map")]
impl<K: Plain + Key, V: Plain + Value> PersistentMap<K, V> {
    /// Inserts the pairs of a hash map, and replaces the values of keys that are present. The pairs cross the
    /// bus to the host and back.
    ///
    /// Cost: a copy of all pairs to the host, and an [`insert`](PersistentMap::insert) of them.
    ///
    /// ```
    /// use phalanx::{HashMap, PersistentMap};
    ///
    /// let (hash_map, map) =
    ///     (HashMap::<u64, u64>::with_capacity(100)?, PersistentMap::<u64, u64>::with_capacity(100)?);
    /// assert!(hash_map.insert(&[1, 2], &[10, 20])?.all_placed());
    /// map.insert_map(&hash_map)?;
    /// assert_eq!(map.get(&[2])?, [Some(20)]);
    /// assert_eq!(map.to_hash_map()?.get(&[1, 3])?, [Some(10), None]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_map(&self, map: &HashMap<K, V>) -> Result<()> {
        let (keys, values) = map.export()?;
        self.insert(&keys, &values)?.or_no_room()
    }

    /// Returns a hash map of the same pairs, on the same device. The pairs cross the bus to the host and
    /// back.
    ///
    /// Cost: a copy of all pairs to the host, and an insertion of them.
    ///
    /// ```
    /// let map = phalanx::PersistentMap::<u64, u64>::with_capacity(100)?;
    /// assert!(map.insert(&[1], &[10])?.all_placed());
    /// assert_eq!(map.to_hash_map()?.get(&[1, 2])?, [Some(10), None]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
    pub fn to_hash_map(&self) -> Result<HashMap<K, V>> {
        let (keys, values) = self.export()?;
        let map = HashMap::builder().capacity(keys.len().max(1)).device(self.device()).build()?;
        map.insert(&keys, &values)?.or_no_room()?;
        Ok(map)
    }
}
