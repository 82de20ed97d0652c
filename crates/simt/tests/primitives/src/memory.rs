//! Global memory: each access of each word in every order and scope, in the sequence that `each!` lists.
use simt::{Global, Instance, Order, Scope, Word, kernel};

/// Applies a closure to each order and scope.
macro_rules! each {
    ($do:expr) => {
        each!(in $do; Weak, Relaxed, Acquire, Release, AcqRel)
    };
    (in $do:expr; $($order:ident),*) => {$(
        $do(Order::$order, Scope::Block);
        $do(Order::$order, Scope::Device);
        $do(Order::$order, Scope::System);
    )*};
}

/// Reads a word.
#[kernel]
pub fn load<C: Cell>(from: Global<C::Word>, out: Global<u64>) {
    let mut all = 0;
    each!(|order, scope| all ^= from.load(order, scope).widen() as u64);
    out.store(all, Order::Weak, Scope::Device);
}

/// Writes a word.
#[kernel]
pub fn store<C: Cell>(to: Global<C::Word>, value: C::Word) {
    each!(|order, scope| to.store(value, order, scope));
}

macro_rules! vectors {
    ($($name:ident $count:literal;)*) => {$(
        /// Reads neighbouring words.
        #[kernel]
        pub fn $name<C: Cell>(from: Global<C::Word>, out: Global<u64>) {
            let mut all = 0;
            // SAFETY: the test only inspects the code; it is never run.
            each!(|order, scope| for word in unsafe { from.load_vec::<$count>(order, scope) } {
                all ^= word.widen() as u64;
            });
            out.store(all, Order::Weak, Scope::Device);
        }
    )*};
}

vectors! {
    load_pair 2;
    load_quad 4;
    load_eight 8;
    load_sixteen 16;
}

macro_rules! vector_stores {
    ($($name:ident $count:literal;)*) => {$(
        /// Writes neighbouring words.
        #[kernel]
        pub fn $name<C: Cell>(to: Global<C::Word>, value: C::Word) {
            // SAFETY: the test only inspects the code; it is never run.
            each!(|order, scope| unsafe { to.store_vec::<$count>([value; $count], order, scope) });
        }
    )*};
}

vector_stores! {
    store_pair 2;
    store_quad 4;
}

macro_rules! vectors_if {
    ($($name:ident $count:literal;)*) => {$(
        /// Reads neighbouring words under a predicate.
        #[kernel]
        pub fn $name<C: Cell>(from: Global<C::Word>, wanted: u32, out: Global<u64>) {
            let mut all = 0;
            each!(|order, scope| for word in
                // SAFETY: the test only inspects the code; it is never run.
                unsafe { from.load_vec_if::<$count>(wanted == 7, order, scope) }
            {
                all ^= word.widen() as u64;
            });
            out.store(all, Order::Weak, Scope::Device);
        }
    )*};
}

vectors_if! {
    load_if 1;
    load_pair_if 2;
}

/// Executes a compare-exchange of a word.
#[kernel]
pub fn compare_exchange<C: Cell>(at: Global<C::Word>, current: C::Word, new: C::Word, out: Global<u64>) {
    let mut all = 0;
    each!(|order, scope| all ^=
        at.compare_exchange(current, new, order, scope).unwrap_or_else(|old| old).widen() as u64);
    out.store(all, Order::Weak, Scope::Device);
}

macro_rules! atomics {
    ($($name:ident)*) => {$(
        /// Executes one read-modify-write of a word.
        #[kernel]
        pub fn $name<C: Cell>(at: Global<C::Word>, value: C::Word, out: Global<u64>) {
            let mut all = 0;
            each!(|order, scope| all ^= at.$name(value, order, scope).widen() as u64);
            out.store(all, Order::Weak, Scope::Device);
        }
    )*};
}
atomics!(exchange fetch_add fetch_min fetch_max fetch_or fetch_and);

/// Accesses a word that the L2 cache should keep.
#[kernel]
pub fn hot(at: Global<u32>, value: u32, out: Global<u64>) {
    let mut all = 0;
    each!(|order, scope| all ^= at.load_hot(order, scope) as u64);
    each!(|order, scope| all ^= at.fetch_and_hot(value, order, scope) as u64);
    each!(|order, scope| all ^= at.fetch_or_hot(value, order, scope) as u64);
    out.store(all, Order::Weak, Scope::Device);
}

/// Executes fences of every scope.
#[kernel]
pub fn fences() {
    simt::fence(Scope::Block);
    simt::fence(Scope::Device);
    simt::fence(Scope::System);
}

/// Executes sequentially consistent fences of every scope.
#[kernel]
pub fn sc_fences() {
    simt::fence_sc(Scope::Block);
    simt::fence_sc(Scope::Device);
    simt::fence_sc(Scope::System);
}

/// A word type, in one of the sets of word types with the same operations.
#[derive(Clone, Copy)]
pub struct In<const SET: u8, T>(core::marker::PhantomData<T>);

/// A word type for which kernels are compiled.
pub trait Cell: Instance {
    /// Type of the word.
    type Word: Word;
}

impl<const SET: u8, T: Word> Cell for In<SET, T>
where
    Self: Instance,
{
    type Word = T;
}

macro_rules! sets {
    ($($(#[$doc:meta])* $set:literal $module:ident ($($word:ident)*) ($($kernel:ident)*);)*) => {$(
        $(#[$doc])*
        pub mod $module {
            use super::*;
            simt::instances! {
                named { $($word: In<$set, $word>),* }
                kernels { $($kernel),* }
            }
        }
    )*};
}

sets! {
    /// Operations of all words.
    0 plain (u8 u32 u64 u128) (Load Store);
    /// Operations of words of 4 and 8 bytes.
    1 atomic (u32 u64) (CompareExchange Exchange FetchAdd FetchMin FetchMax FetchOr FetchAnd);
    /// Operations of words of 16 bytes, on architectures that have them.
    2 wide (u128) (CompareExchange);
    /// Loads of pairs.
    3 pairs (u8 u32 u64) (LoadPair);
    /// Stores of pairs.
    9 stored_pairs (u32 u64) (StorePair);
    /// Stores of quads.
    10 stored_quads (u32) (StoreQuad);
    /// Loads of quads.
    4 quads (u8 u32) (LoadQuad);
    /// Predicated loads.
    7 one_if (u64 u128) (LoadIf);
    /// Predicated loads of pairs.
    8 pairs_if (u64) (LoadPairIf);
    /// Loads of 8 and 16 bytes.
    6 bytes (u8) (LoadEight LoadSixteen);
}
