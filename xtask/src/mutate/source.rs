//! The kernels' source: functions and texts of sites, and reasons why mutants may survive.
use super::mutants::{OPERATIONS, OPERATORS, ORDERS, Operation, Place, SIZES, Site};
use crate::files::{File, files};
use anyhow::{Context, Result, ensure};
use std::collections::HashMap;

/// Classes of reasons; `docs/notes/mutation.md` defines them.
pub const CLASSES: [&str; 4] = ["equivalent", "performance", "unmodelled", "unreached"];

/// Beginning of a comment with a reason.
const MARK: &str = "// mutation: ";

/// Reason why mutants of a site may survive: `// mutation: WORD.. CLASS, because TEXT`. The words are
/// operators, and kinds, orders and sizes of operations if it is not for all of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reason {
    words: Vec<String>,
    /// One of [`CLASSES`].
    pub class: &'static str,
    pub text: String,
}

impl Reason {
    /// Parses a comment without its mark.
    fn parse(comment: &str) -> Result<Self> {
        let (head, text) = comment.split_once(", because ").context("`, because ` is missing")?;
        let mut words: Vec<_> = head.split(' ').map(str::to_owned).collect();
        let named = words.pop().unwrap_or_default();
        let class = CLASSES.into_iter().find(|class| *class == named);
        let class = class.with_context(|| format!("`{named}` is not one of the classes {CLASSES:?}"))?;
        let lists = [&OPERATORS[..], &OPERATIONS, &ORDERS, &SIZES];
        let is_known = |word: &str| lists.iter().any(|list| list.contains(&word));
        let unknown = words.iter().find(|word| !is_known(word));
        ensure!(unknown.is_none(), "`{}` is no operator and no operation", unknown.map_or("", |word| word));
        ensure!(words.iter().any(|word| OPERATORS.contains(&&**word)), "no operator before `{class}`");
        Ok(Self { words, class, text: text.to_owned() })
    }

    /// Returns whether the reason is for an operator at an operation.
    pub fn excuses(&self, operator: &str, operation: &Operation) -> bool {
        let names = |word: &str| self.words.iter().any(|known| known == word);
        let means = |list: &[&str], word: &str| names(word) || !list.iter().any(|word| names(word));
        let Operation { kind, order, bytes, .. } = operation;
        names(operator) && means(&OPERATIONS, kind) && means(&ORDERS, order) && means(&SIZES, bytes)
    }
}

/// Texts of the kernels' files, by name.
#[derive(Default)]
pub struct Sources {
    files: HashMap<String, Vec<String>>,
}

impl Sources {
    /// Reads all files with sites.
    pub fn read() -> Result<Self> {
        let kernels = files()?.into_iter().filter(|file| has_kernels(&file.path));
        let lines = |file: &File| file.text.lines().map(str::to_owned).collect();
        Ok(Self { files: kernels.map(|file| (file.path.clone(), lines(&file))).collect() })
    }

    /// Returns the lines of a file up to a place's, which is the last.
    fn lines(&self, place: &Place) -> &[String] {
        let lines = self.files.get(&place.file).map_or(&[][..], Vec::as_slice);
        &lines[..place.line.min(lines.len())]
    }

    /// Returns the site at a place.
    pub fn site(&self, place: &Place) -> Site {
        let lines = self.lines(place);
        let text = lines.last().map_or("", |line| line.trim());
        let indent = lines.last().map_or(0, |line| indentation(line));
        let head = lines
            .iter()
            .rev()
            .find(|line| is_head(line) && (indentation(line) < indent || std::ptr::eq(line.trim(), text)));
        let function = head.and_then(|line| name_of(line)).unwrap_or_default();
        Site { place: place.clone(), function: function.to_owned(), text: text.to_owned() }
    }

    /// Returns the reasons in the comment directly above the statement of a place.
    ///
    /// # Errors
    /// As a reason has another format.
    pub fn reasons(&self, place: &Place) -> Result<Vec<Reason>> {
        let Some((_, above)) = self.lines(place).split_last() else { return Ok(Vec::new()) };
        let within = above.iter().rev().take_while(|line| continues(line)).count();
        let above = &above[..above.len() - within];
        let comment = above.iter().rev().take_while(|line| line.trim().starts_with("//")).count();
        let reasons = join(&above[above.len() - comment..]);
        let parsed = reasons.iter().map(|reason| Reason::parse(reason));
        parsed.collect::<Result<_>>().with_context(|| format!("the comment above {place}"))
    }
}

/// Returns whether mutants change operations at places of a file. Besides the kernels', this is the kernel of
/// explorers that calls them: functions that are `#[track_caller]` have no sites, but their callers have.
pub fn has_kernels(file: &str) -> bool {
    let is_device = file.starts_with("kernels-gpu/src/") && !file.ends_with("/tests.rs");
    is_device || file == "crates/testing/src/explore/script.rs"
}

/// Returns whether the statement of this line goes on in the next one.
fn continues(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && !line.starts_with("//") && !line.ends_with([';', '{', '}'])
}

/// Joins the lines of each reason. A reason ends before the next one.
fn join(comment: &[String]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for line in comment.iter().map(|line| line.trim()) {
        match (line.strip_prefix(MARK), reasons.last_mut()) {
            (Some(text), _) => reasons.push(text.to_owned()),
            (None, Some(reason)) => {
                reason.push(' ');
                reason.push_str(line.trim_start_matches('/').trim());
            }
            (None, None) => {}
        }
    }
    reasons
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns whether the line is the head of a function.
fn is_head(line: &str) -> bool {
    let line = line.trim_start();
    !line.starts_with("//") && (line.starts_with("fn ") || line.contains(" fn "))
}

fn name_of(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split(|next: char| !next.is_alphanumeric() && next != '_').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
impl A {
    pub fn first(self) -> u32 {
        // Plain comment.
        // mutation: relaxed block equivalent, because the next
        // access orders it.
        // mutation: skip update performance, because a retry follows
        let word = self
            .at(0)
            .load(order);
        word.store(1);
    }

    fn second() { fence(); }
}";

    fn sources() -> Sources {
        let lines = TEXT.lines().map(str::to_owned).collect();
        Sources { files: HashMap::from([("a.rs".to_owned(), lines)]) }
    }

    fn place(line: usize) -> Place {
        Place { file: "a.rs".to_owned(), line, column: 1 }
    }

    #[test]
    fn sites_have_functions_and_texts() {
        let sites = [9, 10, 13].map(|line| sources().site(&place(line)));
        let found = sites.each_ref().map(|site| (site.function.as_str(), site.text.as_str()));
        let expected =
            [("first", ".load(order);"), ("first", "word.store(1);"), ("second", "fn second() { fence(); }")];
        assert_eq!(found, expected);
    }

    #[test]
    fn reasons_stand_above_the_statement() {
        let found = sources().reasons(&place(9)).unwrap();
        let classes: Vec<_> = found.iter().map(|reason| (reason.words.join(" "), reason.class)).collect();
        let expected =
            [("relaxed block".to_owned(), "equivalent"), ("skip update".to_owned(), "performance")];
        assert_eq!(classes, expected);
        assert_eq!(found[0].text, "the next access orders it.");
        assert!(sources().reasons(&place(10)).unwrap().is_empty());
        let excuses = |reason: &Reason, operator, operation| {
            reason.excuses(operator, &Operation::of(&format!("{operation} Device 8")))
        };
        assert!(excuses(&found[0], "block", "store Weak") && !excuses(&found[0], "skip", "store Weak"));
        assert!(excuses(&found[1], "skip", "update Weak") && !excuses(&found[1], "skip", "store Weak"));
    }

    #[test]
    fn reasons_may_name_orders_and_sizes() {
        let reason = Reason::parse("block skip load Acquire 16 8 equivalent, because of order").unwrap();
        let excuses = |operation| reason.excuses("skip", &Operation::of(operation));
        assert!(excuses("load Acquire Device 16") && excuses("load Acquire Block 8"));
        for other in ["load Acquire Device 4", "load Relaxed Device 8", "update Acquire Device 8"] {
            assert!(!excuses(other), "{other}");
        }
    }

    #[test]
    fn reasons_of_another_format_are_refused() {
        assert!(Reason::parse("skip equivalent, because of order").is_ok());
        for wrong in [
            "skip equivalent",
            "equivalent, because it is",
            "skip fine, because it is",
            "skips equivalent, because it is",
            "update equivalent, because it is",
        ] {
            assert!(Reason::parse(wrong).is_err(), "{wrong}");
        }
    }
}
