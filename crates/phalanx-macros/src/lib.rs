//! Macros of the package `phalanx`, which re-exports and documents the derive macros and uses the others
//! itself.
use proc_macro::TokenStream;

mod derive;
mod inherent;

/// Makes the provided methods of a trait available as inherent methods, with the same documentation and the
/// same bodies: users need not import the trait, and each type's page shows its methods.
///
/// `#[inherent(name)]` on a trait defines a macro `name!(Type<K, V>)`, which adds the methods to a type in an
/// `impl<K: Key, V: Value>` block. The type must implement the trait. In the block, the trait's types
/// `Self::Key` and `Self::Value` are `K` and `V`. Other names in the methods and in their documentation are
/// looked up where the macro is called.
#[proc_macro_attribute]
pub fn inherent(name: TokenStream, item: TokenStream) -> TokenStream {
    let name = syn::parse_macro_input!(name as syn::Ident);
    let item = syn::parse_macro_input!(item as syn::ItemTrait);
    inherent::expand(&name, &item).into()
}

/// Makes a struct a key: implements `phalanx::Key`.
///
/// The fields are keys of at most 64 bits altogether: `i16` has 16, `bool` 1, `char` 21. Keys have the order
/// of the first field in which they differ, as with `#[derive(Ord)]`. The struct also needs `Clone`, `Copy`
/// and `Debug`.
#[proc_macro_derive(Key)]
pub fn key(item: TokenStream) -> TokenStream {
    derive::expand(item, "Key")
}

/// Makes a struct a value: implements `phalanx::Value`, as `#[derive(Key)]` implements `phalanx::Key`.
#[proc_macro_derive(Value)]
pub fn value(item: TokenStream) -> TokenStream {
    derive::expand(item, "Value")
}
