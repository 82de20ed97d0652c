//! The walk of an operation on one key: down the layers and to the right by lock-free reads; at the data
//! layer a read, or changes under the node's latch. What splits have cut off is then raised, by the same
//! walk, to the layer above.
//!
//! A tile that has a latch does all that its own lanes still want of the node: where keys come in order,
//! neighbours want the same one.
use super::list::Nodes;
use super::policy::{Event, Policy};
use super::split::Raised;
use crate::btree::node::{Lead, Meta, Node, Read, handle_of};
use crate::btree::seek::is_settled;
use crate::btree::tree::{ANNEX, FIRST, ROOT, largest};
use crate::btree::walk::{self, DOUBLINGS, End, Held, Latched, SHORTEST};
use crate::keyed::{Change, Operation, Outcome, Question, Scalar, Slot};
use crate::slab::{Handle, Pool};
use simt::{Convergence, Order, Scope, Tile, Turn, fence};

/// Links of one layer that a walk follows before it begins again at the top, once: what led it there is old.
const LATERAL: u32 = 3;

/// The operation of one lane on its way through the list, as the work-sharing loop executes it.
///
/// The tile works on one operation until that is finished, so where it stands is kept in every lane.
pub struct Walk<S: Slot, P: Pool, A: Policy, O, const W: u32, const L: usize> {
    nodes: Nodes<S, P, A, W, L>,
    question: Question<S, O>,
    /// The node where the walk of the lane's own operation begins.
    start: Handle,
    /// The node that is next, or none: the walk begins.
    at: Handle,
    /// The index node that led to it, if that is known.
    parent: Handle,
    /// The zombie that led to it, or none.
    trail: Handle,
    /// The next node is latched and changed, not read.
    latches: bool,
    /// The layer where something is to be changed: 0, the data layer, by the operation; above it by an entry
    /// that is raised.
    layer: u32,
    /// The entry that is raised: from which key on, which node.
    raised: (S::Stored, Handle),
    /// Links that were followed in index layers.
    lateral: u32,
    /// Latches that others had.
    losses: u32,
    outcome: Outcome,
    value: S::Value,
}

/// What a tile has done under a data node's latch.
struct Deeds<S: Slot, const W: u32, const L: usize> {
    /// The ranks whose operations are finished.
    finished: u32,
    /// Pairs were removed.
    removed: bool,
    /// Where pairs stand in order: the latch is seen by those who see what is written from now on.
    has_shown_latch: bool,
    /// The node now.
    read: Read<S, W, L>,
}

/// What has become of a try to change a node.
struct Deed<S: Slot> {
    /// The latch was tried.
    acts: bool,
    /// And was had.
    has_latch: bool,
    /// The node is the one that was looked for.
    here: bool,
    /// What was looked for is below the node.
    below: bool,
    /// It was a data node without room.
    full: bool,
    /// It was to take an entry in.
    raises: bool,
    /// What is to be raised now, and whether anything was cut off.
    cut: Raised<S>,
}

impl<S: Slot, P: Pool, A: Policy, O: Operation, const W: u32, const L: usize> Walk<S, P, A, O, W, L> {
    /// A walk that begins.
    #[inline(always)]
    pub fn new(nodes: Nodes<S, P, A, W, L>, start: Handle, question: Question<S, O>) -> Self {
        let (value, none) = (question.argument, Handle::NONE);
        Self {
            nodes,
            question,
            start,
            at: none,
            parent: none,
            trail: none,
            latches: false,
            layer: 0,
            raised: (question.key, none),
            lateral: 0,
            losses: 0,
            outcome: Outcome::Absent,
            value,
        }
    }

    /// What has become of the lane's operation.
    #[inline(always)]
    pub fn result(self) -> (Outcome, S::Value) {
        (self.outcome, self.value)
    }

    /// One round of the operation whose turn it is: one node. Returns the ranks whose operations are
    /// finished; `waiting` are those whose are not.
    #[inline(always)]
    pub fn round<C: Convergence>(&mut self, turn: Turn<W, C>, waiting: u32) -> u32 {
        let (tile, question) = (turn.tile(), self.question.from_owner(turn));
        let writes = question.places() || (O::WRITES && question.operation.change() != Change::Keep);
        let start = turn.from_owner(self.start);
        if self.at.is_none() {
            self.at = start;
            self.latches = start == ANNEX && writes;
        }
        let looks = turn.is_active() && !self.latches;
        let mut acts = turn.is_active() && self.latches;
        let end = self.descend(tile, looks, writes, &question);
        if A::TOGETHER {
            acts = turn.is_active() && self.latches;
        }
        if end.done && turn.is_mine() {
            (self.outcome, self.value) = (end.outcome, end.value);
        }
        let own = waiting & waiting.wrapping_neg();
        let mut finished = if end.done { own } else { 0 };
        if O::WRITES && tile.any_converged(acts) {
            let written = self.write(tile.afresh(), acts, waiting, &question);
            finished |= if acts { written } else { 0 };
        }
        if finished & own != 0 {
            (self.at, self.parent, self.trail) = (Handle::NONE, Handle::NONE, Handle::NONE);
            (self.lateral, self.losses, self.layer) = (0, 0, 0);
        }
        finished
    }

    /// The key that the tile is on the way to.
    #[inline(always)]
    fn target(&self, question: &Question<S, O>) -> S::Stored {
        if O::WRITES && self.layer > 0 { self.raised.0 } else { question.key }
    }

    /// To the top.
    #[inline(always)]
    fn restart(&mut self) {
        (self.at, self.parent, self.trail, self.latches) = (ROOT, Handle::NONE, Handle::NONE, false);
    }

    /// Reads a node and goes on from it, where the tile `looks`.
    #[inline(always)]
    fn descend<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        looks: bool,
        writes: bool,
        question: &Question<S, O>,
    ) -> End<S::Value> {
        let (node, key) = (self.nodes.node(self.at), self.target(question));
        let read = node.read(tile.rank(), looks, A::READ);
        let lead = Lead::of(tile, &read, key);
        let is_data = lead.meta.is_leaf();
        let ends = looks && is_data && !lead.beyond && !writes;
        let mut end =
            End { done: ends && lead.found, outcome: question.operation.outcome(), value: lead.value };
        let passes = looks && is_data && lead.beyond;
        if tile.any_converged(passes || !self.trail.is_none()) {
            self.shorten(tile.afresh(), passes, &read);
        }
        if looks && !ends {
            self.count(tile, if lead.beyond { Event::Lateral } else { Event::Down });
            self.go_on(&lead, writes);
        }
        let misses = ends && !lead.found;
        if !A::LOOKS_AGAIN {
            let value = if misses { question.argument } else { end.value };
            end = End { done: ends, outcome: if misses { Outcome::Absent } else { end.outcome }, value };
        } else if tile.any_converged(misses) {
            let again = if A::SORTED {
                Self::look_at_settled(tile.afresh(), node, misses, question)
            } else {
                walk::Walk::<S, P, A, O, W, L>::look_again(self.nodes, tile.afresh(), node, misses, question)
            };
            end = if misses { again } else { end };
        }
        end
    }

    /// Believes a miss in a node whose pairs stand in order if nobody had its latch, and its version is the
    /// same, before its pairs were read and after; and if the key is then still the node's.
    #[inline(always)]
    fn look_at_settled<C: Convergence>(
        tile: Tile<W, C>,
        node: Node<S, W, L>,
        misses: bool,
        question: &Question<S, O>,
    ) -> End<S::Value> {
        let mut before = S::EMPTY;
        if misses {
            before = node.header().load(Order::Acquire, Scope::Device);
        }
        let read = node.read_rarely(tile.rank(), misses, A::PAIRS);
        tile.sync();
        let (mut now, mut tail) = (before, S::EMPTY);
        if misses && tile.rank() == 0 {
            tail = node.tail().load(A::TAIL, Scope::Device);
            now = node.header().load(Order::Relaxed, Scope::Device);
        }
        let settled = is_settled::<S, W, C>(tile, misses, before, now);
        let covered = question.key <= tile.shuffle(S::key(tail), 0);
        let hit = read.last(tile.rank(), |position, word| {
            position < Node::<S, W, L>::SLOTS && S::key(word) == question.key
        });
        let hits = tile.ballot(hit.exists);
        let value = tile.shuffle(S::value(hit.word), hits.trailing_zeros());
        let found = hits != 0;
        let outcome = if found { question.operation.outcome() } else { Outcome::Absent };
        let value = if found { value } else { question.argument };
        End { done: covered && settled, outcome, value }
    }

    /// Passes a data node. Where one zombie leads to another, the first is made to lead where the second
    /// does: so chains of them become short. Nobody else writes the tail of a zombie, and all that it ever
    /// was is true.
    #[inline(always)]
    fn shorten<C: Convergence>(&mut self, tile: Tile<W, C>, passes: bool, read: &Read<S, W, L>) {
        let (high, _) = read.tail(tile);
        let is_zombie = passes && high == S::Stored::from_u64(0);
        if passes {
            // What was moved from it is seen where it leads to.
            fence(Scope::Device);
        }
        tile.sync();
        if is_zombie && !self.trail.is_none() && tile.rank() == W - 1 {
            // By the lane that has read it, whose fence lies between: who follows this link sees what was
            // seen behind that one.
            let tail = read.words()[L - 1];
            self.nodes.node(self.trail).tail().store(tail, Order::Relaxed, Scope::Device);
        }
        self.trail = if is_zombie { self.at } else { Handle::NONE };
    }

    /// Counts what the tile has done, where the policy asks for it.
    #[inline(always)]
    fn count<C: Convergence>(&self, tile: Tile<W, C>, event: Event) {
        if A::COUNTS && tile.rank() == 0 {
            self.nodes.directory().counter(event as usize).fetch_add(1, Order::Relaxed, Scope::Device);
        }
    }

    /// Where to from a node that was read.
    #[inline(always)]
    fn go_on(&mut self, lead: &Lead<S>, writes: bool) {
        let level = lead.meta.level();
        if lead.beyond {
            self.at = handle_of(lead.value);
            self.lateral += !lead.meta.is_leaf() as u32;
            if self.lateral == LATERAL {
                self.lateral += 1;
                self.restart();
            }
        } else if O::WRITES && writes && level == self.layer {
            self.latches = true;
        } else if !lead.found || (O::WRITES && level < self.layer) {
            self.restart();
        } else if !lead.meta.is_leaf() {
            (self.parent, self.at) = (self.at, handle_of(lead.value));
            self.latches = writes && level == self.layer + 1;
        }
    }

    /// Takes the latch of the node where the tile stands and does there what is to be done, where the tile
    /// `acts`. Returns the ranks whose operations are finished.
    #[inline(always)]
    fn write<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        acts: bool,
        waiting: u32,
        question: &Question<S, O>,
    ) -> u32 {
        let key = self.target(question);
        let (held, has_latch) = self.nodes.hold(tile, self.at, acts);
        if A::COUNTS && acts {
            self.count(tile, Event::Attempt);
            if has_latch {
                self.count(tile, Event::Latch);
            }
        }
        let below = key < held.low;
        let here = has_latch && !below && key <= held.high && held.meta.level() == self.layer;
        let (on_data, raises) = (here && self.layer == 0, here && self.layer > 0);
        let deeds = self.act(tile, on_data, &held, waiting);
        let own = waiting & waiting.wrapping_neg();
        let finished = deeds.finished;
        let full = on_data && finished & own == 0;
        let mut level = held.meta.level();
        let removed = on_data && deeds.removed;
        let stays = !A::TOGETHER || full || raises || removed;
        if A::TOGETHER {
            Self::release(tile, has_latch && !stays, on_data, &held, level);
        }
        if tile.any_converged(removed) {
            self.nodes.thin_out(tile.afresh(), removed, &held, &deeds.read);
        }
        let mut cut = (self.raised, false);
        if tile.any_converged(full) {
            let pair = (question.key, S::pack(question.key, question.argument));
            let made = self.nodes.split_data(tile.afresh(), full, &held, pair);
            cut = if full { made } else { cut };
        }
        if tile.any_converged(raises) {
            let made = self.nodes.take_in(tile.afresh(), raises, &held, self.raised);
            level += (raises && made.1 && held.handle == ROOT) as u32;
            cut = if raises { made } else { cut };
        }
        Self::release(tile, has_latch && stays, on_data, &held, level);
        // A warp may otherwise execute the tiles that give way, and sleep, before those that give latches
        // back.
        tile.sync();
        let deed = Deed { acts, has_latch, here, below, full, raises, cut };
        finished | self.follow(tile, &held, own, key, &deed)
    }

    /// Where to from a node whose latch was tried. Returns the ranks whose operations are finished by what
    /// was made of it.
    #[inline(always)]
    fn follow<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        held: &Held<S, W, L>,
        own: u32,
        key: S::Stored,
        deed: &Deed<S>,
    ) -> u32 {
        let ((entry, made), full, raises) = (deed.cut, deed.full, deed.raises);
        if deed.acts && !deed.has_latch {
            self.lose();
        } else if deed.acts && !deed.here {
            self.pass(held, key, deed.below);
        } else if full && !made {
            return self.conclude(tile, own, Outcome::Refused);
        } else if full {
            self.conclude(tile, own, Outcome::Inserted);
            self.raise(entry, 1);
        } else if raises && made && held.handle != ROOT {
            // Who led here does not lead to the layer above.
            self.parent = Handle::NONE;
            self.raise(entry, held.meta.level() + 1);
        } else if raises {
            return own;
        }
        0
    }

    /// Gives a latch back, where the tile `gives`. The version of a data node goes up where it may have
    /// changed, and stays where the tile passes.
    #[inline(always)]
    fn release<C: Convergence>(
        tile: Tile<W, C>,
        gives: bool,
        on_data: bool,
        held: &Held<S, W, L>,
        level: u32,
    ) {
        tile.sync();
        if gives && tile.rank() == 0 {
            let passes = A::SORTED && held.meta.is_leaf() && !A::FORGETS_VERSIONS;
            let kept = if passes { held.meta.unlatched() } else { Meta::free(level) };
            let meta = if A::SORTED && on_data { held.meta.after() } else { kept };
            held.node.release_as(meta, A::GIVE);
        }
    }

    /// The operation whose turn it is has come to this; its value stays the argument.
    #[inline(always)]
    fn conclude<C: Convergence>(&mut self, tile: Tile<W, C>, own: u32, outcome: Outcome) -> u32 {
        if own >> tile.rank() & 1 != 0 {
            (self.outcome, self.value) = (outcome, self.question.argument);
        }
        own
    }

    /// From now on an entry is on its way to a layer.
    #[inline(always)]
    fn raise(&mut self, entry: (S::Stored, Handle), layer: u32) {
        (self.raised, self.layer) = (entry, layer);
        (self.losses, self.trail) = (0, Handle::NONE);
        if self.parent.is_none() {
            self.restart();
        } else {
            (self.at, self.parent, self.latches) = (self.parent, Handle::NONE, true);
        }
    }

    /// On from a node that was latched and is not the one that is looked for: to the right, to the top, or
    /// down from the root, which has grown.
    ///
    /// To the top goes an entry that is below the node: merges let the low keys of data nodes fall, also
    /// below that of the index node which leads to them; what is cut off such a one belongs into an index
    /// node further left.
    #[inline(always)]
    fn pass(&mut self, held: &Held<S, W, L>, key: S::Stored, below: bool) {
        self.trail = Handle::NONE;
        let is_beyond = key > held.high;
        let leads = if below { ROOT } else { self.at };
        self.at = if is_beyond { held.link } else { leads };
        self.latches = is_beyond && self.layer == 0;
    }

    /// Gives way to whom has the latch: walks again from the node before, where that is known, a little later
    /// each time.
    #[inline(always)]
    fn lose(&mut self) {
        if self.layer == 0 && !self.parent.is_none() {
            (self.at, self.parent, self.latches) = (self.parent, Handle::NONE, false);
        }
        self.losses += 1;
        simt::pause(SHORTEST << self.losses.min(DOUBLINGS));
    }

    /// Does what the tile's lanes want of a data node that the tile has latched, if `on_data`, as far as
    /// there is room.
    #[inline(always)]
    fn act<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        on_data: bool,
        held: &Held<S, W, L>,
        waiting: u32,
    ) -> Deeds<S, W, L> {
        let (own, rank) = (self.question, tile.rank());
        let belongs = held.low <= own.key && own.key <= held.high;
        let wants = waiting >> rank & 1 != 0 && belongs && (self.start == ANNEX) == (held.handle == ANNEX);
        let mut group = tile.ballot(on_data && wants);
        let mut deeds = Deeds { finished: 0, removed: false, has_shown_latch: false, read: held.read };
        while tile.any_converged(group != 0) {
            let turn = group.trailing_zeros() % W;
            let question = Question {
                operation: tile.shuffle(own.operation, turn),
                key: tile.shuffle(own.key, turn),
                argument: tile.shuffle(own.argument, turn),
            };
            let end = if A::SORTED {
                Self::change_sorted(tile, group != 0, held, &mut deeds, &question)
            } else {
                Self::change(tile, group != 0, held, &mut deeds, &question)
            };
            if end.done && rank == turn {
                (self.outcome, self.value) = (end.outcome, end.value);
            }
            deeds.finished |= if end.done { 1 << turn } else { 0 };
            group = if end.done { group & group.wrapping_sub(1) } else { 0 };
        }
        deeds
    }

    /// Orders the latch, which the tile has taken, before the pairs that it `moves`: once a latch.
    ///
    /// A node whose pairs stand in order is a sequence lock. A reader believes it if its header is the same
    /// before and after the pairs, so a reader that sees a moved pair must see the latch in the header as
    /// well. Taking the latch acquires, which orders it before nothing; the pairs are relaxed stores of all
    /// lanes. So each lane fences behind the barrier that follows the latch: its stores then release what the
    /// first lane did, and readers acquire by their loads of the pairs.
    #[inline(always)]
    fn show_latch<C: Convergence>(tile: Tile<W, C>, moves: bool, deeds: &mut Deeds<S, W, L>) {
        if tile.any_converged(moves && !deeds.has_shown_latch) {
            fence(Scope::Device);
            deeds.has_shown_latch = true;
        }
    }

    /// [`Self::change`] of a node whose pairs stand in order.
    #[inline(always)]
    fn change_sorted<C: Convergence>(
        tile: Tile<W, C>,
        wanted: bool,
        held: &Held<S, W, L>,
        deeds: &mut Deeds<S, W, L>,
        question: &Question<S, O>,
    ) -> End<S::Value> {
        let rank = tile.rank();
        let count = deeds.read.count(tile, |word| S::key(word) <= held.high);
        let gap = deeds.read.last(rank, |position, word| position < count && S::key(word) > held.high);
        Self::show_latch(tile, wanted && gap.exists, deeds);
        if tile.any_converged(wanted && gap.exists) {
            Nodes::<S, P, A, W, L>::close_gaps(tile.afresh(), wanted, held, &mut deeds.read, count);
        }
        let place = deeds.read.count(tile, |word| S::key(word) < question.key);
        let hit = deeds.read.last(rank, |position, word| position == place && S::key(word) == question.key);
        let (hits, places) = (tile.ballot(hit.exists), question.places());
        let (found, erases) = (hits != 0, question.operation.change() == Change::Erase);
        let mut value = question.argument;
        if wanted && hit.exists && !erases {
            value = question.change::<A>(held.node.word(place), hit.word, Order::Relaxed);
            deeds.read.put(rank, place, question.changed(hit.word));
        }
        let (removes, fits) = (wanted && found && erases, count < Node::<S, W, L>::SLOTS);
        let (puts, pair) = (wanted && !found && places && fits, S::pack(question.key, question.argument));
        Self::show_latch(tile, puts || removes, deeds);
        if !O::PLACES_ALWAYS {
            let ends = (place, count.wrapping_sub(1));
            Nodes::<S, P, A, W, L>::close(tile, removes, held.node, &mut deeds.read, ends);
        }
        Nodes::<S, P, A, W, L>::shift(tile, puts, held.node, &mut deeds.read, (place, count), pair);
        deeds.removed |= removes;
        let value = if O::RETURNS { tile.shuffle(value, hits.trailing_zeros()) } else { value };
        let absent = if places { Outcome::Inserted } else { Outcome::Absent };
        let outcome = if found { question.operation.outcome() } else { absent };
        let done = wanted && (found || !places || fits);
        End { done, outcome, value: if found { value } else { question.argument } }
    }

    /// One change of a data node that is latched, where it is `wanted`. It is done if there was room.
    #[inline(always)]
    fn change<C: Convergence>(
        tile: Tile<W, C>,
        wanted: bool,
        held: &Held<S, W, L>,
        deeds: &mut Deeds<S, W, L>,
        question: &Question<S, O>,
    ) -> End<S::Value> {
        let rank = tile.rank();
        let is_slot = |position| position < Node::<S, W, L>::SLOTS;
        let hit = deeds.read.last(rank, |position, word| is_slot(position) && S::key(word) == question.key);
        let free = deeds.read.last(rank, |position, word| is_slot(position) && S::key(word) > held.high);
        let (hits, frees) = (tile.ballot(hit.exists), tile.ballot(free.exists));
        let (found, places) = (hits != 0, question.places());
        let erases = question.operation.change() == Change::Erase;
        let actor = (if found { hits } else { frees }).trailing_zeros();
        let mut value = question.argument;
        if wanted && rank == actor && (found || places) {
            let picked = if found { hit } else { free };
            let place = held.node.word(picked.position);
            if found {
                value = question.change::<A>(place, picked.word, Order::Relaxed);
            } else {
                question.place::<A>(place, picked.word, Order::Relaxed);
            }
            let pair = S::pack(question.key, question.argument);
            let word = if found { question.changed(picked.word) } else { pair };
            deeds.read.put(rank, picked.position, word);
        }
        deeds.removed |= wanted && found && erases;
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        let absent = if places { Outcome::Inserted } else { Outcome::Absent };
        let outcome = if found { question.operation.outcome() } else { absent };
        let done = wanted && (found || !places || frees != 0);
        End { done, outcome, value: if found { value } else { question.argument } }
    }
}

/// Whether a data node may merge with the next: the first one is where the layer begins, the last has no
/// next.
#[inline(always)]
pub(super) fn may_merge<S: Slot>(handle: Handle, high: S::Stored) -> bool {
    handle != FIRST && handle != ANNEX && high != largest::<S>()
}
