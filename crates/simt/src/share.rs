//! The work-sharing loop (slab-hash paper, section IV-A): every lane brings an operation, and the lanes of a
//! tile execute them together, one after the other.
//!
//! Written once, for tiles of every width. In lockstep the tiles of a warp take their turns together: a tile
//! that finishes an operation early goes on with its next one in the same round in which its neighbours probe
//! further, so a warp takes as many rounds as its busiest tile has steps, and every collective costs one
//! instruction a warp.
use crate::{Convergence, Shuffle, Tile};

/// One round of the loop: whose operation the tile works on.
#[derive(Clone, Copy, Debug)]
pub struct Turn<const W: u32, C> {
    tile: Tile<W, C>,
    owner: u32,
    active: bool,
}

impl<const W: u32, C: Convergence> Turn<W, C> {
    /// The tile.
    #[inline(always)]
    pub fn tile(&self) -> Tile<W, C> {
        self.tile
    }

    /// Whether the tile has an operation at all. In lockstep it may only keep the others company: it then
    /// takes part in every collective and touches no memory.
    #[inline(always)]
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Whether the operation is the calling lane's own.
    #[inline(always)]
    pub fn is_mine(&self) -> bool {
        self.active && self.tile.rank() == self.owner
    }

    /// The owner's value, in every lane of the tile.
    #[inline(always)]
    #[track_caller]
    pub fn from_owner<T: Shuffle>(&self, value: T) -> T {
        self.tile.shuffle(value, self.owner)
    }
}

/// Lets the tile execute the operation of each of its lanes that says `pending`.
///
/// `step` does one step of the operation whose turn it is and says whether that operation is finished; all
/// lanes of the tile must say the same. What the operation needs from one step to the next lives in its
/// owner's variables.
#[inline(always)]
#[track_caller]
pub fn share_work<const W: u32, C: Convergence>(
    tile: Tile<W, C>,
    pending: bool,
    mut step: impl FnMut(Turn<W, C>) -> bool,
) {
    let mut queue = Queue::new(tile, pending);
    while let Some(turn) = queue.turn() {
        if step(turn) {
            queue.finish();
        }
    }
}

/// The operations of a tile's lanes that are not finished: [`share_work`] for those whose step is too large
/// for the compiler to put a closure in its place.
#[derive(Clone, Copy, Debug)]
pub struct Queue<const W: u32, C> {
    tile: Tile<W, C>,
    waiting: u32,
}

impl<const W: u32, C: Convergence> Queue<W, C> {
    /// The operations of the lanes that say `pending`.
    #[inline(always)]
    #[track_caller]
    pub fn new(tile: Tile<W, C>, pending: bool) -> Self {
        Self { tile, waiting: tile.ballot(pending) }
    }

    /// The next round, while there are operations: in lockstep, of any tile of the warp.
    #[inline(always)]
    #[track_caller]
    pub fn turn(&self) -> Option<Turn<W, C>> {
        if !self.tile.any_converged(self.waiting != 0) {
            return None;
        }
        let owner = self.waiting.trailing_zeros() % W;
        Some(Turn { tile: self.tile, owner, active: self.waiting != 0 })
    }

    /// The ranks whose operations are not finished: bit `r` is rank `r`.
    #[inline(always)]
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The operations of these ranks are finished, whoever's turn it was. All lanes of the tile say so
    /// together.
    #[inline(always)]
    pub fn finish_all(&mut self, ranks: u32) {
        self.waiting &= !ranks;
    }

    /// The operation whose turn it was is finished. All lanes of the tile say so together.
    #[inline(always)]
    pub fn finish(&mut self) {
        self.waiting &= self.waiting.wrapping_sub(1);
    }
}
