//! The arrays in the shared memory of a block.
use super::super::site::Site;
use std::any::TypeId;
use std::cell::{Cell, RefCell};

/// Identity of an array.
#[derive(Clone, Copy)]
pub enum Key {
    /// Declaring line: its function and its location. (Identical functions may be merged; locations never
    /// are.)
    Line(usize, Site),
    /// A type that states the array's shape.
    Shape(TypeId),
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Line(function, site), Self::Line(other, place)) => {
                function == other && std::ptr::eq(*site, *place)
            }
            (Self::Shape(shape), Self::Shape(other)) => shape == other,
            _ => false,
        }
    }
}

/// Contents of uninitialised shared memory.
const JUNK: u128 = 0xa5a5_a5a5_5a5a_5a5a_0000_0000_ffff_ffff;

struct Array {
    key: Key,
    words: Box<[Cell<u128>]>,
    /// Per byte: whether it was written. Empty unless tracked.
    written: Box<[Cell<bool>]>,
}

/// The arrays of a block that have been declared so far.
#[derive(Default)]
pub struct SharedMemory {
    arrays: RefCell<Vec<Array>>,
}

impl SharedMemory {
    /// Returns the address of the array `key`, which has `bytes` bytes; creates it on first use.
    pub fn array(&self, key: Key, bytes: usize, track_written: bool) -> u64 {
        let mut arrays = self.arrays.borrow_mut();
        if let Some(array) = arrays.iter().find(|array| array.key == key) {
            return array.words.as_ptr() as u64;
        }
        let words: Box<[_]> = (0..bytes.div_ceil(16).max(1)).map(|_| Cell::new(JUNK)).collect();
        let written = (0..if track_written { bytes } else { 0 }).map(|_| Cell::new(false)).collect();
        let address = words.as_ptr() as u64;
        arrays.push(Array { key, words, written });
        address
    }

    /// Calls `body` with the address and the size of each array.
    pub fn each(&self, mut body: impl FnMut(usize, usize)) {
        self.arrays
            .borrow()
            .iter()
            .for_each(|array| body(array.words.as_ptr() as usize, 16 * array.words.len()));
    }

    /// Marks a write, or returns `true` if the bytes read have been written.
    pub fn written(&self, address: usize, bytes: usize, writes: bool) -> bool {
        let arrays = self.arrays.borrow();
        let array = arrays.iter().find_map(|array| {
            let offset = address.wrapping_sub(array.words.as_ptr() as usize);
            array.written.get(offset..offset.saturating_add(bytes))
        });
        let Some(written) = array else { return true };
        if writes {
            written.iter().for_each(|byte| byte.set(true));
        }
        written.iter().all(Cell::get)
    }
}
