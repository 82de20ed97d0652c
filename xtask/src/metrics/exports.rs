//! The names that a crate exports.
use super::imports::{absolute, flatten, module_of, path_of};
use std::collections::HashMap;
use syn::{Item, ItemMod, Visibility};

/// The public modules of a crate, and the names that it re-exports.
pub struct Exports {
    /// Paths, without extension, of private modules.
    private: Vec<String>,
    /// Paths, without extension, of re-exported modules, and of those of which all names are re-exported.
    modules: Vec<String>,
    /// Names that are re-exported, each with the path of a module that it lies in.
    names: Vec<(String, String)>,
}

impl Exports {
    /// Reads the exports of the files of a crate, which lie in `folder`. A crate without `lib.rs` exports
    /// nothing.
    pub fn new<'a>(folder: &str, files: impl Iterator<Item = (&'a str, &'a syn::File)> + Clone) -> Self {
        let mut exports = Self { private: Vec::new(), modules: Vec::new(), names: Vec::new() };
        let library = format!("{folder}lib.rs");
        if !files.clone().any(|(path, _)| path == library) {
            exports.private.push(folder.trim_end_matches('/').to_owned());
        }
        for (path, file) in files.clone() {
            let private = modules(file).filter(|module| !is_public(&module.vis));
            exports.private.extend(private.flat_map(|module| paths(path, module)));
        }
        // A module that is re-exported may re-export others.
        let mut read = Vec::new();
        while let Some((path, file)) =
            files.clone().find(|(path, _)| !read.contains(path) && exports.is_public(path))
        {
            read.push(path);
            exports.read(folder, path, file);
        }
        exports
    }

    /// Reads the re-exports of a public module.
    fn read(&mut self, folder: &str, path: &str, file: &syn::File) {
        let declared: HashMap<String, Vec<String>> =
            modules(file).map(|module| (module.ident.to_string(), paths(path, module))).collect();
        let own = module_of(&path[folder.len()..]);
        let mut uses = Vec::new();
        for item in &file.items {
            if let Item::Use(item) = item
                && is_public(&item.vis)
            {
                flatten(&item.tree, &mut Vec::new(), &mut uses);
            }
        }
        for used in &uses {
            let Some((name, module)) = used.split_last() else { continue };
            for module in locate(folder, &own, module, &declared) {
                self.modules.push(if name == "*" { module.clone() } else { format!("{module}/{name}") });
                self.names.push((module, name.clone()));
            }
        }
    }

    /// Returns whether a file's module can be reached from outside, or all its names can.
    pub fn is_public(&self, path: &str) -> bool {
        self.modules.iter().any(|module| module == without_extension(path))
            || !self.private.iter().any(|module| is_inside(path, module))
    }

    /// Returns whether an item of this name, in this file, is re-exported.
    pub fn has(&self, path: &str, name: &str) -> bool {
        self.names.iter().any(|(module, exported)| exported == name && is_inside(path, module))
    }
}

/// Returns the paths that a used module may have, seen from the module `own`, which declares some.
fn locate(
    folder: &str,
    own: &[String],
    used: &[String],
    declared: &HashMap<String, Vec<String>>,
) -> Vec<String> {
    if let Some((bases, rest)) =
        used.split_first().and_then(|(first, rest)| Some((declared.get(first)?, rest)))
    {
        return bases.iter().map(|base| [std::slice::from_ref(base), rest].concat().join("/")).collect();
    }
    absolute(own, used).map(|path| format!("{folder}{}", path.join("/"))).into_iter().collect()
}

/// Returns whether a file is a module's, or one inside of it.
fn is_inside(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '/']))
}

/// Returns the path of the module that a file is.
fn without_extension(path: &str) -> &str {
    let module = path.trim_end_matches(".rs");
    module.strip_suffix("/mod").or(module.strip_suffix("/lib")).unwrap_or(module)
}

/// Returns the modules that a file declares.
fn modules(file: &syn::File) -> impl Iterator<Item = &ItemMod> {
    file.items.iter().filter_map(|item| match item {
        Item::Mod(module) => Some(module),
        _ => None,
    })
}

/// Returns the paths that a declared module may have: those of its `path` attributes, if it has some.
fn paths(path: &str, module: &ItemMod) -> Vec<String> {
    let inside = without_extension(path);
    let named = module.attrs.iter().filter_map(path_of).collect::<Vec<_>>();
    let join = |file: &String| without_extension(&format!("{inside}/{file}")).to_owned();
    if named.is_empty() { vec![join(&module.ident.to_string())] } else { named.iter().map(join).collect() }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_that_are_reexported_are_public() {
        let files = [
            (
                "x/src/lib.rs",
                "#[cfg_attr(gpu, path = \"back/mod.rs\")] mod end; pub use end::open as shown;\n\
                 mod all; pub use all::*;",
            ),
            ("x/src/all.rs", ""),
            ("x/src/back/mod.rs", "mod deep; pub mod open;"),
            ("x/src/back/open.rs", "pub use super::deep::Deep;"),
            ("x/src/back/deep.rs", ""),
        ];
        let parsed = files.map(|(path, text)| (path, syn::parse_file(text).unwrap()));
        let exports = Exports::new("x/src/", parsed.iter().map(|(path, file)| (*path, file)));
        assert_eq!(files.map(|(path, _)| exports.is_public(path)), [true, true, false, true, false]);
        let has = |path: &str| exports.has(path, "Deep");
        assert_eq!((has("x/src/back/deep.rs"), has("x/src/back/other.rs")), (true, false));
    }
}
