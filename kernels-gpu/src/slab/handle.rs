//! Handles: 32-bit identifiers of slabs, which lists store and shuffle.
use core::fmt;
use simt::{Shuffle, device};

/// Identifier of a slab of a pool, by super block, block and unit: 8, 14 and 10 bits, the unit lowest.
///
/// If super blocks are full (2^14 blocks of 2^10 units) handles are consecutive numbers; in a
/// [`Light`](super::Light) pool they always are. Only the pool that returned a handle can compute the slab's
/// address.
///
/// ```
/// use phalanx_kernels::slab::Handle;
///
/// let handle = Handle::from_word(3 << 24 | 5 << 10 | 7);
/// assert_eq!((handle.super_block(), handle.block(), handle.unit()), (3, 5, 7));
/// assert_eq!((handle.slab(), handle.to_word()), (5 * 1024 + 7, 3 << 24 | 5 << 10 | 7));
/// assert!(handle.some() == Some(handle) && Handle::NONE.is_none());
/// ```
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(u32);

#[device]
impl Handle {
    /// Handle of no slab: all ones.
    pub const NONE: Self = Self(u32::MAX);
    /// Number of bits of the unit.
    pub const UNIT_BITS: u32 = 10;
    /// Number of bits of the block within its super block.
    pub const BLOCK_BITS: u32 = 14;
    /// Number of bits of a slab's number within its super block.
    pub const SLAB_BITS: u32 = Self::UNIT_BITS + Self::BLOCK_BITS;

    /// Converts a word to a handle.
    pub const fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Converts the handle to a word.
    pub const fn to_word(self) -> u32 {
        self.0
    }

    /// Returns whether the handle is [`Self::NONE`].
    pub const fn is_none(self) -> bool {
        self.0 == Self::NONE.0
    }

    /// Returns the handle, or `None` for [`Self::NONE`].
    pub fn some(self) -> Option<Self> {
        if self.is_none() { None } else { Some(self) }
    }

    /// Returns the super block.
    pub const fn super_block(self) -> u32 {
        self.0 >> Self::SLAB_BITS
    }

    /// Returns the slab's number within its super block: block and unit.
    pub const fn slab(self) -> u32 {
        self.0 & ((1 << Self::SLAB_BITS) - 1)
    }

    /// Returns the block within its super block.
    pub const fn block(self) -> u32 {
        self.slab() >> Self::UNIT_BITS
    }

    /// Returns the unit within its block.
    pub const fn unit(self) -> u32 {
        self.0 & ((1 << Self::UNIT_BITS) - 1)
    }
}

impl Shuffle for Handle {
    #[device]
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
