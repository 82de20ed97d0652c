//! The block: its barrier and its memory.
use crate::memory::{Cell, In};
use simt::{Block, Global, Order, Scope, Shared, SharedShape, kernel, shared};

/// The barrier.
#[kernel]
pub fn block_sync() {
    Block::sync();
}

/// A word that a block keeps arrays of.
pub trait Kept: Cell {
    /// Writes an element of a block's array and reads another one.
    fn pass(value: Self::Word, write: usize, read: usize) -> Self::Word;
}

macro_rules! kept {
    ($($word:ty)*) => {$(
        impl Kept for In<5, $word> {
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

/// A store and a load of an element.
#[kernel]
pub fn shared_array<K: Kept>(out: Global<K::Word>, value: K::Word, write: usize, read: usize) {
    out.store(K::pass(value, write, read), Order::Weak, Scope::Block);
}

/// A load of an element that may not have been written.
#[kernel]
pub fn shared_load_uninit(out: Global<u32>, index: usize) {
    let words = shared!([u32; 8]);
    out.store(words.load_uninit(index), Order::Weak, Scope::Block);
}

/// An atomic on an element.
#[kernel]
pub fn shared_fetch_add(out: Global<u32>, index: usize) {
    let counters = shared!([u32; 8]);
    out.store(counters.fetch_add(index, 5), Order::Weak, Scope::Block);
}

/// Two arrays of one type: two lines of source, two places.
#[kernel]
pub fn shared_twice(out: Global<u32>) {
    let (first, second) = (shared!([u32; 8]), shared!([u32; 8]));
    first.store(0, 1);
    second.store(0, 2);
    out.store(first.load(0), Order::Weak, Scope::Block);
}

/// Elements as a type.
struct Elements<const N: usize>;

impl<const N: usize> SharedShape for Elements<N> {
    type Word = u32;
    const LEN: usize = N;
}

/// Two arrays of two shapes; one of them asked for twice, accessed without checks and as other words.
#[kernel]
pub fn shared_shapes(out: Global<u32>, at: u32) {
    let (near, far) = (Shared::of::<Elements<4>>(), Shared::of::<Elements<8>>());
    // SAFETY: the test only looks at the code; nobody runs it.
    unsafe {
        near.store_unchecked(at, 1);
        far.cast::<u64>().store_unchecked(at, 2);
        let old = Shared::of::<Elements<4>>().fetch_add_unchecked(at, 3);
        let old = old + near.fetch_add_if(at == 1, 1, 3);
        out.store(old + far.load_unchecked(at), Order::Weak, Scope::Block);
    }
}

simt::instances! {
    types { u8: In<5, u8>, u32: In<5, u32>, u64: In<5, u64>, u128: In<5, u128> }
    kernels { SharedArray }
}
