//! The attribute `#[inherent]`.
use proc_macro2::{Group, Ident, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{ItemTrait, TraitItem, TraitItemFn};

/// Returns the trait, followed by the macro that adds its methods to a type.
pub fn expand(name: &Ident, item: &ItemTrait) -> TokenStream {
    let provided = item.items.iter().filter_map(|item| match item {
        TraitItem::Fn(method) if method.default.is_some() => Some(inherent(method)),
        _ => None,
    });
    let methods: TokenStream = provided.collect();
    let summary = format!("Operations that all maps have, also by the trait [`{}`].", item.ident);
    quote! {
        #item

        macro_rules! #name {
            ($type:ty) => {
                #[doc = #summary]
                impl<K: Key, V: Value> $type { #methods }
            };
        }
        pub(crate) use #name;
    }
}

/// Returns the method as an inherent one.
fn inherent(method: &TraitItemFn) -> TokenStream {
    let (attributes, body) = (&method.attrs, &method.default);
    let (signature, body) = (concrete(method.sig.to_token_stream()), concrete(body.to_token_stream()));
    quote!(#(#attributes)* pub #signature #body)
}

/// Replaces `Self::Key` by `K`, and `Self::Value` by `V`.
fn concrete(tokens: TokenStream) -> TokenStream {
    let mut replaced: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let token = match token {
            TokenTree::Group(group) => {
                let mut inner = Group::new(group.delimiter(), concrete(group.stream()));
                inner.set_span(group.span());
                TokenTree::Group(inner)
            }
            token => token,
        };
        match (parameter(&token), replaced.as_slice()) {
            (Some(parameter), [.., owner, first, second])
                if is(owner, "Self") && is(first, ":") && is(second, ":") =>
            {
                replaced.truncate(replaced.len() - 3);
                replaced.push(Ident::new(parameter, token.span()).into());
            }
            _ => replaced.push(token),
        }
    }
    replaced.into_iter().collect()
}

/// Returns the type parameter for the name of an associated type.
fn parameter(token: &TokenTree) -> Option<&'static str> {
    match token {
        token if is(token, "Key") => Some("K"),
        token if is(token, "Value") => Some("V"),
        _ => None,
    }
}

fn is(token: &TokenTree, text: &str) -> bool {
    !matches!(token, TokenTree::Group(_)) && token.to_string() == text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn provided_methods_become_inherent() {
        let item = syn::parse_quote! {
            pub trait Map {
                type Key: Key;
                fn inner(&self) -> &Inner;
                /// Returns the value.
                fn get(&self, keys: &[Self::Key]) -> Vec<Option<Self::Value>> { self.find(Self::Key::MAX) }
            }
        };
        let expected = quote! {
            #item

            macro_rules! methods {
                ($type:ty) => {
                    #[doc = "Operations that all maps have, also by the trait [`Map`]."]
                    impl<K: Key, V: Value> $type {
                        /// Returns the value.
                        pub fn get(&self, keys: &[K]) -> Vec<Option<V>> { self.find(K::MAX) }
                    }
                };
            }
            pub(crate) use methods;
        };
        let expanded = expand(&syn::parse_quote!(methods), &item);
        let text = |tokens: TokenStream| tokens.to_string().replace(' ', "");
        assert_eq!(text(expanded), text(expected));
    }
}
