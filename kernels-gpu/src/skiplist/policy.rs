//! Policies of a kind of skip list. A policy is a type, so each kernel is compiled for its own case.
use crate::ordered::access::Access;
use crate::ordered::versioning::Unversioned;
use simt::Order;

/// Policy of a list.
pub trait Policy: Access {
    /// Divisor of a node's slots: if a removal leaves no more pairs than slots / `THIN`, the node merges with
    /// the next one. 3 in the paper.
    const THIN: u32 = 3;
    /// Whether a tile that reaches a data node latches it in the same round, so that the tiles of a warp read
    /// together and write together. It then releases the latch before other tiles of its warp split.
    const TOGETHER: bool = false;
    /// Whether latches and steps are counted: see [`Event`].
    const COUNTS: bool = false;
}

/// Events that a list counts if its policy has [`Policy::COUNTS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A latch was tried.
    Attempt,
    /// A tried latch was taken.
    Latch,
    /// A link was followed, within a layer.
    Lateral,
    /// An entry was followed, to the layer below.
    Down,
}

impl Event {
    /// All events, in their order.
    pub const ALL: [Self; 4] = [Self::Attempt, Self::Latch, Self::Lateral, Self::Down];
}

/// Pairs of the data layer are in any free slot, and are ranked when a node is split (section 4.2.1). Data
/// nodes with many updates are [shared](Access::SHARES).
#[derive(Clone, Copy, Debug)]
pub struct Unsorted;

/// Pairs of the data layer are sorted by key, as in the paper's baseline: those behind a new one shift to
/// make space for it.
#[derive(Clone, Copy, Debug)]
pub struct Sorted;

/// [`Unsorted`] without shared nodes, and the tiles of a warp read together and write together.
#[derive(Clone, Copy, Debug)]
pub struct Together;

/// [`Unsorted`] without shared nodes, with counters.
#[derive(Clone, Copy, Debug)]
pub struct Counted;

macro_rules! policies {
    ($($name:ident = $text:literal { $($access:item)* } { $($item:item)* })*) => {$(
        impl Access for $name {
            const NAME: &'static str = $text;
            const READ: Order = Order::Relaxed;
            const CONCURRENT: bool = true;
            const MERGES: bool = true;
            type Versions = Unversioned;
            $($access)*
        }

        impl Policy for $name {
            $($item)*
        }
    )*};
}

policies! {
    Unsorted = "list" {
        const SHARES: bool = true;
    } {}
    Sorted = "list_sorted" {
        const SORTED: bool = true;
    } {}
    Together = "list_together" {} {
        const TOGETHER: bool = true;
    }
    Counted = "list_counted" {} {
        const COUNTS: bool = true;
    }
}
