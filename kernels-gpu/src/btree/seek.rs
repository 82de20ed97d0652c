//! What goes by the order of keys: the first or last pair in a range, the pairs in it, and how many they are.
//!
//! A tile walks down to the leaf of the range's end and from leaf to leaf by their links. Downwards it walks
//! from the leaf's parent again, or from the root, to the leaf that ends before the one it has seen. A leaf's
//! pairs are read by acquiring loads and its tail after them: what that says is then true of them (see
//! `docs/structures/btree.md`, *Reading a leaf*).
use super::super::slab::{Handle, Pool};
use super::access::Access;
use super::history::{LATEST, Versions};
use super::node::{Lead, Meta, Node, Ordered, Read, handle_of};
use super::sink::Sink;
use super::stage::Stage;
use super::tree::{ANNEX, FIRST, ROOT, Start, Tree, TreeView, largest};
use crate::keyed::{Scalar, Slot};
use simt::{Convergence, Order, Queue, Scope, Tile, fence};

/// What is asked of a range.
pub trait Seek: Copy + Send + Sync + 'static {
    /// From the upper end downwards.
    const DOWN: bool;
    /// The pair that comes first, and no other.
    const ONE: bool;
    /// The pairs themselves.
    const TAKES: bool;
    /// Pairs wait in the memory of the block until several are written at once, where that pays: blocks have
    /// 128 threads at most.
    const STAGES: bool = false;
    /// Nothing of the pairs: which nodes are read. Then [`Answer::count`] is a [`Trace`]'s.
    const TRACES: bool = false;
    /// All pairs, each once.
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
    /// The lowest key, and its value.
    Lowest: down false, one true, takes false, stages false;
    /// The highest key, and its value.
    Highest: down true, one true, takes false, stages false;
    /// How many there are.
    Count: down false, one false, takes false, stages false;
    /// The pairs, in the order of keys. In blocks of more than 128 threads the launch ends: [`CollectWide`]
    /// is for those.
    Collect: down false, one false, takes true, stages true;
    /// [`Collect`] in blocks of any size. Slower: each pair is written where it belongs at once.
    CollectWide: down false, one false, takes true, stages false;
}

/// The nodes that are read on the way to a key, packed in bytes: how many leaves, how many of each level
/// above them, in the seventh byte those of all levels further up, and in the eighth how many links were
/// followed.
#[derive(Clone, Copy, Debug)]
pub struct Trace;

impl Seek for Trace {
    const DOWN: bool = false;
    const ONE: bool = false;
    const TAKES: bool = false;
    const TRACES: bool = true;
}

impl Trace {
    /// A node that was read.
    #[inline(always)]
    const fn step(meta: Meta, linked: bool) -> u64 {
        let level = if meta.level() < 6 { meta.level() } else { 6 };
        1 << (8 * level) | (linked as u64) << 56
    }
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
    /// Its tail, as the lane [`Self::end`] asks has it: on its way yet, so nothing waits for it before it
    /// must.
    tail: S::Word,
    /// The header before the pairs were read and after, where that tells anything.
    headers: (S::Word, S::Word),
}

/// Where a leaf ends, as its tile knows it after its pairs.
struct End<K> {
    high: K,
    link: Handle,
    /// Nothing was shifted while the pairs were read.
    is_settled: bool,
}

impl<S: Slot, const W: u32, const L: usize> Leaf<S, W, L> {
    /// The lane that has its tail.
    const fn owner<A: Access>() -> u32 {
        if A::LOOKS_AGAIN { 0 } else { W - 1 }
    }

    /// Its highest possible key, for the whole tile.
    #[inline(always)]
    #[track_caller]
    fn high<A: Access, C: Convergence>(&self, tile: Tile<W, C>) -> S::Stored {
        tile.shuffle(S::key(self.tail), Self::owner::<A>())
    }

    /// What its tail says, for the whole tile.
    #[inline(always)]
    #[track_caller]
    fn end<A: Access, C: Convergence>(&self, tile: Tile<W, C>, wanted: bool) -> End<S::Stored> {
        let (before, now) = self.headers;
        let is_settled = !(A::LOOKS_AGAIN && A::SORTED) || is_settled::<S, W, C>(tile, wanted, before, now);
        let link = tile.shuffle(handle_of(S::value(self.tail)), Self::owner::<A>());
        End { high: self.high::<A, C>(tile), link, is_settled }
    }
}

/// Whether each lane of the tile, where it is `wanted`, has seen a leaf's header before that is the first
/// lane's now, and free.
#[inline(always)]
#[track_caller]
pub(crate) fn is_settled<S: Slot, const W: u32, C: Convergence>(
    tile: Tile<W, C>,
    wanted: bool,
    before: S::Word,
    now: S::Word,
) -> bool {
    let (before, now) = (Meta::read(S::value(before)), Meta::read(tile.shuffle(S::value(now), 0)));
    tile.all(!wanted || (before == now && !now.is_latched()))
}

/// The keys of a leaf that are wanted, as they are stored; where there are none, the blank one.
#[derive(Clone, Copy)]
struct Wanted<K> {
    low: K,
    /// How far the highest is above it.
    span: K,
}

impl<K: Scalar> Wanted<K> {
    /// Those from `low` to `high`; none where `low` is above it.
    #[inline(always)]
    fn new(low: K, high: K) -> Self {
        if low <= high { Self::between(low, high) } else { Self::between(K::MAX, K::MAX) }
    }

    /// Those from `low` to `high`, which is not below it.
    #[inline(always)]
    fn between(low: K, high: K) -> Self {
        Self { low, span: K::from_u64(high.to_u64().wrapping_sub(low.to_u64())) }
    }

    #[inline(always)]
    fn has(self, key: K) -> bool {
        K::from_u64(key.to_u64().wrapping_sub(self.low.to_u64())) <= self.span
    }

    /// Whether there are any: the blank key is no pair's.
    #[inline(always)]
    fn any(self) -> bool {
        self.low != K::MAX
    }
}

/// The range whose turn it is, as every lane of its tile knows it.
struct Pass<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> {
    tree: TreeView<Tree<S, P, A, W, L>>,
    from: S::Stored,
    to: S::Stored,
    /// Where pairs go.
    sink: Sink<S::Key, S::Value>,
    /// The place there of the first one that is not written.
    next: u64,
    /// How many places there are from it on.
    left: u32,
    /// Where pairs are held until they are written.
    stage: Stage<S, W, L>,
    /// How many are.
    held: u32,
    /// The node that is next.
    at: Handle,
    /// It is a leaf, as far as is known.
    is_leaf: bool,
    /// An inner node above leaves, and its low key: a walk to a key from there on may begin at it. The root
    /// at first.
    parent: (Handle, S::Stored),
    /// The key that the tile walks down to.
    target: S::Stored,
    /// Pairs that were found, where they are not written.
    found: u64,
    /// The pair that was asked for.
    pair: (S::Stored, S::Value),
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> Pass<S, P, A, W, L> {
    /// Walks down, and through the leaves, to the range's end, where it is `open`. The tiles of a warp go
    /// down together and through leaves together: a warp executes what any of its tiles is at.
    #[inline(always)]
    fn run<Q: Seek, C: Convergence>(&mut self, tile: Tile<W, C>, mut open: bool) {
        loop {
            while tile.any_converged(open && !self.is_leaf) {
                self.descend::<Q, C>(tile, open && !self.is_leaf);
            }
            open &= !self.visit::<Q, C>(tile, open);
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
    #[inline(always)]
    fn descend<Q: Seek, C: Convergence>(&mut self, tile: Tile<W, C>, looks: bool) {
        let read = self.tree.node(self.at).read(tile.rank(), looks, A::READ);
        let lead = Lead::of(tile, &read, self.target);
        let (node, low) = (self.at, if Q::DOWN { read.header(tile).0 } else { self.from });
        if !looks {
            return;
        }
        if Q::TRACES {
            self.found += Trace::step(lead.meta, lead.beyond);
        }
        if lead.meta.is_leaf() {
            self.is_leaf = true;
        } else if !lead.found {
            self.at = ROOT;
        } else {
            self.at = handle_of(lead.value);
            self.is_leaf = !lead.beyond && lead.meta.level() == 1;
            if Q::DOWN && self.is_leaf {
                self.parent = (node, low);
            }
        }
    }

    /// Reads a leaf so that its tail is true of its pairs.
    #[inline(always)]
    fn leaf<Q: Seek, C: Convergence>(&self, tile: Tile<W, C>, wanted: bool) -> Leaf<S, W, L> {
        let node = self.tree.node(self.at);
        let order = if A::CONCURRENT { A::PAIRS } else { A::READ };
        if A::MERGES {
            // What the lane that read the last tail has fenced for, all see.
            tile.sync();
        }
        // Where low keys fall, this one must be older than the pairs: it tells whether there are more before
        // them.
        let mut header = S::EMPTY;
        if A::SORTED {
            if wanted {
                header = node.header().load(order, Scope::Device);
            }
        } else if A::MERGES && Q::DOWN {
            if wanted && tile.rank() == 0 {
                header = node.header().load(order, Scope::Device);
            }
            tile.sync();
        }
        let read = node.read(tile.rank(), wanted, order);
        let (low, meta) = read.header(tile);
        let low = if A::MERGES && Q::DOWN { tile.shuffle(S::key(header), 0) } else { low };
        if !A::LOOKS_AGAIN {
            return Leaf { read, low, meta, tail: read.words()[L - 1], headers: (header, header) };
        }
        // One lane reads it for all, after the pairs of all.
        tile.sync();
        let asks = wanted && tile.rank() == 0;
        // SAFETY: the word lies in the node.
        let [tail] = unsafe { node.tail().load_vec_if::<1>(asks, A::TAIL, Scope::Device) };
        let mut again = header;
        if A::SORTED && asks {
            again = node.header().load(Order::Relaxed, Scope::Device);
        }
        let leaf = Leaf { read, low, meta, tail, headers: (header, again) };
        if A::Versions::KEEPS && tile.any_converged(self.tree.doubts()) {
            let high = leaf.high::<A, C>(tile);
            // A blank slab's meta says that it is no leaf.
            let is_asked = wanted && meta.is_leaf() && self.target <= high;
            let (read, is_leaf) = self.tree.as_of(tile, node, is_asked, read);
            let meta = if is_leaf { meta } else { Meta::read(S::value(S::EMPTY)) };
            return Leaf { read, meta, ..leaf };
        }
        leaf
    }

    /// The keys from `low` to `high` that the range wants of a leaf.
    #[inline(always)]
    fn wanted<Q: Seek>(&self, leaf: &Leaf<S, W, L>, low: S::Stored, high: S::Stored) -> Wanted<S::Stored> {
        if self.at != ANNEX {
            // An old version may have keys that are another leaf's now.
            let low = if A::Versions::KEEPS || Self::lows_fall::<Q>() { low.max(leaf.low) } else { low };
            return Wanted::new(low, self.to.min(high));
        }
        // Its one key is stored as 0.
        let asked = self.to == S::key(S::EMPTY);
        Wanted::new(S::Stored::from_u64(!asked as u64), S::Stored::from_u64(0))
    }

    /// The keys that a range wants of a leaf, wherever the leaf ends.
    #[inline(always)]
    fn wanted_of_all<Q: Seek>(&self, leaf: &Leaf<S, W, L>) -> Wanted<S::Stored> {
        let highest = S::Stored::MAX;
        if A::MERGES {
            // Pairs of leaves before may have come, which were seen there.
            return self.wanted::<Q>(leaf, self.from, highest);
        }
        if A::Versions::KEEPS {
            return self.wanted::<Q>(leaf, self.target, highest);
        }
        // What the tile walks to is where it is to begin: the range's lower end, and then each leaf's. Who is
        // at the annex wants all that it has.
        Wanted::between(self.target, self.to)
    }

    /// The user's key of one that is stored.
    #[inline(always)]
    fn true_key(&self, key: S::Stored) -> S::Stored {
        if self.at == ANNEX { S::key(S::EMPTY) } else { key }
    }

    /// The pair of the user's key.
    #[inline(always)]
    fn true_word(&self, word: S::Word) -> S::Word {
        S::pack(self.true_key(S::key(word)), S::value(word))
    }

    /// The leaf's pairs in order, how many they are, where it ends, and whether that can be believed. They
    /// are put in order before anything else is asked: meanwhile the leaf's tail arrives.
    #[inline(always)]
    fn in_order<Q: Seek, C: Convergence>(
        &self,
        tile: Tile<W, C>,
        open: bool,
        leaf: &Leaf<S, W, L>,
    ) -> (Ordered<S, W, L>, u32, End<S::Stored>) {
        let wanted = self.wanted_of_all::<Q>(leaf);
        let pairs = leaf.read.ordered(tile, |key| wanted.has(key));
        let end = leaf.end::<A, C>(tile, open);
        let pairs = pairs.up_to(end.high);
        if A::CONCURRENT && !A::SORTED {
            // A pair that was removed and inserted again meanwhile may have been seen at both places.
            let (count, twice) = pairs.count_twice(tile);
            return (pairs, count, End { is_settled: end.is_settled && !twice, ..end });
        }
        (pairs, pairs.count(tile), end)
    }

    /// Deals with the pairs of a leaf. Returns whether the range ends here.
    #[inline(always)]
    fn visit<Q: Seek, C: Convergence>(&mut self, tile: Tile<W, C>, open: bool) -> bool {
        let leaf = self.leaf::<Q, C>(tile, open);
        let (mut pairs, mut many) = (None, 0);
        let end;
        if Q::ALL {
            let (ordered, count, known) = self.in_order::<Q, C>(tile, open, &leaf);
            (pairs, many, end) = (Some(ordered), count, known);
        } else {
            end = leaf.end::<A, C>(tile, open);
        }
        // A leaf that others merge into has their pairs first and their low key then. Until it has, it is
        // read again.
        let is_low = !Self::lows_fall::<Q>() || self.at == ANNEX || leaf.low <= self.target;
        let end = End { is_settled: end.is_settled && is_low, ..end };
        // On the way to the right every leaf counts, but not one that has merged: that is passed, behind a
        // fence.
        let is_zombie = A::MERGES && end.high.to_u64() == 0 && self.at != FIRST && self.at != ANNEX;
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

    /// Whether the search goes downwards through leaves whose low keys may fall, as they do where others
    /// merge into them. It then knows of a leaf's pairs only from the low key on that it read before them:
    /// pairs below come one by one, the highest not first.
    const fn lows_fall<Q: Seek>() -> bool {
        A::MERGES && Q::DOWN
    }

    /// Notes the lowest or highest pair of a leaf that is wanted, if there is one.
    #[inline(always)]
    fn pick<C: Convergence>(
        &mut self,
        tile: Tile<W, C>,
        counts: bool,
        read: &Read<S, W, L>,
        wanted: Wanted<S::Stored>,
        highest: bool,
    ) {
        let count = read.count(tile, |word| wanted.has(S::key(word)));
        let (key, value) = read.outermost(tile, highest, |key| wanted.has(key));
        if counts && wanted.any() && count > 0 {
            (self.pair, self.found) = ((self.true_key(key), value), 1);
        }
    }

    /// Puts the pairs of a leaf that `counts`, `count` of them, where they belong.
    #[inline(always)]
    fn take<Q: Seek>(&mut self, pairs: &Ordered<S, W, L>, counts: bool, count: u32) {
        if Self::stages::<Q>() {
            // SAFETY: as below; lanes that have no pairs put nothing there.
            let places = unsafe { self.stage.from(self.held + pairs.first()) };
            pairs.each(|place, word| {
                if counts {
                    // Where the key is another one there is but one pair.
                    let word = if place == 0 { self.true_word(word) } else { word };
                    // SAFETY: fewer are held than leave room for a leaf's: see `is_stage_full`.
                    unsafe { places.put(place, word) };
                }
            });
            self.held += count;
            return;
        }
        pairs.each(|place, word| {
            let place = pairs.first() + place;
            if counts && place < self.left {
                self.sink.put::<S>(self.next + place as u64, self.true_word(word));
            }
        });
        self.advance(count);
    }

    /// Whether pairs are held before they are written.
    const fn stages<Q: Seek>() -> bool {
        Q::STAGES && Stage::<S, W, L>::PAYS
    }

    /// Whether another leaf's pairs might not be held beside those that are.
    #[inline(always)]
    fn is_stage_full(&self) -> bool {
        self.held > Stage::<S, W, L>::ROOM - Node::<S, W, L>::SLOTS
    }

    /// Writes what the tile holds, as far as there is room for it.
    #[inline(always)]
    fn flush<C: Convergence>(&mut self, tile: Tile<W, C>) {
        tile.sync();
        let (many, stage) = (self.held.min(self.left), self.stage);
        // SAFETY: so many are held.
        self.sink.put_all::<S, W, C>(tile, self.next, many, |place| unsafe { stage.get(place) });
        tile.sync();
        self.advance(self.held);
        self.held = 0;
    }

    /// So many more are written, or all that there was room for.
    #[inline(always)]
    fn advance(&mut self, many: u32) {
        let many = many.min(self.left);
        (self.next, self.left) = (self.next + many as u64, self.left - many);
    }

    /// Where to from a leaf. Returns whether the range ends there.
    #[inline(always)]
    fn go_on<Q: Seek>(&mut self, leaf: &Leaf<S, W, L>, end: &End<S::Stored>, counts: bool) -> bool {
        self.is_leaf = leaf.meta.is_leaf();
        if counts && Q::ONE && self.found > 0 {
            return true;
        }
        if counts && Q::DOWN {
            return self.go_down(leaf);
        }
        if A::MERGES && counts && end.high >= self.from && self.at != ANNEX {
            // The next leaf may be given pairs of this one, which were seen here.
            self.from = S::Stored::from_u64(end.high.to_u64() + 1);
        }
        if A::MERGES && !counts && self.is_leaf {
            // Of a leaf that has merged the pairs are seen where its link leads to.
            fence(Scope::Device);
        }
        // Looked through, or what is looked for is further on; or it was a blank slab, which is looked at
        // again.
        self.at = if self.is_leaf && end.is_settled { end.link } else { self.at };
        self.target = if counts { Self::after(end) } else { self.target };
        let is_full = Q::TAKES && self.held >= self.left;
        counts && (end.high >= self.to || end.link.is_none() || is_full)
    }

    /// The lowest key, as it is stored, of the leaf that a leaf leads to: of the annex its only one.
    #[inline(always)]
    fn after(end: &End<S::Stored>) -> S::Stored {
        S::Stored::from_u64(if end.link == ANNEX { 0 } else { end.high.to_u64().wrapping_add(1) })
    }

    /// To the leaf before, by its highest possible key: from the leaf's parent on, or from the root where the
    /// parent begins with this leaf. An inner node keeps its low key and its entries for ever, so an old
    /// parent leads there too.
    #[inline(always)]
    fn go_down(&mut self, leaf: &Leaf<S, W, L>) -> bool {
        let is_annex = self.at == ANNEX;
        if !is_annex && leaf.low <= self.from {
            return true;
        }
        let below = S::Stored::from_u64(leaf.low.to_u64().wrapping_sub(1));
        self.target = if is_annex { largest::<S>() } else { below };
        let (parent, low) = self.parent;
        (self.at, self.is_leaf) = (if low <= self.target { parent } else { ROOT }, false);
        is_annex && self.from > largest::<S>()
    }
}

impl<S: Slot, P: Pool, A: Access, const W: u32, const L: usize> TreeView<Tree<S, P, A, W, L>> {
    /// As of when ranges are answered: the view's moment, or where that is now and time goes on meanwhile, a
    /// moment of this call's.
    #[inline(always)]
    #[track_caller]
    fn question_moment<C: Convergence>(self, tile: Tile<W, C>) -> u32 {
        let at = self.versions().at();
        if !A::Versions::MOVES || at != LATEST {
            return at;
        }
        self.snapshot(tile)
    }

    /// Looks through the range of each lane that says `pending`, each by its tile, and gives each lane what
    /// is in its own: nothing where `from` is above `to`. [`Collect`] asks for blocks of 128 threads at most.
    #[inline(always)]
    #[track_caller]
    pub fn seek<Q: Seek, C: Convergence>(
        self,
        tile: Tile<W, C>,
        pending: bool,
        span: Span<S::Key>,
        sink: Sink<S::Key, S::Value>,
    ) -> Answer<S::Key, S::Value> {
        let pending = pending & (span.from <= span.to);
        let tree = self.at(self.question_moment(tile));
        let stored = |key: S::Key| S::Stored::from_u64(key.to_u64());
        let (from, to) = (stored(span.from), stored(span.to));
        let start = self.start(if Q::DOWN { to } else { from }, pending);
        let room = if Q::TAKES { sink.room(span.offset, span.room) } else { 0 };
        let zero = S::Stored::from_u64(0);
        let (mut answer, mut written) = ((0, (zero, S::Value::from_u64(0))), 0);
        let stages = Pass::<S, P, A, W, L>::stages::<Q>();
        let stage = if stages { Stage::of(tile) } else { Stage::none() };
        let mut queue = Queue::new(tile, pending);
        while let Some(turn) = queue.turn() {
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
                target: Start::<S>::of(if Q::DOWN { to } else { from }).key,
                found: 0,
                pair: (zero, S::Value::from_u64(0)),
            };
            pass.is_leaf = pass.at == ANNEX;
            pass.run::<Q, C>(tile, turn.is_active());
            if turn.is_mine() {
                (answer, written) = ((pass.found, pass.pair), room - pass.left);
            }
            queue.finish();
        }
        let (found, (key, value)) = answer;
        let count = if Q::TAKES { written as u64 } else { found };
        Answer { count, key: S::Key::from_u64(key.to_u64()), value }
    }
}
