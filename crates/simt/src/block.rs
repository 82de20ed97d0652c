//! The thread block: its barrier and its memory.
use crate::Word;
use crate::backend;
use core::marker::PhantomData;

/// The calling thread's block.
#[derive(Clone, Copy, Debug)]
pub struct Block;

impl Block {
    /// Waits until every thread of the block is here; what they wrote before is visible after. PTX: `barrier.sync 0`.
    /// Emulator: a rendezvous; a thread that has ended or waits elsewhere is reported.
    #[inline(always)]
    #[track_caller]
    pub fn sync() {
        backend::block_sync();
    }
}

/// An array in the memory of a block, made by [`shared!`](crate::shared!): each block has its own, uninitialised at first.
#[derive(Debug)]
pub struct Shared<T> {
    address: u64,
    len: usize,
    of: PhantomData<*mut T>,
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Word> Shared<T> {
    /// The array of `len` elements at `address` of the block's shared memory.
    ///
    /// # Safety
    /// - `address` came from the back end's shared-memory site of at least `len` elements of `T`, aligned for `T`.
    #[doc(hidden)]
    pub unsafe fn at_address(address: u64, len: usize) -> Self {
        Self { address, len, of: PhantomData }
    }

    /// Elements.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // an array of `shared!` is never empty
    pub fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    #[track_caller]
    fn element(self, index: usize) -> u64 {
        assert!(index < self.len);
        self.address + (index * size_of::<T>()) as u64
    }

    /// Reads an element. PTX: `ld.shared`.
    #[inline(always)]
    #[track_caller]
    pub fn load(self, index: usize) -> T {
        // SAFETY: `element` checked the index against the length that the site was made with.
        unsafe { backend::load_shared(self.element(index)) }
    }

    /// Writes an element. PTX: `st.shared`.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, index: usize, value: T) {
        // SAFETY: as in `load`.
        unsafe { backend::store_shared(self.element(index), value) }
    }
}

impl Shared<u32> {
    /// Adds to an element, giving what was there. PTX: `atom.relaxed.cta.shared.add.u32`.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_add(self, index: usize, value: u32) -> u32 {
        // SAFETY: as in `load`.
        unsafe { backend::fetch_add_shared(self.element(index), value) }
    }
}

/// Declares an array in the memory of a block: `let buffer = shared!([u32; 64]);` gives a [`Shared<u32>`](crate::Shared).
///
/// Every thread of a block that passes the same line of source gets the same array.
#[macro_export]
macro_rules! shared {
    ([$word:ty; $len:expr]) => {{
        // A function of its own that is never inlined: the array stands once, however often the line is compiled.
        #[inline(never)]
        fn site() -> u64 {
            $crate::private::shared_site::<{ $len * size_of::<$word>() }>(site as *const () as usize)
        }
        // SAFETY: the site has `len` elements of the word, aligned to 16 bytes.
        unsafe { $crate::Shared::<$word>::at_address(site(), $len) }
    }};
}
