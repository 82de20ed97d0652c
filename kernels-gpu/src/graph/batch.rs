//! Batches of edges: what kernels take, and the two passes of insertions.
use super::kind::Config;
use super::link::Link;
use super::search::{Executed, Fate, Half};
use super::together::{Repeats, Together, together};
use super::view::GraphView;
use crate::graph::Edges;
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{self, CounterDelta, Operation, Outcome, Slot};
use crate::primitives::lookback::scan_lanes;
use crate::primitives::operator::Sum;
use crate::slab::Pool;
use simt::{BoundedSlice, GlobalSlice, Order, Scope, Thread, Tile, Word, bound, device};

/// Elements of a batch that changes edges.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Changes<D> {
    /// Sources, one per element; a count may bound the batch.
    pub sources: BoundedSlice<u32>,
    /// Targets.
    pub targets: GlobalSlice<u32>,
    /// Bits of the data of edges, or of the arguments by which they change; may be empty.
    pub data: GlobalSlice<D>,
    /// Output: an outcome per element, if wanted.
    pub outcomes: GlobalSlice<u8>,
    /// Number of consecutive elements per thread.
    pub each: u32,
}

/// Elements of a batch of lookups.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Lookups<D> {
    /// Sources, one per element; a count may bound the batch.
    pub sources: BoundedSlice<u32>,
    /// Targets.
    pub targets: GlobalSlice<u32>,
    /// Output: bits of the data of the edges that are present; not written if empty.
    pub data: GlobalSlice<D>,
    /// Output: `Found` or `Absent` per element, if wanted.
    pub outcomes: GlobalSlice<u8>,
}

/// Memory of a batch of insertions for the vertices that must grow.
///
/// The elements of the lists are in memory that the host has allocated for the largest number that a batch
/// can have: a deferred half per half, and a listed vertex per deferred half.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Growth {
    /// Counts: see [`GrowthWord`]. Those of a batch are 0 when it begins.
    pub words: GlobalSlice<u32>,
    /// Numbers of the deferred halves.
    pub deferred: GlobalSlice<u32>,
    /// Vertices that must grow.
    pub listed: GlobalSlice<u32>,
    /// [`PLAN_WORDS`] words for each listed vertex.
    pub plans: GlobalSlice<u32>,
    /// Groups of eight buckets of tables that are replaced: index of the plan (high half) and first bucket.
    pub groups: GlobalSlice<u64>,
    /// Load of new tables in tenths: [`GROWTH_LOAD`], or [`EXACT_LOAD`] if the number of edges is known, or
    /// another one. With [`EXACT`], tables of another size, or with tombstones, are replaced, also by smaller
    /// ones.
    pub load: u32,
}

/// Load of the tables of vertices that grow, in tenths.
pub const GROWTH_LOAD: u32 = 6;
/// Load of tables for known numbers of edges, in tenths.
pub const EXACT_LOAD: u32 = 7;

/// Bit of [`Growth::load`]: the number of edges is known.
pub const EXACT: u32 = 1 << 31;

/// Words of a plan: see `grow.rs`.
pub const PLAN_WORDS: usize = 8;

/// Number of [`Growth::words`].
pub const GROWTH_WORDS: usize = 8;

/// Number of the first words of [`Growth::words`], which are 0 when a batch begins. The others add up over
/// batches.
pub const BATCH_WORDS: usize = 4;

/// A word of [`Growth::words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum GrowthWord {
    /// Number of deferred halves of the batch.
    Deferred = 0,
    /// Number of listed vertices of the batch.
    Listed = 1,
    /// Number of groups of buckets of the batch.
    Groups = 2,
    /// Number of halves of the batch that were refused for lack of memory.
    Refused = 3,
    /// Number of halves for which the pool had no slab.
    NoSlab = 4,
    /// Number of halves whose chain had its maximum length.
    LongChain = 5,
    /// Number of slabs of tables for which the arena had no room.
    NoTable = 6,
    /// Number of tables that were not filled, because the pool had no slab.
    NotMoved = 7,
}

#[device]
impl Growth {
    /// Returns the number in a word that no thread of the launch writes.
    pub fn read(self, word: GrowthWord) -> u32 {
        self.words.read(word as usize)
    }

    /// Lists a vertex.
    pub(super) fn add_listed(self, vertex: u32) {
        let place = self.add(GrowthWord::Listed, 1);
        // mutation: late equivalent, because only later launches read the list.
        self.listed.write(place as usize, vertex);
    }

    /// Adds to a word, and returns the sum before.
    #[device(caller)]
    pub fn add(self, word: GrowthWord, many: u32) -> u32 {
        self.words.at(word as usize).fetch_add(many, Order::Relaxed, Scope::Device)
    }

    /// Adds the number of a warp's lanes with `vote` to a word. All lanes call it together.
    fn add_votes(self, word: GrowthWord, vote: bool) {
        let warp = Tile::<32>::lockstep();
        let votes = warp.ballot(vote);
        if votes != 0 && warp.rank() == 0 {
            // mutation: tear performance, because a lost addition leaves a number that is not 0: the host
            // adds less memory, and tries again.
            self.add(word, votes.count_ones());
        }
    }

    /// Appends deferred halves: those whose bits are set in `deferred`, of which bit 0 is that of the half
    /// `first`, modulo 2^32. All lanes of the warp call it together.
    fn append_deferred(self, first: u32, deferred: u32) {
        let warp = Tile::<32>::lockstep();
        if !warp.any(deferred != 0) {
            return;
        }
        let many = deferred.count_ones();
        let upto = scan_lanes::<Sum<u32>>(warp, many, 32);
        let begin = if warp.rank() == 31 { self.add(GrowthWord::Deferred, upto) } else { 0 };
        let (mut place, mut left) = (warp.shuffle(begin, 31) + upto - many, deferred);
        while left != 0 {
            // mutation: late equivalent, because only later launches read the list.
            self.deferred.write(place as usize, first.wrapping_add(left.trailing_zeros()));
            left &= left - 1;
            place += 1;
        }
    }
}

#[device]
impl<S: Slot<Key = u32>, P: Pool, const W: u32, const L: usize> GraphView<Edges<S, P, W, L>> {
    /// Adds `change` to the counts of the tables of the lanes' vertices, as often as `repeats` says. All
    /// lanes of the warp call it together.
    pub(super) fn count_in_tables(self, Repeats { vertex, many }: Repeats, change: u64) {
        if !Tile::<32>::lockstep().any(many != 0) {
            return;
        }
        let Together { is_leader, many } = together(vertex, many);
        if is_leader {
            // SAFETY: the vertex has a table, so it exists.
            let counts = unsafe { self.record(vertex) }.counts();
            counts.fetch_add(change.wrapping_mul(many as u64), Order::Relaxed, Scope::Device);
        }
    }

    /// Adds `many` to the number of deferred insertions of a vertex that exists. Returns whether it had none.
    /// By the calling lane alone.
    ///
    /// # Safety
    /// - The vertex exists.
    pub(super) unsafe fn add_pressure(self, vertex: u32, many: u32) -> bool {
        // SAFETY: the caller's obligation.
        let record = unsafe { self.record(vertex) };
        let link = record.link();
        // mutation: early equivalent, because a relaxed load may return an older word, too: the
        // compare-and-swap then fails and returns the newest one.
        let mut found = Link::from_word(link.load(Order::Relaxed, Scope::Device));
        if found == Link::NONE {
            let (none, new) = (found.to_word(), Link::with_deferred(many).to_word());
            match link.compare_exchange(none, new, Order::Relaxed, Scope::Device) {
                Ok(_) => return true,
                Err(other) => found = Link::from_word(other),
            }
        }
        let word = match found.slab() {
            // SAFETY: the handle was read in the link of a record.
            Some(slab) => Self::slab_pressure(unsafe { self.node(slab) }),
            None if found == Link::TABLE => record.pressure(),
            None => {
                // A count far below its maximum: no more lanes add to it than are resident.
                if found.deferred() < Link::MOST_DEFERRED / 2 {
                    // mutation: skip tear performance, because a smaller count only lets a smaller table be
                    // planned: the second pass inserts all deferred edges.
                    link.fetch_add(many, Order::Relaxed, Scope::Device);
                }
                return false;
            }
        };
        word.fetch_add(many, Order::Relaxed, Scope::Device) == u32::MAX
    }
}

/// A half of an element of a batch.
#[derive(Clone, Copy, Debug)]
struct Item {
    /// Index of the element.
    element: usize,
    /// Whether this is the half that determines the outcome.
    is_first: bool,
    /// Whether there is such a half.
    is_pending: bool,
}

/// Results of a lane's elements that are not written yet.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Changes of the number of edges.
    delta: CounterDelta,
    /// Changes of the counts of a table.
    in_tables: Repeats,
    /// Deferred halves of a vertex.
    deferred: Repeats,
}

/// A batch under execution.
#[derive(Clone, Copy)]
struct Run<M: Config, O> {
    graph: GraphView<M>,
    operation: O,
    edges: Changes<M::Data>,
    growth: Growth,
}

#[device]
impl<M: Config, O: Operation> Run<M, O> {
    /// Returns the half with this number in a batch of `len` elements.
    fn item(&self, number: usize, len: usize) -> Item {
        let halves = self.graph.halves();
        let (element, half) = if halves == 1 { (number, 0) } else { (number / 2, number % 2) };
        Item { element, is_first: half == 0, is_pending: element < len }
    }

    /// Reads a half. Returns `None` if it cannot exist.
    fn read(&self, item: Item) -> Option<Half<M::Data>> {
        let (flags, index) = (self.graph.flags(), item.element);
        let (source, target) = (self.edges.sources.words().read(index), self.edges.targets.read(index));
        let bits = read_if(self.edges.data, index, M::HAS_DATA && !self.edges.data.is_empty());
        let data = flags.encode(bits)?;
        let is_half = item.is_first || !flags.is_undirected();
        if source == target && !(flags.has_self_edges() && is_half) || !self.graph.has_both(source, target) {
            return None;
        }
        Some(self.graph.turned(Half { source, target, data }, item.is_first))
    }

    /// Executes a half of each lane of the warp. All lanes call it together. Returns whether it is deferred.
    fn execute<const DEFERS: bool>(&self, item: Item, found: &mut Progress) -> bool {
        let half = if item.is_pending { self.read(item) } else { None };
        let is_valid = half.is_some();
        let half = half.unwrap_or(Half { source: 0, target: 0, data: M::Data::narrow(0) });
        let Executed { fate, outcome, in_table, .. } =
            M::execute::<O, DEFERS>(self.graph, is_valid, self.operation, half);
        let is_change = matches!(outcome, Outcome::Inserted | Outcome::Removed);
        let due = found.in_tables.add(half.source, is_valid && in_table && is_change);
        M::count_in_tables(self.graph, due, Self::change());
        let is_deferred = DEFERS && is_valid && fate == Fate::Deferred;
        if DEFERS {
            self.press(found.deferred.add(half.source, is_deferred));
        }
        if !O::REMOVES {
            self.count_refused(fate);
        }
        if item.is_pending && item.is_first && fate != Fate::Deferred {
            let outcome = Self::outcome_of(outcome);
            if is_valid {
                found.delta.count(outcome);
            }
            // mutation: late equivalent, because nothing reads the output in the launch.
            write_if(self.edges.outcomes, item.element, outcome as u8);
        }
        is_deferred
    }

    /// Writes what the lanes of the warp still have to count. All lanes call it together.
    fn finish(&self, found: Progress) {
        M::count_in_tables(self.graph, found.in_tables, Self::change());
        self.press(found.deferred);
        // mutation: block tear unreached, because only warps that are 256 apart add to the same words:
        // launches of the explorers have fewer.
        self.graph.counters().record(found.delta);
    }

    /// Returns the addition to the counts of a table for a change.
    fn change() -> u64 {
        if O::REMOVES { REMOVED } else { INSERTED }
    }

    /// Returns an outcome as batches report it: an edge without data is found, not replaced.
    fn outcome_of(outcome: Outcome) -> Outcome {
        match outcome {
            Outcome::Replaced if !M::HAS_DATA => Outcome::Found,
            outcome => outcome,
        }
    }

    /// Counts the halves that were refused for lack of memory. All lanes of the warp call it together.
    fn count_refused(&self, fate: Fate) {
        let (no_slab, is_long) = (fate == Fate::NoSlab, fate == Fate::LongChain);
        if Tile::<32>::lockstep().any(no_slab || is_long) {
            self.growth.add_votes(GrowthWord::Refused, no_slab || is_long);
            self.growth.add_votes(GrowthWord::NoSlab, no_slab);
            self.growth.add_votes(GrowthWord::LongChain, is_long);
        }
    }

    /// Adds deferred halves to the pressure of their vertices, and lists those that had none. All lanes of
    /// the warp call it together.
    fn press(&self, Repeats { vertex, many }: Repeats) {
        if !Tile::<32>::lockstep().any(many != 0) {
            return;
        }
        let Together { is_leader, many } = together(vertex, many);
        // SAFETY: deferred insertions are those of vertices that exist.
        if is_leader && unsafe { M::add_pressure(self.graph, vertex, many) } {
            self.growth.add_listed(vertex);
        }
    }
}

/// Executes an operation for each element of a batch; the grid has a thread for each
/// [`each`](Changes::each) elements. If `DEFERS`, insertions for which a vertex must grow are deferred.
#[device]
pub(super) fn first_pass<M: Config, O: Operation, const DEFERS: bool>(
    graph: GraphView<M>,
    operation: O,
    edges: Changes<M::Data>,
    growth: Growth,
) {
    let len = edges.sources.resolve().len();
    let run = Run { graph, operation, edges, growth };
    let halves = edges.each as usize * graph.halves();
    let (first, mut half, mut deferred) = (Thread::index() * halves, 0, 0u32);
    let mut found = Progress::default();
    while half < bound(halves as u32) as usize {
        let is_deferred = run.execute::<DEFERS>(run.item(first + half, len), &mut found);
        deferred = deferred >> 1 | (is_deferred as u32) << 31;
        half += 1;
        if DEFERS && (half.is_multiple_of(32) || half == halves) {
            growth.append_deferred((first + half).wrapping_sub(32) as u32, deferred);
            deferred = 0;
        }
    }
    run.finish(found);
}

/// Executes the deferred insertions of a batch, by all threads of the grid.
#[device]
pub(super) fn second_pass<M: Config, O: Operation>(
    graph: GraphView<M>,
    operation: O,
    edges: Changes<M::Data>,
    growth: Growth,
) {
    let deferred = growth.read(GrowthWord::Deferred) as usize;
    if deferred == 0 {
        return;
    }
    let run = Run { graph, operation, edges, growth };
    let (mut index, mut found) = (Thread::index(), Progress::default());
    while index / 32 * 32 < deferred {
        let is_pending = index < bound(deferred as u32) as usize;
        let number = read_if(growth.deferred, index, is_pending) as usize;
        let item = run.item(number, usize::MAX);
        run.execute::<false>(Item { is_pending, ..item }, &mut found);
        index += Thread::count();
    }
    run.finish(found);
}

#[device]
impl<M: Config> GraphView<M> {
    /// Executes an operation on an edge of each lane of the warp that passes `pending`, on both halves if it
    /// is stored as two, and counts the changes. All lanes of the warp call it together. Data are bits,
    /// and so is what is returned.
    ///
    /// An insertion that finds no room is refused. If edges are stored as two halves, one may then be left,
    /// so the pool should have room for all. Insertions and removals of one edge with two halves must not run
    /// at the same time.
    pub fn apply<O: Operation>(self, pending: bool, operation: O, edge: Half<M::Data>) -> (Outcome, M::Data) {
        let (none, data) = (Half { source: 0, target: 0, data: edge.data }, self.flags().encode(edge.data));
        let is_loop = edge.source == edge.target;
        let is_valid = pending
            && data.is_some()
            && (self.flags().has_self_edges() || !is_loop)
            && self.has_both(edge.source, edge.target);
        let first = data.filter(|_| is_valid).map_or(none, |data| self.turned(Half { data, ..edge }, true));
        let executed = M::execute::<O, false>(self, is_valid, operation, first);
        self.count::<O>(first.source, is_valid, executed, true);
        if O::WRITES && self.halves() == 2 {
            let second = self.other_half(first);
            let is_valid = is_valid && !(is_loop && self.flags().is_undirected());
            let other = M::execute::<O, false>(self, is_valid, operation, second);
            self.count::<O>(second.source, is_valid, other, false);
            if is_valid && other.fate != Fate::Done {
                return (Outcome::Refused, edge.data);
            }
        }
        (executed.outcome, self.flags().decode(executed.data))
    }

    /// Returns the half of an edge that determines the outcome, or the other one.
    fn turned(self, edge: Half<M::Data>, is_first: bool) -> Half<M::Data> {
        let is_other = match self.flags().is_undirected() {
            true => (edge.source > edge.target) == is_first,
            false => !is_first,
        };
        if is_other { self.other_half(edge) } else { edge }
    }

    /// Counts a change of each lane of the warp: in the table of the vertex, if it has one, and in the number
    /// of edges, if this is the half that counts. All lanes call it together.
    fn count<O: Operation>(self, vertex: u32, is_valid: bool, executed: Executed<M::Data>, is_first: bool) {
        if !O::WRITES {
            return;
        }
        let is_inserted = is_valid && executed.outcome == Outcome::Inserted;
        let is_removed = is_valid && executed.outcome == Outcome::Removed;
        M::count_in_tables(self, Repeats::once(vertex, is_inserted && executed.in_table), INSERTED);
        M::count_in_tables(self, Repeats::once(vertex, is_removed && executed.in_table), REMOVED);
        let mut delta = CounterDelta::default();
        if is_first && is_valid {
            delta.count(executed.outcome);
        }
        self.counters().record(delta);
    }
}

/// Addition to the counts of a table for a new edge: one live edge, and one taken slot.
const INSERTED: u64 = 1 | 1 << 32;
/// Addition to the counts of a table for a removed edge.
pub(super) const REMOVED: u64 = u64::MAX;

/// Looks up the edge of a batch that the calling thread brings. The threads of a warp call it together.
#[device]
pub(super) fn look_up<M: Config, O: Operation>(graph: GraphView<M>, operation: O, batch: Lookups<M::Data>) {
    let sources = batch.sources.resolve();
    let index = Thread::index();
    let is_pending = index < sources.len();
    let (a, b) = (read_if(sources, index, is_pending), read_if(batch.targets, index, is_pending));
    let is_edge = is_pending && graph.has_both(a, b);
    let (source, target) = if graph.flags().is_undirected() && a > b { (b, a) } else { (a, b) };
    let half = Half { source, target, data: M::Data::narrow(0) };
    let executed = M::execute::<O, false>(graph, is_edge, operation, half);
    if is_pending {
        // mutation: late equivalent, because nothing reads the output in the launch.
        write_if(batch.outcomes, index, executed.outcome as u8);
        if O::RETURNS && M::HAS_DATA && executed.outcome == Outcome::Found {
            // mutation: late equivalent, because nothing reads the output in the launch.
            write_if(batch.data, index, graph.flags().decode(executed.data));
        }
    }
}

/// Makes the halves of the edges of a batch equal, a half per edge that was refused being erased. The grid
/// has a thread for each element. Ends at once unless edges have data, or a half was refused.
///
/// Nothing else changes the graph meanwhile. An edge of the batch whose halves are not both present was
/// refused, also where another element with this edge has already erased the other half.
#[device]
pub(super) fn repair<M: Config>(graph: GraphView<M>, edges: Changes<M::Data>, growth: Growth) {
    if !M::HAS_DATA && growth.read(GrowthWord::Refused) == 0 {
        return;
    }
    let len = edges.sources.resolve().len();
    let run = Run { graph, operation: keyed::Get, edges, growth };
    let item = run.item(Thread::index() * 2, len);
    let half = if item.is_pending { run.read(item) } else { None };
    let half = half.filter(|half| half.source != half.target || !graph.flags().is_undirected());
    let is_valid = half.is_some();
    let first = half.unwrap_or(Half { source: 0, target: 0, data: M::Data::narrow(0) });
    let second = graph.other_half(first);
    let one = M::execute::<_, false>(graph, is_valid, keyed::Get, first);
    let other = M::execute::<_, false>(graph, is_valid, keyed::Get, second);
    let (has_first, has_second) = (one.outcome == Outcome::Found, other.outcome == Outcome::Found);
    if M::HAS_DATA {
        let copy = Half { data: one.data, ..second };
        let is_due = has_first && has_second && one.data != other.data;
        M::execute::<_, false>(graph, is_due, keyed::Insert, copy);
    }
    let mut delta = CounterDelta::default();
    let is_single = is_valid && has_first != has_second;
    let single = if has_first { first } else { second };
    let erased = M::execute::<_, false>(graph, is_single, keyed::Remove, single);
    let is_erased = is_single && erased.outcome == Outcome::Removed;
    M::count_in_tables(graph, Repeats::once(single.source, is_erased && erased.in_table), REMOVED);
    delta.remove((is_erased && has_first) as u32);
    if is_valid && !(has_first && has_second) {
        // mutation: late equivalent, because nothing reads the output in the launch.
        write_if(edges.outcomes, item.element, Outcome::Refused as u8);
    }
    // mutation: block tear unreached, because only warps that are 256 apart add to the same words: launches
    // of the explorers have fewer.
    graph.counters().record(delta);
}
