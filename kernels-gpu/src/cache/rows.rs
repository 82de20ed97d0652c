//! Copies of rows between the table and batches, by a whole warp: its lanes move neighbouring chunks.
use super::layout::NOWHERE;
use super::view::Rows;
use crate::keyed::Scalar;
use simt::{Global, GlobalSlice, Lockstep, Order, Scope, Shuffle, Tile, bound, device};

/// Number of words that a lane moves at once.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// One word: for rows whose addresses are multiples of 4 bytes only.
    One = 1,
    /// Four words, 16 bytes.
    Four = 4,
}

/// The rows of a batch or of an output, one behind the other.
///
/// ```
/// use phalanx_kernels::cache::RowSlice;
/// use simt::GlobalSlice;
///
/// /// Returns the rows of the elements from `first` on, if rows of `words` words are wanted.
/// fn rows_from(rows: GlobalSlice<u32>, words: usize, first: usize) -> Option<RowSlice> {
///     let rows = RowSlice::new(rows);
///     (!rows.is_empty()).then(|| rows.part(first * words, usize::MAX))
/// }
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RowSlice {
    words: GlobalSlice<u32>,
}

#[device(caller)]
impl RowSlice {
    /// Returns the rows that these words contain.
    #[device]
    pub fn new(words: GlobalSlice<u32>) -> Self {
        Self { words }
    }

    /// Returns whether there are no rows.
    #[device]
    pub fn is_empty(self) -> bool {
        self.words.is_empty()
    }

    /// Returns at most `len` words from the word `first` on.
    #[device]
    pub fn part(self, first: usize, len: usize) -> Self {
        Self { words: self.words.part(first, len) }
    }

    /// Returns the chunk of row `index` that begins at the word `first` and has `N` words; rows have `words`
    /// words. Ends the launch if there is no such row.
    fn chunk<const N: usize>(self, index: u32, words: u32, first: u32) -> Global<u32> {
        let at = index as usize * words as usize + first as usize;
        // Checks the chunk's last word.
        let _ = self.words.at(at + N - 1);
        self.words.at(at)
    }
}

/// Moves one chunk of a row.
pub(super) trait Mover {
    /// Description of a lane's row for the lanes that move it.
    type Task: Shuffle;

    /// Moves `N` words of a row of `words` words, from the word `first` on. `chunk` is their place in the
    /// table.
    fn step<const N: usize>(&self, task: Self::Task, chunk: Global<u32>, words: u32, first: u32);
}

/// Moves the rows at the positions of all lanes, each according to its lane's task. A lane without a row has
/// the position [`NOWHERE`].
#[device]
pub(super) fn move_rows<M: Mover>(
    rows: Rows,
    chunk: Chunk,
    warp: Tile<32, Lockstep>,
    (position, task): (u32, M::Task),
    mover: M,
) {
    if !warp.any(position != NOWHERE) {
        return;
    }
    if chunk as u32 == Chunk::Four as u32 {
        move_chunks::<M, 4>(rows, warp, (position, task), mover);
    } else {
        move_chunks::<M, 1>(rows, warp, (position, task), mover);
    }
}

/// Moves rows in chunks of `N` words. The chunks of the 32 rows are numbered row by row; in each iteration,
/// the lanes move 32 neighbouring ones.
#[device]
fn move_chunks<M: Mover, const N: usize>(
    rows: Rows,
    warp: Tile<32, Lockstep>,
    (position, task): (u32, M::Task),
    mover: M,
) {
    let words = rows.words();
    let chunks = words / N as u32;
    let (rows_a_step, rest) = (32 / chunks, 32 % chunks);
    let (mut owner, mut at) = (warp.rank() / chunks, warp.rank() % chunks);
    let mut iteration = 0;
    while iteration < bound(chunks) {
        let (theirs, task) = (warp.shuffle(position, owner), warp.shuffle(task, owner));
        if theirs != NOWHERE {
            let first = at * N as u32;
            // SAFETY: a position that is not `NOWHERE` is that of a slot, and the chunk lies in its row.
            let place = unsafe { rows.of(theirs).offset(first as usize) };
            mover.step::<N>(task, place, words, first);
        }
        owner += rows_a_step;
        at += rest;
        if at >= chunks {
            at -= chunks;
            owner += 1;
        }
        iteration += 1;
    }
}

/// Loads `N` words, 1 or 4.
#[device(caller)]
fn load<const N: usize>(place: Global<u32>, order: Order) -> [u32; N] {
    // SAFETY: chunks of four words are aligned to 16 bytes: `Chunk::Four` requires it.
    unsafe { place.load_vec::<N>(order, Scope::Device) }
}

/// Stores `N` words, 1 or 4.
#[device(caller)]
fn store<const N: usize>(place: Global<u32>, words: [u32; N], order: Order) {
    // SAFETY: as for `load`.
    unsafe { place.store_vec::<N>(words, order, Scope::Device) }
}

/// Copies rows of the table to the rows of an output that the tasks name. Unless `CONCURRENT`, nothing writes
/// them meanwhile. Otherwise the reads precede all later accesses of the lane.
#[derive(Clone, Copy)]
pub(super) struct CopyOut<const CONCURRENT: bool> {
    pub to: RowSlice,
}

#[device]
impl<const CONCURRENT: bool> Mover for CopyOut<CONCURRENT> {
    type Task = u32;

    fn step<const N: usize>(&self, index: u32, chunk: Global<u32>, words: u32, first: u32) {
        let order = if CONCURRENT { Order::Acquire } else { Order::Weak };
        // mutation: late store equivalent, because only later launches read the output.
        store::<N>(self.to.chunk::<N>(index, words, first), load::<N>(chunk, order), Order::Weak);
    }
}

/// Copies the `N` words from the word `first` on of the row at a position to row `index` of an output.
/// Nothing writes the row meanwhile.
#[device]
pub(super) fn copy_chunk<const N: usize>(
    rows: Rows,
    (position, index): (u32, u32),
    to: RowSlice,
    first: u32,
) {
    // SAFETY: the position is that of a slot, and the chunk lies in its row.
    let place = unsafe { rows.of(position).offset(first as usize) };
    CopyOut::<false> { to }.step::<N>(index, place, rows.words(), first);
}

/// Copies the rows of a batch that the tasks name to locked slots.
#[derive(Clone, Copy)]
pub(super) struct CopyIn {
    pub from: RowSlice,
}

#[device]
impl Mover for CopyIn {
    type Task = u32;

    fn step<const N: usize>(&self, index: u32, chunk: Global<u32>, words: u32, first: u32) {
        store::<N>(chunk, load::<N>(self.from.chunk::<N>(index, words, first), Order::Weak), Order::Relaxed);
    }
}

/// Copies rows of a batch to locked slots, after the slots' old rows were copied to an output. A task has
/// the indices of both; that of the output is [`NOWHERE`] where the old row is not wanted.
#[derive(Clone, Copy)]
pub(super) struct Exchange {
    pub from: RowSlice,
    pub evicted: RowSlice,
}

#[device]
impl Mover for Exchange {
    type Task = (u32, u32);

    fn step<const N: usize>(&self, (index, old): (u32, u32), chunk: Global<u32>, words: u32, first: u32) {
        // Both loads before the first store, which waits for one.
        let new = load::<N>(self.from.chunk::<N>(index, words, first), Order::Weak);
        if old != NOWHERE {
            // mutation: weak block equivalent, because the lock has acquired the writes of the last holder,
            // the warp's barrier passes them on, and nobody else writes to the slot until the release.
            let row = load::<N>(chunk, Order::Relaxed);
            // mutation: late equivalent, because only later launches read the output, and the row was read.
            store::<N>(self.evicted.chunk::<N>(old, words, first), row, Order::Weak);
        }
        store::<N>(chunk, new, Order::Relaxed);
    }
}

/// Copies rows of a batch to locked slots that are new, and rows of other locked slots to an output; the
/// output's new rows are those of the batch. A task has the element's index, and whether its slot is new.
#[derive(Clone, Copy)]
pub(super) struct PlaceOrRead {
    pub from: RowSlice,
    pub to: RowSlice,
}

#[device]
impl Mover for PlaceOrRead {
    type Task = (u32, bool);

    fn step<const N: usize>(&self, (index, is_new): (u32, bool), chunk: Global<u32>, words: u32, first: u32) {
        let row = if is_new {
            let row = load::<N>(self.from.chunk::<N>(index, words, first), Order::Weak);
            // mutation: late equivalent, because the lane's next write is before the warp's barrier, too.
            store::<N>(chunk, row, Order::Relaxed);
            row
        } else {
            // mutation: weak block equivalent, because of the lock and the barrier, as in `Exchange`.
            load::<N>(chunk, Order::Relaxed)
        };
        // mutation: late equivalent, because only later launches read the output.
        store::<N>(self.to.chunk::<N>(index, words, first), row, Order::Weak);
    }
}

/// Type of the elements of rows that are added.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// `f32`.
    F32 = 0,
    /// `u32` or `i32`; sums wrap.
    Int32 = 1,
}

#[device]
impl Element {
    /// Returns the sum of two elements, as words.
    fn add(self, a: u32, b: u32) -> u32 {
        if self as u32 == Self::F32 as u32 {
            (f32::from_bits(a) + f32::from_bits(b)).to_bits()
        } else {
            Scalar::wrapping_add(a, b)
        }
    }
}

/// Adds rows of a batch to locked slots: the elements of the batch that have the slot's key, in the order of
/// the batch. A task has the range of these elements in `order`, and whether the slot is new: the sum then
/// begins with the first of the rows.
#[derive(Clone, Copy)]
pub(super) struct Add {
    pub from: RowSlice,
    pub order: GlobalSlice<u32>,
    pub element: Element,
}

#[device]
impl Mover for Add {
    type Task = ((u32, u32), bool);

    fn step<const N: usize>(&self, task: Self::Task, chunk: Global<u32>, words: u32, first: u32) {
        let ((mut next, last), is_new) = task;
        let row = |place: u32| {
            let index = if self.order.is_empty() { place } else { self.order.read(place as usize) };
            load::<N>(self.from.chunk::<N>(index, words, first), Order::Weak)
        };
        // mutation: weak block equivalent, because of the lock and the barrier, as in `Exchange`.
        let mut sum = if is_new { row(next) } else { load::<N>(chunk, Order::Relaxed) };
        next += is_new as u32;
        while next <= bound(last) {
            let more = row(next);
            let mut word = 0;
            while word < bound(N as u32) as usize {
                sum[word] = self.element.add(sum[word], more[word]);
                word += 1;
            }
            next += 1;
        }
        store::<N>(chunk, sum, Order::Relaxed);
    }
}
