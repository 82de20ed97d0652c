//! Growth of vertices between the two passes of a batch: plan, move and install. Each is a launch of its own,
//! beside no other operation on the graph.
//!
//! ```text
//! plan     | base | buckets | old base | old buckets | moved | failed | vertex | - |     8 words
//!
//! buckets 0: the vertex stays as it is; old buckets 0: it was small
//! ```
//!
//! The edges of a small vertex are moved by a tile of four lanes, and those of eight buckets of a table by
//! the eight tiles of a warp.
use super::batch::{EXACT, Growth, GrowthWord, PLAN_WORDS};
use super::chain::Chain;
use super::kind::{Config, Edges, slab_slots};
use super::link::Link;
use super::record::RECORD_SLOTS;
use super::table::{buckets_of, class_for, growth_class};
use super::view::{GraphView, SLAB_TILE};
use crate::keyed::{Scalar, Slot};
use crate::slab::Pool;
use crate::slab::list::Node;
use simt::{Global, Order, Scope, Thread, Tile, device};

/// Number of tiles of a warp, and of buckets in a group.
const GROUP: u32 = 32 / SLAB_TILE;

/// The new table of a listed vertex.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// First slab of the new table.
    base: u32,
    /// Number of its buckets, or 0 if the vertex stays as it is.
    buckets: u32,
    /// First slab of the old table.
    old_base: u32,
    /// Number of its buckets, or 0 if the vertex was small.
    old_buckets: u32,
    /// Number of edges that were moved.
    moved: u32,
    /// 1 if an edge found no room.
    failed: u32,
    /// The vertex.
    vertex: u32,
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
const MOVED: usize = 4;
/// Index of a plan's word `failed`.
const FAILED: usize = 5;

#[device]
impl Plan {
    /// Writes the plan of a listed vertex.
    fn write(self, growth: Growth, index: u32) {
        let words =
            [self.base, self.buckets, self.old_base, self.old_buckets, self.moved, self.failed, self.vertex];
        let mut word = 0;
        while word < words.len() {
            growth.plans.write(index as usize * PLAN_WORDS + word, words[word]);
            word += 1;
        }
    }

    /// Reads the plan of a listed vertex, except the words that the launch may change.
    fn read(growth: Growth, index: u32) -> Self {
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
    fn word(growth: Growth, index: u32, word: usize) -> Global<u32> {
        growth.plans.at(index as usize * PLAN_WORDS + word)
    }
}

/// The part of a vertex that a tile moves: its bucket `bucket`, or all edges of a small vertex.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Index of the plan.
    index: u32,
    plan: Plan,
    bucket: u32,
}

#[device]
impl Part {
    /// Returns the number of warps that move the listed vertices.
    fn warps(growth: Growth) -> u32 {
        growth.read(GrowthWord::Listed).div_ceil(GROUP) + growth.read(GrowthWord::Groups)
    }

    /// Returns the part of the calling tile in the `warp`-th share of the work, if it has one.
    fn of(growth: Growth, warp: u32) -> Option<Self> {
        let tile = Thread::lane() / SLAB_TILE;
        let listed = growth.read(GrowthWord::Listed);
        let small = listed.div_ceil(GROUP);
        let (index, bucket) = if warp < small {
            (warp * GROUP + tile, 0)
        } else {
            let group = growth.groups.read((warp - small) as usize);
            ((group >> 32) as u32, group as u32 + tile)
        };
        if index >= listed {
            return None;
        }
        let plan = Plan::read(growth, index);
        let is_own = if warp < small { plan.old_buckets == 0 } else { bucket < plan.old_buckets };
        (plan.buckets != 0 && is_own).then_some(Self { index, plan, bucket })
    }

    /// Returns the number of parts of the vertex.
    fn parts(self) -> u32 {
        if self.plan.old_buckets == 0 { 1 } else { self.plan.old_buckets }
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
            let first = growth.add(GrowthWord::Groups, groups);
            let mut group = 0;
            while group < groups {
                let word = (index as u64) << 32 | (group * GROUP) as u64;
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
                location.store(Link::NONE.to_word(), Order::Relaxed, Scope::Device);
                link.deferred()
            }
        };
        let slots = slab_slots::<S, L>();
        let wanted = self.count_live(vertex) as u64 + pressure as u64;
        if wanted > (RECORD_SLOTS + slots) as u64 {
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
                growth.add(GrowthWord::NoTable, buckets);
                Plan { vertex, ..Plan::default() }
            }
        }
    }

    /// Returns the number of edges of a small vertex, by the calling lane alone.
    pub(super) fn count_live(self, vertex: u32) -> u32 {
        let (mut chain, mut live) = (Chain::of_small(self, Some(vertex)), 0);
        while let Some(slot) = chain.slot(0) {
            live += S::is_live(slot.load(Order::Relaxed, Scope::Device)) as u32;
            chain.advance(1);
        }
        live
    }

    /// Moves the edges of a small vertex to the front, by the calling lane alone; blanks the slots behind
    /// them, and frees the slabs that become empty. Requires exclusive access to the vertex.
    pub(super) fn compact(self, vertex: u32) {
        let (mut from, mut to) = (Chain::of_small(self, Some(vertex)), Chain::of_small(self, Some(vertex)));
        while let Some(slot) = from.slot(0) {
            let word = slot.load(Order::Relaxed, Scope::Device);
            from.advance(1);
            if S::is_live(word) {
                // No further than the slot that was read.
                if let Some(place) = to.slot(0) {
                    place.store(word, Order::Relaxed, Scope::Device);
                }
                to.advance(1);
            }
        }
        to.cut();
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
                next = Link::from_word(node.link().load(Order::Relaxed, Scope::Device)).slab();
            }
            tile.sync();
            if let Some(handle) = at {
                // SAFETY: as above.
                Self::blank(tile, unsafe { self.node(handle) });
            }
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
        let link =
            node.map_or(Link::NONE, |node| Link::from_word(node.link().load(Order::Relaxed, Scope::Device)));
        tile.sync();
        if let Some(node) = node {
            Self::blank(tile, node);
        }
        self.free_chain(tile, link);
        tile.sync();
    }

    /// Moves the edges of vertices that get tables, by all threads of the grid.
    pub(super) fn move_edges(self, growth: Growth) {
        let (warps, mut warp) = (Part::warps(growth), (Thread::index() / 32) as u32);
        while warp < warps {
            self.move_part(growth, Part::of(growth, warp));
            warp += (Thread::count() / 32) as u32;
        }
    }

    /// Moves the edges of the calling tile's part, if it has one. All lanes of the warp call it together.
    fn move_part(self, growth: Growth, part: Option<Part>) {
        let tile = Tile::<SLAB_TILE>::lockstep();
        let mut chain = match part {
            Some(Part { plan, .. }) if plan.old_buckets == 0 => Chain::of_small(self, Some(plan.vertex)),
            // SAFETY: a bucket of the old table.
            Some(part) => unsafe { Chain::of_bucket(self, part.plan.old_base + part.bucket) },
            None => Chain::of_small(self, None),
        };
        let plan = part.map_or(Plan::default(), |part| part.plan);
        let (mut moved, mut failed) = (0, false);
        while tile.any_converged(chain.is_at_slot()) {
            let word = chain.slot(tile.rank()).map(|slot| slot.load(Order::Relaxed, Scope::Device));
            chain.advance(SLAB_TILE);
            let word = word.filter(|&word| S::is_live(word));
            let edge =
                word.map_or((0, S::Value::default()), |word| (S::key(word).to_u64() as u32, S::value(word)));
            // SAFETY: the plan has a table of the arena.
            let is_moved = unsafe { self.insert_moved(word.is_some(), (plan.base, plan.buckets), edge) };
            moved += (word.is_some() && is_moved) as u32;
            failed |= word.is_some() && !is_moved;
        }
        let (moved, failed) = (tile.reduce_add(moved), tile.any(failed));
        if let Some(part) = part.filter(|_| tile.rank() == 0) {
            Plan::word(growth, part.index, MOVED).fetch_add(moved, Order::Relaxed, Scope::Device);
            if failed {
                Plan::word(growth, part.index, FAILED).fetch_or(1, Order::Relaxed, Scope::Device);
            }
        }
    }

    /// Lets the records of the listed vertices describe their new tables, and frees the old memory, by all
    /// threads of the grid. Where an edge found no room, frees the new table instead.
    pub(super) fn install(self, growth: Growth) {
        let (warps, mut warp) = (Part::warps(growth), (Thread::index() / 32) as u32);
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
            Link::from_word(record.link().load(Order::Relaxed, Scope::Device))
        });
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
            self.free_bucket(tile, (bucket < buckets).then_some(base + bucket));
            bucket += parts;
        }
    }

    /// Describes the new table, and adds the memory of the one that is not used to its list, by one lane per
    /// vertex, after its tile has blanked the first bucket of that table.
    fn finish(self, growth: Growth, part: Part, is_failed: bool) {
        let Part { index, plan, .. } = part;
        if is_failed {
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
    let many = word.load(Order::Relaxed, Scope::Device).wrapping_add(1);
    if many != 0 {
        word.store(u32::MAX, Order::Relaxed, Scope::Device);
    }
    many
}

/// Plans the growth of the listed vertices, by all threads of the grid.
#[device]
pub(super) fn plan_all<M: Config>(graph: super::view::GraphView<M>, growth: Growth) {
    let (listed, mut index) = (growth.read(GrowthWord::Listed) as usize, Thread::index());
    while index < listed {
        M::plan(graph, growth, index as u32);
        index += Thread::count();
    }
}
