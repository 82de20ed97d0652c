//! Traits that a structure implements to be measured.
use super::suite::Case;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Machine that can time work.
pub trait Machine {
    /// Returns the machine's name.
    fn name(&self) -> String;

    /// Returns the driver's version, or `emulator`.
    fn driver(&self) -> String;

    /// Returns whether the machine is an emulator, whose times say nothing about speed.
    fn is_emulator(&self) -> bool;

    /// Returns the milliseconds from before `work`'s first launch until its last launch has ended, by the
    /// machine's clock.
    ///
    /// # Errors
    /// Returns the errors of `work`, and [`gpu::Error`] when a launch or the clock fails.
    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<f64>;
}

/// Structure that can be measured.
pub trait Structure {
    /// Returns the name used in suites and records.
    fn name(&self) -> &'static str;

    /// Returns the names of the variants, the default first.
    fn variants(&self) -> Vec<String>;

    /// Returns the operations that can be timed.
    fn ops(&self) -> Vec<&'static str>;

    /// Returns whether the machine supports the instructions of the case. Unsupported cases are skipped.
    fn is_possible(&self, _case: &Case) -> bool {
        true
    }

    /// Creates the inputs and the structure, ready for [`Benchmark::restore`].
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the case is invalid for this structure, or does not fit into the
    /// machine's memory.
    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>>;
}

/// Prepared case. Each repetition calls `restore`, `launch` (timed) and `verify`.
pub trait Benchmark {
    /// Restores the state before the operation and waits for completion.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the structure or the device fails.
    fn restore(&mut self) -> Result<()>;

    /// Launches the operation and nothing else. Need not wait for completion.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the structure or the device fails.
    fn launch(&mut self) -> Result<()>;

    /// Returns the milliseconds of the last launch by the benchmark's own clock. Used when the machine's
    /// clock would include too much, such as the start of another process.
    fn own_ms(&self) -> Option<f64> {
        None
    }

    /// Compares every result of the last launch with the expected one.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] that describes the first wrong result.
    fn verify(&mut self) -> Result<Verified>;

    /// Returns the number of operations per launch.
    fn operations(&self) -> u64;

    /// Returns what the last launch showed beside its time.
    fn metrics(&self) -> Vec<Metric> {
        Vec::new()
    }
}

/// Measured quantity other than a time. Each becomes a field of the record.
#[derive(Clone, Debug, PartialEq)]
pub enum Metric {
    /// Memory usage of the structure in bytes.
    TableBytes(u64),
    /// Minimum number of bytes that a launch reads and writes. Only for launches limited by memory bandwidth.
    BytesMoved(u64),
    /// Number of 128-byte lines read per operation at each level, leaves first.
    Lines(Vec<f64>),
    /// Counters of the last launch by name.
    Counted(BTreeMap<String, f64>),
    /// Milliseconds below which 99 % of the calls of the last launch stayed. Only for launches of many calls.
    P99(f64),
    /// Largest number of bytes of device memory in use, beyond that before the structure was created.
    PeakBytes(u64),
    /// Memory that was held beyond the live memory when the launch ended, as a fraction of the memory that
    /// remains after all garbage is freed. Only for structures that reclaim memory.
    Overhead(f64),
    /// `[epoch, bytes retired so far, bytes reclaimed so far]` for some of the epochs that have ended.
    Epochs(Vec<[u64; 3]>),
}

/// Result of a successful verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verified {
    /// Number of compared results.
    pub compared: u64,
    /// Number of results that are "inserted" or "found".
    pub succeeded: u64,
}

impl Verified {
    /// Returns the result of a number of operations that all succeeded.
    pub fn all(operations: usize) -> Self {
        Self { compared: operations as u64, succeeded: operations as u64 }
    }
}
