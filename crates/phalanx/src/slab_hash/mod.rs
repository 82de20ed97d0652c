//! Hash tables of slab lists: a map, a set, and a map with several values per key. They grow by slabs while
//! kernels run, and by rehashing into more buckets between launches.
mod builder;
mod frozen;
mod kernels;
mod lists;
mod memory;
mod multi_map;
mod set;
mod sizing;

#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::structure::Structure;
use crate::map::{Map, file};
use crate::{Key, Result, Value};
pub use builder::Builder;
pub use frozen::{Frozen, Lookups};
pub use lists::Growth;
use lists::Lists;
pub use multi_map::{MultiBatches, MultiOp, SlabMultiMap, Values};
pub use set::{SetOp, SlabSet};
use std::io::Read;

/// A map from [keys](Key) to [values](Value) in device memory, made of slab lists: chaining with slabs of 128
/// bytes.
///
/// The map grows slab by slab, also within launches. Blocking calls rehash into more buckets when lists are
/// long on average ([`Growth::Buckets`]); the cost of an insertion depends on the map's size only through the
/// length of the lists (see [`Self::utilisation`]). The page of [`Map`] has examples of the operations that
/// all maps have. The page `docs/structures/slab-hash.md` describes layout, proof and costs. Source: the
/// slab-hash paper, sections III and IV.
///
/// ```
/// use phalanx::SlabHash;
///
/// let mut map = SlabHash::<u32, u32>::with_capacity(100)?;
/// assert!(map.insert(&[1, 2, 3], &[10, 20, 30])?.all_placed());
/// map.remove(&[2])?;
/// assert_eq!(map.get(&[1, 2])?, [Some(10), None]);
/// assert_eq!(map.frozen()?.get(&[3])?, [Some(30)]); // by faster kernels, since nothing writes meanwhile
/// map.flush_all()?; // reclaims the slots of removed keys
/// assert_eq!(map.len()?, 2);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// ```
/// use phalanx::SlabHash;
///
/// let mut map = SlabHash::<u32, u32>::builder().buckets(10).build()?;
/// assert!(map.insert(&[1, 2, 3], &[10, 20, 30])?.all_placed());
/// assert!(map.utilisation()? > 0.0 && map.variant().starts_with("spread_128"));
/// let bucket = map.bucket_of(2);
/// map.remove(&[2])?;
/// map.flush(&[bucket])?; // packs the list that the key was in
/// map.rehash(20)?;
/// map.validate()?;
/// assert_eq!((map.buckets(), map.stats()?.live), (20, 0)); // the first slab of a list is not of the pool
/// let mut file = Vec::new();
/// map.save(&mut file)?;
/// assert_eq!(SlabHash::<u32, u32>::load(&file[..], SlabHash::builder())?.len()?, 2);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// As for [`Map`]. `flush`, `rehash`, `clear` and `retain` take `&mut self`; the pool grows between the
/// launches of a blocking call.
///
/// # Cost
///
/// A hit reads 1.005 slabs of 128 bytes on average at utilization 0.55 (pairs of 32 bits), 1.035 at 0.65 and
/// 1.91 at 0.80; a miss 1.02, 1.16 and 3.15. An insertion also executes a compare-and-swap, and an allocation
/// when it lengthens a list. Calls on the whole map:
///
/// | call | cost |
/// |---|---|
/// | `with_capacity` | allocates and writes the first slab of each list, the pool with 2 bits of bitmaps per slab, and 8 KiB of counters |
/// | `stats` | waits for the device; one launch reads the bitmaps |
/// | `utilisation` | the same, and copies 8 KiB of counters |
/// | `flush` | copies the buckets to the device; waits; one launch reads their lists and writes the pairs that move |
/// | `flush_all` | waits; the same for all lists |
/// | `rehash` | waits; allocates the new first slabs; launches that read each old list, insert each pair and free the old slabs |
/// | `validate` | waits; launches that read all lists and the bitmaps |
/// | `frozen` | waits for the device, unless nothing that writes was submitted since the last call; no launch |
/// | `view` | O(1) on the host; no launch |
/// | `load` | reads the file on the host, then an insertion in batches of 2^22 pairs |
pub struct SlabHash<K: Key, V: Value> {
    lists: Lists<K::Word, V::Word>,
}

/// Implements what the three structures share.
macro_rules! common {
    ($type:ident<$($parameter:ident: $bound:ident),*>, $key:ident, $value:ty) => {
        impl<$($parameter: $bound),*> std::fmt::Debug for $type<$($parameter),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    .field("variant", &self.lists.handle.kernels().variant())
                    .field("device", &self.lists.handle.device.name())
                    .finish_non_exhaustive()
            }
        }

        /// Construction, and operations on the whole structure.
        impl<$($parameter: $bound),*> $type<$($parameter),*> {
            /// Creates a structure on [`Device::from_environment`](crate::Device::from_environment) for
            /// `capacity` pairs or keys, which grows when needed.
            ///
            /// # Errors
            /// As [`Builder::build`].
            pub fn with_capacity(capacity: usize) -> crate::Result<Self> {
                Self::builder().capacity(capacity).build()
            }

            /// Returns a builder to set the parameters.
            pub fn builder() -> crate::slab_hash::Builder<Self> {
                crate::slab_hash::Builder::default()
            }

            /// Returns the name of the structure's variant.
            pub fn variant(&self) -> &str {
                self.lists.handle.kernels().variant().name
            }

            /// Returns the number of buckets, each of which is a list.
            pub fn buckets(&self) -> u32 {
                self.lists.handle.read().buckets()
            }

            /// Returns the seed of the hash function.
            pub fn seed(&self) -> u64 {
                self.lists.handle.read().seed()
            }

            /// Returns the statistics of the slab pool. Waits for all earlier launches.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            pub fn stats(&self) -> crate::Result<crate::slab_alloc::Stats> {
                self.lists.stats()
            }

            /// Returns the memory utilization: bytes of the pairs or keys divided by bytes of the slabs in
            /// lists. Waits for all earlier launches.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            pub fn utilisation(&self) -> crate::Result<f64> {
                let shape = self.lists.handle.kernels().shape();
                let slabs = self.lists.stats()?.live + self.buckets() as usize;
                let pairs = crate::map::structure::Structure::len(&self.lists)?;
                Ok((pairs * shape.slot_bytes) as f64 / (slabs * shape.slab_bytes) as f64)
            }

            /// Returns the bucket of a key, for [`Self::flush`]. The highest few keys, whose bit patterns
            /// mark slot states, are stored in an overflow bucket instead, which only [`Self::flush_all`]
            /// packs.
            pub fn bucket_of(&self, key: $key) -> u32 {
                let buckets = self.buckets();
                let hashed = phalanx_kernels::keyed::hash(key.encode(), self.seed());
                simt::hash::reduce(hashed.first, buckets)
            }

            /// Packs the lists of some buckets into as few slabs as possible: reclaims the slots of removed
            /// keys, and frees the slabs that become empty (the paper's FLUSH). Cost: reads the lists, and
            /// writes the pairs that move.
            ///
            /// # Errors
            /// [`Error::Bucket`](crate::Error::Bucket) if a bucket does not exist;
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            pub fn flush(&mut self, buckets: &[u32]) -> crate::Result<()> {
                self.lists.flush(buckets)
            }

            /// [`Self::flush`] for all buckets.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            pub fn flush_all(&mut self) -> crate::Result<()> {
                self.lists.flush_all()
            }

            /// Rehashes into another number of buckets: more buckets make lists shorter, fewer save memory.
            /// The pool grows as needed.
            ///
            /// # Errors
            /// [`Error::Zero`](crate::Error::Zero) if `buckets` is 0;
            /// [`Error::TooLarge`](crate::Error::TooLarge) if it is above 2^32 - 3;
            /// [`Error::Budget`](crate::Error::Budget) if the pool would exceed its budget while it holds
            /// both tables; [`Error::DoesNotFit`](crate::Error::DoesNotFit) if the pool has all super blocks
            /// that it can have, and a new one has too few slabs; [`Error::Device`](crate::Error::Device) if
            /// the device is lost or lacks the memory. On error the buckets and their contents are unchanged.
            pub fn rehash(&mut self, buckets: u32) -> crate::Result<()> {
                self.lists.rehash(buckets)
            }

            /// Checks the whole structure: that every live slab of the pool is in exactly one list, that
            /// lists have only live slabs, that slots are filled in order, and that the pair counter is
            /// right. For tests, and for authors of kernels.
            ///
            /// # Errors
            /// [`Error::Invalid`](crate::Error::Invalid) with the violated invariant;
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            pub fn validate(&self) -> crate::Result<()> {
                self.lists.validate()
            }

            /// Returns a view of the structure for your own kernels. `M` is the type of the variant that
            /// [`Self::variant`] names. In the kernel, open a [`Session`](phalanx_kernels::keyed::Session) on
            /// it. On a set, use its `insert_new`, `contains_key` and `remove`. On a map with several values
            /// per key, execute [`Append`](phalanx_kernels::keyed::Append) to insert, and other operations
            /// in [`OfMany`](phalanx_kernels::keyed::OfMany): `OfMany(Get)` returns the first value of a key,
            /// and `OfMany(Remove)` removes it.
            ///
            /// # Errors
            /// [`Error::OtherVariant`](crate::Error::OtherVariant) if the structure is of another variant.
            ///
            /// # Safety
            /// The view does not keep the structure alive, nor its memory at its address:
            /// - From this call until the launch of the last kernel that takes the view, nothing may replace
            ///   the memory: no thread may call a method that takes `&mut self`, nor, if the pool grows, a
            ///   blocking call that inserts.
            /// - Those kernels must run on the structure's device. They must have ended before the structure
            ///   is dropped, and before any call that takes `&mut self` or copies the whole structure to the
            ///   host.
            /// - They must change the structure only through the view's functions, and count what they
            ///   change: sessions do so automatically.
            pub unsafe fn view<M>(&self) -> crate::Result<phalanx_kernels::slab::list::ListsView<M>>
            where
                M: phalanx_kernels::slab::list::Config<Key = $key::Word, Value = $value> + simt::Instance,
            {
                self.lists.handle.kernels().variant().check::<M>()?;
                self.lists.viewed()?;
                // SAFETY: of this variant; the caller keeps the memory.
                Ok(unsafe { self.lists.handle.read().lists().view() })
            }
        }
    };
}
use common;

/// Implements for the set and the multimap what the map has by [`Map`].
macro_rules! properties {
    ($type:ident<$($parameter:ident: $bound:ident),*>) => {
        /// Construction, and properties.
        impl<$($parameter: $bound),*> $type<$($parameter),*> {
            /// Creates an empty structure for 1024 pairs or keys: see [`Self::with_capacity`].
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) if no device is available, or it lacks the memory.
            #[doc(alias = "new")]
            pub fn try_new() -> crate::Result<Self> {
                Self::with_capacity(1024)
            }

            /// Returns the device that holds the structure.
            pub fn device(&self) -> &gpu::Device {
                &self.lists.handle.device
            }

            /// Returns the number of pairs or keys. Waits for all earlier launches, and is then exact.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            #[doc(alias = "size")]
            pub fn len(&self) -> crate::Result<usize> {
                self.lists.len()
            }

            /// Returns whether the structure is empty. Waits, as [`Self::len`] does.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            pub fn is_empty(&self) -> crate::Result<bool> {
                Ok(self.len()? == 0)
            }

            /// Returns the bytes of device memory that the structure holds between calls.
            pub fn memory_usage(&self) -> usize {
                self.lists.memory_usage()
            }

            /// Removes everything, and frees the slabs.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) if the device is lost or lacks the memory.
            pub fn clear(&mut self) -> crate::Result<()> {
                self.lists.clear()
            }
        }
    };
}
use properties;

common!(SlabHash<K: Key, V: Value>, K, V::Word);

impl<K: Key, V: Value> Builder<SlabHash<K, V>> {
    /// Creates an empty map.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`] if the capacity is 0, and [`Error::Zero`] if the number of buckets is;
    /// [`Error::Utilisation`] if the lists cannot have that utilization; [`Error::TooLarge`] if `capacity`,
    /// `buckets` or `pool_for` is too large; [`Error::UnknownVariant`] if no variant has the name for these
    /// types; [`Error::NeedsWideSwap`] if the device lacks the variant's compare-and-swap; [`Error::Device`]
    /// if the device lacks the memory; otherwise as [`SlabAlloc`](crate::SlabAlloc)'s builder.
    pub fn build(self) -> Result<SlabHash<K, V>> {
        Ok(SlabHash { lists: self.lists(true, false)? })
    }
}

/// Returns the names of all variants of [`SlabHash`] and [`SlabMultiMap`] for these key and value types. A
/// name consists of pool, bytes per slab, lanes per tile x slots per lane, and bits of key and value.
///
/// ```
/// let names = phalanx::slab_hash::variants::<u32, u32>();
/// assert!(names.contains(&"spread_128_4x4_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    builder::variant_names::<K, V>(true)
}

/// Returns the names of all variants of [`SlabSet`] for this key type.
///
/// ```
/// let names = phalanx::slab_hash::set_variants::<u32>();
/// assert_eq!(phalanx::SlabSet::<u32>::builder().variant(names[0]).build()?.variant(), names[0]);
/// # Ok::<(), phalanx::Error>(())
/// ```
pub fn set_variants<K: Key>() -> Vec<&'static str> {
    builder::variant_names::<K, u32>(false)
}

impl<K: Key, V: Value> SlabHash<K, V> {
    /// Loads a map that [`Map::save`] wrote, with the builder's parameters; its capacity is raised to the
    /// number of saved pairs if needed.
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved map, is of another version or other types, or is damaged;
    /// [`Error::DoesNotFit`] if some pairs do not fit; [`Error::Io`] if the reader fails; otherwise as
    /// [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<Self>) -> Result<Self> {
        file::load(reader, |pairs| builder.at_least(pairs).build())
    }
}

impl<K: Key, V: Value> Map for SlabHash<K, V> {
    type Key = K;
    type Value = V;

    fn with_capacity(capacity: usize) -> Result<Self> {
        Self::with_capacity(capacity)
    }

    fn inner(&self) -> &dyn Structure<Key = K::Word, Value = V::Word> {
        &self.lists
    }

    fn inner_mut(&mut self) -> &mut dyn Structure<Key = K::Word, Value = V::Word> {
        &mut self.lists
    }
}
