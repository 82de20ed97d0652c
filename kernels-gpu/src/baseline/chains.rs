//! A set of 32-bit keys in lock-free linked lists: the baseline of the slab-hash paper's figure 7b (section
//! VI-C).
//!
//! ```text
//! heads | link | link | ...         4 bytes a bucket
//! nodes | key 32, link 32 | ...     8 bytes a node; node 0 is none
//!
//! link  | node: 31 | deleted: 1 |   of its own node, not of the one it leads to; a head's is never set
//! ```
//!
//! What the paper says of it: keys alone, 32-bit keys and 32-bit indices instead of pointers, no allocator
//! (an array has a node for each insertion that will ever be made), at most half of the memory are keys. A
//! thread executes an operation, by itself. Lists are those of Harris and Michael: sorted by key; a removal
//! sets the bit in the node's own link, by which it takes effect, and then unlinks the node, or leaves that
//! to whoever comes by.
//!
//! A node is used once, so no link ever means another node than it did: no tags, and nothing to reclaim.
//!
//! # Orders
//! A node's words are written before the exchange that links it, which releases them. Readers load relaxed,
//! as the original reads volatile: the address of a node depends on the link that led to it, and neither load
//! may come from a cache that is not coherent. The PTX model would ask for acquiring loads, which cost a
//! baseline time that it was not meant to spend. Benchmarks compare every answer.
use crate::keyed::{Coded, Outcome};
use simt::hash::{mix32, reduce};
use simt::{Global, GlobalSlice, Order, Scope, Thread, kernel};

/// A link, and the bit that says that the node it lies in is deleted. All zeros: the list ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Link(u32);

impl Link {
    const fn to(node: u32) -> Self {
        Self(node << 1)
    }

    const fn node(self) -> usize {
        (self.0 >> 1) as usize
    }

    const fn is_none(self) -> bool {
        self.node() == 0
    }

    const fn is_deleted(self) -> bool {
        self.0 & 1 != 0
    }

    const fn deleted(self) -> Self {
        Self(self.0 | 1)
    }

    const fn live(self) -> Self {
        Self(self.0 & !1)
    }
}

/// The place of a link.
#[derive(Clone, Copy, Debug)]
struct Place(Global<u32>);

impl Place {
    #[inline(always)]
    #[track_caller]
    fn load(self) -> Link {
        Link(self.0.load(Order::Relaxed, Scope::Device))
    }

    /// Whether `current` was there and `new` is now.
    #[inline(always)]
    #[track_caller]
    fn exchange(self, current: Link, new: Link, order: Order) -> bool {
        self.0.compare_exchange(current.0, new.0, order, Scope::Device).is_ok()
    }
}

/// Where a key is in its list, or would be: behind `before`, which led to `at`.
#[derive(Clone, Copy, Debug)]
struct Spot {
    before: Place,
    at: Link,
    is_there: bool,
}

/// The most nodes: links have 31 bits.
pub const MOST_NODES: usize = 1 << 31;

/// The chains as kernels see them. All zeros: an empty set.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Chains {
    /// A link for each bucket.
    pub heads: GlobalSlice<u32>,
    /// At most [`MOST_NODES`], the first of which is none.
    pub nodes: GlobalSlice<u64>,
}

impl Chains {
    #[inline(always)]
    #[track_caller]
    fn head(self, key: u32) -> Place {
        Place(self.heads.at(reduce(mix32(key), self.heads.len() as u32) as usize))
    }

    /// A node's key and link, by one access.
    #[inline(always)]
    #[track_caller]
    fn read(self, link: Link) -> (u32, Link) {
        let word = self.nodes.at(link.node()).load(Order::Relaxed, Scope::Device);
        (word as u32, Link((word >> 32) as u32))
    }

    #[inline(always)]
    #[track_caller]
    fn link_of(self, link: Link) -> Place {
        // SAFETY: the upper half of the node's word.
        Place(unsafe { self.nodes.at(link.node()).cast::<u32>().offset(1) })
    }

    /// Whether the key is there. Takes effect at the read of its node, or of what lies where it would be.
    #[inline(always)]
    #[track_caller]
    fn contains(self, key: u32) -> bool {
        let mut at = self.head(key).load();
        while !at.is_none() {
            let (found, next) = self.read(at);
            if found >= key {
                return found == key && !next.is_deleted();
            }
            at = next.live();
        }
        false
    }

    /// Walks to the key's place and unlinks the deleted nodes on the way; again from the head, where another
    /// thread changed a link meanwhile.
    #[inline(always)]
    #[track_caller]
    fn find(self, key: u32) -> Spot {
        let mut before = self.head(key);
        let mut at = before.load();
        loop {
            if at.is_none() {
                return Spot { before, at, is_there: false };
            }
            let (found, next) = self.read(at);
            if next.is_deleted() {
                if before.exchange(at, next.live(), Order::Relaxed) {
                    at = next.live();
                } else {
                    before = self.head(key);
                    at = before.load();
                }
            } else if found >= key {
                return Spot { before, at, is_there: found == key };
            } else {
                before = self.link_of(at);
                at = next;
            }
        }
    }

    /// Takes effect at the exchange that links the node, or at the read of the one that is there.
    #[inline(always)]
    #[track_caller]
    fn insert(self, key: u32, node: u32) -> Outcome {
        let own = Link::to(node);
        loop {
            let spot = self.find(key);
            if spot.is_there {
                return Outcome::Found;
            }
            let word = key as u64 | (spot.at.0 as u64) << 32;
            self.nodes.at(own.node()).store(word, Order::Relaxed, Scope::Device);
            if spot.before.exchange(spot.at, own, Order::Release) {
                return Outcome::Inserted;
            }
        }
    }

    /// Takes effect at the exchange that sets the bit.
    #[inline(always)]
    #[track_caller]
    fn remove(self, key: u32) -> Outcome {
        loop {
            let spot = self.find(key);
            if !spot.is_there {
                return Outcome::Absent;
            }
            let place = self.link_of(spot.at);
            let next = place.load();
            if !next.is_deleted() && place.exchange(next, next.deleted(), Order::Relaxed) {
                // Where another thread changed the link before, one that walks by unlinks the node.
                spot.before.exchange(spot.at, next, Order::Relaxed);
                return Outcome::Removed;
            }
        }
    }
}

/// Executes an operation for each key, by [`Coded`]: of the codes that insert, those that would replace leave
/// the key too. Where there are no `codes`, `all` is the code of each. The element with index `i` has the
/// node `first + i` to insert, which no other launch uses.
#[kernel]
pub fn chains_execute(
    chains: Chains,
    first: u32,
    all: u32,
    codes: GlobalSlice<u8>,
    keys: GlobalSlice<u32>,
    outcomes: GlobalSlice<u8>,
) {
    let index = Thread::index();
    if index >= keys.len() {
        return;
    }
    let code = if codes.is_empty() { all } else { codes.read(index) as u32 };
    let key = keys.read(index);
    let outcome = match Coded::from_code(code) {
        Coded::GET if chains.contains(key) => Outcome::Found,
        Coded::GET => Outcome::Absent,
        Coded::REMOVE => chains.remove(key),
        _ => chains.insert(key, first + index as u32),
    };
    outcomes.write(index, outcome as u8);
}
