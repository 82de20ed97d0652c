//! The attribute `#[kernel]`, which turns a function into an entry point with a typed launch; `#[device]`,
//! for the functions that kernels call; and `instances!`, which instantiates generic kernels.
//!
//! All are re-exported by `simt` and documented there.
use proc_macro::TokenStream;

mod device;
mod instances;
mod kernel;

/// Turns a function into a kernel.
///
/// `#[kernel] fn fill(out: GlobalSlice<u32>, value: u32) { .. }` keeps the function and adds `struct Fill {
/// out, value }`, which implements `simt::Kernel`: the host launches `Fill { out, value }`. On the GPU, a
/// kernel without type parameters also becomes a PTX entry with the name of the function. A kernel with a
/// single type parameter `P: Instance` becomes an entry for each type that `simt::instances!` lists.
/// `#[kernel(registers = N)]` limits the registers per thread. Arguments must be `Copy` and have the same
/// layout on host and device.
#[proc_macro_attribute]
pub fn kernel(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options = syn::parse_macro_input!(attribute as kernel::Options);
    let function = syn::parse_macro_input!(item as syn::ItemFn);
    kernel::expand(&options, &function).unwrap_or_else(syn::Error::into_compile_error).into()
}

/// Marks a function that kernels call. On the device it is inlined into its caller; on the emulator the
/// optimisation decides.
///
/// With `#[device(caller)]`, the emulator also attributes the function's memory accesses to the source line
/// of the call (`#[track_caller]`): use it for small accessors, whose own lines say nothing in a report. On
/// an `impl` block or a trait the attribute applies to every function with a body that has neither
/// `#[device]` nor `#[inline]` itself.
#[proc_macro_attribute]
pub fn device(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let options = syn::parse_macro_input!(attribute as device::Options);
    device::expand(&options, item.into()).into()
}

/// Lists the types for which generic kernels are compiled.
///
/// `instances! { types { line_u32: Map<u32, Line>, .. } kernels { Insert, Get } }` generates a PTX entry of
/// every kernel for every type (`insert__line_u32`), and lists the names in `NAMES` and the symbols in
/// `SYMBOLS`. The types implement `simt::Instance`; a name that is not `Instance::NAME` does not compile, and
/// the error contains the right one. With `named` instead of `types`, the list implements `Instance`.
///
/// After the types, sections `#[cfg(feature = "variants")] types { .. }` may follow: their types are in the
/// list where the condition holds.
///
/// With a last section `visitor: Bound`, it also generates the trait `Visitor` and `visit(&mut visitor)`, by
/// which a host finds a type: `Visitor` has a type `Output` and a method `visit<T: Bound + Instance>(&mut
/// self) -> Option<Output>`.
#[proc_macro]
pub fn instances(item: TokenStream) -> TokenStream {
    let list = syn::parse_macro_input!(item as instances::List);
    instances::expand(&list).into()
}
