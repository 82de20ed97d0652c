//! Access policies: what may run concurrently with a kernel, and the memory orders that it needs. A policy is
//! a type, so each kernel is compiled for its own case.
use super::versioning::{Unversioned, Versions};
use simt::Order;

/// Memory orders, versioning and traversal strategy of a kind of tree.
pub trait Access: Copy + Send + Sync + 'static {
    /// Name of the family and the policy, with which the names of its kinds begin: letters, digits and
    /// underscores.
    const NAME: &'static str;
    /// Order in which a node is read without its latch.
    const READ: Order;
    /// Whether writers may run concurrently with the kernel. If so, a leaf's tail is read again, after its
    /// pairs, before a miss or a range is accepted.
    const CONCURRENT: bool;
    /// Whether leaves merge, as those of skip lists do. A merge moves the pairs of a thin leaf to the next
    /// leaf, whose low key falls. The thin leaf remains as a *zombie*: its high key is 0, so every key is
    /// beyond it.
    const MERGES: bool = false;
    /// Whether the pairs of a leaf are sorted and shift to make space for new ones, as in some skip lists.
    /// Such a leaf has a version, and a miss is valid only if that version did not change during the read.
    const SORTED: bool = false;
    /// Versioning of leaves.
    type Versions: Versions;
    /// Whether operations on a key latch every node of their path: see [`Coupled`].
    const COUPLED: bool = false;
    /// Whether leaves may be shared, so that values of present keys change without the latch: see
    /// the module `share`. Requires unsorted leaves without versions.
    const SHARES: bool = false;
    /// Whether a tile that holds a leaf's latch also executes the operations of its other lanes on that leaf:
    /// see [`Grouped`].
    const GROUPS: bool = false;
}

/// All operations may run concurrently: reads go to the memory that all multiprocessors share.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent;

impl Access for Concurrent {
    const NAME: &'static str = "tree";
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const SHARES: bool = true;
    type Versions = Unversioned;
}

/// All operations may run concurrently, and operations on a key descend by latch coupling: the baseline of
/// the thesis on dynamic GPU structures (section 3.5.1). Ordered searches read as with [`Concurrent`].
#[derive(Clone, Copy, Debug)]
pub struct Coupled;

impl Access for Coupled {
    const NAME: &'static str = "tree_coupled";
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
    const NAME: &'static str = "tree_sorted";
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const GROUPS: bool = true;
    type Versions = Unversioned;
}

/// Only reads run concurrently with the kernel: nodes may come from the L1 cache.
#[derive(Clone, Copy, Debug)]
pub struct Phased;

impl Access for Phased {
    const NAME: &'static str = "tree_phased";
    const READ: Order = Order::Weak;
    const CONCURRENT: bool = false;
    type Versions = Unversioned;
}
