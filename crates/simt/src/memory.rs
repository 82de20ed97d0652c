//! Global memory: pointers whose every access names its order and scope.
use crate::backend;

/// How an access is ordered with the thread's other accesses, in the words of the PTX memory model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// May come from a cache that other threads' writes do not reach, and must not race with one. PTX: no
    /// qualifier.
    Weak,
    /// Reads and writes memory itself, atomically, unordered with accesses to other places. PTX: `.relaxed`.
    Relaxed,
    /// What follows in the thread stays after it. PTX: `.acquire`.
    Acquire,
    /// What precedes in the thread stays before it. PTX: `.release`.
    Release,
    /// Both. PTX: `.acq_rel`.
    AcqRel,
}

/// Among which threads an access or a fence is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The threads of the block. PTX: `.cta`.
    Block,
    /// The threads of the device. PTX: `.gpu`.
    Device,
    /// The device, the host and other devices. PTX: `.sys`.
    System,
}

/// Orders the thread's accesses before with those after, among the threads of `scope`.
///
/// PTX: `fence.acq_rel` with the scope. Emulator: also ends the life of stale values that a weak load might
/// return.
#[inline(always)]
#[track_caller]
pub fn fence(scope: Scope) {
    backend::fence(scope);
}

/// A sequentially consistent fence: a [`fence`] that is also in one total order with each other `fence_sc`
/// of which the two scopes include both threads.
///
/// One thread writes `X`, fences and reads `Y`; another writes `Y`, fences and reads `X`. With this fence at
/// least one of them reads what the other wrote. With [`fence`] both may miss it, and so they may with
/// releases and acquires, or with read-modify-writes of any order in place of the writes. Where one thread
/// only publishes and the other only looks, [`fence`] on both sides is enough.
///
/// PTX: `fence.sc` with the scope, which takes longer than `fence.acq_rel`. Emulator: a [`fence`] that also
/// synchronizes with each earlier `fence_sc` of a scope that overlaps.
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
#[inline(always)]
#[track_caller]
#[doc(alias = "SeqCst")]
pub fn fence_sc(scope: Scope) {
    backend::fence_sc(scope);
}

/// `bytes` bytes of the device's own heap, aligned to 16; null where it has no more. They live until
/// [`heap_free`], over launches too.
///
/// The driver's allocator, for those who compare with it. PTX: a call of `malloc`. Emulator: a buffer.
#[inline(always)]
#[track_caller]
pub fn heap_allocate(bytes: usize) -> *mut u8 {
    backend::heap_allocate(bytes)
}

/// Gives memory of the device's heap back; null is nothing. PTX: a call of `free`.
///
/// # Safety
/// - `pointer` came from [`heap_allocate`], was not given back before, and is not used any more.
#[inline(always)]
#[track_caller]
pub unsafe fn heap_free(pointer: *mut u8) {
    // SAFETY: passed on to the caller.
    unsafe { backend::heap_free(pointer) };
}

/// Says that nobody accesses these bytes any more, until they are given out anew ([`unpoison`]) or no kernel
/// runs: they were freed by kernels, as the piece `name` of what they belong to.
///
/// PTX: nothing. Emulator: an access ends the launch with a failure that names the piece.
#[inline(always)]
#[track_caller]
pub fn poison<T: Word>(place: impl FnOnce() -> Global<T>, bytes: usize, name: u32) {
    backend::poison(|| place().0.cast(), bytes, name);
}

/// Takes [`poison`] back, of what was poisoned from `place` on.
#[inline(always)]
#[track_caller]
pub fn unpoison<T: Word>(place: impl FnOnce() -> Global<T>) {
    backend::unpoison(|| place().0.cast());
}

mod sealed {
    pub trait Sealed {}
}

/// An integer that the machine reads and writes in one access: `u8`, `u32`, `u64`, and `u128` (aligned to 16
/// bytes).
///
/// `u128` is a single access from sm_90 on; see [`crate::Global::compare_exchange`].
pub trait Word: sealed::Sealed + bytemuck::Pod + Eq + core::fmt::Debug {
    /// Widened to 128 bits.
    fn widen(self) -> u128;
    /// The low bits of `wide`.
    fn narrow(wide: u128) -> Self;
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl sealed::Sealed for $word {}
        impl Word for $word {
            #[inline(always)]
            fn widen(self) -> u128 {
                self as u128
            }
            #[inline(always)]
            fn narrow(wide: u128) -> Self {
                wide as $word
            }
        }
    )*};
}
words!(u8 u32 u64 u128);

/// A pointer to a word of global memory.
///
/// Making one is where the promise is given (see [`Global::new`]); the accesses themselves are then safe to
/// call. The emulator checks every one of them; a GPU checks none.
#[repr(transparent)]
#[derive(Debug)]
pub struct Global<T>(*mut T);

impl<T> Clone for Global<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Global<T> {}

// SAFETY: a device pointer means the same to every thread; what it may be used for is promised in
// `Global::new`.
unsafe impl<T> Send for Global<T> {}
// SAFETY: as for `Send`; accesses from several threads are the purpose.
unsafe impl<T> Sync for Global<T> {}

macro_rules! fetch {
    ($($(#[$doc:meta])* $name:ident)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        #[track_caller]
        pub fn $name(self, value: T, order: Order, scope: Scope) -> T {
            // SAFETY: the pointer is valid for access by `Global::new`'s promise.
            unsafe { backend::$name(self.0, value, order, scope) }
        }
    )*};
}

impl<T: Word> Global<T> {
    /// A pointer to global memory.
    ///
    /// # Safety
    /// - `pointer` is aligned for `T` and lies in a live allocation of the device that runs the kernel, for
    ///   as long as the pointer is used.
    /// - No `Weak` access races with a write to the same word.
    #[inline(always)]
    pub unsafe fn new(pointer: *mut T) -> Self {
        Self(pointer)
    }

    /// The plain pointer.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut T {
        self.0
    }

    /// The word `count` further on.
    ///
    /// # Safety
    /// - The word lies in the same allocation.
    #[inline(always)]
    pub unsafe fn offset(self, count: usize) -> Self {
        Self(self.0.wrapping_add(count))
    }

    /// The same place seen as another word.
    ///
    /// # Safety
    /// - The place is aligned for `U`, and as many bytes as `U` has lie in the same allocation.
    #[inline(always)]
    pub unsafe fn cast<U: Word>(self) -> Global<U> {
        Global(self.0.cast())
    }

    /// Reads the word. PTX: `ld{.relaxed,.acquire}{.scope}.global`.
    #[inline(always)]
    #[track_caller]
    pub fn load(self, order: Order, scope: Scope) -> T {
        // SAFETY: the pointer is valid for reads by `Global::new`'s promise.
        unsafe { backend::load(self.0, order, scope) }
    }

    /// Reads `N` neighbouring words in one instruction; each word is one access, the whole is not.
    ///
    /// PTX: `ld....v2` or `.v4`, at most 16 bytes in all; 8 and 16 bytes are read as 2 and 4 words of 4. The
    /// first word must be aligned to the whole.
    ///
    /// # Safety
    /// - All `N` words lie in the same allocation, and the first is aligned to `N * size_of::<T>()` bytes.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load_vec<const N: usize>(self, order: Order, scope: Scope) -> [T; N] {
        const { assert!(N * size_of::<T>() <= 16 && N.is_power_of_two()) };
        // SAFETY: passed on to the caller.
        unsafe { backend::load_vec(self.0, order, scope) }
    }

    /// [`Self::load_vec`] where `wanted`, else nothing is read and the words are arbitrary.
    ///
    /// PTX: the load under a predicate, so that lanes which skip it need no registers filled. Emulator:
    /// zeros.
    ///
    /// # Safety
    /// - As for [`Self::load_vec`], where `wanted`.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn load_vec_if<const N: usize>(self, wanted: bool, order: Order, scope: Scope) -> [T; N] {
        const { assert!(N * size_of::<T>() <= 16 && N.is_power_of_two()) };
        // SAFETY: passed on to the caller.
        unsafe { backend::load_vec_if(self.0, wanted, order, scope) }
    }

    /// Writes the word. PTX: `st{.relaxed,.release}{.scope}.global`.
    #[inline(always)]
    #[track_caller]
    pub fn store(self, value: T, order: Order, scope: Scope) {
        // SAFETY: the pointer is valid for writes by `Global::new`'s promise.
        unsafe { backend::store(self.0, value, order, scope) }
    }

    /// Writes `N` neighbouring words in one instruction; each word is one access, the whole is not.
    ///
    /// PTX: `st....v2` or `.v4`, at most 16 bytes in all, of words of 4 and 8 bytes. The first word must be
    /// aligned to the whole.
    ///
    /// # Safety
    /// - All `N` words lie in the same allocation, and the first is aligned to `N * size_of::<T>()` bytes.
    #[inline(always)]
    #[track_caller]
    pub unsafe fn store_vec<const N: usize>(self, words: [T; N], order: Order, scope: Scope) {
        const { assert!(N * size_of::<T>() <= 16 && N.is_power_of_two() && (N == 1 || size_of::<T>() >= 4)) };
        // SAFETY: passed on to the caller.
        unsafe { backend::store_vec(self.0, words, order, scope) }
    }

    /// Writes `new` if the word is `current`. Returns the word that was there: `Ok` when it was `current`.
    ///
    /// PTX: `atom...cas` of 32, 64 or (sm_90 and later; traps before) 128 bits. Bytes have none.
    #[inline(always)]
    #[track_caller]
    pub fn compare_exchange(self, current: T, new: T, order: Order, scope: Scope) -> Result<T, T> {
        // SAFETY: the pointer is valid for access by `Global::new`'s promise.
        let old = unsafe { backend::compare_exchange(self.0, current, new, order, scope) };
        if old == current { Ok(old) } else { Err(old) }
    }

    fetch! {
        /// Writes the word and gives what was there. PTX: `atom...exch`.
        exchange
        /// Adds, wrapping, and gives what was there. PTX: `atom...add`.
        fetch_add
        /// Keeps the smaller (unsigned) and gives what was there. PTX: `atom...min`.
        fetch_min
        /// Keeps the larger (unsigned) and gives what was there. PTX: `atom...max`.
        fetch_max
        /// Sets the bits of `value` and gives what was there. PTX: `atom...or`.
        fetch_or
        /// Keeps the bits of `value` and gives what was there. PTX: `atom...and`.
        fetch_and
    }
}

impl Global<u32> {
    /// [`Self::load`] of a word that is worth its place in the L2 cache: one of a small table that all
    /// threads use beside a large one.
    ///
    /// PTX: `ld...L2::cache_hint` with a policy of `createpolicy.fractional.L2::evict_last`. Emulator: a
    /// load.
    #[inline(always)]
    #[track_caller]
    pub fn load_hot(self, order: Order, scope: Scope) -> u32 {
        // SAFETY: the pointer is valid for reads by `Global::new`'s promise.
        unsafe { backend::load_hot(self.0, order, scope) }
    }

    /// [`Self::fetch_and`] on such a word. PTX: `atom...and.L2::cache_hint` with the same policy.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_and_hot(self, value: u32, order: Order, scope: Scope) -> u32 {
        // SAFETY: the pointer is valid for access by `Global::new`'s promise.
        unsafe { backend::fetch_and_hot(self.0, value, order, scope) }
    }

    /// [`Self::fetch_or`] on such a word. PTX: `atom...or.L2::cache_hint` with the same policy.
    #[inline(always)]
    #[track_caller]
    pub fn fetch_or_hot(self, value: u32, order: Order, scope: Scope) -> u32 {
        // SAFETY: the pointer is valid for access by `Global::new`'s promise.
        unsafe { backend::fetch_or_hot(self.0, value, order, scope) }
    }
}

/// A slice of global memory, as kernels take it: a pointer and a length, checked at every index.
#[repr(C)]
#[derive(Debug)]
pub struct GlobalSlice<T> {
    pointer: *mut T,
    len: usize,
}

impl<T> Clone for GlobalSlice<T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for GlobalSlice<T> {}

// SAFETY: as for `Global`.
unsafe impl<T> Send for GlobalSlice<T> {}
// SAFETY: as for `Global`.
unsafe impl<T> Sync for GlobalSlice<T> {}

impl<T: Word> GlobalSlice<T> {
    /// The `len` words from `pointer` on.
    ///
    /// # Safety
    /// - What [`Global::new`] asks, for each of the words.
    #[inline(always)]
    pub unsafe fn from_raw_parts(pointer: *mut T, len: usize) -> Self {
        Self { pointer, len }
    }

    /// Where its first word lies.
    #[inline(always)]
    pub fn as_ptr(self) -> *mut T {
        self.pointer
    }

    /// Words in the slice.
    #[inline(always)]
    pub fn len(self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[inline(always)]
    pub fn is_empty(self) -> bool {
        self.len == 0
    }

    /// The words from `first` on, `len` at most: as far as there are any.
    #[inline(always)]
    pub fn part(self, first: usize, len: usize) -> Self {
        let rest = self.len.saturating_sub(first);
        Self { pointer: self.pointer.wrapping_add(first), len: if len < rest { len } else { rest } }
    }

    /// The word at `index`. Ends the launch when the index is out of range.
    #[inline(always)]
    #[track_caller]
    pub fn at(self, index: usize) -> Global<T> {
        if index >= self.len {
            crate::trap();
        }
        Global(self.pointer.wrapping_add(index))
    }

    /// Reads an element that no thread of the launch writes (a weak load).
    #[inline(always)]
    #[track_caller]
    pub fn read(self, index: usize) -> T {
        self.at(index).load(Order::Weak, Scope::Device)
    }

    /// Writes an element that no other thread of the launch touches (a weak store).
    #[inline(always)]
    #[track_caller]
    pub fn write(self, index: usize, value: T) {
        self.at(index).store(value, Order::Weak, Scope::Device);
    }
}
