//! Hash tables of slab lists: a map, a set, and a map with many values a key. They grow by slabs, not by
//! rehashing.
mod builder;
mod engine;
mod lists;
mod multi_map;
mod set;
mod sizing;

#[allow(unused_imports)] // documentation names it
use crate::Error;
use crate::map::launch::Batch;
use crate::map::structure::{Room, Scans, Structure};
use crate::map::{Map, file};
use crate::{Key, Result, Value};
pub use builder::Builder;
use gpu::{Device, Stream};
pub use lists::Growth;
use lists::Lists;
pub use multi_map::{MultiBatches, MultiOp, SlabMultiMap, Values};
pub use set::{SetOp, SlabSet};
use std::io::Read;

/// A map from `u32` or `u64` to `u32` or `u64` in device memory, made of slab lists: chaining, by slabs of
/// 128 bytes.
///
/// It grows slab by slab, inside of launches too, and never rehashes by itself: insertions cost the same
/// however many came before (but for longer lists, see [`Self::utilisation`]). What it can do is mostly in
/// [`Map`]; the page `docs/structures/slab-hash.md` has layout, proof and costs. Source: the slab-hash paper,
/// sections III and IV.
///
/// ```
/// use phalanx::{Map, SlabHash};
///
/// let mut map = SlabHash::<u32, u32>::with_capacity(100)?;
/// map.insert(&[1, 2, 3], &[10, 20, 30])?;
/// map.remove(&[2])?;
/// assert_eq!(map.get(&[1, 2])?, [Some(10), None]);
/// map.flush_all()?; // gives the space of removed keys back
/// assert_eq!(map.len()?, 2);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// That of [`Map`]. `flush`, `rehash`, `clear` and `retain` take `&mut self`; the pool grows between the
/// launches of a blocking call.
pub struct SlabHash<K, V> {
    lists: Lists<K, V>,
}

/// What the three structures have in common, whatever they store.
macro_rules! common {
    ($type:ident<$($parameter:ident: $bound:ident),*>, $key:ty, $value:ty) => {
        impl<$($parameter),*> std::fmt::Debug for $type<$($parameter),*> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($type))
                    .field("variant", &self.lists.owner.name)
                    .field("device", &self.lists.owner.device.name())
                    .finish_non_exhaustive()
            }
        }

        /// Making one, and the structure as a whole.
        impl<$($parameter: $bound),*> $type<$($parameter),*> {
            /// One on [`Device::from_environment`](crate::Device::from_environment) for `capacity` pairs or
            /// keys, which takes more.
            ///
            /// # Errors
            /// Those of [`Builder::build`].
            pub fn with_capacity(capacity: usize) -> crate::Result<Self> {
                Self::builder().capacity(capacity).build()
            }

            /// All parameters.
            pub fn builder() -> crate::slab_hash::Builder<Self> {
                crate::slab_hash::Builder::default()
            }

            /// The name of the kind of lists.
            pub fn variant(&self) -> &str {
                &self.lists.owner.name
            }

            /// Buckets: lists, of which each key has one.
            pub fn buckets(&self) -> u32 {
                self.lists.owner.read().buckets()
            }

            /// What the pool of slabs holds. Waits for the launches asked for before.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            pub fn stats(&self) -> crate::Result<crate::slab_alloc::Stats> {
                self.lists.stats()
            }

            /// Bytes of the pairs or keys over those of the slabs in lists. Waits for the launches asked for
            /// before.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            pub fn utilisation(&self) -> crate::Result<f64> {
                let shape = self.lists.owner.engine.shape();
                let slabs = self.lists.stats()?.live + self.buckets() as usize;
                let pairs = crate::map::structure::Structure::pairs(&self.lists)?;
                Ok((pairs * shape.slot_bytes) as f64 / (slabs * shape.slab_bytes) as f64)
            }

            /// The bucket of a key: what [`Self::flush`] takes. Keys that look like a state of a slot (the
            /// topmost few) have a list of their own, behind the others.
            pub fn bucket_of(&self, key: $key) -> u32 {
                let buckets = self.buckets();
                let hashed = phalanx_kernels::keyed::hash(key);
                simt::hash::reduce(hashed.first, buckets)
            }

            /// Packs the lists of some buckets into as few slabs as they need, gives the slots of removed
            /// keys back and frees the slabs that are left over (the paper's FLUSH). Cost: reads the lists,
            /// and writes what moves.
            ///
            /// # Errors
            /// [`Error::Bucket`](crate::Error::Bucket) when there is no such bucket;
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            pub fn flush(&mut self, buckets: &[u32]) -> crate::Result<()> {
                self.lists.flush(buckets)
            }

            /// [`Self::flush`] of all buckets.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            pub fn flush_all(&mut self) -> crate::Result<()> {
                self.lists.flush_all()
            }

            /// Moves everything into another number of buckets: more make lists shorter, fewer save memory.
            /// The pool grows as it must.
            ///
            /// # Errors
            /// [`Error::ZeroCapacity`](crate::Error::ZeroCapacity) for no buckets;
            /// [`Error::Budget`](crate::Error::Budget) when the pool must not grow as far as both tables need
            /// it; [`Error::DoesNotFit`](crate::Error::DoesNotFit) when the pool that is to take them has too
            /// few slabs; [`Error::Device`](crate::Error::Device) when the device is lost or lacks the
            /// memory. The buckets and what they hold are then as they were.
            pub fn rehash(&mut self, buckets: u32) -> crate::Result<()> {
                if buckets == 0 {
                    return Err(crate::Error::ZeroCapacity);
                }
                self.lists.rehash(buckets)
            }

            /// Examines the whole structure: that every live slab of the pool is in one list and no list has
            /// another, that slots are filled in order, and that as many pairs are there as are counted. For
            /// tests, and for those who write kernels of their own.
            ///
            /// # Errors
            /// [`Error::Invalid`](crate::Error::Invalid), which says what is wrong;
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            pub fn validate(&self) -> crate::Result<()> {
                self.lists.validate()
            }

            /// The structure as kernels of your own take it: `M` is the kind of lists that [`Self::variant`]
            /// names. In the kernel, open a [`Session`](phalanx_kernels::keyed::Session) on it. One on a set
            /// has a use for `insert_new`, `contains_key` and `remove`. On a map with many values a key,
            /// execute [`Append`](phalanx_kernels::keyed::Append) to insert; `get` gives the first value of a
            /// key, and `remove` takes it out.
            ///
            /// # Errors
            /// [`Error::OtherVariant`](crate::Error::OtherVariant) when the structure is of another kind.
            ///
            /// # Safety
            /// The view does not keep the structure alive, nor its memory in its place:
            /// - From this call until the launch of the last kernel that takes the view, nothing replaces the
            ///   memory: no method that takes `&mut self`, and where the pool grows no blocking call that
            ///   inserts, in any thread.
            /// - Those kernels run on the structure's device, and have ended when it is dropped, or asked for
            ///   anything that takes `&mut self` or copies all of it to the host.
            /// - They change it through the view's functions alone, and count what they do: sessions do so by
            ///   themselves.
            pub unsafe fn view<M>(&self) -> crate::Result<phalanx_kernels::slab::list::ListsView<M>>
            where
                M: phalanx_kernels::slab::list::Config<Key = $key, Value = $value> + simt::Instance,
            {
                self.lists.owner.view::<M>()
            }
        }
    };
}
use common;

/// What the set and the multimap have by themselves, where the map has it by [`Map`].
macro_rules! owner {
    ($type:ident<$($parameter:ident: $bound:ident),*>) => {
        /// What it holds.
        impl<$($parameter: $bound),*> $type<$($parameter),*> {
            /// The device that holds it.
            pub fn device(&self) -> &gpu::Device {
                &self.lists.owner.device
            }

            /// Pairs or keys: exact, once the launches that were asked for before have ended; this waits for
            /// them.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            #[doc(alias = "size")]
            pub fn len(&self) -> crate::Result<usize> {
                self.lists.pairs()
            }

            /// Whether there is nothing. As [`Self::len`].
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            pub fn is_empty(&self) -> crate::Result<bool> {
                Ok(self.len()? == 0)
            }

            /// Bytes of device memory that it holds between calls.
            pub fn memory_usage(&self) -> usize {
                self.lists.bytes()
            }

            /// Removes everything, and frees the slabs.
            ///
            /// # Errors
            /// [`Error::Device`](crate::Error::Device) when the device is lost or lacks the memory.
            pub fn clear(&mut self) -> crate::Result<()> {
                self.lists.empty()
            }
        }
    };
}
use owner;

common!(SlabHash<K: Key, V: Value>, K, V);

impl<K: Key, V: Value> Builder<SlabHash<K, V>> {
    /// Makes the map, empty.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`], [`Error::Utilisation`], [`Error::TooLarge`], [`Error::UnknownVariant`],
    /// [`Error::NeedsWideSwap`], those of [`SlabAlloc`](crate::SlabAlloc)'s builder, and the device's when it
    /// lacks the memory.
    pub fn build(self) -> Result<SlabHash<K, V>> {
        Ok(SlabHash { lists: self.lists(true, false)? })
    }
}

/// The names of all kinds of [`SlabHash`] and [`SlabMultiMap`] for these types of key and value: pool, bytes
/// a slab, lanes a tile x slots a lane, bits of key and value.
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    builder::names::<K, V>(true)
}

/// The names of all kinds of [`SlabSet`] for this type of key.
pub fn set_variants<K: Key>() -> Vec<&'static str> {
    builder::names::<K, u32>(false)
}

impl<K: Key, V: Value> SlabHash<K, V> {
    /// Reads a map that [`Map::save`] wrote, into one with the builder's parameters, and with room for all
    /// pairs where its capacity is less.
    ///
    /// # Errors
    /// [`Error::Format`] when it is none, of another version or other types, or damaged;
    /// [`Error::DoesNotFit`] when not all of it finds room; [`Error::Io`]; those of [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<Self>) -> Result<Self> {
        file::load(reader, |pairs| builder.at_least(pairs).build())
    }
}

impl<K: Key, V: Value> Structure for SlabHash<K, V> {
    type Key = K;
    type Value = V;

    fn home(&self) -> &Device {
        &self.lists.owner.device
    }

    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        self.lists.launch(stream, batch)
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        self.lists.scans(run)
    }

    fn age(&self) -> u64 {
        self.lists.age()
    }

    fn grows(&self) -> bool {
        self.lists.grows()
    }

    fn make_room(&self) -> Result<()> {
        self.lists.make_room()
    }

    fn make_room_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        self.lists.make_room_for(refused, seen)
    }

    fn pairs(&self) -> Result<usize> {
        self.lists.pairs()
    }

    fn empty(&mut self) -> Result<()> {
        self.lists.empty()
    }

    fn bytes(&self) -> usize {
        self.lists.bytes()
    }
}

impl<K: Key, V: Value> Map for SlabHash<K, V> {}
