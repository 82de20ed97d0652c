//! The thread block: its barrier and its shared memory.
use crate::backend::{self, SharedAddress};
use crate::word::{SharedShape, Word};
use core::marker::PhantomData;
use simt_macros::device;

/// The calling thread's block.
///
/// ```
/// use simt::{Block, GlobalSlice, Grid, Thread, kernel, shared};
///
/// /// Reverses the words of each block.
/// #[kernel]
/// fn reverse(words: GlobalSlice<u32>) {
///     let (buffer, own) = (shared!([u32; 64]), Thread::index_in_block() as usize);
///     buffer.store(own, words.read(Thread::index()));
///     Block::sync();
///     words.write(Thread::index(), buffer.load(63 - own));
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words: Vec<u32> = (0..128).collect();
/// run(Grid::new(2, 64), &mut words, |words| Reverse { words });
/// assert_eq!((words[0], words[127]), (63, 64));
/// ```
///
/// # Cost
///
/// `sync` is one barrier instruction: each warp waits for the last one of its block.
#[derive(Clone, Copy, Debug)]
pub struct Block;

impl Block {
    /// Waits until all threads of the block have arrived; their earlier writes are visible afterwards. PTX:
    /// `barrier.sync 0`. Emulator: a rendezvous; a thread that has ended or waits elsewhere is reported.
    #[device(caller)]
    pub fn sync() {
        backend::block_sync();
    }
}

/// An array in the shared memory of a block, created by [`shared!`](crate::shared!). Each block has its own
/// array, which is initially uninitialised.
///
/// ```
/// use simt::{Block, GlobalSlice, Grid, Shared, SharedShape, Thread, kernel};
///
/// /// Counters of a block, 16 for each of its two warps.
/// struct Counters;
///
/// impl SharedShape for Counters {
///     type Word = u32;
///     const LEN: usize = 32;
/// }
///
/// /// Counts the words of each value below 16.
/// #[kernel]
/// fn histogram(words: GlobalSlice<u32>) {
///     let counters = Shared::of::<Counters>();
///     let thread = Thread::index_in_block();
///     if (thread as usize) < counters.len() {
///         counters.store(thread as usize, 0);
///     }
///     Block::sync();
///     let word = words.read(Thread::index());
///     // SAFETY: a warp has 16 counters; an index below that is in its part. Arrays of shapes are aligned
///     // to 16 bytes.
///     let (own, pairs) = unsafe { (counters.part(thread / 32 * 16, 16), counters.cast::<u64>()) };
///     // SAFETY: as above.
///     unsafe { own.fetch_add_if(word < 16, word, 1) };
///     Block::sync();
///     assert!(thread > 0 || pairs.load(0) as u32 == counters.load_uninit(0));
///     if thread < 16 {
///         // SAFETY: indices below 32.
///         let [one, other] = [thread, thread + 16].map(|index| unsafe { counters.load_unchecked(index) });
///         // SAFETY: as above. Other threads use other words.
///         unsafe {
///             counters.store_unchecked(thread, one);
///             counters.fetch_add_unchecked(thread, other);
///         }
///         words.write(thread as usize, counters.fetch_add(thread as usize, 0));
///     }
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words: Vec<u32> = (0..64).map(|index| index % 4).collect();
/// run(Grid::new(1, 64), &mut words, |words| Histogram { words });
/// assert_eq!(words[..5], [16, 16, 16, 16, 0]);
/// ```
///
/// # Cost
///
/// `load`, `store` and their variants are one access to shared memory; the checked ones also compare the
/// index with the length. Lanes of a warp that access different words of one bank wait for each other.
/// `fetch_add`, its variants and `or_unchecked` are one atomic in shared memory; lanes that change the same
/// word take turns. The other methods are arithmetic on the address.
#[derive(Debug)]
pub struct Shared<T> {
    address: SharedAddress,
    len: usize,
    of: PhantomData<*mut T>,
}

impl<T> Clone for Shared<T> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Shared<T> {}

impl<T: Word> Shared<T> {
    /// Creates the array of `len` elements at `address` in the block's shared memory.
    ///
    /// # Safety
    /// - `address` came from the back end's shared-memory site of at least `len` elements of `T`, aligned for
    ///   `T`.
    #[doc(hidden)]
    #[device]
    pub unsafe fn at_address(address: SharedAddress, len: usize) -> Self {
        Self { address, len, of: PhantomData }
    }

    /// Returns the array of the shape `S`: the same one for all threads of the block and at every call, and a
    /// different one for each shape.
    #[device(caller)]
    pub fn of<S: SharedShape<Word = T>>() -> Self {
        Self { address: backend::shared_shape::<S>(), len: S::LEN, of: PhantomData }
    }

    /// Returns the same memory as an array of another word type, with as many elements as fit. Accesses of
    /// different threads through the two arrays need a barrier between them.
    ///
    /// # Safety
    /// - The array's address is aligned for `U`. (Arrays of [`shared!`](crate::shared!) and of shapes are
    ///   aligned to 16 bytes.)
    #[device]
    pub unsafe fn cast<U: Word>(self) -> Shared<U> {
        let len = self.len * size_of::<T>() / size_of::<U>();
        Shared { address: self.address, len, of: PhantomData }
    }

    /// Returns the sub-array of `len` elements that starts at element `first`.
    ///
    /// # Safety
    /// - `first + len` is at most the array's length.
    #[device(caller)]
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

    /// Returns the number of elements.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty)] // an array of `shared!` is never empty
    pub fn len(self) -> usize {
        self.len
    }

    #[device(caller)]
    fn element(self, index: usize) -> SharedAddress {
        assert!(index < self.len);
        self.address + (index * size_of::<T>()) as SharedAddress
    }

    /// Returns the address of an element; the index is unchecked on a GPU.
    #[device(caller)]
    fn place(self, index: u32) -> SharedAddress {
        #[cfg(not(target_arch = "nvptx64"))]
        assert!((index as usize) < self.len, "element {index} of {} in shared memory", self.len);
        self.address + index as SharedAddress * size_of::<T>() as SharedAddress
    }

    /// [`Self::load`] without the bounds check, for loops in which every instruction counts. The emulator
    /// still checks.
    ///
    /// # Safety
    /// - `index` is below the length.
    #[device(caller)]
    pub unsafe fn load_unchecked(self, index: u32) -> T {
        // SAFETY: the caller's obligation.
        unsafe { backend::load_shared(self.place(index)) }
    }

    /// [`Self::store`] without the bounds check.
    ///
    /// # Safety
    /// - `index` is below the length.
    #[device(caller)]
    pub unsafe fn store_unchecked(self, index: u32, value: T) {
        // SAFETY: the caller's obligation.
        unsafe { backend::store_shared(self.place(index), value) }
    }

    /// Reads an element. PTX: `ld.shared`.
    #[device(caller)]
    pub fn load(self, index: usize) -> T {
        // SAFETY: `element` checked the index against the length of the array.
        unsafe { backend::load_shared(self.element(index)) }
    }

    /// Reads an element that may be uninitialised; the value is then arbitrary, possibly one left by an
    /// earlier block. PTX: `ld.shared`. Emulator: [`Self::load`] without the check for initialised memory.
    #[device(caller)]
    pub fn load_uninit(self, index: usize) -> T {
        // SAFETY: as in `load`; every bit pattern of a word is a valid value.
        unsafe { backend::load_shared_uninit(self.element(index)) }
    }

    /// Writes an element. PTX: `st.shared`.
    #[device(caller)]
    pub fn store(self, index: usize, value: T) {
        // SAFETY: as in `load`.
        unsafe { backend::store_shared(self.element(index), value) }
    }
}

#[device(caller)]
impl Shared<u32> {
    /// Adds to an element and returns the old value. PTX: `atom.relaxed.cta.shared.add.u32`.
    pub fn fetch_add(self, index: usize, value: u32) -> u32 {
        // SAFETY: as in `load`.
        unsafe { backend::fetch_add_shared(self.element(index), value) }
    }

    /// [`Self::fetch_add`] without the bounds check.
    ///
    /// # Safety
    /// - `index` is below the length.
    pub unsafe fn fetch_add_unchecked(self, index: u32, value: u32) -> u32 {
        // SAFETY: the caller's obligation.
        unsafe { backend::fetch_add_shared(self.place(index), value) }
    }

    /// [`Self::fetch_add_unchecked`] if `wanted`; else nothing is added, and the result is arbitrary.
    ///
    /// PTX: a predicated atomic, so that the lanes of a warp need not diverge and reconverge. Emulator: the
    /// result is 0.
    ///
    /// # Safety
    /// - `index` is below the length if `wanted`.
    pub unsafe fn fetch_add_if(self, wanted: bool, index: u32, value: u32) -> u32 {
        // SAFETY: the caller's obligation.
        unsafe { backend::fetch_add_shared_if(wanted, || self.place(index), value) }
    }

    /// Sets the bits of an element that are set in `bits`. PTX: `red.relaxed.cta.shared.or.b32`.
    ///
    /// # Safety
    /// - `index` is below the length.
    pub unsafe fn or_unchecked(self, index: u32, bits: u32) {
        // SAFETY: the caller's obligation.
        unsafe { backend::or_shared(self.place(index), bits) }
    }
}

/// Declares an array in the shared memory of a block: `let buffer = shared!([u32; 64]);` returns a
/// [`Shared<u32>`](crate::Shared).
///
/// All threads of a block that execute the same source line get the same array.
#[macro_export]
macro_rules! shared {
    ([$word:ty; $len:expr]) => {{
        // A separate function that is never inlined, so that the array exists once, however often the line is
        // compiled.
        #[inline(never)]
        fn site() -> $crate::private::SharedAddress {
            $crate::private::shared_site::<{ $len * size_of::<$word>() }>(site as *const () as usize)
        }
        // SAFETY: the site has `len` elements of the word, aligned to 16 bytes.
        unsafe { $crate::Shared::<$word>::at_address(site(), $len) }
    }};
}
