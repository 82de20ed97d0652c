//! The expansion of `#[kernel]`.
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, FnArg, GenericParam, Ident, ItemFn, Pat, Result, Token, Type};

struct Argument<'a> {
    name: &'a Ident,
    of: &'a Type,
}

/// Options in the attribute's parentheses.
pub struct Options {
    registers: Option<Expr>,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Ok(Self { registers: None });
        }
        let name: Ident = input.parse()?;
        if name != "registers" {
            return Err(Error::new(name.span(), "a kernel has the option `registers = N`"));
        }
        input.parse::<Token![=]>()?;
        Ok(Self { registers: Some(input.parse()?) })
    }
}

pub fn expand(options: &Options, function: &ItemFn) -> Result<TokenStream> {
    let arguments = function.sig.inputs.iter().map(argument).collect::<Result<Vec<_>>>()?;
    let parameter = type_parameter(function)?;
    let launcher = launcher(options, function, &arguments, parameter);
    let entry = if parameter.is_none() { entry(function) } else { TokenStream::new() };
    Ok(quote! {
        #[inline(always)]
        #function
        #launcher
        #entry
    })
}

fn argument(argument: &FnArg) -> Result<Argument<'_>> {
    let FnArg::Typed(typed) = argument else {
        return Err(Error::new_spanned(argument, "a kernel takes no self"));
    };
    let Pat::Ident(name) = &*typed.pat else {
        return Err(Error::new_spanned(&typed.pat, "a kernel's arguments are plain names"));
    };
    Ok(Argument { name: &name.ident, of: &typed.ty })
}

fn type_parameter(function: &ItemFn) -> Result<Option<&Ident>> {
    let mut parameters = function.sig.generics.params.iter();
    match (parameters.next(), parameters.next()) {
        (None, _) => Ok(None),
        (Some(GenericParam::Type(parameter)), None) => Ok(Some(&parameter.ident)),
        _ => Err(Error::new_spanned(&function.sig.generics, "a kernel has one type parameter or none")),
    }
}

/// Converts a function name to a type name: `insert_new` to `InsertNew`.
pub fn type_name(function: &Ident) -> Ident {
    let name = function.to_string();
    let words = name.split('_').map(|word| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_uppercase().collect::<String>() + letters.as_str())
            .unwrap_or_default()
    });
    Ident::new(&words.collect::<String>(), function.span())
}

fn launcher(
    options: &Options,
    function: &ItemFn,
    arguments: &[Argument<'_>],
    parameter: Option<&Ident>,
) -> TokenStream {
    let visibility = &function.vis;
    let name = &function.sig.ident;
    let text = name.to_string();
    let launcher = type_name(name);
    let documentation = format!("The launch of the kernel [`{name}()`]: its arguments by name.");
    let (generics, types, bounds) = function.sig.generics.split_for_impl();
    let turbofish = types.as_turbofish();
    let fields = arguments.iter().map(|Argument { name, of }| {
        let documentation = format!("The argument `{name}`.");
        quote!(#[doc = #documentation] pub #name: #of)
    });
    let passed = arguments.iter().map(|argument| argument.name).map(|name| quote!(self.#name));
    let instance = match parameter {
        Some(parameter) => quote!(::core::option::Option::Some(<#parameter as ::simt::Instance>::NAME)),
        None => quote!(::core::option::Option::None),
    };
    let registers = match &options.registers {
        Some(registers) => quote!(::core::option::Option::Some(#registers)),
        None => quote!(::core::option::Option::None),
    };
    quote! {
        #[doc = #documentation]
        #[repr(C)]
        #visibility struct #launcher #generics #bounds { #(#fields),* }

        impl #generics ::core::clone::Clone for #launcher #types #bounds {
            #[inline(always)]
            fn clone(&self) -> Self { *self }
        }

        impl #generics ::core::marker::Copy for #launcher #types #bounds {}

        impl #generics ::simt::Kernel for #launcher #types #bounds {
            const PROGRAM: &'static str = ::core::env!("CARGO_PKG_NAME");
            const NAME: &'static str = #text;
            const INSTANCE: ::core::option::Option<&'static str> = #instance;
            const REGISTERS: ::core::option::Option<u32> = #registers;

            #[inline(always)]
            #[allow(unused_unsafe)]
            fn run(self) {
                #name #turbofish (#(#passed),*)
            }
        }
    }
}

/// Returns `true` if cargo builds this package as a dependency of another. The other package's PTX then needs
/// no entries for this one, because a kernel is looked up in the program of its own package first.
pub fn is_dependency() -> bool {
    let is_set = |name| std::env::var_os(name).is_some();
    is_set("CARGO_PKG_NAME") && !is_set("CARGO_PRIMARY_PACKAGE")
}

fn entry(function: &ItemFn) -> TokenStream {
    if is_dependency() {
        return TokenStream::new();
    }
    let name = &function.sig.ident;
    let launcher = type_name(name);
    let wrapper = format_ident!("entry_{name}");
    let symbol = name.to_string();
    quote! {
        #[cfg(target_arch = "nvptx64")]
        #[unsafe(export_name = #symbol)]
        #[allow(improper_ctypes_definitions, missing_docs)]
        pub extern "ptx-kernel" fn #wrapper(arguments: #launcher) {
            ::simt::private::follow::<#launcher>();
            ::simt::Kernel::run(arguments)
        }
    }
}
