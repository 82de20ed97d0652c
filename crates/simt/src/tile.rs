//! Tiles: groups of neighbouring lanes that execute one operation together.
use crate::backend;
use core::marker::PhantomData;
use simt_macros::device;

/// Convergence of the tiles of a warp at a collective.
pub trait Convergence: Copy + Default + core::fmt::Debug + 'static {
    /// Whether all lanes of the warp make the call together.
    const LOCKSTEP: bool;
}

/// All 32 lanes of the warp call every collective of their tiles together, in the same order.
///
/// The mask of the instruction is then a constant, and a collective of all tiles of a warp costs one
/// instruction instead of one per tile. Calling a collective from a branch that only some tiles take is an
/// error, which the emulator reports. (A tile of one lane synchronizes with no other lane, in lockstep or
/// not.)
#[derive(Clone, Copy, Debug, Default)]
pub struct Lockstep;

/// Only the lanes of the tile call a collective together; other tiles of the warp may be anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Independent;

impl Convergence for Lockstep {
    const LOCKSTEP: bool = true;
}

impl Convergence for Independent {
    const LOCKSTEP: bool = false;
}

/// `W` neighbouring lanes (1, 2, 4, 8, 16 or 32), aligned in the warp.
///
/// Ranks, ballots and shuffles are relative to the tile: bit `r` of a ballot is the vote of rank `r`.
///
/// ```
/// use simt::{GlobalSlice, Grid, Independent, Thread, Tile, kernel};
///
/// /// Writes the results of the first tile, of its lane 0.
/// #[kernel]
/// fn collectives(out: GlobalSlice<u32>) {
///     let (tile, lane) = (Tile::<8>::lockstep(), Thread::lane());
///     let is_odd = tile.rank() % 2 == 1;
///     let votes = [tile.any(is_odd), tile.all(is_odd), tile.any_converged(is_odd)].map(u32::from);
///     let moved = [tile.shuffle(lane, 3), tile.shuffle_xor(lane, 1), tile.shuffle_up(lane, 1)];
///     let equal = [tile.match_any(lane / 4), tile.match_bits::<1>(lane)];
///     let reduced = [tile.reduce_add(lane), tile.reduce_min(lane), tile.reduce_max(lane)];
///     let others = [tile.ballot(is_odd), tile.elect(is_odd).unwrap_or(8), tile.shuffle_down(lane, 1)];
///     tile.sync();
///     if lane == 0 {
///         // Only this lane is here, so its tile is independent of others.
///         let alone = Tile::<1, Independent>::this().rematerialize();
///         let results = votes.into_iter().chain(moved).chain(equal).chain(reduced).chain(others);
///         results.chain([alone.width()]).enumerate().for_each(|(index, word)| out.write(index, word));
///     }
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut out = [0; 15];
/// run(Grid::new(1, 32), &mut out, |out| Collectives { out });
/// assert_eq!(out[..3], [1, 0, 1]);
/// assert_eq!(out[3..6], [3, 1, 0]);
/// assert_eq!(out[6..8], [0b1111, 0b0101_0101]);
/// assert_eq!(out[8..11], [28, 0, 7]);
/// assert_eq!(out[11..], [0b1010_1010, 1, 1, 1]);
/// ```
///
/// # Cost
///
/// A collective is one instruction, executed once for a warp in lockstep, and once per tile if tiles are
/// [`Independent`]. `shuffle` and its variants execute one instruction per 32 bits of the value;
/// `match_bits`, a ballot per bit; `reduce_add`, `reduce_min` and `reduce_max`, log2 W shuffles, or one
/// instruction for a warp. `match_any` processes one distinct value after the other. In a tile of one lane,
/// `ballot`, `shuffle`, `any`, `all`, `elect` and `any_converged` execute none. The other methods read a
/// register. No method accesses memory.
#[derive(Clone, Copy, Debug)]
pub struct Tile<const W: u32, C = Lockstep> {
    lane: u32,
    convergence: PhantomData<C>,
}

/// A value that a shuffle can move, 32 bits per instruction.
///
/// ```
/// use simt::Shuffle;
///
/// assert_eq!((1u32, 2u64).map_words(|word| word + 1), (2, 3 + (1 << 32)));
/// ```
///
/// # Cost
///
/// `map_words` calls the function once per 32 bits: one shuffle instruction each.
pub trait Shuffle: Copy {
    /// Applies `word` to each 32-bit word of the value.
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self;
}

impl Shuffle for u32 {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        word(self)
    }
}

impl Shuffle for bool {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        word(self as u32) != 0
    }
}

impl Shuffle for u64 {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        let low = word(self as u32);
        low as u64 | (word((self >> 32) as u32) as u64) << 32
    }
}

impl Shuffle for u128 {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        let low = (self as u64).map_words(&mut word);
        low as u128 | (((self >> 64) as u64).map_words(word) as u128) << 64
    }
}

impl<A: Shuffle, B: Shuffle> Shuffle for (A, B) {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        (self.0.map_words(&mut word), self.1.map_words(word))
    }
}

impl<const W: u32> Tile<W, Lockstep> {
    /// Returns the calling lane's tile; all tiles of the warp execute in lockstep.
    #[device]
    pub fn lockstep() -> Self {
        Self::this()
    }
}

#[device(caller)]
impl<const W: u32, C: Convergence> Tile<W, C> {
    /// Returns the calling lane's tile.
    #[device]
    pub fn this() -> Self {
        const { assert!(W.is_power_of_two() && W <= 32, "a tile has 1, 2, 4, 8, 16 or 32 lanes") };
        Self { lane: backend::lane(), convergence: PhantomData }
    }

    /// Returns the same tile with the lane hidden from the compiler's optimiser. A rare branch then computes
    /// values derived from the rank itself, and they occupy no registers elsewhere. See
    /// [`black_box`](crate::black_box).
    #[device]
    pub fn rematerialize(self) -> Self {
        Self { lane: backend::black_box(self.lane), ..self }
    }

    /// Returns the number of lanes in the tile.
    #[device]
    pub fn width(self) -> u32 {
        W
    }

    /// Returns the caller's index in the tile, from 0.
    #[device]
    pub fn rank(self) -> u32 {
        self.lane % W
    }

    #[device]
    fn first_lane(self) -> u32 {
        self.lane & !(W - 1)
    }

    #[device]
    fn mask(self) -> u32 {
        if C::LOCKSTEP && W > 1 { u32::MAX } else { Self::ONES << self.first_lane() }
    }

    const ONES: u32 = u32::MAX >> (32 - W);

    /// Returns the votes of all lanes, bit `r` from rank `r`. PTX: `vote.sync.ballot.b32`.
    pub fn ballot(self, vote: bool) -> u32 {
        if W == 1 {
            return vote as u32;
        }
        (backend::ballot(self.mask(), vote) >> self.first_lane()) & Self::ONES
    }

    /// Returns `true` if any lane votes `true`.
    pub fn any(self, vote: bool) -> bool {
        self.ballot(vote) != 0
    }

    /// Returns `true` if all lanes vote `true`.
    pub fn all(self, vote: bool) -> bool {
        self.ballot(vote) == Self::ONES
    }

    /// Returns `true` if any participating lane votes `true`: any lane of the warp in lockstep, else of the
    /// tile. In a tile of one lane, returns the lane's vote.
    pub fn any_converged(self, vote: bool) -> bool {
        if W == 1 {
            return vote;
        }
        backend::any(self.mask(), vote)
    }

    /// Returns the ranks below the caller's, as a ballot has them: a mask for votes.
    pub fn lower_ranks(self) -> u32 {
        (1 << self.rank()) - 1
    }

    /// Returns the lowest rank that votes `true`.
    pub fn elect(self, vote: bool) -> Option<u32> {
        let votes = self.ballot(vote);
        if votes == 0 { None } else { Some(votes.trailing_zeros()) }
    }

    const SEGMENT: u32 = ((32 - W) << 8) | 31;

    /// Returns the value of lane `rank` (taken modulo the width). PTX: `shfl.sync.idx.b32`.
    pub fn shuffle<T: Shuffle>(self, value: T, rank: u32) -> T {
        if W == 1 {
            return value;
        }
        let site = backend::site();
        value.map_words(|word| backend::shuffle(site, self.mask(), word, rank, Self::SEGMENT))
    }

    /// Returns the value of the lane whose rank differs in the bits of `flip`. PTX: `shfl.sync.bfly.b32`.
    pub fn shuffle_xor<T: Shuffle>(self, value: T, flip: u32) -> T {
        let site = backend::site();
        value.map_words(|word| backend::shuffle_xor(site, self.mask(), word, flip, Self::SEGMENT))
    }

    /// Returns the value of the lane `by` ranks below; the caller's own if there is none. PTX:
    /// `shfl.sync.up.b32`.
    pub fn shuffle_up<T: Shuffle>(self, value: T, by: u32) -> T {
        let site = backend::site();
        value.map_words(|word| backend::shuffle_up(site, self.mask(), word, by, (32 - W) << 8))
    }

    /// Returns the value of the lane `by` ranks above; the caller's own if there is none. PTX:
    /// `shfl.sync.down.b32`.
    pub fn shuffle_down<T: Shuffle>(self, value: T, by: u32) -> T {
        let site = backend::site();
        value.map_words(|word| backend::shuffle_down(site, self.mask(), word, by, Self::SEGMENT))
    }

    /// Returns the mask of the ranks that hold the caller's value. PTX: `match.any.sync.b32`.
    pub fn match_any(self, value: u32) -> u32 {
        (backend::match_any(self.mask(), value) >> self.first_lane()) & Self::ONES
    }

    /// Returns the mask of the ranks that agree with the caller in the low `BITS` bits, by one ballot per
    /// bit.
    ///
    /// Suited to values of a few bits: the ballots are independent of each other, while `match.any` processes
    /// one distinct value after the other.
    pub fn match_bits<const BITS: u32>(self, value: u32) -> u32 {
        let (mut same, mut bit) = (Self::ONES, 0);
        while bit < BITS {
            // Both hidden from the optimiser: otherwise the compiler computes predicate and mask by a shift,
            // an `and` and a subtraction each.
            let votes = self.ballot(crate::black_box(value & 1 << bit) != 0);
            let mask = (crate::black_box(value << (31 - bit)) as i32 >> 31) as u32;
            same &= !(votes ^ mask);
            bit += 1;
        }
        same
    }

    /// Returns the wrapping sum over the tile, in every lane. PTX: `redux.sync.add` for a warp, else
    /// shuffles.
    pub fn reduce_add(self, value: u32) -> u32 {
        if W == 32 {
            return backend::reduce_add(self.mask(), value);
        }
        self.reduce(value, u32::wrapping_add)
    }

    /// Returns the minimum (unsigned) over the tile. PTX: `redux.sync.min.u32` for a warp, else shuffles.
    pub fn reduce_min(self, value: u32) -> u32 {
        if W == 32 {
            return backend::reduce_min(self.mask(), value);
        }
        self.reduce(value, u32::min)
    }

    /// Returns the maximum (unsigned) over the tile. PTX: `redux.sync.max.u32` for a warp, else shuffles.
    pub fn reduce_max(self, value: u32) -> u32 {
        if W == 32 {
            return backend::reduce_max(self.mask(), value);
        }
        self.reduce(value, u32::max)
    }

    fn reduce(self, value: u32, pair: fn(u32, u32) -> u32) -> u32 {
        let (mut total, mut flip) = (value, W / 2);
        while flip > 0 {
            total = pair(total, self.shuffle_xor(total, flip));
            flip /= 2;
        }
        total
    }

    /// Waits for all participating lanes; their earlier writes are visible to each other afterwards. PTX:
    /// `bar.warp.sync`.
    pub fn sync(self) {
        backend::warp_sync(self.mask());
    }
}
