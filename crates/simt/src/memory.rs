//! Global memory: pointers whose every access states its order and scope.
use crate::backend;
use crate::order::{Order, Scope};
use crate::word::Word;
use simt_macros::device;

/// Orders the thread's earlier accesses before its later ones, among the threads of `scope`.
///
/// PTX: `fence.acq_rel` with the scope. Emulator: later weak loads no longer return stale values that were
/// overwritten before a release which this fence acquires.
#[device(caller)]
pub fn fence(scope: Scope) {
    backend::fence(scope);
}

/// Executes a sequentially consistent fence: a [`fence`] that is also in one total order with every other
/// `fence_sc` if each of the two scopes includes both threads.
///
/// Suppose one thread writes `X`, fences and reads `Y`, and another writes `Y`, fences and reads `X`. With
/// this fence, at least one of them reads the other's write. With [`fence`], both may miss it; so they may
/// with releases and acquires, or with read-modify-writes of any order in place of the writes. If one thread
/// only publishes and the other only reads, [`fence`] on both sides is sufficient.
///
/// PTX: `fence.sc` with the scope, which takes longer than `fence.acq_rel`. Emulator: a [`fence`] that also
/// synchronizes with each earlier `fence_sc` whose scope overlaps.
///
/// ```
/// use simt::{Global, Order, Scope, fence_sc};
///
/// /// Announces this thread and looks for the other: of two threads at least one finds the other.
/// fn announce_and_look(mine: Global<u32>, other: Global<u32>) -> bool {
///     mine.store(1, Order::Relaxed, Scope::Device);
///     fence_sc(Scope::Device);
///     other.load(Order::Relaxed, Scope::Device) == 1
/// }
/// ```
#[doc(alias = "SeqCst")]
#[device(caller)]
pub fn fence_sc(scope: Scope) {
    backend::fence_sc(scope);
}

/// Allocates `bytes` bytes on the device's own heap, aligned to 16; returns null if the heap is exhausted.
/// The memory stays allocated until [`heap_free`], also across launches.
///
/// This is the driver's allocator, provided for comparisons. PTX: a call of `malloc`. Emulator: a buffer.
#[device(caller)]
pub fn heap_allocate(bytes: usize) -> *mut u8 {
    backend::heap_allocate(bytes)
}

/// Frees memory of the device's heap; null is ignored. PTX: a call of `free`.
///
/// # Safety
/// - `pointer` came from [`heap_allocate`], was not freed before, and is not used afterwards.
#[device(caller)]
pub unsafe fn heap_free(pointer: *mut u8) {
    // SAFETY: the caller's obligation.
    unsafe { backend::heap_free(pointer) };
}

/// Declares that no thread accesses these bytes until they are allocated again ([`unpoison`]) or no kernel
/// runs. Kernels have freed them, as the piece `name` of a larger allocation.
///
/// PTX: nothing. Emulator: an access ends the launch with a failure that names the piece.
#[device(caller)]
pub fn poison<T: Word>(place: impl FnOnce() -> Global<T>, bytes: usize, name: u32) {
    backend::poison(|| place().0.cast(), bytes, name);
}

/// Reverts [`poison`] for the bytes poisoned at `place`.
#[device(caller)]
pub fn unpoison<T: Word>(place: impl FnOnce() -> Global<T>) {
    backend::unpoison(|| place().0.cast());
}

/// A pointer to a word of global memory.
///
/// The constructor carries the safety obligation (see [`Global::new`]); the accesses themselves are safe to
/// call. The emulator checks every access; a GPU checks none.
///
/// ```
/// use simt::{Global, GlobalSlice, Grid, Order, Scope, kernel};
///
/// /// Adds the words from 4 on to the first one, four at a time.
/// #[kernel]
/// fn sum(words: GlobalSlice<u32>) {
///     // SAFETY: the slice has twelve words, aligned to 16 bytes, which only this thread accesses.
///     unsafe {
///         let first = Global::new(words.as_ptr());
///         let four = first.offset(4).load_vec::<4>(Order::Weak, Scope::Device);
///         let more = first.offset(8).load_vec_if::<4>(words.len() >= 12, Order::Weak, Scope::Device);
///         let total = four.iter().chain(&more).sum();
///         first.store_vec([total; 2], Order::Weak, Scope::Device);
///         first.offset(2).cast::<u64>().store(7, Order::Weak, Scope::Device);
///         assert_eq!(first.as_ptr(), words.as_ptr());
///     }
///     // Atomics of the device's scope.
///     let word = words.at(0);
///     let old = word.load(Order::Relaxed, Scope::Device);
///     let swapped = word.compare_exchange(old, old + 1, Order::AcqRel, Scope::Device);
///     assert_eq!(swapped, Ok(old));
///     // Words of a small table that should stay in the L2 cache.
///     let hot = words.at(1);
///     hot.fetch_or_hot(1, Order::Relaxed, Scope::Device);
///     hot.fetch_and_hot(!2, Order::Relaxed, Scope::Device);
///     hot.store(hot.load_hot(Order::Relaxed, Scope::Device), Order::Release, Scope::Device);
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words = [u128::from_le_bytes([1; 16]); 3]; // aligned to 16 bytes
/// let words: &mut [u32] = bytemuck::cast_slice_mut(&mut words);
/// words.fill(1);
/// run(Grid::new(1, 1), words, |words| Sum { words });
/// assert_eq!(words[..4], [9, 9, 7, 0]);
/// ```
///
/// # Cost
///
/// A load or store is one instruction; a warp's takes one memory transaction per sector of 32 bytes that its
/// lanes touch. `Weak` loads may hit the L1 cache; loads of other orders in the scope of the device go to the
/// L2 cache. `load_vec` and `store_vec` move up to 16 bytes by one instruction. An acquire or a release also
/// orders the thread's other accesses, which takes longer. `compare_exchange`, `fetch_and_hot`,
/// `fetch_or_hot` and the other read-modify-writes are one atomic in the L2 cache; those on one word take
/// turns. The other methods are arithmetic on the address.
#[repr(transparent)]
#[derive(Debug)]
pub struct Global<T>(*mut T);

impl<T> Clone for Global<T> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<T> {}

// SAFETY: a device pointer is valid in every thread; `Global::new` states the obligations for its use.
unsafe impl<T> Send for Global<T> {}
// SAFETY: as for `Send`; accesses from several threads are intended.
unsafe impl<T> Sync for Global<T> {}

macro_rules! fetch {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[track_caller]
        pub fn $name(self, value: T, order: Order, scope: Scope) -> T {
            // SAFETY: the pointer is valid for access, as `Global::new` requires.
            unsafe { backend::$name(self.0, value, order, scope) }
        }
    )*};
}

#[device(caller)]
impl<T: Word> Global<T> {
    /// Creates a pointer to global memory.
    ///
    /// # Safety
    /// - `pointer` is aligned for `T` and lies in a live allocation of the device that runs the kernel, for
    ///   as long as the pointer is used.
    /// - No `Weak` access races with a write to the same word.
    #[device]
    pub unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// Returns the raw pointer.
    #[device]
    pub fn as_ptr(self) -> *mut T {
        self.0
    }

    /// Returns a pointer to the word `count` words further on.
    ///
    /// # Safety
    /// - The word lies in the same allocation.
    #[device]
    pub unsafe fn offset(self, count: usize) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// Returns a pointer of another word type to the same address.
    ///
    /// # Safety
    /// - The address is aligned for `U`, and `size_of::<U>()` bytes from it lie in the same allocation.
    #[device]
    pub unsafe fn cast<U: Word>(self) -> Global<U> {
        Global(self.0.cast())
    }

    /// Reads the word. PTX: `ld{.relaxed,.acquire}{.scope}.global`.
    pub fn load(self, order: Order, scope: Scope) -> T {
        // SAFETY: the pointer is valid for reads, as `Global::new` requires.
        unsafe { backend::load(self.0, order, scope) }
    }

    /// Reads `N` neighbouring words in one instruction. Each word is a single access; the whole is not.
    ///
    /// PTX: `ld....v2` or `.v4`, at most 16 bytes in all; 8 and 16 words of `u8` are read as 2 and 4 words of
    /// 4 bytes. The first word must be aligned to the total size.
    ///
    /// # Safety
    /// - All `N` words lie in the same allocation, and the first is aligned to `N * size_of::<T>()` bytes.
    pub unsafe fn load_vec<const N: usize>(self, order: Order, scope: Scope) -> [T; N] {
        const { assert!(N * size_of::<T>() <= 16 && N.is_power_of_two()) };
        // SAFETY: the caller's obligation.
        unsafe { backend::load_vec(self.0, order, scope) }
    }

    /// [`Self::load_vec`] if `wanted`; else nothing is read and the words are arbitrary.
    ///
    /// PTX: for words of 8 and 16 bytes, a predicated load, so that lanes which skip it need no registers
    /// filled; for others, a branch. Emulator: zeros if not `wanted`.
    ///
    /// # Safety
    /// - As for [`Self::load_vec`], if `wanted`.
    pub unsafe fn load_vec_if<const N: usize>(self, wanted: bool, order: Order, scope: Scope) -> [T; N] {
        const { assert!(N * size_of::<T>() <= 16 && N.is_power_of_two()) };
        // SAFETY: the caller's obligation.
        unsafe { backend::load_vec_if(self.0, wanted, order, scope) }
    }

    /// Writes the word. PTX: `st{.relaxed,.release}{.scope}.global`.
    pub fn store(self, value: T, order: Order, scope: Scope) {
        // SAFETY: the pointer is valid for writes, as `Global::new` requires.
        unsafe { backend::store(self.0, value, order, scope) }
    }

    /// Writes `N` neighbouring words in one instruction. Each word is a single access; the whole is not.
    ///
    /// PTX: `st....v2` or `.v4`, at most 16 bytes in all, of words of 4 and 8 bytes. The first word must be
    /// aligned to the total size.
    ///
    /// # Safety
    /// - All `N` words lie in the same allocation, and the first is aligned to `N * size_of::<T>()` bytes.
    pub unsafe fn store_vec<const N: usize>(self, words: [T; N], order: Order, scope: Scope) {
        const { assert!(N * size_of::<T>() <= 16 && N.is_power_of_two() && (N == 1 || size_of::<T>() >= 4)) };
        // SAFETY: the caller's obligation.
        unsafe { backend::store_vec(self.0, words, order, scope) }
    }

    /// Writes `new` if the word equals `current`. Returns the old word: as `Ok` if it equalled `current`,
    /// else as `Err`.
    ///
    /// # Errors
    /// [`Err`] with the old word, if it did not equal `current`.
    ///
    /// PTX: `atom...cas` of 32, 64 or (sm_90 and later; traps before) 128 bits. Not available for bytes,
    /// where it traps.
    pub fn compare_exchange(self, current: T, new: T, order: Order, scope: Scope) -> Result<T, T> {
        // SAFETY: the pointer is valid for access, as `Global::new` requires.
        let old = unsafe { backend::compare_exchange(self.0, current, new, order, scope) };
        if old == current { Ok(old) } else { Err(old) }
    }

    fetch! {
        /// Writes the word and returns the old one. PTX: `atom...exch`.
        exchange
        /// Adds, wrapping, and returns the old word. PTX: `atom...add`.
        fetch_add
        /// Stores the minimum (unsigned) and returns the old word. PTX: `atom...min`.
        fetch_min
        /// Stores the maximum (unsigned) and returns the old word. PTX: `atom...max`.
        fetch_max
        /// Stores the bitwise or and returns the old word. PTX: `atom...or`.
        fetch_or
        /// Stores the bitwise and and returns the old word. PTX: `atom...and`.
        fetch_and
    }
}

#[device(caller)]
impl Global<u32> {
    /// [`Self::load`] of a word that should stay in the L2 cache, such as a word of a small table that all
    /// threads use beside a large one.
    ///
    /// PTX: `ld...L2::cache_hint` with a policy of `createpolicy.fractional.L2::evict_last`. Emulator: a
    /// load.
    pub fn load_hot(self, order: Order, scope: Scope) -> u32 {
        // SAFETY: the pointer is valid for reads, as `Global::new` requires.
        unsafe { backend::load_hot(self.0, order, scope) }
    }

    /// [`Self::fetch_and`] on a word as in [`Self::load_hot`]. PTX: `atom...and.L2::cache_hint` with the same
    /// policy.
    pub fn fetch_and_hot(self, value: u32, order: Order, scope: Scope) -> u32 {
        // SAFETY: the pointer is valid for access, as `Global::new` requires.
        unsafe { backend::fetch_and_hot(self.0, value, order, scope) }
    }

    /// [`Self::fetch_or`] on a word as in [`Self::load_hot`]. PTX: `atom...or.L2::cache_hint` with the same
    /// policy.
    pub fn fetch_or_hot(self, value: u32, order: Order, scope: Scope) -> u32 {
        // SAFETY: the pointer is valid for access, as `Global::new` requires.
        unsafe { backend::fetch_or_hot(self.0, value, order, scope) }
    }
}

/// A slice of global memory, as a kernel argument: a pointer and a length, with bounds-checked indexing.
///
/// ```
/// use simt::{GlobalSlice, Grid, Order, Scope, Thread, kernel};
///
/// /// Adds the second half of the words to the first.
/// #[kernel]
/// fn fold(words: GlobalSlice<u32>) {
///     let half = words.len() / 2;
///     let second = words.part(half, usize::MAX); // up to the end
///     assert!(!second.is_empty() && second.as_ptr() > words.as_ptr());
///     let index = Thread::index();
///     if index < half {
///         words.write(index, words.read(index) + second.at(index).load(Order::Weak, Scope::Device));
///     }
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words = [1, 2, 10, 20];
/// // `run` makes the slice by `GlobalSlice::from_raw_parts`, and launches the kernel with it.
/// run(Grid::for_items(2, 32), &mut words, |words| Fold { words });
/// assert_eq!(words, [11, 22, 10, 20]);
/// ```
///
/// # Cost
///
/// `at` compares the index with the length. `read` and `write` do so too, and are one access to memory: see
/// [`Global`]. The other methods are arithmetic in registers.
#[repr(C)]
#[derive(Debug)]
pub struct GlobalSlice<T> {
    pointer: *mut T,
    len: usize,
}

impl<T> Clone for GlobalSlice<T> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalSlice<T> {}

// SAFETY: as for `Global`.
unsafe impl<T> Send for GlobalSlice<T> {}
// SAFETY: as for `Global`.
unsafe impl<T> Sync for GlobalSlice<T> {}

#[device]
impl<T: Word> GlobalSlice<T> {
    /// Creates the slice of `len` words that starts at `pointer`.
    ///
    /// # Safety
    /// - As for [`Global::new`], for each of the words.
    pub unsafe fn from_raw_parts(pointer: *mut T, len: usize) -> Self {
        Self { pointer, len }
    }

    /// Returns the address of the first word.
    pub fn as_ptr(self) -> *mut T {
        self.pointer
    }

    /// Returns the number of words.
    pub fn len(self) -> usize {
        self.len
    }

    /// Returns `true` if the slice has no words.
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// Returns at most `len` words that start at `first`, clamped to the end of the slice.
    pub fn part(self, first: usize, len: usize) -> Self {
        let rest = self.len.saturating_sub(first);
        Self { pointer: self.pointer.wrapping_add(first), len: if len < rest { len } else { rest } }
    }

    /// Returns a pointer to the word at `index`. Ends the launch if the index is out of range.
    #[device(caller)]
    pub fn at(self, index: usize) -> Global<T> {
        if index >= self.len {
            backend::index_out_of_range(index, self.len);
        }
        Global(self.pointer.wrapping_add(index))
    }

    /// Reads an element that no thread of the launch writes, by a weak load.
    #[device(caller)]
    pub fn read(self, index: usize) -> T {
        self.at(index).load(Order::Weak, Scope::Device)
    }

    /// Writes an element that no other thread of the launch accesses, by a weak store.
    #[device(caller)]
    pub fn write(self, index: usize, value: T) {
        self.at(index).store(value, Order::Weak, Scope::Device);
    }
}

/// A slice whose length a count in device memory may limit, as a kernel argument. The count need not be known
/// on the host when the kernel is launched: an earlier kernel may write it.
///
/// ```
/// use simt::{BoundedSlice, GlobalSlice, Grid, Thread, kernel};
///
/// /// Doubles the words, as many as the first word of `counts` says.
/// #[kernel]
/// fn double(words: GlobalSlice<u32>, counts: GlobalSlice<u32>) {
///     let bounded = BoundedSlice::new(words, counts.part(0, 1));
///     assert!(bounded.max_len() == words.len() && bounded.unbounded().is_none());
///     assert!(bounded.resolve_groups(2).len() == 3); // two groups of two words, of which three are there
///     let words = bounded.part(1, 2).resolve(); // of the words 1 and 2 those below the count
///     if Thread::index() < words.len() {
///         words.write(Thread::index(), 2 * words.read(Thread::index()));
///     }
/// }
/// # use simt::emulator::run_example as run;
///
/// let mut words = [2, 7, 7, 7]; // a count, and three words
/// run(Grid::new(1, 32), &mut words, |all| Double { words: all.part(1, 3), counts: all });
/// assert_eq!(words, [2, 7, 14, 7]);
/// ```
///
/// # Cost
///
/// `resolve` reads the count, if there is one: one or two words, at the same address for all threads. The
/// other methods are arithmetic in registers.
#[repr(C)]
#[derive(Debug)]
pub struct BoundedSlice<T> {
    words: GlobalSlice<T>,
    /// The words of the count, low word first: none if there is no count.
    count: GlobalSlice<u32>,
    /// Index of the first word among those that the count counts.
    first: usize,
}

impl<T> Clone for BoundedSlice<T> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for BoundedSlice<T> {}

#[device]
impl<T: Word> BoundedSlice<T> {
    /// Creates the slice of the first `n` of `words`, where `n` is the number that `count` has when the
    /// kernel runs: a `u32` in one word, or a `u64` in two, low word first. If `n` exceeds the number of
    /// words, or `count` is empty, the slice has all words.
    pub fn new(words: GlobalSlice<T>, count: GlobalSlice<u32>) -> Self {
        Self { words, count, first: 0 }
    }

    /// Returns the number of words whatever the count is.
    pub fn max_len(self) -> usize {
        self.words.len()
    }

    /// Returns the words if there is no count.
    pub fn unbounded(self) -> Option<GlobalSlice<T>> {
        self.count.is_empty().then_some(self.words)
    }

    /// Returns all words, whatever the count is.
    pub fn words(self) -> GlobalSlice<T> {
        self.words
    }

    /// Returns the words of the count, which is empty if there is no count.
    pub fn count(self) -> GlobalSlice<u32> {
        self.count
    }

    /// Returns at most `len` words that start at `first`, clamped to the end of the slice and to the count.
    pub fn part(self, first: usize, len: usize) -> Self {
        Self { words: self.words.part(first, len), first: self.first.saturating_add(first), ..self }
    }

    /// Reads the count, and returns the words that it includes.
    #[device(caller)]
    pub fn resolve(self) -> GlobalSlice<T> {
        self.resolve_groups(1)
    }

    /// Reads the count, which is one of groups of `each` words, and returns the words that it includes.
    #[device(caller)]
    pub fn resolve_groups(self, each: usize) -> GlobalSlice<T> {
        if let Some(words) = self.unbounded() {
            return words;
        }
        self.words.part(0, self.counted().saturating_mul(each).saturating_sub(self.first))
    }

    /// Reads the count. No thread of the launch writes it.
    #[device(caller)]
    fn counted(self) -> usize {
        let high = if self.count.len() > 1 { self.count.read(1) } else { 0 };
        (high as usize) << 32 | self.count.read(0) as usize
    }
}

impl<T: Word> From<GlobalSlice<T>> for BoundedSlice<T> {
    #[device]
    fn from(words: GlobalSlice<T>) -> Self {
        // SAFETY: no word of an empty slice is ever accessed.
        Self::new(words, unsafe { GlobalSlice::from_raw_parts(core::ptr::dangling_mut(), 0) })
    }
}
