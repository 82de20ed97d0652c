//! Who may change a tree while a kernel reads it, and what orders that asks for: a type, so that each kernel is compiled for its own case.
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
    /// Whether operations on a key latch every node of their way: see [`Coupled`].
    const COUPLED: bool = false;
}

/// Everything may run beside everything: reads go to the memory that all multiprocessors share.
#[derive(Clone, Copy, Debug)]
pub struct Concurrent;

impl Access for Concurrent {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
}

/// Everything may run beside everything, and operations on a key go down by latch coupling: the baseline of the thesis on dynamic GPU structures
/// (section 3.5.1). Searches by order read as with [`Concurrent`].
#[derive(Clone, Copy, Debug)]
pub struct Coupled;

impl Access for Coupled {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const COUPLED: bool = true;
}

/// Only reads run beside the kernel: nodes may come from the L1 cache.
#[derive(Clone, Copy, Debug)]
pub struct Phased;

impl Access for Phased {
    const READ: Order = Order::Weak;
    const CONCURRENT: bool = false;
}
