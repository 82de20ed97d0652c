//! Construction of pools.
use super::SlabAlloc;
use super::kernels;
use super::memory::{Memory, Shape};
use crate::program::open;
use crate::{Error, Result};
use gpu::{Device, Tier};
use std::sync::Mutex;

/// Parameters of a pool. Created by [`SlabAlloc::builder`].
///
/// ```
/// use phalanx::gpu::Tier;
/// use phalanx::{Device, SlabAlloc};
///
/// let pool = SlabAlloc::builder()
///     .device(&Device::from_environment()?)
///     .capacity(3000)
///     .slab_bytes(256)
///     .super_block_slabs(1024)
///     .budget(1 << 20)
///     .light(false)
///     .fill_byte(0)
///     .tiers(Tier::Device, Tier::Pinned)
///     .build()?;
/// assert_eq!((pool.capacity(), pool.kind()), (3072, "spread_256"));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Setters copy the parameters on the host. `build` allocates the slabs and 2 bits of bitmaps per slab, and
/// writes each byte once.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder {
    device: Option<Device>,
    capacity: usize,
    slab_bytes: usize,
    super_block_slabs: usize,
    budget: usize,
    light: bool,
    fill: u8,
    first_tier: Tier,
    tier: Tier,
}

impl Default for Builder {
    fn default() -> Self {
        Self {
            device: None,
            capacity: 1,
            slab_bytes: 128,
            super_block_slabs: 1 << 18,
            budget: usize::MAX,
            light: false,
            fill: 0xff,
            first_tier: Tier::Device,
            tier: Tier::Device,
        }
    }
}

impl Builder {
    /// Sets the device that holds the pool. Default: [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Sets the initial number of slabs, rounded up to whole super blocks. Default: one super block.
    pub fn capacity(mut self, slabs: usize) -> Self {
        self.capacity = slabs;
        self
    }

    /// Sets the bytes per slab: 128 or 256. Default: 128.
    pub fn slab_bytes(mut self, bytes: usize) -> Self {
        self.slab_bytes = bytes;
        self
    }

    /// Sets the slabs per super block, by which the pool grows: a power of two from 32 to 2^24. A pool that
    /// is not light has at most 255 super blocks. Default: 2^18.
    pub fn super_block_slabs(mut self, slabs: usize) -> Self {
        self.super_block_slabs = slabs;
        self
    }

    /// Sets the maximum number of bytes of the slabs. Default: limited only by the device. (The bitmaps need
    /// 2 bits per slab in addition.)
    pub fn budget(mut self, bytes: usize) -> Self {
        self.budget = bytes;
        self
    }

    /// Sets whether the slabs are one contiguous allocation. Addresses are then cheaper to compute, but
    /// growth moves all slabs, which needs memory for both copies meanwhile. Default: `false`.
    pub fn light(mut self, light: bool) -> Self {
        self.light = light;
        self
    }

    /// Sets the byte with which new slabs are filled. Default: `0xFF`.
    pub fn fill_byte(mut self, byte: u8) -> Self {
        self.fill = byte;
        self
    }

    /// Sets the memory tiers of the first super block and of the others. A light pool is always on the
    /// device. Default: all on the device.
    pub fn tiers(mut self, first: Tier, others: Tier) -> Self {
        (self.first_tier, self.tier) = (first, others);
        self
    }

    /// Sets the slabs per super block. Default: an eighth of the capacity, rounded up to a power of two.
    pub(crate) fn super_block_or_eighth(self, slabs: Option<usize>) -> Self {
        let eighth = (self.capacity / 8).clamp(32, 1 << 24).next_power_of_two();
        self.super_block_slabs(slabs.unwrap_or(eighth))
    }

    /// Creates the pool of a structure that was requested for `asked` pairs, `per_slab` of them in a slab.
    /// `what` names the argument that is too large if handles cannot address that many slabs.
    pub(crate) fn build_for(self, what: &'static str, asked: usize, per_slab: usize) -> Result<SlabAlloc> {
        self.build().map_err(|error| match error {
            Error::TooManySlabs { most, .. } => {
                Error::TooLarge { what, asked, most: most.saturating_mul(per_slab) }
            }
            error => error,
        })
    }

    /// Creates the pool.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`], [`Error::SlabBytes`] and [`Error::SuperBlock`] for invalid parameters;
    /// [`Error::TooManySlabs`] if handles cannot address that many slabs; [`Error::Budget`] if the slabs
    /// exceed the budget; [`Error::Device`] if the device lacks the memory.
    pub fn build(self) -> Result<SlabAlloc> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let kernels = kernels::find(self.light, self.slab_bytes).ok_or(Error::SlabBytes(self.slab_bytes))?;
        let slabs = self.super_block_slabs;
        if !slabs.is_power_of_two() || !(32..=1 << 24).contains(&slabs) {
            return Err(Error::SuperBlock(slabs));
        }
        let (slab_bytes, light, fill) = (self.slab_bytes, self.light, self.fill);
        let (first_tier, tier) = (self.first_tier, self.tier);
        let shape = Shape { slab_bytes, shift: slabs.trailing_zeros(), light, fill, first_tier, tier };
        let supers = shape.supers_within(0, self.capacity, self.budget)?;
        let device = open(self.device.as_ref())?;
        let memory = Memory::new(&device, shape, supers)?;
        Ok(SlabAlloc { device, kernels, shape, budget: self.budget, memory, seed: Mutex::new(0) })
    }
}
