//! The types of an ordered structure, combined into one parameter.
use super::access::Access;
use crate::keyed::{Slot, kind_name};
use crate::slab::Pool;
use simt::{Instance, Name};

/// Types of an ordered structure. Implemented by the tuple of the three.
pub trait Types: Copy + Send + Sync + 'static {
    /// Format of the words of nodes.
    type Slot: Slot;
    /// Pool of the nodes.
    type Pool: Pool;
    /// Access policy.
    type Access: Access;
}

impl<S: Slot, P: Pool, A: Access> Types for (S, P, A) {
    type Slot = S;
    type Pool = P;
    type Access = A;
}

/// Returns the name of an ordered structure with these types: access policy, slots, pool, tile, key, value.
pub(crate) const fn name<T: Types>(lanes: u32, words: usize) -> Name {
    let name = Name::of(T::Access::NAME).part(T::Slot::NAME).part(T::Pool::NAME);
    kind_name::<T::Slot>(name, lanes, words)
}

/// A key as it is stored.
pub(crate) type Stored<T> = <<T as Types>::Slot as Slot>::Stored;
/// A key of the user.
pub(crate) type Key<T> = <<T as Types>::Slot as Slot>::Key;
/// A value.
pub(crate) type Value<T> = <<T as Types>::Slot as Slot>::Value;
/// A word of a node.
pub(crate) type WordOf<T> = <<T as Types>::Slot as Slot>::Word;
/// The versioning of leaves.
pub(crate) type VersionsOf<T> = <<T as Types>::Access as Access>::Versions;
