//! Unused stacks, kept for the whole process, because an exploration creates devices by the hundred.
use super::launch::RESIDENT_LANES;
use corosensei::stack::{DefaultStack, Stack, StackPointer};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Upper bound of the size of the guard page below a stack.
const GUARD: usize = 64 << 10;
/// Bytes at the end of each stack that only the emulator's functions use.
const RESERVE: usize = 32 << 10;

/// Distance of the beginnings of stacks of neighbouring lanes, modulo a page: two lines of a cache.
const SHIFT: usize = 128;
/// Bytes by which a stack may be shorter than the memory mapped for it.
const SHIFTED: usize = 32 * SHIFT;

/// Number of stacks that a worker fetches or returns at a time.
const BATCH: usize = 64;

/// A stack that begins at an offset that depends on its lane.
///
/// The system maps each stack from a page's beginning, and all lanes of a warp execute the same functions. So
/// without an offset their frames have the same addresses modulo a page, and share a few sets of the
/// processor's first cache, which have fewer ways than a warp has lanes. Each switch to another lane would
/// then miss the cache.
pub struct LaneStack {
    whole: DefaultStack,
    base: StackPointer,
}

impl LaneStack {
    fn new(whole: DefaultStack, lane: u32) -> Self {
        let offset = lane as usize % 32 * SHIFT;
        let base = StackPointer::new(whole.base().get() - offset).unwrap_or(whole.base());
        Self { whole, base }
    }
}

// SAFETY: the stack is a part of `whole`, which has the guard page and is longer than `SHIFTED` by more than
// the least size. `SHIFT` is a multiple of the alignment.
unsafe impl Stack for LaneStack {
    fn base(&self) -> StackPointer {
        self.base
    }

    fn limit(&self) -> StackPointer {
        self.whole.limit()
    }

    #[cfg(windows)]
    fn teb_fields(&self) -> corosensei::stack::StackTebFields {
        self.whole.teb_fields()
    }

    #[cfg(windows)]
    fn update_teb_fields(&mut self, stack_limit: usize, guaranteed_stack_bytes: usize) {
        self.whole.update_teb_fields(stack_limit, guaranteed_stack_bytes);
    }
}

/// Spare stacks, by size.
static SPARE: Mutex<Option<HashMap<usize, Vec<DefaultStack>>>> = Mutex::new(None);

fn spare() -> MutexGuard<'static, Option<HashMap<usize, Vec<DefaultStack>>>> {
    SPARE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The spare stacks of a worker.
pub struct Stacks {
    bytes: usize,
    at_hand: RefCell<Vec<DefaultStack>>,
}

impl Stacks {
    /// Creates an empty set of stacks of at least `bytes` bytes.
    pub fn new(bytes: usize) -> Self {
        const MOST: usize = isize::MAX as usize - GUARD - RESERVE - SHIFTED;
        let bytes = bytes.clamp(16 << 10, MOST) + GUARD + RESERVE + SHIFTED;
        Self { bytes, at_hand: RefCell::default() }
    }

    /// Takes a stack for the lane of this index in its warp. Panics if the host lacks memory for it, which
    /// fails the launch.
    pub fn take(&self, lane: u32) -> LaneStack {
        LaneStack::new(self.take_whole(), lane)
    }

    fn take_whole(&self) -> DefaultStack {
        let mut at_hand = self.at_hand.borrow_mut();
        if at_hand.is_empty() {
            self.fetch(&mut at_hand);
        }
        at_hand.pop().unwrap_or_else(|| {
            let bytes = self.bytes;
            DefaultStack::new(bytes)
                .unwrap_or_else(|error| panic!("no memory for a stack of {bytes} bytes: {error}"))
        })
    }

    fn fetch(&self, at_hand: &mut Vec<DefaultStack>) {
        if let Some(spare) = spare().as_mut().and_then(|sizes| sizes.get_mut(&self.bytes)) {
            at_hand.extend(spare.drain(spare.len().saturating_sub(BATCH)..));
        }
    }

    /// Returns the lowest address of a stack that kernels may use.
    pub fn floor(stack: &LaneStack) -> usize {
        stack.limit().get() + GUARD + RESERVE
    }

    /// Returns a stack to the set.
    pub fn put(&self, stack: LaneStack) {
        self.at_hand.borrow_mut().push(stack.whole);
    }
}

impl Drop for Stacks {
    fn drop(&mut self) {
        let mut sizes = spare();
        let spare = sizes.get_or_insert_default().entry(self.bytes).or_default();
        let room = (RESIDENT_LANES as usize).saturating_sub(spare.len());
        spare.extend(self.at_hand.take().into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn stacks_of_a_warp_use_different_lines_of_a_page() {
        const BYTES: usize = 20 << 10;
        let stacks = Stacks::new(BYTES);
        let taken: Vec<LaneStack> = (0..32).map(|lane| stacks.take(lane)).collect();
        let lines: BTreeSet<usize> = taken.iter().map(|stack| stack.base().get() / 64 % 64).collect();
        assert_eq!(lines.len(), 32);
        for stack in &taken {
            assert!(stack.base().get() - Stacks::floor(stack) >= BYTES);
        }
    }
}
