//! What a kind of skip list does in its own way: a type, so that each kernel is compiled for its own case.
use crate::btree::Access;
use simt::Order;

/// How the data layer is kept.
pub trait Policy: Access {
    /// Of so many parts of a node's places one is what a removal may leave before the node merges with the next one. 3 in the paper.
    const THIN: u32 = 3;
}

/// Pairs of the data layer stand where there was room, and are ranked when a node is split (section 4.2.1).
#[derive(Clone, Copy, Debug)]
pub struct Unsorted;

impl Access for Unsorted {
    const READ: Order = Order::Relaxed;
    const CONCURRENT: bool = true;
    const MERGES: bool = true;
}

impl Policy for Unsorted {}
