//! The traversal of an operation on one key: down the layers and to the right by lock-free reads; at the data
//! layer a read, or changes under the node's latch. If a node was split, the same traversal then raises the
//! new node's entry to the layer above.
//!
//! A tile that holds a latch executes all pending operations of its lanes on that node: where keys come in
//! order, neighbouring lanes want the same node.
use super::policy::{Event, Policy};
use super::split::{IndexEntry, choose_entry};
use crate::keyed::{Change, Lane, Operation, Outcome, Request, Scalar, Slot};
use crate::ordered::access::Access;
use crate::ordered::backoff::back_off;
use crate::ordered::fixed_nodes::{FIRST_LEAF, RESERVED_LEAF, ROOT, largest};
use crate::ordered::latch::LatchedNode;
use crate::ordered::leaf::{OperationResult, write_slot};
use crate::ordered::meta::{Meta, handle_of};
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::search::SearchStep;
use crate::ordered::share::{Attempt, LOSSES_BEFORE_SHARING};
use crate::ordered::types::{Stored, Types, Value};
use crate::slab::Handle;
use simt::{Convergence, CurrentOp, Order, Scope, Tile, device, fence, recheck};

/// Number of links in index layers that a traversal follows before it restarts at the top, once per
/// operation: the entries that led it there are old.
const LATERAL: u32 = 3;

/// Maximum number of doublings of a pause: about 2 µs. Of 3 to 11, 3 is the best by 2 % for random keys in an
/// empty list, and 7 by a third for zigzag insertions, where all tiles want two nodes.
const MOST_DOUBLINGS: u32 = 7;

/// Next action of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Read the current node and go on from it.
    Descend,
    /// Latch it and change it: see [`Walk::layer`].
    Write,
    /// Share it, a data node, and change a value in it.
    Share,
}

/// The operation of one lane on its way through the list, as the work-sharing loop executes it.
///
/// The tile works on one operation until that is finished, so every lane holds its position.
pub struct Walk<T: Types<Access: Policy>, O, const W: u32, const L: usize> {
    nodes: Nodes<T, W, L>,
    request: Request<T::Slot, O>,
    /// The node where the traversal of the lane's own operation begins.
    start: Handle,
    stage: Stage,
    /// The next node, or none before the traversal begins.
    at: Handle,
    /// The index node that led to it, if known.
    parent: Handle,
    /// The zombie that led to it, or none.
    previous_zombie: Handle,
    /// The layer of the pending change: 0, the data layer, by the operation; above it by an entry that is
    /// raised.
    layer: u32,
    /// The entry that is raised: the low key of a node, and the node.
    index_entry: (Stored<T>, Handle),
    /// Number of links followed in index layers.
    lateral: u32,
    /// Number of failed latch attempts.
    losses: u32,
    result: (Outcome, Value<T>),
}

/// Result of changes under a data node's latch.
struct UpdateResult<S: Slot, const W: u32, const L: usize> {
    /// Ranks whose operations are finished.
    finished: u32,
    /// Whether pairs were removed.
    removed: bool,
    /// In a node with sorted pairs: whether a reader that sees words written from now on also sees the latch.
    has_shown_latch: bool,
    /// The node's current content.
    read: Lane<S, L>,
}

/// Result of an attempt to change a node.
struct LatchAttempt<S: Slot> {
    /// Whether the latch was tried.
    acts: bool,
    /// Whether it was taken.
    has_latch: bool,
    /// Whether the node is the one that was looked for.
    here: bool,
    /// Whether the key that was looked for is below the node's.
    below: bool,
    /// Whether it is a data node without a free slot.
    full: bool,
    /// Whether an entry was to be inserted into it.
    raises: bool,
    /// The entry to raise now, and whether a new node was made.
    cut: IndexEntry<S>,
}

#[device]
impl<T: Types<Access: Policy>, O: Operation, const W: u32, const L: usize> Walk<T, O, W, L> {
    /// Starts a traversal.
    pub fn new(nodes: Nodes<T, W, L>, start: Handle, request: Request<T::Slot, O>) -> Self {
        let none = Handle::NONE;
        Self {
            nodes,
            request,
            start,
            stage: Stage::Descend,
            at: none,
            parent: none,
            previous_zombie: none,
            layer: 0,
            index_entry: (request.key, none),
            lateral: 0,
            losses: 0,
            result: (Outcome::Absent, request.argument),
        }
    }

    /// Returns the result of the lane's operation.
    pub fn result(self) -> (Outcome, Value<T>) {
        self.result
    }

    /// Executes one round of the current operation: one node. Returns the ranks whose operations are
    /// finished; `waiting` are those with unfinished ones.
    pub fn round(&mut self, turn: CurrentOp<W, impl Convergence>, waiting: u32) -> u32 {
        let (tile, request) = (turn.tile(), self.request.from_owner(turn));
        let writes = request.places() || (O::WRITES && request.operation.change() != Change::Keep);
        let start = turn.from_owner(self.start);
        if self.at.is_none() {
            self.at = start;
            self.stage = if start == RESERVED_LEAF && writes { Stage::Write } else { Stage::Descend };
        }
        let looks = turn.is_active() && self.stage == Stage::Descend;
        let mut acts = turn.is_active() && self.stage != Stage::Descend;
        let end = self.descend(tile, looks, writes, &request);
        if T::Access::TOGETHER {
            acts = turn.is_active() && self.stage != Stage::Descend;
        }
        if end.done && turn.is_mine() {
            self.result = (end.outcome, end.value);
        }
        let own = waiting & waiting.wrapping_neg();
        let mut finished = if end.done { own } else { 0 };
        if O::WRITES && tile.any_converged(acts) {
            let (mut holds, shares) = (false, acts && self.stage == Stage::Share);
            if T::Access::SHARES && tile.any_converged(shares) {
                let (done, closed) = self.share(tile.rematerialize(), shares, turn.is_mine(), &request);
                finished |= if done { own } else { 0 };
                holds = closed;
            }
            let acts = acts && (!shares || holds);
            let written = self.write(tile.rematerialize(), acts, holds, waiting, &request);
            finished |= if acts { written } else { 0 };
        }
        if finished & own != 0 {
            (self.at, self.parent, self.previous_zombie) = (Handle::NONE, Handle::NONE, Handle::NONE);
            (self.lateral, self.losses, self.layer) = (0, 0, 0);
        }
        finished
    }

    /// Returns the key that the tile is looking for.
    fn target(&self, request: &Request<T::Slot, O>) -> Stored<T> {
        if O::WRITES && self.layer > 0 { self.index_entry.0 } else { request.key }
    }

    /// Restarts at the top.
    fn restart(&mut self) {
        (self.at, self.stage) = (ROOT, Stage::Descend);
        (self.parent, self.previous_zombie) = (Handle::NONE, Handle::NONE);
    }

    /// Reads a node and goes on from it, if `looks`.
    fn descend(
        &mut self,
        tile: Tile<W, impl Convergence>,
        looks: bool,
        writes: bool,
        request: &Request<T::Slot, O>,
    ) -> OperationResult<Value<T>> {
        let (node, key) = (self.nodes.node(self.at), self.target(request));
        let read = node.read(tile.rank(), looks, T::Access::READ);
        let step = SearchStep::of(tile, &read, key);
        let is_data = step.meta.is_leaf();
        let ends = looks && is_data && !step.beyond && !writes;
        let passes = looks && is_data && step.beyond;
        if tile.any_converged(passes || !self.previous_zombie.is_none()) {
            self.shorten(tile.rematerialize(), passes, &read);
        }
        let hit = request.hit(ends, &step);
        if looks && !ends {
            self.count(tile, if step.beyond { Event::Lateral } else { Event::Down });
            self.follow(&step, writes);
        }
        self.nodes.look_up(tile, node, ends, hit, request)
    }

    /// Passes a data node. If one zombie leads to another, the first is linked to the second's target, so
    /// chains of zombies become short. The tail of a zombie is written nowhere else, and every value that it
    /// ever had is valid.
    fn shorten(&mut self, tile: Tile<W, impl Convergence>, passes: bool, read: &Lane<T::Slot, L>) {
        let (high, _) = read.tail(tile);
        let is_zombie = passes && high == Stored::<T>::from_u64(0);
        if passes {
            // The pairs that were moved from it must be visible where it leads.
            fence(Scope::Device);
        }
        tile.sync();
        if is_zombie && !self.previous_zombie.is_none() && tile.rank() == W - 1 {
            // Stored by the lane that has read the tail; that lane's fence lies between. A reader that
            // follows this link sees everything visible behind the other.
            let tail = read.words()[L - 1];
            // mutation: skip late store performance, because it only makes a chain of zombies shorter, and
            // every value that the tail ever had is valid.
            self.nodes.node(self.previous_zombie).tail().store(tail, Order::Relaxed, Scope::Device);
        }
        self.previous_zombie = if is_zombie { self.at } else { Handle::NONE };
    }

    /// Counts an event of the tile, if the policy counts.
    fn count(&self, tile: Tile<W, impl Convergence>, event: Event) {
        if T::Access::COUNTS && tile.rank() == 0 {
            // mutation: tear skip unreached, because explorers do not read the counters of events.
            self.nodes.directory.counter(event as usize).fetch_add(1, Order::Relaxed, Scope::Device);
        }
    }

    /// Chooses the next node from a node that was read.
    fn follow(&mut self, step: &SearchStep<T::Slot>, writes: bool) {
        let level = step.meta.level();
        if step.beyond {
            self.at = handle_of(step.value);
            self.lateral += !step.meta.is_leaf() as u32;
            if self.lateral == LATERAL {
                self.lateral += 1;
                self.restart();
            }
        } else if O::WRITES && writes && level == self.layer {
            self.stage = Stage::Write;
        } else if !step.found || (O::WRITES && level < self.layer) {
            self.restart();
        } else if !step.meta.is_leaf() {
            (self.parent, self.at) = (self.at, handle_of(step.value));
            if writes && level == self.layer + 1 {
                self.stage = Stage::Write;
            }
        }
    }

    /// Executes the operation on the current node as a sharer, if the tile `shares` it, or goes to the next
    /// node if the key is beyond this one. Returns whether the operation is done, and whether the tile holds
    /// the node alone now.
    fn share(
        &mut self,
        tile: Tile<W, impl Convergence>,
        shares: bool,
        is_mine: bool,
        request: &Request<T::Slot, O>,
    ) -> (bool, bool) {
        let (end, holds, next) = self.nodes.share_leaf(tile, self.at, shares, request);
        if end.done && is_mine {
            self.result = (end.outcome, end.value);
        }
        if shares {
            self.stage = Stage::Write;
            if !next.is_none() {
                (self.at, self.previous_zombie) = (next, Handle::NONE);
            } else if !end.done && !holds {
                self.back_off();
            }
        }
        (end.done, holds)
    }

    /// Tries the latch of the current node, unless the tile `holds` it, and executes the pending changes
    /// under it, if the tile `acts`. Returns the ranks whose operations are finished.
    fn write(
        &mut self,
        tile: Tile<W, impl Convergence>,
        acts: bool,
        holds: bool,
        waiting: u32,
        request: &Request<T::Slot, O>,
    ) -> u32 {
        let key = self.target(request);
        let Attempt { held, has_latch, is_shared } = self.nodes.try_hold(tile, self.at, acts, holds);
        if T::Access::COUNTS && acts {
            self.count(tile, Event::Attempt);
            if has_latch {
                self.count(tile, Event::Latch);
            }
        }
        if is_shared {
            self.stage = Stage::Share;
        }
        let below = key < held.low;
        let (covers, in_layer) = (recheck(key <= held.high), recheck(held.meta.level() == self.layer));
        let here = has_latch && recheck(!below) && covers && in_layer;
        let (on_data, raises) = (here && self.layer == 0, here && self.layer > 0);
        let update = self.update_node(tile, on_data, &held, waiting);
        let own = waiting & waiting.wrapping_neg();
        let finished = update.finished;
        let full = on_data && finished & own == 0;
        let mut raised = 0;
        let removed = on_data && update.removed;
        let stays = !T::Access::TOGETHER || full || raises || removed;
        if T::Access::TOGETHER {
            self.release(tile, has_latch && !stays, on_data, &held, (0, own));
        }
        if tile.any_converged(removed) {
            self.nodes.thin_out(tile.rematerialize(), removed, &held, &update.read);
        }
        let mut cut = (self.index_entry, false);
        if tile.any_converged(full) {
            let pair = (request.key, T::Slot::pack(request.key, request.argument));
            let made = self.nodes.split_data(tile.rematerialize(), full, &held, pair);
            cut = choose_entry::<T::Slot>(full, made, cut);
        }
        if tile.any_converged(raises) {
            let made = self.nodes.insert_index_entry(tile.rematerialize(), raises, &held, self.index_entry);
            raised = (raises && made.1 && held.handle == ROOT) as u32;
            cut = choose_entry::<T::Slot>(raises, made, cut);
        }
        // A node that has lost pairs may have merged. A zombie has no pair to update.
        let updater = if removed { 0 } else { own };
        self.release(tile, has_latch && stays, on_data, &held, (raised, updater));
        // Without this barrier, a warp may execute the tiles that back off, and sleep, before those that
        // release latches.
        // mutation: skip barrier performance, because tiles that wait for a latch then only sleep longer.
        tile.sync();
        let attempt = LatchAttempt { acts, has_latch, here, below, full, raises, cut };
        finished | self.after_update(tile, &held, own, key, &attempt)
    }

    /// Chooses the next node after an attempt to change a node. Returns the ranks whose operations the
    /// attempt finished.
    fn after_update(
        &mut self,
        tile: Tile<W, impl Convergence>,
        held: &LatchedNode<T::Slot, W, L>,
        own: u32,
        key: Stored<T>,
        attempt: &LatchAttempt<T::Slot>,
    ) -> u32 {
        let ((entry, made), full, raises) = (attempt.cut, attempt.full, attempt.raises);
        if attempt.acts && !attempt.has_latch {
            if self.stage != Stage::Share {
                self.back_off();
            }
        } else if attempt.acts && !attempt.here {
            self.leave_latched(held, key, attempt.below);
        } else if full && !made {
            return self.conclude(tile, own, Outcome::Refused);
        } else if full {
            self.conclude(tile, own, Outcome::Inserted);
            self.begin_index_entry(entry, 1);
        } else if raises && made && held.handle != ROOT {
            // The parent does not lead to the layer above.
            self.parent = Handle::NONE;
            self.begin_index_entry(entry, held.meta.level() + 1);
        } else if raises {
            return own;
        }
        0
    }

    /// Releases a latch, if `gives`. The level rises by `raised`; `own` is the mask of the lane with the
    /// current operation, or 0 if the node must not become shared. The version of a data node is incremented
    /// if the node may have changed, and stays the same otherwise.
    fn release(
        &self,
        tile: Tile<W, impl Convergence>,
        gives: bool,
        on_data: bool,
        held: &LatchedNode<T::Slot, W, L>,
        (raised, own): (u32, u32),
    ) {
        let makes_shared = self.makes_shared(tile, own);
        tile.sync();
        if gives && tile.rank() == 0 {
            if T::Access::SHARES {
                self.nodes.release_node(held, raised, makes_shared, Order::Release);
                return;
            }
            let passes = T::Access::SORTED && held.meta.is_leaf();
            let level = held.meta.level() + raised;
            let saved = if passes { held.meta.unlatched() } else { Meta::free(level) };
            let meta = if T::Access::SORTED && on_data { held.meta.after() } else { saved };
            held.node.release_as(meta, Order::Release);
        }
    }

    /// Whether a tile that holds a node makes it shared: it has updated the key of its own operation, and had
    /// to try often.
    fn makes_shared(&self, tile: Tile<W, impl Convergence>, own: u32) -> bool {
        let waited = T::Access::SHARES && !O::REMOVES && self.losses >= LOSSES_BEFORE_SHARING;
        if !T::Access::SHARES || O::REMOVES || !tile.any_converged(waited) {
            return false;
        }
        let updates = own >> tile.rank() & 1 != 0 && self.result.0.is_update();
        // Apart: in a condition that only some tiles reach, the warp could not vote.
        let has_updated = tile.any(updates);
        waited && has_updated
    }

    /// Ends the current operation with `outcome`; its value stays the argument.
    fn conclude(&mut self, tile: Tile<W, impl Convergence>, own: u32, outcome: Outcome) -> u32 {
        if own >> tile.rank() & 1 != 0 {
            self.result = (outcome, self.request.argument);
        }
        own
    }

    /// Begins to raise an entry to a layer.
    fn begin_index_entry(&mut self, entry: (Stored<T>, Handle), layer: u32) {
        (self.index_entry, self.layer) = (entry, layer);
        (self.losses, self.previous_zombie) = (0, Handle::NONE);
        if self.parent.is_none() {
            self.restart();
        } else {
            (self.at, self.parent, self.stage) = (self.parent, Handle::NONE, Stage::Write);
        }
    }

    /// Goes on from a node that was latched and is not the one that was looked for: to the right, to the top,
    /// or down from the root, which has grown.
    ///
    /// An entry below the node goes to the top. Merges lower the low keys of data nodes, also below that of
    /// the index node which leads to them; if such a data node is split, the new entry belongs into an index
    /// node further left.
    fn leave_latched(&mut self, held: &LatchedNode<T::Slot, W, L>, key: Stored<T>, below: bool) {
        self.previous_zombie = Handle::NONE;
        let is_beyond = key > held.high;
        let leads = if below { ROOT } else { self.at };
        self.at = if is_beyond { held.link } else { leads };
        self.stage = if is_beyond && self.layer == 0 { Stage::Write } else { Stage::Descend };
    }

    /// Backs off after a failed latch attempt, for a time that grows with each failure. Then retries, in the
    /// data layer from the parent if that is known, otherwise from the same node.
    fn back_off(&mut self) {
        if self.layer == 0 && !self.parent.is_none() {
            (self.at, self.parent, self.stage) = (self.parent, Handle::NONE, Stage::Descend);
        }
        back_off(&mut self.losses, 0, MOST_DOUBLINGS);
    }

    /// Executes the operations of the tile's lanes on a data node that the tile has latched, if `on_data`, as
    /// long as the node has free slots.
    fn update_node(
        &mut self,
        tile: Tile<W, impl Convergence>,
        on_data: bool,
        held: &LatchedNode<T::Slot, W, L>,
        waiting: u32,
    ) -> UpdateResult<T::Slot, W, L> {
        let (own, nodes, mut result) = (self.request, self.nodes, self.result);
        let group = own.lanes_on_leaf(tile, on_data, waiting, held, self.start);
        let mut update =
            UpdateResult { finished: 0, removed: false, has_shown_latch: false, read: held.read };
        update.finished = own.update_for_lanes(tile, group, &mut result, |wanted, request| {
            if T::Access::SORTED {
                return Self::update_sorted(tile, wanted, held, &mut update, request);
            }
            let (end, removed) = nodes.update_leaf(tile, wanted, held, &mut update.read, request);
            update.removed |= removed;
            end
        });
        self.result = result;
        update
    }

    /// Orders the latch, which the tile has taken, before the pairs that it `moves`: once per latch.
    ///
    /// A node with sorted pairs is a sequence lock. A reader accepts it if its header is the same before and
    /// after the pairs, so a reader that sees a moved pair must see the latch in the header as well. Taking
    /// the latch acquires, which orders it before nothing; the pairs are relaxed stores of all lanes. So each
    /// lane fences after the barrier that follows the latch: its stores then release what the first lane did,
    /// and readers acquire by their loads of the pairs.
    fn show_latch(tile: Tile<W, impl Convergence>, moves: bool, update: &mut UpdateResult<T::Slot, W, L>) {
        if tile.any_converged(moves && !update.has_shown_latch) {
            fence(Scope::Device);
            update.has_shown_latch = true;
        }
    }

    /// [`Nodes::update_leaf`] for a node with sorted pairs.
    fn update_sorted(
        tile: Tile<W, impl Convergence>,
        wanted: bool,
        held: &LatchedNode<T::Slot, W, L>,
        update: &mut UpdateResult<T::Slot, W, L>,
        request: &Request<T::Slot, O>,
    ) -> OperationResult<Value<T>> {
        let rank = tile.rank();
        let count = update.read.count(tile, |word| T::Slot::key(word) <= held.high);
        let gap = update.read.last(rank, |position, word| position < count && T::Slot::key(word) > held.high);
        Self::show_latch(tile, wanted && gap.exists, update);
        if tile.any_converged(wanted && gap.exists) {
            Nodes::<T, W, L>::close_gaps(tile.rematerialize(), wanted, held, &mut update.read, count);
        }
        let place = update.read.count(tile, |word| T::Slot::key(word) < request.key);
        let hit =
            update.read.last(rank, |position, word| position == place && T::Slot::key(word) == request.key);
        let (hits, places) = (tile.ballot(hit.exists), request.places());
        let (found, erases) = (hits != 0, request.operation.change() == Change::Erase);
        let tells = O::EXCHANGES && hit.exists;
        let mut value = if tells { T::Slot::value(hit.word) } else { request.argument };
        if wanted && hit.exists && !erases {
            let word = request.changed(hit.word);
            if request.operation.change() != Change::Keep {
                write_slot::<T::Slot>(held.node.word(place), hit.word, word, Order::Relaxed, false);
            }
            value = T::Slot::value(hit.word);
            update.read.put(rank, place, word);
        }
        let (removes, fits) = (wanted && found && erases, count < Node::<T::Slot, W, L>::SLOTS);
        let (puts, pair) = (wanted && !found && places && fits, T::Slot::pack(request.key, request.argument));
        Self::show_latch(tile, puts || removes, update);
        if !O::PLACES_ALWAYS {
            let ends = (place, count.wrapping_sub(1));
            Nodes::<T, W, L>::close(tile, removes, held.node, &mut update.read, ends);
        }
        Nodes::<T, W, L>::shift(tile, puts, held.node, &mut update.read, (place, count), pair);
        update.removed |= removes;
        let value = if O::RETURNS { tile.shuffle(value, hits.trailing_zeros()) } else { value };
        request.updated(wanted && (found || !places || fits), found, false, value)
    }
}

/// Whether a data node may merge with the next. The first one may not, because the layer begins there; the
/// last has no next.
#[device]
pub(super) fn may_merge<S: Slot>(handle: Handle, high: S::Stored) -> bool {
    handle != FIRST_LEAF && handle != RESERVED_LEAF && high != largest::<S>()
}
