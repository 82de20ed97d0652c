//! Traits that a structure implements to be measured.
use crate::suite::Case;
use anyhow::Result;
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

/// Structure that can be measured. Each file in [`crate::structures`] has one implementation.
pub trait Structure {
    /// Returns the name used in suites and records.
    fn name(&self) -> &'static str;

    /// Returns the names of the variants, the default first.
    fn variants(&self) -> Vec<String>;

    /// Returns the operations that can be timed.
    fn ops(&self) -> &'static [&'static str];

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

    /// Returns the memory usage of the structure in bytes.
    fn table_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the number of 128-byte lines read per operation at each level, leaves first, if the structure
    /// has levels and counts them.
    fn lines_read(&self) -> Option<Vec<f64>> {
        None
    }

    /// Returns the counters of the last launch by name, if the structure has counters.
    fn counted(&self) -> Option<BTreeMap<String, f64>> {
        None
    }

    /// Returns the memory that was held beyond the live memory when the launch ended, as a fraction of the
    /// memory that remains after all garbage is freed. Only for structures that reclaim memory.
    fn overhead(&self) -> Option<f64> {
        None
    }

    /// Returns `[epoch, bytes retired so far, bytes reclaimed so far]` for some of the epochs that have
    /// ended.
    fn epochs(&self) -> Option<Vec<[u64; 3]>> {
        None
    }

    /// Returns the minimum number of bytes that a launch reads and writes, if memory bandwidth limits it.
    fn bytes_moved(&self) -> Option<u64> {
        None
    }
}

/// Result of a successful verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Number of compared results.
    pub compared: u64,
    /// Number of results that are "inserted" or "found".
    pub succeeded: u64,
}
