//! The memory of a pool: super blocks, their table, and the bitmaps.
use super::engine::Parts;
use crate::{Error, Result};
use gpu::{Buffer, Device, Tier};
use phalanx_kernels::slab::{Bitmaps, MOST_SUPER_BLOCKS, Supers};

/// The measures of a pool.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub slab_bytes: usize,
    /// The binary logarithm of a super block's slabs.
    pub shift: u32,
    pub light: bool,
    pub fill: u8,
    /// Of the first super block.
    pub first_tier: Tier,
    /// Of the others.
    pub tier: Tier,
}

impl Shape {
    /// Super blocks that a pool of `units` slabs needs for `more`, if they fit the budget and the handles.
    pub fn supers_within(&self, units: usize, more: usize, budget: usize) -> Result<usize> {
        let supers = more.div_ceil(1 << self.shift);
        let slabs = (supers << self.shift).saturating_add(units);
        if more > self.most() || slabs > self.most() {
            return Err(Error::TooManySlabs { asked: units.saturating_add(more), most: self.most() });
        }
        let asked = slabs * self.slab_bytes;
        if asked > budget { Err(Error::Budget { asked, budget }) } else { Ok(supers) }
    }

    /// The most slabs that handles can name, in whole super blocks.
    fn most(&self) -> usize {
        let supers = if self.light { u32::MAX as usize >> self.shift } else { MOST_SUPER_BLOCKS };
        supers << self.shift
    }
}

/// A pool's buffers.
#[derive(Debug)]
pub struct Memory {
    shape: Shape,
    /// The super blocks, those in one buffer that came at once; all of them, if the pool is light.
    pieces: Vec<Buffer<u64>>,
    /// Their addresses.
    bases: Buffer<u64>,
    live: Buffer<u32>,
    retired: Buffer<u32>,
    faults: Buffer<u64>,
    units: usize,
}

impl Memory {
    pub fn new(device: &Device, shape: Shape, supers: usize) -> Result<Self> {
        let mut memory = Self {
            shape,
            pieces: Vec::new(),
            bases: device.zeroed(MOST_SUPER_BLOCKS + 1)?,
            live: device.buffer(0)?,
            retired: device.buffer(0)?,
            faults: device.zeroed(1)?,
            units: 0,
        };
        memory.grow(device, supers)?;
        Ok(memory)
    }

    /// Slabs.
    pub fn units(&self) -> usize {
        self.units
    }

    pub fn bytes(&self) -> usize {
        let slabs: usize = self.pieces.iter().map(Buffer::bytes).sum();
        slabs + self.bases.bytes() + self.live.bytes() + self.retired.bytes() + self.faults.bytes()
    }

    /// Adds super blocks; handles keep their meaning, views do not. Where this fails the pool is as before.
    /// Waits for the device.
    pub fn grow(&mut self, device: &Device, more: usize) -> Result<()> {
        let units = self.units + (more << self.shape.shift);
        let (live, retired) = (self.live_after(units)?, self.retired_after(units)?);
        let (live, retired) = (device.from_slice(&live)?, device.from_slice(&retired)?);
        if self.shape.light {
            self.pieces = vec![self.whole(device, units)?];
        } else {
            self.append(device, more)?;
        }
        (self.live, self.retired, self.units) = (live, retired, units);
        Ok(())
    }

    /// The bitmap of live slabs for a pool of `units`: bits beyond are set, and never given.
    fn live_after(&self, units: usize) -> Result<Vec<u32>> {
        let mut words = self.live.read()?;
        words.truncate(self.units / 32);
        words.resize(units / 32, 0);
        words.resize(Bitmaps::words_for(units), u32::MAX);
        Ok(words)
    }

    fn retired_after(&self, units: usize) -> Result<Vec<u32>> {
        let mut words = self.retired.read()?;
        words.resize(Bitmaps::words_for(units), 0);
        Ok(words)
    }

    fn words_a_super_block(&self) -> usize {
        (self.shape.slab_bytes / 8) << self.shape.shift
    }

    /// A light pool's slabs, moved to a larger place.
    fn whole(&self, device: &Device, units: usize) -> Result<Buffer<u64>> {
        let mut whole = device.filled(self.shape.slab_bytes / 8 * units, self.shape.fill)?;
        if let Some(before) = self.pieces.first() {
            whole.copy_at(0, before)?;
        }
        Ok(whole)
    }

    /// Adds super blocks, one at least, in one piece; the first has one of its own where it lies on another
    /// tier.
    fn append(&mut self, device: &Device, more: usize) -> Result<()> {
        let (words, there) = (self.words_a_super_block(), self.units >> self.shape.shift);
        let apart = there == 0 && self.shape.first_tier != self.shape.tier;
        let pieces = [(self.shape.first_tier, apart as usize), (self.shape.tier, more - apart as usize)];
        let (mut added, mut addresses) = (Vec::new(), Vec::new());
        for (tier, supers) in pieces.into_iter().filter(|piece| piece.1 > 0) {
            let mut piece = device.buffer_on::<u64>(tier, supers * words)?;
            piece.fill_bytes(self.shape.fill)?;
            let base = piece.pointer();
            addresses.extend(
                (0..supers).map(|number| base.wrapping_add(number * words).expose_provenance() as u64),
            );
            added.push(piece);
        }
        self.bases.write_at(there, &addresses)?;
        self.pieces.extend(added);
        Ok(())
    }

    /// What views are made of.
    pub fn parts(&self) -> Parts {
        let table = self.bases.pointer();
        let joined = |piece: &Buffer<u64>| piece.len() / self.words_a_super_block();
        let (first, joined) =
            self.pieces.first().map_or((table, 1), |piece| (piece.pointer(), joined(piece)));
        let supers = Supers { first, joined: joined as u32, table };
        Parts { bitmaps: self.bitmaps(), supers, shift: self.shape.shift }
    }

    /// The bitmaps as kernels see them.
    pub fn bitmaps(&self) -> Bitmaps {
        let (live, retired, faults) = (self.live.pointer(), self.retired.pointer(), self.faults.pointer());
        // SAFETY: buffers of this many slabs, which `grow` filled as asked; that they live is asked of those
        // who launch.
        unsafe { Bitmaps::new(live, retired, faults, self.units as u32) }
    }

    /// The words of the live slabs' bitmap, padding left out. Waits for the device.
    pub fn live(&self) -> Result<Vec<u32>> {
        let mut words = self.live.read()?;
        words.truncate(self.units / 32);
        Ok(words)
    }

    /// Misuses so far. Waits for the device.
    pub fn faults(&self) -> Result<u64> {
        Ok(self.faults.read()?[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pool of super blocks of 32 slabs, on these tiers, and the pieces that it should have: the tier and
    /// the super blocks of each.
    fn has_pieces(tiers: (Tier, Tier), expected: &[(Tier, usize)]) {
        let device = Device::emulator(simt::emulator::Options::default());
        let (first_tier, tier) = tiers;
        let shape = Shape { slab_bytes: 128, shift: 5, light: false, fill: 0xff, first_tier, tier };
        let mut memory = Memory::new(&device, shape, 3).unwrap();
        memory.grow(&device, 1).unwrap();
        memory.grow(&device, 2).unwrap();
        let words = memory.words_a_super_block();
        let pieces: Vec<_> = memory.pieces.iter().map(|piece| (piece.tier(), piece.len() / words)).collect();
        assert_eq!(pieces, expected);
        assert_eq!(memory.parts().supers.joined as usize, expected[0].1);
        let addresses = memory.pieces.iter().flat_map(|piece| {
            let (base, supers) = (piece.pointer().expose_provenance(), piece.len() / words);
            (0..supers).map(move |number| (base + number * words * 8) as u64)
        });
        assert!(addresses.eq(memory.bases.read().unwrap()[..6].iter().copied()));
    }

    #[test]
    fn super_blocks_that_come_together_lie_in_one_piece() {
        has_pieces((Tier::Device, Tier::Device), &[(Tier::Device, 3), (Tier::Device, 1), (Tier::Device, 2)]);
    }

    #[test]
    fn the_first_super_block_lies_apart_on_a_tier_of_its_own() {
        let others = Tier::Pinned;
        has_pieces((Tier::Device, others), &[(Tier::Device, 1), (others, 2), (others, 1), (others, 2)]);
    }
}
