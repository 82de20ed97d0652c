//! Walks of a whole warp over the buckets of a table.
use super::algorithms::{read, target_in};
use super::kind::{Edges, slab_slots};
use super::link::Link;
use super::record::Record;
use super::table::SLAB_BYTES;
use super::view::GraphView;
use crate::keyed::Slot;
use crate::primitives::unrolled;
use crate::slab::Pool;
use simt::{Global, Tile, device};

/// Number of buckets that a warp reads at a time.
pub(super) const BUCKETS: usize = 4;

/// A warp's walk over buckets of a table: four at a time, of which the lanes read consecutive words, and then
/// the slabs behind each. Nothing writes the graph meanwhile, so loads are weak.
#[derive(Clone, Copy)]
pub(super) struct BucketWalk<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> {
    graph: GraphView<Edges<S, P, W, L>>,
    /// Index of the first of the four buckets in the arena.
    bucket: u32,
    /// Index behind the last bucket.
    end: u32,
    /// The buckets that have been read, but not the slabs behind them: a bit for each.
    pending: u32,
    /// The next slab behind a bucket.
    link: Link,
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> BucketWalk<S, P, W, L> {
    /// Number of slots in a slab, with the one that has the link.
    const SLOTS: u32 = (SLAB_BYTES / size_of::<S::Word>()) as u32;
    /// Number of buckets that lanes read by one load.
    const AT_ONCE: u32 = 32 / Self::SLOTS;

    /// Begins a walk over buckets of a table of the graph: from the first of two slabs of the arena to before
    /// the second one.
    pub fn new(graph: GraphView<Edges<S, P, W, L>>, (bucket, end): (u32, u32)) -> Self {
        Self { graph, bucket, end, pending: 0, link: Link::NONE }
    }

    /// Returns whether there is a further slab. It is the same for all lanes.
    pub fn is_at(self) -> bool {
        self.bucket < self.end
    }

    fn bucket_at(self, index: u32) -> Option<Global<u64>> {
        // SAFETY: a bucket of the table.
        (index < self.end).then(|| unsafe { self.graph.arena().slab(index) })
    }

    /// Returns the neighbours of the lane in the next slabs: one in each of up to four. The lanes of the warp
    /// call it together, while there is a further slab.
    pub fn read(&mut self) -> [Option<u32>; BUCKETS] {
        let warp = Tile::<32>::lockstep();
        let (slot, place) = (warp.rank() % Self::SLOTS, warp.rank() / Self::SLOTS);
        let (slab, mut words) = (self.link.slab(), [S::EMPTY; BUCKETS]);
        if let Some(slab) = slab {
            // SAFETY: the handle was read in a link of the graph, and a slab has so many slots.
            words[0] = unsafe { read::<S>(Some(self.graph.node(slab).base()), slot, place == 0) };
        } else {
            unrolled::<BUCKETS>(|j| {
                let before = j as u32 * Self::AT_ONCE;
                if before < BUCKETS as u32 {
                    let bucket = self.bucket_at(self.bucket + before + place);
                    // SAFETY: a slab has so many slots.
                    words[j] = unsafe { read::<S>(bucket, slot, true) };
                }
            });
        }
        let is_link = slot == Self::SLOTS - 1;
        let links = words.map(|word| if is_link { Record::<S, W, L>::link_in(word) } else { Link::NONE });
        self.advance(slab.is_some(), links);
        words.map(|word| target_in::<S>(word).filter(|_| slot < slab_slots::<S, L>()))
    }

    /// Goes to the next slabs, given the links in those that were read, of the lanes that have read one.
    fn advance(&mut self, was_behind: bool, links: [Link; BUCKETS]) {
        let warp = Tile::<32>::lockstep();
        if was_behind {
            self.link = Link::from_word(warp.shuffle(links[0].to_word(), Self::SLOTS - 1));
        } else {
            self.pending = 0;
            if warp.any(links.iter().any(|link| link.slab().is_some())) {
                unrolled::<BUCKETS>(|j| {
                    let votes = warp.ballot(links[j].slab().is_some());
                    unrolled::<BUCKETS>(|place| {
                        let lane = (place as u32 + 1) * Self::SLOTS - 1;
                        let is_set = lane < 32 && votes >> (lane % 32) & 1 != 0;
                        let bucket = j as u32 * Self::AT_ONCE + place as u32;
                        self.pending |= (is_set as u32) << (bucket % 32);
                    });
                });
            }
        }
        if self.link.slab().is_some() {
            return;
        }
        if self.pending == 0 {
            self.bucket += BUCKETS as u32;
        } else {
            let bucket = self.bucket_at(self.bucket + self.pending.trailing_zeros());
            // SAFETY: a slab has so many slots.
            self.link = Record::<S, W, L>::link_in(unsafe { read::<S>(bucket, Self::SLOTS - 1, true) });
            self.pending &= self.pending - 1;
        }
    }
}
