//! The names that a crate exports.
use std::collections::HashSet;
use syn::{Item, UseTree, Visibility};

/// The public modules of a crate, and the names that it re-exports.
pub struct Exports {
    /// Paths of the files whose modules are private, or inside of private ones.
    private: Vec<String>,
    names: HashSet<String>,
}

impl Exports {
    /// Reads the exports of the files of a crate, which lie in `folder`. A crate without `lib.rs` exports
    /// nothing.
    pub fn new<'a>(folder: &str, files: impl Iterator<Item = (&'a str, &'a syn::File)> + Clone) -> Self {
        let mut exports = Self { private: Vec::new(), names: HashSet::new() };
        let mut names = HashSet::new();
        let library = format!("{folder}lib.rs");
        if !files.clone().any(|(path, _)| path == library) {
            exports.private.push(folder.trim_end_matches('/').to_owned());
        }
        for (path, file) in files.clone() {
            exports.private.extend(private_modules(path, file));
        }
        for item in files.filter(|(path, _)| exports.is_public(path)).flat_map(|(_, file)| &file.items) {
            if let Item::Use(item) = item
                && is_public(&item.vis)
            {
                collect(&item.tree, &mut names);
            }
        }
        Self { names, ..exports }
    }

    /// Returns whether a file's module can be reached from outside.
    pub fn is_public(&self, path: &str) -> bool {
        let is_inside =
            |module: &String| path.strip_prefix(&**module).is_some_and(|rest| rest.starts_with(['.', '/']));
        !self.private.iter().any(is_inside)
    }

    /// Returns whether an item of this name is re-exported.
    pub fn has(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// Returns the paths, without extension, of a file's private modules.
fn private_modules(path: &str, file: &syn::File) -> Vec<String> {
    let module = path.trim_end_matches(".rs");
    let inside = module.strip_suffix("/mod").or(module.strip_suffix("/lib")).unwrap_or(module);
    let private = |item: &Item| match item {
        Item::Mod(module) if !is_public(&module.vis) => Some(format!("{inside}/{}", module.ident)),
        _ => None,
    };
    file.items.iter().filter_map(private).collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Collects the names that a `use` item takes from elsewhere.
fn collect(tree: &UseTree, names: &mut HashSet<String>) {
    match tree {
        UseTree::Path(path) => collect(&path.tree, names),
        UseTree::Name(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Rename(name) => drop(names.insert(name.ident.to_string())),
        UseTree::Group(group) => group.items.iter().for_each(|tree| collect(tree, names)),
        UseTree::Glob(_) => {}
    }
}
