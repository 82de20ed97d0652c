//! Copies of values between items and batches, by a whole warp: its lanes copy neighbouring words.
use super::kind::Config;
use super::view::PersistentView;
use simt::{Global, GlobalSlice, Lockstep, Order, Scope, Tile, device};

/// Copies one word of a value: `word` is its place in the item, `index` its number in the batch.
pub(super) trait Mover: Copy {
    /// Copies the word.
    fn step(self, word: Global<u32>, index: usize);
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

/// Copies the values at the addresses of all lanes, each to or from the value of its lane's number in the
/// batch. A lane without one has the address 0.
///
/// # Safety
/// - The addresses are those of items' values.
#[device]
pub(super) unsafe fn move_values<C: Config>(
    view: PersistentView<C>,
    warp: Tile<32, Lockstep>,
    (address, index): (u64, u32),
    mover: impl Mover,
) {
    if !warp.any(address != 0) {
        return;
    }
    let words = view.value_words();
    let (values_a_step, rest) = (32 / words, 32 % words);
    // The words of the 32 values are numbered value by value; each iteration copies 32 neighbouring ones.
    let (mut owner, mut at) = (warp.rank() / words, warp.rank() % words);
    let mut iteration = 0;
    while iteration < words {
        let (theirs, index) = warp.shuffle((address, index), owner);
        if theirs != 0 {
            // SAFETY: the caller's obligation. A value has this word.
            let word = unsafe { Global::new(theirs as *mut u32).offset(at as usize) };
            mover.step(word, index as usize * words as usize + at as usize);
        }
        owner += values_a_step;
        at += rest;
        if at >= words {
            at -= words;
            owner += 1;
        }
        iteration += 1;
    }
}

/// Copies values of items to an output. The reads precede all later accesses of the lane.
#[derive(Clone, Copy)]
pub(super) struct CopyOut {
    pub(super) to: GlobalSlice<u32>,
    /// Order of the reads: weak if nothing writes the items meanwhile.
    pub(super) order: Order,
}

#[device]
impl Mover for CopyOut {
    fn step(self, word: Global<u32>, index: usize) {
        self.to.write(index, word.load(self.order, Scope::Device));
    }
}

/// Copies values of a batch to items of claimed slots.
#[derive(Clone, Copy)]
pub(super) struct CopyIn {
    pub(super) from: GlobalSlice<u32>,
}

#[device]
impl Mover for CopyIn {
    fn step(self, word: Global<u32>, index: usize) {
        word.store(self.from.read(index), Order::Relaxed, Scope::Device);
    }
}
