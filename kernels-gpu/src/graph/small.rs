//! The edges of a small vertex, as one lane reads and compacts them.
//!
//! The lane loads whole lanes of the record and of slabs, which do not depend on each other. So the time is
//! that of a load or two per record or slab, not of one per slot.
use super::chain::Chain;
use super::kind::{Edges, slab_slots};
use super::link::Link;
use super::record::RECORD_SLOTS;
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::Slot;
use crate::primitives::unrolled;
use crate::slab::Pool;
use crate::slab::list::Node;
use simt::{Order, Scope, bound, device};

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Calls `see` for the words of the slots of a small vertex, in the order in which slots are filled, by
    /// the calling lane alone. Returns the number of slabs. Nothing else changes the vertex in the launch;
    /// `see` may change slots that it has seen.
    pub(super) fn each_word(self, vertex: u32, mut see: impl FnMut(S::Word)) -> u32 {
        if vertex >= self.record_count() {
            return 0;
        }
        // SAFETY: the vertex exists.
        let record = unsafe { self.record(vertex) };
        let (mut link, mut rank) = (Link::NONE, 0);
        while rank < bound(W) {
            let read = record.read(rank, true, Order::Weak);
            link = Link::from_word(read.link);
            each_of(read.lane.words(), |j| rank != W - 1 || j != L - 1, &mut see);
            rank += 1;
        }
        let mut slabs = 0;
        while let Some(handle) = link.slab() {
            // SAFETY: the handle was read in a link of the graph.
            let (node, mut rank) = (unsafe { self.node(handle) }, 0);
            while rank < bound(SLAB_TILE) {
                let read = node.read(rank, true, Order::Weak);
                link = Link::from_word(read.link.to_word());
                each_of(read.lane.words(), |j| !Node::<S, SLAB_TILE, L>::is_link(rank, j), &mut see);
                rank += 1;
            }
            slabs += 1;
        }
        slabs
    }

    /// Returns the number of edges of a small vertex, by the calling lane alone. Nothing else changes the
    /// vertex in the launch.
    pub(super) fn count_live(self, vertex: u32) -> u32 {
        let mut live = 0;
        self.each_word(vertex, |word| live += S::is_live(word) as u32);
        live
    }

    /// Moves the edges of a small vertex to the front, by the calling lane alone; blanks the slots behind
    /// them, and frees the slabs that become empty. Requires exclusive access to the vertex.
    pub(super) fn compact(self, vertex: u32) {
        let (mut live, mut tombstones) = (0, 0);
        let slabs = self.each_word(vertex, |word| {
            live += S::is_live(word) as u32;
            tombstones += !(S::is_live(word) || S::is_empty(word)) as u32;
        });
        let needed = u32::saturating_sub(live, RECORD_SLOTS).div_ceil(slab_slots::<S, L>());
        if tombstones == 0 && slabs == needed {
            return;
        }
        let mut to = Chain::of_small(self, Some(vertex));
        self.each_word(vertex, |word| {
            if S::is_live(word) {
                // No further than the slot that was read.
                if let Some(place) = to.slot(0) {
                    // mutation: block weak late equivalent, because the lane does not read the slot again,
                    // nor does another one in the launch.
                    place.store(word, Order::Relaxed, Scope::Device);
                }
                to.advance(1);
            }
        });
        to.cut();
    }
}

/// Calls `see` for the words for which `is_slot` holds.
#[device]
fn each_of<W: Copy, const L: usize>(words: [W; L], is_slot: impl Fn(usize) -> bool, see: &mut impl FnMut(W)) {
    unrolled::<L>(|j| {
        if is_slot(j) {
            see(words[j]);
        }
    });
}
