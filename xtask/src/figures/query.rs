//! Query for one number of one record.
use crate::files::{File, find};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Folder of the records.
const RESULTS: &str = "docs/results";

/// Fields that identify a record, beside its parameters.
const IDENTITY: [&str; 9] =
    ["structure", "variant", "op", "key_bits", "value_bits", "n", "device", "build", "commit"];

/// Significant digits of a figure unless the query states them.
const DIGITS: usize = 3;

/// Query, or a part of one. Parts are combined by [`Query::and`].
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Query {
    /// Name of the row or column.
    pub name: String,
    /// Names of the columns in which a row has no figure.
    pub leaves_empty: Vec<String>,
    /// Figures of other projects, by the names of their columns. No record contains them.
    pub given: BTreeMap<String, String>,
    /// File below `docs/results`, without its extension.
    file: Option<String>,
    /// Field that contains the figure; `mops` by default.
    field: Option<String>,
    /// Values that fields of the record must have. The text `2^k` stands for that number.
    r#where: BTreeMap<String, Value>,
    /// Fields that the record must not have.
    without: BTreeSet<String>,
    /// Factor from the field's unit to the page's.
    factor: Option<f64>,
    /// Number of significant digits.
    digits: Option<usize>,
}

impl Query {
    /// Returns the combination of both parts. Where both state something, `other` holds.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = self.clone();
        both.without.retain(|name| !other.r#where.contains_key(name));
        both.r#where.retain(|name, _| !other.without.contains(name));
        both.without.extend(other.without.iter().cloned());
        both.r#where.extend(other.r#where.clone());
        Self {
            file: other.file.clone().or(both.file),
            field: other.field.clone().or(both.field),
            factor: other.factor.or(both.factor),
            digits: other.digits.or(both.digits),
            ..both
        }
    }

    /// Returns the field of the only record that matches.
    pub fn value(&self, files: &[File]) -> Result<f64> {
        let path = format!("{RESULTS}/{}.jsonl", self.file.as_ref().context("no file is stated")?);
        let record = self.record(&path, files).with_context(|| path)?;
        let name = self.field.as_deref().unwrap_or("mops");
        let value = field(&record, name).and_then(Value::as_f64);
        let value = value.with_context(|| format!("the record has no number `{name}`"))?;
        ensure!(record.get("verified") == Some(&Value::Bool(true)), "the record is not verified");
        Ok(value * self.factor.unwrap_or(1.0))
    }

    fn record(&self, path: &str, files: &[File]) -> Result<Value> {
        let lines = find(files, path)?.text.lines().filter(|line| !line.is_empty());
        let records: Result<Vec<Value>, _> = lines.map(serde_json::from_str).collect();
        let mut found = records?;
        found.retain(|record| self.matches(record));
        match found.len() {
            0 => bail!("no record has {}", self.conditions()),
            1 => Ok(found.remove(0)),
            count => {
                bail!("{count} records have {}; they differ in {}", self.conditions(), differences(&found))
            }
        }
    }

    fn matches(&self, record: &Value) -> bool {
        let has =
            |(name, wanted): (&String, &Value)| field(record, name).is_some_and(|found| equal(found, wanted));
        self.r#where.iter().all(has) && !self.without.iter().any(|name| field(record, name).is_some())
    }

    fn conditions(&self) -> String {
        let values = self.r#where.iter().map(|(name, value)| format!("{name} = {value}"));
        values.chain(self.without.iter().map(|name| format!("no {name}"))).collect::<Vec<_>>().join(", ")
    }

    /// Formats a figure with the significant digits of the query, thousands separated by spaces.
    pub fn rounded(&self, value: f64) -> String {
        let digits = self.digits.unwrap_or(DIGITS);
        let rounded: f64 =
            format!("{value:.*e}", digits - 1).parse().expect("a formatted number is a number");
        let before_point = if rounded == 0.0 { 1 } else { rounded.abs().log10().floor() as i32 + 1 };
        let decimals = usize::try_from(digits as i32 - before_point).unwrap_or(0);
        grouped(&format!("{rounded:.decimals$}"))
    }
}

/// Separates the thousands before the point by spaces.
fn grouped(number: &str) -> String {
    let (whole, fraction) = number.split_at(number.find('.').unwrap_or(number.len()));
    let mut text = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text + fraction
}

/// Returns a field of a record, one of its parameters or one of its counters. `null` counts as missing.
fn field<'a>(record: &'a Value, name: &str) -> Option<&'a Value> {
    let groups = [Some(record), record.get("params"), record.get("counted")];
    groups.into_iter().flatten().find_map(|group| group.get(name)).filter(|value| !value.is_null())
}

/// Returns whether a field has the wanted value; numbers are equal whatever their type.
fn equal(found: &Value, wanted: &Value) -> bool {
    match (found.as_f64(), number(wanted)) {
        (Some(found), Some(wanted)) => found == wanted,
        _ => found == wanted,
    }
}

fn number(wanted: &Value) -> Option<f64> {
    let power = wanted.as_str().and_then(|text| text.strip_prefix("2^")?.parse().ok());
    power.map(f64::exp2).or_else(|| wanted.as_f64())
}

/// Returns the names of the fields and parameters that tell the records apart.
fn differences(records: &[Value]) -> String {
    let params = records.iter().filter_map(|record| record.get("params")?.as_object());
    let names: BTreeSet<&str> =
        params.flat_map(serde_json::Map::keys).map(String::as_str).chain(IDENTITY).collect();
    let differ = |name: &&&str| records.windows(2).any(|pair| field(&pair[0], name) != field(&pair[1], name));
    names.iter().filter(differ).copied().collect::<Vec<_>>().join(", ")
}
