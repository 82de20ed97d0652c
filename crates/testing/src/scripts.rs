//! Random scripts of calls: a seed selects a structure, its calls, and their faults.
use crate::common::{replay, seeds};
use crate::fault::Injected;
use phalanx::{Error, Result};
use std::fmt::{self, Debug, Display, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

/// Number of scripts of a kind, unless a variable asks for more.
const SCRIPTS: u64 = 40;

/// Numbers of calls and elements of all scripts.
#[derive(Debug, Default)]
pub struct Counters {
    scripts: u64,
    pub calls: u64,
    /// Elements in batches of changes.
    pub elements: u64,
    /// Calls that met a fault, and those that failed.
    struck: u64,
    failed: u64,
    /// Batches of which some elements were refused for lack of memory.
    pub refused: u64,
    /// Structures that were loaded from files.
    pub loaded: u64,
}

impl Counters {
    /// Counts a call. One without a fault has not failed.
    pub fn note(&mut self, fault: &Injected<'_>, has_failed: bool) {
        assert!(fault.has_struck || !has_failed, "a call failed without a fault");
        self.struck += u64::from(fault.has_struck);
        self.failed += u64::from(has_failed);
    }

    /// Counts a call. One without a fault has not failed, and others have failed for want of the device.
    pub fn note_result<T: Debug>(&mut self, fault: &Injected<'_>, said: &Result<T>) {
        assert!(fault.has_struck || said.is_ok(), "{said:?} without a fault");
        assert!(matches!(said, Ok(_) | Err(Error::Device(_))), "{said:?}");
        self.note(fault, said.is_err());
    }

    /// Returns whether calls have met faults and failed, and batches had more than `least` elements per
    /// script, unless a single script is replayed.
    fn is_varied(&self, least: u64) -> bool {
        self.scripts == 1 || self.struck > 0 && self.failed > 0 && self.elements > least * self.scripts
    }
}

impl Display for Counters {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { scripts, calls, elements, struck, failed, refused, loaded } = self;
        write!(f, "{scripts} scripts, {calls} calls, {elements} elements in batches of changes, ")?;
        write!(f, "{struck} calls that a fault struck, {failed} that failed, ")?;
        write!(f, "{refused} batches with refused elements, {loaded} files loaded")
    }
}

/// Runs the scripts of a kind, each of a seed. Their batches must have more than `least` elements per script
/// on average.
pub fn run(name: &str, least: u64, mut script: impl FnMut(u64, &mut Counters)) {
    let mut counters = Counters::default();
    for seed in seeds(SCRIPTS) {
        counters.scripts += 1;
        let run = AssertUnwindSafe(|| script(seed, &mut counters));
        if let Err(panic) = catch_unwind(run) {
            eprintln!("script {seed} of {name}; {}", replay(seed));
            resume_unwind(panic);
        }
    }
    println!("{name}: {counters}");
    assert!(counters.is_varied(least), "scripts that test little: {counters}");
}
