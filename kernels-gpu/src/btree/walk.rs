//! The walk of an operation on one key: down by lock-free reads, and at the leaf a read, or a change under
//! its latch.
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::history::Versions;
use super::node::{Lead, Meta, Node, Read, handle_of};
use super::split::Cut;
use super::tree::{ANNEX, ROOT, Tree, TreeView};
use crate::keyed::{Change, Operation, Outcome, Question, Slot};
use simt::{Convergence, Order, Scope, Thread, Tile, Turn};

/// How long who has lost a latch sleeps before it comes again, in nanoseconds, halved, and at least: twice as
/// long after each loss, up to 16 microseconds. Where many want one latch, each try delays the one who has
/// it, for all of them meet in one line of one slice of the cache.
pub(crate) const SHORTEST: u32 = 16;
/// How often it is doubled.
pub(crate) const DOUBLINGS: u32 = 9;

/// What a tile does at the node where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Reads it, and goes on.
    Descend,
    /// Latches it, a leaf, and changes it.
    Write,
    /// Latches it, an inner node that is full, and splits it.
    Split,
}

/// A node that the tile has latched and read again.
#[derive(Clone, Copy, Debug)]
pub struct Held<S: Slot, const W: u32, const L: usize> {
    /// Its name.
    pub handle: Handle,
    /// Where it is.
    pub node: Node<S, W, L>,
    /// What each lane has of it.
    pub read: Read<S, W, L>,
    /// Its lowest key.
    pub low: S::Stored,
    /// What it says of itself.
    pub meta: Meta,
    /// Its highest key.
    pub high: S::Stored,
    /// The node to its right.
    pub link: Handle,
}

/// Whether an operation has ended, and as what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<V> {
    pub(crate) done: bool,
    pub(crate) outcome: Outcome,
    pub(crate) value: V,
}

/// The operation of one lane on its way through the tree, as the work-sharing loop executes it.
///
/// The tile works on one operation until that is finished, so where it stands is kept in every lane.
pub struct Walk<S: Slot, P: Pool, A: Access, O, const W: u32, const L: usize> {
    pub(super) tree: TreeView<Tree<S, P, A, W, L>>,
    pub(super) question: Question<S, O>,
    /// The node where the walk of the lane's own operation begins.
    pub(super) start: Handle,
    /// The node that is next, or none: the walk begins.
    pub(super) at: Handle,
    /// The inner node that led to it, if that is known; where the walk is coupled, the tile has its latch.
    pub(super) parent: Handle,
    stage: Stage,
    /// Does not try again to split the node it stands at.
    passes: bool,
    /// The pool had no slab for an inner node.
    pub(super) starved: bool,
    /// Has met a full parent, and passes no full node any more until it has a place.
    insists: bool,
    /// Latches that others had.
    pub(super) losses: u32,
    outcome: Outcome,
    value: S::Value,
}

impl<S: Slot, P: Pool, A: Access, O: Operation, const W: u32, const L: usize> Walk<S, P, A, O, W, L> {
    /// A walk that begins.
    #[inline(always)]
    pub fn new(tree: TreeView<Tree<S, P, A, W, L>>, start: Handle, question: Question<S, O>) -> Self {
        let value = question.argument;
        Self {
            tree,
            question,
            start,
            at: Handle::NONE,
            parent: Handle::NONE,
            stage: Stage::Descend,
            passes: false,
            starved: false,
            insists: false,
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

    /// One round of the operation whose turn it is: down to where it ends or has to be written, and then the
    /// writing. Returns the ranks whose operations are finished by it: the one whose turn it was, and of
    /// those that are `waiting` the others that could be done under the same latch.
    ///
    /// The tiles of a warp go down together and write together, for a warp executes one after the other what
    /// its tiles are at. A tile that has lost a latch goes down again while its neighbours go down for their
    /// next operations.
    #[inline(always)]
    pub fn round<C: Convergence>(&mut self, turn: Turn<W, C>, waiting: u32) -> u32 {
        let own = waiting & waiting.wrapping_neg();
        if A::COUPLED {
            return if self.coupled_round(turn) { own } else { 0 };
        }
        let (tile, question) = (turn.tile(), self.question.from_owner(turn));
        let writes = question.places() || (O::WRITES && question.operation.change() != Change::Keep);
        let start = turn.from_owner(self.start);
        if self.at.is_none() {
            self.at = start;
            self.stage = if start == ANNEX && writes { Stage::Write } else { Stage::Descend };
        }
        let (mut done, mut outcome, mut value) = (!turn.is_active(), Outcome::Absent, question.argument);
        loop {
            let looks = !done && self.stage == Stage::Descend;
            if !tile.any_converged(looks) {
                break;
            }
            let seen = self.descend(tile, looks, writes, &question);
            done |= looks && seen.done;
            outcome = if looks { seen.outcome } else { outcome };
            value = if looks { seen.value } else { value };
        }
        let acts = !done;
        let (mut end, mut others) = (End { done, outcome, value }, 0);
        if O::WRITES && tile.any_converged(acts) {
            let (written, besides) = self.write(tile.afresh(), acts, waiting ^ own, &question);
            end = if acts { written } else { end };
            others = besides;
        }
        others | if self.finish(turn, end) { own } else { 0 }
    }

    /// Keeps what has become of an operation that is done, and makes ready for the next. Returns whether it
    /// is.
    #[inline(always)]
    pub(super) fn finish<C: Convergence>(&mut self, turn: Turn<W, C>, end: End<S::Value>) -> bool {
        if end.done {
            if turn.is_mine() {
                (self.outcome, self.value) = (end.outcome, end.value);
            }
            (self.at, self.parent) = (Handle::NONE, Handle::NONE);
            (self.passes, self.starved, self.insists, self.losses) = (false, false, false, 0);
        }
        end.done
    }

    /// To the root, from where full nodes can be split on the way.
    #[inline(always)]
    fn restart(&mut self) {
        (self.at, self.parent, self.stage) = (ROOT, Handle::NONE, Stage::Descend);
    }

    /// Back to the node that led here, whose own parent is then unknown.
    #[inline(always)]
    fn retreat(&mut self) {
        (self.at, self.parent, self.stage) = (self.parent, Handle::NONE, Stage::Descend);
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
        let node = self.tree.node(self.at);
        let read = node.read(tile.rank(), looks, A::READ);
        let lead = Lead::of(tile, &read, question.key);
        let full = O::WRITES && read.is_full(tile) && question.places();
        let ends = looks && lead.meta.is_leaf() && !lead.beyond && !writes;
        let mut end =
            End { done: ends && lead.found, outcome: question.operation.outcome(), value: lead.value };
        if looks && !ends {
            self.go_on(&lead, writes, full);
        }
        let misses = ends && (!lead.found || self.tree.doubts());
        if !A::LOOKS_AGAIN {
            let value = if misses { question.argument } else { end.value };
            end = End { done: ends, outcome: if misses { Outcome::Absent } else { end.outcome }, value };
        } else if tile.any_converged(misses) {
            let again = Self::look_again(self.tree, tile.afresh(), node, misses, question);
            end = if misses { again } else { end };
        }
        end
    }

    /// Where to from a node that was read.
    #[inline(always)]
    fn go_on(&mut self, lead: &Lead<S>, writes: bool, full: bool) {
        let knows_parent = self.at == ROOT || !self.parent.is_none();
        if lead.beyond {
            self.at = handle_of(lead.value);
        } else if lead.meta.is_leaf() {
            self.stage = if writes { Stage::Write } else { self.stage };
        } else if !lead.found {
            self.restart();
        } else if full && !self.passes && !self.starved {
            // Whoever has not come by the parent comes again that way: full nodes are split before what is
            // below them has to be.
            if knows_parent {
                self.stage = Stage::Split;
            } else {
                self.restart();
            }
        } else {
            (self.parent, self.at, self.passes) = (self.at, handle_of(lead.value), false);
            if writes && lead.meta.level() == 1 {
                self.stage = Stage::Write;
            }
        }
    }

    /// Believes a miss in a leaf if the leaf still has the key among its own *after* its pairs were read; for
    /// a split may have taken the key away, and another pair its slot, since the leaf's high key was read.
    ///
    /// Where there are versions, it is asked of the one of the tree's moment.
    #[inline(always)]
    pub(crate) fn look_again<C: Convergence>(
        tree: TreeView<Tree<S, P, A, W, L>>,
        tile: Tile<W, C>,
        node: Node<S, W, L>,
        misses: bool,
        question: &Question<S, O>,
    ) -> End<S::Value> {
        let mut read = node.read_rarely(tile.rank(), misses, A::PAIRS);
        let tail = if misses { node.tail().load(A::TAIL, Scope::Device) } else { S::EMPTY };
        let mut covered = tile.all(question.key <= S::key(tail));
        if A::Versions::KEEPS {
            let (then, is_leaf) = tree.as_of(tile, node, misses && covered, read);
            (read, covered) = (then, covered && is_leaf);
        }
        let hit = read.last(tile.rank(), |position, word| {
            position < Node::<S, W, L>::SLOTS && S::key(word) == question.key
        });
        let hits = tile.ballot(hit.exists);
        let value = tile.shuffle(S::value(hit.word), hits.trailing_zeros());
        if hits == 0 {
            return End { done: covered, outcome: Outcome::Absent, value: question.argument };
        }
        End { done: covered, outcome: question.operation.outcome(), value }
    }

    /// Takes the latch of the node where the tile stands and does there what is to be done, where the tile
    /// `acts`. Gives too which of the `others`' operations are done besides.
    #[inline(always)]
    fn write<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        acts: bool,
        others: u32,
        question: &Question<S, O>,
    ) -> (End<S::Value>, u32) {
        let (mut held, has_latch) = self.tree.hold(tile, self.at, acts);
        let here = has_latch && question.key <= held.high;
        let on_leaf = here && self.stage == Stage::Write && held.meta.is_leaf();
        let (mut end, full_leaf) = self.act(tile, on_leaf, &mut held, question);
        let others = if A::GROUPS { self.act_for(tile, on_leaf && !full_leaf, others, &mut held) } else { 0 };
        let full_inner = held.read.is_full(tile);
        let full_inner = here && self.stage == Stage::Split && !held.meta.is_leaf() && full_inner;
        let (splits, mut cut) = (full_leaf || full_inner, Cut::Lost);
        tile.sync();
        if has_latch && !splits && tile.rank() == 0 {
            held.node.release(held.meta.level(), A::GIVE);
        }
        if tile.any_converged(splits) {
            let pair = full_leaf.then(|| (question.key, S::pack(question.key, question.argument)));
            cut = self.tree.split(tile.afresh(), splits, &held, self.parent, pair);
        }
        // A warp may otherwise execute the tiles that give way, and sleep, before those that give latches
        // back.
        tile.sync();
        if acts && !has_latch {
            self.lose();
        } else if acts && !here {
            self.at = held.link;
            self.stage = if self.stage == Stage::Split { Stage::Descend } else { self.stage };
        } else if full_leaf {
            let outcome = self.after_leaf(cut);
            end = End {
                done: outcome.is_some(),
                outcome: outcome.unwrap_or(Outcome::Absent),
                value: end.value,
            };
        } else if acts && !on_leaf {
            self.stage = Stage::Descend;
            if full_inner {
                self.after_inner(cut);
            }
        }
        (end, others)
    }

    /// Does in a leaf that the tile has latched, if `on_leaf`, what the `others` of its lanes want there, as
    /// far as there is room. Gives which of them are done.
    #[inline(always)]
    fn act_for<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        on_leaf: bool,
        others: u32,
        held: &mut Held<S, W, L>,
    ) -> u32 {
        let (own, rank) = (self.question, tile.rank());
        let belongs = held.low <= own.key && own.key <= held.high;
        let wants = others >> rank & 1 != 0 && belongs && (self.start == ANNEX) == (held.handle == ANNEX);
        let (mut group, mut finished) = (tile.ballot(on_leaf && wants), 0);
        while tile.any_converged(group != 0) {
            let turn = group.trailing_zeros() % W;
            let question = Question {
                operation: tile.shuffle(own.operation, turn),
                key: tile.shuffle(own.key, turn),
                argument: tile.shuffle(own.argument, turn),
            };
            let (end, _) = self.act(tile, group != 0, held, &question);
            if end.done && rank == turn {
                (self.outcome, self.value) = (end.outcome, end.value);
            }
            finished |= if end.done { 1 << turn } else { 0 };
            group = if end.done { group & group.wrapping_sub(1) } else { 0 };
        }
        finished
    }

    /// What follows when a leaf was to be split: the operation's end, or another try.
    #[inline(always)]
    pub(super) fn after_leaf(&mut self, cut: Cut) -> Option<Outcome> {
        match cut {
            Cut::Done => return Some(Outcome::Inserted),
            Cut::Starved => return Some(Outcome::Refused),
            Cut::Crowded if self.starved => return Some(Outcome::Refused),
            Cut::Crowded => {
                self.insists = true;
                self.restart();
            }
            Cut::Lost => self.give_way(),
        }
        None
    }

    /// What follows when an inner node was to be split: it is read again, and passed unless it must be split.
    ///
    /// Who passes it may come to its latch from below, find it full, and so keep off who would split it: two
    /// that take turns at that could go on for ever. So whoever has been there once insists.
    #[inline(always)]
    fn after_inner(&mut self, cut: Cut) {
        self.starved |= cut == Cut::Starved;
        self.passes = cut != Cut::Done && !self.insists;
        // From the root: the parent may be another one by now.
        match cut {
            Cut::Lost if self.insists => {
                self.restart();
                self.rest();
            }
            Cut::Crowded if self.insists => self.restart(),
            _ => {}
        }
    }

    /// What follows when another has the latch. Somebody splits an inner node already, or adds to it: there
    /// may be no need to.
    #[inline(always)]
    fn lose(&mut self) {
        if self.stage == Stage::Split && !self.insists {
            (self.stage, self.passes) = (Stage::Descend, true);
        } else {
            self.give_way();
        }
    }

    /// Gives way to whom has a latch: not by waiting for it, but by walking again from the node before, a
    /// little later each time.
    #[inline(always)]
    fn give_way(&mut self) {
        self.retreat();
        self.rest();
    }

    /// Sleeps, twice as long each time, and not as long as others: who loses to each other must not come back
    /// in step.
    #[inline(always)]
    pub(super) fn rest(&mut self) {
        self.losses += 1;
        let own = Thread::index() as u32 / W % SHORTEST;
        simt::pause((SHORTEST + own) << self.losses.min(DOUBLINGS));
    }

    /// Changes a leaf that the tile has latched, if `on_leaf`. Returns what has become of the operation, and
    /// whether the leaf lacks room for it.
    #[inline(always)]
    pub(super) fn act<C: Convergence>(
        &self,
        tile: Tile<W, C>,
        on_leaf: bool,
        held: &mut Held<S, W, L>,
        question: &Question<S, O>,
    ) -> (End<S::Value>, bool) {
        let (read, rank) = (held.read, tile.rank());
        let is_slot = |position| position < Node::<S, W, L>::SLOTS;
        let hit = read.last(rank, |position, word| is_slot(position) && S::key(word) == question.key);
        let free = read.last(rank, |position, word| is_slot(position) && S::key(word) > held.high);
        let (hits, frees) = (tile.ballot(hit.exists), tile.ballot(free.exists));
        let (found, places) = (hits != 0, question.places());
        let actor = (if found { hits } else { frees }).trailing_zeros();
        let mut value = question.argument;
        let changes = if found { question.operation.change() != Change::Keep } else { places && frees != 0 };
        let kept = self.tree.keep(tile, on_leaf && changes, held.node, &read);
        let refused = A::Versions::KEEPS && on_leaf && changes && !kept.ready;
        if on_leaf && rank == actor && (found || places) && !refused {
            let picked = if found { hit } else { free };
            let (place, order) = (held.node.word(picked.position), self.tree.pair_order());
            if found {
                value = question.change::<A>(place, picked.word, order);
            } else {
                question.place::<A>(place, picked.word, order);
            }
            if A::GROUPS {
                let placed = S::pack(question.key, question.argument);
                held.read.put(
                    rank,
                    picked.position,
                    if found { question.changed(picked.word) } else { placed },
                );
            }
        }
        self.tree.date(tile, &kept, held.node, Handle::NONE);
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        let absent = if places { Outcome::Inserted } else { Outcome::Absent };
        let outcome = if found { question.operation.outcome() } else { absent };
        let outcome = if refused { Outcome::Refused } else { outcome };
        let done = on_leaf && (found || !places || frees != 0);
        let value = if found { value } else { question.argument };
        (End { done, outcome, value }, on_leaf && !done)
    }
}

/// What is done to a slot under its leaf's latch.
pub(crate) trait Latched<S: Slot> {
    /// Changes the pair in a slot that holds `word`, by one update of that order at least. Returns the value
    /// that was there; from a removal the argument.
    fn change<A: Access>(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order) -> S::Value;

    /// Places the pair in a slot that is free and holds `word`.
    fn place<A: Access>(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order);
}

/// Writes a word over `before`, which stands there and which nobody else changes, for the slot's latch is
/// held. An update, and no store: whoever reads it by an acquiring load synchronizes with the last releasing
/// store to the slot all the same.
#[inline(always)]
fn overwrite<A: Access, T: simt::Word>(slot: simt::Global<T>, before: T, after: T, order: Order) {
    if A::CHAINS {
        let found = slot.compare_exchange(before, after, order, Scope::Device);
        debug_assert!(found.is_ok(), "the latch is held");
    } else {
        slot.store(after, order, Scope::Device);
    }
}

impl<S: Slot, O: Operation> Latched<S> for Question<S, O> {
    #[inline(always)]
    fn change<A: Access>(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order) -> S::Value {
        let change = self.operation.change();
        if change != Change::Keep {
            overwrite::<A, _>(slot, word, self.changed(word), order);
        }
        if change == Change::Erase { self.argument } else { S::value(word) }
    }

    /// Where a pair that a split has moved is overwritten, who sees the new one must see the link to where
    /// the old one is now: so that store releases.
    #[inline(always)]
    fn place<A: Access>(&self, slot: simt::Global<S::Word>, word: S::Word, order: Order) {
        let pair = S::pack(self.key, self.argument);
        if S::key(word) == S::key(S::EMPTY) {
            overwrite::<A, _>(slot, word, pair, order);
        } else {
            slot.store(pair, Order::Release, Scope::Device);
        }
    }
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// Tries the latch of a node for the tile, where `wanted`, and reads the node under it. Returns whether
    /// the tile has it.
    #[inline(always)]
    pub(crate) fn hold<C: Convergence>(
        self,
        tile: Tile<W, C>,
        handle: Handle,
        wanted: bool,
    ) -> (Held<S, W, L>, bool) {
        let node = self.node(handle);
        let mut got = false;
        if wanted && tile.rank() == 0 {
            got = node.try_latch(A::TAKE);
        }
        let has_latch = tile.any(got);
        // A vote orders no memory: this makes what one lane has acquired known to all.
        tile.sync();
        (self.held(tile, handle, has_latch), has_latch)
    }

    /// Reads a node that the tile has the latch of, where it has.
    #[inline(always)]
    pub(super) fn held<C: Convergence>(
        self,
        tile: Tile<W, C>,
        handle: Handle,
        has_latch: bool,
    ) -> Held<S, W, L> {
        let node = self.node(handle);
        let read = node.read_latched(tile.rank(), has_latch);
        let ((low, meta), (high, link)) = (read.header(tile), read.tail(tile));
        Held { handle, node, read, low, meta, high, link }
    }
}
