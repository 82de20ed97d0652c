//! The block: its barrier and its shared memory.
use crate::memory::{Cell, In};
use simt::{Block, Global, Order, Scope, Shared, SharedShape, kernel, shared};

/// Executes the barrier.
#[kernel]
pub fn block_sync() {
    Block::sync();
}

/// A word type with arrays in shared memory.
pub trait Stored: Cell {
    /// Writes an element of a block's array and reads another one.
    fn pass(value: Self::Word, write: usize, read: usize) -> Self::Word;
}

macro_rules! kept {
    ($($word:ty)*) => {$(
        impl Stored for In<5, $word> {
            #[inline(always)]
            fn pass(value: $word, write: usize, read: usize) -> $word {
                let array = shared!([$word; 8]);
                array.store(write, value);
                array.load(read)
            }
        }
    )*};
}
kept!(u8 u32 u64 u128);

/// Stores and loads an element.
#[kernel]
pub fn shared_array<K: Stored>(out: Global<K::Word>, value: K::Word, write: usize, read: usize) {
    out.store(K::pass(value, write, read), Order::Weak, Scope::Block);
}

/// Loads an element that may be uninitialised.
#[kernel]
pub fn shared_load_uninit(out: Global<u32>, index: usize) {
    let words = shared!([u32; 8]);
    out.store(words.load_uninit(index), Order::Weak, Scope::Block);
}

/// Executes an atomic on an element.
#[kernel]
pub fn shared_fetch_add(out: Global<u32>, index: usize) {
    let counters = shared!([u32; 8]);
    out.store(counters.fetch_add(index, 5), Order::Weak, Scope::Block);
}

/// Declares two arrays of one type on two source lines, which must be distinct.
#[kernel]
pub fn shared_twice(out: Global<u32>) {
    let (first, second) = (shared!([u32; 8]), shared!([u32; 8]));
    first.store(0, 1);
    second.store(0, 2);
    out.store(first.load(0), Order::Weak, Scope::Block);
}

/// A shape with `N` elements.
struct Elements<const N: usize>;

impl<const N: usize> SharedShape for Elements<N> {
    type Word = u32;
    const LEN: usize = N;
}

/// Uses two arrays of two shapes; one is requested twice, and accessed without checks and as other words.
#[kernel]
pub fn shared_shapes(out: Global<u32>, at: u32) {
    let (near, far) = (Shared::of::<Elements<4>>(), Shared::of::<Elements<8>>());
    // SAFETY: the test only inspects the code; it is never run.
    unsafe {
        near.store_unchecked(at, 1);
        far.cast::<u64>().store_unchecked(at, 2);
        let old = Shared::of::<Elements<4>>().fetch_add_unchecked(at, 3);
        let old = old + near.fetch_add_if(at == 1, 1, 3);
        near.or_unchecked(at, old);
        out.store(old + far.load_unchecked(at), Order::Weak, Scope::Block);
    }
}

simt::instances! {
    named { u8: In<5, u8>, u32: In<5, u32>, u64: In<5, u64>, u128: In<5, u128> }
    kernels { SharedArray }
}
