//! Shared leaves: tiles change values in a leaf without its latch.
//!
//! A latch admits one tile at a time, for some microseconds. If many operations update a few keys, all of
//! them wait for the latches of a few leaves. So a leaf is *shared* while it has many updates. The meta word
//! of a leaf says by which of two protocols it is used:
//!
//! ```text
//! not shared                                    shared
//! fetch_or(LATCH): the latch was free           fetch_add(SHARER): the leaf is shared and not closed
//!   the tile holds the leaf alone                 the tile is a sharer: it may change values of present keys
//! add(-LATCH)                                   add(-SHARER)
//!
//!                                               fetch_or(CLOSED): the leaf is shared and was not closed
//! add(SHARED - LATCH): from now on shared         wait until there are no sharers
//!                                                 the tile holds the leaf alone
//!                                               add(-SHARED - CLOSED): from now on not shared
//! ```
//!
//! A tile does not know the protocol before its first access, which is always the `fetch_or(LATCH)`. If that
//! returns the meta of a shared leaf, the latch means nothing, and a tile that has taken it gives it back at
//! once. So a leaf that is not shared costs no access more than a leaf without this protocol.
//!
//! 1. *One holder.* The bit `SHARED` is set only by a tile that holds the latch of a leaf that is not shared,
//!    and cleared only by a tile that holds a closed leaf. So it does not change while a tile holds the leaf
//!    alone, and only the latch admits a holder while it is clear, only `CLOSED` while it is set.
//! 2. *No sharer beside a holder.* A sharer enters by one `fetch_add`, whose result shows that the leaf is
//!    shared and not closed. A tile that closes a leaf waits until the count is 0. A tile that enters later
//!    sees `CLOSED`, or that the leaf is not shared, and leaves without an access to the pairs.
//! 3. *No lost update.* A sharer finds its key among the pairs that it reads while it is a sharer, and the
//!    key is not above *high*. No tile holds the leaf, so the pair stays in its slot until the sharer leaves.
//!    The sharer changes the value by one atomic operation on the value half.
//! 4. *Visibility.* A sharer leaves by a release, and the holder acquires by the operation that shows that
//!    the count is 0. All changes of the meta word are read-modify-writes, so they continue each release
//!    sequence.
//! 5. *Progress.* A sharer waits for nothing. A tile that was refused leaves at once, and does not come again
//!    while it sees that the leaf is closed. So a tile that closes a leaf waits for finitely many steps of
//!    others. The sharers of its own warp have left before: see [`Nodes::share_leaf`]. A sharer whose key is
//!    above the leaf's goes on by the link where leaves merge. There an entry of the index may lead to this
//!    leaf for ever, so a sharer that went back to the index would never reach the leaf of its key.
//!
//! A tile makes a leaf shared if it holds the latch, has found its key, and had to try
//! [`LOSSES_BEFORE_SHARING`] times before. A tile that closes a shared leaf, because its key is absent or to
//! be removed, leaves it not shared. In skip lists a tile that removes pairs for its other lanes leaves it
//! not shared, too, so a zombie never is.
use super::access::Access;
use super::backoff::FIRST_BACKOFF_NS;
use super::latch::LatchedNode;
use super::leaf::OperationResult;
use super::meta::Meta;
use super::node::Node;
use super::nodes::Nodes;
use super::types::{Types, Value};
use crate::keyed::{Change, Operation, Request, Slot};
use crate::slab::Handle;
use simt::{Convergence, Order, Tile, device};

/// Number of failed latch attempts after which an update of a present key makes its leaf shared. After one
/// failure many leaves of a tree with random keys would be shared, and insertions would have to close them.
pub(crate) const LOSSES_BEFORE_SHARING: u32 = 2;

/// Result of an attempt to hold a node.
pub(crate) struct Attempt<T: Types, const W: u32, const L: usize> {
    /// The node as the tile has read it, if it holds it.
    pub(crate) held: LatchedNode<T::Slot, W, L>,
    /// Whether the tile holds the node alone.
    pub(crate) has_latch: bool,
    /// Whether the node is a shared leaf that is not closed: see [`Nodes::share_leaf`].
    pub(crate) is_shared: bool,
}

#[device]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Tries to hold a node alone, if `wanted`, unless the tile `holds` it already, and reads it.
    pub(crate) fn try_hold(
        self,
        tile: Tile<W, impl Convergence>,
        handle: Handle,
        wanted: bool,
        holds: bool,
    ) -> Attempt<T, W, L> {
        if !T::Access::SHARES {
            let (held, has_latch) = self.try_latch(tile, handle, wanted);
            return Attempt { held, has_latch, is_shared: false };
        }
        let (node, mut before) = (self.node(handle), Meta::free(0));
        if wanted && !holds && tile.rank() == 0 {
            before = node.set(Meta::LATCH, Order::Acquire);
        }
        before = before.from(tile, 0);
        // All bits of a blank slab's meta are set, but it is no leaf.
        let is_shared = wanted && before.is_shared() && before.is_leaf();
        let has_latch = wanted && !before.is_latched() && !is_shared;
        if is_shared && !before.is_latched() && tile.rank() == 0 {
            node.add(Meta::LATCH.wrapping_neg(), Order::Relaxed);
        }
        // A shuffle orders no memory: the barrier makes what one lane has acquired visible to all lanes.
        tile.sync();
        let held = self.read_latched(tile, handle, has_latch);
        Attempt { held, has_latch, is_shared: is_shared && !before.is_closed() }
    }

    /// Executes an operation on a leaf as a sharer, if the tile `shares` it and the key is present. If it is
    /// absent or to be removed, tries to close the leaf. All lanes of the tile (in lockstep: of the warp)
    /// call this together. Returns the operation's result, whether the tile holds the leaf alone, and the
    /// next leaf if leaves merge and the key is above this one's, otherwise none.
    ///
    /// The sharers of a warp leave before a tile of the warp waits for sharers.
    pub(crate) fn share_leaf<O: Operation>(
        self,
        tile: Tile<W, impl Convergence>,
        handle: Handle,
        shares: bool,
        request: &Request<T::Slot, O>,
    ) -> (OperationResult<Value<T>>, bool, Handle) {
        let (node, erases) = (self.node(handle), request.operation.change() == Change::Erase);
        let is_sharer = tile.any(shares && !erases && tile.rank() == 0 && Self::enter(node));
        tile.sync();
        let read = node.read_rarely(tile.rank(), is_sharer, Order::Relaxed);
        let beyond = read.is_beyond(tile, request.key);
        let mut next = Handle::NONE;
        if T::Access::MERGES {
            let link = read.link(tile);
            next = if is_sharer && beyond { link } else { next };
        }
        let covered = is_sharer && !beyond;
        let hit = read.last(tile.rank(), |position, word| {
            position < Node::<T::Slot, W, L>::SLOTS && T::Slot::key(word) == request.key
        });
        let hits = tile.ballot(covered && hit.exists);
        let (found, actor) = (hits != 0, hits.trailing_zeros());
        let mut value = request.argument;
        if found && tile.rank() == actor {
            let keeps = request.operation.change() == Change::Keep;
            let slot = node.word(hit.index);
            value = if keeps { T::Slot::value(hit.word) } else { request.change_value(slot) };
        }
        let value = if O::RETURNS { tile.shuffle(value, actor) } else { value };
        tile.sync();
        if is_sharer && tile.rank() == 0 {
            node.add(Meta::SHARER.wrapping_neg(), Order::Release);
        }
        let closes = if erases { shares } else { covered && !found };
        let holds = Self::close_leaf(tile, node, closes);
        (request.updated(found, found, false, value), holds, next)
    }

    /// Makes the calling lane's tile a sharer of a leaf. Returns whether it is one.
    fn enter(node: Node<T::Slot, W, L>) -> bool {
        let before = node.add(Meta::SHARER, Order::Acquire);
        let is_sharer = before.is_shared() && !before.is_closed();
        if !is_sharer {
            node.add(Meta::SHARER.wrapping_neg(), Order::Relaxed);
        }
        is_sharer
    }

    /// Tries to close a leaf, if the tile `closes` it, and waits until it has no sharers. Returns whether the
    /// tile holds the leaf now.
    fn close_leaf(tile: Tile<W, impl Convergence>, node: Node<T::Slot, W, L>, closes: bool) -> bool {
        let (mut holds, mut now) = (false, Meta::free(0));
        if closes && tile.rank() == 0 {
            now = node.set(Meta::CLOSED, Order::Acquire);
            holds = now.is_shared() && !now.is_closed();
            if !now.is_shared() && !now.is_closed() {
                node.add(Meta::CLOSED.wrapping_neg(), Order::Relaxed);
            }
        }
        while tile.any_converged(holds && now.has_sharers()) {
            if holds && now.has_sharers() {
                simt::pause(FIRST_BACKOFF_NS);
                now = node.meta(Order::Acquire);
            }
        }
        let holds = tile.any(holds);
        // mutation: skip barrier equivalent, because a tile that holds the leaf passes the barrier of
        // `try_hold` before it reads the leaf.
        tile.sync();
        holds
    }
}
