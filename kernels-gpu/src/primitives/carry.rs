//! Prefix of each warp: the sums of the warps before it in its block are exchanged through shared memory,
//! those of earlier tiles by [look-back](super::lookback).
//!
//! ```text
//! all warps        sum of the warp ──► totals
//!                  barrier
//! the first warp   scans the totals, publishes the tile's sum            Carry::announce
//! all warps        other work of the caller
//! the first warp   looks back, adds the prefix to each warp's sum, publishes
//!                  barrier                                               Carry::learn
//! ```
//!
//! A block may repeat this. Words written after one of the barriers are read after the other, so no thread
//! writes a word that another may still be reading.
//!
//! # Cost
//!
//! [`Carry::announce`] stores the warp's sum in shared memory, waits at a barrier, and scans the sums by
//! shuffles of the first warp, which publishes the tile's. [`Carry::learn`] looks back and is one more
//! barrier, with a load of the warp's prefix from shared memory.
use super::lookback::{Flag, Monoid, Published, Values, scan_lanes};
use core::marker::PhantomData;
use simt::{Block, Shared, Thread, Tile, device, shared};

/// Maximum number of words for one value per warp and one for the whole block: 32 warps, and three words per
/// value.
const MOST: usize = 33 * 3;

#[device]
impl<V: Copy> Announced<V> {
    /// Returns the number of the tile.
    pub fn tile(self) -> u32 {
        self.tile
    }
}

/// The warps of a block, and the shared memory through which they exchange sums.
#[derive(Clone, Copy)]
pub struct Carry<M> {
    status: Values,
    warps: u32,
    /// [`MOST`] words for the sums of the warps, and as many for the prefixes of the warps.
    slots: Shared<u32>,
    of: PhantomData<M>,
}

/// A tile whose sum is published and whose warps do not know their prefixes yet.
#[derive(Clone, Copy, Default)]
pub struct Announced<V> {
    tile: u32,
    /// In the first warp: the sum of the warps up to the one with the lane's index.
    upto: V,
}

#[device(caller)]
impl<M: Monoid> Carry<M> {
    /// Returns the carry of a block of `warps` warps. A kernel may create only one.
    pub fn new(status: Values, warps: u32) -> Self {
        Self { status, warps, slots: shared!([u32; 2 * MOST]), of: PhantomData }
    }

    fn put(self, first: usize, slot: u32, value: M::Value) {
        for word in 0..M::Value::WORDS {
            self.slots.store(first + slot as usize * M::Value::WORDS + word, value.word(word));
        }
    }

    fn get(self, first: usize, slot: u32) -> M::Value {
        M::Value::from_words(|word| self.slots.load(first + slot as usize * M::Value::WORDS + word))
    }

    /// Announces that the sum of the calling warp's elements of a tile is `total`. All threads of the block
    /// call it together; it contains a barrier.
    ///
    /// # Panics
    /// Ends the launch if `status` has no words for the tile.
    pub fn announce(self, tile: u32, total: M::Value) -> Announced<M::Value> {
        let (warp, mine) = (Tile::<32>::lockstep(), Thread::index_in_block() / 32);
        if warp.rank() == 0 {
            self.put(0, mine, total);
        }
        Block::sync();
        let mut upto = M::IDENTITY;
        if mine == 0 {
            self.status.check::<M::Value>(tile);
            let own = if warp.rank() < self.warps { self.get(0, warp.rank()) } else { M::IDENTITY };
            upto = scan_lanes::<M>(warp, own, self.warps);
            if warp.rank() == self.warps - 1 {
                let flag = if tile == 0 { Flag::Inclusive } else { Flag::Partial };
                self.status.publish(tile, upto, flag);
            }
        }
        Announced { tile, upto }
    }

    /// Returns the sum of all elements before the calling warp, and the sum of all elements up to the tile's
    /// end. All threads of the block call it together; it contains a barrier. `nap` is passed to
    /// `Values::before`.
    pub fn learn(self, of: Announced<M::Value>, nap: u32) -> (M::Value, M::Value) {
        let (warp, mine) = (Tile::<32>::lockstep(), Thread::index_in_block() / 32);
        if mine == 0 {
            let mut before = M::IDENTITY;
            if of.tile > 0 {
                before = self.status.before::<M>(of.tile, nap);
            }
            let (rank, last, upto) = (warp.rank(), self.warps - 1, M::combine(before, of.upto));
            if rank == last && of.tile > 0 {
                self.status.publish(of.tile, upto, Flag::Inclusive);
            }
            if rank == 0 {
                self.put(MOST, 0, before);
            }
            if rank <= last {
                self.put(MOST, rank + 1, upto);
            }
        }
        Block::sync();
        (self.get(MOST, mine), self.get(MOST, self.warps))
    }
}
