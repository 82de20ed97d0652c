//! Lookups whose elements are executed where they lie, without messages: each by threads that read the table
//! of its owner. The answers are written in the order of the batch.
//!
//! # Cost
//!
//! As [`crate::keyed::kernels::get`] for each table, and a hash of each key. A launch reads one table or two,
//! so that waits for one overlap with those for the other.
use super::owner::owner_of;
use crate::keyed::kernels::{Element, batch, element_of, read_if};
use crate::keyed::{Get, Kind};
use simt::{BoundedSlice, GlobalSlice, Instance, Thread, Word, kernel};

/// The ranks whose elements are executed, and the number of ranks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// Number of ranks.
    pub owners: u32,
    /// The first rank.
    pub own: u32,
    /// Number of tables, 1 or 2: of the first rank, and of the next one.
    pub tables: u32,
}

/// Views of two tables of one variant.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Two<T> {
    /// The first rank's.
    pub first: T,
    /// The next one's. The same as the first if there is one table.
    pub second: T,
}

/// Looks up the values of the keys of one rank or two. Each has an equal part of the grid, which is a grid
/// for the batch. The answers to other elements stay as they are.
#[kernel(registers = M::READS_IN)]
pub fn get_owned<M: Kind + Instance>(
    maps: Two<M::View>,
    keys: BoundedSlice<M::Key>,
    owned: Owned,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let keys = keys.resolve();
    let (thread, threads) = (Thread::index(), Thread::count() / owned.tables as usize);
    let is_second = thread >= threads;
    let (map, own) = if is_second { (maps.second, owned.own + 1) } else { (maps.first, owned.own) };
    let thread = if is_second { thread - threads } else { thread };
    let (index, is_there) = element_of((thread, threads), M::TILE, keys.len());
    let key = read_if(keys, index, is_there);
    let element = Element::at((index, is_there && owner_of(key, owned.owners) == own));
    batch::<M, _>(map, element, |_, _| (Get, key, M::Value::narrow(0)), values, outcomes);
}
