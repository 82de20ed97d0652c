//! The work-sharing loop (slab-hash paper, section IV-A): every lane has an operation, and the lanes of a
//! tile execute these operations together, one after the other.
//!
//! It is written once for tiles of every width. In lockstep, the tiles of a warp execute rounds together: a
//! tile that finishes an operation early starts its next one in the same round in which its neighbours probe
//! further. A warp therefore takes as many rounds as its busiest tile has steps, and every collective costs
//! one instruction per warp.
use crate::{Convergence, Shuffle, Tile};
use simt_macros::device;

/// One round of the loop: the operation that the tile executes.
///
/// # Cost
///
/// `from_owner` executes one shuffle per 32 bits of the value; the others are arithmetic in registers.
#[derive(Clone, Copy, Debug)]
pub struct CurrentOp<const W: u32, C> {
    tile: Tile<W, C>,
    owner: u32,
    active: bool,
}

#[device]
impl<const W: u32, C: Convergence> CurrentOp<W, C> {
    /// Returns the tile.
    pub fn tile(&self) -> Tile<W, C> {
        self.tile
    }

    /// Returns `true` if the tile has an operation. In lockstep, an inactive tile still takes part in every
    /// collective but accesses no memory.
    pub fn is_active(&self) -> bool {
        self.active
    }

    /// Returns `true` if the operation belongs to the calling lane.
    pub fn is_mine(&self) -> bool {
        self.active && self.tile.rank() == self.owner
    }

    /// Returns the owner's value, in every lane of the tile.
    #[device(caller)]
    pub fn from_owner<T: Shuffle>(&self, value: T) -> T {
        self.tile.shuffle(value, self.owner)
    }
}

/// Lets the tile execute the operation of each of its lanes with `pending`.
///
/// `step` executes one step of the current operation and returns `true` if the operation is finished; it must
/// return the same value in all lanes of the tile. State that the operation keeps between steps lives in its
/// owner's variables.
#[device(caller)]
pub fn share_work<const W: u32, C: Convergence>(
    tile: Tile<W, C>,
    pending: bool,
    mut step: impl FnMut(CurrentOp<W, C>) -> bool,
) {
    let mut queue = Queue::new(tile, pending);
    while let Some(turn) = queue.next_op() {
        if step(turn) {
            queue.finish();
        }
    }
}

/// The unfinished operations of a tile's lanes: [`share_work`] for steps that are too large for the compiler
/// to inline as a closure.
///
/// ```
/// use simt::{GlobalSlice, Grid, Queue, Thread, Tile, kernel};
///
/// /// Counts the rounds in which the tile serves its lanes, which all want the same.
/// #[kernel]
/// fn serve(rounds: GlobalSlice<u32>) {
///     let tile = Tile::<4>::lockstep();
///     let mut queue = Queue::new(tile, true);
///     let (mut served, mut all) = (0, 0);
///     while let Some(op) = queue.next_op() {
///         all = if op.is_active() { queue.waiting() } else { all };
///         served += 1;
///         queue.finish(); // or several at once:
///         queue.finish_all(0b1100);
///     }
///     rounds.write(Thread::index(), served * 100 + all);
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut rounds = [0; 32];
/// run(Grid::new(1, 32), &mut rounds, |rounds| Serve { rounds });
/// assert_eq!(rounds, [202; 32]); // two rounds; in the second, only rank 1 waited
/// ```
///
/// # Cost
///
/// `new` executes one ballot, `next_op` one vote; the others are arithmetic in registers.
#[derive(Clone, Copy, Debug)]
pub struct Queue<const W: u32, C> {
    tile: Tile<W, C>,
    waiting: u32,
}

#[device]
impl<const W: u32, C: Convergence> Queue<W, C> {
    /// Creates the queue of the operations of the lanes with `pending`.
    #[device(caller)]
    pub fn new(tile: Tile<W, C>, pending: bool) -> Self {
        Self { tile, waiting: tile.ballot(pending) }
    }

    /// Returns the next round while there are operations: in lockstep, of any tile of the warp.
    #[device(caller)]
    pub fn next_op(&self) -> Option<CurrentOp<W, C>> {
        if !self.tile.any_converged(self.waiting != 0) {
            return None;
        }
        let owner = self.waiting.trailing_zeros() % W;
        Some(CurrentOp { tile: self.tile, owner, active: self.waiting != 0 })
    }

    /// Returns the ranks whose operations are not finished: bit `r` is rank `r`.
    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// Marks the operations of `ranks` as finished, including any that are not current. All lanes of the tile
    /// must call it together.
    pub fn finish_all(&mut self, ranks: u32) {
        self.waiting &= !ranks;
    }

    /// Marks the current operation as finished. All lanes of the tile must call it together.
    pub fn finish(&mut self) {
        self.waiting &= self.waiting.wrapping_sub(1);
    }
}
