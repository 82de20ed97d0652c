//! A list's node: a slab whose last four bytes are the link to the next.
//!
//! ```text
//! 128 bytes of pairs of 8:  | pair 0 | pair 1 | ... | pair 14 | unused | link |          15 pairs
//! 128 bytes of keys of 4:   | key 0 | key 1 | ...     ... | key 29 | unused | link |     30 keys
//! ```
//!
//! A blank slab is all ones: its slots are empty and its link is none.
use super::super::handle::Handle;
use crate::keyed::{Bucket, Lane, Slot};
use simt::{Convergence, Global, Tile, Word};

/// A slab as a node of a list: `W` lanes read `L` slots each, the link among them.
#[derive(Clone, Copy, Debug)]
pub struct Node<S, const W: u32, const L: usize>(Bucket<S, W, L>);

/// What a lane has read of a node.
#[derive(Clone, Copy, Debug)]
pub struct Read<S: Slot, const L: usize> {
    /// The lane's slots. Those that the link lies in look like tombstones.
    pub lane: Lane<S, L>,
    /// The link, in the tile's last lane; arbitrary in the others.
    pub link: Handle,
}

/// Some of the slots that a tile has read, and their places among all of those, in the nodes' order.
#[derive(Clone, Copy, Debug)]
pub struct Chosen {
    /// The lane's, a bit each.
    mine: u32,
    /// How many there are in the lanes before.
    pub before: u32,
    /// How many there are in all lanes.
    pub all: u32,
}

impl Chosen {
    /// Those slots of each lane of which `is(j)` holds. The lanes of the tile call it together.
    #[inline(always)]
    #[track_caller]
    pub fn by<C: Convergence, const W: u32, const L: usize>(
        tile: Tile<W, C>,
        is: impl Fn(usize) -> bool,
    ) -> Self {
        let lower = (1 << tile.rank()) - 1;
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

    /// Whether the lane's slot `j` is among them.
    #[inline(always)]
    pub fn is(self, j: usize) -> bool {
        self.mine >> j & 1 != 0
    }

    /// How many stand before the lane's slot `j`.
    #[inline(always)]
    pub fn place(self, j: usize) -> u32 {
        self.before + (self.mine & ((1 << j) - 1)).count_ones()
    }
}

impl<S: Slot, const W: u32, const L: usize> Node<S, W, L> {
    /// Bytes of the slab.
    pub const BYTES: usize = Bucket::<S, W, L>::BYTES;
    /// Slots that the link and what is unused beside it take the place of.
    const LINK_SLOTS: u32 = if size_of::<S::Word>() == 4 { 2 } else { 1 };
    /// Pairs or keys in a node.
    pub const SLOTS: u32 = W * L as u32 - Self::LINK_SLOTS;

    /// The node in the slab at `base`.
    ///
    /// # Safety
    /// - [`Self::BYTES`] bytes from `base` on are a live slab, aligned to as many, that is a node of a list
    ///   of this kind or blank. It stays one as long as the node is used.
    #[inline(always)]
    pub unsafe fn at(base: Global<u64>) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { Bucket::at(base) })
    }

    /// Where the slab begins.
    #[inline(always)]
    pub(super) fn base(self) -> Global<u64> {
        self.0.base()
    }

    /// The slots, those of the link too.
    #[inline(always)]
    pub(super) fn bucket(self) -> Bucket<S, W, L> {
        self.0
    }

    /// Where the link lies.
    #[inline(always)]
    pub(super) fn link(self) -> Global<u32> {
        // SAFETY: the last four bytes of the slab.
        unsafe { self.base().cast::<u32>().offset(Self::BYTES / 4 - 1) }
    }

    /// Whether a lane's slot `j` is one that the link takes the place of.
    #[inline(always)]
    pub fn is_link(rank: u32, j: usize) -> bool {
        let spare = Self::LINK_SLOTS as usize;
        if L == 1 { rank as usize >= W as usize - spare } else { rank == W - 1 && j >= L - spare }
    }

    /// What lane `rank`, below `W`, has of the node, where `wanted`; else arbitrary.
    #[inline(always)]
    #[track_caller]
    pub(super) fn read(self, rank: u32, wanted: bool) -> Read<S, L> {
        let lane = self.0.load(rank, wanted);
        let last = lane.words()[L - 1].widen();
        let link = Handle::from_word((last >> (size_of::<S::Word>() * 8 - 32)) as u32);
        let removed = S::pack(S::tombstone(), S::value(S::EMPTY));
        Read { lane: lane.with(removed, |j| Self::is_link(rank, j)), link }
    }

    /// The slot at `position` of the nodes' order, in which slots are filled: by lane, then by `j`. The link
    /// is none of them, so no word that is written there leads outside of the lists.
    ///
    /// # Panics
    /// Ends the launch where `position` is not below [`Self::SLOTS`].
    #[inline(always)]
    #[track_caller]
    pub fn slot(self, position: u32) -> Global<S::Word> {
        if position >= Self::SLOTS {
            simt::trap();
        }
        // SAFETY: the position is one of the bucket's.
        unsafe { self.0.slot(position / L as u32, position as usize % L) }
    }
}
