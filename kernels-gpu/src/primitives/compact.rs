//! The elements that pass a test, side by side, in their order.
//!
//! A lane's elements are 32 apart, so a ballot tells the ranks of 32 neighbours; the warps' counts go through
//! the scan's look-back.
use super::carry::Carry;
use super::lookback::Values;
use super::scan::Sum;
use super::{ticket, unrolled};
use simt::{GlobalSlice, Instance, Thread, Tile, Word, kernel};

/// Threads a block.
pub const THREADS: u32 = 256;

/// Elements a thread.
pub const ITEMS: usize = 8;

/// What an element is tested for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The byte at its place in `flags` is not zero.
    Flagged = 0,
    /// It is the operand.
    Equal = 1,
    /// It is less than the operand.
    Less = 2,
    /// It begins a run: it is the first, or not what stands before it.
    BeginsRun = 3,
}

/// An element that can be chosen.
pub trait Element: Copy + Send + Sync + 'static {
    /// The word.
    type Word: Word + Ord;
}

impl<T: Word + Ord> Element for super::words::Ordered<T> {
    type Word = T;
}

/// Which elements are chosen.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Choice<T> {
    /// A [`Test`].
    pub test: u32,
    /// 1 to choose what fails it.
    pub inverted: u32,
    /// What elements are compared with: one word, where the test wants it.
    pub operand: GlobalSlice<T>,
    /// A byte an element, where the test wants them.
    pub flags: GlobalSlice<u8>,
}

impl<T: Word + Ord> Choice<T> {
    #[inline(always)]
    #[track_caller]
    fn takes(self, from: GlobalSlice<T>, place: usize) -> bool {
        let value = from.read(place);
        let passes = match self.test {
            0 => self.flags.read(place) != 0,
            1 => value == self.operand.read(0),
            2 => value < self.operand.read(0),
            _ => place == 0 || from.read(place - 1) != value,
        };
        passes != (self.inverted != 0)
    }
}

/// Writes the elements of `from` that are chosen to `to`, in their order, and their number to `count[0]`.
/// They begin at the place in `begin[0]` where there is one, else at 0. A block for each [`THREADS`]` *
/// `[`ITEMS`] elements.
#[kernel]
pub fn compact<E: Element + Instance>(
    from: GlobalSlice<E::Word>,
    choice: Choice<E::Word>,
    to: GlobalSlice<E::Word>,
    begin: GlobalSlice<u32>,
    count: GlobalSlice<u32>,
    status: GlobalSlice<u64>,
    tickets: GlobalSlice<u32>,
) {
    let tile = ticket(tickets.at(0));
    let (warp, warps) = (Tile::<32>::lockstep(), THREADS / 32);
    let number = tile as usize * warps as usize + (Thread::index_in_block() / 32) as usize;
    let first = number * 32 * ITEMS + warp.rank() as usize;
    let (mut ranks, mut total) = ([u32::MAX; ITEMS], 0);
    unrolled::<ITEMS>(|i| {
        let place = first + 32 * i;
        let takes = place < from.len() && choice.takes(from, place);
        let votes = warp.ballot(takes);
        if takes {
            ranks[i] = total + (votes & ((1 << warp.rank()) - 1)).count_ones();
        }
        total += votes.count_ones();
    });
    let (before, whole) = {
        let carry = Carry::<Sum<u32>>::new(Values::of(status), warps);
        carry.learn(carry.announce(tile, total), 0)
    };
    let begin = if begin.is_empty() { 0 } else { begin.read(0) };
    unrolled::<ITEMS>(|i| {
        if ranks[i] != u32::MAX {
            to.write((begin + before + ranks[i]) as usize, from.read(first + 32 * i));
        }
    });
    if tile == Thread::grid_size() - 1 && Thread::index_in_block() == 0 && !count.is_empty() {
        count.write(0, whole);
    }
}
