//! The move of edges from old slabs into new tables.
//!
//! A small vertex is moved by a tile of four lanes, and eight buckets of an old table by the eight tiles of a
//! warp. Nothing looks a new table up before it is installed, so an edge needs no compare-and-swap: the word
//! of pressure in its bucket counts the edges of the bucket, and so gives each a slot. The lanes of a tile
//! read a whole record or slab, add to all these words, and then write all slots: three accesses that wait
//! for each other, however many edges there are. An edge for which the bucket has no slot is inserted into
//! the slabs behind it by the loop of [slab lists](crate::slab::list). Nothing reads the words later: a
//! bucket is blanked when its table is freed.
use super::batch::{Growth, GrowthWord};
use super::grow::{FAILED, GROUP, MOVED, Plan};
use super::kind::{Edges, slab_slots};
use super::link::Link;
use super::record::Record;
use super::view::{GraphView, SLAB_TILE, Start};
use crate::keyed::{Lane, Scalar, Slot};
use crate::primitives::unrolled;
use crate::slab::Pool;
use crate::slab::list::Node;
use simt::{Order, Scope, Thread, Tile, bound, device};

/// The part of a vertex that a tile moves: its bucket `bucket`, or all edges of a small vertex.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// Index of the plan.
    pub index: u32,
    pub plan: Plan,
    pub bucket: u32,
}

#[device]
impl Part {
    /// Returns the number of warps that move the listed vertices.
    pub(super) fn warps(growth: Growth) -> u32 {
        growth.read(GrowthWord::Listed).div_ceil(GROUP) + growth.read(GrowthWord::Groups)
    }

    /// Returns the part of the calling tile in the `warp`-th share of the work, if it has one.
    pub(super) fn of(growth: Growth, warp: u32) -> Option<Self> {
        let tile = Thread::lane() / SLAB_TILE;
        let listed = growth.read(GrowthWord::Listed);
        let small = listed.div_ceil(GROUP);
        let (index, bucket) = if warp < small {
            (warp * GROUP + tile, 0)
        } else {
            let group = growth.groups.read((warp - small) as usize);
            ((group >> 32) as u32, group as u32 + tile)
        };
        if index >= bound(listed) {
            return None;
        }
        let plan = Plan::read(growth, index);
        let is_own = if warp < small { plan.old_buckets == 0 } else { bucket < bound(plan.old_buckets) };
        (plan.buckets != 0 && is_own).then_some(Self { index, plan, bucket })
    }

    /// Returns the number of parts of the vertex.
    pub(super) fn parts(self) -> u32 {
        if self.plan.old_buckets == 0 { 1 } else { self.plan.old_buckets }
    }
}

/// A record or a slab whose edges a tile moves.
#[derive(Clone, Copy)]
enum Source<S: Slot<Key = u32>, const W: u32, const L: usize> {
    Record(Record<S, W, L>),
    Slab(Node<S, SLAB_TILE, L>),
}

#[device]
impl<S: Slot<Key = u32>, const W: u32, const L: usize> Source<S, W, L> {
    /// Returns the slots that lane `rank` of the tile reads, and the link, which only the last lane has that
    /// reads any.
    fn read(self, rank: u32) -> (Lane<S, L>, Link) {
        match self {
            Self::Record(record) if rank < W => {
                // mutation: block weak equivalent, because nothing writes to the old memory in the launch.
                let read = record.read(rank, true, Order::Relaxed);
                (read.lane, Link::from_word(read.link))
            }
            Self::Record(_) => (Lane::nothing(), Link::NONE),
            Self::Slab(node) => {
                // mutation: block weak equivalent, because nothing writes to the old memory in the launch.
                let read = node.read(rank, true, Order::Relaxed);
                (read.lane, Link::from_word(read.link.to_word()))
            }
        }
    }

    /// Returns the rank of the last lane that reads slots.
    fn last(self) -> u32 {
        match self {
            Self::Record(_) => W - 1,
            Self::Slab(_) => SLAB_TILE - 1,
        }
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Moves the edges of vertices that get tables, by all threads of the grid.
    pub(super) fn move_edges(self, growth: Growth) {
        let (warps, mut warp) = (bound(Part::warps(growth)), (Thread::index() / 32) as u32);
        while warp < warps {
            self.move_part(growth, Part::of(growth, warp));
            warp += (Thread::count() / 32) as u32;
        }
    }

    /// Moves the edges of the calling tile's part, if it has one. All lanes of the warp call it together.
    fn move_part(self, growth: Growth, part: Option<Part>) {
        let tile = Tile::<SLAB_TILE>::lockstep();
        let plan = part.map_or(Plan::default(), |part| part.plan);
        let mut source = part.map(|part| self.source_of(part));
        let (mut moved, mut failed) = (0, false);
        while tile.any_converged(source.is_some()) {
            let (lane, link) =
                source.map_or((Lane::nothing(), Link::NONE), |source| source.read(tile.rank()));
            let last = source.map_or(0, Source::last);
            let next = Link::from_word(tile.shuffle(link.to_word(), last)).slab();
            let (many, is_whole) = self.put_all((plan.base, plan.buckets), &lane);
            moved += many;
            failed |= !is_whole;
            source = next.map(|handle| {
                // SAFETY: the handle was read in a link of the graph.
                Source::Slab(unsafe { self.node(handle) })
            });
        }
        let (moved, failed) = (tile.reduce_add(moved), tile.any(failed));
        if let Some(part) = part.filter(|_| tile.rank() == 0) {
            Plan::word(growth, part.index, MOVED).fetch_add(moved, Order::Relaxed, Scope::Device);
            if failed {
                // mutation: tear equivalent, because all writes of the launch store 1.
                // mutation: block unreached, because no two blocks of the explorers find no room for edges of
                // one table.
                Plan::word(growth, part.index, FAILED).fetch_or(1, Order::Relaxed, Scope::Device);
            }
        }
    }

    /// Returns the record of a small vertex, or the bucket of a table.
    fn source_of(self, part: Part) -> Source<S, W, L> {
        if part.plan.old_buckets == 0 {
            // SAFETY: the vertex is listed, so it exists.
            return Source::Record(unsafe { self.record(part.plan.vertex) });
        }
        let start = Start { index: part.plan.old_base + part.bucket, is_bucket: true };
        // SAFETY: a bucket of the old table.
        Source::Slab(unsafe { self.first_node(start) })
    }

    /// Appends the edges in the lane's slots to a table of `buckets` buckets at `base`. All lanes of the warp
    /// call it together. Returns their number, and whether there was room for all.
    fn put_all(self, (base, buckets): (u32, u32), lane: &Lane<S, L>) -> (u32, bool) {
        let bucket = |word| {
            let start = Start::bucket(base, buckets, S::key(word).to_u64() as u32);
            // SAFETY: the plan has a table of the arena; without a plan the lane has no edge.
            unsafe { self.first_node(start) }
        };
        let (words, mut places) = (lane.words(), [0; L]);
        unrolled::<L>(|j| {
            if S::is_live(words[j]) {
                let count = Self::slab_pressure(bucket(words[j]));
                // mutation: block unreached, because no two blocks of the explorers move edges to one bucket.
                places[j] = count.fetch_add(1, Order::Relaxed, Scope::Device).wrapping_add(1);
            }
        });
        let (mut many, mut rest) = (0, 0);
        unrolled::<L>(|j| {
            if S::is_live(words[j]) {
                many += 1;
                if places[j] < bound(slab_slots::<S, L>()) {
                    // mutation: block weak late equivalent, because only later launches read the slot.
                    bucket(words[j]).slot(places[j]).store(words[j], Order::Relaxed, Scope::Device);
                } else {
                    rest |= 1 << j;
                }
            }
        });
        let lost = self.put_behind((base, buckets), words, rest);
        (many - lost, lost == 0)
    }

    /// Appends the edges in the slots of `rest`, a bit for each, to the slabs behind the buckets of a table.
    /// All lanes of the warp call it together. Returns the number of those for which there was no room.
    fn put_behind(self, (base, buckets): (u32, u32), words: [S::Word; L], mut rest: u32) -> u32 {
        let mut lost = 0;
        while Tile::<32>::lockstep().any(rest != 0) {
            let is_pending = rest != 0;
            let word = select(words, rest.trailing_zeros());
            let (target, data) = (S::key(word).to_u64() as u32, S::value(word));
            // SAFETY: the plan has a table of the arena.
            let is_moved = unsafe { self.insert_moved(is_pending, (base, buckets), (target, data)) };
            lost += (is_pending && !is_moved) as u32;
            rest &= rest.wrapping_sub(1);
        }
        lost
    }
}

/// Returns the word at `index`, or the last one if there is none.
#[device]
fn select<W: Copy, const L: usize>(words: [W; L], index: u32) -> W {
    let mut word = words[L - 1];
    unrolled::<L>(|j| {
        if j as u32 == index {
            word = words[j];
        }
    });
    word
}
