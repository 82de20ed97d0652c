//! Accesses as data.
use super::super::site::Site;
use crate::{Order, Scope};
use simt_macros::device;

/// An access: its bytes, its order and scope, and its source line.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub address: usize,
    /// Size: 1, 4, 8 or 16.
    pub bytes: usize,
    pub order: Order,
    pub scope: Scope,
    pub site: Site,
}

/// All properties of an access except address and source line: those known at compile time, in one register.
#[derive(Clone, Copy, Debug)]
pub struct How {
    bytes: u8,
    order: Order,
    scope: Scope,
}

#[device]
impl How {
    /// Returns the properties of an access to a word of type `T`.
    pub const fn of<T>(order: Order, scope: Scope) -> Self {
        Self { bytes: size_of::<T>() as u8, order, scope }
    }

    /// Returns the size of the word, in bytes.
    pub const fn byte_len(self) -> usize {
        self.bytes as usize
    }

    /// Returns the access at an address and a source line.
    pub fn at(self, address: usize, site: Site) -> Access {
        Access { address, bytes: self.byte_len(), order: self.order, scope: self.scope, site }
    }
}

impl From<&Access> for How {
    fn from(access: &Access) -> Self {
        Self { bytes: access.bytes as u8, order: access.order, scope: access.scope }
    }
}
