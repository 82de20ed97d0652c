//! A tile with a resident block: the paper's allocator (slab-hash paper, section V).
//!
//! The paper: a warp keeps the bitmap of one memory block in registers, a word a lane. To allocate, the lanes
//! vote who has a free bit, and the first one of them takes it by a compare-and-swap of its word. A full
//! block is left for another one, chosen by hash.
//!
//! Here:
//! 1. *Many at once.* Every lane of the tile may want a slab. Lanes count the free bits they hold; a sum over
//!    the lower ranks tells each which of the tile's wants it serves, and each want who serves it. A lane
//!    takes all the bits that it was dealt by one `fetch_or`. A warp that wants 32 slabs in an emptyish block
//!    needs one atomic, where the paper's needs 32.
//! 2. *`fetch_or` for compare-and-swap.* It cannot fail: the bits that somebody else had are seen in the word
//!    that comes back, and are dealt no more; those lanes' wants stay for the next round, the others have
//!    their slabs.
//! 3. *A rotated block.* The words are dealt from a hashed one on: two tiles that meet in a block begin at
//!    different words. The rotation is in the load, so that dealing needs no thought of it.
//! 4. *Even first choices.* The tile's number times the golden ratio names its first block: any number of
//!    tiles spreads over the blocks evenly, not as dice would. Later choices are hashes.
//! 5. *Narrow tiles.* A tile of `W` lanes holds 32 / W words a lane, and each lane offers one of them a
//!    round.
//!
//! ```text
//! block        word  0    1    2   ...  29   30   31        start = 30, W = 32
//! held by lane       2    3    4   ...  31    0    1        lane p has word (p + start) mod 32
//!
//! free bits    lane 0: 3   lane 1: 0   lane 2: 7   ...      wants: 5
//! dealt        lane 0: 3   lane 1: 0   lane 2: 2       two atomics; lane 0 serves wants 0..3, lane 2 3..5
//! ```
use super::bitmaps::BLOCK_WORDS;
use super::bits::{lower_ranks, lowest, place_of, sum_below};
use super::handle::Handle;
use super::pool::Pool;
use super::search::{GOLDEN, search};
use simt::hash::{mix32, reduce};
use simt::{Convergence, Lockstep, Scope, Thread, Tile, fence};

/// How often a call changes the resident block before the lanes that still want a slab look for themselves
/// ([`LOOKS`](super::LOOKS) looks each).
pub const CHANGES: u32 = 16;

/// A tile's allocator: the bitmap of a block, in registers.
///
/// # Concurrency
/// All lanes of the tile (in lockstep: of the warp) make each call together. Otherwise as [`Pool`].
#[derive(Debug)]
pub struct Resident<P, const W: u32, C = Lockstep> {
    pool: P,
    tile: Tile<W, C>,
    /// Names the next block.
    next: u32,
    /// The block's first word.
    block: u32,
    /// The word that the tile's first lane has first.
    start: u32,
    /// Bits that are known to be taken. The first 32 / W words are used.
    taken: [u32; BLOCK_WORDS as usize],
}

/// What a lane offers: the first of its words with free bits.
#[derive(Clone, Copy)]
struct Offer {
    /// Which of the lane's words.
    index: u32,
    /// Its free bits, as far as is known. None: the lane has nothing to offer.
    free: u32,
}

/// Bits of one word that a lane takes for lanes of its tile.
#[derive(Clone, Copy)]
struct Deal {
    /// The word, among the tile's.
    word: u32,
    /// The bits.
    bits: u32,
    /// The wants that lower ranks serve.
    below: u32,
}

impl<P: Pool, const W: u32, C: Convergence> Resident<P, W, C> {
    /// Words a lane.
    const WORDS: usize = (BLOCK_WORDS / W) as usize;

    /// An allocator without a block; the first allocation reads one. `seed` shifts the tiles' first choices
    /// of a block: give another one in each launch, so that launches do not queue at the blocks that the one
    /// before has filled.
    #[inline(always)]
    pub fn new(pool: P, tile: Tile<W, C>, seed: u32) -> Self {
        let number = Thread::index() as u32 / W;
        let next = number.wrapping_mul(GOLDEN).wrapping_add(mix32(seed));
        Self { pool, tile, next, block: 0, start: 0, taken: [u32::MAX; BLOCK_WORDS as usize] }
    }

    /// A slab for each lane that `wants` one. `None` for the others, and where the pool is full or nearly so:
    /// after [`CHANGES`] blocks without a free bit and [`LOOKS`](super::LOOKS) looks elsewhere.
    ///
    /// Bounded: a round either serves a want, or finds that a bit is taken which was thought free, or changes
    /// the block.
    #[inline(always)]
    #[track_caller]
    pub fn allocate(&mut self, wants: bool) -> Option<Handle> {
        let mut number = None;
        let mut changes = CHANGES;
        loop {
            let wanting = self.tile.ballot(wants && number.is_none());
            let knows_free = self.tile.any(self.offer().free != 0);
            let goes_on = wanting != 0 && (knows_free || changes > 0);
            if !self.tile.any_converged(goes_on) {
                break;
            }
            if goes_on && !knows_free {
                self.change_block();
                changes -= 1;
            }
            let got = self.deal_round(if goes_on { wanting } else { 0 });
            number = number.or(got);
        }
        if wants && number.is_none() {
            number = search(self.pool, self.next.wrapping_add(self.tile.rank()));
        }
        number.map(|number| {
            let handle = self.pool.handle(number);
            // SAFETY: the handle of a number that was taken; nothing is accessed.
            simt::unpoison(|| unsafe { self.pool.slab(handle) });
            handle
        })
    }

    /// Lets the lanes of the tile see what was written to the slabs of the last call before they were freed
    /// in this launch. All lanes of the tile (in lockstep: of the warp) call it together, with or without a
    /// slab of their own.
    ///
    /// A lane's slab may have been taken by another lane. So that one fences as well, and passes on by a
    /// barrier of the warp what it has seen; a shuffle orders no memory.
    #[inline(always)]
    #[track_caller]
    pub fn fence(&self) {
        fence(Scope::Device);
        self.tile.sync();
    }

    /// The first of the lane's words that has a free bit. A chain of selections: an indexed array would go to
    /// local memory.
    #[inline(always)]
    fn offer(&self) -> Offer {
        let mut offer = Offer { index: 0, free: 0 };
        let mut index = Self::WORDS;
        while index > 0 {
            index -= 1;
            let free = !self.taken[index];
            if free != 0 {
                offer = Offer { index: index as u32, free };
            }
        }
        offer
    }

    /// Reads the bitmap of another block.
    #[inline(always)]
    #[track_caller]
    fn change_block(&mut self) {
        let bitmaps = self.pool.bitmaps();
        let mixed = mix32(self.next);
        self.block = reduce(self.next, bitmaps.blocks()) * BLOCK_WORDS;
        self.start = mixed % BLOCK_WORDS;
        self.next = mixed.wrapping_add(GOLDEN);
        let mut index = 0;
        while index < Self::WORDS {
            let word = self.word(self.tile.rank() * Self::WORDS as u32 + index as u32);
            // SAFETY: a word of a block that the pool has.
            self.taken[index] = unsafe { bitmaps.look(word) };
            index += 1;
        }
    }

    /// The pool's word that is the tile's word `index`.
    #[inline(always)]
    fn word(&self, index: u32) -> u32 {
        self.block + (index + self.start) % BLOCK_WORDS
    }

    /// Deals free bits to the lanes in `wanting`, takes them, and gives the caller's slab if it was dealt one
    /// that was free.
    #[inline(always)]
    #[track_caller]
    fn deal_round(&mut self, wanting: u32) -> Option<u32> {
        let (offer, tile) = (self.offer(), self.tile);
        let count = offer.free.count_ones();
        let below = sum_below(tile, count);
        let many = wanting.count_ones().saturating_sub(below);
        let word = tile.rank() * Self::WORDS as u32 + offer.index;
        let mine = Deal { word, bits: lowest(offer.free, many), below };
        let old = self.take(offer, mine);

        let turn = (wanting & lower_ranks(tile)).count_ones();
        let server = self.server(below + count, turn);
        let deal = Deal {
            word: if Self::WORDS == 1 { server } else { tile.shuffle(mine.word, server) },
            bits: tile.shuffle(mine.bits, server),
            below: tile.shuffle(mine.below, server),
        };
        let dealt = wanting >> tile.rank() & 1 != 0 && turn.wrapping_sub(deal.below) < deal.bits.count_ones();
        let bit = place_of(deal.bits, turn.wrapping_sub(deal.below));
        let was_free = tile.shuffle(old, server) >> bit & 1 == 0;
        (dealt && was_free).then(|| self.word(deal.word) * 32 + bit)
    }

    /// Takes the bits that the lane deals; gives what stood in the word.
    #[inline(always)]
    #[track_caller]
    fn take(&mut self, offer: Offer, deal: Deal) -> u32 {
        if deal.bits == 0 {
            return 0;
        }
        // SAFETY: a word of a block that the pool has.
        let old = unsafe { self.pool.take(self.word(deal.word), deal.bits) };
        let mut index = 0;
        while index < Self::WORDS {
            if index as u32 == offer.index {
                self.taken[index] |= old | deal.bits;
            }
            index += 1;
        }
        old
    }

    /// The lane that serves the want `turn`: the first one of which `end`, the wants that it and lower ranks
    /// serve, is beyond. If there is none, the last lane.
    #[inline(always)]
    #[track_caller]
    fn server(&self, end: u32, turn: u32) -> u32 {
        let (mut server, mut half) = (0, W / 2);
        while half > 0 {
            if self.tile.shuffle(end, server + half - 1) <= turn {
                server += half;
            }
            half /= 2;
        }
        server
    }
}
