//! The search for a key in one node.
use super::meta::Meta;
use super::node::Node;
use crate::keyed::{Lane, Slot};
use simt::{Convergence, Tile, device};

/// Result of searching a node for a key.
#[derive(Clone, Copy, Debug)]
pub struct SearchStep<S: Slot> {
    /// Meta of the node.
    pub meta: Meta,
    /// Whether the key is above the node's keys, so that the search goes on to the right.
    pub beyond: bool,
    /// Whether there is a next node, or in a leaf the key.
    pub found: bool,
    /// Value of the word that was found: a handle or, in a leaf that covers the key, the key's value.
    pub value: S::Value,
}

impl<S: Slot> SearchStep<S> {
    /// Searches the words that a tile has read of a node for `key`.
    ///
    /// An inner node leads on by its last pair whose low key is not above `key`, or, if `key` is above the
    /// node's keys, by its link. The link lies behind all pairs, so one vote finds either.
    #[device(caller)]
    pub fn of<const W: u32, const L: usize>(
        tile: Tile<W, impl Convergence>,
        read: &Lane<S, L>,
        key: S::Stored,
    ) -> Self {
        let meta = read.meta(tile);
        let chosen = read.last(tile.rank(), |position, word| {
            let at = S::key(word);
            let leads = if meta.is_leaf() { at == key } else { at <= key };
            (position < Node::<S, W, L>::SLOTS && leads) || (position == Node::<S, W, L>::TAIL && key > at)
        });
        let votes = tile.ballot(chosen.exists);
        let value = tile.shuffle(S::value(chosen.word), 31 - (votes | 1).leading_zeros());
        // A split publishes the new node's header and the link to it by two stores, which may become visible
        // in either order. Until the header is visible, the pairs of a leaf must not be taken for handles.
        let beyond = read.is_beyond(tile, key);
        Self { meta, beyond, found: votes != 0 && (beyond || meta.is_node()), value }
    }
}

#[cfg(test)]
mod tests {
    use super::super::meta::entry;
    use super::*;
    use crate::keyed::Packed;
    use crate::slab::Handle;
    use simt::emulator::{Emulator, Options};
    use simt::{Global, GlobalSlice, Grid, Kernel, Order};

    type Leaf = Node<Packed, 4, 4>;

    /// Searches a node for a key.
    #[derive(Clone, Copy)]
    struct Judge {
        node: Global<u64>,
        told: GlobalSlice<u32>,
    }

    impl Kernel for Judge {
        const PROGRAM: &'static str = "node";
        const NAME: &'static str = "judge";
        const INSTANCE: Option<&'static str> = None;

        fn run(self) {
            let tile = Tile::<4>::lockstep();
            // SAFETY: 128 bytes that the test owns.
            let node = unsafe { Leaf::at(self.node) };
            let lead = SearchStep::of(tile, &node.read(tile.rank(), true, Order::Relaxed), 7);
            self.told.write(tile.rank() as usize, lead.found as u32 + 2 * lead.beyond as u32);
        }
    }

    fn judged(meta: Option<Meta>, high: u32) -> [u32; 4] {
        let emulator = Emulator::new(Options::default());
        let (base, told) =
            (emulator.allocate(128, 128).cast::<u64>(), emulator.allocate(16, 16).cast::<u32>());
        // SAFETY: 128 bytes, aligned.
        let node = unsafe { Leaf::at(Global::new(base)) };
        // SAFETY: 16 bytes; nothing else accesses them.
        let judge = unsafe { Judge { node: Global::new(base), told: GlobalSlice::from_raw_parts(told, 4) } };
        let put = |position: u32, word: u64| {
            // SAFETY: a word of the node, which nothing else accesses before the launch.
            unsafe { node.word(position).as_ptr().write(word) };
        };
        (0..16).for_each(|position| put(position, Packed::EMPTY));
        put(3, Packed::pack(5, 0xdead_beef));
        put(Leaf::TAIL, entry::<Packed>(high, Handle::NONE));
        if let Some(meta) = meta {
            put(Leaf::HEADER, Leaf::header_word(0, meta));
        }
        emulator.launch(Grid::new(1, 4), judge).unwrap();
        // SAFETY: the launch has ended.
        unsafe { *told.cast::<[u32; 4]>() }
    }

    #[test]
    fn pairs_of_a_leaf_whose_header_is_not_seen_yet_lead_nowhere() {
        assert_eq!(judged(Some(Meta::free(1)), 100), [1; 4], "an inner node leads on");
        assert_eq!(judged(None, 100), [0; 4]);
        assert_eq!(judged(None, 6), [3; 4], "its link is true");
    }
}
