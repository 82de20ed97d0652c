//! Lookups of which one rank's elements are executed where they lie, without a message: those whose keys it
//! owns. The answers are written in the order of the batch; those to other elements stay as they are.
//!
//! # Cost
//!
//! As [`crate::keyed::kernels::get`], and a hash of each key.
use super::owner::owner_of;
use crate::keyed::kernels::{Element, batch, element, read_if};
use crate::keyed::{Get, Kind};
use simt::{BoundedSlice, GlobalSlice, Instance, Word, kernel};

/// The rank whose elements are executed, and the number of ranks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// Number of ranks.
    pub owners: u32,
    /// The rank.
    pub own: u32,
}

/// Looks up the values of a rank's keys.
#[kernel(registers = M::READS_IN)]
pub fn get_owned<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    owned: Owned,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let keys = keys.resolve();
    let (index, is_there) = element(M::TILE, keys.len());
    let key = read_if(keys, index, is_there);
    let element = Element::at((index, is_there && owner_of(key, owned.owners) == owned.own));
    batch::<M, _>(map, element, |_, _| (Get, key, M::Value::narrow(0)), values, outcomes);
}
