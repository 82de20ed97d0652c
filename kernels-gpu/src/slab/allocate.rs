//! A tile with a resident block: the allocator of the slab-hash paper (section V).
//!
//! In the paper a warp keeps the bitmap of one memory block in registers, one word per lane. To allocate, the
//! lanes vote on which of them have a free bit, and the first of these takes it by a compare-and-swap of its
//! word. When the block is full, the warp changes to another one, chosen by hash.
//!
//! This implementation deviates as follows:
//! 1. *Several allocations at once.* Every lane of the tile may want a slab. Each lane counts the free bits
//!    that it holds; a sum over the lower ranks determines which requests of the tile it serves, and which
//!    lane serves each request. A lane takes all the bits assigned to it by one `fetch_or`. A warp that wants
//!    32 slabs in a mostly empty block needs one atomic operation, where the paper's needs 32.
//! 2. *`fetch_or` instead of compare-and-swap.* It cannot fail: bits that another tile has already taken show
//!    in the returned word and are not assigned again. The requests for those bits wait for the next round;
//!    the others have their slabs.
//! 3. *A rotated block.* The words are assigned from a hashed one on, so two tiles with the same block begin
//!    at different words. The rotation is applied by the load, so the assignment need not consider it.
//! 4. *Even first choices.* The tile's number times the golden ratio selects its first block: any number of
//!    tiles spreads evenly over the blocks, unlike random choices. Later choices are hashes.
//! 5. *Narrow tiles.* A tile of `W` lanes holds 32 / W words per lane, and each lane offers one of them per
//!    round.
//!
//! ```text
//! block        word  0    1    2   ...  29   30   31        start = 30, W = 32
//! held by lane       2    3    4   ...  31    0    1        lane p has word (p + start) mod 32
//!
//! free bits    lane 0: 3   lane 1: 0   lane 2: 7   ...      requests: 5
//! taken        lane 0: 3   lane 1: 0   lane 2: 2       two atomics; lane 0 serves 0..3, lane 2 serves 3..5
//! ```
use super::bitmaps::BLOCK_WORDS;
use super::bits::{lowest, place_of, sum_below};
use super::handle::Handle;
use super::pool::{Pool, search};
use super::probes::GOLDEN;
use simt::hash::{mix32, reduce};
use simt::{Convergence, Lockstep, Scope, Thread, Tile, device, fence};

/// Maximum number of changes of the resident block in one call, before the lanes that still want a slab
/// search by themselves ([`MAX_PROBES`](super::MAX_PROBES) probes each).
pub const CHANGES: u32 = 16;

/// A tile's allocator: the bitmap of a block, in registers.
///
/// ```
/// use phalanx_kernels::slab::{Handle, Pool, Resident};
/// use simt::Tile;
///
/// /// Allocates a slab for each lane of a warp, three times.
/// fn allocate_thrice<P: Pool>(pool: P, seed: u32) -> [Option<Handle>; 3] {
///     let mut resident = Resident::new(pool, Tile::<32>::lockstep(), seed);
///     let handles = [(); 3].map(|()| resident.allocate(true));
///     resident.fence(); // needed if slabs are freed and allocated again within a launch
///     handles
/// }
/// ```
///
/// # Concurrency
/// All lanes of the tile (in lockstep: of the warp) make each call together. Otherwise as [`Pool`].
#[derive(Debug)]
pub struct Resident<P, const W: u32, C = Lockstep> {
    pool: P,
    tile: Tile<W, C>,
    /// Hash that selects the next block.
    next: u32,
    /// Index of the block's first word.
    block: u32,
    /// Rotation: the word of the block at which the tile's first lane starts.
    start: u32,
    /// Bits known to be taken. The first 32 / W words are used.
    taken: [u32; BLOCK_WORDS as usize],
}

/// A lane's offer: the first of its words with free bits.
#[derive(Clone, Copy)]
struct Offer {
    /// Index of the word among the lane's words.
    index: u32,
    /// Its free bits as far as known; 0 if the lane has none.
    free: u32,
}

/// Bits of one word that a lane takes for lanes of its tile.
#[derive(Clone, Copy)]
struct Deal {
    /// Index of the word among the tile's words.
    word: u32,
    /// Bits of the word.
    bits: u32,
    /// Number of requests that lower ranks serve.
    below: u32,
}

#[device(caller)]
impl<P: Pool, const W: u32, C: Convergence> Resident<P, W, C> {
    /// Number of words per lane.
    const WORDS: usize = (BLOCK_WORDS / W) as usize;

    /// Returns an allocator without a block; the first allocation reads one. `seed` shifts the tiles' first
    /// choices of a block: use a different seed in each launch, so that a launch does not start at the blocks
    /// that the previous one has filled.
    #[device]
    pub fn new(pool: P, tile: Tile<W, C>, seed: u32) -> Self {
        let number = Thread::index() as u32 / W;
        let next = number.wrapping_mul(GOLDEN).wrapping_add(mix32(seed));
        Self { pool, tile, next, block: 0, start: 0, taken: [u32::MAX; BLOCK_WORDS as usize] }
    }

    /// Allocates a slab for each lane that `wants` one. Returns `None` to the others, and if the pool is full
    /// or nearly so: after [`CHANGES`] blocks without a free bit and [`MAX_PROBES`](super::MAX_PROBES) probes
    /// elsewhere.
    ///
    /// Bounded: each round serves a request, or learns that a bit thought free is taken, or changes the
    /// block.
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
            // SAFETY: the number is that of a slab that was taken; nothing is accessed.
            simt::unpoison(|| unsafe { self.pool.slab(handle) });
            handle
        })
    }

    /// Makes accesses to the slabs of the last call before they were freed in this launch happen before the
    /// later accesses of the tile's lanes. All lanes of the tile (in lockstep: of the warp) call it together,
    /// with or without a slab of their own.
    ///
    /// Another lane may have taken a lane's slab. So that other lane fences too, and a barrier of the warp
    /// orders what it has observed before the later accesses of the slab's owner; a shuffle orders no memory
    /// accesses.
    pub fn fence(&self) {
        fence(Scope::Device);
        self.tile.sync();
    }

    /// Returns the first of the lane's words that has a free bit. Written as a chain of selections, because
    /// the compiler would place an indexed array in local memory.
    #[device]
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

    /// Changes to another block and reads its bitmap.
    fn change_block(&mut self) {
        let bitmaps = self.pool.bitmaps();
        let mixed = mix32(self.next);
        self.block = reduce(self.next, bitmaps.blocks()) * BLOCK_WORDS;
        self.start = mixed % BLOCK_WORDS;
        self.next = mixed.wrapping_add(GOLDEN);
        let mut index = 0;
        while index < Self::WORDS {
            let word = self.word(self.tile.rank() * Self::WORDS as u32 + index as u32);
            // SAFETY: the index is that of a word of a block of the pool.
            self.taken[index] = unsafe { bitmaps.load_free(word) };
            index += 1;
        }
    }

    /// Returns the index in the pool's bitmap of the tile's word `index`.
    #[device]
    fn word(&self, index: u32) -> u32 {
        self.block + (index + self.start) % BLOCK_WORDS
    }

    /// Assigns free bits to the lanes in `wanting` and takes them. Returns the caller's slab if the bit
    /// assigned to it was free.
    fn deal_round(&mut self, wanting: u32) -> Option<u32> {
        let (offer, tile) = (self.offer(), self.tile);
        let count = offer.free.count_ones();
        let below = sum_below(tile, count);
        let many = wanting.count_ones().saturating_sub(below);
        let word = tile.rank() * Self::WORDS as u32 + offer.index;
        let mine = Deal { word, bits: lowest(offer.free, many), below };
        let old = self.take(offer, mine);

        let turn = (wanting & tile.lower_ranks()).count_ones();
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

    /// Takes the bits that the lane assigns. Returns the previous word.
    fn take(&mut self, offer: Offer, deal: Deal) -> u32 {
        if deal.bits == 0 {
            return 0;
        }
        // SAFETY: the index is that of a word of a block of the pool.
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

    /// Returns the lane that serves request `turn`: the first lane whose `end`, the number of requests that
    /// it and lower ranks can serve, exceeds `turn`. Returns the last lane if there is none.
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
