//! Tiles: groups of neighbouring lanes that execute one operation together.
use crate::backend;
use core::marker::PhantomData;

/// How the tiles of a warp meet at a collective.
pub trait Convergence: Copy + Default + core::fmt::Debug + 'static {
    /// Whether all lanes of the warp make the call together.
    const LOCKSTEP: bool;
}

/// All 32 lanes of the warp call every collective of their tiles together, in the same order.
///
/// (A tile of one lane meets nobody, in lockstep or not.) The mask of the instruction is then a constant, and
/// the tiles of a warp cost one instruction, not one each. Calling a collective from a branch that only some
/// tiles take is an error, which the emulator reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lockstep;

/// Only the lanes of the tile meet: other tiles of the warp may be anywhere.
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
/// Ranks, ballots and shuffles count within the tile: bit `r` of a ballot is the vote of rank `r`.
#[derive(Clone, Copy, Debug)]
pub struct Tile<const W: u32, C = Lockstep> {
    lane: u32,
    convergence: PhantomData<C>,
}

/// Values that a shuffle can move: 32 bits an instruction.
pub trait Shuffle: Copy {
    /// Applies `word` to each 32 bits of the value.
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self;
}

impl Shuffle for u32 {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        word(self)
    }
}

impl Shuffle for bool {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        word(self as u32) != 0
    }
}

impl Shuffle for u64 {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        let low = word(self as u32);
        low as u64 | (word((self >> 32) as u32) as u64) << 32
    }
}

impl Shuffle for u128 {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        let low = (self as u64).map_words(&mut word);
        low as u128 | (((self >> 64) as u64).map_words(word) as u128) << 64
    }
}

impl<A: Shuffle, B: Shuffle> Shuffle for (A, B) {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        (self.0.map_words(&mut word), self.1.map_words(word))
    }
}

impl<const W: u32> Tile<W, Lockstep> {
    /// The calling lane's tile, all tiles of the warp moving together.
    #[inline(always)]
    pub fn lockstep() -> Self {
        Self::this()
    }
}

impl<const W: u32, C: Convergence> Tile<W, C> {
    /// The calling lane's tile.
    #[inline(always)]
    pub fn this() -> Self {
        const { assert!(W.is_power_of_two() && W <= 32, "a tile has 1, 2, 4, 8, 16 or 32 lanes") };
        Self { lane: backend::lane(), convergence: PhantomData }
    }

    /// The same tile, whose lane the compiler knows nothing about: what a rare branch makes of the rank is
    /// computed there, and takes no registers elsewhere. See [`opaque`](crate::opaque).
    #[inline(always)]
    pub fn afresh(self) -> Self {
        Self { lane: backend::opaque(self.lane), ..self }
    }

    /// Lanes in the tile.
    #[inline(always)]
    pub fn width(self) -> u32 {
        W
    }

    /// The caller's place in the tile, from 0.
    #[inline(always)]
    pub fn rank(self) -> u32 {
        self.lane % W
    }

    #[inline(always)]
    fn first_lane(self) -> u32 {
        self.lane & !(W - 1)
    }

    #[inline(always)]
    fn mask(self) -> u32 {
        if C::LOCKSTEP && W > 1 { u32::MAX } else { Self::ONES << self.first_lane() }
    }

    const ONES: u32 = u32::MAX >> (32 - W);

    /// The votes of all lanes, bit `r` from rank `r`. PTX: `vote.sync.ballot.b32`.
    #[inline(always)]
    #[track_caller]
    pub fn ballot(self, vote: bool) -> u32 {
        if W == 1 {
            return vote as u32;
        }
        (backend::ballot(self.mask(), vote) >> self.first_lane()) & Self::ONES
    }

    /// Whether a lane votes yes.
    #[inline(always)]
    #[track_caller]
    pub fn any(self, vote: bool) -> bool {
        self.ballot(vote) != 0
    }

    /// Whether all lanes vote yes.
    #[inline(always)]
    #[track_caller]
    pub fn all(self, vote: bool) -> bool {
        self.ballot(vote) == Self::ONES
    }

    /// Whether a lane of those that meet here votes yes: of the warp in lockstep, else of the tile. A tile of
    /// one meets nobody.
    #[inline(always)]
    #[track_caller]
    pub fn any_converged(self, vote: bool) -> bool {
        if W == 1 {
            return vote;
        }
        backend::any(self.mask(), vote)
    }

    /// The lowest rank that votes yes.
    #[inline(always)]
    #[track_caller]
    pub fn elect(self, vote: bool) -> Option<u32> {
        let votes = self.ballot(vote);
        if votes == 0 { None } else { Some(votes.trailing_zeros()) }
    }

    const SEGMENT: u32 = ((32 - W) << 8) | 31;

    /// The value that lane `rank` holds (the rank is taken modulo the width). PTX: `shfl.sync.idx.b32`.
    #[inline(always)]
    #[track_caller]
    pub fn shuffle<T: Shuffle>(self, value: T, rank: u32) -> T {
        if W == 1 {
            return value;
        }
        let site = backend::site();
        value.map_words(|word| backend::shuffle(site, self.mask(), word, rank, Self::SEGMENT))
    }

    /// The value of the lane whose rank differs in the bits of `flip`. PTX: `shfl.sync.bfly.b32`.
    #[inline(always)]
    #[track_caller]
    pub fn shuffle_xor<T: Shuffle>(self, value: T, flip: u32) -> T {
        let site = backend::site();
        value.map_words(|word| backend::shuffle_xor(site, self.mask(), word, flip, Self::SEGMENT))
    }

    /// The value of the lane `by` ranks below; the caller's own where there is none. PTX: `shfl.sync.up.b32`.
    #[inline(always)]
    #[track_caller]
    pub fn shuffle_up<T: Shuffle>(self, value: T, by: u32) -> T {
        let site = backend::site();
        value.map_words(|word| backend::shuffle_up(site, self.mask(), word, by, (32 - W) << 8))
    }

    /// The value of the lane `by` ranks above; the caller's own where there is none. PTX:
    /// `shfl.sync.down.b32`.
    #[inline(always)]
    #[track_caller]
    pub fn shuffle_down<T: Shuffle>(self, value: T, by: u32) -> T {
        let site = backend::site();
        value.map_words(|word| backend::shuffle_down(site, self.mask(), word, by, Self::SEGMENT))
    }

    /// The ranks that hold the caller's value. PTX: `match.any.sync.b32`.
    #[inline(always)]
    #[track_caller]
    pub fn match_any(self, value: u32) -> u32 {
        (backend::match_any(self.mask(), value) >> self.first_lane()) & Self::ONES
    }

    /// The ranks that hold the same low `BITS` bits as the caller, by a ballot a bit.
    ///
    /// For values of a few bits: the ballots are independent of each other, where `match.any` works off one
    /// distinct value after the other.
    #[inline(always)]
    #[track_caller]
    pub fn match_bits<const BITS: u32>(self, value: u32) -> u32 {
        let (mut same, mut bit) = (Self::ONES, 0);
        while bit < BITS {
            // Opaque, both: else the compiler makes predicate and mask by a shift, a cut and a subtraction
            // each.
            let votes = self.ballot(crate::opaque(value & 1 << bit) != 0);
            let mask = (crate::opaque(value << (31 - bit)) as i32 >> 31) as u32;
            same &= !(votes ^ mask);
            bit += 1;
        }
        same
    }

    /// The sum over the tile, wrapping, given to every lane. PTX: `redux.sync.add` for a warp, else shuffles.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_add(self, value: u32) -> u32 {
        if W == 32 {
            return backend::reduce_add(self.mask(), value);
        }
        self.reduce(value, u32::wrapping_add)
    }

    /// The smallest (unsigned) over the tile. PTX: `redux.sync.min.u32` for a warp, else shuffles.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_min(self, value: u32) -> u32 {
        if W == 32 {
            return backend::reduce_min(self.mask(), value);
        }
        self.reduce(value, u32::min)
    }

    /// The largest (unsigned) over the tile. PTX: `redux.sync.max.u32` for a warp, else shuffles.
    #[inline(always)]
    #[track_caller]
    pub fn reduce_max(self, value: u32) -> u32 {
        if W == 32 {
            return backend::reduce_max(self.mask(), value);
        }
        self.reduce(value, u32::max)
    }

    #[inline(always)]
    #[track_caller]
    fn reduce(self, value: u32, pair: fn(u32, u32) -> u32) -> u32 {
        let (mut total, mut flip) = (value, W / 2);
        while flip > 0 {
            total = pair(total, self.shuffle_xor(total, flip));
            flip /= 2;
        }
        total
    }

    /// Waits for the lanes that meet here; what they wrote before is visible to them after. PTX:
    /// `bar.warp.sync`.
    #[inline(always)]
    #[track_caller]
    pub fn sync(self) {
        backend::warp_sync(self.mask());
    }
}
