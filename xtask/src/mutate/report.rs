//! Tables and records of mutation runs.
use super::mutants::{KINDS, Mutant};
use super::run::{Outcome, Tested};
use super::source::CLASSES;
use crate::workspace::root;
use anyhow::Result;
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;
use std::fmt;
use std::fs;
use std::time::Duration;

/// Result of a family, as a line of JSON.
#[derive(Serialize)]
pub struct Summary {
    family: &'static str,
    commit: String,
    /// Number of mutants of all sites that the tests execute, of which some may not have been run.
    possible: usize,
    wall_s: f64,
    /// Sum over all mutants.
    counts: Counts,
    operators: Vec<Counts>,
    survivors: Vec<Survivor>,
    /// Mutants with a failing test before their first effect.
    broken: Vec<String>,
    /// Mutants that are killed although a reason says that they survive.
    needless_reasons: Vec<String>,
}

/// Number of mutants by outcome.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    operator: &'static str,
    mutants: usize,
    killed: usize,
    /// The part of `killed` whose test did not end.
    timed_out: usize,
    /// Survivors without a reason.
    survived: usize,
    no_effect: usize,
    /// Survivors with a reason, by class.
    reasons: [usize; CLASSES.len()],
}

/// Mutant that no test has killed.
#[derive(Serialize)]
struct Survivor {
    place: String,
    function: String,
    text: String,
    operator: &'static str,
    operation: String,
    class: Option<&'static str>,
    reason: Option<String>,
}

impl Counts {
    fn of<'a>(operator: &'static str, tested: impl Iterator<Item = &'a Tested>) -> Self {
        let mut counts = Self { operator, ..Self::default() };
        tested.for_each(|tested| counts.add(tested));
        counts
    }

    fn add(&mut self, tested: &Tested) {
        self.mutants += 1;
        match (&tested.outcome, &tested.mutant.reason) {
            (Outcome::Killed { in_time, .. }, _) => {
                self.killed += 1;
                self.timed_out += usize::from(!in_time);
            }
            (Outcome::NoEffect, _) => self.no_effect += 1,
            (Outcome::Broken { .. }, _) => {}
            (Outcome::Survived, None) => self.survived += 1,
            (Outcome::Survived, Some(reason)) => {
                for (count, class) in self.reasons.iter_mut().zip(CLASSES) {
                    *count += usize::from(class == reason.class);
                }
            }
        }
    }

    fn cells(&self) -> Vec<String> {
        let numbers = [self.mutants, self.killed, self.timed_out, self.survived, self.no_effect];
        let numbers = numbers.into_iter().chain(self.reasons).map(|number| number.to_string());
        [self.operator.to_owned()].into_iter().chain(numbers).collect()
    }
}

impl Summary {
    /// Summarises the mutants of a family, of which `possible` exist.
    pub fn new(
        family: &'static str,
        commit: String,
        (possible, tested): (usize, Vec<Tested>),
        wall: Duration,
    ) -> Self {
        let of_kind = |kind| tested.iter().filter(move |tested: &&Tested| tested.mutant.kind == kind);
        let operators = KINDS.iter().enumerate().map(|(kind, name)| Counts::of(name, of_kind(kind)));
        let survived = tested.iter().filter(|tested| tested.outcome == Outcome::Survived);
        let broken = tested.iter().filter(|tested| matches!(tested.outcome, Outcome::Broken { .. }));
        let needless = tested.iter().filter(|tested| {
            tested.mutant.reason.is_some() && matches!(tested.outcome, Outcome::Killed { in_time: true, .. })
        });
        Self {
            family,
            commit,
            possible,
            wall_s: wall.as_secs_f64(),
            counts: Counts::of("all", tested.iter()),
            operators: operators.filter(|counts| counts.mutants > 0).collect(),
            survivors: survived.map(|tested| Survivor::from(&tested.mutant)).collect(),
            broken: broken.map(|tested| tested.mutant.to_string()).collect(),
            needless_reasons: needless.map(|tested| tested.mutant.to_string()).collect(),
        }
    }

    /// Returns the number of mutants that need a test or a reason.
    pub fn unexplained(&self) -> usize {
        self.counts.survived + self.broken.len()
    }

    /// Writes the result into `docs/results/mutation`, in place of the last one.
    pub fn write(&self) -> Result<()> {
        let folder = root().join("docs/results/mutation");
        fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{}.json", self.family));
        fs::write(&path, serde_json::to_string_pretty(self)? + "\n")?;
        println!("{} has the result", path.display());
        Ok(())
    }
}

impl From<&Mutant> for Survivor {
    fn from(mutant: &Mutant) -> Self {
        let (site, reason) = (mutant.site.clone(), mutant.reason.clone());
        Self {
            place: site.place.to_string(),
            function: site.function,
            text: site.text,
            operator: mutant.operator,
            operation: mutant.operation.to_string(),
            class: reason.as_ref().map(|reason| reason.class),
            reason: reason.map(|reason| reason.text),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { family, possible, wall_s, .. } = self;
        let mut table = Table::new();
        let head = ["operator", "mutants", "killed", "timed out", "survived", "no effect"];
        table.load_style(UTF8_BORDERS_ONLY).set_header(head.into_iter().chain(CLASSES));
        table.add_rows(self.operators.iter().chain([&self.counts]).map(Counts::cells));
        table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
        writeln!(f, "{family}: {possible} mutants exist; {wall_s:.0} s\n{table}")?;
        for survivor in self.survivors.iter().filter(|survivor| survivor.class.is_none()) {
            let Survivor { place, function, text, operator, operation, .. } = survivor;
            writeln!(f, "survived: {place} {function}: {text}: {operator} {operation}")?;
        }
        self.broken.iter().try_for_each(|mutant| writeln!(f, "fails without an effect: {mutant}"))?;
        self.needless_reasons.iter().try_for_each(|mutant| writeln!(f, "killed despite a reason: {mutant}"))
    }
}
