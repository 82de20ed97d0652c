//! Operations on a leaf: what a miss needs to be valid, and the changes of a slot under the leaf's latch.
use super::access::Access;
use super::fixed_nodes::RESERVED_LEAF;
use super::latch::LatchedNode;
use super::meta::Meta;
use super::node::Node;
use super::nodes::Nodes;
use super::search::SearchStep;
use super::types::{Types, Value, VersionsOf};
use super::versioning::Versions;
use crate::keyed::{Change, Lane, Operation, Outcome, Request, Slot};
use crate::slab::Handle;
use simt::{Convergence, Global, Order, Scope, Tile, device, recheck};

/// Result of an operation, once it is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperationResult<V> {
    pub(crate) done: bool,
    pub(crate) outcome: Outcome,
    pub(crate) value: V,
}

#[device]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Returns the result of a lookup that `ends` in the leaf that the tile has read; `end` is the result of
    /// [`Request::hit`]. A hit needs no more; a miss is confirmed where writers may run concurrently, and is
    /// not done if the leaf changed meanwhile.
    pub(crate) fn look_up(
        self,
        tile: Tile<W, impl Convergence>,
        node: Node<T::Slot, W, L>,
        ends: bool,
        mut end: OperationResult<Value<T>>,
        request: &Request<T::Slot, impl Operation>,
    ) -> OperationResult<Value<T>> {
        let misses = ends && (!end.done || self.may_read_other_version());
        if !T::Access::CONCURRENT {
            let value = if misses { request.argument } else { end.value };
            let outcome = if misses { Outcome::Absent } else { end.outcome };
            end = OperationResult { done: ends, outcome, value };
        } else if tile.any_converged(misses) {
            let tile = tile.rematerialize();
            let again = if T::Access::SORTED {
                Self::confirm_miss_sorted(tile, node, misses, request)
            } else {
                self.confirm_miss(tile, node, misses, request)
            };
            end = if misses { again } else { end };
        }
        end
    }

    /// Looks the key up among the words that the tile has read of a leaf, which are `valid` or not.
    fn look_up_in(
        tile: Tile<W, impl Convergence>,
        read: &Lane<T::Slot, L>,
        valid: bool,
        request: &Request<T::Slot, impl Operation>,
    ) -> OperationResult<Value<T>> {
        let hit = read.last(tile.rank(), |position, word| {
            position < Node::<T::Slot, W, L>::SLOTS && T::Slot::key(word) == request.key
        });
        let hits = tile.ballot(hit.exists);
        let value = tile.shuffle(T::Slot::value(hit.word), hits.trailing_zeros());
        if hits == 0 {
            return OperationResult { done: valid, outcome: Outcome::Absent, value: request.argument };
        }
        OperationResult { done: valid, outcome: request.operation.outcome(), value }
    }

    /// Reads a leaf again after a miss. The miss is valid only if the key is still ≤ `high` when the tail is
    /// read *after* the pairs: since the leaf's high key was first read, a split may have moved the key away,
    /// and another pair may have taken its slot.
    ///
    /// With versions, the pairs are those of the version at the tree's read timestamp.
    fn confirm_miss(
        self,
        tile: Tile<W, impl Convergence>,
        node: Node<T::Slot, W, L>,
        misses: bool,
        request: &Request<T::Slot, impl Operation>,
    ) -> OperationResult<Value<T>> {
        // mutation: early relaxed unmodelled, because explorers order a lane's reads of trees as if the
        // address of each depended on those before it. A test of ranges reads tails weakly instead.
        let mut read = node.read_rarely(tile.rank(), misses, Order::Acquire);
        // mutation: early unreached, because the second read of the pairs includes the tail, and explorers
        // order it after the first one: what a lane has read orders its later reads, also through a vote.
        let tail = if misses { node.tail().load(Order::Relaxed, Scope::Device) } else { T::Slot::EMPTY };
        let mut covered = recheck(tile.all(request.key <= T::Slot::key(tail)));
        if VersionsOf::<T>::VERSIONED {
            let (then, is_leaf) = self.as_of(tile, node, misses && covered, read);
            (read, covered) = (then, covered && is_leaf);
        }
        Self::look_up_in(tile, &read, covered, request)
    }

    /// Reads a leaf with sorted pairs again after a miss. The miss is valid only if the leaf was unlatched
    /// and had the same version before and after its pairs were read, and still covers the key.
    fn confirm_miss_sorted(
        tile: Tile<W, impl Convergence>,
        node: Node<T::Slot, W, L>,
        misses: bool,
        request: &Request<T::Slot, impl Operation>,
    ) -> OperationResult<Value<T>> {
        let mut before = T::Slot::EMPTY;
        if misses {
            before = node.header().load(Order::Acquire, Scope::Device);
        }
        let read = node.read_rarely(tile.rank(), misses, Order::Acquire);
        tile.sync();
        let (mut now, mut tail) = (before, T::Slot::EMPTY);
        if misses && tile.rank() == 0 {
            // mutation: early equivalent, because the reads of the pairs include the tail, and lie between
            // the two reads of the header: if these are equal, no split has changed the tail meanwhile.
            tail = node.tail().load(Order::Relaxed, Scope::Device);
            now = node.header().load(Order::Relaxed, Scope::Device);
        }
        let settled = recheck(is_settled::<T::Slot, W>(tile, misses, before, now));
        let covered = recheck(request.key <= tile.shuffle(T::Slot::key(tail), 0));
        Self::look_up_in(tile, &read, covered && settled, request)
    }

    /// Executes an operation on a leaf that the tile has latched, if it is `wanted`; `read` is the leaf's
    /// content before and after. The operation is not done if the leaf lacks a free slot for it. Also returns
    /// whether a pair was removed.
    pub(crate) fn update_leaf<O: Operation>(
        self,
        tile: Tile<W, impl Convergence>,
        wanted: bool,
        held: &LatchedNode<T::Slot, W, L>,
        read: &mut Lane<T::Slot, L>,
        request: &Request<T::Slot, O>,
    ) -> (OperationResult<Value<T>>, bool) {
        let rank = tile.rank();
        let is_slot = |position| position < Node::<T::Slot, W, L>::SLOTS;
        let hit = read.last(rank, |position, word| is_slot(position) && T::Slot::key(word) == request.key);
        let free = read.last(rank, |position, word| is_slot(position) && T::Slot::key(word) > held.high);
        let (hits, frees) = (tile.ballot(hit.exists), tile.ballot(free.exists));
        let (found, places, change) = (hits != 0, request.places(), request.operation.change());
        let actor = (if found { hits } else { frees }).trailing_zeros();
        let changes = if found { change != Change::Keep } else { places && frees != 0 };
        // mutation: early load 4 unreached, because plans refuse few changes while slabs are freed:
        // `slab_explore` tests the look at the bitmap.
        // mutation: relaxed release acquire tear block weak early update load AcqRel Acquire Relaxed 8 16
        // unreached, because plans seldom change a leaf that was split off and is not stamped yet.
        let saved = self.save_version(tile, wanted && changes, held.node, read);
        let refused = VersionsOf::<T>::VERSIONED && wanted && changes && !saved.ready;
        let mut value = request.argument;
        if wanted && rank == actor && (found || places) && !refused {
            let chosen = if found { hit } else { free };
            let pair = T::Slot::pack(request.key, request.argument);
            let word = if found { request.changed(chosen.word) } else { pair };
            if changes {
                let slot = held.node.word(chosen.index);
                write_slot::<T::Slot>(slot, chosen.word, word, self.pair_order(), !found);
            }
            let tells = found && (change != Change::Erase || O::EXCHANGES);
            value = if tells { T::Slot::value(chosen.word) } else { value };
            read.put(rank, chosen.index, word);
        }
        // mutation: skip tear update Relaxed 4 performance, because a sweep finds versions that are not
        // marked as retired.
        // mutation: block weak late store 4 equivalent, because items of a bag are read by the participant
        // that has put them there, at a later entry, or by a later one of its slot, which has acquired the
        // slot.
        // mutation: early load 4 equivalent, because the tile has allocated the slab that it retires: its bit
        // is set.
        self.stamp_leaf(tile, &saved, held.node, Handle::NONE);
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        let done = wanted && (found || !places || frees != 0);
        let removed = wanted && found && change == Change::Erase && !refused;
        (request.updated(done, found, refused, value), removed)
    }
}

impl<S: Slot, O: Operation> Request<S, O> {
    /// Returns the result of a lookup if it `ends` in a leaf and the key was found there; otherwise one that
    /// is not done. Called before the traversal goes on: the result of a comparison that lives across its
    /// branches costs instructions in every step.
    #[device]
    pub(crate) fn hit(&self, ends: bool, step: &SearchStep<S>) -> OperationResult<S::Value> {
        OperationResult { done: ends && step.found, outcome: self.operation.outcome(), value: step.value }
    }

    /// Returns the result of an update of a leaf.
    #[device]
    pub(crate) fn updated(
        &self,
        done: bool,
        found: bool,
        refused: bool,
        value: S::Value,
    ) -> OperationResult<S::Value> {
        let absent = if self.places() { Outcome::Inserted } else { Outcome::Absent };
        let outcome = if found { self.operation.outcome() } else { absent };
        let outcome = if refused { Outcome::Refused } else { outcome };
        OperationResult { done, outcome, value: if found { value } else { self.argument } }
    }

    /// Returns the ranks of the `lanes` whose operations concern a leaf that the tile has latched, if
    /// `on_leaf`. The calling lane's traversal began at `start`.
    #[device]
    pub(crate) fn lanes_on_leaf<const W: u32, const L: usize>(
        &self,
        tile: Tile<W, impl Convergence>,
        on_leaf: bool,
        lanes: u32,
        held: &LatchedNode<S, W, L>,
        start: Handle,
    ) -> u32 {
        let belongs = recheck(held.low <= self.key) && recheck(self.key <= held.high);
        let wants = lanes >> tile.rank() & 1 != 0
            && belongs
            && (start == RESERVED_LEAF) == (held.handle == RESERVED_LEAF);
        tile.ballot(on_leaf && wants)
    }

    /// Executes the operations of the lanes of `group`, one after the other, until one is not done: `update`
    /// executes the one that it is given, if it is wanted. Stores each result in its lane's `result`. Returns
    /// the ranks whose operations are done.
    #[device]
    pub(crate) fn update_for_lanes<const W: u32>(
        &self,
        tile: Tile<W, impl Convergence>,
        mut group: u32,
        result: &mut (Outcome, S::Value),
        mut update: impl FnMut(bool, &Self) -> OperationResult<S::Value>,
    ) -> u32 {
        let mut finished = 0;
        while tile.any_converged(group != 0) {
            let turn = group.trailing_zeros() % W;
            let request = Self {
                operation: tile.shuffle(self.operation, turn),
                key: tile.shuffle(self.key, turn),
                argument: tile.shuffle(self.argument, turn),
            };
            let end = update(group != 0, &request);
            if end.done && tile.rank() == turn {
                *result = (end.outcome, end.value);
            }
            finished |= if end.done { 1 << turn } else { 0 };
            group = if end.done { group & group.wrapping_sub(1) } else { 0 };
        }
        finished
    }
}

/// Whether the header that each lane of the tile read before the pairs is the one that the first lane read
/// after them, and unlatched. Lanes where it is not `wanted` do not count.
#[device(caller)]
pub(crate) fn is_settled<S: Slot, const W: u32>(
    tile: Tile<W, impl Convergence>,
    wanted: bool,
    before: S::Word,
    now: S::Word,
) -> bool {
    let (before, now) = (Meta::read(S::value(before)), Meta::read(tile.shuffle(S::value(now), 0)));
    tile.all(!wanted || (before == now && !now.is_latched()))
}

/// Writes `after` to a slot of a latched leaf whose current word is `before`. No other thread changes it,
/// because the leaf's latch is held.
///
/// It is a read-modify-write, not a store, so an acquiring load that reads the new word still synchronizes
/// with the last releasing store to the slot. A pair that is `new` in a slot that is not empty overwrites one
/// that a split has moved: that store releases, because a reader that sees the new pair must also see the
/// link to the node that now holds the old one.
#[device]
pub(crate) fn write_slot<S: Slot>(
    slot: Global<S::Word>,
    before: S::Word,
    after: S::Word,
    order: Order,
    new: bool,
) {
    if new && !S::is_empty(before) {
        slot.store(after, Order::Release, Scope::Device);
    } else {
        // mutation: tear update Release equivalent, because no other thread changes the slot, and the store
        // itself releases what the holder of the latch has acquired.
        // mutation: tear update Relaxed 16 unreached, because the test that reads tails weakly has pairs of 8
        // bytes.
        // mutation: relaxed Release 16 unreached, because plans for pairs of 16 bytes have fewer seeds.
        let found = slot.compare_exchange(before, after, order, Scope::Device);
        debug_assert!(found.is_ok(), "the latch is held");
    }
}
