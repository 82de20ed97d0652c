//! The expansion of `instances!`.
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Ident, Path, Result, Token, Type, braced};

/// A type and its name.
struct Named {
    name: Ident,
    of: Type,
}

impl Parse for Named {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self { name, of: input.parse()? })
    }
}

/// Parsed contents of the braces of `instances!`.
pub struct List {
    types: Vec<Named>,
    /// Whether another list already names the types.
    known: bool,
    kernels: Vec<Path>,
    visitors: Vec<Path>,
}

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let known = input.fork().parse::<Ident>().is_ok_and(|title| title == "known");
        let types = section(input, if known { "known" } else { "types" })?;
        let kernels = section(input, "kernels")?;
        let visitors = if input.is_empty() { Vec::new() } else { section(input, "visitor")? };
        Ok(Self { types, known, kernels, visitors })
    }
}

fn section<T: Parse>(input: ParseStream<'_>, title: &str) -> Result<Vec<T>> {
    let found: Ident = input.parse()?;
    if found != title {
        return Err(syn::Error::new(found.span(), format!("expected `{title}`")));
    }
    let content;
    braced!(content in input);
    Ok(Punctuated::<T, Token![,]>::parse_terminated(&content)?.into_iter().collect())
}

/// Converts a kernel's type name to its function name: `InsertNew` to `insert_new`.
fn function_name(kernel: &Ident) -> String {
    let mut name = String::new();
    for letter in kernel.to_string().chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.extend(letter.to_lowercase());
    }
    name
}

pub fn expand(list: &List) -> TokenStream {
    let named_here = if list.known { &[][..] } else { &list.types[..] };
    let implementations = named_here.iter().map(|Named { name, of }| {
        let text = name.to_string();
        quote!(impl ::simt::Instance for #of { const NAME: &'static str = #text; })
    });
    let pairs: Vec<_> =
        list.kernels.iter().flat_map(|kernel| list.types.iter().map(move |named| (kernel, named))).collect();
    let symbols: Vec<_> = pairs.iter().map(|(kernel, named)| symbol(kernel, named)).collect();
    let named = pairs.iter().map(|(kernel, named)| {
        let of = &named.of;
        quote!(<#kernel<#of> as ::simt::Kernel>::NAME)
    });
    let entries = pairs.iter().zip(&symbols).map(|((kernel, named), symbol)| entry(kernel, named, symbol));
    let names = list.types.iter().map(|named| named.name.to_string());
    let visits = list.visitors.iter().map(|visitor| visit(visitor, &list.types));
    quote! {
        #(#implementations)*
        #(#visits)*

        /// Names of all types.
        pub const NAMES: &[&str] = &[#(#names),*];

        /// Symbols of all instances, as in the PTX.
        pub const SYMBOLS: &[&str] = &[#(#symbols),*];

        #(#entries)*

        // Checks on the host too that every pair of type and kernel is a kernel.
        #[cfg(not(target_arch = "nvptx64"))]
        const _: &[&str] = &[#(#named),*];
    }
}

/// Generates the function that passes the type of a name to a visitor.
fn visit(visitor: &Path, types: &[Named]) -> TokenStream {
    let arms = types.iter().map(|Named { name, of }| {
        let text = name.to_string();
        quote!(#text => ::core::option::Option::Some(visitor.visit::<#of>()))
    });
    quote! {
        /// Passes the type called `name` to the visitor, if there is such a type.
        #[cfg(not(target_arch = "nvptx64"))]
        pub fn visit<V: #visitor>(name: &str, visitor: V) -> ::core::option::Option<V::Output> {
            match name {
                #(#arms,)*
                _ => ::core::option::Option::None,
            }
        }
    }
}

fn symbol(kernel: &Path, named: &Named) -> String {
    let kernel = &kernel.segments.last().expect("a path has a segment").ident;
    format!("{}__{}", function_name(kernel), named.name)
}

fn entry(kernel: &Path, named: &Named, symbol: &str) -> TokenStream {
    if crate::kernel::is_dependency() {
        return TokenStream::new();
    }
    let wrapper = format_ident!("entry_{symbol}");
    let of = &named.of;
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(export_name = #symbol)]
        #[allow(improper_ctypes_definitions, missing_docs)]
        pub extern "ptx-kernel" fn #wrapper(arguments: #kernel<#of>) {
            ::simt::private::follow();
            ::simt::Kernel::run(arguments)
        }
    }
}
