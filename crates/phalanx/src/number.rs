//! Types of numbers.
use phalanx_kernels::primitives::segments::long;
use phalanx_kernels::primitives::{analysis, compact, merge, reduce, sort as kernels, words};
use simt::{Instance, Word};

mod sealed {
    pub trait Sealed {}
    impl Sealed for u32 {}
    impl Sealed for u64 {}
}

/// A number type that primitives support: `u32` or `u64`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not `u32` or `u64`",
    label = "not a number type of primitives and cache tables",
    note = "keys and scores of a `CacheTable`, and elements of primitives, are `u32` or `u64`"
)]
pub trait Number: sealed::Sealed + Word + Ord + Send + Sync {
    /// Type for which the kernels are compiled.
    #[doc(hidden)]
    type Ordered: compact::Element<Word = Self>
        + reduce::Binned<Word = Self>
        + merge::Merged<Key = Self>
        + analysis::Analyzed<Word = Self>
        + Instance
        + Sync
        + Send;
    #[doc(hidden)]
    type Keys: kernels::Counted<Key = Self> + long::LongPlan<Key = Self> + Instance;
}

macro_rules! numbers {
    ($($number:ident)*) => {$(
        impl Number for $number {
            type Ordered = words::Ordered<$number>;
            type Keys = kernels::Keys<$number>;
        }
    )*};
}
numbers!(u32 u64);
