//! The memory of a pool: super blocks, their table, and the bitmaps.
use crate::{Error, Result};
use gpu::{Buffer, Device, Tier};
use phalanx_kernels::slab::{Bitmaps, MOST_SUPER_BLOCKS, Pool, Supers};

/// Parameters of a pool's memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub slab_bytes: usize,
    /// Binary logarithm of the slabs per super block.
    pub shift: u32,
    pub light: bool,
    pub fill: u8,
    /// Tier of the first super block.
    pub first_tier: Tier,
    /// Tier of the other super blocks.
    pub tier: Tier,
}

impl Shape {
    /// Returns the number of super blocks that a pool of `units` slabs needs for `more` slabs, if they are
    /// within the budget and addressable by handles.
    pub fn supers_within(&self, units: usize, more: usize, budget: usize) -> Result<usize> {
        let supers = more.div_ceil(1 << self.shift);
        let slabs = (supers << self.shift).saturating_add(units);
        if more > self.most() || slabs > self.most() {
            return Err(Error::TooManySlabs { asked: units.saturating_add(more), most: self.most() });
        }
        let asked = slabs * self.slab_bytes;
        if asked > budget { Err(Error::Budget { asked, budget }) } else { Ok(supers) }
    }

    /// Returns the maximum number of slabs that handles can address, in whole super blocks.
    fn most(&self) -> usize {
        let supers = if self.light { u32::MAX as usize >> self.shift } else { MOST_SUPER_BLOCKS };
        supers << self.shift
    }
}

/// Buffers of a pool.
#[derive(Debug)]
pub struct Memory {
    shape: Shape,
    /// The super blocks; those allocated together share a buffer. A light pool has one buffer.
    pieces: Vec<Buffer<u64>>,
    /// Addresses of the super blocks.
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

    /// Returns the number of slabs.
    pub fn units(&self) -> usize {
        self.units
    }

    pub fn memory_usage(&self) -> usize {
        let slabs: usize = self.pieces.iter().map(Buffer::byte_len).sum();
        slabs
            + self.bases.byte_len()
            + self.live.byte_len()
            + self.retired.byte_len()
            + self.faults.byte_len()
    }

    /// Adds super blocks. Handles stay valid, views do not. On error the pool is unchanged. Waits for the
    /// device.
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

    /// Returns the bitmap of live slabs for a pool of `units` slabs. The bits beyond are set, so those slabs
    /// are never allocated.
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

    /// Copies a light pool's slabs into a larger allocation.
    fn whole(&self, device: &Device, units: usize) -> Result<Buffer<u64>> {
        let mut whole = device.filled(self.shape.slab_bytes / 8 * units, self.shape.fill)?;
        if let Some(before) = self.pieces.first() {
            whole.copy_at(0, before)?;
        }
        Ok(whole)
    }

    /// Allocates at least one super block, together with the others of the same call. The first super block
    /// has its own allocation if its tier differs.
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

    /// Returns the super blocks as kernels take them.
    fn supers(&self) -> Supers {
        let table = self.bases.pointer();
        let joined = |piece: &Buffer<u64>| piece.len() / self.words_a_super_block();
        let (first, joined) =
            self.pieces.first().map_or((table, 1), |piece| (piece.pointer(), joined(piece)));
        Supers { first, joined: joined as u32, table }
    }

    /// Returns the pool as kernels of the kind `P` take it.
    ///
    /// # Safety
    /// - The pool is of this kind, and neither grows nor is dropped while the view is used.
    pub unsafe fn view<P: Pool>(&self) -> P {
        // SAFETY: the caller's obligations. Kernels use only handles that the pool returned.
        unsafe { P::from_parts(self.bitmaps(), self.supers(), self.shape.shift) }
    }

    /// Returns the bitmaps as kernels take them.
    pub fn bitmaps(&self) -> Bitmaps {
        let (live, retired, faults) = (self.live.pointer(), self.retired.pointer(), self.faults.pointer());
        // SAFETY: buffers for this many slabs, which `grow` initialized as required. Callers of launches
        // ensure that they are alive.
        unsafe { Bitmaps::new(live, retired, faults, self.units as u32) }
    }

    /// Returns the words of the bitmap of live slabs, without padding. Waits for the device.
    pub fn live(&self) -> Result<Vec<u32>> {
        let mut words = self.live.read()?;
        words.truncate(self.units / 32);
        Ok(words)
    }

    /// Returns the number of faults so far. Waits for the device.
    pub fn faults(&self) -> Result<u64> {
        Ok(self.faults.read()?[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that a pool of super blocks of 32 slabs on these tiers has the expected buffers: tier and
    /// number of super blocks of each.
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
        assert_eq!(memory.supers().joined as usize, expected[0].1);
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
