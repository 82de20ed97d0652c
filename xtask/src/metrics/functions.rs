//! Counts of functions by their signatures.
use super::Metric;
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
/// surrounding `impl` or trait included, in per cent; and the number of public functions that can fail and do
/// not document how.
pub fn count(folder: &str, files: &[&File]) -> Result<[Metric; 3]> {
    let mut seen = Seen::default();
    for file in files {
        let parsed = syn::parse_file(&file.text).with_context(|| file.path.clone())?;
        seen.visit_file(&parsed);
    }
    let share = 1000 * seen.with_many / seen.functions.max(1);
    Ok([
        Metric::new(folder, "functions", seen.functions),
        Metric { value: share as f64 / 10.0, ..Metric::new(folder, "% with more than 3 type parameters", 0) },
        Metric::new(folder, "public functions that can fail without `# Errors`", seen.undocumented),
    ])
}

#[derive(Default)]
struct Seen {
    /// Parameters of the surrounding `impl` or trait.
    outer: usize,
    /// The surrounding `impl` is one of a trait, whose documentation counts.
    of_trait: bool,
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

impl Seen {
    fn see(&mut self, signature: &Signature, attributes: &[Attribute], is_public: bool) {
        self.functions += 1;
        self.with_many += usize::from(self.outer + parameters(&signature.generics) > FEW);
        let is_silent = is_public && can_fail(signature) && !documents_errors(attributes);
        self.undocumented += usize::from(is_silent);
    }

    fn within(&mut self, generics: &Generics, of_trait: bool, see: impl FnOnce(&mut Self)) {
        let before = (self.outer, self.of_trait);
        (self.outer, self.of_trait) = (parameters(generics), of_trait);
        see(self);
        (self.outer, self.of_trait) = before;
    }
}

impl<'a> Visit<'a> for Seen {
    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        self.within(&item.generics, item.trait_.is_some(), |seen| visit::visit_item_impl(seen, item));
    }

    fn visit_item_trait(&mut self, item: &'a ItemTrait) {
        self.within(&item.generics, true, |seen| visit::visit_item_trait(seen, item));
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
        let file = File { path: "x.rs".into(), text: text.into() };
        let [functions, share, silent] = count("x", &[&file]).unwrap();
        assert_eq!((functions.value, share.value, silent.value), (3.0, 33.3, 1.0));
    }
}
