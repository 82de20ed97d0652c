//! Macros of the package `phalanx`, which alone uses them.
use proc_macro::TokenStream;

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
