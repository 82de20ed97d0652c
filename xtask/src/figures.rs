//! Figures in pages, computed from the records in `docs/results`.
//!
//! A page contains a start marker with the name of a figure and an end marker; the text between them is
//! generated. `docs/structures/figures.toml` describes each figure by queries, and each query must match one
//! verified record. `cargo xtask report --pages` writes the texts, and `cargo xtask tidy` compares them.
mod query;
#[cfg(test)]
mod tests;

use crate::files::{File, Violation, files, find};
use crate::workspace::root;
use anyhow::{Context, Result, bail};
use query::Query;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::Range;

/// Path of the descriptions.
const LIST: &str = "docs/structures/figures.toml";

/// Start marker, up to the name of the figure; its end; and the end marker.
const START: &str = "<!-- figures: ";
const START_END: &str = " -->";
const END: &str = "<!-- end -->";

/// Descriptions of all figures by name.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Figures {
    #[serde(default)]
    table: BTreeMap<String, Table>,
    #[serde(default)]
    value: BTreeMap<String, Value>,
}

/// Table with one figure per cell.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    /// Query of all cells. That of the row and then that of the column are added to it.
    #[serde(default)]
    all: Query,
    /// Heading of the column of row names.
    corner: String,
    columns: Vec<Query>,
    rows: Vec<Query>,
}

/// Number within a sentence: a figure, or the ratio of two.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Value {
    of: Query,
    /// Addition to `of` that gives the query of the divisor.
    divided_by: Option<Query>,
}

/// Generated part of a page.
struct Block<'a> {
    page: &'a File,
    name: &'a str,
    /// Position of the text between the markers.
    range: Range<usize>,
}

/// Reports blocks that differ from the records, blocks without a result, and figures that no page contains.
pub fn check(files: &[File]) -> Vec<Violation> {
    let Ok(list) = find(files, LIST) else { return Vec::new() };
    let figures: Figures = match toml::from_str(&list.text) {
        Ok(figures) => figures,
        Err(error) => return vec![wrong_list(error.to_string())],
    };
    let mut violations = Vec::new();
    let mut used = BTreeSet::new();
    for block in pages(files).flat_map(blocks) {
        match block {
            Ok(block) => {
                used.insert(block.name);
                violations.extend(block.check(&figures, files));
            }
            Err(unclosed) => violations.push(unclosed),
        }
    }
    let unused = figures.names().filter(|name| !used.contains(name.as_str()));
    violations.extend(unused.map(|name| wrong_list(format!("no page contains the figures `{name}`"))));
    violations
}

/// Rewrites the blocks of all pages.
pub fn update() -> Result<()> {
    let files = files()?;
    let figures = toml::from_str(&find(&files, LIST)?.text).context(LIST)?;
    for page in pages(&files) {
        let text = rewritten(page, &figures, &files)?;
        if text != page.text {
            fs::write(root().join(&page.path), text)?;
            println!("{} has new figures", page.path);
        }
    }
    Ok(())
}

fn rewritten(page: &File, figures: &Figures, files: &[File]) -> Result<String> {
    let mut text = page.text.clone();
    for block in blocks(page).into_iter().rev() {
        let new = block.and_then(|block| Ok((block.text(figures, files)?, block.range)));
        match new {
            Ok((new, range)) => text.replace_range(range, &new),
            Err(violation) => bail!("{violation}"),
        }
    }
    Ok(text)
}

fn pages(files: &[File]) -> impl Iterator<Item = &File> {
    files.iter().filter(|file| file.path.ends_with(".md"))
}

/// Returns the blocks of a page, with a violation for each start marker that lacks an end.
fn blocks(page: &File) -> Vec<Result<Block<'_>, Violation>> {
    page.text.match_indices(START).map(|(start, _)| block(page, start)).collect()
}

fn block(page: &File, start: usize) -> Result<Block<'_>, Violation> {
    let rest = &page.text[start + START.len()..];
    let found = rest.split_once(START_END).and_then(|(name, rest)| {
        let text = &rest[..rest.find(END)?];
        (!text.contains(START)).then_some((name, text))
    });
    let Some((name, text)) = found else {
        return Err(violation(page, start, format!("figures without `{END}`")));
    };
    let begin = start + START.len() + name.len() + START_END.len();
    Ok(Block { page, name, range: begin..begin + text.len() })
}

/// Returns a violation at a position of a page.
fn violation(page: &File, position: usize, reason: String) -> Violation {
    Violation::new(&page.path, 1 + page.text[..position].matches('\n').count(), reason)
}

/// Returns a violation by the descriptions.
fn wrong_list(reason: String) -> Violation {
    Violation::new(LIST, 0, reason)
}

impl Block<'_> {
    fn check(&self, figures: &Figures, files: &[File]) -> Option<Violation> {
        match self.text(figures, files) {
            Ok(text) if text == self.page.text[self.range.clone()] => None,
            Ok(_) => Some(self.violation("differ from the records: run `cargo xtask report --pages`")),
            Err(violation) => Some(violation),
        }
    }

    fn violation(&self, reason: &str) -> Violation {
        violation(self.page, self.range.start, format!("figures `{}` {reason}", self.name))
    }

    /// Returns the text that the records give.
    fn text(&self, figures: &Figures, files: &[File]) -> Result<String, Violation> {
        figures.text(self.name, files).map_err(|error| self.violation(&format!("have no text: {error:#}")))
    }
}

impl Figures {
    fn names(&self) -> impl Iterator<Item = &String> {
        self.table.keys().chain(self.value.keys())
    }

    fn text(&self, name: &str, files: &[File]) -> Result<String> {
        match (self.table.get(name), self.value.get(name)) {
            (Some(table), None) => table.text(files),
            (None, Some(value)) => value.text(files),
            (None, None) => bail!("{LIST} does not describe them"),
            (Some(_), Some(_)) => bail!("{LIST} describes a table and a value of this name"),
        }
    }
}

impl Table {
    fn text(&self, files: &[File]) -> Result<String> {
        let names: Vec<_> = self.columns.iter().map(|column| column.name.as_str()).collect();
        let mut text =
            format!("\n| {} | {} |\n|---|{}\n", self.corner, names.join(" | "), "---:|".repeat(names.len()));
        for row in &self.rows {
            let cells: Result<Vec<_>> =
                self.columns.iter().map(|column| self.cell(row, column, files)).collect();
            text += &format!("| {} | {} |\n", row.name, cells?.join(" | "));
        }
        Ok(text)
    }

    fn cell(&self, row: &Query, column: &Query, files: &[File]) -> Result<String> {
        if row.leaves_empty.contains(&column.name) {
            return Ok(String::new());
        }
        if let Some(figure) = row.given.get(&column.name) {
            return Ok(figure.clone());
        }
        let query = self.all.and(row).and(column);
        let value = query.value(files).with_context(|| format!("`{}`, `{}`", row.name, column.name))?;
        Ok(query.rounded(value))
    }
}

impl Value {
    fn text(&self, files: &[File]) -> Result<String> {
        let divisor = self.divided_by.as_ref().map_or(Ok(1.0), |other| self.of.and(other).value(files))?;
        Ok(self.of.rounded(self.of.value(files)? / divisor))
    }
}
