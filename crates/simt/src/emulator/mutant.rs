//! The mutant of the process and the record of the sites that it executes, both named by the environment. See
//! [`Fault`'s module](super::public#mutants) for the format.
use super::fault::{Change, Fault};
use super::memory::access::Access;
use super::site::{Site, SiteId};
use crate::{Order, Scope};
use std::collections::HashSet;
use std::env;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::sync::{LazyLock, Mutex, PoisonError};

/// Variable with the mutant of the process.
const MUTANT: &str = "PHALANX_MUTANT";

/// Variable with the file to which executed sites are appended.
const SITES: &str = "PHALANX_SITES";

/// Operators of mutants, with their names.
const OPERATORS: [(&str, Change); 13] = [
    ("acquire", Change::Weaken(Order::Acquire)),
    ("release", Change::Weaken(Order::Release)),
    ("relaxed", Change::Weaken(Order::Relaxed)),
    ("weak", Change::Weaken(Order::Weak)),
    ("block", Change::Narrow(Scope::Block)),
    ("device", Change::Narrow(Scope::Device)),
    ("skip", Change::Skip),
    ("tear", Change::Tear),
    ("late", Change::Swap),
    ("early", Change::Recall),
    ("less", Change::Bound(|bound| bound.saturating_sub(1))),
    ("more", Change::Bound(|bound| bound.saturating_add(1))),
    ("half", Change::Bound(|bound| bound / 2)),
];

/// Returns the mutant of the process, if the environment names one.
///
/// # Panics
/// If the variable has another format.
pub fn mutant() -> Option<&'static Fault> {
    static MUTANT_OF_PROCESS: LazyLock<Option<Fault>> = LazyLock::new(|| {
        let text = env::var(MUTANT).ok()?;
        let mutant = parse(&text);
        assert!(mutant.is_some(), "{MUTANT} is `{text}`, which is not `FILE:LINE:COLUMN OPERATOR`");
        mutant
    });
    MUTANT_OF_PROCESS.as_ref()
}

/// Returns the mutant `FILE:LINE:COLUMN OPERATOR`, or with `OPERATION ORDER SCOPE BYTES` after it.
fn parse(text: &str) -> Option<Fault> {
    let mut words: Vec<&str> = text.split(' ').collect();
    let only = words.last().is_some_and(|last| last.parse::<u8>().is_ok());
    let only =
        if only { Some(Executed::parse(&words.split_off(words.len().checked_sub(4)?))?) } else { None };
    let operator = words.pop()?;
    let place = words.join(" ");
    let (place, column) = place.rsplit_once(':')?;
    let (file, line) = place.rsplit_once(':')?;
    let (_, change) = OPERATORS.iter().find(|(name, _)| *name == operator)?;
    let site = SiteId::at(file, line.parse().ok()?, column.parse().ok()?);
    Some(Fault { only, ..Fault::new(site, change.clone()) })
}

/// Operations in the record of executed sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Load,
    Store,
    Update,
    Fence,
    Barrier,
    Bound,
    Recheck,
}

/// Operations, orders and scopes, with their names in the record.
const OPERATIONS: [(&str, Operation); 7] = [
    ("load", Operation::Load),
    ("store", Operation::Store),
    ("update", Operation::Update),
    ("fence", Operation::Fence),
    ("barrier", Operation::Barrier),
    ("bound", Operation::Bound),
    ("recheck", Operation::Recheck),
];
const ORDERS: [Order; 5] = [Order::Weak, Order::Relaxed, Order::Acquire, Order::Release, Order::AcqRel];
const SCOPES: [Scope; 3] = [Scope::Block, Scope::Device, Scope::System];

/// An operation with all that distinguishes it from others at the same site.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Executed {
    operation: Operation,
    order: Order,
    scope: Scope,
    bytes: usize,
}

impl Executed {
    pub fn of(operation: Operation, access: &Access) -> Self {
        Self { operation, order: access.order, scope: access.scope, bytes: access.bytes }
    }

    /// Parses what [`Self::fmt`] writes, divided into words.
    fn parse(words: &[&str]) -> Option<Self> {
        let &[operation, order, scope, bytes] = words else { return None };
        let (_, operation) = *OPERATIONS.iter().find(|(name, _)| *name == operation)?;
        let order = ORDERS.into_iter().find(|known| format!("{known:?}") == order)?;
        let scope = SCOPES.into_iter().find(|known| format!("{known:?}") == scope)?;
        Some(Self { operation, order, scope, bytes: bytes.parse().ok()? })
    }
}

impl fmt::Display for Executed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, order, scope, bytes } = self;
        let name = OPERATIONS.iter().find(|(_, known)| known == operation).map_or("", |(name, _)| name);
        write!(f, "{name} {order:?} {scope:?} {bytes}")
    }
}

/// The record of executed sites: a file that several processes may append to.
pub struct Record {
    file: File,
    /// Contents of the file: addresses of sites, and the operations there.
    known: Mutex<HashSet<(usize, Executed)>>,
}

/// Returns the record of the process, if the environment names its file.
///
/// # Panics
/// If the file cannot be opened.
pub fn record() -> Option<&'static Record> {
    static RECORD_OF_PROCESS: LazyLock<Option<Record>> = LazyLock::new(|| {
        let path = env::var_os(SITES)?;
        let file = File::options().create(true).append(true).open(&path);
        let file = file.unwrap_or_else(|error| panic!("{SITES} is {}: {error}", path.display()));
        Some(Record { file, known: Mutex::default() })
    });
    RECORD_OF_PROCESS.as_ref()
}

impl Record {
    /// Appends a site with an operation, unless it was executed before in this way.
    pub fn add(&self, site: Site, executed: Executed) {
        let what = (std::ptr::from_ref(site).addr(), executed);
        if self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(what) {
            self.append(&format!("{site} {executed}\n"));
        }
    }

    /// Appends that the mutant has changed an operation.
    pub fn effect(&self) {
        self.append("effect\n");
    }

    /// Appends a line by one call, so that lines of several processes do not mix.
    fn append(&self, line: &str) {
        let written = (&self.file).write_all(line.as_bytes());
        written.unwrap_or_else(|error| panic!("cannot append to the file of {SITES}: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mutants_are_parsed() {
        for (name, _) in &OPERATORS {
            let fault = parse(&format!("kernels-gpu/src/a b:c.rs:7:12 {name}")).expect(name);
            assert!(fault.to_string().contains("a b:c.rs:7") && fault.only.is_none(), "{fault}");
        }
        for only in ["update AcqRel System 8", "load Weak Block 16", "fence Relaxed Device 0"] {
            let fault = parse(&format!("a.rs:7:12 skip {only}")).expect(only);
            assert_eq!(fault.only.expect(only).to_string(), only);
        }
        for wrong in [
            "",
            "8",
            "a.rs:7:12",
            "a.rs:7 skip",
            "a.rs:x:12 skip",
            "a.rs:7:12 skips",
            "a.rs:7:12 skip 8",
            "a.rs:7:12 skip load Weak 8",
            "a.rs:7:12 skip read Weak Block 8",
        ] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
