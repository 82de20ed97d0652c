//! The expansion of `instances!`.
use proc_macro2::TokenStream;
use quote::{format_ident, quote, quote_spanned};
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Ident, Path, Result, Token, Type, braced};

/// A type and its name.
struct Named {
    /// Attributes of its section, such as `#[cfg(..)]`.
    attributes: Vec<Attribute>,
    name: Ident,
    of: Type,
}

impl Parse for Named {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let name = input.parse()?;
        input.parse::<Token![:]>()?;
        Ok(Self { attributes: Vec::new(), name, of: input.parse()? })
    }
}

/// Parsed contents of the braces of `instances!`.
pub struct List {
    types: Vec<Named>,
    /// Whether the types have no names of their own, so that the list implements `Instance` for them.
    names: bool,
    kernels: Vec<Path>,
    /// Bound of the types that a visitor visits.
    bound: Option<Path>,
}

impl Parse for List {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let names = input.fork().parse::<Ident>().is_ok_and(|title| title == "named");
        let mut types: Vec<Named> = section(input, if names { "named" } else { "types" })?;
        while input.peek(Token![#]) {
            types.extend(more_types(input)?);
        }
        let kernels = section(input, "kernels")?;
        let bound = if input.is_empty() { None } else { Some(bound(input)?) };
        match repeated(&types) {
            Some(name) => Err(syn::Error::new(name.span(), "another type of the list has the same name")),
            None => Ok(Self { types, names, kernels, bound }),
        }
    }
}

/// Parses a further section of types, which has attributes.
fn more_types(input: ParseStream<'_>) -> Result<Vec<Named>> {
    let attributes = Attribute::parse_outer(input)?;
    let mut types: Vec<Named> = section(input, "types")?;
    types.iter_mut().for_each(|named| named.attributes.clone_from(&attributes));
    Ok(types)
}

/// Returns the first name that has occurred before.
fn repeated(types: &[Named]) -> Option<&Ident> {
    let known =
        |(index, named): &(usize, &Named)| types[..*index].iter().any(|other| other.name == named.name);
    types.iter().enumerate().find(known).map(|(_, named)| &named.name)
}

fn bound(input: ParseStream<'_>) -> Result<Path> {
    title(input, "visitor")?;
    input.parse::<Token![:]>()?;
    let bound = input.parse()?;
    input.parse::<Option<Token![,]>>()?;
    Ok(bound)
}

fn title(input: ParseStream<'_>, title: &str) -> Result<()> {
    let found: Ident = input.parse()?;
    if found == title { Ok(()) } else { Err(syn::Error::new(found.span(), format!("expected `{title}`"))) }
}

fn section<T: Parse>(input: ParseStream<'_>, title: &str) -> Result<Vec<T>> {
    self::title(input, title)?;
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
    let names = list.types.iter().map(if list.names { implementation } else { assertion });
    let pairs: Vec<_> =
        list.kernels.iter().flat_map(|kernel| list.types.iter().map(move |named| (kernel, named))).collect();
    let symbols: Vec<_> = pairs.iter().map(|(kernel, named)| symbol(kernel, named)).collect();
    let checked = pairs.iter().map(|(kernel, Named { attributes, of, .. })| {
        quote!(#(#attributes)* <#kernel<#of> as ::simt::Kernel>::NAME)
    });
    let listed = pairs
        .iter()
        .zip(&symbols)
        .map(|((_, Named { attributes, .. }), symbol)| quote!(#(#attributes)* #symbol));
    let entries = pairs.iter().zip(&symbols).map(|((kernel, named), symbol)| entry(kernel, named, symbol));
    let texts = list.types.iter().map(|Named { attributes, name, .. }| {
        let text = name.to_string();
        quote!(#(#attributes)* #text)
    });
    let visitor = list.bound.iter().map(|bound| visitor(bound, &list.types));
    quote! {
        #(#names)*
        #(#visitor)*

        /// Names of all types.
        pub const NAMES: &[&str] = &[#(#texts),*];

        /// Symbols of all instances, as in the PTX.
        pub const SYMBOLS: &[&str] = &[#(#listed),*];

        #(#entries)*

        // Checks on the host too that every pair of type and kernel is a kernel.
        #[cfg(not(target_arch = "nvptx64"))]
        const _: &[&str] = &[#(#checked),*];
    }
}

/// Gives the name to its type.
fn implementation(Named { attributes, name, of }: &Named) -> TokenStream {
    let text = name.to_string();
    quote!(#(#attributes)* impl ::simt::Instance for #of { const NAME: &'static str = #text; })
}

/// Compares the name with that of its type. (A symbol needs the text itself, so the line contains it.)
fn assertion(Named { attributes, name, of }: &Named) -> TokenStream {
    let text = name.to_string();
    quote_spanned! { name.span() =>
        #(#attributes)*
        const _: () = if !::simt::private::is_name(#text, <#of as ::simt::Instance>::NAME) {
            ::core::panic!("{}", const {
                &::simt::Name::of("the name of this type is ").text(<#of as ::simt::Instance>::NAME)
            }.as_str())
        };
    }
}

/// Generates the trait of visitors, and the function that shows them the types.
fn visitor(bound: &Path, types: &[Named]) -> TokenStream {
    let visits = types.iter().map(|Named { attributes, of, .. }| {
        quote! {
            #(#attributes)*
            if let ::core::option::Option::Some(output) = visitor.visit::<#of>() {
                return ::core::option::Option::Some(output);
            }
        }
    });
    quote! {
        /// Receives the types of the list from [`visit`].
        #[cfg(not(target_arch = "nvptx64"))]
        pub trait Visitor {
            /// Result that ends the visit.
            type Output;

            /// Visits the type `T`. Returns a result to end the visit.
            fn visit<T: #bound + ::simt::Instance>(&mut self) -> ::core::option::Option<Self::Output>;
        }

        /// Shows the types to the visitor, in the order of the list, until it returns a result.
        #[cfg(not(target_arch = "nvptx64"))]
        pub fn visit<V: Visitor>(visitor: &mut V) -> ::core::option::Option<V::Output> {
            #(#visits)*
            ::core::option::Option::None
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
    let Named { attributes, of, .. } = named;
    quote! {
        #(#attributes)*
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(export_name = #symbol)]
        #[allow(improper_ctypes_definitions, missing_docs)]
        pub extern "ptx-kernel" fn #wrapper(arguments: #kernel<#of>) {
            ::simt::private::follow::<#kernel<#of>>();
            ::simt::Kernel::run(arguments)
        }
    }
}
