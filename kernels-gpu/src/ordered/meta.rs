//! Meta words of nodes, and words that contain a handle.
use crate::keyed::{Scalar, Slot};
use crate::slab::Handle;
use core::fmt;
use simt::{Convergence, Tile, device};

/// Meta word of a node: its level, its latch, and the bits above. Those are its version where nodes have one;
/// where leaves may be shared, whether the leaf is shared, whether it is closed, and its number of sharers:
/// see the module `share`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Meta(u32);

impl fmt::Debug for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let latch = if self.is_latched() { ", latched" } else { "" };
        match self.level() {
            _ if self.is_old() => f.write_str("old version"),
            _ if self.0 == u32::MAX => f.write_str("blank"),
            0 => write!(f, "leaf{latch}, version {}", self.0 / (Self::LATCH << 1)),
            level => write!(f, "level {level}{latch}"),
        }
    }
}

#[device]
impl Meta {
    pub(super) const LATCH: u32 = 1 << 8;

    /// Bit of a leaf that is shared.
    const SHARED: u32 = 1 << 9;

    /// Bit of a shared leaf that is closed to sharers.
    pub(super) const CLOSED: u32 = 1 << 10;

    /// One sharer. The 21 bits from here on count more tiles than a device has.
    pub(super) const SHARER: u32 = 1 << 11;

    /// Meta of an old version of a leaf: its level is one that no node has.
    pub const OLD: Self = Self(Self::LATCH - 2);

    /// Returns the meta of an unlatched node of a level.
    pub const fn free(level: u32) -> Self {
        Self(level)
    }

    /// Decodes the value half of a header.
    pub fn read<V: Scalar>(value: V) -> Self {
        Self(value.to_u64() as u32)
    }

    /// Broadcasts the meta that `lane` holds to the whole tile.
    #[device(caller)]
    pub(super) fn from<const W: u32>(self, tile: Tile<W, impl Convergence>, lane: u32) -> Self {
        Self(tile.shuffle(self.0, lane))
    }

    /// Returns the number of levels between the node and the leaves; 0 for a leaf.
    pub const fn level(self) -> u32 {
        self.0 & (Self::LATCH - 1)
    }

    /// Whether the meta is that of a node. It is not for a blank slab, a slab whose header is not visible
    /// yet, or an old version.
    pub const fn is_node(self) -> bool {
        self.level() < Self::OLD.level()
    }

    /// Whether the node is a leaf.
    pub const fn is_leaf(self) -> bool {
        self.level() == 0
    }

    /// Whether the node is an old version of a leaf.
    pub const fn is_old(self) -> bool {
        self.0 == Self::OLD.0
    }

    /// Whether a writer holds the latch.
    pub const fn is_latched(self) -> bool {
        self.0 & Self::LATCH != 0
    }

    /// Whether a leaf is shared.
    pub(crate) const fn is_shared(self) -> bool {
        self.0 & Self::SHARED != 0
    }

    /// Whether a shared leaf is closed to sharers.
    pub(crate) const fn is_closed(self) -> bool {
        self.0 & Self::CLOSED != 0
    }

    /// Whether a leaf has sharers.
    pub(crate) const fn has_sharers(self) -> bool {
        self.0 >= Self::SHARER
    }

    /// Returns the number to add to the meta that a leaf's exclusive holder has read, in order to release the
    /// leaf, which is `shared` from then on or not.
    ///
    /// The holder of the latch of a leaf that is not shared keeps it from being shared, and a shared leaf
    /// stays shared while it is closed. So whether the meta is shared tells which of both the holder has.
    pub(super) const fn release_addend(self, shared: bool) -> u32 {
        let held = if self.is_shared() { Self::SHARED | Self::CLOSED } else { Self::LATCH };
        let left = if shared { Self::SHARED } else { 0 };
        left.wrapping_sub(held)
    }

    /// Returns the unlatched meta of the same level and version.
    pub const fn unlatched(self) -> Self {
        Self(self.0 & !Self::LATCH)
    }

    /// Returns the unlatched meta of the same level and the next version.
    pub const fn after(self) -> Self {
        Self(self.unlatched().0.wrapping_add(Self::LATCH << 1))
    }

    /// Encodes the meta as the value half of a header.
    pub(super) fn value<V: Scalar>(self) -> V {
        V::from_u64(self.0 as u64)
    }
}

/// Decodes the handle in a word's value.
#[device]
pub fn handle_of<V: Scalar>(value: V) -> Handle {
    Handle::from_word(value.to_u64() as u32)
}

/// Returns a word of a key, or of a bound, and a handle.
#[device]
pub fn entry<S: Slot>(key: S::Stored, handle: Handle) -> S::Word {
    S::pack(key, S::Value::from_u64(handle.to_word() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metas_print_their_meaning() {
        let metas = [Meta::free(0).after(), Meta::free(2), Meta::OLD, Meta::read(u32::MAX)];
        assert_eq!(format!("{metas:?}"), "[leaf, version 1, level 2, old version, blank]");
        assert_eq!(format!("{:?}", Meta::read(Meta::LATCH)), "leaf, latched, version 0");
    }
}
