//! Ordered queries: the first or last pair of a range, its pairs, and their number.
//!
//! A tile descends to the leaf where the range begins and follows the links from leaf to leaf. A downward
//! search descends again, from the leaf's parent or from the root, to the leaf that ends before the one just
//! read. A leaf's pairs are read by acquiring loads and its tail after them, so the tail is valid for the
//! pairs (see `docs/structures/btree.md`, *Reading a leaf*).
use super::access::Access;
use super::fixed_nodes::{FIRST_LEAF, RESERVED_LEAF, ROOT, Start, largest};
use super::leaf::is_settled;
use super::meta::{Meta, handle_of};
use super::node::Node;
use super::nodes::Nodes;
use super::search::SearchStep;
use super::sink::Sink;
use super::sorted_pairs::Ordered;
use super::staging::Staging;
use super::types::{Key, Stored, Types, Value, VersionsOf, WordOf};
use super::versioning::{LATEST, Versions};
use crate::keyed::{Lane, Scalar, Slot};
use crate::slab::Handle;
use simt::{Convergence, Order, Queue, Scope, Tile, device, fence, recheck};

/// Kind of an ordered query.
pub trait Seek: Copy + Send + Sync + 'static {
    /// Whether the query goes from the upper end downwards.
    const DOWN: bool;
    /// Whether it wants only the first pair.
    const ONE: bool;
    /// Whether it writes the pairs.
    const TAKES: bool;
    /// Whether pairs are staged in shared memory, so that several are written at once, where that pays.
    /// Blocks then have 128 threads at most.
    const STAGES: bool = false;
    /// Whether it counts the nodes that are read, and no pairs. [`Answer::count`] is then a [`Trace`]'s.
    const TRACES: bool = false;
    /// Whether it wants all pairs, each once.
    const ALL: bool = !Self::ONE && !Self::TRACES;
}

macro_rules! seeks {
    ($(
        $(#[$doc:meta])*
        $name:ident: down $down:literal, one $one:literal, takes $takes:literal, stages $stages:literal;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Seek for $name {
            const DOWN: bool = $down;
            const ONE: bool = $one;
            const TAKES: bool = $takes;
            const STAGES: bool = $stages;
        }
    )*};
}

seeks! {
    /// The lowest key and its value.
    Lowest: down false, one true, takes false, stages false;
    /// The highest key and its value.
    Highest: down true, one true, takes false, stages false;
    /// The number of pairs.
    Count: down false, one false, takes false, stages false;
    /// The pairs, in key order. Ends the launch in blocks of more than 128 threads: these use
    /// [`CollectWide`].
    Collect: down false, one false, takes true, stages true;
    /// [`Collect`] in blocks of any size. Slower, because each pair is written to its destination at once.
    CollectWide: down false, one false, takes true, stages false;
}

/// Counts of the nodes that are read on the way to a key, one per byte: leaves in the first byte, each level
/// above them in the next, all levels from the seventh on together in the seventh byte, and links followed in
/// the eighth.
#[derive(Clone, Copy, Debug)]
pub struct Trace;

impl Seek for Trace {
    const DOWN: bool = false;
    const ONE: bool = false;
    const TAKES: bool = false;
    const TRACES: bool = true;
}

impl Trace {
    /// Returns the trace of one node that was read.
    #[device]
    const fn step(meta: Meta, linked: bool) -> u64 {
        let level = if meta.level() < 6 { meta.level() } else { 6 };
        1 << (8 * level) | (linked as u64) << 56
    }
}

/// A range, and the destination of its pairs.
#[derive(Clone, Copy, Debug)]
pub struct Span<K> {
    /// Lowest key.
    pub from: K,
    /// Highest key, inclusive.
    pub to: K,
    /// Index of the first pair in the output.
    pub offset: u64,
    /// Maximum number of pairs to write. The search ends when it is reached.
    pub room: u32,
}

/// Result of a query: the number of pairs and, if one was wanted, that pair.
#[derive(Clone, Copy, Debug)]
pub struct Answer<K, V> {
    /// Number of pairs found or, if pairs are written, of pairs written.
    pub count: u64,
    /// The key.
    pub key: K,
    /// Its value.
    pub value: V,
}

/// A leaf as a tile has read it.
struct Leaf<S: Slot, const W: u32, const L: usize> {
    read: Lane<S, L>,
    low: S::Stored,
    meta: Meta,
    /// The tail. It is valid in the lane that [`Self::end`] reads it from. Its load may still be in flight,
    /// so nothing waits for it before its value is needed.
    tail: S::Word,
    /// The header before the pairs were read and after, where the policy compares them.
    headers: (S::Word, S::Word),
}

/// End of a leaf, as its tile knows it after reading the pairs.
struct End<K> {
    high: K,
    link: Handle,
    /// Whether no pair was shifted while the pairs were read.
    is_settled: bool,
}

impl<S: Slot, const W: u32, const L: usize> Leaf<S, W, L> {
    /// Returns the lane that has the tail.
    const fn owner<A: Access>() -> u32 {
        if A::CONCURRENT { 0 } else { W - 1 }
    }

    /// Returns the leaf's high key, for the whole tile.
    #[device(caller)]
    fn high<A: Access>(&self, tile: Tile<W, impl Convergence>) -> S::Stored {
        tile.shuffle(S::key(self.tail), Self::owner::<A>())
    }

    /// Decodes the tail, for the whole tile.
    #[device(caller)]
    fn end<A: Access>(&self, tile: Tile<W, impl Convergence>, wanted: bool) -> End<S::Stored> {
        let (before, now) = self.headers;
        let is_settled = !(A::CONCURRENT && A::SORTED) || is_settled::<S, W>(tile, wanted, before, now);
        let link = tile.shuffle(handle_of(S::value(self.tail)), Self::owner::<A>());
        End { high: self.high::<A>(tile), link, is_settled }
    }
}

/// The keys wanted of a leaf, as they are stored; if there are none, the blank key.
#[derive(Clone, Copy)]
struct Wanted<K> {
    low: K,
    /// Difference between the highest and the lowest key.
    span: K,
}

#[device]
impl<K: Scalar> Wanted<K> {
    /// Returns the keys from `low` to `high`; none if `low` is above `high`.
    fn new(low: K, high: K) -> Self {
        if low <= high { Self::between(low, high) } else { Self::between(K::MAX, K::MAX) }
    }

    /// Returns the keys from `low` to `high`, which is not below `low`.
    fn between(low: K, high: K) -> Self {
        Self { low, span: K::from_u64(high.to_u64().wrapping_sub(low.to_u64())) }
    }

    fn has(self, key: K) -> bool {
        K::from_u64(key.to_u64().wrapping_sub(self.low.to_u64())) <= self.span
    }

    /// Whether there are any. The blank key is no pair's.
    fn any(self) -> bool {
        self.low != K::MAX
    }
}

/// The current range, as every lane of its tile knows it.
struct Pass<T: Types, const W: u32, const L: usize> {
    tree: Nodes<T, W, L>,
    from: Stored<T>,
    to: Stored<T>,
    /// Destination of the pairs.
    sink: Sink<Key<T>, Value<T>>,
    /// Index there of the first pair that is not written yet.
    next: u64,
    /// Number of pairs that may still be written.
    left: u32,
    /// Staging area for pairs that are not written yet.
    stage: Staging<T::Slot, W, L>,
    /// Number of staged pairs.
    held: u32,
    /// The next node.
    at: Handle,
    /// Whether it is a leaf, as far as is known.
    is_leaf: bool,
    /// An inner node above the leaves, and its low key: a descent to a key not below that may begin there.
    /// Initially the root.
    parent: (Handle, Stored<T>),
    /// The key to which the tile descends.
    target: Stored<T>,
    /// Number of pairs found, where they are not written.
    found: u64,
    /// The pair found by a query for one pair.
    pair: (Stored<T>, Value<T>),
}

impl<T: Types, const W: u32, const L: usize> Pass<T, W, L> {
    /// Descends, and goes through the leaves to the end of the range, if it is `open`. The tiles of a warp
    /// descend together and go through leaves together, because a warp executes divergent tiles one after the
    /// other.
    #[device]
    fn run<Q: Seek>(&mut self, tile: Tile<W, impl Convergence>, mut open: bool) {
        loop {
            while tile.any_converged(open && !self.is_leaf) {
                self.descend::<Q>(tile, open && !self.is_leaf);
            }
            open &= !self.visit::<Q>(tile, open);
            let goes_on = tile.any_converged(open);
            if Self::stages::<Q>() && (!goes_on || tile.any_converged(self.is_stage_full())) {
                self.flush(tile);
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Reads an inner node and goes on from it.
    #[device]
    fn descend<Q: Seek>(&mut self, tile: Tile<W, impl Convergence>, looks: bool) {
        // mutation: early equivalent, because inner nodes may be read as they were at any earlier time: links
        // lead from there to the key.
        let read = self.tree.node(self.at).read(tile.rank(), looks, T::Access::READ);
        let step = SearchStep::of(tile, &read, self.target);
        let (node, low) = (self.at, if Q::DOWN { read.header(tile).0 } else { self.from });
        if !looks {
            return;
        }
        if Q::TRACES {
            self.found += Trace::step(step.meta, step.beyond);
        }
        if step.meta.is_leaf() {
            self.is_leaf = true;
        } else if !step.found {
            self.at = ROOT;
        } else {
            self.at = handle_of(step.value);
            self.is_leaf = !step.beyond && step.meta.level() == 1;
            if Q::DOWN && self.is_leaf {
                self.parent = (node, low);
            }
        }
    }

    /// Reads a leaf in an order that makes its tail valid for its pairs.
    #[device]
    fn leaf<Q: Seek>(&self, tile: Tile<W, impl Convergence>, wanted: bool) -> Leaf<T::Slot, W, L> {
        let node = self.tree.node(self.at);
        let order = if T::Access::CONCURRENT { Order::Acquire } else { T::Access::READ };
        if T::Access::MERGES {
            // The barrier passes on the fence of the lane that read the previous tail to all lanes.
            tile.sync();
        }
        // Where low keys fall, this load must be older than those of the pairs: the low key tells whether
        // there are more pairs in the leaves before.
        let mut header = T::Slot::EMPTY;
        if T::Access::SORTED {
            if wanted {
                // mutation: early load performance, because the leaf is read again if the header has changed.
                header = node.header().load(order, Scope::Device);
            }
        } else if T::Access::MERGES && Q::DOWN {
            if wanted && tile.rank() == 0 {
                // mutation: early load performance, because low keys only fall: with an older one the leaf is
                // read again.
                // mutation: relaxed load Acquire 16 unreached, because the test of merges in the PTX memory
                // model has pairs of 8 bytes.
                header = node.header().load(order, Scope::Device);
            }
            tile.sync();
        }
        let read = node.read(tile.rank(), wanted, order);
        let (low, meta) = read.header(tile);
        let low = if T::Access::MERGES && Q::DOWN { tile.shuffle(T::Slot::key(header), 0) } else { low };
        if !T::Access::CONCURRENT {
            return Leaf { read, low, meta, tail: read.words()[L - 1], headers: (header, header) };
        }
        // One lane reads the tail for all, after the pairs of all.
        tile.sync();
        let asks = wanted && tile.rank() == 0;
        // SAFETY: the word lies in the node.
        let [tail] = unsafe { node.tail().load_vec_if::<1>(asks, Order::Relaxed, Scope::Device) };
        let mut again = header;
        if T::Access::SORTED && asks {
            again = node.header().load(Order::Relaxed, Scope::Device);
        }
        let leaf = Leaf { read, low, meta, tail, headers: (header, again) };
        if VersionsOf::<T>::VERSIONED && tile.any_converged(self.tree.may_read_other_version()) {
            let high = leaf.high::<T::Access>(tile);
            // The meta of a blank slab says that it is no leaf.
            let is_asked = wanted && meta.is_leaf() && self.target <= high;
            let (read, is_leaf) = self.tree.as_of(tile, node, is_asked, read);
            let meta = if is_leaf { meta } else { Meta::read(T::Slot::value(T::Slot::EMPTY)) };
            return Leaf { read, meta, ..leaf };
        }
        leaf
    }

    /// Returns the keys from `low` to `high` that the range wants of a leaf.
    #[device]
    fn wanted<Q: Seek>(
        &self,
        leaf: &Leaf<T::Slot, W, L>,
        low: Stored<T>,
        high: Stored<T>,
    ) -> Wanted<Stored<T>> {
        if self.at != RESERVED_LEAF {
            // An old version may have keys that another leaf now covers.
            let low = if VersionsOf::<T>::VERSIONED || Self::low_keys_may_fall::<Q>() {
                // mutation: skip recheck equivalent, because upward queries look for keys from a target on
                // that is not lower, and a key of an old version is one of the snapshot's, whatever leaf
                // covers it now.
                if recheck(low >= leaf.low) { low } else { leaf.low }
            } else {
                low
            };
            return Wanted::new(low, self.to.min(high));
        }
        // The reserved leaf's only key is stored as 0.
        let asked = self.to == T::Slot::key(T::Slot::EMPTY);
        Wanted::new(Stored::<T>::from_u64(!asked as u64), Stored::<T>::from_u64(0))
    }

    /// Returns the keys that a range wants of a leaf, wherever the leaf ends.
    #[device]
    fn wanted_of_all<Q: Seek>(&self, leaf: &Leaf<T::Slot, W, L>) -> Wanted<Stored<T>> {
        let highest = Stored::<T>::MAX;
        if T::Access::MERGES {
            // Pairs of earlier leaves may have moved here; they were already seen there.
            return self.wanted::<Q>(leaf, self.from, highest);
        }
        if VersionsOf::<T>::VERSIONED {
            return self.wanted::<Q>(leaf, self.target, highest);
        }
        // The target is where the range begins in this leaf: the range's lower end, and then each leaf's. At
        // the reserved leaf the range wants its only key.
        Wanted::between(self.target, self.to)
    }

    /// Returns the user's key of a stored key.
    #[device]
    fn true_key(&self, key: Stored<T>) -> Stored<T> {
        if self.at == RESERVED_LEAF { T::Slot::key(T::Slot::EMPTY) } else { key }
    }

    /// Returns the pair with the user's key.
    #[device]
    fn true_word(&self, word: WordOf<T>) -> WordOf<T> {
        T::Slot::pack(self.true_key(T::Slot::key(word)), T::Slot::value(word))
    }

    /// Returns the leaf's sorted pairs, their number, and the end of the leaf, which says whether the pairs
    /// are valid. The pairs are sorted before anything else is needed, while the load of the tail is in
    /// flight.
    #[device]
    fn in_order<Q: Seek>(
        &self,
        tile: Tile<W, impl Convergence>,
        open: bool,
        leaf: &Leaf<T::Slot, W, L>,
    ) -> (Ordered<T::Slot, W, L>, u32, End<Stored<T>>) {
        let wanted = self.wanted_of_all::<Q>(leaf);
        let pairs = leaf.read.ordered(tile, |key| wanted.has(key));
        let end = leaf.end::<T::Access>(tile, open);
        let pairs = pairs.up_to(end.high);
        if T::Access::CONCURRENT && !T::Access::SORTED {
            // A pair that was removed and inserted again meanwhile may have been seen in both slots.
            let (count, twice) = pairs.count_twice(tile);
            return (pairs, count, End { is_settled: end.is_settled && !twice, ..end });
        }
        (pairs, pairs.count(tile), end)
    }

    /// Processes the pairs of a leaf. Returns whether the range ends here.
    #[device]
    fn visit<Q: Seek>(&mut self, tile: Tile<W, impl Convergence>, open: bool) -> bool {
        let leaf = self.leaf::<Q>(tile, open);
        let (mut pairs, mut many) = (None, 0);
        let end;
        if Q::ALL {
            let (ordered, count, known) = self.in_order::<Q>(tile, open, &leaf);
            (pairs, many, end) = (Some(ordered), count, known);
        } else {
            end = leaf.end::<T::Access>(tile, open);
        }
        // A merge stores the pairs in the next leaf before it lowers that leaf's low key. Until it has, the
        // leaf is read again.
        let is_low = !Self::low_keys_may_fall::<Q>() || self.at == RESERVED_LEAF || leaf.low <= self.target;
        let end = End { is_settled: end.is_settled && is_low, ..end };
        // On the way to the right every leaf counts except a zombie, which is passed, behind a fence.
        let is_zombie =
            T::Access::MERGES && end.high.to_u64() == 0 && self.at != FIRST_LEAF && self.at != RESERVED_LEAF;
        let is_leaf = leaf.meta.is_leaf() && !is_zombie;
        let counts = open && is_leaf && end.is_settled && self.target <= end.high;
        if Q::TRACES {
            let linked = leaf.meta.is_leaf() && !counts;
            self.found += if open { Trace::step(leaf.meta, linked) } else { 0 };
        } else if Q::ONE {
            self.pick(tile, counts, &leaf.read, self.wanted::<Q>(&leaf, self.from, end.high), Q::DOWN);
        } else if let Some(pairs) = pairs.filter(|_| Q::TAKES) {
            self.take::<Q>(&pairs, counts, if counts { many } else { 0 });
        } else {
            self.found += if counts { many as u64 } else { 0 };
        }
        open && self.go_on::<Q>(&leaf, &end, counts)
    }

    /// Whether the search goes downwards through leaves whose low keys may fall, because other leaves merge
    /// into them. Such a search knows a leaf's pairs only from the low key on that it read before them: pairs
    /// below arrive one by one, the highest not first.
    const fn low_keys_may_fall<Q: Seek>() -> bool {
        T::Access::MERGES && Q::DOWN
    }

    /// Records the lowest or highest wanted pair of a leaf, if there is one.
    #[device]
    fn pick(
        &mut self,
        tile: Tile<W, impl Convergence>,
        counts: bool,
        read: &Lane<T::Slot, L>,
        wanted: Wanted<Stored<T>>,
        highest: bool,
    ) {
        let count = read.count(tile, |word| wanted.has(T::Slot::key(word)));
        let (key, value) = read.outermost(tile, highest, |key| wanted.has(key));
        if counts && wanted.any() && count > 0 {
            (self.pair, self.found) = ((self.true_key(key), value), 1);
        }
    }

    /// Stages or writes the `count` pairs of a leaf, if it `counts`.
    #[device]
    fn take<Q: Seek>(&mut self, pairs: &Ordered<T::Slot, W, L>, counts: bool, count: u32) {
        if Self::stages::<Q>() {
            // SAFETY: as below; lanes that have no pairs store nothing there.
            let places = unsafe { self.stage.from(self.held + pairs.first()) };
            pairs.each(|place, word| {
                if counts {
                    // Where the user's key differs from the stored one, there is only one pair.
                    let word = if place == 0 { self.true_word(word) } else { word };
                    // SAFETY: so few pairs are staged that another leaf's fit: see `is_stage_full`.
                    unsafe { places.put(place, word) };
                }
            });
            self.held += count;
            return;
        }
        pairs.each(|place, word| {
            let place = pairs.first() + place;
            if counts && place < self.left {
                // mutation: late store equivalent, because the caller reads the output after the query.
                self.sink.put::<T::Slot>(self.next + place as u64, self.true_word(word));
            }
        });
        self.advance(count);
    }

    /// Whether pairs are staged before they are written.
    const fn stages<Q: Seek>() -> bool {
        Q::STAGES && Staging::<T::Slot, W, L>::PAYS
    }

    /// Whether another leaf's pairs might not fit in the staging area.
    #[device]
    fn is_stage_full(&self) -> bool {
        self.held > Staging::<T::Slot, W, L>::ROOM - Node::<T::Slot, W, L>::SLOTS
    }

    /// Writes the staged pairs, up to the capacity of the destination.
    #[device]
    fn flush(&mut self, tile: Tile<W, impl Convergence>) {
        tile.sync();
        let (many, stage) = (self.held.min(self.left), self.stage);
        // SAFETY: at least `many` pairs are staged.
        // mutation: late store equivalent, because the caller reads the output after the query.
        self.sink.put_all::<T::Slot, W>(tile, self.next, many, |place| unsafe { stage.get(place) });
        tile.sync();
        self.advance(self.held);
        self.held = 0;
    }

    /// Advances the destination by `many` pairs, or by as many as it had space for.
    #[device]
    fn advance(&mut self, many: u32) {
        let many = many.min(self.left);
        (self.next, self.left) = (self.next + many as u64, self.left - many);
    }

    /// Chooses the next leaf. Returns whether the range ends here.
    #[device]
    fn go_on<Q: Seek>(&mut self, leaf: &Leaf<T::Slot, W, L>, end: &End<Stored<T>>, counts: bool) -> bool {
        self.is_leaf = leaf.meta.is_leaf();
        if counts && Q::ONE && self.found > 0 {
            return true;
        }
        if counts && Q::DOWN {
            return self.go_down(leaf);
        }
        if T::Access::MERGES && counts && end.high >= self.from && self.at != RESERVED_LEAF {
            // A merge may move pairs of this leaf, which were seen here, to the next one.
            self.from = Stored::<T>::from_u64(end.high.to_u64() + 1);
        }
        if T::Access::MERGES && !counts && self.is_leaf {
            // The pairs of a merged leaf must be visible where its link leads.
            fence(Scope::Device);
        }
        // Go on by the link if the leaf was processed or does not cover the target; read the leaf again if it
        // is not settled or is still a blank slab.
        self.at = if self.is_leaf && end.is_settled { end.link } else { self.at };
        self.target = if counts { Self::after(end) } else { self.target };
        let is_full = Q::TAKES && self.held >= self.left;
        counts && (end.high >= self.to || end.link.is_none() || is_full)
    }

    /// Returns the lowest key, as it is stored, of the leaf that follows: of the reserved leaf its only one.
    #[device]
    fn after(end: &End<Stored<T>>) -> Stored<T> {
        Stored::<T>::from_u64(if end.link == RESERVED_LEAF { 0 } else { end.high.to_u64().wrapping_add(1) })
    }

    /// Goes to the previous leaf, by its highest possible key: from the leaf's parent, or from the root if
    /// the parent begins with this leaf. An inner node keeps its low key and its entries forever, so an old
    /// parent leads there too.
    #[device]
    fn go_down(&mut self, leaf: &Leaf<T::Slot, W, L>) -> bool {
        let is_reserved = self.at == RESERVED_LEAF;
        if !is_reserved && leaf.low <= self.from {
            return true;
        }
        let below = Stored::<T>::from_u64(leaf.low.to_u64().wrapping_sub(1));
        self.target = if is_reserved { largest::<T::Slot>() } else { below };
        let (parent, low) = self.parent;
        (self.at, self.is_leaf) = (if low <= self.target { parent } else { ROOT }, false);
        is_reserved && self.from > largest::<T::Slot>()
    }
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Returns the timestamp at which ranges are answered: the view's or, if the view reads the current state
    /// and the clock moves, one taken during this call.
    fn question_moment(self, tile: Tile<W, impl Convergence>) -> u32 {
        let at = self.versions.read_timestamp();
        if !VersionsOf::<T>::CLOCK_MOVES || at != LATEST {
            return at;
        }
        self.snapshot(tile)
    }

    /// Executes the query of each lane that is `pending`, each by its tile, and returns to each lane its own
    /// answer: nothing if `from` is above `to`. [`Collect`] requires blocks of 128 threads at most.
    pub fn seek<Q: Seek>(
        self,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        span: Span<Key<T>>,
        sink: Sink<Key<T>, Value<T>>,
    ) -> Answer<Key<T>, Value<T>> {
        let pending = pending & (span.from <= span.to);
        let tree = self.at(self.question_moment(tile));
        let stored = |key: Key<T>| Stored::<T>::from_u64(key.to_u64());
        let (from, to) = (stored(span.from), stored(span.to));
        let start = self.start(if Q::DOWN { to } else { from }, pending);
        let room = if Q::TAKES { sink.room(span.offset, span.room) } else { 0 };
        let zero = Stored::<T>::from_u64(0);
        let (mut answer, mut written) = ((0, (zero, Value::<T>::from_u64(0))), 0);
        let stages = Pass::<T, W, L>::stages::<Q>();
        let stage = if stages { Staging::of(tile) } else { Staging::none() };
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.next_op() {
            let (from, to) = (turn.from_owner(from), turn.from_owner(to));
            let mut pass = Pass {
                tree,
                from,
                to,
                sink,
                next: if Q::TAKES { turn.from_owner(span.offset) } else { 0 },
                left: if Q::TAKES { turn.from_owner(room) } else { 0 },
                stage,
                held: 0,
                at: turn.from_owner(start.node),
                is_leaf: false,
                parent: (ROOT, zero),
                target: Start::<T::Slot>::of(if Q::DOWN { to } else { from }).key,
                found: 0,
                pair: (zero, Value::<T>::from_u64(0)),
            };
            pass.is_leaf = pass.at == RESERVED_LEAF;
            pass.run::<Q>(tile, turn.is_active());
            if turn.is_mine() {
                (answer, written) = ((pass.found, pass.pair), room - pass.left);
            }
            queue.finish();
        }
        let (found, (key, value)) = answer;
        let count = if Q::TAKES { written as u64 } else { found };
        Answer { count, key: Key::<T>::from_u64(key.to_u64()), value }
    }
}
