//! Operations on all pairs of a key, for maps with several values per key (the paper's SEARCHALL and
//! DELETEALL).
use super::super::pool::Pool;
use super::lists::{Lists, ListsView};
use super::node::{Chosen, Node, Read};
use crate::keyed::Slot;
use simt::{Convergence, CurrentOp, Global, GlobalSlice, Order, Shuffle, Tile, device, share_work};

/// An operation on each pair of a key.
pub trait Gather: Shuffle {
    /// Slot format of the lists.
    type Slot: Slot;

    /// Processes the pair in a slot. Returns whether the pair counts.
    fn take(self, slot: Global<<Self::Slot as Slot>::Word>, key: <Self::Slot as Slot>::Stored) -> bool;

    /// Receives the value of a pair that counts, and the pair's index among those of the operation, from 0.
    fn put(self, place: u32, value: <Self::Slot as Slot>::Value);
}

/// Counts the pairs.
#[derive(Clone, Copy, Debug)]
pub struct Count<S>(core::marker::PhantomData<S>);

/// Removes the pairs.
#[derive(Clone, Copy, Debug)]
pub struct RemoveAll<S>(core::marker::PhantomData<S>);

macro_rules! plain {
    ($($name:ident)*) => {$(
        impl<S> Default for $name<S> {
            #[device]
            fn default() -> Self {
                Self(core::marker::PhantomData)
            }
        }

        impl<S: Copy> Shuffle for $name<S> {
            #[device]
            fn map_words(self, _word: impl FnMut(u32) -> u32) -> Self {
                self
            }
        }
    )*};
}
plain!(Count RemoveAll);

#[device]
impl<S: Slot> Gather for Count<S> {
    type Slot = S;

    fn take(self, _slot: Global<S::Word>, _key: S::Stored) -> bool {
        true
    }

    fn put(self, _place: u32, _value: S::Value) {}
}

#[device]
impl<S: Slot> Gather for RemoveAll<S> {
    type Slot = S;

    #[device(caller)]
    fn take(self, slot: Global<S::Word>, key: S::Stored) -> bool {
        S::erase(slot, key)
    }

    fn put(self, _place: u32, _value: S::Value) {}
}

/// Writes the values to a slice, at most `room` of them, from an offset on that differs per operation.
#[derive(Clone, Copy, Debug)]
pub struct Collect<S: Slot> {
    /// Destination of the values.
    pub values: GlobalSlice<S::Value>,
    /// Index of the first value in `values`.
    pub from: u64,
    /// Maximum number of values to write.
    pub room: u32,
}

impl<S: Slot> Shuffle for Collect<S> {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        Self { from: self.from.map_words(&mut word), room: word(self.room), ..self }
    }
}

#[device]
impl<S: Slot> Gather for Collect<S> {
    type Slot = S;

    fn take(self, _slot: Global<S::Word>, _key: S::Stored) -> bool {
        true
    }

    #[device(caller)]
    fn put(self, place: u32, value: S::Value) {
        let index = self.from.saturating_add(place as u64);
        if place < self.room && index < self.values.len() as u64 {
            self.values.write(index as usize, value);
        }
    }
}

/// One lane's operation on all pairs of a key, as the work-sharing loop executes it.
struct Pass<S: Slot, P: Pool, G, const W: u32, const L: usize> {
    lists: ListsView<Lists<S, P, W, L>>,
    bucket: u32,
    key: S::Stored,
    gather: G,
    at: Option<Node<S, W, L>>,
    /// Number of pairs of the current operation that counted so far.
    found: u32,
    /// Number of pairs of the lane's own operation that counted.
    count: u32,
}

#[device(caller)]
impl<S: Slot, P: Pool, G: Gather<Slot = S>, const W: u32, const L: usize> Pass<S, P, G, W, L> {
    /// Processes one node for the current operation. Returns whether it was the last.
    fn round(&mut self, turn: CurrentOp<W, impl Convergence>) -> bool {
        let tile = turn.tile();
        let (key, gather) = (turn.from_owner(self.key), turn.from_owner(self.gather));
        let head = turn.from_owner(self.bucket);
        // SAFETY: the bucket is that of a key.
        let node = self.at.unwrap_or(unsafe { self.lists.head(head) });
        let read = node.read(tile.rank(), turn.is_active(), Order::Relaxed);
        self.take(turn, node, &read, key, gather);
        let ends = tile.any(read.lane.first(|_, word| S::is_empty(word)).exists);
        let next = tile.shuffle(read.link, W - 1);
        let onward = turn.is_active() && !ends && !next.is_none();
        if turn.is_mine() {
            self.count = self.found;
        }
        // SAFETY: the link was read in a node.
        self.at = if onward { Some(unsafe { self.lists.node(next) }) } else { None };
        self.found = if onward { self.found } else { 0 };
        !onward
    }

    /// Processes the key's pairs in a node.
    fn take(
        &mut self,
        turn: CurrentOp<W, impl Convergence>,
        node: Node<S, W, L>,
        read: &Read<S, L>,
        key: S::Stored,
        gather: G,
    ) {
        // SAFETY: the slot is one of the lane's.
        let slot = |j| unsafe { node.bucket().slot(turn.tile().rank(), j) };
        let words = read.lane.words();
        let counts = Chosen::by::<W, L>(turn.tile(), |j| {
            turn.is_active() && S::key(words[j]) == key && gather.take(slot(j), key)
        });
        let mut j = 0;
        while j < L {
            if counts.is(j) {
                gather.put(self.found + counts.place(j), S::read_value(slot(j), words[j]));
            }
            j += 1;
        }
        self.found += counts.all;
    }
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> ListsView<Lists<S, P, W, L>> {
    /// Applies `gather` to all pairs of the key of each lane that passes `pending`. Returns to each lane the
    /// number of its pairs that counted.
    #[device(caller)]
    pub fn gather<G: Gather<Slot = S>>(
        self,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        gather: G,
        key: S::Key,
    ) -> u32 {
        let (key, bucket) = self.start(key);
        let mut pass = Pass { lists: self, bucket, key, gather, at: None, found: 0, count: 0 };
        // mutation: late store equivalent, because the caller reads what `gather` puts after all rounds.
        share_work(tile, pending, |turn| pass.round(turn));
        pass.count
    }
}
