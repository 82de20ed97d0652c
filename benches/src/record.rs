//! A result as one line of JSON.
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// The version of the record's fields.
pub const SCHEMA: u32 = 1;

/// What ran, how fast, and whether its results were right. Fields may be added; these keep their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: u32,
    /// `family/name`.
    pub suite: String,
    /// The structure's type name.
    pub structure: String,
    /// Layout, probing and tile, in the structure's own words.
    pub variant: String,
    /// What was timed.
    pub op: String,
    /// Bits of a key.
    pub key_bits: u32,
    /// Bits of a value.
    pub value_bits: u32,
    /// The size that the suite names: operations, unless the structure says otherwise.
    pub n: u64,
    /// Everything else that the case fixes.
    pub params: Params,
    /// The device's name.
    pub device: String,
    /// The driver's version, or `emulator`.
    pub driver: String,
    /// The commit that was built.
    pub commit: String,
    /// Whether the tree differed from the commit.
    pub dirty: bool,
    /// The seed of the input.
    pub seed: u64,
    /// Timed repetitions.
    pub reps: u32,
    /// The median time.
    pub median_ms: f64,
    /// The shortest time.
    pub min_ms: f64,
    /// The longest time.
    pub max_ms: f64,
    /// The lower end of the median's interval (see [`crate::statistics`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_low_ms: Option<f64>,
    /// The upper end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ci_high_ms: Option<f64>,
    /// Millions of operations a second, by the median.
    pub mops: f64,
    /// The limit of the machine that binds the operation.
    #[serde(default)]
    pub limit: Option<String>,
    /// That limit, as measured in the same run.
    #[serde(default)]
    pub limit_mops: Option<f64>,
    /// `mops / limit_mops`.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// Whether every result of every timed repetition was compared and right.
    pub verified: bool,
    /// Bytes that the structure occupied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<u64>,
    /// Gigabytes (10^9) a second that were read and written at least, by the median.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gb_s: Option<f64>,
    /// Lines of 128 bytes that an operation reads at each level, from the leaves up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<f64>>,
    /// What the structure counted of itself, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted: Option<BTreeMap<String, f64>>,
    /// By which part more memory was taken when the operation had ended than once all that nobody needs was
    /// freed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overhead: Option<f64>,
    /// Of epochs that have ended, some: the number of each, and the bytes that were retired and reclaimed
    /// until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Vec<[u64; 3]>>,
    /// What was wrong, when something was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Parameters by name, in order.
pub type Params = BTreeMap<String, Param>;

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Param {
    /// Yes or no.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// A word.
    Text(String),
}

impl Param {
    /// The value as a number, if it is one.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Number(value) => Some(*value),
            Self::Flag(_) | Self::Text(_) => None,
        }
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(value) => value.fmt(f),
            Self::Integer(value) => value.fmt(f),
            Self::Number(value) => value.fmt(f),
            Self::Text(value) => value.fmt(f),
        }
    }
}

impl Record {
    /// What makes two records the same measurement, made on two occasions.
    pub fn identity(&self) -> String {
        let params = describe(&self.params);
        let bits = format!("{}/{}", self.key_bits, self.value_bits);
        [&self.suite, &self.structure, &self.variant, &self.op, &bits, &params, &self.device]
            .map(String::as_str)
            .join(" | ")
            + &format!(" | n={} seed={}", self.n, self.seed)
    }

    /// The interval of the median, or the extremes where a record has none.
    pub fn interval_ms(&self) -> (f64, f64) {
        (self.ci_low_ms.unwrap_or(self.min_ms), self.ci_high_ms.unwrap_or(self.max_ms))
    }

    /// Whether the times are the emulator's, which say nothing about speed.
    pub fn is_emulated(&self) -> bool {
        self.driver == "emulator"
    }
}

/// Parameters as `name=value`, with spaces between.
pub fn describe(params: &Params) -> String {
    params.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

/// The records of a file with one JSON object a line.
///
/// # Errors
/// A file that cannot be read, or a line that is no record; the message names both.
pub fn read(path: &Path) -> Result<Vec<Record>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(index, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}:{} is not a benchmark record", path.display(), index + 1))
        })
        .collect()
}
