//! Replacing all pairs of a B-tree or skip list by sorted ones, from which it is built level by level.
use super::kernels::Task;
use super::memory::Memory;
use super::tree::Tree;
use crate::map::batches::{keys_of, slice};
use crate::map::check;
use crate::map::encoding::Word;
use crate::map::export::{self, Columns};
use crate::primitives::{Bits, Fold, Workspace, runs_bytes, sort_bytes};
use crate::{Error, Result};
use gpu::{AsSlice, Buffer, Stream};
use phalanx_kernels::ordered::nodes;
use simt::GlobalSlice;

/// Default fill of nodes: slightly more than insertions in random order leave.
pub const USUAL_FILL: f64 = 0.7;

/// Sorted pairs on the device with distinct keys: the first `count` elements of the buffers.
pub struct Runs<K: Word, V: Word> {
    pub keys: Buffer<K>,
    pub values: Buffer<V>,
    pub count: usize,
}

impl<K: Word, V: Word> Runs<K, V> {
    /// Sorts pairs given in any order; of several with the same key, keeps the one with the highest value.
    pub fn of((mut unsorted, mut arguments): Columns<K, V>) -> Result<Self> {
        let (device, len) = (unsorted.device().clone(), unsorted.len());
        let (mut keys, mut values) = (device.buffer(len)?, device.buffer(len)?);
        let mut count = device.buffer::<u32>(1)?;
        let mut work = Workspace::on_device(&device, sort_bytes::<K, V>(len).max(runs_bytes(len)))?;
        work.sort_pairs_in_place(&mut unsorted, &mut arguments, Bits::ALL)?;
        work.reduce_by_key(Fold::Max, (&unsorted, &arguments), (&mut keys, &mut values), &mut count)?;
        let count = count.read()?[0] as usize;
        Ok(Self { keys, values, count })
    }
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Replaces the tree by one built from sorted pairs, `fill` of them in a node. If this fails because the
    /// pairs are not sorted or for lack of memory, the tree is unchanged.
    pub fn rebuild_from_sorted(&self, keys: GlobalSlice<K>, values: GlobalSlice<V>, fill: u32) -> Result<()> {
        self.thaw()?;
        self.end_views();
        self.handle
            .exclusive(|stream, memory| self.rebuild_from_sorted_in(stream, memory, (keys, values), fill))
    }

    /// [`Self::rebuild_from_sorted`] for a caller with exclusive access, while no snapshot is alive.
    pub fn rebuild_from_sorted_in(
        &self,
        stream: &Stream,
        memory: &mut Memory,
        (keys, values): (GlobalSlice<K>, GlobalSlice<V>),
        fill: u32,
    ) -> Result<()> {
        let found = memory.check_sorted(self.handle.kernels(), stream, keys)?;
        self.replace_nodes(stream, memory, (keys, values), found, fill)
    }

    /// Replaces all nodes by those of a tree of sorted pairs. `count` of them belong to the key order;
    /// another one has the largest key of all. `is_new` says that the nodes are those of an empty tree. The
    /// caller has exclusive access, while no snapshot is alive. If this fails for lack of memory, the tree is
    /// unchanged.
    pub fn replace_nodes(
        &self,
        stream: &Stream,
        memory: &mut Memory,
        (keys, values): (GlobalSlice<K>, GlobalSlice<V>),
        (count, is_new): (u64, bool),
        fill: u32,
    ) -> Result<()> {
        let kernels = self.handle.kernels();
        let is_new = self.fit_pool(memory, nodes(count, fill) as usize)? || is_new;
        if !keys.is_empty() {
            // Before anything is freed, since that may fail for lack of memory.
            kernels.prepare_build(stream.device())?;
        }
        if !is_new {
            // Retired slabs are freed first: the next task frees every node that it finds. The build
            // overwrites the slabs before `first`, and marks them as live.
            let first = nodes(count, fill);
            memory.sweep(kernels, stream)?;
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe { kernels.launch_task(stream, memory.now(), Task::FreeNodes { first })? };
        }
        // SAFETY: as above. The slices' buffers outlive the wait for this task, or wait for it when they are
        // dropped.
        unsafe { memory.build(kernels, stream, (keys, values), (count, fill)) }
    }

    /// Returns the number of pairs per node for a fill.
    pub fn pairs_at(&self, fill: f64) -> Result<u32> {
        if !(fill > 0.0 && fill <= 1.0) {
            return Err(Error::Fill(fill));
        }
        let slots = f64::from(self.handle.kernels().shape().slots);
        Ok((slots * fill).round().clamp(2.0, slots) as u32)
    }

    /// Replaces all pairs: see [`bulk_methods`].
    pub fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
        check("values", keys.len(), values.len())?;
        let (fill, device) = (self.pairs_at(fill)?, &self.handle.device);
        self.build((device.from_slice(keys)?, device.from_slice(values)?), fill)
    }

    /// [`Self::bulk_build`] from sorted pairs: see [`bulk_methods`].
    pub fn bulk_build_sorted(
        &mut self,
        keys: impl AsSlice<K>,
        values: impl AsSlice<V>,
        fill: f64,
    ) -> Result<()> {
        let fill = self.pairs_at(fill)?;
        let keys = keys_of(&self.handle.device, keys)?;
        let values = slice(&self.handle.device, "values", values, keys.len())?;
        self.rebuild_from_sorted(keys, values, fill)
    }

    /// Rebuilds the tree with the given fill: see [`bulk_methods`].
    pub fn compact(&mut self, fill: f64) -> Result<()> {
        let fill = self.pairs_at(fill)?;
        self.rebuilds().shrink(0);
        self.build(export::on_device(self)?, fill)
    }

    /// Replaces all pairs by those of this device's buffers, in any order, with `fill` pairs per node.
    fn build(&self, pairs: Columns<K, V>, fill: u32) -> Result<()> {
        let Runs { keys, values, count } = Runs::of(pairs)?;
        self.rebuild_from_sorted(keys.global().part(0, count), values.global(), fill)
    }
}

/// Adds the methods to a map that build it from many pairs. `$tree` is the field with its [`Tree`].
macro_rules! bulk_methods {
    ($type:ident, $($tree:ident).+) => {
        /// Construction from many pairs at once.
        impl<K: Key, V: Value> $type<K, V> {
            /// Replaces all pairs by the given ones. They are sorted on the device and the map is built level
            /// by level from the lowest one up, which is much faster than insertion. `fill` is the used share
            /// of each node, above 0 and at most 1: full nodes result in fewer levels, but the first
            /// insertions split them. Of several pairs with the same key, the one with the highest value is
            /// kept.
            ///
            /// ```
            #[doc = concat!("use phalanx::", stringify!($type), ";")]
            ///
            #[doc = concat!("let mut map = ", stringify!($type), "::<u32, u32>::with_capacity(10)?;")]
            /// map.bulk_build(&[5, 3, 5, 9], &[1, 2, 7, 4], 0.7)?;
            /// assert_eq!(map.range(&[..])?, [[(3, 2), (5, 7), (9, 4)]]);
            /// # Ok::<(), phalanx::Error>(())
            /// ```
            ///
            /// # Errors
            /// [`Error::Length`] if the slices differ in length; [`Error::TooMany`] for more than 2^30 - 1
            /// pairs; [`Error::Fill`] if `fill` is out of range; [`Error::Budget`] if the pool would exceed
            /// its budget; [`Error::Device`] if the device is lost or lacks the memory.
            pub fn bulk_build(&mut self, keys: &[K], values: &[V], fill: f64) -> Result<()> {
                self.$($tree).+.bulk_build(&K::encode_all(keys), &V::encode_all(values), fill)
            }

            /// [`Self::bulk_build`] from device buffers of [words](Key::Word) whose keys are strictly
            /// ascending. Waits.
            ///
            /// ```
            #[doc = concat!("use phalanx::", stringify!($type), ";")]
            ///
            #[doc = concat!("let mut map = ", stringify!($type), "::<u32, u32>::with_capacity(10)?;")]
            /// let [keys, values] = [[3, 5], [1, 2]].map(|words| map.device().from_slice(&words));
            /// map.bulk_build_sorted(&keys?, &values?, 1.0)?;
            /// assert_eq!(map.last()?, Some((5, 2)));
            /// # Ok::<(), phalanx::Error>(())
            /// ```
            ///
            /// # Errors
            /// [`Error::Unsorted`] if the keys are not strictly ascending; [`Error::OtherDevice`] if a buffer
            /// is not of the map's device; otherwise as [`Self::bulk_build`]. The map is then unchanged.
            pub fn bulk_build_sorted(
                &mut self,
                keys: impl gpu::AsSlice<K::Word>,
                values: impl gpu::AsSlice<V::Word>,
                fill: f64,
            ) -> Result<()> {
                self.$($tree).+.bulk_build_sorted(keys, values, fill)
            }

            /// Rebuilds the map with the given `fill` of nodes: removals leave nodes that are sparse or
            /// empty. The pairs stay on the device, which needs memory for three copies of them beside the
            /// map. Also frees the temporary memory that the map keeps after [large
            /// batches](LargeBatches).
            ///
            /// ```
            #[doc = concat!("use phalanx::", stringify!($type), ";")]
            ///
            #[doc = concat!("let mut map = ", stringify!($type), "::<u32, u32>::with_capacity(100)?;")]
            /// map.bulk_build(&[1, 2, 3], &[10, 20, 30], 0.1)?;
            /// map.compact(1.0)?;
            /// assert_eq!(map.len()?, 3);
            /// # Ok::<(), phalanx::Error>(())
            /// ```
            ///
            /// # Errors
            /// As [`Self::bulk_build`].
            pub fn compact(&mut self, fill: f64) -> Result<()> {
                self.$($tree).+.compact(fill)
            }

            /// Returns the number of [large batches](LargeBatches) that the map has executed by a rebuild or
            /// an append.
            ///
            /// ```
            #[doc = concat!("use phalanx::", stringify!($type), ";")]
            ///
            #[doc = concat!("let map = ", stringify!($type), "::<u32, u32>::with_capacity(1 << 14)?;")]
            /// let keys: Vec<u32> = (0..1 << 14).collect();
            /// map.insert(&keys, &keys)?;
            /// map.insert(&[5], &[6])?;
            /// assert_eq!(map.rebuilds(), 1);
            /// # Ok::<(), phalanx::Error>(())
            /// ```
            ///
            /// Cost: reads a number under a lock, O(1) on the host; waits for a rebuild that another thread
            /// executes.
            pub fn rebuilds(&self) -> u64 {
                self.$($tree).+.rebuild_count()
            }

            /// Loads a map that [`Map::save`] wrote, with the builder's parameters; its capacity is raised to
            /// the number of saved pairs if needed. It is built as by [`Self::bulk_build`] with a fill of
            /// 0.7.
            ///
            /// ```
            #[doc = concat!("use phalanx::", stringify!($type), ";")]
            ///
            #[doc = concat!("let map = ", stringify!($type), "::from_pairs(&[1u32, 2], &[10u32, 20])?;")]
            /// let mut saved = Vec::new();
            /// map.save(&mut saved)?;
            #[doc = concat!("let empty = ", stringify!($type), "::<u32, u32>::builder();")]
            #[doc = concat!("let loaded = ", stringify!($type), "::load(&saved[..], empty)?;")]
            /// assert_eq!(loaded.get(&[1, 2, 3])?, [Some(10), Some(20), None]);
            /// # Ok::<(), phalanx::Error>(())
            /// ```
            ///
            /// # Errors
            /// [`Error::Format`] if the data is not a saved map, is of another version or other types, or is
            /// damaged; [`Error::Io`] if the reader fails; otherwise as [`Builder::build`] and
            /// [`Self::bulk_build`].
            pub fn load(reader: impl std::io::Read, builder: Builder<K, V>) -> Result<Self> {
                $crate::map::file::load_at_once(reader, |keys, values| {
                    let mut map = builder.at_least(keys.len()).build()?;
                    map.$($tree).+.bulk_build(keys, values, $crate::ordered::bulk_build::USUAL_FILL)?;
                    Ok(map)
                })
            }
        }
    };
}
pub(crate) use bulk_methods;
