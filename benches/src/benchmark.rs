//! What a structure implements to be measured.
use crate::suite::Case;
use anyhow::Result;
use std::collections::BTreeMap;

/// A machine that can time work.
pub trait Machine {
    /// Its name.
    fn name(&self) -> String;

    /// The driver's version, or `emulator`.
    fn driver(&self) -> String;

    /// Whether its times say nothing about speed.
    fn is_emulator(&self) -> bool;

    /// Milliseconds from before `work`'s first launch to after its last one has ended, by the machine's own
    /// clock.
    ///
    /// # Errors
    /// What `work` gives, and what the machine says of its launches.
    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<f64>;
}

/// A structure that can be measured: one implementation a file in [`crate::structures`].
pub trait Structure {
    /// The name that suites and records use.
    fn name(&self) -> &'static str;

    /// Its variants, in its own words, the default first.
    fn variants(&self) -> Vec<String>;

    /// The operations it can be timed at.
    fn ops(&self) -> &'static [&'static str];

    /// Whether the machine has the instructions that the case takes. A case that it cannot run is left out.
    fn is_possible(&self, _case: &Case) -> bool {
        true
    }

    /// Makes inputs and the structure itself, ready for [`Benchmark::restore`].
    ///
    /// # Errors
    /// A case that makes no sense for it, or that does not fit the machine.
    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>>;
}

/// A prepared case. Each repetition is restore, launch (timed), verify.
pub trait Benchmark {
    /// Brings everything into the state before the operation, and waits until it is there.
    ///
    /// # Errors
    /// What the machine says.
    fn restore(&mut self) -> Result<()>;

    /// Launches the operation and nothing else. Need not wait.
    ///
    /// # Errors
    /// What the machine says.
    fn launch(&mut self) -> Result<()>;

    /// Milliseconds of the last launch by the benchmark's own clock, where the machine's sees too much: the
    /// launch of another process.
    fn own_ms(&self) -> Option<f64> {
        None
    }

    /// Compares every result of the last launch with what it must be.
    ///
    /// # Errors
    /// The first result that is wrong, in words.
    fn verify(&mut self) -> Result<Verified>;

    /// Operations a launch.
    fn operations(&self) -> u64;

    /// Bytes that the structure occupies.
    fn table_bytes(&self) -> Option<u64> {
        None
    }

    /// Lines of 128 bytes that an operation reads at each level, from the leaves up, of a structure that has
    /// levels and counts them.
    fn lines_read(&self) -> Option<Vec<f64>> {
        None
    }

    /// What the last launch counted of itself, by name, of a structure that counts.
    fn counted(&self) -> Option<BTreeMap<String, f64>> {
        None
    }

    /// By which part more memory was taken when the launch had ended than once all that nobody needs was
    /// freed, of a structure that frees what it replaces.
    fn overhead(&self) -> Option<f64> {
        None
    }

    /// Of epochs that have ended, some: the number of each, and the bytes that were retired and reclaimed
    /// until then.
    fn epochs(&self) -> Option<Vec<[u64; 3]>> {
        None
    }

    /// Bytes that a launch reads and writes at least, where that is what binds it.
    fn bytes_moved(&self) -> Option<u64> {
        None
    }
}

/// What a verification compared, all of it right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified {
    /// Results compared.
    pub compared: u64,
    /// Those that say "inserted" or "found".
    pub succeeded: u64,
}
