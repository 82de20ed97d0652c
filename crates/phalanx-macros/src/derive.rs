//! The derive macros `Key` and `Value`.
use proc_macro::TokenStream;
use proc_macro2::TokenStream as Tokens;
use quote::{format_ident, quote};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Fields, Ident, Index, Member, Result, Type};

/// Returns the implementation of the trait `name`, or an error for items that cannot have it.
pub fn expand(item: TokenStream, name: &str) -> TokenStream {
    let item = syn::parse_macro_input!(item as DeriveInput);
    implementation(&item, &format_ident!("{name}")).unwrap_or_else(Error::into_compile_error).into()
}

/// A field: how an expression names it, the variable that holds its decoded value, and its type.
struct Field<'a> {
    member: Member,
    variable: Ident,
    of: &'a Type,
}

/// Returns the fields of a struct, or an error for other items.
fn fields<'a>(item: &'a DeriveInput, name: &Ident) -> Result<Vec<Field<'a>>> {
    let refuse = |what: &str| Error::new(item.ident.span(), format!("`{name}` cannot be derived for {what}"));
    let Data::Struct(data) = &item.data else { return Err(refuse("enums and unions, only for structs")) };
    if !item.generics.params.is_empty() {
        return Err(refuse("structs with parameters"));
    }
    if let Fields::Unit = data.fields {
        return Err(refuse("structs without fields"));
    }
    let field = |(index, field): (usize, &'a syn::Field)| {
        let position = Index { index: index as u32, span: field.span() };
        let member = field.ident.clone().map_or(Member::Unnamed(position), Member::Named);
        Field { member, variable: format_ident!("field{index}"), of: &field.ty }
    };
    Ok(data.fields.iter().enumerate().map(field).collect())
}

/// Returns the implementation of the trait `name` for a struct.
fn implementation(item: &DeriveInput, name: &Ident) -> Result<Tokens> {
    let (ident, fields) = (&item.ident, fields(item, name)?);
    let (own, support) = (quote!(::phalanx::#name), quote!(::phalanx::map::derive));
    let members = fields.iter().map(|field| &field.member);
    let variables: Vec<_> = fields.iter().map(|field| &field.variable).collect();
    let types: Vec<_> = fields.iter().map(|field| field.of).collect();
    let width = quote!(0 #(+ <#types as #own>::WIDTH)*);
    let push = fields.iter().map(|Field { member, of, .. }| {
        quote!(fields.push(<#of as #own>::WIDTH, <#of as #own>::encode(self.#member));)
    });
    let pop = fields.iter().rev().map(|Field { variable, of, .. }| {
        quote!(let #variable = <#of as #own>::decode(fields.pop(<#of as #own>::WIDTH))?;)
    });
    Ok(quote! {
        #[automatically_derived]
        impl #own for #ident {
            type Word = <#support::Words<{ (#width).div_ceil(32) }> as #support::HaveWord>::Word;

            const WIDTH: u32 = #width;

            fn name() -> ::std::string::String {
                #support::struct_name(&[#(<#types as #own>::name()),*])
            }

            fn encode(self) -> Self::Word {
                let mut fields = #support::Packed::default();
                #(#push)*
                fields.word()
            }

            fn decode(word: Self::Word) -> ::std::option::Option<Self> {
                let mut fields = #support::Packed::of(word);
                #(#pop)*
                fields.is_empty().then_some(Self { #(#members: #variables),* })
            }
        }
    })
}
