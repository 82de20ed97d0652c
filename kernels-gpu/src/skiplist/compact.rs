//! Compacts a list while nothing else runs: removes zombies and data nodes without pairs, and rebuilds the
//! index layers.
//!
//! ```text
//! 1. gather   lists the data nodes that stay: (low key, handle)    not sorted; the host sorts them
//! 2. sweep    makes all other nodes but root and reserved leaf blank, and frees them
//! 3. relink   each node covers the keys up to the next one's low key, and links to it
//! 4. claim    allocates slabs for the index layers, in each layer's part of the pool; else anywhere
//! 5. index    builds each index node on its own, from the sorted data nodes
//! ```
//!
//! Index layers need not have an entry for each node below: if there are too few slabs, they have one for
//! every `stride`-th data node.
use super::policy::Policy;
use crate::keyed::kernels::write_if;
use crate::keyed::{Scalar, Slot};
use crate::ordered::fixed_nodes::{FIRST_LEAF, RESERVED_LEAF, ROOT, largest};
use crate::ordered::meta::{Meta, entry};
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::types::{Key, Stored, Types};
use crate::slab::{Handle, Pool};
use simt::{GlobalSlice, Independent, Order, Scope, Thread, Tile, device};

/// Dimensions of the index layers over a number of data nodes.
///
/// ```
/// use phalanx_kernels::skiplist::Layout;
///
/// let layout = Layout::within(1000, 10, 1000); // room for an entry for every data node
/// assert_eq!((layout.stride, layout.slabs(), layout.slabs_upto(1)), (1, 110, 100));
/// assert_eq!(Layout::within(1000, 10, 60).stride, 2); // for every other one
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Number of data nodes.
    pub nodes: u64,
    /// Distance between data nodes that have an entry in layer 1.
    pub stride: u64,
    /// Number of entries in an index node.
    pub fill: u64,
}

impl Layout {
    /// Returns the index layers that fit in `slabs` slabs. Every data node has an entry if there are enough
    /// slabs for that. `fill` is at least 2.
    pub fn within(nodes: u64, fill: u64, slabs: u64) -> Self {
        let mut layout = Self { nodes, stride: 1, fill };
        while layout.slabs() > slabs {
            layout.stride *= 2;
        }
        layout
    }

    /// Ends the launch if layers would not become smaller towards the root.
    #[device(caller)]
    fn check(self) {
        if self.fill < 2 || self.stride == 0 {
            simt::trap();
        }
    }

    /// Returns the number of data nodes that have an entry in layer 1.
    fn raised(self) -> u64 {
        self.nodes.div_ceil(self.stride)
    }

    /// Returns the number of slabs of all index layers but the topmost, which is the root.
    pub fn slabs(self) -> u64 {
        self.slabs_upto(u32::MAX)
    }

    /// Returns the number of slabs of the index layers up to `layer`, without the root.
    pub fn slabs_upto(self, layer: u32) -> u64 {
        let (mut slabs, mut at) = (0, 1);
        let mut nodes = self.raised().div_ceil(self.fill);
        while nodes > 1 && at <= layer {
            slabs += nodes;
            (nodes, at) = (nodes.div_ceil(self.fill), at + 1);
        }
        slabs
    }

    /// Returns the layer of index node `number`, its index in that layer, and the number of the first node of
    /// the layer below. The last number is the root's.
    fn of(self, number: u64) -> (u32, u64, u64) {
        let (mut layer, mut first, mut below) = (1, 0, 0);
        let mut nodes = self.raised().div_ceil(self.fill);
        while nodes > 1 && number >= first + nodes {
            (layer, below) = (layer + 1, first);
            first += nodes;
            nodes = nodes.div_ceil(self.fill);
        }
        (layer, number - first, below)
    }

    /// Returns the number of nodes of the layer below `layer` that have an entry.
    fn below(self, layer: u32) -> u64 {
        let (mut nodes, mut at) = (self.raised(), 1);
        while at < layer {
            (nodes, at) = (nodes.div_ceil(self.fill), at + 1);
        }
        nodes
    }

    /// Returns the number of data nodes between two nodes of a layer.
    fn span(self, layer: u32) -> u64 {
        let (mut span, mut at) = (self.stride, 0);
        while at < layer {
            (span, at) = (span * self.fill, at + 1);
        }
        span
    }
}

/// Input of the index layers: the data nodes sorted by their low keys, and slabs.
#[derive(Debug)]
pub struct NodeArray<K> {
    /// Dimensions of the layers.
    pub layout: Layout,
    /// Low keys of the data nodes.
    pub lows: GlobalSlice<K>,
    /// Handles of the data nodes.
    pub handles: GlobalSlice<u32>,
    /// Slabs for the index nodes, [`Layout::slabs`] of them.
    pub slabs: GlobalSlice<u32>,
}

impl<K> Clone for NodeArray<K> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for NodeArray<K> {}

/// Request for slabs for index nodes.
#[derive(Clone, Copy, Debug)]
pub struct SlabReservation {
    /// Receives the slabs: first those of layer 1, then those of layer 2, then all others.
    pub slabs: GlobalSlice<u32>,
    /// Number of slabs reserved for each of these three.
    pub counts: GlobalSlice<u64>,
    /// Indices at which the first and the second part end.
    pub ends: [u64; 2],
    /// Whether slabs of other parts of the pool will do.
    pub anywhere: bool,
}

impl SlabReservation {
    /// Number of parts: the last is for layer 3 and all above it.
    const LAYERS: u32 = 3;

    /// Returns an index in `slabs` for a slab of a layer, if one is still wanted.
    #[device(caller)]
    fn place(&self, layer: u32) -> Option<usize> {
        let all = self.slabs.len() as u64;
        let (first, end) = match layer {
            1 => (0, self.ends[0]),
            2 => (self.ends[0], self.ends[1]),
            _ => (self.ends[1], all),
        };
        let (count, order, scope) = (self.counts.at(layer as usize - 1), Order::Relaxed, Scope::Device);
        let is_wanted = first + count.load(order, scope) < end;
        let place = if is_wanted { first + count.fetch_add(1, order, scope) } else { end };
        (place < end).then_some(place as usize)
    }
}

#[device(caller)]
impl<T: Types<Access: Policy>, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Returns the node in slab number `number`, if that is live and must be reachable from others: root and
    /// reserved leaf need not be.
    fn linked(self, number: usize) -> Option<Handle> {
        let pool = self.pool;
        let exists = number < pool.units() && pool.bitmaps().is_live(number as u32);
        let handle = pool.handle(if exists { number as u32 } else { 0 });
        (exists && handle != ROOT && handle != RESERVED_LEAF).then_some(handle)
    }

    /// Whether a data node stays: it is no zombie, and has a pair or is the first. The calling lane reads it
    /// alone.
    fn stays(self, handle: Handle) -> bool {
        let (node, ends) = (self.node(handle), self.ends(handle));
        let (mut pairs, mut position) = (0, 0);
        while position < Node::<T::Slot, W, L>::SLOTS {
            let word = node.word(position).load(Order::Relaxed, Scope::Device);
            pairs += (T::Slot::key(word) <= ends.high && T::Slot::key(word) >= ends.low) as u32;
            position += 1;
        }
        ends.meta.is_leaf() && (handle == FIRST_LEAF || (ends.high >= ends.low && pairs > 0))
    }

    /// Adds the data node in slab number `number`, if it stays, to `lows` and `handles` and to their `count`.
    pub(super) fn gather(
        self,
        number: usize,
        lows: GlobalSlice<Key<T>>,
        handles: GlobalSlice<u32>,
        count: GlobalSlice<u64>,
    ) {
        let warp = Tile::<32>::lockstep();
        let staying = self.linked(number).filter(|handle| self.stays(*handle));
        let votes = warp.ballot(staying.is_some());
        let mut base = 0;
        if warp.rank() == 0 && votes != 0 {
            base = count.at(0).fetch_add(votes.count_ones() as u64, Order::Relaxed, Scope::Device);
        }
        let base = warp.shuffle(base, 0) as usize;
        if let Some(handle) = staying {
            let place = base + (votes & warp.lower_ranks()).count_ones() as usize;
            write_if(lows, place, Key::<T>::from_u64(self.ends(handle).low.to_u64()));
            write_if(handles, place, handle.to_word());
        }
    }

    /// Frees slab number `number`, if its node does not stay, by the lanes of the calling thread's tile.
    pub(super) fn sweep_nodes(self, number: usize) {
        let tile = Tile::<W, Independent>::this();
        let Some(handle) = self.linked(number) else { return };
        if self.stays(handle) {
            return;
        }
        tile.sync();
        self.node(handle).blank(tile.rank());
        tile.sync();
        if tile.rank() == 0 {
            self.pool.free(handle);
        }
    }

    /// Returns the handle in a word of a slice. Ends the launch if the pool has no such slab.
    fn listed(self, handles: GlobalSlice<u32>, index: usize) -> Handle {
        let handle = Handle::from_word(handles.read(index));
        if self.pool.number(handle).is_none() {
            simt::trap();
        }
        handle
    }

    /// Makes node `index` of the sorted ones cover the keys up to the next one's, by the lanes of the calling
    /// thread's tile.
    pub(super) fn relink_data(self, index: usize, data: NodeArray<Key<T>>) {
        let tile = Tile::<W, Independent>::this();
        let last = (data.layout.nodes as usize).wrapping_sub(1);
        let node = self.node(self.listed(data.handles, index));
        let read = node.read(tile.rank(), true, Order::Relaxed);
        let (old, _) = read.tail(tile);
        let mut j = 0;
        while j < L {
            // Pairs left over from a split would belong to the node again when its high key rises.
            let is_left_over =
                Node::<T::Slot, W, L>::is_slot(tile.rank(), j) && T::Slot::key(read.words()[j]) > old;
            if is_left_over {
                node.own(tile.rank(), j).store(T::Slot::EMPTY, Order::Relaxed, Scope::Device);
            }
            j += 1;
        }
        if tile.rank() == 0 {
            let (high, next) = if index == last {
                (largest::<T::Slot>(), RESERVED_LEAF)
            } else {
                let above = data.lows.read(index + 1).to_u64();
                (Stored::<T>::from_u64(above.wrapping_sub(1)), self.listed(data.handles, index + 1))
            };
            node.tail().store(entry::<T::Slot>(high, next), Order::Relaxed, Scope::Device);
        }
    }

    /// Takes slab number `number` for an index node, if it is free and one like it is wanted.
    pub(super) fn claim(self, number: usize, claims: SlabReservation) {
        let pool = self.pool;
        if number >= pool.units() || pool.bitmaps().is_live(number as u32) {
            return;
        }
        let mut layer = 1;
        while layer <= SlabReservation::LAYERS {
            let fits = claims.anywhere || pool.is_for(number as u32, layer);
            if let Some(place) = if fits { claims.place(layer) } else { None } {
                // SAFETY: the number is below the number of the pool's slabs.
                unsafe { pool.take(number as u32 / 32, 1 << (number % 32)) };
                claims.slabs.write(place, pool.handle(number as u32).to_word());
                return;
            }
            layer += 1;
        }
    }

    /// Builds index node `number`, the last of which is the root, by the lanes of the calling thread's tile.
    pub(super) fn index(self, number: u64, data: NodeArray<Key<T>>) {
        data.layout.check();
        let (layout, (layer, place, below)) = (data.layout, data.layout.of(number));
        let (slabs, children) = (layout.slabs(), layout.below(layer));
        let low = |layer: u32, place: u64| {
            let index = place * layout.span(layer);
            Stored::<T>::from_u64(if index == 0 { 0 } else { data.lows.read(index as usize).to_u64() })
        };
        let slab = |number: u64| self.listed(data.slabs, number as usize);
        let child = |place: u64| {
            if layer > 1 {
                return slab(below + place);
            }
            self.listed(data.handles, (place * layout.stride) as usize)
        };
        let handle = if number == slabs { ROOT } else { slab(number) };
        let is_last = (place + 1) * layout.fill >= children;
        self.node(handle).write(Thread::index() as u32 % W, |position| {
            let at = place * layout.fill + position as u64;
            if position < Node::<T::Slot, W, L>::SLOTS {
                let exists = (position as u64) < layout.fill && at < children;
                if exists { entry::<T::Slot>(low(layer - 1, at), child(at)) } else { T::Slot::EMPTY }
            } else if position == Node::<T::Slot, W, L>::SLOTS {
                Node::<T::Slot, W, L>::header_word(low(layer, place), Meta::free(layer))
            } else if is_last {
                entry::<T::Slot>(largest::<T::Slot>(), Handle::NONE)
            } else {
                let above = low(layer, place + 1).to_u64();
                entry::<T::Slot>(Stored::<T>::from_u64(above.wrapping_sub(1)), slab(number + 1))
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn index_layers_have_a_node_for_each_number() {
        for (nodes, fill, slabs) in
            [(1, 2, 0), (2, 2, 9), (3, 2, 9), (100, 10, 99), (1000, 10, 111), (1000, 10, 20), (77, 3, 0)]
        {
            let layout = Layout::within(nodes, fill, slabs);
            assert!(layout.slabs() <= slabs, "{layout:?}");
            let mut seen = std::collections::BTreeMap::new();
            for number in 0..=layout.slabs() {
                let (layer, place, _) = layout.of(number);
                let places: &mut Vec<u64> = seen.entry(layer).or_default();
                assert_eq!(places.len() as u64, place, "{layout:?}");
                places.push(place);
            }
            for (layer, places) in &seen {
                assert_eq!(places.len() as u64, layout.below(*layer).div_ceil(fill), "{layout:?}");
                assert!((places.len() as u64 - 1) * layout.span(*layer) < nodes, "{layout:?}");
                let upto: usize = seen.range(..=layer).map(|(_, places)| places.len()).sum();
                let is_root = layer == seen.keys().last().unwrap();
                assert_eq!(layout.slabs_upto(*layer), upto as u64 - is_root as u64, "{layout:?}");
            }
            assert_eq!(seen.values().last().map(Vec::len), Some(1), "the root is alone");
        }
    }

    #[test]
    fn where_slabs_are_few_fewer_nodes_are_raised() {
        assert_eq!(Layout::within(1000, 10, 111).stride, 1);
        assert_eq!(Layout::within(1000, 10, 109).stride, 2);
        assert_eq!(Layout::within(1000, 10, 0).stride, 128);
    }
}
