//! Who may change a tree while a kernel reads it, and what orders that asks for: a type, so that each kernel
//! is compiled for its own case.
use super::history::{Fixed, Moving, Unversioned, Versions};
use crate::reclaim::{Blocks, Group};
use core::marker::PhantomData;
use simt::Order;

/// How nodes are read and latches are taken.
pub trait Access: Copy + Send + Sync + 'static {
    /// How a node is read without its latch.
    const READ: Order;
    /// Whether writers may run beside the kernel.
    const CONCURRENT: bool;
    /// The order of the operation that takes a latch: what the last holder wrote is seen after it.
    const TAKE: Order = Order::Acquire;
    /// The order of the store that gives a latch back.
    const GIVE: Order = Order::Release;
    /// Whether a split fences between writing the new node and showing it.
    const FENCED: bool = true;
    /// Whether a leaf's tail is read again, after its pairs, before a miss or a range is believed.
    const CONFIRMS: bool = true;
    /// Whether it is, for somebody may write meanwhile.
    const LOOKS_AGAIN: bool = Self::CONCURRENT && Self::CONFIRMS;
    /// How the pairs of a leaf are read that is not believed before its tail is read behind them.
    const PAIRS: Order = Order::Acquire;
    /// How that tail is read. (Tests read it weakly: an emulator then gives any of the values that the other
    /// orders leave it.)
    const TAIL: Order = Order::Relaxed;
    /// Whether a pair is changed by an update of its slot, and not by a store: who sees it then sees also
    /// what was written before the releasing store that reused the slot.
    const CHAINS: bool = true;
    /// Whether leaves merge, as those of skip lists do: the pairs of one that has become thin move to the
    /// next one, whose low key falls; what is left is a *zombie*, whose high key is 0, so that every key is
    /// beyond it.
    const MERGES: bool = false;
    /// Whether the pairs of leaves stand in order, as those of some skip lists do, and make way for others:
    /// then a leaf has a version, and only if that has not changed meanwhile is it believed what a leaf has
    /// not.
    const SORTED: bool = false;
    /// How versions of leaves are kept.
    type Versions: Versions;
    /// Whether who reads a leaf whose time is not fixed fixes it.
    const STAMPS: bool = true;
    /// Whether who loses the race for a snapshot takes the stamp that it had seen.
    const TRUE_MOMENTS: bool = true;
    /// Whether operations on a key latch every node of their way: see [`Coupled`].
    const COUPLED: bool = false;
    /// Whether a tile that has a leaf's latch does there what others of its lanes want too: see [`Grouped`].
    const GROUPS: bool = false;
}

/// Everything may run beside everything: reads go to the memory that all multiprocessors share.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent;

impl Access for Concurrent {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Unversioned;
}

/// Everything may run beside everything, and operations on a key go down by latch coupling: the baseline of
/// the thesis on dynamic GPU structures (section 3.5.1). Searches by order read as with [`Concurrent`].
#[derive(Clone, Copy, Debug)]
pub struct Coupled;

impl Access for Coupled {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const COUPLED: bool = true;
    type Versions = Unversioned;
}

/// Everything may run beside everything, and a tile that has a leaf's latch does there what all its lanes
/// want. It pays where a batch comes in the order of keys, as those of kinds whose batches are sorted first
/// do.
#[derive(Clone, Copy, Debug)]
pub struct Grouped;

impl Access for Grouped {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const GROUPS: bool = true;
    type Versions = Unversioned;
}

/// Only reads run beside the kernel: nodes may come from the L1 cache.
#[derive(Clone, Copy, Debug)]
pub struct Phased;

impl Access for Phased {
    const READ: Order = Order::Weak;
    const CONCURRENT: bool = false;
    type Versions = Unversioned;
}

/// As [`Concurrent`], and versions are kept; snapshots are taken while no kernel runs.
#[derive(Clone, Copy, Debug)]
pub struct InPlace;

impl Access for InPlace {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Fixed;
}

/// As [`Concurrent`], and versions are kept, of which snapshots are taken while kernels run. Processes of
/// epochs are of the group `G`.
#[derive(Clone, Copy, Debug)]
pub struct OutOfPlace<G = Blocks>(PhantomData<G>);

impl<G: Group + core::fmt::Debug> Access for OutOfPlace<G> {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    type Versions = Moving<G>;
}
