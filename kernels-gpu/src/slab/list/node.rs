//! A node of a list: a slab whose last four bytes are the link to the next.
//!
//! ```text
//! 128 bytes, 8-byte pairs:  | pair 0 | pair 1 | ... | pair 14 | unused | link |          15 pairs
//! 128 bytes, 4-byte keys:   | key 0 | key 1 | ...     ... | key 29 | unused | link |     30 keys
//! ```
//!
//! A blank slab is all ones: its slots are empty and its link is [`Handle::NONE`].
use super::super::handle::Handle;
use crate::keyed::{Bucket, Lane, Slot, SlotMatch, still_has};
use simt::{Convergence, Global, Order, Scope, Tile, Word, device};

/// A slab as a node of a list: `W` lanes read `L` slots each, the link included.
#[derive(Clone, Copy, Debug)]
pub struct Node<S, const W: u32, const L: usize>(Bucket<S, W, L>);

/// The part of a node that a lane has read.
#[derive(Clone, Copy, Debug)]
pub struct Read<S: Slot, const L: usize> {
    /// The lane's slots. Those that contain the link appear as tombstones.
    pub lane: Lane<S, L>,
    /// The link, in the tile's last lane; arbitrary in the others.
    pub link: Handle,
}

/// A selection of the slots that a tile has read, and their ranks within it, in the order of the node's
/// slots.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// Bit mask of the lane's selected slots.
    mine: u32,
    /// Number of selected slots in lower lanes.
    pub before: u32,
    /// Number of selected slots in all lanes.
    pub all: u32,
}

#[device]
impl Chosen {
    /// Selects the slots of each lane for which `is(j)` holds. The lanes of the tile call it together.
    #[device(caller)]
    pub fn by<const W: u32, const L: usize>(
        tile: Tile<W, impl Convergence>,
        is: impl Fn(usize) -> bool,
    ) -> Self {
        let lower = tile.lower_ranks();
        let (mut chosen, mut j) = (Self { mine: 0, before: 0, all: 0 }, 0);
        while j < L {
            let is = is(j);
            let votes = tile.ballot(is);
            chosen.mine |= (is as u32) << j;
            chosen.before += (votes & lower).count_ones();
            chosen.all += votes.count_ones();
            j += 1;
        }
        chosen
    }

    /// Returns whether the lane's slot `j` is selected.
    pub fn is(self, j: usize) -> bool {
        self.mine >> j & 1 != 0
    }

    /// Returns the number of selected slots before the lane's slot `j`.
    pub fn place(self, j: usize) -> u32 {
        self.before + (self.mine & ((1 << j) - 1)).count_ones()
    }
}

#[device]
impl<S: Slot, const W: u32, const L: usize> Node<S, W, L> {
    /// Number of bytes of the slab.
    pub const BYTES: usize = Bucket::<S, W, L>::BYTES;
    /// Number of slots that the link and the unused bytes beside it occupy.
    const LINK_SLOTS: u32 = if size_of::<S::Word>() == 4 { 2 } else { 1 };
    /// Number of pairs or keys in a node.
    pub const SLOTS: u32 = W * L as u32 - Self::LINK_SLOTS;

    /// Returns the node in the slab at `base`.
    ///
    /// # Safety
    /// - The [`Self::BYTES`] bytes from `base` on are a live slab, aligned to [`Self::BYTES`], that is a node
    ///   of a list of this kind or blank, for as long as the node is used.
    pub unsafe fn at(base: Global<u64>) -> Self {
        // SAFETY: the caller's obligation.
        Self(unsafe { Bucket::at(base) })
    }

    /// Returns the address of the slab.
    pub(crate) fn base(self) -> Global<u64> {
        self.0.base()
    }

    /// Returns the slab as a bucket, whose slots include those of the link.
    pub(crate) fn bucket(self) -> Bucket<S, W, L> {
        self.0
    }

    /// Returns the location of the link.
    pub(crate) fn link(self) -> Global<u32> {
        // SAFETY: the last four bytes of the slab.
        unsafe { self.base().cast::<u32>().offset(Self::BYTES / 4 - 1) }
    }

    /// Returns whether the link occupies slot `j` of lane `rank`.
    pub fn is_link(rank: u32, j: usize) -> bool {
        let spare = Self::LINK_SLOTS as usize;
        if L == 1 { rank as usize >= W as usize - spare } else { rank == W - 1 && j >= L - spare }
    }

    /// Reads the part of the node that belongs to lane `rank`, below `W`, if `wanted`; otherwise the result
    /// is arbitrary. `order` is relaxed, or weak if nothing writes to the node meanwhile.
    #[device(caller)]
    pub(crate) fn read(self, rank: u32, wanted: bool, order: Order) -> Read<S, L> {
        let lane = self.0.load(rank, wanted, order);
        let last = lane.words()[L - 1].widen();
        let link = Handle::from_word((last >> (size_of::<S::Word>() * 8 - 32)) as u32);
        let removed = S::pack(S::tombstone(), S::value(S::EMPTY));
        Read { lane: lane.with(removed, |j| Self::is_link(rank, j)), link }
    }

    /// Returns whether the list still ends in this node: in the lane's first empty slot, `open`, or in the
    /// link if there is none. A compare-and-swap of this location with its own value determines that, since a
    /// load may return an old word.
    pub(crate) fn still_ends(self, rank: u32, open: &SlotMatch<S::Word>) -> bool {
        if !open.exists {
            let none = Handle::NONE.to_word();
            // mutation: skip equivalent, because it writes the word that is there.
            return self.link().compare_exchange(none, none, Order::Relaxed, Scope::Device).is_ok();
        }
        // SAFETY: the slot is one of the lane's.
        let slot = unsafe { self.0.slot(rank, open.index as usize) };
        still_has::<S>(slot, S::key(S::EMPTY))
    }

    /// Returns the slot at `position` in the order in which slots are filled: by lane, then by `j`. The link
    /// is not among these slots, so no word written to one of them leads outside the lists.
    ///
    /// # Panics
    /// Ends the launch if `position` is not below [`Self::SLOTS`].
    #[device(caller)]
    pub fn slot(self, position: u32) -> Global<S::Word> {
        if position >= Self::SLOTS {
            simt::trap();
        }
        // SAFETY: the position is that of a slot of the bucket.
        unsafe { self.0.slot(position / L as u32, position as usize % L) }
    }
}
