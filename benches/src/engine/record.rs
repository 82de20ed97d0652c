//! A result as one line of JSON.
use anyhow::{Context, Result};
use itertools::Itertools;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Version of the record format.
pub const SCHEMA: u32 = 1;

/// Measurement and the result of its verification. Fields may be added; existing fields keep their names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format: [`SCHEMA`].
    pub schema: u32,
    /// Name of the suite: `family/name`.
    pub suite: String,
    /// Type name of the structure.
    pub structure: String,
    /// Name of the variant: layout, probing scheme and tile size.
    pub variant: String,
    /// Timed operation.
    pub op: String,
    /// Bits per key.
    pub key_bits: u32,
    /// Bits per value.
    pub value_bits: u32,
    /// Size from the suite: the number of operations, unless the structure defines it differently.
    pub n: u64,
    /// All other parameters of the case.
    pub params: Params,
    /// Name of the device.
    pub device: String,
    /// Version of the driver, or `emulator`.
    pub driver: String,
    /// Commit that was built.
    pub commit: String,
    /// Whether the tree differed from the commit.
    pub dirty: bool,
    /// Seed of the input.
    pub seed: u64,
    /// Number of timed repetitions.
    pub reps: u32,
    /// Median time.
    pub median_ms: f64,
    /// Shortest time.
    pub min_ms: f64,
    /// Longest time.
    pub max_ms: f64,
    /// Lower end of the median's confidence interval (see [`crate::engine::statistics`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci_low_ms: Option<f64>,
    /// Upper end of the median's confidence interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ci_high_ms: Option<f64>,
    /// Millions of operations per second, from the median time.
    pub mops: f64,
    /// Name of the machine limit that bounds the operation.
    pub limit: Option<String>,
    /// Throughput of that limit, measured in the same run.
    pub limit_mops: Option<f64>,
    /// `mops / limit_mops`.
    pub ratio: Option<f64>,
    /// Whether every result of every timed repetition was compared and correct.
    pub verified: bool,
    /// Memory usage of the structure in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub table_bytes: Option<u64>,
    /// 99th percentile of the times of calls, for operations that are timed call by call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_ms: Option<f64>,
    /// Largest number of bytes of device memory in use, beyond that before the structure was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_device_bytes: Option<u64>,
    /// Minimum gigabytes (10^9 bytes) read and written per second, from the median time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gb_s: Option<f64>,
    /// 128-byte lines read per operation at each level, leaves first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lines: Option<Vec<f64>>,
    /// Counters of the structure by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted: Option<BTreeMap<String, f64>>,
    /// Memory held beyond the live memory when the operation ended, as a fraction of the memory that remains
    /// after all garbage is freed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<f64>,
    /// `[epoch, bytes retired so far, bytes reclaimed so far]` for some of the epochs that have ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<Vec<[u64; 3]>>,
    /// Description of the fault, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fault: Option<String>,
}

/// Parameters ordered by name.
pub type Params = BTreeMap<String, Param>;

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Param {
    /// Boolean.
    Flag(bool),
    /// Integer.
    Integer(i64),
    /// Floating-point number.
    Number(f64),
    /// Text.
    Text(String),
}

impl Param {
    /// Returns the value as a number, if it is one.
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
    /// Returns the identity of the measurement: equal for two runs of the same measurement.
    pub fn identity(&self) -> String {
        let params = describe(&self.params);
        let bits = format!("{}/{}", self.key_bits, self.value_bits);
        [&self.suite, &self.structure, &self.variant, &self.op, &bits, &params, &self.device]
            .map(String::as_str)
            .join(" | ")
            + &format!(" | n={} seed={}", self.n, self.seed)
    }

    /// Returns the confidence interval of the median, or the extremes if the record has none.
    pub fn interval_ms(&self) -> (f64, f64) {
        (self.ci_low_ms.unwrap_or(self.min_ms), self.ci_high_ms.unwrap_or(self.max_ms))
    }

    /// Returns whether the times come from the emulator and say nothing about speed.
    pub fn is_emulated(&self) -> bool {
        self.driver == "emulator"
    }
}

/// Formats parameters as `name=value`, separated by spaces.
pub fn describe(params: &Params) -> String {
    params.iter().map(|(name, value)| format!("{name}={value}")).join(" ")
}

/// Reads the records from a file with one JSON object per line.
///
/// # Errors
/// Returns [`anyhow::Error`], with the file and the line, when the file cannot be read or a line is not a
/// record.
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
