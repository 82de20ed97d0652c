//! The thread block: its barrier and its memory.
use crate::Word;
use crate::backend::{self, SharedAddress};
use core::marker::PhantomData;

/// The calling thread's block.
#[derive(Clone, Copy, Debug)]
pub struct Block;

impl Block {
    /// Waits until every thread of the block is here; what they wrote before is visible after. PTX:
    /// `barrier.sync 0`. Emulator: a rendezvous; a thread that has ended or waits elsewhere is reported.
    #[inline(always)]
    #[track_caller]
    pub fn sync() {
        backend::block_sync();
    }
}

/// An array in the memory of a block, made by [`shared!`](crate::shared!): each block has its own,
/// uninitialised at first.
#[derive(Debug)]
pub struct Shared<T> {
    address: SharedAddress,
    len: usize,
    of: PhantomData<*mut T>,
}

impl<T> Clone for Shared<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

/// The shape of an array in the memory of a block, as a type: what generic code uses where
/// [`shared!`](crate::shared!) wants a literal.
pub trait SharedShape: 'static {
    /// What it is made of.
    type Word: Word;
    /// Elements.
    const LEN: usize;
}

impl<T: Word> Shared<T> {
    /// The array of `len` elements at `address` of the block's shared memory.
    ///
    /// # Safety
    /// - `address` came from the back end's shared-memory site of at least `len` elements of `T`, aligned for
    ///   `T`.
    #[doc(hidden)]
    #[inline(always)]
    pub unsafe fn at_address(address: SharedAddress, len: usize) -> Self {
        Self { address, len, of: PhantomData }
    }

    /// The array of the shape `S`: the same one for all threads of the block, wherever they ask, and another
    /// one for another shape.
    #[inline(always)]
    #[track_caller]
    pub fn of<S: SharedShape<Word = T>>() -> Self {
        Self { address: backend::shared_shape::<S>(), len: S::LEN, of: PhantomData }
    }

    /// The same memory as elements of another word, as many as fit. Accesses of different threads by both
    /// need a barrier between them.
    ///
    /// # Safety
    /// - The array begins at a place that is aligned for `U`. (Arrays of [`shared!`](crate::shared!) and of
    ///   shapes are aligned to 16 bytes.)
    #[inline(always)]
    pub unsafe fn cast<U: Word>(self) -> Shared<U> {
        let len = self.len * size_of::<T>() / size_of::<U>();
        Shared { address: self.address, len, of: PhantomData }
    }

    /// `len` elements from `first` on.
    ///
    /// # Safety
    /// - There are so many.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn part(self, first: u32, len: usize) -> Self {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!(
            first as usize + len <= self.len,
            "{len} elements from {first} on, of {} in shared memory",
            self.len
        );
        Self {
            address: self.address + first as SharedAddress * size_of::<T>() as SharedAddress,
            len,
            of: PhantomData,
        }
    }

    /// Elements.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // an array of `shared!` is never empty
    pub fn len(self) -> usize {
        self.len
    }

    #[inline(always)]
    #[track_caller]
    fn element(self, index: usize) -> SharedAddress {
        assert!(index < self.len);
        self.address + (index * size_of::<T>()) as SharedAddress
    }

    /// The place of an element, unchecked on a GPU.
    #[inline(always)]
    #[track_caller]
    fn place(self, index: u32) -> SharedAddress {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!((index as usize) < self.len, "element {index} of {} in shared memory", self.len);
        self.address + index as SharedAddress * size_of::<T>() as SharedAddress
    }

    /// [`Self::load`] without the check, for loops whose every instruction counts. The emulator checks all
    /// the same.
    ///
    /// # Safety
    /// - `index` is below the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load_unchecked(self, index: u32) -> T {
        // SAFETY: the caller's.
        unsafe { backend::load_shared(self.place(index)) }
    }

    /// [`Self::store`] without the check.
    ///
    /// # Safety
    /// - `index` is below the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_unchecked(self, index: u32, value: T) {
        // SAFETY: the caller's.
        unsafe { backend::store_shared(self.place(index), value) }
    }

    /// Reads an element. PTX: `ld.shared`.
    #[inline(always)]
    #[track_caller]
    pub fn load(self, index: usize) -> T {
        // SAFETY: `element` checked the index against the length that the site was made with.
        unsafe { backend::load_shared(self.element(index)) }
    }

    /// Reads an element that nobody may have written yet: then the value is arbitrary. It may be what an
    /// earlier block left there. PTX: `ld.shared`. Emulator: [`Self::load`] without the check that the
    /// element was written.
    #[inline(always)]
    #[track_caller]
    pub fn load_uninit(self, index: usize) -> T {
        // SAFETY: as in `load`; every value of a word is one of its type's.
        unsafe { backend::load_shared_uninit(self.element(index)) }
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

    /// [`Self::fetch_add`] without the check.
    ///
    /// # Safety
    /// - `index` is below the length.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_add_unchecked(self, index: u32, value: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { backend::fetch_add_shared(self.place(index), value) }
    }

    /// [`Self::fetch_add_unchecked`] where `wanted`; else nothing is added, and what is given is arbitrary.
    ///
    /// PTX: the atomic under a predicate, so that the lanes of a warp need not part and meet again.
    /// Emulator: 0.
    ///
    /// # Safety
    /// - `index` is below the length, where `wanted`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn fetch_add_if(self, wanted: bool, index: u32, value: u32) -> u32 {
        // SAFETY: the caller's.
        unsafe { backend::fetch_add_shared_if(wanted, || self.place(index), value) }
    }
}

/// Declares an array in the memory of a block: `let buffer = shared!([u32; 64]);` gives a
/// [`Shared<u32>`](crate::Shared).
///
/// Every thread of a block that passes the same line of source gets the same array.
#[macro_export]
macro_rules! shared {
    ([$word:ty; $len:expr]) => {{
        // A function of its own that is never inlined: the array stands once, however often the line is
        // compiled.
        #[inline(never)]
        fn site() -> $crate::private::SharedAddress {
            $crate::private::shared_site::<{ $len * size_of::<$word>() }>(site as *const () as usize)
        }
        // SAFETY: the site has `len` elements of the word, aligned to 16 bytes.
        unsafe { $crate::Shared::<$word>::at_address(site(), $len) }
    }};
}
