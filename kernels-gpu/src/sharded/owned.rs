//! Batches of which one rank's elements are executed where they lie, without a message: those whose keys it
//! owns. The answers are written in the order of the batch; those to other elements stay as they are.
//!
//! # Cost
//!
//! As the kernels of [`crate::keyed::kernels`], and a hash of each key.
use super::owner::owner_of;
use crate::keyed::kernels::{Element, batch, element, read_if};
use crate::keyed::{Get, Insert, Kind};
use simt::{BoundedSlice, GlobalSlice, Instance, Word, device, kernel};

/// The rank whose elements are executed, and the number of ranks.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// Number of ranks.
    pub owners: u32,
    /// The rank.
    pub own: u32,
}

#[device(caller)]
impl Owned {
    /// Returns the caller's element of a batch, which is pending if the rank owns its key, and the key.
    fn element<M: Kind>(self, keys: GlobalSlice<M::Key>) -> (usize, Element, M::Key) {
        let (index, is_there) = element(M::TILE, keys.len());
        let key = read_if(keys, index, is_there);
        (index, Element::at((index, is_there && owner_of(key, self.owners) == self.own)), key)
    }
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
    let (_, element, key) = owned.element::<M>(keys.resolve());
    let request = |_, _| (Get, key, M::Value::narrow(0));
    batch::<M, _>(map, element, request, values, outcomes);
}

/// Inserts the pairs of a rank's keys; replaces the values of present keys.
#[kernel(registers = M::UPDATES_IN)]
pub fn insert_owned<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    owned: Owned,
    outcomes: GlobalSlice<u8>,
) {
    let (index, element, key) = owned.element::<M>(keys.resolve());
    let request = |_, pending| (Insert, key, read_if(values, index, pending));
    batch::<M, _>(map, element, request, values, outcomes);
}
