//! Litmus tests: small programs of two to four threads, whose outcomes tell which reorderings of memory
//! accesses a machine shows. The tests of the emulator and the benchmark suite `litmus` run them.
//!
//! ```
//! use litmus::{GPU, X, Y, ld, st};
//! use simt::Order::{Acquire, Release};
//!
//! // Message passing. Without order, the reader may see the flag and then an old message.
//! let relaxed = [vec![st(X, 1), st(Y, 1)], vec![ld(Y), ld(X)]];
//! let is_weak = |(registers, _): &litmus::Outcome| registers[litmus::REGISTERS..].starts_with(&[1, 0]);
//! assert!(litmus::axioms::allowed(&relaxed, false, false).iter().any(is_weak));
//! assert!(!litmus::sequential::outcomes(&relaxed).iter().any(is_weak));
//!
//! let write = vec![st(X, 1), litmus::Op::Store(Y, 1, Release, GPU)];
//! let read = vec![litmus::Op::Load(Y, Acquire, GPU), ld(X)];
//! assert!(!litmus::axioms::allowed(&[write, read], false, false).iter().any(is_weak));
//! ```
//!
//! # Cost
//!
//! All functions run on the host; those of [`axioms`] and [`sequential`] take time that is exponential in the
//! length of the program.
pub mod axioms;
pub mod sequential;

use simt::Order::{Acquire, Relaxed, Release};
use simt::{Order, Scope};

/// An operation of a thread. A read stores its result in the thread's next register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Stores a value to a location.
    Store(usize, u32, Order, Scope),
    /// Loads from a location.
    Load(usize, Order, Scope),
    /// Exchanges the value of a location.
    Exchange(usize, u32, Order, Scope),
    /// An acquire-release fence.
    Fence(Scope),
    /// A sequentially consistent fence.
    FenceSc(Scope),
    /// Loads from the location whose number was read last.
    LoadThere(Order),
    /// Stores the value read last to a location.
    StoreRead(usize, Order),
}

impl Op {
    /// Returns whether the operation reads, and so has a register.
    pub fn reads(self) -> bool {
        matches!(self, Self::Load(..) | Self::Exchange(..) | Self::LoadThere(_))
    }
}

/// A location. Number 0 means none.
pub const X: usize = 1;
/// Another location.
pub const Y: usize = 2;
/// A third location.
pub const Z: usize = 3;
/// Number of locations, with the one that is none.
pub const LOCATIONS: usize = 4;
/// Number of registers of a thread.
pub const REGISTERS: usize = 4;
/// Value of a register into which nothing was read.
pub const EMPTY: u32 = u32::MAX;

/// Scope of a block.
pub const BLOCK: Scope = Scope::Block;
/// Scope of a device.
pub const GPU: Scope = Scope::Device;

/// Registers of each thread, [`REGISTERS`] in a row, and the final value of each location.
pub type Outcome = (Vec<u32>, Vec<u32>);

/// Returns a relaxed store at the scope of the device.
pub const fn st(location: usize, value: u32) -> Op {
    Op::Store(location, value, Relaxed, GPU)
}

/// Returns a relaxed load at the scope of the device.
pub const fn ld(location: usize) -> Op {
    Op::Load(location, Relaxed, GPU)
}

/// An access of a litmus test, without its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Writes a value to a location.
    W(usize, u32),
    /// Reads a location.
    R(usize),
}
use Access::{R, W};

/// A litmus test without orders: its name, and the accesses of each thread.
pub type Test = (&'static str, &'static [&'static [Access]]);

/// The litmus tests that are run in all [styles](Style).
pub const TESTS: [Test; 12] = [
    ("MP", &[&[W(X, 1), W(Y, 1)], &[R(Y), R(X)]]),
    ("SB", &[&[W(X, 1), R(Y)], &[W(Y, 1), R(X)]]),
    ("LB", &[&[R(X), W(Y, 1)], &[R(Y), W(X, 1)]]),
    ("R", &[&[W(X, 1), W(Y, 1)], &[W(Y, 2), R(X)]]),
    ("S", &[&[W(X, 2), W(Y, 1)], &[R(Y), W(X, 1)]]),
    ("2+2W", &[&[W(X, 1), W(Y, 2)], &[W(Y, 1), W(X, 2)]]),
    ("WRC", &[&[W(X, 1)], &[R(X), W(Y, 1)], &[R(Y), R(X)]]),
    ("IRIW", &[&[W(X, 1)], &[W(Y, 1)], &[R(X), R(Y)], &[R(Y), R(X)]]),
    ("CoRR", &[&[W(X, 1)], &[R(X), R(X)]]),
    ("CoWR", &[&[W(X, 1), R(X)], &[W(X, 2)]]),
    ("CoRW", &[&[R(X), W(X, 1)], &[W(X, 2)]]),
    ("CoWW", &[&[W(X, 1), W(X, 2)], &[R(X)]]),
];

/// Fence between the accesses of each thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// No fence.
    Nothing,
    /// An acquire-release fence.
    Fence,
    /// A sequentially consistent fence.
    FenceSc,
}

/// How the accesses of a test are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Order of writes.
    pub store: Order,
    /// Order of reads.
    pub load: Order,
    /// Scope of all operations.
    pub scope: Scope,
    /// Fence between the accesses of each thread.
    pub between: Between,
    /// Whether writes are exchanges.
    pub exchanges: bool,
}

impl Style {
    /// Returns all 48 styles.
    pub fn all() -> Vec<Self> {
        let mut styles = Vec::new();
        let orders = [(Relaxed, Relaxed), (Release, Relaxed), (Relaxed, Acquire), (Release, Acquire)];
        for (store, load) in orders {
            for between in [Between::Nothing, Between::Fence, Between::FenceSc] {
                for (scope, exchanges) in [(GPU, false), (GPU, true), (BLOCK, false), (BLOCK, true)] {
                    styles.push(Self { store, load, scope, between, exchanges });
                }
            }
        }
        styles
    }

    /// Returns the operation of an access.
    fn op(self, access: Access) -> Op {
        match access {
            W(at, value) if self.exchanges => Op::Exchange(at, value, self.store, self.scope),
            W(at, value) => Op::Store(at, value, self.store, self.scope),
            R(at) => Op::Load(at, self.load, self.scope),
        }
    }

    fn thread(self, accesses: &[Access]) -> Vec<Op> {
        let mut ops = Vec::new();
        for (i, access) in accesses.iter().enumerate() {
            match self.between {
                Between::Fence if i > 0 => ops.push(Op::Fence(self.scope)),
                Between::FenceSc if i > 0 => ops.push(Op::FenceSc(self.scope)),
                _ => {}
            }
            ops.push(self.op(*access));
        }
        ops
    }

    /// Returns the program of a test in this style.
    pub fn program(self, threads: &[&[Access]]) -> Vec<Vec<Op>> {
        threads.iter().map(|accesses| self.thread(accesses)).collect()
    }
}

impl std::fmt::Display for Style {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { store, load, scope, between, exchanges } = self;
        let writes = if *exchanges { "exchanges" } else { "stores" };
        write!(f, "{store:?} {writes}, {load:?} loads, {between:?} between, {scope:?}")
    }
}

/// Returns programs with patterns that no style has: chains of releases and acquires, and dependencies.
pub fn patterns() -> Vec<(&'static str, Vec<Vec<Op>>)> {
    use Op::{Exchange, Fence, Load, LoadThere, Store, StoreRead};
    let released = vec![st(X, 1), Store(Y, 1, Release, GPU), st(Y, 2)];
    let acquired = vec![ld(Y), Load(Y, Acquire, GPU), ld(X)];
    let acquires = vec![Load(Y, Acquire, GPU), ld(X)];
    let copy = vec![ld(X), StoreRead(Y, Relaxed)];
    let writer = vec![st(X, 1), Fence(GPU), st(Y, X as u32)];
    vec![
        ("both second patterns", vec![released.clone(), acquired.clone()]),
        ("a second release pattern", vec![released.clone(), acquires.clone()]),
        ("a second acquire pattern", vec![vec![st(X, 1), Store(Y, 1, Release, GPU)], acquired]),
        ("of two scopes", vec![vec![st(X, 1), Store(Y, 1, Release, BLOCK), st(Y, 2)], acquires.clone()]),
        ("a release sequence", vec![released, acquires, vec![Exchange(Y, 3, Relaxed, GPU)]]),
        ("LB, one dependency", vec![copy.clone(), vec![ld(Y), st(X, 1)]]),
        ("LB, two dependencies", vec![copy, vec![ld(Y), StoreRead(X, Relaxed)]]),
        ("MP, an address", vec![writer.clone(), vec![ld(Y), LoadThere(Relaxed)]]),
        ("MP, no address", vec![writer, vec![ld(Y), ld(X)]]),
    ]
}
