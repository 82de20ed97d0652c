//! Counts of functions by their signatures.
use super::Metric;
use super::exports::Exports;
use crate::files::File;
use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Generics, ImplItemFn, ItemFn, ItemImpl, ItemTrait, ReturnType, Signature, TraitItemFn,
    Visibility,
};

/// More parameters than this are hard to keep in mind.
const FEW: usize = 3;

/// Returns the share of functions with more than three parameters of types and constants, those of the
/// surrounding `impl` or trait included, in per cent; and the number of exported functions that can fail and
/// do not document how.
pub fn count(folder: &str, files: &[&File]) -> Result<[Metric; 3]> {
    let parse = |file: &&File| syn::parse_file(&file.text).with_context(|| file.path.clone());
    let parsed = files.iter().map(parse).collect::<Result<Vec<_>>>()?;
    let exports = Exports::new(folder, files.iter().map(|file| &*file.path).zip(&parsed));
    let mut seen = Seen::default();
    for (file, parsed) in files.iter().zip(&parsed) {
        seen.exports = Some((&exports, exports.is_public(&file.path)));
        seen.visit_file(parsed);
    }
    let share = 1000 * seen.with_many / seen.functions.max(1);
    Ok([
        Metric::new(folder, "functions", seen.functions),
        Metric { value: share as f64 / 10.0, ..Metric::new(folder, "% with more than 3 type parameters", 0) },
        Metric::new(folder, "exported functions that can fail without `# Errors`", seen.undocumented),
    ])
}

#[derive(Default)]
struct Seen<'e> {
    /// The names that the crate exports, and whether all public items of the current file are exported.
    exports: Option<(&'e Exports, bool)>,
    /// Parameters of the surrounding `impl` or trait.
    outer: usize,
    /// Whether the surrounding `impl` is one of a trait, whose documentation counts.
    of_trait: bool,
    /// Name of the surrounding type or trait.
    owner: Option<String>,
    functions: usize,
    with_many: usize,
    undocumented: usize,
}

fn parameters(generics: &Generics) -> usize {
    generics.type_params().count() + generics.const_params().count()
}

fn documents_errors(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("doc")
            && attribute.meta.require_name_value().is_ok_and(|doc| match &doc.value {
                syn::Expr::Lit(text) => {
                    matches!(&text.lit, syn::Lit::Str(text) if text.value().trim() == "# Errors")
                }
                _ => false,
            })
    })
}

fn can_fail(signature: &Signature) -> bool {
    let ReturnType::Type(_, returned) = &signature.output else { return false };
    let syn::Type::Path(path) = &**returned else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Result")
}

impl Seen<'_> {
    fn see(&mut self, signature: &Signature, attributes: &[Attribute], is_public: bool) {
        self.functions += 1;
        self.with_many += usize::from(self.outer + parameters(&signature.generics) > FEW);
        let name = self.owner.clone().unwrap_or_else(|| signature.ident.to_string());
        let is_exported =
            is_public && self.exports.is_some_and(|(exports, whole)| whole || exports.has(&name));
        let is_silent = is_exported && can_fail(signature) && !documents_errors(attributes);
        self.undocumented += usize::from(is_silent);
    }

    fn within(
        &mut self,
        (generics, of_trait, owner): (&Generics, bool, String),
        see: impl FnOnce(&mut Self),
    ) {
        let before = (self.outer, self.of_trait, self.owner.take());
        (self.outer, self.of_trait, self.owner) = (parameters(generics), of_trait, Some(owner));
        see(self);
        (self.outer, self.of_trait, self.owner) = before;
    }
}

/// Returns the last name of a type's path, or nothing for other types.
fn name_of(of: &syn::Type) -> String {
    let syn::Type::Path(path) = of else { return String::new() };
    path.path.segments.last().map_or(String::new(), |last| last.ident.to_string())
}

impl<'a> Visit<'a> for Seen<'_> {
    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        let owner = (&item.generics, item.trait_.is_some(), name_of(&item.self_ty));
        self.within(owner, |seen| visit::visit_item_impl(seen, item));
    }

    fn visit_item_trait(&mut self, item: &'a ItemTrait) {
        let owner = (&item.generics, true, item.ident.to_string());
        self.within(owner, |seen| visit::visit_item_trait(seen, item));
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        self.see(&item.sig, &item.attrs, matches!(item.vis, Visibility::Public(_)));
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        let is_public = !self.of_trait && matches!(item.vis, Visibility::Public(_));
        self.see(&item.sig, &item.attrs, is_public);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a TraitItemFn) {
        self.see(&item.sig, &item.attrs, true);
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_functions_and_of_what_surrounds_them_count() {
        let text = "impl<A, B, const C: u32> X<A, B, C> {\n\
            /// Does.\npub fn one<D>() -> Result<()> {}\n\
            /// # Errors\npub fn two() -> Result<()> {}\n}\n\
            impl T for X { fn three() -> Result<()> {} }";
        let file = File { path: "x/src/lib.rs".into(), text: text.into() };
        let [functions, share, silent] = count("x/src/", &[&file]).unwrap();
        assert_eq!((functions.value, share.value, silent.value), (3.0, 33.3, 1.0));
    }

    #[test]
    fn only_exported_functions_must_document_errors() {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files = [
            file("x/src/lib.rs", "mod hidden; pub mod open; pub use hidden::{Shown as Seen, deep::shown};"),
            file(
                "x/src/hidden/mod.rs",
                "pub mod deep; impl Shown { pub fn a() -> Result<()> {} }\n\
                 impl Other { pub fn b() -> Result<()> {} }",
            ),
            file("x/src/hidden/deep.rs", "pub fn shown() -> Result<()> {} pub fn c() -> Result<()> {}"),
            file("x/src/open.rs", "pub fn d() -> Result<()> {} fn e() -> Result<()> {}"),
        ];
        let [.., silent] = count("x/src/", &files.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(silent.value, 3.0);
    }
}
