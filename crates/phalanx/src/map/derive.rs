//! Functions that implementations by `#[derive(Key)]` and `#[derive(Value)]` call.
//!
//! ```
//! use phalanx::map::derive::{Packed, struct_name};
//!
//! let mut fields = Packed::default();
//! fields.push(16, 7u32);
//! fields.push(1, 1u32);
//! let word: u32 = fields.word();
//! let mut fields = Packed::of(word);
//! assert_eq!((word, fields.pop(1), fields.pop(16)), (15, 1u32, 7u32));
//! assert!(fields.is_empty());
//! assert_eq!(struct_name(&["u16".into(), "bool".into()]), "(u16, bool)");
//! ```
//!
//! # Cost
//!
//! All functions are arithmetic on the host, O(1); `struct_name` joins the names.
use super::Word;

/// The number of 32-bit words that the fields of a struct need.
pub struct Words<const COUNT: u32>;

/// A number of words for which there is a type of words.
#[diagnostic::on_unimplemented(
    message = "the fields of a key or value have 1 to 64 bits altogether",
    label = "these fields have another number of bits",
    note = "use narrower types: `i16` has 16 bits, `bool` 1, `char` 21"
)]
pub trait HaveWord {
    /// The type of words.
    type Word: Word;
}

impl HaveWord for Words<1> {
    type Word = u32;
}

impl HaveWord for Words<2> {
    type Word = u64;
}

/// The words of fields, side by side, those of the last field lowest.
///
/// # Cost
///
/// `push`, `pop` and the others are arithmetic on the host, O(1).
#[derive(Default)]
pub struct Packed(u64);

impl Packed {
    /// Unpacks the word of a struct.
    pub fn of(word: impl Word) -> Self {
        Self(word.to_u64())
    }

    /// Returns the word of the struct.
    pub fn word<W: Word>(self) -> W {
        W::from_u64(self.0)
    }

    /// Adds the word of the next field, of which `width` bits are used.
    pub fn push(&mut self, width: u32, word: impl Word) {
        self.0 = self.0.unbounded_shl(width) | word.to_u64();
    }

    /// Removes the word of the last field.
    pub fn pop<W: Word>(&mut self, width: u32) -> W {
        let rest = self.0.unbounded_shr(width);
        let word = W::from_u64(self.0 ^ rest.unbounded_shl(width));
        self.0 = rest;
        word
    }

    /// Returns whether no bits are left.
    pub fn is_empty(&self) -> bool {
        self.0 == 0
    }
}

/// Returns the name of the encoding of a struct whose fields have these names.
pub fn struct_name(fields: &[String]) -> String {
    format!("({})", fields.join(", "))
}
