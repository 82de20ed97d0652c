//! Cycles of imports: files that need each other.
use super::Metric;
use crate::files::File;
use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use quote::ToTokens;
use std::collections::HashMap;
use syn::{Attribute, Item, UseTree};

/// Returns the number of files that lie on cycles of `use` edges, and the size of the largest strongly
/// connected component. An edge leads to the file that defines a module's name, through the files that only
/// re-export it.
pub fn count(folder: &str, files: &[&File]) -> [Metric; 2] {
    let parsed: Vec<Source> = files.iter().map(|file| Source::new(folder, file)).collect();
    let modules = modules(&parsed);
    let uses: Vec<Vec<Vec<String>>> = parsed.iter().map(Source::uses).collect();
    let mut graph = DiGraphMap::<usize, ()>::new();
    for (from, paths) in uses.iter().enumerate() {
        for path in paths {
            if let Some(to) = defined_in(path, &modules, &uses, 8).filter(|to| *to != from) {
                graph.add_edge(from, to, ());
            }
        }
    }
    let cycles: Vec<Vec<usize>> = tarjan_scc(&graph).into_iter().filter(|cycle| cycle.len() > 1).collect();
    let largest = cycles.iter().map(Vec::len).max().unwrap_or(0);
    let on_cycles = cycles.concat().into_iter().map(|file| files[file].path.clone()).collect();
    [
        Metric::of_items(folder, "files on cycles of imports", on_cycles),
        Metric::new(folder, "files on the largest cycle of imports", largest),
    ]
}

/// Returns the module that a file is, from its path below the crate's root.
pub fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs");
    let parts = path.split('/').filter(|part| !matches!(*part, "mod" | "lib" | "main"));
    parts.map(str::to_owned).collect()
}

/// A file with its module and items.
struct Source {
    module: Vec<String>,
    items: Vec<Item>,
}

impl Source {
    fn new(folder: &str, file: &File) -> Self {
        let items = syn::parse_file(&file.text).map_or(Vec::new(), |parsed| parsed.items);
        Self { module: module_of(&file.path[folder.len()..]), items }
    }

    /// Returns the paths that the file's items use, from the crate's root: those of this crate.
    fn uses(&self) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        for item in &self.items {
            if let Item::Use(item) = item {
                flatten(&item.tree, &mut Vec::new(), &mut paths);
            }
        }
        paths.into_iter().filter_map(|path| absolute(&self.module, &path)).collect()
    }

    /// Returns the modules that the file declares with a path of their own, and the modules that the paths
    /// name. (Only the root of a crate does so here.) Of several paths the last counts, the host's.
    fn redirected(&self) -> Vec<(Vec<String>, Vec<String>)> {
        let modules = self.items.iter().filter_map(|item| match item {
            Item::Mod(item) => Some((&item.ident, item.attrs.iter().filter_map(path_of).next_back()?)),
            _ => None,
        });
        modules
            .map(|(name, path)| ([&self.module[..], &[name.to_string()]].concat(), module_of(&path)))
            .collect()
    }
}

/// Returns the file that an attribute names: `#[path = ".."]`, also inside of `cfg_attr`.
pub fn path_of(attribute: &Attribute) -> Option<String> {
    let text = attribute.meta.to_token_stream().to_string();
    Some(text.split_once("path = \"")?.1.split('"').next()?.to_owned())
}

/// Returns the number of the file of each module.
fn modules(files: &[Source]) -> HashMap<Vec<String>, usize> {
    let mut modules: HashMap<_, _> =
        files.iter().enumerate().map(|(number, file)| (file.module.clone(), number)).collect();
    for (name, target) in files.iter().flat_map(Source::redirected) {
        let inside = files.iter().enumerate().filter(|(_, file)| file.module.starts_with(&target));
        modules.extend(inside.map(|(number, file)| ([&name, &file.module[target.len()..]].concat(), number)));
    }
    modules
}

/// Appends the paths of a `use` item, below a prefix. A glob ends in `*`.
pub fn flatten(tree: &UseTree, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, paths);
            prefix.pop();
        }
        UseTree::Name(name) => paths.push(prefix.iter().cloned().chain([name.ident.to_string()]).collect()),
        UseTree::Rename(name) => paths.push(prefix.iter().cloned().chain([name.ident.to_string()]).collect()),
        UseTree::Glob(_) => paths.push(prefix.iter().cloned().chain(["*".to_owned()]).collect()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, prefix, paths)),
    }
}

/// Returns a path from the crate's root that the module `own` uses, or that of another crate below `own`.
pub fn absolute(own: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    match first.as_str() {
        "crate" => Some(rest.to_vec()),
        "self" => Some([own, rest].concat()),
        "super" => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let base = own.len().checked_sub(ups)?;
            Some([&own[..base], &path[ups..]].concat())
        }
        // A module of the file's own, or another crate.
        _ => Some([own, path].concat()),
    }
}

/// Returns the file that defines what a path names: the longest module on the path, or where that re-exports
/// the name, the file that it takes it from.
fn defined_in(
    path: &[String],
    modules: &HashMap<Vec<String>, usize>,
    uses: &[Vec<Vec<String>>],
    depth: usize,
) -> Option<usize> {
    let (length, file) =
        (0..=path.len()).rev().find_map(|length| Some((length, *modules.get(&path[..length])?)))?;
    let Some(name) = path.get(length).filter(|_| depth > 0) else { return Some(file) };
    let is_same =
        |used: &&Vec<String>| used.last() == Some(name) && used.len() > length && used.as_slice() != path;
    let further = uses[file].iter().find(is_same).and_then(|used| defined_in(used, modules, uses, depth - 1));
    Some(further.unwrap_or(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_import_each_other_are_a_cycle() {
        let files = [
            ("x/src/lib.rs", "mod a; mod b;"),
            ("x/src/a/mod.rs", "mod one; pub use one::One;"),
            ("x/src/a/one.rs", "use crate::b::Two;"),
            ("x/src/b.rs", "use super::a::One; use std::fmt;"),
            ("x/src/c.rs", "use crate::b::Two;"),
        ]
        .map(|(path, text)| File::new(path, text));
        let files: Vec<&File> = files.iter().collect();
        let [on_cycles, largest] = count("x/src/", &files);
        assert_eq!((on_cycles.value, largest.value), (2.0, 2.0));
    }

    #[test]
    fn modules_with_a_path_are_the_files_there() {
        let files = [
            (
                "x/src/lib.rs",
                "#[cfg_attr(a, path = \"b/mod.rs\")]\nmod end;\npub mod front;\npub use front::Front;",
            ),
            ("x/src/b/mod.rs", "mod inside; pub use inside::Inside;"),
            ("x/src/b/inside.rs", "use crate::Front;"),
            ("x/src/front.rs", "use crate::end::Inside;"),
        ]
        .map(|(path, text)| File::new(path, text));
        let [on_cycles, largest] = count("x/src/", &files.iter().collect::<Vec<_>>());
        assert_eq!((on_cycles.value, largest.value), (2.0, 2.0), "inside and front");
    }
}
