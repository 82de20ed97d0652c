//! Links: the last four bytes of a record or slab.
use crate::slab::Handle;
use simt::device;

/// The link of a record or slab: the next slab, or a state of the record.
///
/// ```
/// use phalanx_kernels::graph::Link;
/// use phalanx_kernels::slab::Handle;
///
/// let slab = Link::from_word(7);
/// assert_eq!((slab.slab(), slab.deferred(), slab.to_word()), (Some(Handle::from_word(7)), 0, 7));
/// assert!(Link::NONE.is_open() && Link::TABLE.is_closed() && Link::NO_VERTEX.is_closed());
/// let waiting = Link::with_deferred(3);
/// assert!(waiting.is_open() && !waiting.is_closed() && waiting.slab().is_none());
/// assert_eq!((Link::NONE.deferred(), waiting.deferred()), (0, 3));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(u32);

/// The lowest word that is no handle of a slab: one deferred insertion.
const COUNTS: u32 = 0xFF00_0000;

#[device]
impl Link {
    /// No slab follows. The bytes of a blank record or slab.
    pub const NONE: Self = Self(u32::MAX);
    /// The vertex has a table; only in records.
    pub const TABLE: Self = Self(u32::MAX - 1);
    /// The record belongs to no vertex.
    pub const NO_VERTEX: Self = Self(u32::MAX - 2);
    /// Maximum number of deferred insertions that a link counts.
    pub const MOST_DEFERRED: u32 = u32::MAX - 3 - COUNTS;

    /// Returns the link with the word `word`.
    pub fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Returns the word of the link.
    pub fn to_word(self) -> u32 {
        self.0
    }

    /// Returns the link of a full record without a slab for which `many` insertions are deferred, at least
    /// one.
    pub fn with_deferred(many: u32) -> Self {
        Self(COUNTS - 1 + many)
    }

    /// Returns the next slab, if the link names one.
    pub fn slab(self) -> Option<Handle> {
        if self.0 < COUNTS { Some(Handle::from_word(self.0)) } else { None }
    }

    /// Returns whether the record belongs to a small vertex without a slab.
    pub fn is_open(self) -> bool {
        !self.is_closed() && self.0 >= COUNTS
    }

    /// Returns whether the record's slots hold no edges.
    pub fn is_closed(self) -> bool {
        self.0.wrapping_sub(Self::NO_VERTEX.0) < 2
    }

    /// Returns the number of deferred insertions that the link counts.
    pub fn deferred(self) -> u32 {
        if self.0 >= COUNTS && self.0 < Self::NO_VERTEX.0 { self.0 - COUNTS + 1 } else { 0 }
    }
}
