//! The name of a slab: 32 bits, as lists store and shuffle them.
use core::fmt;
use simt::Shuffle;

/// A slab of a pool, by super block, block and unit: 8, 14 and 10 bits, the unit lowest.
///
/// Where super blocks are full (2^14 blocks of 2^10 units) handles are consecutive numbers, and so they
/// always are in a [`Light`](super::Light) pool. Only the pool that gave a handle can say where the slab
/// lies.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u32);

impl Handle {
    /// No slab: all ones.
    pub const NONE: Self = Self(u32::MAX);
    /// Bits of the unit.
    pub const UNIT_BITS: u32 = 10;
    /// Bits of the block within its super block.
    pub const BLOCK_BITS: u32 = 14;
    /// Bits of a slab's number within its super block.
    pub const SLAB_BITS: u32 = Self::UNIT_BITS + Self::BLOCK_BITS;

    /// The handle in a word.
    #[inline(always)]
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// As a word.
    #[inline(always)]
    pub const fn to_word(self) -> u32 {
        self.0
    }

    /// Whether it names no slab.
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// The slab, or `None` for [`Self::NONE`].
    #[inline(always)]
    pub fn some(self) -> Option<Self> {
        if self.is_none() { None } else { Some(self) }
    }

    /// The super block.
    #[inline(always)]
    pub const fn super_block(self) -> u32 {
        self.0 >> Self::SLAB_BITS
    }

    /// The slab's number within its super block: block and unit.
    #[inline(always)]
    pub const fn slab(self) -> u32 {
        self.0 & ((1 << Self::SLAB_BITS) - 1)
    }

    /// The block within its super block.
    #[inline(always)]
    pub const fn block(self) -> u32 {
        self.slab() >> Self::UNIT_BITS
    }

    /// The unit within its block.
    #[inline(always)]
    pub const fn unit(self) -> u32 {
        self.0 & ((1 << Self::UNIT_BITS) - 1)
    }
}

impl Shuffle for Handle {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        Self(word(self.0))
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_none() {
            return f.write_str("Handle::NONE");
        }
        f.debug_struct("Handle")
            .field("super_block", &self.super_block())
            .field("block", &self.block())
            .field("unit", &self.unit())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_are_where_the_layout_says() {
        let handle = Handle::from_word(3 << 24 | 5 << 10 | 7);
        assert_eq!((handle.super_block(), handle.block(), handle.unit()), (3, 5, 7));
        assert_eq!(format!("{handle:?}"), "Handle { super_block: 3, block: 5, unit: 7 }");
        assert_eq!(handle.slab(), 5 * 1024 + 7);
        assert!(Handle::NONE.is_none() && Handle::NONE.some().is_none() && handle.some() == Some(handle));
    }
}
