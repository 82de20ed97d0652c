//! Call paths from a public function down to the hardware: `xtask/walks.toml` lists their hops, and this
//! checks that each of them exists and calls the next.
use super::Metric;
use crate::files::{File, find};
use crate::tidy::name_of;
use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use serde::Deserialize;
use std::collections::BTreeSet;
use std::process::Command;
use syn::visit::{self, Visit};
use syn::{Block, ImplItemFn, ItemFn, ItemImpl, ItemTrait, TraitItemFn};

/// The list of walks.
const LIST: &str = "xtask/walks.toml";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Walks {
    walk: Vec<Walk>,
}

/// A path of calls.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Walk {
    name: String,
    /// Commit whose files the walk describes. Default: the working tree.
    commit: Option<String>,
    hops: Vec<Hop>,
}

impl Walk {
    /// Returns the files on the path, or `None` if the repository does not have the commit.
    fn files(&self, current: &[File]) -> Option<Vec<File>> {
        let paths: BTreeSet<&str> = self.hops.iter().map(|hop| hop.file.as_str()).collect();
        let Some(commit) = &self.commit else {
            let is_here = |file: &&File| paths.contains(&*file.path);
            return Some(current.iter().filter(is_here).cloned().collect());
        };
        let show = |path: &&str| {
            let output = Command::new("git").arg("show").arg(format!("{commit}:{path}")).output().ok()?;
            let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
            Some(File::new(path, text))
        };
        paths.iter().map(show).collect()
    }
}

/// A function on the path: `name`, or `Type::name`, where `Type` is the type or trait that defines it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Hop {
    file: String,
    function: String,
}

impl Hop {
    fn name(&self) -> &str {
        self.function.rsplit("::").next().unwrap_or(&self.function)
    }
}

/// Returns for each walk how many hops it has, through how many files and types.
///
/// # Errors
/// [`anyhow::Error`] if a function is not in its file, or does not call the next.
pub fn count(files: &[File]) -> Result<Vec<Metric>> {
    let Walks { walk: walks } = toml::from_str(&find(files, LIST)?.text).context(LIST)?;
    let mut metrics = Vec::new();
    for walk in &walks {
        // An archive or a shallow clone does not have the earlier commits.
        if let Some(files) = walk.files(files) {
            check(walk, &files).with_context(|| format!("the walk of {}", walk.name))?;
        }
        let paths: BTreeSet<&str> = walk.hops.iter().map(|hop| hop.file.as_str()).collect();
        let types: BTreeSet<&str> =
            walk.hops.iter().filter_map(|hop| Some(hop.function.split_once("::")?.0)).collect();
        metrics.push(Metric::new(&walk.name, "hops", walk.hops.len()));
        metrics.push(Metric::new(&walk.name, "files on the way", paths.len()));
        metrics.push(Metric::new(&walk.name, "types on the way", types.len()));
        let same = walk.hops.windows(2).filter(|pair| pair[0].name() == pair[1].name()).count();
        metrics.push(Metric::new(&walk.name, "neighbors of one name", same));
    }
    Ok(metrics)
}

fn check(walk: &Walk, files: &[File]) -> Result<()> {
    for (place, hop) in walk.hops.iter().enumerate() {
        let file = find(files, &hop.file)?;
        let parsed = syn::parse_file(&file.text).with_context(|| hop.file.clone())?;
        let mut found = Found { sought: &hop.function, around: String::new(), bodies: Vec::new() };
        found.visit_file(&parsed);
        if found.bodies.is_empty() && !file.text.contains(&format!("fn {}", hop.name())) {
            bail!("{} has no function {}", hop.file, hop.function);
        }
        let Some(next) = walk.hops.get(place + 1) else { continue };
        // What macros define is looked for in the whole file.
        let bodies = if found.bodies.is_empty() { vec![parsed.to_token_stream()] } else { found.bodies };
        if !bodies.into_iter().any(|body| names(body, next.name())) {
            bail!("{} does not call {}", hop.function, next.function);
        }
    }
    Ok(())
}

/// Whether an identifier stands in the code.
fn names(code: TokenStream, name: &str) -> bool {
    code.into_iter().any(|token| match token {
        TokenTree::Group(group) => names(group.stream(), name),
        TokenTree::Ident(ident) => ident == name,
        _ => false,
    })
}

/// The bodies of the functions with a name.
struct Found<'a> {
    sought: &'a str,
    /// The type or trait around.
    around: String,
    bodies: Vec<TokenStream>,
}

impl Found<'_> {
    fn see(&mut self, name: &str, body: &Block) {
        let full = format!("{}::{name}", self.around);
        if self.sought == name || self.sought == full {
            self.bodies.push(body.to_token_stream());
        }
    }
}

impl<'ast> Visit<'ast> for Found<'_> {
    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        let before = std::mem::replace(&mut self.around, name_of(&item.self_ty));
        visit::visit_item_impl(self, item);
        self.around = before;
    }

    fn visit_item_trait(&mut self, item: &'ast ItemTrait) {
        let before = std::mem::replace(&mut self.around, item.ident.to_string());
        visit::visit_item_trait(self, item);
        self.around = before;
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.see(&item.sig.ident.to_string(), &item.block);
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast ImplItemFn) {
        self.see(&item.sig.ident.to_string(), &item.block);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &'ast TraitItemFn) {
        if let Some(body) = &item.default {
            self.see(&item.sig.ident.to_string(), body);
        }
        visit::visit_trait_item_fn(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(hops: &[(&str, &str)]) -> Result<Vec<Metric>> {
        let hop = |(file, function)| format!("{{ file = \"{file}\", function = \"{function}\" }},\n");
        let hops: String = hops.iter().copied().map(hop).collect();
        count(&[
            File::new(LIST, format!("[[walk]]\nname = \"get\"\nhops = [\n{hops}]\n")),
            File::new("a.rs", "impl Map { fn get(&self) { run(1) } }"),
            File::new("b.rs", "fn run(n: u32) { launch(n) }"),
        ])
    }

    #[test]
    fn each_hop_calls_the_next() {
        let metrics = walked(&[("a.rs", "Map::get"), ("b.rs", "run")]).unwrap();
        assert_eq!(metrics.iter().map(|metric| metric.value).collect::<Vec<_>>(), [2.0, 2.0, 1.0, 0.0]);
        let error = walked(&[("b.rs", "run"), ("a.rs", "Map::get")]).unwrap_err();
        assert_eq!(format!("{error:#}"), "the walk of get: run does not call Map::get");
        assert!(walked(&[("a.rs", "Map::put")]).is_err());
    }
}
