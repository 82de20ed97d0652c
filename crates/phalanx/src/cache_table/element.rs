//! The types of the elements of rows.
use bytemuck::Pod;
use phalanx_kernels::cache::Element as Kind;

/// A type of elements that can be added: see [`CacheTable::accumulate`](super::CacheTable::accumulate).
///
/// ```
/// fn add_up<V: phalanx::cache_table::Summand>() {}
/// add_up::<f32>();
/// ```
#[diagnostic::on_unimplemented(
    message = "rows of `{Self}` cannot be accumulated",
    label = "not a type of summands",
    note = "`CacheTable::accumulate` adds elements of type `f32`, `u32` and `i32`"
)]
pub trait Summand: Pod + sealed::Sealed {
    #[doc(hidden)]
    const KIND: Kind;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! summands {
    ($($type:ty: $kind:ident;)*) => {$(
        impl sealed::Sealed for $type {}
        impl Summand for $type {
            const KIND: Kind = Kind::$kind;
        }
    )*};
}
summands! { f32: F32; u32: Int32; i32: Int32; }
