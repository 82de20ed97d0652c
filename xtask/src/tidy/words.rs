//! Names and phrases to be removed: `xtask/words.toml` lists the number of remaining occurrences, which may
//! only fall.
use crate::files::{File, Violation, find};
use anyhow::Context;
use proc_macro2::{TokenStream, TokenTree};
use serde::Deserialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Path of the lists.
pub const LIST: &str = "xtask/words.toml";

/// Files that may contain the listed words.
const EXCEPT: [&str; 2] = ["xtask/src/tidy/", LIST];

/// Beginnings of doc comments without a subject.
const BEGINNINGS: [&str; 6] = ["Who ", "Whom ", "What ", "Whether who ", "Of ", "By "];

/// Number of occurrences of each word.
type Counts = BTreeMap<String, usize>;

/// Lists of words, from the file or counted.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    /// Identifiers in Rust code; `fn name` is the definition of a function.
    names: Counts,
    /// Phrases in comments and Markdown, in lower case.
    phrases: Counts,
    /// Counts of habits: see [`habits`].
    habits: Counts,
}

/// Reports words that occur more often than the list states, and entries of the list that are too high.
pub fn check(files: &[File]) -> Vec<Violation> {
    let Ok(list) = find(files, LIST) else { return Vec::new() };
    let listed: Words = match toml::from_str(&list.text) {
        Ok(listed) => listed,
        Err(error) => return vec![violation(error.to_string())],
    };
    let found = count(files, &listed);
    let lists =
        [(&listed.names, &found.names), (&listed.phrases, &found.phrases), (&listed.habits, &found.habits)];
    let differing = lists.into_iter().flat_map(|(listed, found)| {
        listed.iter().filter_map(|(word, &most)| differs(word, found[word], most))
    });
    differing.collect()
}

/// Returns how many of the listed names and phrases stand in the files.
pub fn left(files: &[File]) -> anyhow::Result<usize> {
    let found = count(files, &toml::from_str(&find(files, LIST)?.text).context(LIST)?);
    Ok(found.names.values().chain(found.phrases.values()).sum())
}

fn violation(reason: String) -> Violation {
    Violation::new(LIST, 0, reason)
}

fn differs(word: &str, found: usize, most: usize) -> Option<Violation> {
    let remedy = match found.cmp(&most) {
        Ordering::Greater => format!(", and {most} were left: use the standard term"),
        Ordering::Less => format!(": lower the count from {most}"),
        Ordering::Equal => return None,
    };
    Some(violation(format!("`{word}` stands {found} times{remedy}")))
}

/// Counts the words of the list.
fn count(files: &[File], listed: &Words) -> Words {
    let zero = |counts: &Counts| counts.keys().map(|word| (word.clone(), 0)).collect();
    let mut found =
        Words { names: zero(&listed.names), phrases: zero(&listed.phrases), habits: zero(&listed.habits) };
    for file in files.iter().filter(|file| !EXCEPT.iter().any(|path| file.path.starts_with(path))) {
        let is_rust = file.path.ends_with(".rs");
        if is_rust && let Ok(tokens) = file.text.parse::<TokenStream>() {
            names(tokens, &mut found.names);
        }
        if is_rust || file.path.ends_with(".md") {
            let prose = prose(file).to_lowercase();
            for (phrase, count) in &mut found.phrases {
                *count += occurrences(&prose, phrase);
            }
        }
        if is_rust {
            for (habit, count) in habits(&file.text) {
                *found.habits.entry(habit.to_owned()).or_default() += count;
            }
        }
    }
    found
}

/// Counts identifiers and function definitions, in code and in macro invocations.
fn names(tokens: TokenStream, counts: &mut Counts) {
    let mut after_fn = false;
    for token in tokens {
        match token {
            TokenTree::Group(group) => names(group.stream(), counts),
            TokenTree::Ident(ident) => {
                let name = ident.to_string();
                if after_fn && let Some(count) = counts.get_mut(&format!("fn {name}")) {
                    *count += 1;
                }
                after_fn = name == "fn";
                if let Some(count) = counts.get_mut(&name) {
                    *count += 1;
                }
                continue;
            }
            _ => {}
        }
        after_fn = false;
    }
}

/// Returns the comments of Rust code, or the whole of a Markdown file, with single spaces between words.
fn prose(file: &File) -> String {
    let is_rust = file.path.ends_with(".rs");
    let comment = |line: &'_ str| -> Option<String> {
        let line = line.trim();
        let text = if is_rust { line.strip_prefix("//")? } else { line };
        Some(text.trim_start_matches(['/', '!']).split_whitespace().collect::<Vec<_>>().join(" "))
    };
    file.text.lines().filter_map(comment).collect::<Vec<_>>().join(" ")
}

/// Returns the number of occurrences of a phrase as whole words.
fn occurrences(text: &str, phrase: &str) -> usize {
    let is_edge = |letter: Option<char>| !letter.is_some_and(char::is_alphanumeric);
    let is_whole = |start: usize| {
        is_edge(text[..start].chars().next_back()) && is_edge(text[start + phrase.len()..].chars().next())
    };
    text.match_indices(phrase).filter(|&(start, _)| is_whole(start)).count()
}

/// Counts habits of documentation: doc comments that begin with one of [`BEGINNINGS`], and `# Errors`
/// sections that name no variant.
fn habits(text: &str) -> [(&'static str, usize); 2] {
    let (mut no_subject, mut no_variant, mut before) = (0, 0, "");
    let mut section: Option<bool> = None;
    for line in text.lines() {
        let doc = line.trim().strip_prefix("///").map(str::trim);
        let begins = doc.is_some() && !before.starts_with("///");
        let has_no_subject = |doc: &str| BEGINNINGS.iter().any(|beginning| doc.starts_with(beginning));
        no_subject += usize::from(begins && doc.is_some_and(has_no_subject));
        let goes_on = doc.is_some_and(|doc| !doc.starts_with('#'));
        section = match section {
            Some(names) if goes_on => {
                Some(names || doc.is_some_and(|doc| doc.contains("[`") || doc.starts_with("As ")))
            }
            Some(names) => {
                no_variant += usize::from(!names);
                None
            }
            None => None,
        };
        section = if doc == Some("# Errors") { Some(false) } else { section };
        before = line.trim();
    }
    [("doc_without_subject", no_subject), ("errors_without_variant", no_variant)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reasons(list: &str, path: &str, text: &str) -> Vec<String> {
        let found = check(&[File::new(LIST, list), File::new(path, text)]);
        found.into_iter().map(|violation| violation.reason).collect()
    }

    const LISTED: &str = "[names]\nSpot = 1\n\"fn list\" = 0\n\
        [phrases]\n\"gives whether\" = 0\n\
        [habits]\ndoc_without_subject = 0\nerrors_without_variant = 0\n";

    #[test]
    fn counts_of_names_only_fall() {
        let path = "crates/gpu/src/lib.rs";
        assert_eq!(reasons(LISTED, path, "struct Spot; // Spot, Spotted"), [""; 0]);
        assert_eq!(
            reasons(LISTED, path, "struct Spotted;"),
            ["`Spot` stands 0 times: lower the count from 1"]
        );
        let more = "macro_rules! two { () => { Spot(Spot) } } fn list() { list(\"Spot\") }";
        let (spot, list) = (
            "`Spot` stands 2 times, and 1 were left: use the standard term",
            "`fn list` stands 1 times, and 0 were left: use the standard term",
        );
        assert_eq!(reasons(LISTED, path, more), [spot, list]);
    }

    #[test]
    fn phrases_are_looked_for_in_prose() {
        let said = "`gives whether` stands 1 times, and 0 were left: use the standard term";
        for (path, text) in
            [("docs/a.md", "It Gives\nwhether it is"), ("a.rs", "Spot\n/// Gives whether\n//")]
        {
            assert!(reasons(LISTED, path, text).contains(&said.to_owned()), "{path}");
        }
        let code = "struct Spot; const TEXT: &str = \"gives whether\"; // forgives whether";
        assert_eq!(reasons(LISTED, "a.rs", code), [""; 0]);
    }

    #[test]
    fn habits_of_documentation_are_counted() {
        let habits = |text: &str| habits(text).map(|(_, count)| count);
        assert_eq!(habits("/// What is there.\nfn a() {}\n/// Returns it.\n/// What is not."), [1, 0]);
        let errors = "/// Returns it.\n///\n/// # Errors\n/// ";
        assert_eq!(habits(&format!("{errors}The device's.\nfn a() {{}}")), [0, 1]);
        assert_eq!(habits(&format!("{errors}[`Error::Lost`] when it is.\nfn a() {{}}")), [0, 0]);
        assert_eq!(habits(&format!("{errors}As [`a`].\n/// # Panics\nfn a() {{}}")), [0, 0]);
    }
}
