//! Nodes: their layout, and the words that a tile reads of one.
//!
//! ```text
//! 16 words of 8 bytes (pairs of 32 bits) or of 16:
//! | pair 0 | pair 1 | ...  ... | pair 13 | low, meta | high, link |
//! | pair 0 | pair 1 | ... | pair 12 | low, meta | stamp, old | high, link |      with versions
//! ```
//!
//! Every word is a slot's: key first, value second. A pair of a leaf is a user's pair; a pair of an inner
//! node is (low key of a child, its handle). A node covers the keys from *low* to *high*; *link* is the node
//! of the same level for the keys above. *meta* is the level, counted from the leaves up, and the latch.
//!
//! A blank slab, all ones, is a node that is not written yet: it is latched, has a level that no node has, no
//! link and no pairs.
use super::super::slab::Handle;
use super::history::Version;
use super::tree::largest;
use crate::keyed::{Bucket, Chunk, Scalar, Slot};
use crate::primitives::unrolled;
use simt::{Convergence, Global, Order, Scope, Tile, black_box, device};

/// Meta word of a node: its level, its latch, and, in the bits above, its version where nodes have one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta(u32);

#[device]
impl Meta {
    const LATCH: u32 = 1 << 8;

    /// Meta of an old version of a leaf: its level is one that no node has.
    pub const OLD: Self = Self(Self::LATCH - 2);

    /// Returns the meta of an unlatched node of a level.
    pub const fn free(level: u32) -> Self {
        Self(level)
    }

    /// Decodes the value half of a header.
    pub fn read<V: Scalar>(value: V) -> Self {
        Self(value.to_u64() as u32)
    }

    /// Returns the number of levels between the node and the leaves; 0 for a leaf.
    pub const fn level(self) -> u32 {
        self.0 & (Self::LATCH - 1)
    }

    /// Whether the meta is that of a node. It is not for a blank slab, a slab whose header is not visible
    /// yet, or an old version.
    pub const fn is_node(self) -> bool {
        self.level() < Self::OLD.level()
    }

    /// Whether the node is a leaf.
    pub const fn is_leaf(self) -> bool {
        self.level() == 0
    }

    /// Whether the node is an old version of a leaf.
    pub const fn is_old(self) -> bool {
        self.0 == Self::OLD.0
    }

    /// Whether a writer holds the latch.
    pub const fn is_latched(self) -> bool {
        self.0 & Self::LATCH != 0
    }

    /// Returns the unlatched meta of the same level and version.
    pub const fn unlatched(self) -> Self {
        Self(self.0 & !Self::LATCH)
    }

    /// Returns the unlatched meta of the same level and the next version.
    pub const fn after(self) -> Self {
        Self(self.unlatched().0.wrapping_add(Self::LATCH << 1))
    }

    fn value<V: Scalar>(self) -> V {
        V::from_u64(self.0 as u64)
    }
}

/// Decodes the handle in a word's value.
#[device]
pub fn handle_of<V: Scalar>(value: V) -> Handle {
    Handle::from_word(value.to_u64() as u32)
}

/// Returns a word of a key, or of a bound, and a handle.
#[device]
pub fn entry<S: Slot>(key: S::Stored, handle: Handle) -> S::Word {
    S::pack(key, S::Value::from_u64(handle.to_word() as u64))
}

/// A node in memory: `W` lanes read `L` words each.
#[derive(Clone, Copy, Debug)]
pub struct Node<S, const W: u32, const L: usize>(Bucket<S, W, L>);

#[device]
impl<S: Slot, const W: u32, const L: usize> Node<S, W, L> {
    /// Bytes of the slab.
    pub const BYTES: usize = Bucket::<S, W, L>::BYTES;
    /// Number of pairs in a node.
    pub const SLOTS: u32 = W * L as u32 - 2 - S::BESIDE;
    /// Position of low key and meta.
    pub const HEADER: u32 = Self::SLOTS;
    /// Position of stamp and old version, where there are versions.
    pub const VERSION: u32 = Self::TAIL - 1;
    /// Position of high key and link.
    pub const TAIL: u32 = W * L as u32 - 1;

    /// Returns the node in the slab at `base`.
    ///
    /// # Safety
    /// - [`Self::BYTES`] bytes from `base` on are a live slab, aligned to its size, that is a node of this
    ///   kind or blank. It stays one as long as the node is used, whatever is written through it.
    pub unsafe fn at(base: Global<u64>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Bucket::at(base) })
    }

    /// Returns the word at `position`, which is taken modulo the number of words.
    pub fn word(self, position: u32) -> Global<S::Word> {
        let position = position % (W * L as u32);
        // SAFETY: the position is one of the bucket's.
        unsafe { self.0.slot(position / L as u32, position as usize % L) }
    }

    /// Returns word `j`, below `L`, of lane `rank`, below `W`.
    pub(crate) fn own(self, rank: u32, j: usize) -> Global<S::Word> {
        // SAFETY: callers name a lane of the tile, and one of its words.
        unsafe { self.0.slot(rank, j) }
    }

    /// Returns the position of a lane's word `j` in the node.
    pub fn position(rank: u32, j: usize) -> u32 {
        rank * L as u32 + j as u32
    }

    /// Whether a lane's word `j` is a pair.
    pub fn is_slot(rank: u32, j: usize) -> bool {
        Self::position(rank, j) < Self::SLOTS
    }

    /// Returns the location of high key and link.
    pub fn tail(self) -> Global<S::Word> {
        self.word(Self::TAIL)
    }

    /// Returns the location of low key and meta.
    pub fn header(self) -> Global<S::Word> {
        self.word(Self::HEADER)
    }

    /// Returns the location of stamp and old version, where there are versions.
    pub fn version(self) -> Global<S::Word> {
        self.word(Self::VERSION)
    }

    /// Returns the word of a header.
    pub fn header_word(low: S::Stored, meta: Meta) -> S::Word {
        S::pack(low, meta.value())
    }

    /// Reads the words of lane `rank`, below `W`, if `wanted`; otherwise the result is arbitrary. Each word
    /// is one access; the words together are not.
    #[device(caller)]
    pub(crate) fn read(self, rank: u32, wanted: bool, order: Order) -> Read<S, W, L> {
        let mut words = [S::EMPTY; L];
        if L == 1 && S::PER_CHUNK > 1 {
            // SAFETY: the word lies in the node.
            [words[0]] = unsafe { self.0.slot(rank, 0).load_vec_if::<1>(wanted, order, Scope::Device) };
            return Read { words };
        }
        let mut j = 0;
        while j < L {
            // SAFETY: word `j` begins a chunk of the node.
            let chunk = unsafe { S::Chunk::load_if(self.0.slot(rank, j), wanted, order) };
            let mut i = 0;
            while i < S::PER_CHUNK {
                words[j + i] = chunk.word(i);
                i += 1;
            }
            j += S::PER_CHUNK;
        }
        Read { words }
    }

    /// [`Self::read`] by the tile that holds the latch. The loads are weak, because the latch orders them;
    /// the emulator's race detector checks this. Two kinds of lanes read relaxed: those with the header and
    /// the tail, because other tiles try the latch and change the link of a merged leaf; and the one with the
    /// version word, because other tiles stamp it.
    #[device(caller)]
    pub(crate) fn read_latched(self, rank: u32, wanted: bool) -> Read<S, W, L> {
        if rank >= Self::HEADER / L as u32 || (S::BESIDE > 0 && rank == Self::VERSION / L as u32) {
            self.read_rarely(rank, wanted, Order::Relaxed)
        } else {
            self.read_rarely(rank, wanted, Order::Weak)
        }
    }

    /// [`Self::read`] in a branch that is rarely taken: returns empty words if not `wanted`. A predicated
    /// load would keep its registers' old contents, so these registers would be in use from the beginning of
    /// the kernel.
    #[device(caller)]
    pub(crate) fn read_rarely(self, rank: u32, wanted: bool, order: Order) -> Read<S, W, L> {
        if wanted { self.read(rank, true, order) } else { Read::nothing() }
    }

    /// Tries to take the latch, by the calling lane alone. Returns whether it has it now.
    #[device(caller)]
    pub fn try_latch(self, order: Order) -> bool {
        let latch = S::Value::from_u64(Meta::LATCH as u64);
        let old = S::value_part(self.header()).fetch_or(latch, order, Scope::Device);
        !Meta::read(old).is_latched()
    }

    /// Releases the latch and sets the level, by the calling lane alone.
    #[device(caller)]
    pub fn release(self, level: u32, order: Order) {
        self.release_as(Meta::free(level), order);
    }

    /// Stores `meta`, by the calling lane alone.
    #[device(caller)]
    pub fn release_as(self, meta: Meta, order: Order) {
        S::value_part(self.header()).store(meta.value(), order, Scope::Device);
    }
}

/// Words of a node that a lane has read.
#[derive(Clone, Copy, Debug)]
pub struct Read<S: Slot, const W: u32, const L: usize> {
    words: [S::Word; L],
}

/// One of a lane's words.
#[derive(Clone, Copy, Debug)]
pub struct SlotMatch<S: Slot> {
    /// Whether there is such a word. If not, the other fields are arbitrary.
    pub exists: bool,
    /// Its position in the node.
    pub position: u32,
    /// The word.
    pub word: S::Word,
}

#[device(caller)]
impl<S: Slot, const W: u32, const L: usize> Read<S, W, L> {
    /// Returns the words of a node of empty slots.
    #[device]
    pub fn nothing() -> Self {
        Self { words: [S::EMPTY; L] }
    }

    /// Replaces the word at `position`, if it is one of lane `rank`'s.
    #[device]
    pub fn put(&mut self, rank: u32, position: u32, word: S::Word) {
        let mut j = 0;
        while j < L {
            let is_it = Node::<S, W, L>::position(rank, j) == position;
            self.words[j] = if is_it { word } else { self.words[j] };
            j += 1;
        }
    }

    /// Returns the lane's words.
    #[device]
    pub fn words(&self) -> [S::Word; L] {
        self.words
    }

    /// Returns low key and meta, for the whole tile.
    pub fn header<C: Convergence>(&self, tile: Tile<W, C>) -> (S::Stored, Meta) {
        let word = self.words[Node::<S, W, L>::HEADER as usize % L];
        let owner = Node::<S, W, L>::HEADER / L as u32;
        (tile.shuffle(S::key(word), owner), Meta::read(tile.shuffle(S::value(word), owner)))
    }

    /// Returns the meta, for the whole tile.
    pub fn meta<C: Convergence>(&self, tile: Tile<W, C>) -> Meta {
        let word = self.words[Node::<S, W, L>::HEADER as usize % L];
        let meta = S::value(word).to_u64() as u32;
        Meta(tile.shuffle(meta, Node::<S, W, L>::HEADER / L as u32))
    }

    /// Returns stamp and old version, for the whole tile, where there are versions.
    pub fn version<C: Convergence>(&self, tile: Tile<W, C>) -> Version {
        let word = self.words[Node::<S, W, L>::VERSION as usize % L];
        Version::of::<S>(word).from(tile, Node::<S, W, L>::VERSION / L as u32)
    }

    /// Returns high key and link, for the whole tile.
    pub fn tail<C: Convergence>(&self, tile: Tile<W, C>) -> (S::Stored, Handle) {
        let word = self.words[L - 1];
        (tile.shuffle(S::key(word), W - 1), tile.shuffle(handle_of(S::value(word)), W - 1))
    }

    /// Whether `key` is above the node's keys. The result is the same in every lane.
    pub fn is_beyond<C: Convergence>(&self, tile: Tile<W, C>, key: S::Stored) -> bool {
        tile.any(tile.rank() == W - 1 && key > S::key(self.words[L - 1]))
    }

    /// Returns the lane's last word for which `is(position, word)` holds. It is a chain of selections: an
    /// indexed array would go to local memory.
    #[device]
    pub fn last(&self, rank: u32, mut is: impl FnMut(u32, S::Word) -> bool) -> SlotMatch<S> {
        let mut chosen = SlotMatch { exists: false, position: 0, word: self.words[0] };
        let mut j = 0;
        while j < L {
            let position = Node::<S, W, L>::position(rank, j);
            let holds = is(position, self.words[j]);
            chosen = SlotMatch {
                exists: chosen.exists | holds,
                position: if holds { position } else { chosen.position },
                word: if holds { self.words[j] } else { chosen.word },
            };
            j += 1;
        }
        chosen
    }

    /// Returns the number of the whole tile's pairs that satisfy `is`.
    pub fn count<C: Convergence>(&self, tile: Tile<W, C>, is: impl Fn(S::Word) -> bool) -> u32 {
        let (mut count, mut j) = (0, 0);
        while j < L {
            let counts = Node::<S, W, L>::is_slot(tile.rank(), j) && is(self.words[j]);
            count += tile.ballot(counts).count_ones();
            j += 1;
        }
        count
    }
}

#[device(caller)]
impl<S: Slot, const W: u32, const L: usize> Read<S, W, L> {
    /// Whether an inner node is full. Its pairs are sorted, and blank words follow them.
    pub fn is_full<C: Convergence>(&self, tile: Tile<W, C>) -> bool {
        let last = Node::<S, W, L>::SLOTS - 1;
        let word = self.words[last as usize % L];
        tile.any(tile.rank() == last / L as u32 && !S::is_empty(word))
    }

    /// Returns the lane's pairs for which `is(key)` holds; the others are replaced by words with the blank
    /// key.
    #[device]
    fn chosen(&self, rank: u32, is: impl Fn(S::Stored) -> bool) -> Self {
        let mut chosen = *self;
        unrolled::<L>(|j| {
            let key = S::key(self.words[j]);
            let is_chosen = Node::<S, W, L>::is_slot(rank, j) && is(key);
            let key = if is_chosen { key } else { S::key(S::EMPTY) };
            chosen.words[j] = S::pack(key, S::value(self.words[j]));
        });
        chosen
    }

    /// Returns the pairs for which `is(key)` holds, sorted by key and followed by words with the blank key:
    /// lane `r` has the `L` words from index `r * L` on.
    ///
    /// The algorithm is Batcher's sorting networks, whose steps are the same for all tiles: sorted runs are
    /// merged two by two. The bitonic merge compares each word first with its mirror image, then with the
    /// word half as far away in each further step. Two runs of two words in one lane are merged by the
    /// odd-even network, which needs one comparison less.
    pub fn sorted<C: Convergence>(&self, tile: Tile<W, C>, is: impl Fn(S::Stored) -> bool) -> Self {
        let mut sorted = self.chosen(tile.rank(), is);
        unrolled::<5>(|merge| {
            let run = 2 << merge;
            if run == 4 && L >= 4 {
                sorted.exchange_within(|j| j ^ 2);
                sorted.exchange_within(|j| if j % 4 == 1 || j % 4 == 2 { j ^ 3 } else { j });
                return;
            }
            if run <= W as usize * L {
                sorted.exchange(tile, run - 1);
            }
            unrolled::<4>(|step| {
                let apart = run >> (step + 2);
                if run <= W as usize * L && apart > 0 {
                    sorted.exchange(tile, apart);
                }
            });
        });
        sorted
    }

    /// Compares each of the lane's words with the one at index `place(j)`, and puts the lower key at the
    /// lower index.
    #[device]
    fn exchange_within(&mut self, place: impl Fn(usize) -> usize) {
        let before = self.words;
        unrolled::<L>(|j| {
            let (one, other) = (before[j], before[place(j) % L]);
            let stays =
                if place(j) >= j { S::key(one) <= S::key(other) } else { S::key(other) <= S::key(one) };
            self.words[j] = if stays { one } else { other };
        });
    }

    /// Compares each word with the one at its index xor `mask`, and puts the lower key at the lower index.
    fn exchange<C: Convergence>(&mut self, tile: Tile<W, C>, mask: usize) {
        let (lanes, within) = ((mask / L) as u32, mask % L);
        if lanes == 0 {
            return self.exchange_within(|j| j ^ within);
        }
        let before = self.words;
        let is_upper = tile.rank() & (1 << lanes.ilog2()) != 0;
        unrolled::<L>(|j| {
            let (one, other) = (before[j], tile.shuffle_xor(before[(j ^ within) % L], lanes));
            // If both keys are equal, both lanes hold the lower lane's word afterwards.
            let moves = (S::key(other) < S::key(one)) != is_upper;
            self.words[j] = if moves { other } else { one };
        });
    }

    /// Returns the pairs for which `is(key)` holds, and the index of each in key order. Lanes with four words
    /// or more use [`Self::sorted`]. Others compare each key with all others: this exchanges fewer words
    /// between lanes, and none waits for another. Measured: either way is a tenth to a fifth slower for the
    /// other layouts.
    pub fn ordered<C: Convergence>(
        &self,
        tile: Tile<W, C>,
        is: impl Fn(S::Stored) -> bool,
    ) -> Ordered<S, W, L> {
        let (last, mut places) = (largest::<S>(), [0; L]);
        if Ordered::<S, W, L>::SORTS {
            unrolled::<L>(|j| places[j] = j as u32);
            return Ordered { pairs: self.sorted(tile, is), first: tile.rank() * L as u32, places, last };
        }
        let pairs = self.chosen(tile.rank(), is);
        let mut flip = (L == 1) as u32;
        // Not unrolled: all shuffles at once would take a register each.
        let flips = black_box(W);
        while flip < flips {
            unrolled::<L>(|theirs| {
                let other = tile.shuffle_xor(S::key(pairs.words[theirs]), flip);
                unrolled::<L>(|j| places[j] += (other < S::key(pairs.words[j])) as u32);
            });
            flip += 1;
        }
        Ordered { pairs, first: 0, places, last }
    }

    /// Returns the pair with the lowest key for which `is(key)` holds, or with the highest key, for the whole
    /// tile. If there is none, the result is arbitrary.
    pub fn outermost<C: Convergence>(
        &self,
        tile: Tile<W, C>,
        highest: bool,
        is: impl Fn(S::Stored) -> bool,
    ) -> (S::Stored, S::Value) {
        let turned = |key: S::Stored| if highest { S::Stored::from_u64(!key.to_u64()) } else { key };
        let mut best = S::key(S::EMPTY);
        let mine = self.last(tile.rank(), |position, word| {
            let key = turned(S::key(word));
            let leads = position < Node::<S, W, L>::SLOTS && is(S::key(word)) && key <= best;
            best = if leads { key } else { best };
            leads
        });
        let (own, mut flip) = (best, 1);
        while flip < W {
            best = best.min(tile.shuffle_xor(best, flip));
            flip *= 2;
        }
        let owner = tile.ballot(mine.exists && own == best).trailing_zeros();
        (turned(best), tile.shuffle(S::value(mine.word), owner))
    }
}

/// Pairs of a node and words with the blank key, with the index of each pair in key order.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<S: Slot, const W: u32, const L: usize> {
    pairs: Read<S, W, L>,
    /// Index from which the lane's indices are counted.
    first: u32,
    places: [u32; L],
    /// Highest key that counts: words with keys above it are no pairs.
    last: S::Stored,
}

#[device]
impl<S: Slot, const W: u32, const L: usize> Ordered<S, W, L> {
    /// Whether the words themselves are sorted. Otherwise each has its rank as its index.
    const SORTS: bool = L >= 4;

    /// Restricts the pairs to keys up to `last`. These come first, so they keep their indices.
    pub fn up_to(self, last: S::Stored) -> Self {
        Self { last: self.last.min(last), ..self }
    }

    fn is_pair(&self, j: usize) -> bool {
        S::key(self.pairs.words[j]) <= self.last
    }

    /// Returns the index from which those that [`Self::each`] passes are counted.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Calls `see` with the lane's pairs and their indices, counted from [`Self::first`].
    pub fn each(&self, mut see: impl FnMut(u32, S::Word)) {
        unrolled::<L>(|j| {
            if self.is_pair(j) {
                see(self.places[j], self.pairs.words[j]);
            }
        });
    }

    /// Returns the number of pairs in the whole tile.
    #[device(caller)]
    pub fn count<C: Convergence>(&self, tile: Tile<W, C>) -> u32 {
        let mut count = 0;
        unrolled::<L>(|j| count += self.is_pair(j) as u32);
        tile.reduce_add(count)
    }

    /// Returns [`Self::count`], and whether a key occurs twice.
    #[device(caller)]
    pub fn count_twice<C: Convergence>(&self, tile: Tile<W, C>) -> (u32, bool) {
        if Self::SORTS {
            return (self.count(tile), self.has_twins(tile));
        }
        // The upper half sums the number of pairs, the lower half their ranks. The sum of ranks is too small
        // if two keys are equal.
        let mut sums = 0;
        unrolled::<L>(|j| sums += if self.is_pair(j) { 1 << 16 | self.places[j] } else { 0 });
        let sums = tile.reduce_add(sums);
        let (count, ranks) = (sums >> 16, sums & 0xffff);
        (count, 2 * ranks != count * count.wrapping_sub(1))
    }

    /// Whether two neighbours in key order have the same key.
    #[device(caller)]
    fn has_twins<C: Convergence>(&self, tile: Tile<W, C>) -> bool {
        let words = self.pairs.words;
        let first = if W > 1 { tile.shuffle_down(S::key(words[0]), 1) } else { S::key(S::EMPTY) };
        let mut has_twins = false;
        unrolled::<L>(|j| {
            let is_last = tile.rank() == W - 1 && j == L - 1;
            let next = if j + 1 < L { S::key(words[(j + 1) % L]) } else { first };
            has_twins |= !is_last && self.is_pair(j) && S::key(words[j]) == next;
        });
        tile.any(has_twins)
    }
}

/// Result of searching a node for a key.
#[derive(Clone, Copy, Debug)]
pub struct SearchStep<S: Slot> {
    /// Meta of the node.
    pub meta: Meta,
    /// Whether the key is above the node's keys, so that the search goes on to the right.
    pub beyond: bool,
    /// Whether there is a next node, or in a leaf the key.
    pub found: bool,
    /// Value of the word that was found: a handle or, in a leaf that covers the key, the key's value.
    pub value: S::Value,
}

impl<S: Slot> SearchStep<S> {
    /// Searches the words that a tile has read of a node for `key`.
    ///
    /// An inner node leads on by its last pair whose low key is not above `key`, or, if `key` is above the
    /// node's keys, by its link. The link lies behind all pairs, so one vote finds either.
    #[device(caller)]
    pub fn of<const W: u32, const L: usize, C: Convergence>(
        tile: Tile<W, C>,
        read: &Read<S, W, L>,
        key: S::Stored,
    ) -> Self {
        let meta = read.meta(tile);
        let chosen = read.last(tile.rank(), |position, word| {
            let at = S::key(word);
            let leads = if meta.is_leaf() { at == key } else { at <= key };
            (position < Node::<S, W, L>::SLOTS && leads) || (position == Node::<S, W, L>::TAIL && key > at)
        });
        let votes = tile.ballot(chosen.exists);
        let value = tile.shuffle(S::value(chosen.word), 31 - (votes | 1).leading_zeros());
        // A split publishes the new node's header and the link to it by two stores, which may become visible
        // in either order. Until the header is visible, the pairs of a leaf must not be taken for handles.
        let beyond = read.is_beyond(tile, key);
        Self { meta, beyond, found: votes != 0 && (beyond || meta.is_node()), value }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::Packed;
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, Kernel, Tile};

    type Leaf = Node<Packed, 4, 4>;

    /// Searches a node for a key.
    #[derive(Clone, Copy)]
    struct Judge {
        node: Global<u64>,
        told: GlobalSlice<u32>,
    }

    impl Kernel for Judge {
        const PROGRAM: &'static str = "node";
        const NAME: &'static str = "judge";
        const INSTANCE: Option<&'static str> = None;

        fn run(self) {
            let tile = Tile::<4>::lockstep();
            // SAFETY: 128 bytes that the test owns.
            let node = unsafe { Leaf::at(self.node) };
            let lead = SearchStep::of(tile, &node.read(tile.rank(), true, Order::Relaxed), 7);
            self.told.write(tile.rank() as usize, lead.found as u32 + 2 * lead.beyond as u32);
        }
    }

    fn judged(meta: Option<Meta>, high: u32) -> [u32; 4] {
        let emulator = Emulator::new(Options::default());
        let (base, told) =
            (emulator.allocate(128, 128).cast::<u64>(), emulator.allocate(16, 16).cast::<u32>());
        // SAFETY: 128 bytes, aligned.
        let node = unsafe { Leaf::at(Global::new(base)) };
        // SAFETY: 16 bytes; nothing else accesses them.
        let judge = unsafe { Judge { node: Global::new(base), told: GlobalSlice::from_raw_parts(told, 4) } };
        let put = |position: u32, word: u64| {
            // SAFETY: a word of the node, which nothing else accesses before the launch.
            unsafe { node.word(position).as_ptr().write(word) };
        };
        (0..16).for_each(|position| put(position, Packed::EMPTY));
        put(3, Packed::pack(5, 0xdead_beef));
        put(Leaf::TAIL, entry::<Packed>(high, Handle::NONE));
        if let Some(meta) = meta {
            put(Leaf::HEADER, Leaf::header_word(0, meta));
        }
        emulator.launch(Grid::new(1, 4), judge).unwrap();
        // SAFETY: the launch has ended.
        unsafe { *told.cast::<[u32; 4]>() }
    }

    #[test]
    fn pairs_of_a_leaf_whose_header_is_not_seen_yet_lead_nowhere() {
        assert_eq!(judged(Some(Meta::free(1)), 100), [1; 4], "an inner node leads on");
        assert_eq!(judged(None, 100), [0; 4]);
        assert_eq!(judged(None, 6), [3; 4], "its link is true");
    }
}
