//! Growth of vertices between the two passes of a batch: plan, move and install. Each is a launch of its own,
//! beside no other operation on the graph.
//!
//! ```text
//! plan     | base | buckets | old base | old buckets | moved | failed | vertex | - |     8 words
//!
//! buckets 0: the vertex stays as it is; old buckets 0: it was small
//! ```
//!
//! `moves.rs` has the move.
use super::batch::{EXACT, Growth, GrowthWord, PLAN_WORDS};
use super::kind::{Config, Edges, slab_slots};
use super::link::Link;
use super::moves::Part;
use super::record::RECORD_SLOTS;
use super::table::{buckets_of, class_for, growth_class};
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::Slot;
use crate::slab::Pool;
use crate::slab::list::Node;
use simt::{Global, Order, Scope, Thread, Tile, bound, device};

/// Number of tiles of a warp, and of buckets in a group.
pub(super) const GROUP: u32 = 32 / SLAB_TILE;

/// The new table of a listed vertex.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// First slab of the new table.
    pub base: u32,
    /// Number of its buckets, or 0 if the vertex stays as it is.
    pub buckets: u32,
    /// First slab of the old table.
    pub old_base: u32,
    /// Number of its buckets, or 0 if the vertex was small.
    pub old_buckets: u32,
    /// Number of edges that were moved.
    pub moved: u32,
    /// 1 if an edge found no room.
    pub failed: u32,
    /// The vertex.
    pub vertex: u32,
}

#[device]
impl Growth {
    /// Returns the load of new tables in tenths.
    pub(super) fn tenths(self) -> u32 {
        self.load & !EXACT
    }

    /// Returns whether tables get the size of their edges, also a smaller one.
    fn is_exact(self) -> bool {
        self.load & EXACT != 0
    }
}

/// Index of a plan's word `moved`.
pub(super) const MOVED: usize = 4;
/// Index of a plan's word `failed`.
pub(super) const FAILED: usize = 5;

#[device]
impl Plan {
    /// Writes the plan of a listed vertex.
    fn write(self, growth: Growth, index: u32) {
        let words =
            [self.base, self.buckets, self.old_base, self.old_buckets, self.moved, self.failed, self.vertex];
        let mut word = 0;
        while word < words.len() {
            // mutation: late equivalent, because only later launches read the plan.
            growth.plans.write(index as usize * PLAN_WORDS + word, words[word]);
            word += 1;
        }
    }

    /// Reads the plan of a listed vertex, except the words that the launch may change.
    pub(super) fn read(growth: Growth, index: u32) -> Self {
        let word = |word| growth.plans.read(index as usize * PLAN_WORDS + word);
        Self {
            base: word(0),
            buckets: word(1),
            old_base: word(2),
            old_buckets: word(3),
            moved: 0,
            failed: 0,
            vertex: word(6),
        }
    }

    /// Returns the location of a word that launches change.
    pub(super) fn word(growth: Growth, index: u32, word: usize) -> Global<u32> {
        growth.plans.at(index as usize * PLAN_WORDS + word)
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Plans the growth of the listed vertex `index`, by the calling lane alone.
    pub(super) fn plan(self, growth: Growth, index: u32) {
        let vertex = growth.listed.read(index as usize);
        if vertex >= self.record_count() {
            return;
        }
        // SAFETY: the vertex exists.
        // mutation: block weak equivalent, because nothing else accesses the vertex in the launch.
        let link = Link::from_word(unsafe { self.record(vertex) }.link().load(Order::Relaxed, Scope::Device));
        let plan = if link == Link::TABLE {
            self.plan_table(growth, vertex, index)
        } else {
            self.plan_small(growth, vertex, link)
        };
        plan.write(growth, index);
    }

    /// Returns the plan of a vertex with a table. Lists the groups of its buckets.
    fn plan_table(self, growth: Growth, vertex: u32, index: u32) -> Plan {
        // SAFETY: the caller has checked the vertex.
        let record = unsafe { self.record(vertex) };
        let pressure = take_pressure(record.pressure());
        let (table, live) = record.load_table();
        let slots = slab_slots::<S, L>();
        let class = growth_class(live as u64 + pressure as u64, slots, growth.tenths());
        let tombstones = table.taken.wrapping_sub(live);
        let is_due = |class| match growth.is_exact() {
            true => buckets_of(class) != table.buckets || tombstones > 0,
            false => buckets_of(class) > table.buckets || tombstones > table.buckets * slots / 4,
        };
        let Some(class) = class.filter(|&class| is_due(class)) else {
            return Plan { vertex, ..Plan::default() };
        };
        let plan = self.plan_of(growth, vertex, class);
        if plan.buckets != 0 {
            let groups = table.buckets.div_ceil(GROUP);
            // mutation: block unreached, because no two blocks of the explorers plan tables that are
            // replaced.
            let first = growth.add(GrowthWord::Groups, groups);
            let mut group = 0;
            while group < bound(groups) {
                let word = (index as u64) << 32 | (group * GROUP) as u64;
                // mutation: late equivalent, because only later launches read the groups.
                growth.groups.write((first + group) as usize, word);
                group += 1;
            }
        }
        Plan { old_base: table.base, old_buckets: table.buckets, ..plan }
    }

    /// Returns the plan of a small vertex, whose link is `link`. Compacts it if it stays small.
    fn plan_small(self, growth: Growth, vertex: u32, link: Link) -> Plan {
        let pressure = match link.slab() {
            // SAFETY: the handle was read in the link of a record.
            Some(slab) => take_pressure(Self::slab_pressure(unsafe { self.node(slab) })),
            None => {
                // SAFETY: the caller has checked the vertex.
                let location = unsafe { self.record(vertex) }.link();
                // mutation: block weak late equivalent, because nothing else accesses the vertex in the
                // launch, and either word means to this lane that there is no slab.
                // mutation: skip unreached, because a batch defers such insertions only if the record has a
                // tombstone: `compact` then sets the link, too. `expect`, for which there is no explorer,
                // does not need a tombstone.
                location.store(Link::NONE.to_word(), Order::Relaxed, Scope::Device);
                link.deferred()
            }
        };
        let slots = slab_slots::<S, L>();
        let wanted = self.count_live(vertex) as u64 + pressure as u64;
        // mutation: less more half performance, because a vertex has the same edges with a table as without:
        // it only needs more memory, or has a longer chain.
        if wanted > bound(RECORD_SLOTS + slots) as u64 {
            let plan = match growth_class(wanted, slots, growth.tenths()) {
                Some(class) => self.plan_of(growth, vertex, class),
                None => Plan { vertex, ..Plan::default() },
            };
            if plan.buckets != 0 {
                return plan;
            }
        }
        self.compact(vertex);
        Plan { vertex, ..Plan::default() }
    }

    /// Returns a plan with a new table, or one without if the arena has no room.
    fn plan_of(self, growth: Growth, vertex: u32, class: u32) -> Plan {
        let buckets = buckets_of(class);
        match self.arena().allocate(class) {
            Some(base) => Plan { base, buckets, vertex, ..Plan::default() },
            None => {
                // mutation: tear performance, because a lost addition leaves a number that is not 0: the host
                // adds less memory, and tries again.
                // mutation: block unreached, because no two blocks of the explorers find no table.
                growth.add(GrowthWord::NoTable, buckets);
                Plan { vertex, ..Plan::default() }
            }
        }
    }

    /// Blanks the slabs of a chain from `link` on, and frees them. The lanes of the tile call it together;
    /// tiles in lockstep iterate together. Requires exclusive access to the chain.
    pub(super) fn free_chain(self, tile: Tile<SLAB_TILE>, link: Link) {
        let mut at = link.slab();
        while tile.any_converged(at.is_some()) {
            let mut next = None;
            if let Some(handle) = at {
                // SAFETY: the handle was read in a link of the graph.
                let node = unsafe { self.node(handle) };
                // mutation: block weak equivalent, because only the tile writes to the slab, after the
                // barrier.
                next = Link::from_word(node.link().load(Order::Relaxed, Scope::Device)).slab();
            }
            tile.sync();
            if let Some(handle) = at {
                // SAFETY: as above.
                Self::blank(tile, unsafe { self.node(handle) });
            }
            // mutation: skip equivalent, because a launch that frees slabs allocates none.
            tile.sync();
            if let Some(handle) = at.filter(|_| tile.rank() == 0) {
                self.pool().free(handle);
            }
            at = next;
        }
    }

    /// Blanks a slab.
    fn blank(tile: Tile<SLAB_TILE>, node: Node<S, SLAB_TILE, L>) {
        let mut pair = tile.rank() as usize;
        while pair < Node::<S, SLAB_TILE, L>::BYTES / 16 {
            // SAFETY: 16 aligned bytes of the slab.
            // mutation: block weak late equivalent, because only later launches read the slab.
            unsafe { node.base().offset(2 * pair).store_vec([u64::MAX; 2], Order::Relaxed, Scope::Device) };
            pair += SLAB_TILE as usize;
        }
    }

    /// Blanks a bucket of the arena, and frees the slabs behind it. The lanes of the tile call it together;
    /// tiles in lockstep iterate together, those without a bucket too.
    pub(super) fn free_bucket(self, tile: Tile<SLAB_TILE>, bucket: Option<u32>) {
        let node = bucket.map(|index| {
            // SAFETY: the bucket is one of a table of the arena.
            unsafe { Node::<S, SLAB_TILE, L>::at(self.arena().slab(index)) }
        });
        // mutation: block weak equivalent, because only the tile writes to the bucket, after the barrier.
        let link =
            node.map_or(Link::NONE, |node| Link::from_word(node.link().load(Order::Relaxed, Scope::Device)));
        tile.sync();
        if let Some(node) = node {
            Self::blank(tile, node);
        }
        self.free_chain(tile, link);
        // mutation: skip equivalent, because a launch that frees tables takes none.
        tile.sync();
    }

    /// Lets the records of the listed vertices describe their new tables, and frees the old memory, by all
    /// threads of the grid. Where an edge found no room, frees the new table instead.
    pub(super) fn install(self, growth: Growth) {
        let (warps, mut warp) = (bound(Part::warps(growth)), (Thread::index() / 32) as u32);
        while warp < warps {
            let part = Part::of(growth, warp);
            let is_failed = part.is_some_and(|part| {
                Plan::word(growth, part.index, FAILED).load(Order::Weak, Scope::Device) != 0
            });
            self.free_old(part.filter(|_| !is_failed));
            self.free_new(part.filter(|_| is_failed));
            let first = part.filter(|part| Thread::lane().is_multiple_of(SLAB_TILE) && part.bucket == 0);
            if let Some(part) = first {
                self.finish(growth, part, is_failed);
            }
            warp += (Thread::count() / 32) as u32;
        }
    }

    /// Frees the old memory of a part, except the record. All lanes of the warp call it together.
    fn free_old(self, part: Option<Part>) {
        let tile = Tile::<SLAB_TILE>::lockstep();
        let small = part.filter(|part| part.plan.old_buckets == 0);
        let link = small.map_or(Link::NONE, |part| {
            // SAFETY: the vertex is listed, so it exists.
            let record = unsafe { self.record(part.plan.vertex) };
            // mutation: block weak equivalent, because only the tile writes to the record, after it has freed
            // the slabs.
            Link::from_word(record.link().load(Order::Relaxed, Scope::Device))
        });
        // mutation: skip equivalent, because the vote in `free_chain` needs the link that each lane has read,
        // and no lane writes before it.
        tile.sync();
        self.free_chain(tile, link);
        let table = part.filter(|part| part.plan.old_buckets != 0);
        self.free_bucket(tile, table.map(|part| part.plan.old_base + part.bucket));
    }

    /// Blanks the share of a part of a new table that is not used. All lanes of the warp call it together.
    fn free_new(self, part: Option<Part>) {
        let tile = Tile::<SLAB_TILE>::lockstep();
        let (base, buckets, parts) =
            part.map_or((0, 0, 1), |part| (part.plan.base, part.plan.buckets, part.parts()));
        let mut bucket = part.map_or(0, |part| part.bucket);
        while tile.any_converged(bucket < buckets) {
            self.free_bucket(tile, (bucket < bound(buckets)).then_some(base + bucket));
            bucket += parts;
        }
    }

    /// Describes the new table, and adds the memory of the one that is not used to its list, by one lane per
    /// vertex, after its tile has blanked the first bucket of that table.
    fn finish(self, growth: Growth, part: Part, is_failed: bool) {
        let Part { index, plan, .. } = part;
        if is_failed {
            // mutation: skip tear performance, because the vertex only keeps its longer chains if no memory
            // is added. Insertions that find no room are counted by themselves.
            // mutation: block unreached, because no two blocks of the explorers give tables up.
            growth.add(GrowthWord::NotMoved, 1);
            // SAFETY: the new table, which nothing describes.
            return unsafe { self.arena().free(class_for(plan.buckets), plan.base) };
        }
        let moved = Plan::word(growth, index, MOVED).load(Order::Weak, Scope::Device);
        // SAFETY: the vertex is listed, so it exists.
        unsafe { self.record(plan.vertex) }.describe(plan.base, plan.buckets, moved);
        if plan.old_buckets != 0 {
            // SAFETY: the old table, which nothing describes any more.
            unsafe { self.arena().free(class_for(plan.old_buckets), plan.old_base) };
        }
    }
}

/// Returns the number of deferred insertions in a word of pressure, and resets it. By the calling lane alone.
#[device]
fn take_pressure(word: Global<u32>) -> u32 {
    // mutation: block weak equivalent, because only this lane writes to the word in the launch.
    let many = word.load(Order::Relaxed, Scope::Device).wrapping_add(1);
    if many != 0 {
        // mutation: block weak late equivalent, because only later launches read the word again.
        word.store(u32::MAX, Order::Relaxed, Scope::Device);
    }
    many
}

/// Plans the growth of the listed vertices, by all threads of the grid.
#[device]
pub(super) fn plan_all<M: Config>(graph: super::view::GraphView<M>, growth: Growth) {
    let (listed, mut index) = (growth.read(GrowthWord::Listed) as usize, Thread::index());
    while index < bound(listed as u32) as usize {
        M::plan(graph, growth, index as u32);
        index += Thread::count();
    }
}
