//! Reads while nothing writes, by kernels whose loads may come from the L1 cache.
#[allow(unused_imports)] // for links in the documentation
use super::Outcome;
use super::batches;
#[allow(unused_imports)] // for links in the documentation
use super::batches::Batches;
use super::launch::Batch;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::{Key, Result, Value};
use gpu::{AsBounded, AsSliceMut, Device, Stream};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which kernels may be in flight whose loads are weak, and which that write. Those with weak loads and
/// those that write never run at the same time.
///
/// Batches are *in order* if one caller has exclusive access and submits them all to streams that order
/// lookups and batches that write: a sharded map does so with its shard. They need no wait of the host.
#[derive(Debug, Default)]
pub struct Freezer(Mutex<InFlight>);

#[derive(Debug)]
struct InFlight {
    /// Read-only kernels of a frozen structure.
    frozen: bool,
    /// Read-only kernels of batches in order.
    in_order: bool,
    /// Kernels that may write, in streams that batches in order do not wait for.
    writers: bool,
}

impl Default for InFlight {
    /// The kernels that have filled the structure may still run.
    fn default() -> Self {
        Self { frozen: false, in_order: false, writers: true }
    }
}

impl InFlight {
    /// Waits for all read-only kernels.
    fn end_readers(&mut self, device: &Device) -> Result<()> {
        device.synchronize()?;
        (self.frozen, self.in_order) = (false, false);
        Ok(())
    }
}

impl Freezer {
    /// Returns whether read-only kernels of a frozen structure may be in flight, and nothing that may write
    /// was submitted since [`Self::freeze`].
    pub fn is_frozen(&self) -> bool {
        self.lock().frozen
    }

    /// Records that such kernels may follow. All writers have ended, and the caller has exclusive access.
    pub fn freeze(&mut self) {
        let mut now = self.lock();
        (now.frozen, now.writers) = (true, false);
    }

    /// Waits for all read-only kernels, before anything that may write is submitted: the borrow under which
    /// they were submitted has ended, but they may still run.
    pub fn thaw(&self, device: &Device) -> Result<()> {
        let mut now = self.lock();
        if now.frozen || now.in_order {
            now.end_readers(device)?;
        }
        now.writers = true;
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, InFlight> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// For the batches of a caller that has exclusive access and submits them in an order.
#[cfg(feature = "sharded-map")]
impl Freezer {
    /// Returns whether lookups in order need kernels for tables with writers until [`Self::settle`].
    pub fn is_unsettled(&self) -> bool {
        self.lock().writers
    }

    /// Waits for the device. Later lookups in order may be executed by read-only kernels.
    pub fn settle(&self, device: &Device) -> Result<()> {
        let mut now = self.lock();
        device.synchronize()?;
        *now = InFlight { frozen: now.frozen, in_order: false, writers: false };
        Ok(())
    }

    /// Records a lookup in order. Returns whether it may be one by a read-only kernel.
    pub fn look_up_in_order(&self) -> bool {
        let mut now = self.lock();
        now.in_order |= !now.writers;
        !now.writers
    }

    /// Records a batch in order that may write. Only kernels that are not in order have to be waited for.
    pub fn write_in_order(&self, device: &Device) -> Result<()> {
        let mut now = self.lock();
        if now.frozen {
            now.end_readers(device)?;
        }
        Ok(())
    }
}

/// A structure, or a state of it, in which keys can be looked up.
pub trait LookUp<K, V> {
    /// Returns the device that holds the structure.
    fn device(&self) -> &Device;

    /// Submits a batch of lookups to a stream.
    fn look_up(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()>;
}

/// Implements the blocking lookups of single keys for a [`LookUp`] type.
macro_rules! by_key {
    ($(#[doc = $title:literal])* $type:ty) => {
        $(#[doc = $title])*
        impl<K: Key, V: Value> $type {
            /// Returns the values of the keys, `None` for an absent key.
            ///
            /// # Errors
            /// [`Error::Format`] if a stored word is no value of the map's type; [`Error::Device`] if the
            /// device is lost or lacks the memory.
            #[doc(alias = "find")]
            pub fn get(&self, keys: &[K]) -> Result<Vec<Option<V>>> {
                use $crate::map::{frozen::LookUp, host};
                host::values(LookUp::device(self), &|stream, batch| self.look_up(stream, batch), keys)
            }

            /// Writes the values of the keys to `values`, and whether each key is present to `found`: see
            /// [`Map::get_into`](crate::Map::get_into).
            ///
            /// # Errors
            /// [`Error::Length`] if the slices differ in length; otherwise as [`Self::get`], after which the
            /// contents of both slices are unspecified.
            pub fn get_into(&self, keys: &[K], values: &mut [V], found: &mut [bool]) -> Result<()> {
                use $crate::map::{frozen::LookUp, host};
                let look_up: host::Submit<'_, _, _> = &|stream, batch| self.look_up(stream, batch);
                host::values_into(LookUp::device(self), look_up, keys, (values, found))
            }

            /// Returns for each key whether it is present.
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost or lacks the memory.
            #[doc(alias = "contains")]
            pub fn contains_key(&self, keys: &[K]) -> Result<Vec<bool>> {
                use $crate::map::{frozen::LookUp, host};
                host::presence(LookUp::device(self), &|stream, batch| self.look_up(stream, batch), keys)
            }

            /// Writes for each key to `found` whether it is present: see
            /// [`Map::contains_into`](crate::Map::contains_into).
            ///
            /// # Errors
            /// [`Error::Length`] if the slices differ in length; otherwise as [`Self::contains_key`], after
            /// which the contents of `found` are unspecified.
            pub fn contains_into(&self, keys: &[K], found: &mut [bool]) -> Result<()> {
                use $crate::map::{frozen::LookUp, host};
                let look_up: host::Submit<'_, _, _> = &|stream, batch| self.look_up(stream, batch);
                host::presence_into(LookUp::device(self), look_up, keys, found)
            }
        }
    };
}
pub(crate) use by_key;

/// Implements the operations on a whole structure of type `$map` for `Frozen`, whose field `$field` is the
/// structure.
macro_rules! as_a_whole {
    ($(#[doc = $title:literal])* $map:ident in $field:ident) => {
        $(#[doc = $title])*
        impl<'a, K: Key, V: Value> Frozen<'a, K, V> {
            /// Returns the name of the variant whose kernels read.
            pub fn variant(&self) -> &str {
                self.reader.variant().name
            }

            /// Returns the number of pairs. Waits for all earlier launches.
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost or lacks the memory.
            pub fn len(&self) -> Result<usize> {
                self.$field.len()
            }

            /// Returns whether there are no pairs. Waits, as [`Self::len`] does.
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost or lacks the memory.
            pub fn is_empty(&self) -> Result<bool> {
                self.$field.is_empty()
            }

            #[doc = concat!("Returns all pairs: see [`", stringify!($map), "::iter`].")]
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost or lacks the memory.
            pub fn iter(&self) -> Result<$crate::map::IntoIter<K, V>> {
                self.$field.iter()
            }

            #[doc = concat!(
                "Returns all keys and, at the same indices, their values: see [`",
                stringify!($map),
                "::export`]."
            )]
            ///
            /// # Errors
            /// [`Error::Device`] if the device is lost or lacks the memory.
            pub fn export(&self) -> Result<$crate::map::Pairs<K, V>> {
                self.$field.export()
            }

            #[doc = concat!("Saves all pairs: see [`", stringify!($map), "::save`].")]
            ///
            /// # Errors
            /// [`Error::Io`] if the writer fails; [`Error::Device`] if the device is lost or lacks the
            /// memory.
            pub fn save(&self, writer: impl std::io::Write) -> Result<()> {
                self.$field.save(writer)
            }

            /// Returns the device that holds the structure.
            pub fn device(&self) -> &'a Device {
                self.$field.device()
            }

            /// Returns the lookups on device buffers, submitted to a stream.
            pub fn on(&'a self, stream: &'a Stream) -> Lookups<'a, K, V> {
                Lookups::new(self, stream)
            }
        }
    };
}
pub(crate) use as_a_whole;

/// Defines `fn $find`, which returns the kernels that read structures of a variant while nothing writes, if
/// there are such kernels. `$list` is the list of their kinds, whose bound is `$bound`.
macro_rules! read_only {
    ($find:ident: $reader:ident, $list:path, $bound:path) => {
        /// Returns the kernels that read structures of a variant while nothing writes, if there are any.
        fn $find<K: 'static, V: 'static>(variant: Variant) -> Option<&'static dyn $reader<K, V>> {
            use $list as list;

            struct Find(Variant);

            impl list::Visitor for Find {
                type Output = &'static dyn std::any::Any;

                fn visit<M: $bound + simt::Instance>(&mut self) -> Option<Self::Output> {
                    self.0.is::<M::Writers>().then_some(
                        const { &(&VariantTag::<M>::NEW as &'static dyn $reader<M::Key, M::Value>) },
                    )
                }
            }

            list::visit(&mut Find(variant))?.downcast_ref::<&'static dyn $reader<K, V>>().copied()
        }
    };
}
pub(crate) use read_only;

/// Batches of lookups on device buffers, which have words: the read-only operations of [`Batches`]. The calls
/// submit work to a stream and do not wait for it. Created by the method `on` of a frozen map.
///
/// ```
/// use phalanx::{BTree, Outcome};
///
/// let mut tree = BTree::<u32, u32>::with_capacity(100)?;
/// assert!(tree.insert(&[1, 2], &[10, 20])?.all_placed());
/// let frozen = tree.frozen()?;
/// let (device, stream) = (frozen.device(), frozen.device().stream()?);
/// let (keys, mut values) = (device.from_slice(&[2u32, 3])?, device.zeroed::<u32>(2)?);
/// let mut outcomes = device.zeroed::<u8>(2)?;
/// frozen.on(&stream).get(&keys, &mut values, &mut outcomes)?;
/// assert_eq!(outcomes.read()?, [Outcome::Found as u8, Outcome::Absent as u8]);
/// assert_eq!(values.read()?[0], 20);
/// frozen.on(&stream).contains_key(&keys, &mut outcomes)?;
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `get` and `contains_key` launch one kernel each. They allocate nothing and do not wait.
pub struct Lookups<'a, K: Key, V: Value> {
    frozen: &'a dyn LookUp<K::Word, V::Word>,
    stream: &'a Stream,
}

impl<K: Key, V: Value> fmt::Debug for Lookups<'_, K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lookups").field("stream", self.stream).finish_non_exhaustive()
    }
}

impl<'a, K: Key, V: Value> Lookups<'a, K, V> {
    pub(crate) fn new(frozen: &'a dyn LookUp<K::Word, V::Word>, stream: &'a Stream) -> Self {
        Self { frozen, stream }
    }

    fn submit(&self, batch: Batch<K::Word, V::Word>) -> Result<()> {
        batches::check_same_device(self.frozen.device(), "stream", self.stream.device())?;
        self.frozen.look_up(self.stream, batch)
    }

    /// `get` on device buffers. Writes the values, which are valid where the outcome is [`Outcome::Found`].
    ///
    /// # Errors
    /// [`Error::Length`] if the buffers differ in length; [`Error::OtherDevice`] if a buffer or the stream is
    /// not of the map's device; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn get(
        &self,
        keys: impl AsBounded<K::Word>,
        values: impl AsSliceMut<V::Word>,
        outcomes: impl AsSliceMut<u8>,
    ) -> Result<()> {
        self.submit(batches::get(self.frozen.device(), keys, values, outcomes)?)
    }

    /// `contains_key` on device buffers.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&self, keys: impl AsBounded<K::Word>, outcomes: impl AsSliceMut<u8>) -> Result<()> {
        self.submit(batches::contains_key(self.frozen.device(), keys, outcomes)?)
    }
}

#[cfg(all(test, feature = "sharded-map"))]
mod tests {
    use super::*;

    #[test]
    fn lookups_in_order_are_read_only_unless_others_may_write() {
        let (device, freezer) = (Device::emulator(Default::default()), Freezer::default());
        assert!(freezer.is_unsettled() && !freezer.look_up_in_order(), "what has filled it may run");
        assert_eq!(waits(&device, |device| freezer.settle(device)), 1);
        assert!(!freezer.is_unsettled() && freezer.look_up_in_order());
        freezer.write_in_order(&device).unwrap();
        assert!(freezer.look_up_in_order(), "the write has ended before it");
        freezer.thaw(&device).unwrap();
        assert!(freezer.is_unsettled() && !freezer.look_up_in_order(), "another stream may write");
    }

    /// Each kind of read-only kernels is waited for by the writers that do not follow it.
    #[test]
    fn writers_wait_for_read_only_kernels() {
        let (device, mut freezer) = (Device::emulator(Default::default()), Freezer::default());
        freezer.freeze();
        assert!(freezer.is_frozen() && freezer.look_up_in_order());
        let write_in_order = |device: &Device| freezer.write_in_order(device);
        assert_eq!(waits(&device, write_in_order), 1, "the frozen structure's own are in any stream");
        assert!(!freezer.is_frozen() && freezer.look_up_in_order());
        assert_eq!(waits(&device, write_in_order), 0, "the stream's order is enough");
        assert_eq!(waits(&device, |device| freezer.thaw(device)), 1, "this is another stream");
        assert_eq!(waits(&device, |device| freezer.thaw(device)), 0);
    }

    /// Returns how often `run` waits for the device.
    fn waits(device: &Device, run: impl FnOnce(&Device) -> Result<()>) -> u64 {
        let before = device.emulated_work().unwrap().waits;
        run(device).unwrap();
        device.emulated_work().unwrap().waits - before
    }
}
