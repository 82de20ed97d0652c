//! Scans of all leaves, and the release of nodes.
use super::fixed_nodes::{EMPTY_TREE_NODES, RESERVED_LEAF};
use super::node::Node;
use super::nodes::Nodes;
use super::types::{Key, Types, Value, VersionsOf, WordOf};
use super::versioning::Versions;
use crate::keyed::{EntryRef, Kind, Slot};
use crate::slab::Pool;
use simt::{Global, Independent, Order, Scope, Tile, device};

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Scans one slab of the pool per tile. See [`Kind::scan`](crate::keyed::Kind::scan).
    pub(crate) fn scan<M>(self, thread: usize, mut see: impl FnMut(Option<EntryRef<M>>))
    where
        M: Kind<Key = Key<T>, Value = Value<T>, Slot = T::Slot>,
    {
        let tile = Tile::<W>::lockstep();
        let number = thread / W as usize;
        let exists = number < self.pool.units() && self.pool.bitmaps().is_live(number as u32);
        let handle = self.pool.handle(if exists { number as u32 } else { 0 });
        let node = self.node(handle);
        let read = node.read(tile.rank(), exists, Order::Relaxed);
        let ((low, meta), (high, _)) = (read.header(tile), read.tail(tile));
        let is_leaf = exists && meta.is_leaf();
        let read = if VersionsOf::<T>::VERSIONED { self.as_of(tile, node, is_leaf, read).0 } else { read };
        let mut j = 0;
        while j < L {
            let (word, position) = (read.words()[j], Node::<T::Slot, W, L>::position(tile.rank(), j));
            let is_within =
                T::Slot::key(word) <= high && (!VersionsOf::<T>::VERSIONED || T::Slot::key(word) >= low);
            let is_pair = is_leaf && position < Node::<T::Slot, W, L>::SLOTS && is_within;
            see(is_pair.then(|| {
                let key = T::Slot::unalias(T::Slot::key(word), handle == RESERVED_LEAF);
                EntryRef::new(node.word(position), key, T::Slot::value(word))
            }));
            j += 1;
        }
    }

    /// Removes a pair that a scan has shown. The slot becomes empty: slots of nodes have no tombstones.
    pub(crate) fn erase(slot: Global<WordOf<T>>) -> bool {
        slot.store(T::Slot::EMPTY, Order::Relaxed, Scope::Device);
        true
    }

    /// Frees slab number `number` if it is a node that an empty structure does not have, by the lanes of the
    /// calling thread's tile.
    pub(crate) fn free_node(self, number: usize) {
        let pool = self.pool;
        if number < EMPTY_TREE_NODES || number >= pool.units() || !pool.bitmaps().is_live(number as u32) {
            return;
        }
        let tile = Tile::<W, Independent>::this();
        let handle = pool.handle(number as u32);
        self.node(handle).blank(tile.rank());
        tile.sync();
        if tile.rank() == 0 {
            pool.free(handle);
        }
    }
}
