//! Access policies: what may run concurrently with a kernel, and the memory orders that it needs. A policy is
//! a type, so each kernel is compiled for its own case.
use super::versioning::{Unversioned, Versions};
use simt::Order;

/// Memory orders, versioning and traversal strategy of a kind of tree.
pub trait Access: Copy + Send + Sync + 'static {
    /// Order in which a node is read without its latch.
    const READ: Order;
    /// Whether writers may run concurrently with the kernel.
    const CONCURRENT: bool;
    /// Order of the operation that takes a latch. Acquire: the writes of the last holder are visible after
    /// it.
    const TAKE: Order = Order::Acquire;
    /// Order of the store that releases a latch.
    const GIVE: Order = Order::Release;
    /// Whether a split fences between writing the new node and linking it.
    const FENCED: bool = true;
    /// Whether a leaf's tail is read again, after its pairs, before a miss or a range is accepted.
    const CONFIRMS: bool = true;
    /// Whether a miss is confirmed by such a second read: only where writers may run concurrently.
    const CONFIRMS_MISSES: bool = Self::CONCURRENT && Self::CONFIRMS;
    /// Order of the pair loads of a leaf that is accepted only after its tail was read behind them.
    const PAIRS: Order = Order::Acquire;
    /// Order of that tail load. (Tests make it weak; the emulator may then return any value that the other
    /// orders permit.)
    const TAIL: Order = Order::Relaxed;
    /// Whether an update changes a pair by a read-modify-write of its slot, not by a store. A reader that
    /// sees the new pair then also sees what was written before the releasing store that reused the slot.
    const CHAINS: bool = true;
    /// Whether leaves merge, as those of skip lists do. A merge moves the pairs of a thin leaf to the next
    /// leaf, whose low key falls. The thin leaf remains as a *zombie*: its high key is 0, so every key is
    /// beyond it.
    const MERGES: bool = false;
    /// Whether the pairs of a leaf are sorted and shift to make space for new ones, as in some skip lists.
    /// Such a leaf has a version, and a miss is valid only if that version did not change during the read.
    const SORTED: bool = false;
    /// Versioning of leaves.
    type Versions: Versions;
    /// Whether readers help to stamp an unstamped leaf.
    const STAMPS: bool = true;
    /// Whether a tile that loses the race for a snapshot takes the stamp that it had read.
    const TRUE_MOMENTS: bool = true;
    /// Whether operations on a key latch every node of their path: see [`Coupled`].
    const COUPLED: bool = false;
    /// Whether a tile that holds a leaf's latch also executes the operations of its other lanes on that leaf:
    /// see [`Grouped`].
    const GROUPS: bool = false;
}

/// All operations may run concurrently: reads go to the memory that all multiprocessors share.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent;

impl Access for Concurrent {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Unversioned;
}

/// All operations may run concurrently, and operations on a key descend by latch coupling: the baseline of
/// the thesis on dynamic GPU structures (section 3.5.1). Ordered searches read as with [`Concurrent`].
#[derive(Clone, Copy, Debug)]
pub struct Coupled;

impl Access for Coupled {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const COUPLED: bool = true;
    type Versions = Unversioned;
}

/// All operations may run concurrently, and a tile that holds a leaf's latch executes the operations of all
/// its lanes on that leaf. This pays if a batch is in key order, as the sorted batches of some kinds are.
#[derive(Clone, Copy, Debug)]
pub struct Grouped;

impl Access for Grouped {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const GROUPS: bool = true;
    type Versions = Unversioned;
}

/// Only reads run concurrently with the kernel: nodes may come from the L1 cache.
#[derive(Clone, Copy, Debug)]
pub struct Phased;

impl Access for Phased {
    const READ: Order = Order::Weak;
    const CONCURRENT: bool = false;
    type Versions = Unversioned;
}
