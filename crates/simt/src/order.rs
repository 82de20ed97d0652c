//! Memory orders and scopes of accesses and fences.

/// Memory order of an access, as in the PTX memory model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// May read from a cache that other threads' writes do not update, and must not race with a write. PTX:
    /// no qualifier.
    Weak,
    /// Accesses memory itself, atomically, unordered with accesses to other addresses. PTX: `.relaxed`.
    Relaxed,
    /// Orders later accesses of the thread after it. PTX: `.acquire`.
    Acquire,
    /// Orders earlier accesses of the thread before it. PTX: `.release`.
    Release,
    /// Both acquire and release. PTX: `.acq_rel`.
    AcqRel,
}

/// Set of threads among which an access or a fence is ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The threads of the block. PTX: `.cta`.
    Block,
    /// The threads of the device. PTX: `.gpu`.
    Device,
    /// The device, the host and other devices. PTX: `.sys`.
    System,
}
