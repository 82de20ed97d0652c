//! The attribute `#[device]`.
use proc_macro2::TokenStream;
use quote::{ToTokens, quote};
use syn::parse::{Parse, ParseStream};
use syn::{Attribute, Error, ImplItem, Item, ItemImpl, ItemTrait, Result, TraitItem, parse_quote};

/// Argument of `#[device]`.
pub struct Options {
    /// Whether accesses are reported with the caller's source line.
    caller: bool,
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        if input.is_empty() {
            return Ok(Self { caller: false });
        }
        let word: syn::Ident = input.parse()?;
        if word == "caller" && input.is_empty() {
            return Ok(Self { caller: true });
        }
        Err(Error::new(word.span(), "expected `#[device]` or `#[device(caller)]`"))
    }
}

impl Options {
    /// Returns the attributes that stand for this one. A device has no stack for calls. For the emulator, a
    /// copy of the function at each call would take minutes to compile without optimisation.
    fn attributes(&self) -> Vec<Attribute> {
        let inline = [
            parse_quote!(#[cfg_attr(target_arch = "nvptx64", inline(always))]),
            parse_quote!(#[cfg_attr(not(target_arch = "nvptx64"), inline)]),
        ];
        let caller = self.caller.then(|| parse_quote!(#[track_caller]));
        inline.into_iter().chain(caller).collect()
    }

    /// Adds the attributes to a function that has none of its own.
    fn add_to(&self, attributes: &mut Vec<Attribute>) {
        let is_own = |attribute: &Attribute| {
            let name = attribute.path().segments.last().map(|segment| segment.ident.to_string());
            matches!(name.as_deref(), Some("device" | "inline"))
        };
        if !attributes.iter().any(is_own) {
            attributes.extend(self.attributes());
        }
    }

    fn add_to_impl(&self, block: &mut ItemImpl) {
        for item in &mut block.items {
            if let ImplItem::Fn(function) = item {
                self.add_to(&mut function.attrs);
            }
        }
    }

    fn add_to_trait(&self, block: &mut ItemTrait) {
        for item in &mut block.items {
            if let TraitItem::Fn(function) = item
                && function.default.is_some()
            {
                self.add_to(&mut function.attrs);
            }
        }
    }
}

/// Adds the attributes to a function, or to all functions with a body in an `impl` block or trait.
pub fn expand(options: &Options, item: TokenStream) -> TokenStream {
    // A method is not an `Item`: its tokens are kept as they are, after the attributes.
    match syn::parse2(item.clone()) {
        Ok(Item::Impl(mut block)) => {
            options.add_to_impl(&mut block);
            block.into_token_stream()
        }
        Ok(Item::Trait(mut block)) => {
            options.add_to_trait(&mut block);
            block.into_token_stream()
        }
        _ => {
            let attributes = options.attributes();
            quote!(#(#attributes)* #item)
        }
    }
}
