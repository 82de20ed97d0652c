//! What goes by the order of keys: the first or last pair in a range, the pairs in it, and how many they are.
//!
//! A tile walks down to the leaf of the range's end and from leaf to leaf by their links; downwards it walks from the root again, to the leaf that
//! ends before the one it has seen. A leaf's pairs are read by acquiring loads and its tail after them: what that says is then true of them
//! (see `docs/structures/btree.md`, *Reading a leaf*).
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::node::{Lead, Meta, Node, Read, handle_of};
use super::tree::{ANNEX, ROOT, Start, Tree, TreeView, largest};
use crate::keyed::{Scalar, Slot};
use simt::{Convergence, GlobalSlice, Order, Queue, Scope, Tile, Turn};

/// What is asked of a range.
pub trait Seek: Copy + Send + Sync + 'static {
    /// From the upper end downwards.
    const DOWN: bool;
    /// The pair that comes first, and no other.
    const ONE: bool;
    /// The pairs themselves.
    const TAKES: bool;
}

macro_rules! seeks {
    ($($(#[$doc:meta])* $name:ident: down $down:literal, one $one:literal, takes $takes:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Seek for $name {
            const DOWN: bool = $down;
            const ONE: bool = $one;
            const TAKES: bool = $takes;
        }
    )*};
}

seeks! {
    /// The lowest key, and its value.
    Lowest: down false, one true, takes false;
    /// The highest key, and its value.
    Highest: down true, one true, takes false;
    /// How many there are.
    Count: down false, one false, takes false;
    /// The pairs, in the order of keys.
    Collect: down false, one false, takes true;
}

/// A range, and where its pairs go.
#[derive(Clone, Copy, Debug)]
pub struct Span<K> {
    /// The lowest key.
    pub from: K,
    /// The highest key, which belongs to it.
    pub to: K,
    /// The place of the first pair.
    pub offset: u64,
    /// How many pairs there is room for: more are not looked for.
    pub room: u32,
}

/// Where pairs are written.
#[derive(Debug)]
pub struct Sink<K, V> {
    /// Takes the keys.
    pub keys: GlobalSlice<K>,
    /// Takes the values.
    pub values: GlobalSlice<V>,
}

impl<K, V> Clone for Sink<K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Sink<K, V> {}

/// What was found: how many pairs, and one of them where one was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Answer<K, V> {
    /// How many pairs, or how many were written.
    pub count: u64,
    /// The key.
    pub key: K,
    /// Its value.
    pub value: V,
}

/// A leaf as a tile has read it.
struct Leaf<S: Slot, const W: u32, const L: usize> {
    read: Read<S, W, L>,
    low: S::Stored,
    meta: Meta,
    high: S::Stored,
    link: Handle,
    /// The tail was the same for all lanes, and read after the pairs.
    agreed: bool,
}

/// The range of one lane, as the work-sharing loop walks through it.
struct Pass<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> {
    tree: TreeView<Tree<S, P, A, W, L>>,
    span: Span<S::Stored>,
    sink: Sink<S::Key, S::Value>,
    /// The node that is next, or none: the walk begins.
    at: Handle,
    /// It is a leaf, as far as is known.
    is_leaf: bool,
    /// The key that the tile walks down to.
    target: S::Stored,
    /// Pairs of the operation at work.
    found: u64,
    answer: Answer<S::Stored, S::Value>,
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Pass<S, P, A, W, L> {
    /// One node of the range whose turn it is. Gives whether the range is finished.
    #[inline(always)]
    fn round<Q: Seek, C: Convergence>(&mut self, turn: Turn<W, C>) -> bool {
        let tile = turn.tile();
        let (from, to) = (turn.from_owner(self.span.from), turn.from_owner(self.span.to));
        let (offset, room) = if Q::TAKES {
            (turn.from_owner(self.span.offset), turn.from_owner(self.span.room))
        } else {
            (0, u32::MAX)
        };
        let span = Span { from, to, offset, room };
        if self.at.is_none() {
            let start = Start::<S>::of(if Q::DOWN { to } else { from });
            (self.at, self.target, self.is_leaf, self.found) = (start.node, start.key, start.is_annex(), 0);
        }
        let looks = turn.is_active() && !self.is_leaf;
        let on_leaf = turn.is_active() && self.is_leaf;
        self.descend(tile, looks);
        let mut done = false;
        if tile.any_converged(on_leaf) {
            done = self.visit::<Q, C>(turn, on_leaf, &span);
        }
        if done {
            self.at = Handle::NONE;
        }
        done
    }

    /// Reads an inner node and goes on from it.
    #[inline(always)]
    fn descend<C: Convergence>(&mut self, tile: Tile<W, C>, looks: bool) {
        let read = self.tree.node(self.at).read(tile.rank(), looks, A::READ);
        let lead = Lead::of(tile, &read, self.target);
        if !looks {
            return;
        }
        if lead.meta.is_leaf() {
            self.is_leaf = true;
        } else if !lead.found {
            self.at = ROOT;
        } else {
            self.at = handle_of(lead.value);
            self.is_leaf = !lead.beyond && lead.meta.level() == 1;
        }
    }

    /// Reads a leaf so that its tail is true of its pairs.
    #[inline(always)]
    fn leaf<C: Convergence>(&self, tile: Tile<W, C>, wanted: bool) -> Leaf<S, W, L> {
        let node = self.tree.node(self.at);
        let order = if A::CONCURRENT { Order::Acquire } else { A::READ };
        let read = node.read_rarely(tile.rank(), wanted, order);
        let (low, meta) = read.header(tile);
        if !(A::CONCURRENT && A::CONFIRMS) {
            let (high, link) = read.tail(tile);
            return Leaf { read, low, meta, high, link, agreed: true };
        }
        let tail = if wanted { node.tail().load(Order::Relaxed, Scope::Device) } else { S::EMPTY };
        let (high, link) = (S::key(tail), handle_of(S::value(tail)));
        // A split lowers the high key and changes the link with it, by one store.
        let agreed = tile.all(link == tile.shuffle(link, 0));
        Leaf { read, low, meta, high: tile.shuffle(high, 0), link: tile.shuffle(link, 0), agreed }
    }

    /// Deals with the pairs of a leaf. Gives whether the range ends here.
    #[inline(always)]
    fn visit<Q: Seek, C: Convergence>(
        &mut self,
        turn: Turn<W, C>,
        on_leaf: bool,
        span: &Span<S::Stored>,
    ) -> bool {
        let tile = turn.tile();
        let leaf = self.leaf(tile, on_leaf);
        let is_annex = self.at == ANNEX;
        let true_key = |key: S::Stored| if is_annex { S::key(S::EMPTY) } else { key };
        let chosen =
            |key: S::Stored| key <= leaf.high && true_key(key) >= span.from && true_key(key) <= span.to;
        let count = leaf.read.count(tile, |word| chosen(S::key(word)));
        let ranks = if Q::ONE || Q::TAKES { Some(leaf.read.ranks(tile, chosen)) } else { None };
        let wanted = if Q::DOWN { count.wrapping_sub(1) } else { 0 };
        let (mut hit, mut j) = (None, 0);
        let counts = on_leaf && leaf.agreed && leaf.meta.is_leaf() && self.target <= leaf.high;
        while j < L {
            let word = leaf.read.words()[j];
            let rank = ranks.map_or(0, |ranks| ranks.of(j));
            let is_chosen = Node::<S, W, L>::is_slot(tile.rank(), j) && chosen(S::key(word));
            if Q::TAKES && counts && is_chosen {
                self.put(span, rank, true_key(S::key(word)), S::value(word));
            }
            hit = if Q::ONE && is_chosen && rank == wanted { Some(word) } else { hit };
            j += 1;
        }
        if Q::ONE {
            let owner = tile.ballot(hit.is_some()).trailing_zeros();
            let word = tile.shuffle(hit.unwrap_or(S::EMPTY), owner);
            if turn.is_mine() && counts && count > 0 {
                (self.answer.key, self.answer.value) = (true_key(S::key(word)), S::value(word));
            }
        }
        self.found += if counts { count as u64 } else { 0 };
        let done = on_leaf && self.go_on::<Q>(&leaf, counts, span);
        if done && turn.is_mine() {
            self.answer.count = if Q::TAKES { self.found.min(span.room as u64) } else { self.found };
        }
        done
    }

    /// Writes a pair, if there is room.
    #[inline(always)]
    fn put(&self, span: &Span<S::Stored>, rank: u32, key: S::Stored, value: S::Value) {
        let place = self.found + rank as u64;
        let index = span.offset.saturating_add(place);
        if place < span.room as u64 && index < self.sink.keys.len() as u64 {
            self.sink.keys.write(index as usize, S::Key::from_u64(key.to_u64()));
        }
        if place < span.room as u64 && index < self.sink.values.len() as u64 {
            self.sink.values.write(index as usize, value);
        }
    }

    /// Where to from a leaf. Gives whether the range ends there.
    #[inline(always)]
    fn go_on<Q: Seek>(&mut self, leaf: &Leaf<S, W, L>, counts: bool, span: &Span<S::Stored>) -> bool {
        if !leaf.agreed {
            return false;
        }
        if !leaf.meta.is_leaf() {
            self.is_leaf = false;
            return false;
        }
        if !counts {
            self.at = leaf.link;
            return false;
        }
        if Q::ONE && self.found > 0 {
            return true;
        }
        if Q::DOWN {
            return self.go_down(leaf, span);
        }
        if leaf.high >= span.to || leaf.link.is_none() || (Q::TAKES && self.found >= span.room as u64) {
            return true;
        }
        self.at = leaf.link;
        self.target = S::Stored::from_u64(0);
        false
    }

    /// To the leaf before, by its highest possible key, from the root on.
    #[inline(always)]
    fn go_down(&mut self, leaf: &Leaf<S, W, L>, span: &Span<S::Stored>) -> bool {
        let is_annex = self.at == ANNEX;
        if !is_annex && leaf.low <= span.from {
            return true;
        }
        let below = S::Stored::from_u64(leaf.low.to_u64().wrapping_sub(1));
        (self.at, self.is_leaf) = (ROOT, false);
        self.target = if is_annex { largest::<S>() } else { below };
        is_annex && span.from > largest::<S>()
    }
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// Looks through the range of each lane that says `pending`, each by its tile, and gives each lane what is in its own. `from` must not be
    /// above `to`.
    #[inline(always)]
    #[track_caller]
    pub fn seek<Q: Seek, C: Convergence>(
        self,
        tile: Tile<W, C>,
        pending: bool,
        span: Span<S::Key>,
        sink: Sink<S::Key, S::Value>,
    ) -> Answer<S::Key, S::Value> {
        let stored = |key: S::Key| S::Stored::from_u64(key.to_u64());
        let zero = S::Stored::from_u64(0);
        let mut pass = Pass {
            tree: self,
            span: Span { from: stored(span.from), to: stored(span.to), offset: span.offset, room: span.room },
            sink,
            at: Handle::NONE,
            is_leaf: false,
            target: zero,
            found: 0,
            answer: Answer { count: 0, key: zero, value: S::Value::from_u64(0) },
        };
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.turn() {
            if pass.round::<Q, C>(turn) {
                queue.finish();
            }
        }
        let Answer { count, key, value } = pass.answer;
        Answer { count, key: S::Key::from_u64(key.to_u64()), value }
    }
}
