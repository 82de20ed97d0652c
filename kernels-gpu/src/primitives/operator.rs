//! Operators of scans and reductions: sum, minimum and maximum.
//!
//! # Cost
//!
//! [`Operator::combine_at`] is one instruction.
use super::lookback::Monoid;
use core::marker::PhantomData;
use simt::{Global, Order, Scope, Tile, Word, device};

/// An associative operation on words, by which arrays are scanned and reduced.
///
/// ```
/// use phalanx_kernels::primitives::lookback::Monoid;
/// use phalanx_kernels::primitives::operator::Operator;
/// use simt::Global;
///
/// /// Adds a warp's result to that of the launch.
/// fn add_result<O: Operator>(place: Global<<O as Monoid>::Value>, warp: O::Value) {
///     O::combine_at(place, warp);
/// }
/// ```
pub trait Operator: Monoid<Value: Word> {
    /// Names of the operator and of its words, as in `sum_u32`.
    const NAME: &'static str;

    /// Combines `value` into a value in memory, atomically. Threads may do so in any order: all these
    /// operators commute.
    fn combine_at(place: Global<Self::Value>, value: Self::Value);
}

macro_rules! operators {
    ($($(#[$doc:meta])*
       $name:ident = $text:literal, $combine:ident, $fetch:ident, $reduce:ident, $identity:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name<T>(PhantomData<fn() -> T>);

        operators!(of $name, $text, u32, $combine, $fetch, $identity; {
            /// One instruction: the order in which 32-bit values are combined does not matter.
            #[device(caller)]
            fn fold(warp: Tile<32>, value: u32) -> u32 {
                warp.$reduce(value)
            }
        });
        operators!(of $name, $text, u64, $combine, $fetch, $identity; {});
    )*};
    (of $name:ident, $text:literal, $word:ident, $combine:ident, $fetch:ident, $identity:ident;
     {$($fold:item)?}) => {
        impl Monoid for $name<$word> {
            type Value = $word;
            const IDENTITY: $word = $word::$identity;

            #[device]
            fn combine(first: $word, second: $word) -> $word {
                first.$combine(second)
            }

            $($fold)?
        }

        impl Operator for $name<$word> {
            const NAME: &'static str = concat!($text, "_", stringify!($word));

            #[device(caller)]
            fn combine_at(place: Global<$word>, value: $word) {
                place.$fetch(value, Order::Relaxed, Scope::Device);
            }
        }
    };
}
operators! {
    /// Wrapping sum.
    Sum = "sum", wrapping_add, fetch_add, reduce_add, MIN;
    /// Minimum.
    Min = "min", min, fetch_min, reduce_min, MAX;
    /// Maximum.
    Max = "max", max, fetch_max, reduce_max, MIN;
}
