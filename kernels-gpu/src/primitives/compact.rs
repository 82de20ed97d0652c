//! Compaction: collects the elements that pass a test, in their order.
//!
//! A lane's elements are 32 apart, so a ballot determines the ranks of 32 neighbours; the warps' counts go
//! through the scan's look-back.
//!
//! # Cost
//!
//! Reads each element, and its flag if there is one; reads the selected elements again and writes them. A
//! ballot per 32 elements.
use super::carry::Carry;
use super::lookback::Values;
use super::operator::Sum;
use super::{ticket, unrolled};
use simt::{GlobalSlice, Instance, Thread, Tile, Word, device, kernel};

/// Number of threads per block.
pub const THREADS: u32 = 256;

/// Number of elements per thread.
pub const ITEMS: usize = 8;

/// Test that an element must pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Test {
    /// The byte with the element's index in `flags` is not zero.
    Flagged = 0,
    /// The element equals the operand.
    Equal = 1,
    /// The element is less than the operand.
    Less = 2,
    /// The element begins a run: it is the first element, or differs from its predecessor.
    BeginsRun = 3,
}

/// A word type whose elements can be selected.
pub trait Element: Copy + Send + Sync + 'static {
    /// Type of the words.
    type Word: Word + Ord;
}

impl<T: Word + Ord> Element for super::words::Ordered<T> {
    type Word = T;
}

/// Selection of elements.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Choice<T> {
    /// Code of the [`Test`].
    pub test: u32,
    /// 1 to select the elements that fail the test.
    pub inverted: u32,
    /// Operand of the comparison: one word, if the test needs it.
    pub operand: GlobalSlice<T>,
    /// One byte per element, if the test needs them.
    pub flags: GlobalSlice<u8>,
}

impl<T: Word + Ord> Choice<T> {
    #[device(caller)]
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

/// Writes the selected elements of `from` to `to`, in their order, and their number to `count[0]`. The first
/// one goes to index `begin[0]`, or to 0 if `begin` is empty. The grid has one block for each [`THREADS`]` *
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
            ranks[i] = total + (votes & warp.lower_ranks()).count_ones();
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
