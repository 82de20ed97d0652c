//! Unused stacks, kept for the whole process, because an exploration creates devices by the hundred.
use super::launch::RESIDENT_LANES;
use corosensei::stack::{DefaultStack, Stack as _};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Upper bound of the size of the guard page below a stack.
const GUARD: usize = 64 << 10;
/// Bytes at the end of each stack that only the emulator's functions use.
const RESERVE: usize = 32 << 10;

/// Number of stacks that a worker fetches or returns at a time.
const BATCH: usize = 64;

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
        const MOST: usize = isize::MAX as usize - GUARD - RESERVE;
        Self { bytes: bytes.clamp(16 << 10, MOST) + GUARD + RESERVE, at_hand: RefCell::default() }
    }

    /// Takes a stack. Panics if the host lacks memory for it, which fails the launch.
    pub fn take(&self) -> DefaultStack {
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
    pub fn floor(stack: &DefaultStack) -> usize {
        stack.limit().get() + GUARD + RESERVE
    }

    /// Returns a stack to the set.
    pub fn put(&self, stack: DefaultStack) {
        self.at_hand.borrow_mut().push(stack);
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
