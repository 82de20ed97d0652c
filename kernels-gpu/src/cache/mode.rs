//! The purposes of searches, and their results.
use super::digest::Digest;
use super::layout::NOWHERE;
use simt::device;

/// Purpose of a search.
pub trait Mode: Copy + 'static {
    /// Whether the search looks for a free slot, too.
    const PLACES: bool;
    /// Whether a locked slot may have the key. If not, nobody else changes a slot of this key.
    const WAITS: bool;
    /// Whether the caller locks the slot that the search finds.
    const LOCKS: bool;
}

/// Reads, while nothing changes the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading;

impl Mode for Reading {
    const PLACES: bool = false;
    const WAITS: bool = false;
    const LOCKS: bool = false;
}

/// Reads beside changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watching;

impl Mode for Watching {
    const PLACES: bool = false;
    const WAITS: bool = true;
    const LOCKS: bool = false;
}

/// Changes of keys that are present, beside others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Changing;

impl Mode for Changing {
    const PLACES: bool = false;
    const WAITS: bool = true;
    const LOCKS: bool = true;
}

/// Insertions. The keys of a batch are distinct, and batches run one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placing;

impl Mode for Placing {
    const PLACES: bool = true;
    const WAITS: bool = false;
    const LOCKS: bool = true;
}

/// Result of a search, without its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[doc(hidden)]
pub enum End {
    /// A slot has the key.
    Present,
    /// No slot has the key, and there is a free slot for it.
    Free,
    /// No slot has the key. For insertions: no slot is free.
    Absent,
    /// A locked slot may have the key.
    Locked,
}

/// The result of a search.
#[derive(Clone, Copy, Debug)]
#[doc(hidden)]
pub struct Sought {
    /// Kind of the result.
    pub(super) end: End,
    /// Position of the slot that has the key or is free; otherwise [`NOWHERE`].
    pub(super) position: u32,
    /// The word of digests that was read for the slot.
    pub(super) seen: u32,
}

#[device]
impl Sought {
    pub(super) const NOTHING: Self = Self { end: End::Absent, position: NOWHERE, seen: 0 };

    /// Returns the digest that was read for the slot.
    pub(super) fn digest(self) -> Digest {
        Digest::in_word(self.seen, self.position % 4)
    }
}
