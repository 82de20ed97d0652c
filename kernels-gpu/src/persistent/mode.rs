//! Purposes of searches.

/// Purpose of a search.
pub trait Mode {
    /// `true` if a result is final. Otherwise the caller locks the slot, and looks at the key again.
    const IS_FINAL: bool = false;
    /// `true` if a key and its value may be read from a copy in the cache.
    const USES_CACHE: bool = false;
    /// `true` to look for a free slot.
    const PLACES: bool = false;
    /// `true` to look for claims by other insertions of the key.
    const CHECKS: bool = false;
}

/// Lookups beside changes.
#[derive(Clone, Copy, Debug)]
pub struct Watching;

impl Mode for Watching {
    const IS_FINAL: bool = true;
}

/// Lookups beside changes, of a table that may have a cache.
#[derive(Clone, Copy, Debug)]
pub struct Cached;

impl Mode for Cached {
    const IS_FINAL: bool = true;
    const USES_CACHE: bool = true;
}

/// Reads of what lookups see, by an update that cannot lock a slot.
#[derive(Clone, Copy, Debug)]
pub struct Visible;

impl Mode for Visible {
    const USES_CACHE: bool = true;
}

/// Searches for a key's slot that is about to be changed.
#[derive(Clone, Copy, Debug)]
pub struct Changing;

impl Mode for Changing {}

/// Searches for a key's slot, or else for one in which it can be placed.
#[derive(Clone, Copy, Debug)]
pub struct Placing;

impl Mode for Placing {
    const PLACES: bool = true;
}

/// The search of `insert_new`: a key that it finds is present, and nothing is locked to look again.
#[derive(Clone, Copy, Debug)]
pub struct PlacingNew;

impl Mode for PlacingNew {
    const IS_FINAL: bool = true;
    const PLACES: bool = true;
}

/// The search of an insertion that has claimed a slot: whether the key is there, or about to be placed.
#[derive(Clone, Copy, Debug)]
pub struct Checking;

impl Mode for Checking {
    const CHECKS: bool = true;
}
