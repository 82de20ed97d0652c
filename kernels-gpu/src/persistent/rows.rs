//! Copies of items and their values by a whole warp, whose lanes copy neighbouring words.
use super::kind::Config;
use super::view::PersistentView;
use simt::{Global, GlobalSlice, Lockstep, Order, Scope, Shuffle, Tile, bound, device};

/// Copies a word of a row, for the lane whose row it is.
pub(super) trait Mover: Copy {
    /// The lane's data about the other end of the copy.
    type Other: Shuffle;

    /// Copies word number `at` of a row, which is `word`.
    fn step(self, word: Global<u32>, other: Self::Other, at: u32);
}

/// Returns the address of an item's value.
///
/// # Safety
/// - The position is that of a slot.
#[device]
pub(super) unsafe fn value_at<C: Config>(view: PersistentView<C>, position: u32) -> u64 {
    // SAFETY: the caller's obligation. The value follows the key.
    unsafe { view.item(view.place(position)).offset(2 * C::KEY_WORDS as usize) }.as_ptr() as u64
}

/// Copies the rows of `words` words at the addresses of all lanes. A lane without one has the address 0.
///
/// # Safety
/// - The addresses are those of that many words.
#[device]
pub(super) unsafe fn move_rows<M: Mover>(
    warp: Tile<32, Lockstep>,
    words: u32,
    (address, other): (u64, M::Other),
    mover: M,
) {
    if !warp.any(address != 0) {
        return;
    }
    let (rows_a_step, rest) = (32 / words, 32 % words);
    // The words of the 32 rows are numbered row by row; each iteration copies 32 neighbouring ones.
    let (mut owner, mut at) = (warp.rank() / words, warp.rank() % words);
    let mut iteration = 0;
    // mutation: more performance, because one more iteration only copies words of the first rows again.
    while iteration < bound(words) {
        let (theirs, other) = (warp.shuffle(address, owner), warp.shuffle(other, owner));
        if theirs != 0 {
            // SAFETY: the caller's obligation. A row has this word.
            let word = unsafe { Global::new(theirs as *mut u32).offset(at as usize) };
            mover.step(word, other, at);
        }
        owner += rows_a_step;
        at += rest;
        if at >= words {
            at -= words;
            owner += 1;
        }
        iteration += 1;
    }
}

/// Copies values of items to an output: `other` is the value's number there. The reads precede all later
/// accesses of the lane.
#[derive(Clone, Copy)]
pub(super) struct CopyOut {
    pub(super) to: GlobalSlice<u32>,
    /// Words of a value.
    pub(super) words: u32,
    /// Order of the reads: weak if nothing writes the items meanwhile.
    pub(super) order: Order,
}

#[device]
impl Mover for CopyOut {
    type Other = u32;

    fn step(self, word: Global<u32>, index: u32, at: u32) {
        let place = index as usize * self.words as usize + at as usize;
        // mutation: late store equivalent, because only later launches read the output.
        self.to.write(place, word.load(self.order, Scope::Device));
    }
}

/// Copies values of a batch to items of claimed slots: `other` is the value's number in the batch.
#[derive(Clone, Copy)]
pub(super) struct CopyIn {
    pub(super) from: GlobalSlice<u32>,
    /// Words of a value.
    pub(super) words: u32,
}

#[device]
impl Mover for CopyIn {
    type Other = u32;

    fn step(self, word: Global<u32>, index: u32, at: u32) {
        let place = index as usize * self.words as usize + at as usize;
        word.store(self.from.read(place), Order::Relaxed, Scope::Device);
    }
}

/// Copies items of locked slots to lines of the cache: `other` is the address of the line.
#[derive(Clone, Copy)]
pub(super) struct CopyToLine;

#[device]
impl Mover for CopyToLine {
    type Other = u64;

    fn step(self, word: Global<u32>, line: u64, at: u32) {
        // SAFETY: a line has the words of an item.
        let copy = unsafe { Global::new(line as *mut u32).offset(at as usize) };
        // mutation: weak block load equivalent, because the lock of the item's slot is acquired before the
        // warp's barrier, and the item does not change until it is unlocked.
        copy.store(word.load(Order::Relaxed, Scope::Device), Order::Relaxed, Scope::Device);
    }
}
