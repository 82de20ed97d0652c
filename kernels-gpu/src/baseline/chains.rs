//! A set of 32-bit keys in lock-free linked lists: the baseline of the slab-hash paper's figure 7b (section
//! VI-C).
//!
//! ```text
//! heads | link | link | ...         4 bytes per bucket
//! nodes | key 32, link 32 | ...     8 bytes per node; node 0 is none
//!
//! link  | node: 31 | deleted: 1 |   of the link's own node, not its target; never set in a head
//! ```
//!
//! Properties from the paper: keys alone, 32-bit keys and 32-bit indices instead of pointers, no allocator
//! (an array has a node for each insertion that will ever be made); keys are at most half of the memory. Each
//! thread executes one operation by itself. The lists are those of Harris and Michael, sorted by key. A
//! removal takes effect when it sets the bit in the node's own link; it then unlinks the node, or leaves that
//! to any later traversal.
//!
//! A node is used only once, so a link value always refers to the same node: no tags and no reclamation are
//! needed.
//!
//! # Orders
//! A node's words are written before the compare-and-swap that links it, which releases them. Readers load
//! relaxed, as the original uses volatile loads: the address of a node depends on the link that led to it,
//! and neither load may be served by an incoherent cache. The PTX model would require acquire loads, which
//! would cost the baseline time that its design does not include. Benchmarks compare every answer.
//!
//! # Cost
//!
//! [`chains_execute`] reads a link and a node of 8 bytes per step, and executes one compare-and-swap per
//! insertion and up to two per removal, if no other thread interferes. Nothing is allocated or freed.
use crate::keyed::{OpCode, Outcome};
use simt::hash::{mix32, reduce};
use simt::{Global, GlobalSlice, Order, Scope, Thread, device, kernel};

/// A link, and the bit that marks the node that contains it as deleted. All zeros: the end of the list.
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

/// Location of a link.
#[derive(Clone, Copy, Debug)]
struct Place(Global<u32>);

#[device(caller)]
impl Place {
    fn load(self) -> Link {
        Link(self.0.load(Order::Relaxed, Scope::Device))
    }

    /// Replaces `current` by `new`. Returns whether the link was `current`.
    fn exchange(self, current: Link, new: Link, order: Order) -> bool {
        self.0.compare_exchange(current.0, new.0, order, Scope::Device).is_ok()
    }
}

/// Position of a key in its list, present or not: the link at `before` leads to `at`.
#[derive(Clone, Copy, Debug)]
struct SlotMatch {
    before: Place,
    at: Link,
    is_there: bool,
}

/// Maximum number of nodes: links have 31 bits.
pub const MOST_NODES: usize = 1 << 31;

/// The chains as kernels see them. All zeros: an empty set.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Chains {
    /// One link per bucket.
    pub heads: GlobalSlice<u32>,
    /// At most [`MOST_NODES`] nodes; node 0 is unused and stands for none.
    pub nodes: GlobalSlice<u64>,
}

#[device(caller)]
impl Chains {
    fn head(self, key: u32) -> Place {
        Place(self.heads.at(reduce(mix32(key), self.heads.len() as u32) as usize))
    }

    /// Reads a node's key and link in one access.
    fn read(self, link: Link) -> (u32, Link) {
        let word = self.nodes.at(link.node()).load(Order::Relaxed, Scope::Device);
        (word as u32, Link((word >> 32) as u32))
    }

    fn link_of(self, link: Link) -> Place {
        // SAFETY: the upper half of the node's word.
        Place(unsafe { self.nodes.at(link.node()).cast::<u32>().offset(1) })
    }

    /// Returns whether the key is present. Linearizes at the read of its node, or of the node or link at
    /// which the key would be.
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

    /// Finds the key's position and unlinks deleted nodes on the way. Restarts at the head if another thread
    /// changed a link meanwhile.
    fn find(self, key: u32) -> SlotMatch {
        let mut before = self.head(key);
        let mut at = before.load();
        loop {
            if at.is_none() {
                return SlotMatch { before, at, is_there: false };
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
                return SlotMatch { before, at, is_there: found == key };
            } else {
                before = self.link_of(at);
                at = next;
            }
        }
    }

    /// Inserts the key. Linearizes at the compare-and-swap that links the node, or at the read of the node
    /// that is already present.
    fn insert(self, key: u32, node: u32) -> Outcome {
        let own = Link::to(node);
        loop {
            let found = self.find(key);
            if found.is_there {
                return Outcome::Found;
            }
            let word = key as u64 | (found.at.0 as u64) << 32;
            self.nodes.at(own.node()).store(word, Order::Relaxed, Scope::Device);
            if found.before.exchange(found.at, own, Order::Release) {
                return Outcome::Inserted;
            }
        }
    }

    /// Removes the key. Linearizes at the compare-and-swap that sets the bit.
    fn remove(self, key: u32) -> Outcome {
        loop {
            let found = self.find(key);
            if !found.is_there {
                return Outcome::Absent;
            }
            let place = self.link_of(found.at);
            let next = place.load();
            if !next.is_deleted() && place.exchange(next, next.deleted(), Order::Relaxed) {
                // If another thread has changed this link, a later traversal unlinks the node.
                found.before.exchange(found.at, next, Order::Relaxed);
                return Outcome::Removed;
            }
        }
    }
}

/// Executes the operation of an [`OpCode`] for each key. Every code that inserts leaves a present key
/// unchanged, including the codes that would replace its value. If `codes` is empty, `all` is the code of
/// every element. An insert of element `i` uses node `first + i`, which no other launch may use.
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
    let outcome = match OpCode::from_code(code) {
        OpCode::GET if chains.contains(key) => Outcome::Found,
        OpCode::GET => Outcome::Absent,
        OpCode::REMOVE => chains.remove(key),
        _ => chains.insert(key, first + index as u32),
    };
    outcomes.write(index, outcome as u8);
}
