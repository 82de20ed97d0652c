//! The types that one instruction accesses, and arrays of them.
use simt_macros::device;

mod sealed {
    pub trait Sealed {}
}

/// An integer that can be accessed in a single instruction: `u8`, `u32`, `u64`, and `u128` (aligned to 16
/// bytes).
///
/// An access to a `u128` is single from sm_90 on; see [`crate::Global::compare_exchange`].
///
/// ```
/// use simt::Word;
///
/// assert_eq!(u32::narrow(7u8.widen() + (1 << 32)), 7);
/// ```
///
/// # Cost
///
/// Conversions in registers: no memory access.
pub trait Word: sealed::Sealed + bytemuck::Pod + Eq + core::fmt::Debug {
    /// Returns the value widened to 128 bits.
    fn widen(self) -> u128;
    /// Returns the low bits of `wide`.
    fn narrow(wide: u128) -> Self;
}

macro_rules! words {
    ($($word:ty)*) => {$(
        impl sealed::Sealed for $word {}
        #[device]
        impl Word for $word {
            fn widen(self) -> u128 {
                self as u128
            }
            fn narrow(wide: u128) -> Self {
                wide as $word
            }
        }
    )*};
}
words!(u8 u32 u64 u128);

/// The shape of an array in shared memory, as a type. Generic code uses it in place of the literal that
/// [`shared!`](crate::shared!) needs.
pub trait SharedShape: 'static {
    /// Type of the elements.
    type Word: Word;
    /// Number of elements.
    const LEN: usize;
}
