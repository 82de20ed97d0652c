//! Rule for safe device functions: the list states, for each function that takes an index or a handle, what
//! it does with one that is out of range.
use crate::files::{File, Violation, find};
use std::collections::{BTreeMap, BTreeSet};
use syn::{Attribute, FnArg, ImplItem, Item, Pat, Safety, Signature, TraitItem, Type, Visibility};

/// Path of the list: a table for each file, with a line for each function.
pub const LIST: &str = "kernels-gpu/bounds.toml";

/// Prefixes of paths whose public functions are device functions, and of exceptions.
const DEVICE: [&str; 2] = ["kernels-gpu/src/", "crates/simt/src/"];
const BACK_ENDS: [&str; 2] = ["crates/simt/src/emulator/", "crates/simt/src/nvptx/"];

/// Names of parameters that may address memory out of bounds.
const NAMES: &[&str] = &[
    "bucket", "child", "copy", "digit", "element", "first", "handle", "index", "item", "j", "lane", "level",
    "link", "number", "offset", "owner", "place", "position", "rank", "segment", "slot", "tile", "thread",
    "unit", "vector", "word",
];

/// Prefixes of lines in the list: what the function does with an index or handle that is out of range.
const WAYS: [&str; 5] = ["traps", "refuses", "wraps", "computes", "internal"];

/// Path and name of a function, as `Type::name`.
type Place = (String, String);

/// Reports functions that are missing in the list, listed functions that do not exist, and lines without a
/// valid prefix.
pub fn check(files: &[File]) -> Vec<Violation> {
    let Ok(list) = find(files, LIST) else { return Vec::new() };
    let listed = match listed(&list.text) {
        Ok(listed) => listed,
        Err(error) => return vec![Violation::new(LIST, 0, error.to_string())],
    };
    let found: BTreeSet<Place> =
        files.iter().filter(|file| is_device(&file.path)).flat_map(functions).collect();
    let missing = found.iter().filter(|place| !listed.contains_key(*place)).map(|(path, name)| {
        let reason = "takes an index or a handle and is safe";
        Violation::new(path, 0, format!("`{name}` {reason}: {LIST} says how it is checked"))
    });
    let gone = listed
        .keys()
        .filter(|place| !found.contains(*place))
        .map(|(path, name)| format!("{path} has no safe public function `{name}` with an index or a handle"));
    let unclear = listed.iter().filter(|(_, way)| !WAYS.iter().any(|known| way.starts_with(known)));
    let unclear =
        unclear.map(|((_, name), way)| format!("`{name}` = \"{way}\": a line begins with one of {WAYS:?}"));
    missing.chain(gone.chain(unclear).map(|reason| Violation::new(LIST, 0, reason))).collect()
}

fn is_device(path: &str) -> bool {
    let begins = |beginning: &&str| path.starts_with(beginning);
    path.ends_with(".rs")
        && DEVICE.iter().any(&begins)
        && !BACK_ENDS.iter().any(begins)
        && !path.ends_with("/tests.rs")
}

/// Parses the list.
fn listed(text: &str) -> Result<BTreeMap<Place, String>, toml::de::Error> {
    let tables: BTreeMap<String, BTreeMap<String, String>> = toml::from_str(text)?;
    let lines = tables
        .into_iter()
        .flat_map(|(path, lines)| lines.into_iter().map(move |(name, way)| ((path.clone(), name), way)));
    Ok(lines.collect())
}

/// Returns the safe public functions of a file that take an index or a handle. Files that do not parse are
/// left to the compiler.
fn functions(file: &File) -> Vec<Place> {
    let Ok(parsed) = syn::parse_file(&file.text) else { return Vec::new() };
    let mut names = Vec::new();
    collect(&parsed.items, &mut names);
    names.into_iter().map(|name| (file.path.clone(), name)).collect()
}

fn collect(items: &[Item], names: &mut Vec<String>) {
    for item in items {
        match item {
            Item::Fn(function) if is_public(&function.vis) && is_meant(&function.sig) => {
                names.push(function.sig.ident.to_string());
            }
            Item::Impl(block) if block.trait_.is_none() => {
                let of = name_of(&block.self_ty);
                names.extend(block.items.iter().filter_map(method).map(|method| format!("{of}::{method}")));
            }
            Item::Trait(of) if is_public(&of.vis) => {
                names
                    .extend(of.items.iter().filter_map(required).map(|name| format!("{}::{name}", of.ident)));
            }
            Item::Mod(module) if !is_test(&module.attrs) => {
                collect(module.content.as_ref().map_or(&[], |(_, items)| items), names);
            }
            _ => {}
        }
    }
}

fn method(item: &ImplItem) -> Option<String> {
    let ImplItem::Fn(method) = item else { return None };
    (is_public(&method.vis) && is_meant(&method.sig)).then(|| method.sig.ident.to_string())
}

fn required(item: &TraitItem) -> Option<String> {
    let TraitItem::Fn(function) = item else { return None };
    is_meant(&function.sig).then(|| function.sig.ident.to_string())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_cfg_test = |attribute: &Attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
    };
    attributes.iter().any(is_cfg_test)
}

/// Returns whether a function is safe and takes an index or a handle.
fn is_meant(signature: &Signature) -> bool {
    !matches!(signature.safety, Safety::Unsafe(_)) && signature.inputs.iter().any(is_index)
}

/// Returns whether an argument is an integer with one of the [`NAMES`], or a handle.
fn is_index(argument: &FnArg) -> bool {
    let FnArg::Typed(argument) = argument else { return false };
    let of = name_of(&argument.ty);
    let is_name = |name: &str| NAMES.contains(&name.trim_start_matches('_'));
    let is_named = |pattern: &Pat| matches!(pattern, Pat::Ident(name) if is_name(&name.ident.to_string()));
    of == "Handle" || (["u32", "u64", "usize"].contains(&of.as_str()) && is_named(&argument.pat))
}

/// Returns the last segment of a type's path, or that of the inner type of an `Option`.
pub fn name_of(of: &Type) -> String {
    let Type::Path(path) = of else { return String::new() };
    let Some(last) = path.path.segments.last() else { return String::new() };
    match &last.arguments {
        syn::PathArguments::AngleBracketed(inner) if last.ident == "Option" => match inner.args.first() {
            Some(syn::GenericArgument::Type(inner)) => name_of(inner),
            _ => String::new(),
        },
        _ => last.ident.to_string(),
    }
}
