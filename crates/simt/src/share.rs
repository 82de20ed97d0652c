//! The work-sharing loop (slab-hash paper, section IV-A): every lane brings an operation, and the lanes of a tile
//! execute them together, one after the other.
//!
//! Written once, for tiles of every width. In lockstep the tiles of a warp take their turns together: a tile that finishes an
//! operation early goes on with its next one in the same round in which its neighbours probe further, so a warp takes
//! as many rounds as its busiest tile has steps, and every collective costs one instruction a warp.
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

    /// Whether the tile has an operation at all. In lockstep it may only keep the others company: it then takes part in every
    /// collective and touches no memory.
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
/// `step` does one step of the operation whose turn it is and says whether that operation is finished; all lanes of the tile
/// must say the same. What the operation needs from one step to the next lives in its owner's variables.
#[inline(always)]
#[track_caller]
pub fn share_work<const W: u32, C: Convergence>(
    tile: Tile<W, C>,
    pending: bool,
    mut step: impl FnMut(Turn<W, C>) -> bool,
) {
    let mut queue = tile.ballot(pending);
    while tile.any_converged(queue != 0) {
        let turn = Turn { tile, owner: queue.trailing_zeros() % W, active: queue != 0 };
        if step(turn) {
            queue &= queue.wrapping_sub(1);
        }
    }
}
