//! What a kind of skip list does in its own way: a type, so that each kernel is compiled for its own case.
use crate::btree::{Access, Unversioned};
use simt::Order;

/// How a list is kept.
pub trait Policy: Access {
    /// Of so many parts of a node's places one is what a removal may leave before the node merges with the
    /// next one. 3 in the paper.
    const THIN: u32 = 3;
    /// A tile that has come to a data node latches it in the same round, so that the tiles of a warp read
    /// together and write together; and gives the latch back before others of its warp split.
    const TOGETHER: bool = false;
    /// Counts latches and steps: see [`Event`].
    const COUNTS: bool = false;
    /// A split shows the new node before what is in it. A bug, for tests that plant it.
    const SHOWS_EARLY: bool = false;
    /// Who only passes a data node sets its version back. A bug, for tests that plant it.
    const FORGETS_VERSIONS: bool = false;
    /// A merge lets go of pairs before they are where they go to. A bug, for tests that plant it.
    const LEAVES_EARLY: bool = false;
}

/// What lists count whose policy says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A latch was tried.
    Attempt,
    /// And was had.
    Latch,
    /// A link was followed, within a layer.
    Lateral,
    /// An entry was followed, to the layer below.
    Down,
}

impl Event {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Attempt, Self::Latch, Self::Lateral, Self::Down];
}

/// Pairs of the data layer stand where there was room, and are ranked when a node is split (section 4.2.1).
#[derive(Clone, Copy, Debug)]
pub struct Unsorted;

/// Pairs of the data layer stand in the order of keys, as in the paper's baseline: those behind a new one
/// make way for it.
#[derive(Clone, Copy, Debug)]
pub struct Sorted;

/// [`Unsorted`], and the tiles of a warp read together and write together.
#[derive(Clone, Copy, Debug)]
pub struct Together;

/// [`Unsorted`], and counts.
#[derive(Clone, Copy, Debug)]
pub struct Counted;

macro_rules! policies {
    ($($name:ident { $($access:item)* } { $($item:item)* })*) => {$(
        impl Access for $name {
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
    Unsorted {} {}
    Sorted {
        const SORTED: bool = true;
    } {}
    Together {} {
        const TOGETHER: bool = true;
    }
    Counted {} {
        const COUNTS: bool = true;
    }
}
