//! Counts of functions by their signatures.
use super::Metric;
use super::docs::{Docs, Function, Library};
use super::exports::Exports;
use crate::files::File;
use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{
    Attribute, Block, Generics, ImplItemFn, ItemFn, ItemImpl, ItemTrait, ReturnType, Signature, TraitItemFn,
    Visibility,
};

/// More parameters than this are hard to keep in mind.
const FEW: usize = 3;

/// Returns the number of functions; the share of those with more than three parameters of types and
/// constants, those of the surrounding `impl` or trait included, in per cent; and the number of exported
/// functions that can fail and do not document how. Apart from these, returns the numbers of exported
/// functions that document no cost and that have no example (rules of [`super::docs`]).
pub fn count(folder: &str, files: &[&File]) -> Result<([Metric; 3], [Metric; 2])> {
    let parse = |file: &&File| syn::parse_file(&file.text).with_context(|| file.path.clone());
    let parsed = files.iter().map(parse).collect::<Result<Vec<_>>>()?;
    let files: Vec<_> = files.iter().map(|file| &*file.path).zip(&parsed).collect();
    let exports = Exports::new(folder, files.iter().copied());
    let library = Library::new(folder, &exports, &files);
    let place = Place { folder, exports: &exports, library: &library, path: "" };
    let mut seen = Seen { place, counts: Counts::default(), outer: Outer::default() };
    for (path, file) in &files {
        seen.place.path = path;
        seen.visit_file(file);
    }
    let Counts { functions, with_many, errorless, costless, exampleless } = seen.counts;
    let share = (1000 * with_many / functions.max(1)) as f64 / 10.0;
    let signatures = [
        Metric::new(folder, "functions", functions),
        Metric { value: share, ..Metric::new(folder, "% with more than 3 type parameters", 0) },
        Metric::of_items(folder, "exported functions that can fail without `# Errors`", errorless),
    ];
    let documentation = [
        Metric::of_items(folder, "exported functions without cost", costless),
        Metric::of_items(folder, "exported functions without example", exampleless),
    ];
    Ok((signatures, documentation))
}

#[derive(Default)]
struct Counts {
    functions: usize,
    with_many: usize,
    /// Exported functions without documentation of their errors, cost, or use.
    errorless: Vec<String>,
    costless: Vec<String>,
    exampleless: Vec<String>,
}

/// The file that is read, in its crate.
#[derive(Clone, Copy)]
struct Place<'e> {
    folder: &'e str,
    exports: &'e Exports,
    library: &'e Library,
    path: &'e str,
}

impl Place<'_> {
    /// Returns whether a public function is exported: its owner, or it itself.
    fn exports(&self, owner: Option<&str>, name: &str) -> bool {
        let definition = owner.and_then(|owner| self.library.definition(self.path, owner));
        let (path, is_open) = definition.map_or((self.path, true), |owner| (&*owner.path, owner.is_public));
        is_open && (self.exports.is_public(path) || self.exports.has(path, owner.unwrap_or(name)))
    }
}

/// The `impl` or trait around a function.
#[derive(Clone, Default)]
struct Outer {
    parameters: usize,
    /// Whether it is an `impl` of a trait, whose documentation counts.
    of_trait: bool,
    /// Whether it has `#[device]`.
    is_device: bool,
    /// Name of the type or trait.
    owner: Option<String>,
}

struct Seen<'e> {
    place: Place<'e>,
    counts: Counts,
    outer: Outer,
}

fn parameters(generics: &Generics) -> usize {
    generics.type_params().count() + generics.const_params().count()
}

fn can_fail(signature: &Signature) -> bool {
    let ReturnType::Type(_, returned) = &signature.output else { return false };
    let syn::Type::Path(path) = &**returned else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == "Result")
}

/// Returns whether attributes have one of these names.
fn has_any(attributes: &[Attribute], names: &[&str]) -> bool {
    attributes.iter().any(|attribute| names.iter().any(|name| attribute.path().is_ident(name)))
}

/// Returns whether attributes make a function device code.
fn is_device(attributes: &[Attribute]) -> bool {
    has_any(attributes, &["device", "kernel"])
}

/// Returns whether attributes hide an item from users: `#[doc(hidden)]` or `#[cfg(test)]`.
fn is_hidden(attributes: &[Attribute]) -> bool {
    let hides = |attribute: &Attribute| {
        attribute.parse_args::<syn::Ident>().is_ok_and(|word| word == "hidden" || word == "test")
    };
    attributes.iter().any(hides)
}

/// A function as it stands in the source.
struct Found<'a> {
    signature: &'a Signature,
    attributes: &'a [Attribute],
    body: Option<&'a Block>,
    is_public: bool,
}

impl Seen<'_> {
    fn see(&mut self, found: &Found<'_>) {
        self.counts.functions += 1;
        let parameters = self.outer.parameters + parameters(&found.signature.generics);
        self.counts.with_many += usize::from(parameters > FEW);
        let name = found.signature.ident.to_string();
        let owner = self.outer.owner.as_deref();
        if found.is_public && !is_hidden(found.attributes) && self.place.exports(owner, &name) {
            self.see_exported(found, &name);
        }
    }

    fn see_exported(&mut self, found: &Found<'_>, name: &str) {
        let can_fail = can_fail(found.signature);
        let is_entry = has_any(found.attributes, &["kernel"]);
        let Place { folder, library, path, .. } = self.place;
        let function = Function {
            name,
            docs: Docs::new(found.attributes),
            around: library.around(folder, path, self.outer.owner.as_deref()),
            is_device: self.outer.is_device || is_device(found.attributes) || found.body.is_none(),
            is_simple: !can_fail && found.body.is_some_and(|body| body.stmts.len() <= 2),
        };
        let full = format!("{path}: {}", [self.outer.owner.as_deref().unwrap_or(""), name].join("::"));
        let Counts { errorless, costless, exampleless, .. } = &mut self.counts;
        let has_errors = !can_fail || function.docs.has_heading("# Errors");
        for (list, is_complete) in [
            (errorless, has_errors),
            (costless, function.has_cost()),
            (exampleless, is_entry || function.has_example()),
        ] {
            list.extend((!is_complete).then(|| full.clone()));
        }
    }

    fn within(&mut self, outer: Outer, see: impl FnOnce(&mut Self)) {
        let before = std::mem::replace(&mut self.outer, outer);
        see(self);
        self.outer = before;
    }
}

/// Returns the last name of a type's path, or nothing for other types.
fn name_of(of: &syn::Type) -> String {
    let syn::Type::Path(path) = of else { return String::new() };
    path.path.segments.last().map_or(String::new(), |last| last.ident.to_string())
}

impl<'a> Visit<'a> for Seen<'_> {
    fn visit_item_impl(&mut self, item: &'a ItemImpl) {
        let outer = Outer {
            parameters: parameters(&item.generics),
            of_trait: item.trait_.is_some() || is_hidden(&item.attrs),
            is_device: is_device(&item.attrs),
            owner: Some(name_of(&item.self_ty)),
        };
        self.within(outer, |seen| visit::visit_item_impl(seen, item));
    }

    fn visit_item_trait(&mut self, item: &'a ItemTrait) {
        let outer = Outer {
            parameters: parameters(&item.generics),
            of_trait: true,
            is_device: is_device(&item.attrs),
            owner: Some(item.ident.to_string()),
        };
        self.within(outer, |seen| visit::visit_item_trait(seen, item));
    }

    fn visit_item_fn(&mut self, item: &'a ItemFn) {
        let is_public = matches!(item.vis, Visibility::Public(_));
        self.see(&Found {
            signature: &item.sig,
            attributes: &item.attrs,
            body: Some(&item.block),
            is_public,
        });
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a ImplItemFn) {
        let is_public = !self.outer.of_trait && matches!(item.vis, Visibility::Public(_));
        self.see(&Found {
            signature: &item.sig,
            attributes: &item.attrs,
            body: Some(&item.block),
            is_public,
        });
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'a TraitItemFn) {
        let body = item.default.as_ref();
        self.see(&Found { signature: &item.sig, attributes: &item.attrs, body, is_public: true });
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
        let ([functions, share, silent], _) = count("x/src/", &[&file]).unwrap();
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
        let ([_, _, silent], _) = count("x/src/", &files.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(silent.value, 3.0);
    }
}
