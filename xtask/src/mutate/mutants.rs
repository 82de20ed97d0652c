//! The mutants of the sites that the tests execute.
use super::source::{Reason, Sources, has_kernels};
use anyhow::{Context, Result};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Place of a site: file, line and column.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    pub file: String,
    pub line: usize,
    pub column: usize,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl Place {
    /// Returns the place `FILE:LINE:COLUMN`.
    fn parse(text: &str) -> Option<Self> {
        let (place, column) = text.rsplit_once(':')?;
        let (file, line) = place.rsplit_once(':')?;
        Some(Self { file: file.to_owned(), line: line.parse().ok()?, column: column.parse().ok()? })
    }
}

/// Operation at a site, as the emulator records it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operation {
    pub kind: String,
    pub order: String,
    scope: String,
    pub bytes: String,
}

impl Operation {
    fn parse(text: &str) -> Option<Self> {
        let (kind, order, scope, bytes) = text.split(' ').map(str::to_owned).collect_tuple()?;
        Some(Self { kind, order, scope, bytes })
    }

    #[cfg(test)]
    pub fn of(text: &str) -> Self {
        Self::parse(text).expect("four words")
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}", self.kind, self.order, self.scope, self.bytes)
    }
}

/// Returns the places of kernels and their operations from a record of the emulator. Weak accesses of
/// explorers are their own.
///
/// # Errors
/// As the record has lines of another format.
pub fn parse(record: &str) -> Result<BTreeSet<(Place, Operation)>> {
    let lines = record.lines().filter(|line| line.split(':').next().is_some_and(has_kernels));
    let own = |line: &&str| line.starts_with("crates/") && line.contains(" Weak ");
    let parsed = lines.filter(|line| !own(line)).map(|line| {
        let (place, operation) = line.split_once(' ').context("a place and an operation")?;
        let place = Place::parse(place).with_context(|| line.to_owned())?;
        Ok((place, Operation::parse(operation).with_context(|| line.to_owned())?))
    });
    parsed.collect()
}

/// Operations of sites, with the tests that execute them.
pub type Uses = BTreeMap<(Place, Operation), BTreeSet<usize>>;

/// Operators, as the emulator names them.
pub const OPERATORS: [&str; 13] = [
    "acquire", "release", "relaxed", "weak", "block", "device", "skip", "tear", "late", "early", "less",
    "more", "half",
];

/// Kinds of operations, as the emulator names them.
pub const OPERATIONS: [&str; 7] = ["load", "store", "update", "fence", "barrier", "bound", "recheck"];

/// Orders of operations, as the emulator names them.
pub const ORDERS: [&str; 5] = ["Weak", "Relaxed", "Acquire", "Release", "AcqRel"];

/// Sizes of words in bytes.
pub const SIZES: [&str; 5] = ["1", "2", "4", "8", "16"];

/// Kinds of mutants, as tables name them.
pub const KINDS: [&str; 9] = [
    "relax an order", "narrow a scope", "drop a fence", "drop a barrier", "tear a read-modify-write",
    "swap stores", "skip a write", "skip a re-check", "shift a bound",
];

/// A site and where its function and its text are.
#[derive(Clone, Debug)]
pub struct Site {
    pub place: Place,
    pub function: String,
    pub text: String,
}

impl Site {
    /// Returns whether the place, the function or the text contains a pattern.
    pub fn contains(&self, pattern: &str) -> bool {
        [&self.place.to_string(), &self.function, &self.text].iter().any(|text| text.contains(pattern))
    }
}

/// A change of the operations of one kind at a site.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub site: Site,
    pub operation: Operation,
    /// Operator, as the emulator names it.
    pub operator: &'static str,
    /// Index in [`KINDS`].
    pub kind: usize,
    /// Indices of the tests that execute the operation.
    pub tests: BTreeSet<usize>,
    /// Reason beside the site why it may survive.
    pub reason: Option<Reason>,
}

impl fmt::Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.site.place, self.operator, self.operation)
    }
}

/// Returns all mutants of the sites.
///
/// # Errors
/// As a reason in the sources is not one of the classes.
pub fn of(uses: &Uses, sources: &Sources) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    for ((place, operation), tests) in uses {
        let (site, reasons) = (sources.site(place), sources.reasons(place)?);
        mutants.extend(operators(operation).into_iter().map(|(operator, kind)| Mutant {
            site: site.clone(),
            operation: operation.clone(),
            operator,
            kind,
            tests: tests.clone(),
            reason: reasons.iter().find(|reason| reason.excuses(operator, operation)).cloned(),
        }));
    }
    Ok(mutants)
}

/// Returns the operators that apply to an operation, each with its kind.
fn operators(operation: &Operation) -> Vec<(&'static str, usize)> {
    let Operation { kind, order, scope, .. } = operation;
    let mut found = orders(kind, order);
    let is_weak = order == "Weak";
    if scope != "Block" && !is_weak {
        found.push(("block", 1));
    }
    match kind.as_str() {
        "fence" => {
            found.extend([("skip", 2)].into_iter().chain((scope == "System").then_some(("device", 1))))
        }
        "barrier" => found.push(("skip", 3)),
        "update" => found.extend([("tear", 4), ("skip", 6)]),
        "store" => found.extend([("late", 5), ("skip", 6)]),
        "load" if !is_weak => found.push(("early", 7)),
        "recheck" => found.push(("skip", 7)),
        "bound" => found.extend([("less", 8), ("more", 8), ("half", 8)]),
        _ => {}
    }
    found
}

/// Returns the operators that relax an order by one step.
fn orders(kind: &str, order: &str) -> Vec<(&'static str, usize)> {
    match (kind, order) {
        ("load" | "store" | "update", "Acquire" | "Release") => vec![("relaxed", 0)],
        ("load" | "store" | "update", "AcqRel") => vec![("acquire", 0), ("release", 0)],
        ("load" | "store", "Relaxed") => vec![("weak", 0)],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(text: &str) -> Operation {
        Operation::of(&format!("{text} 4"))
    }

    fn names(text: &str) -> Vec<&'static str> {
        operators(&operation(text)).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn records_are_parsed() {
        let record = "effect\ncrates/testing/src/a.rs:1:2 load Weak Device 4\n\
                      kernels-gpu/src/a.rs:7:12 load Acquire Device 4\n\
                      kernels-gpu/src/a.rs:7:12 load Acquire Device 4\n";
        let place = Place { file: "kernels-gpu/src/a.rs".to_owned(), line: 7, column: 12 };
        let expected = BTreeSet::from([(place, operation("load Acquire Device"))]);
        assert_eq!(parse(record).unwrap(), expected);
        assert!(parse("kernels-gpu/src/a.rs:7:12 load\n").is_err());
        assert!(parse("kernels-gpu/src/a.rs:7 load Acquire Device 4\n").is_err());
    }

    #[test]
    fn operators_fit_the_operation() {
        assert_eq!(names("load Acquire Device"), ["relaxed", "block", "early"]);
        assert_eq!(names("load Relaxed Block"), ["weak", "early"]);
        assert!(names("load Weak Device").is_empty());
        assert_eq!(names("store Release Device"), ["relaxed", "block", "late", "skip"]);
        assert_eq!(names("store Weak Device"), ["late", "skip"]);
        assert_eq!(names("update AcqRel Device"), ["acquire", "release", "block", "tear", "skip"]);
        assert_eq!(names("update Relaxed Block"), ["tear", "skip"]);
        assert_eq!(names("fence Relaxed System"), ["block", "skip", "device"]);
        assert_eq!(names("barrier Relaxed Block"), ["skip"]);
        assert_eq!(names("recheck Relaxed Block"), ["skip"]);
        assert_eq!(names("bound Relaxed Block"), ["less", "more", "half"]);
    }
}
