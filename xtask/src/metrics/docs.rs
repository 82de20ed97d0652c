//! Rules for the documentation of exported functions: each states its cost and has an example.
//!
//! A *statement of cost* is a text that names a unit: a prefix in [`UNITS`] begins one of its words, or it
//! has an `O(n)`. A function is covered by one of these:
//! - a paragraph of its own that begins with `Cost:` and states it, or links to a function of the same cost;
//! - a section `# Cost` of its type, its trait or a public module around it that names the function in
//!   backticks;
//! - any section `# Cost` of its type, its trait or the innermost public module around it, if it is device
//!   code (`#[device]`, `#[kernel]`) or a required method of a trait;
//! - any section `# Cost` of these or of a module further out, if it is an accessor, constructor or setter:
//!   it returns no `Result`, and its body has at most two statements.
//!
//! A function has an *example* if its own documentation has a code block that is run, or if one in the
//! documentation of its type, its trait or a public module around it contains its name. Entry points
//! (`#[kernel]`) need none: functions of the host launch them and have examples.
//!
//! Functions that only macros define are not counted.
use super::exports::Exports;
use super::imports::module_of;
use std::collections::HashMap;
use syn::{Attribute, Expr, Item, Lit};

/// Words by which a text states a cost begin with one of these, or are the `O` of `O(n)`.
const UNITS: [&str; 19] = [
    "access", "allocat", "atomic", "barrier", "byte", "collective", "copies", "copy", "fence", "instruction",
    "launch", "load", "lock", "read", "store", "synchroniz", "transaction", "wait", "write",
];

/// Documentation of an item, as Markdown.
#[derive(Default)]
pub struct Docs(String);

impl Docs {
    /// Returns the documentation among an item's attributes.
    pub fn new(attributes: &[Attribute]) -> Self {
        let lines: Vec<String> = attributes.iter().filter_map(line).collect();
        Self(lines.join("\n"))
    }

    /// Returns whether a line is the heading of a section.
    pub fn has_heading(&self, heading: &str) -> bool {
        self.0.lines().any(|line| line.trim() == heading)
    }

    /// Returns whether a paragraph states the cost.
    pub fn states_cost(&self) -> bool {
        let paragraphs = self.0.split("\n\n").map(str::trim);
        let states = |text: &str| names_unit(text) || text.contains("[`");
        paragraphs.filter_map(|text| text.strip_prefix("Cost:")).any(states)
    }

    /// Returns the section about costs, if it states any.
    pub fn costs(&self) -> Option<&str> {
        let (_, section) = self.0.split_once("# Cost\n")?;
        let section = section.split("\n# ").next()?;
        names_unit(section).then_some(section)
    }

    /// Returns the code blocks that are run.
    pub fn examples(&self) -> impl Iterator<Item = &str> {
        let blocks = self.0.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'));
        blocks.filter(|(kind, _)| matches!(kind.trim(), "" | "rust")).map(|(_, code)| code)
    }
}

/// Returns a line of documentation, without the space before its text.
fn line(attribute: &Attribute) -> Option<String> {
    let doc = attribute.meta.require_name_value().ok().filter(|doc| doc.path.is_ident("doc"))?;
    let Expr::Lit(text) = &doc.value else { return None };
    let Lit::Str(text) = &text.lit else { return None };
    Some(text.value().strip_prefix(' ').map_or_else(|| text.value(), str::to_owned))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

fn names_unit(text: &str) -> bool {
    words(text).any(|word| word == "O" || UNITS.iter().any(|unit| word.to_lowercase().starts_with(unit)))
}

/// A type or trait.
pub struct Definition {
    /// File that defines it.
    pub path: String,
    pub is_public: bool,
    docs: Docs,
}

/// Documentation of the types, traits and public modules of a crate.
pub struct Library {
    /// Definitions by name: modules may define types of the same name.
    types: HashMap<String, Vec<Definition>>,
    /// Documentation by path from the crate's root.
    modules: HashMap<Vec<String>, Docs>,
}

/// The documentation around a function.
pub struct Around<'a> {
    /// Documentation of the type or trait, and of the innermost public module.
    near: Vec<&'a Docs>,
    /// Documentation of the modules further out.
    far: Vec<&'a Docs>,
}

impl Library {
    /// Reads the documentation in the files of a crate, which lie in `folder`.
    pub fn new(folder: &str, exports: &Exports, files: &[(&str, &syn::File)]) -> Self {
        let mut types = HashMap::<String, Vec<_>>::new();
        for (path, file) in files {
            for (name, is_public, attributes) in file.items.iter().filter_map(type_of) {
                let docs = Docs::new(attributes);
                types.entry(name).or_default().push(Definition { path: (*path).to_owned(), is_public, docs });
            }
        }
        let public = files.iter().filter(|(path, _)| exports.is_public(path));
        let modules = public.map(|(path, file)| (module_of(&path[folder.len()..]), Docs::new(&file.attrs)));
        Self { types, modules: modules.collect() }
    }

    /// Returns the type or trait of a name that is defined nearest to a file.
    pub fn definition(&self, path: &str, name: &str) -> Option<&Definition> {
        let common = |other: &str| path.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        self.types.get(name)?.iter().max_by_key(|other| common(&other.path))
    }

    /// Returns the documentation around the functions of an owner in a file.
    pub fn around(&self, folder: &str, path: &str, owner: Option<&str>) -> Around<'_> {
        let definition = owner.and_then(|owner| self.definition(path, owner));
        let module = module_of(&definition.map_or(path, |owner| &owner.path)[folder.len()..]);
        let mut modules = (0..=module.len()).rev().filter_map(|length| self.modules.get(&module[..length]));
        let near = definition.map(|owner| &owner.docs).into_iter().chain(modules.next()).collect();
        Around { near, far: modules.collect() }
    }
}

/// Returns the name, visibility and attributes of a type or trait.
fn type_of(item: &Item) -> Option<(String, bool, &[Attribute])> {
    let (ident, visibility, attributes) = match item {
        Item::Struct(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Enum(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Union(item) => (&item.ident, &item.vis, &item.attrs),
        Item::Trait(item) => (&item.ident, &item.vis, &item.attrs),
        _ => return None,
    };
    Some((ident.to_string(), matches!(visibility, syn::Visibility::Public(_)), attributes))
}

/// An exported function and its documentation.
pub struct Function<'a> {
    pub name: &'a str,
    pub docs: Docs,
    pub around: Around<'a>,
    /// `true` if kernels call it, or it is a required method of a trait.
    pub is_device: bool,
    /// `true` for an accessor or a setter.
    pub is_simple: bool,
}

impl Function<'_> {
    /// Returns whether the cost is documented.
    pub fn has_cost(&self) -> bool {
        let covers = |section: &str, kind: bool| kind || self.is_simple || names(section, self.name);
        let near = || self.around.near.iter().filter_map(|docs| docs.costs());
        let mut far = self.around.far.iter().filter_map(|docs| docs.costs());
        self.docs.states_cost()
            || near().any(|section| covers(section, self.is_device))
            || far.any(|section| covers(section, false))
    }

    /// Returns whether an example shows the function.
    pub fn has_example(&self) -> bool {
        let mut around = self.around.near.iter().chain(&self.around.far).flat_map(|docs| docs.examples());
        self.docs.examples().next().is_some() || around.any(|code| words(code).any(|word| word == self.name))
    }
}

/// Returns whether a text has a function's name in backticks.
fn names(text: &str, name: &str) -> bool {
    text.split('`').skip(1).step_by(2).any(|code| words(code).any(|word| word == name))
}

#[cfg(test)]
mod tests {
    use super::super::functions::count;
    use crate::files::File;

    /// Returns the functions without a cost and those without an example.
    fn missing(library: &str, module: &str) -> [Vec<String>; 2] {
        let file = |path: &str, text: &str| File { path: path.into(), text: text.into() };
        let files = [file("x/src/lib.rs", library), file("x/src/m.rs", module)];
        let (_, [costs, examples]) = count("x/src/", &files.iter().collect::<Vec<_>>()).unwrap();
        [costs.items, examples.items].map(|items| {
            items.iter().map(|item| item.rsplit(':').next().unwrap_or(item).to_owned()).collect()
        })
    }

    const OPEN: &str = "pub mod m;";

    #[test]
    fn costs_name_a_unit() {
        let costs = "/// Cost: one launch.\npub fn a() -> Result<()> {}\n\
            /// Does.\n///\n/// Cost: two\n/// copies.\npub fn b() -> Result<()> {}\n\
            /// Cost: small.\npub fn c() -> Result<()> {}\n\
            /// Launches.\npub fn d() -> Result<()> {}";
        assert_eq!(missing(OPEN, costs)[0], ["c", "d"]);
    }

    #[test]
    fn costs_of_a_type_cover_those_it_names_and_simple_ones() {
        let module = "/// T.\n/// # Cost\n/// `a`: one launch.\n/// # Other\n/// `b`\npub struct T;\n\
            impl T { pub fn a() -> Result<()> {} pub fn b() -> Result<()> {} pub fn simple() -> u32 { 1 } \
            #[device] pub fn c() -> Result<()> {} }\n\
            pub struct U;\nimpl U { pub fn d() -> u32 {} #[device] pub fn e() -> Result<()> {} }";
        assert_eq!(missing(OPEN, module)[0], ["b", "d", "e"]);
        let library = format!("//! # Cost\n//! O(1), `b` too.\n{OPEN}");
        assert_eq!(missing(&library, module)[0], ["e"]);
    }

    #[test]
    fn examples_run_and_contain_the_name() {
        let module = "/// T.\n/// ```\n/// shown();\n/// ```\n/// `silent`\n\
            /// ```text\n/// silent();\n/// ```\npub struct T;\n\
            impl T { pub fn shown() {} pub fn silent() {}\n/// ```\n/// x();\n/// ```\npub fn own() {} }\n\
            #[kernel] pub fn entry() {} #[doc(hidden)] pub fn hidden() {}";
        assert_eq!(missing(OPEN, module)[1], ["silent"]);
        assert!(missing("mod m;", module)[1].is_empty());
    }
}
