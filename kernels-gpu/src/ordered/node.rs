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
use super::meta::{Meta, handle_of};
use crate::keyed::{Bucket, Lane, Scalar, Slot};
use crate::slab::Handle;
use simt::{Convergence, Global, Order, Scope, Tile, Word, device};

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
    pub(crate) fn read(self, rank: u32, wanted: bool, order: Order) -> Lane<S, L> {
        self.0.load(rank, wanted, order)
    }

    /// [`Self::read`] by the tile that holds the latch. The loads are weak, because the latch orders them;
    /// the emulator's race detector checks this. Two kinds of lanes read relaxed: those with the header and
    /// the tail, because other tiles try the latch and change the link of a merged leaf; and the one with the
    /// version word, because other tiles stamp it.
    #[device(caller)]
    pub(crate) fn read_latched(self, rank: u32, wanted: bool) -> Lane<S, L> {
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
    pub(crate) fn read_rarely(self, rank: u32, wanted: bool, order: Order) -> Lane<S, L> {
        if wanted { self.read(rank, true, order) } else { Lane::nothing() }
    }

    /// Tries to take the latch, by the calling lane alone. Returns whether it has it now.
    #[device(caller)]
    pub fn try_latch(self, order: Order) -> bool {
        !self.set(Meta::LATCH, order).is_latched()
    }

    /// Sets bits of the meta, by the calling lane alone. Returns the meta before.
    #[device(caller)]
    pub(super) fn set(self, bits: u32, order: Order) -> Meta {
        let bits = S::Value::from_u64(bits as u64);
        Meta::read(S::value_part(self.header()).fetch_or(bits, order, Scope::Device))
    }

    /// Reads the meta, by the calling lane alone.
    #[device(caller)]
    pub(super) fn meta(self, order: Order) -> Meta {
        Meta::read(S::value_part(self.header()).load(order, Scope::Device))
    }

    /// Adds a number to the meta, modulo 2^32, by the calling lane alone. Returns the meta before.
    #[device(caller)]
    pub(crate) fn add(self, addend: u32, order: Order) -> Meta {
        // Sign-extended: in a value of 64 bits a negative number must carry through the upper half.
        let addend = S::Value::from_u64(addend as i32 as i64 as u64);
        Meta::read(S::value_part(self.header()).fetch_add(addend, order, Scope::Device))
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

#[device(caller)]
impl<S: Slot, const W: u32, const L: usize> Node<S, W, L> {
    /// Makes a lane's words blank. Nothing else may access the node.
    pub(crate) fn blank(self, rank: u32) {
        self.write(rank, |_| S::EMPTY);
    }

    /// Writes a lane's words, `word(position)` each, 16 bytes at once where they are adjacent. Nothing else
    /// may access the node.
    pub(crate) fn write(self, rank: u32, word: impl Fn(u32) -> S::Word) {
        let (order, scope) = (Order::Weak, Scope::Device);
        let mut j = 0;
        while j < L {
            let (place, position) = (self.own(rank, j), Self::position(rank, j));
            if S::PER_CHUNK == 2 && L > 1 {
                let whole = word(position).widen() | word(position + 1).widen() << 64;
                // SAFETY: the words of a chunk are 16 aligned bytes of the node.
                unsafe { place.cast::<u128>() }.store(whole, order, scope);
                j += 2;
            } else {
                place.store(word(position), order, scope);
                j += 1;
            }
        }
    }
}

#[device(caller)]
impl<S: Slot, const L: usize> Lane<S, L> {
    /// Replaces the word at `position`, if it is one of lane `rank`'s.
    #[device]
    pub(crate) fn put(&mut self, rank: u32, position: u32, word: S::Word) {
        *self = self.with(word, |j| rank * L as u32 + j as u32 == position);
    }

    /// Returns low key and meta, for the whole tile.
    pub fn header<const W: u32>(&self, tile: Tile<W, impl Convergence>) -> (S::Stored, Meta) {
        let word = self.words[Node::<S, W, L>::HEADER as usize % L];
        let owner = Node::<S, W, L>::HEADER / L as u32;
        (tile.shuffle(S::key(word), owner), Meta::read(tile.shuffle(S::value(word), owner)))
    }

    /// Returns the meta, for the whole tile.
    pub fn meta<const W: u32>(&self, tile: Tile<W, impl Convergence>) -> Meta {
        let word = self.words[Node::<S, W, L>::HEADER as usize % L];
        Meta::read(S::value(word)).from(tile, Node::<S, W, L>::HEADER / L as u32)
    }

    /// Returns high key and link, for the whole tile.
    pub fn tail<const W: u32>(&self, tile: Tile<W, impl Convergence>) -> (S::Stored, Handle) {
        (tile.shuffle(S::key(self.words[L - 1]), W - 1), self.link(tile))
    }

    /// Returns the link, for the whole tile.
    pub fn link<const W: u32>(&self, tile: Tile<W, impl Convergence>) -> Handle {
        tile.shuffle(handle_of(S::value(self.words[L - 1])), W - 1)
    }

    /// Whether `key` is above the node's keys. The result is the same in every lane.
    pub fn is_beyond<const W: u32>(&self, tile: Tile<W, impl Convergence>, key: S::Stored) -> bool {
        tile.any(tile.rank() == W - 1 && key > S::key(self.words[L - 1]))
    }

    /// Returns the number of the whole tile's pairs that satisfy `is`.
    pub fn count<const W: u32>(&self, tile: Tile<W, impl Convergence>, is: impl Fn(S::Word) -> bool) -> u32 {
        let (mut count, mut j) = (0, 0);
        while j < L {
            let counts = Node::<S, W, L>::is_slot(tile.rank(), j) && is(self.words[j]);
            count += tile.ballot(counts).count_ones();
            j += 1;
        }
        count
    }
}
