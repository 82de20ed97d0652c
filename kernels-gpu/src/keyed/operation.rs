//! Operations on one key: policies of the one probe loop, which apply once the search has found the key or
//! has ended.
use simt::{Shuffle, device};

/// Outcome of an operation. Kernels write it as a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// The structure was full: the key is not in it, and nothing changed.
    Refused = 0,
    /// The key was absent and has been inserted.
    Inserted = 1,
    /// The key was present and its value has been written.
    Replaced = 2,
    /// The key is present and unchanged.
    Found = 3,
    /// The key was present and has been removed.
    Removed = 4,
    /// The key is absent.
    Absent = 5,
}

impl Outcome {
    /// Returns the outcome with the code `code`, or `None` for an unknown code.
    pub fn from_code(code: u8) -> Option<Self> {
        use Outcome::*;
        [Refused, Inserted, Replaced, Found, Removed, Absent].get(code as usize).copied()
    }
}

#[device]
impl Outcome {
    /// Returns whether the key was present and still is.
    pub(crate) fn is_update(self) -> bool {
        matches!(self, Self::Replaced | Self::Found)
    }
}

impl Shuffle for Outcome {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        // Masked to three bits and matched, so that every word maps to a valid outcome. Lanes shuffle only
        // the codes of outcomes, which map to themselves.
        match word(self as u32) & 7 {
            1 => Self::Inserted,
            2 => Self::Replaced,
            3 => Self::Found,
            4 => Self::Removed,
            5 => Self::Absent,
            _ => Self::Refused,
        }
    }
}

/// Change to make to a key that is present. Each is one atomic operation on the value half or the key half of
/// the slot, or on the whole slot ([`Operation::EXCHANGES`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave the pair unchanged.
    Keep,
    /// Write the argument.
    Set,
    /// Add the argument, wrapping.
    Add,
    /// Add the argument, wrapping; both are words of signed integers.
    AddSigned,
    /// Add the argument; both are words of floats.
    AddFloat,
    /// Keep the smaller of value and argument.
    Min,
    /// Keep the larger of value and argument.
    Max,
    /// Remove the key.
    Erase,
}

#[device]
impl Change {
    /// Returns whether the new value depends on both the old one and the argument.
    pub(crate) fn merges(self) -> bool {
        !matches!(self, Self::Keep | Self::Erase | Self::Set)
    }
}

/// Places where one lane executes equal operations on equal keys for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// Nowhere.
    Never,
    /// In batches: those of a block, if the batch has equal keys.
    InBatches,
    /// In batches, and those of a warp in sessions of [`PerLane`](super::PerLane).
    Always,
}

impl Combination {
    /// Returns whether operations are combined in `place`, which is not [`Self::Never`].
    #[device]
    pub const fn includes(self, place: Self) -> bool {
        self as u8 >= place as u8
    }
}

/// An operation on one key.
pub trait Operation: Shuffle {
    /// Whether the operation may change the table. If not, the code for changes is not compiled.
    const WRITES: bool;
    /// Whether the operation always inserts an absent key.
    const PLACES_ALWAYS: bool;
    /// Whether the operation returns a value.
    const RETURNS: bool;
    /// Whether the operation returns the very value that it removes or replaces: it changes the pair as a
    /// whole.
    const EXCHANGES: bool = false;
    /// Where one lane executes equal operations on equal keys for all of them, in structures that support it
    /// there ([`Kind::COMBINES`](super::Kind::COMBINES)). Measured: in sessions this pays for operations that
    /// write, and costs lookups and mixed operations of distinct keys 5 %.
    const COMBINES: Combination = Combination::Never;
    /// Whether the operation always removes the key.
    const REMOVES: bool = false;
    /// Whether the change may be one that [merges](Merge) values.
    const MERGES: bool = false;

    /// Whether the key may have several pairs, of which the operation concerns the first. Then a search that
    /// does not find the key takes more care: see [`OfMany`].
    const OF_MANY: bool = false;

    /// Returns whether the other operation, of the same type, does the same.
    #[device]
    fn is_same(self, _other: Self) -> bool {
        true
    }

    /// Returns whether the operation searches for its key. If not, it inserts a further pair beside the
    /// existing ones.
    #[device]
    fn matches(self) -> bool {
        true
    }

    /// Returns whether a tile of a hash map reads a bucket in steps, and stops at the one with the key: fewer
    /// bytes, but one access after the other. The same for all lanes of a launch. Only for operations that do
    /// not write, while nothing removes pairs: a removed pair that is read as it was would hide the key's
    /// next one.
    #[device]
    fn reads_in_steps(self) -> bool {
        false
    }

    /// Returns whether an absent key is inserted.
    fn places(self) -> bool;
    /// Returns the change to make if the key is present.
    fn change(self) -> Change;
    /// Returns the outcome of that change.
    fn outcome(self) -> Outcome;
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $name:ident: matches $matches:literal, writes $writes:literal, returns $returns:literal,
            places $places:literal, combines $combines:ident, $change:ident, $outcome:ident;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Shuffle for $name {
            #[device]
            fn map_words(self, _word: impl FnMut(u32) -> u32) -> Self {
                self
            }
        }

        #[device]
        impl Operation for $name {
            const WRITES: bool = $writes;
            const PLACES_ALWAYS: bool = $places;
            const RETURNS: bool = $returns;
            const EXCHANGES: bool = $writes && $returns;
            const COMBINES: Combination = Combination::$combines;
            const REMOVES: bool = matches!(Change::$change, Change::Erase);

            fn matches(self) -> bool {
                $matches
            }

            fn places(self) -> bool {
                $places
            }

            fn change(self) -> Change {
                Change::$change
            }

            fn outcome(self) -> Outcome {
                Outcome::$outcome
            }
        }
    )*};
}

operations! {
    /// Lookup of a value.
    Get: matches true, writes false, returns true, places false, combines Never, Keep, Found;
    /// Membership test.
    ContainsKey: matches true, writes false, returns false, places false, combines Never, Keep, Found;
    /// Insertion that replaces the value of a present key.
    Insert: matches true, writes true, returns false, places true, combines Always, Set, Replaced;
    /// Insertion that leaves the value of a present key unchanged.
    InsertNew: matches true, writes true, returns false, places true, combines Always, Keep, Found;
    /// Insertion that leaves the value of a present key unchanged, and returns the value.
    GetOrInsert: matches true, writes true, returns true, places true, combines Always, Keep, Found;
    /// Insertion of a pair behind all others, whether or not its key is present. Lists with several values
    /// per key use it.
    Append: matches false, writes true, returns false, places true, combines Never, Keep, Inserted;
    /// Removal.
    Remove: matches true, writes true, returns false, places false, combines Always, Erase, Removed;
    /// Removal that returns the value.
    Take: matches true, writes true, returns true, places false, combines Always, Erase, Removed;
    /// Insertion that replaces the value of a present key, and returns the old one.
    Replace: matches true, writes true, returns true, places true, combines Always, Set, Replaced;
}

/// Function by which an upsert combines the stored value with the argument. `Min` and `Max` compare words, so
/// they are right for the words of every type (see [`Encoded`](super::Encoded)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// Wrapping sum of unsigned integers.
    Add,
    /// Wrapping sum of the signed integers that the words encode.
    AddSigned,
    /// Sum of the floats that the words encode.
    AddFloat,
    /// Minimum.
    Min,
    /// Maximum.
    Max,
}

impl Merge {
    /// Returns the operation that inserts an absent key and merges into a present one.
    #[device]
    pub fn operation(self) -> OpCode {
        match self {
            Self::Add => OpCode::ADD,
            Self::AddSigned => OpCode::ADD_SIGNED,
            Self::AddFloat => OpCode::ADD_FLOAT,
            Self::Min => OpCode::MIN,
            Self::Max => OpCode::MAX,
        }
    }
}

/// Operation chosen at run time: those of a mixed batch, and the merging operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpCode(u32);

#[device]
impl OpCode {
    /// [`Get`].
    pub const GET: Self = Self(0);
    /// [`Insert`].
    pub const INSERT: Self = Self(1);
    /// [`InsertNew`].
    pub const INSERT_NEW: Self = Self(2);
    /// [`Remove`].
    pub const REMOVE: Self = Self(3);
    /// Inserts the pair, or leaves the value and returns it.
    pub const GET_OR_INSERT: Self = Self(4);
    /// Inserts the pair, or adds to the value, wrapping.
    pub const ADD: Self = Self(5);
    /// Inserts the pair, or keeps the smaller value.
    pub const MIN: Self = Self(6);
    /// Inserts the pair, or keeps the larger value.
    pub const MAX: Self = Self(7);
    /// Inserts the pair, or adds to the value, wrapping; both are words of signed integers.
    pub const ADD_SIGNED: Self = Self(8);
    /// Inserts the pair, or adds to the value; both are words of floats.
    pub const ADD_FLOAT: Self = Self(9);

    /// Returns the operation with the code `code`, or [`Self::GET`] for an unknown code.
    pub fn from_code(code: u32) -> Self {
        if code <= Self::ADD_FLOAT.0 { Self(code) } else { Self::GET }
    }

    /// Returns the code of the operation.
    pub fn code(self) -> u32 {
        self.0
    }
}

impl Shuffle for OpCode {
    #[device]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        Self(word(self.0))
    }
}

#[device]
impl Operation for OpCode {
    const WRITES: bool = true;
    const PLACES_ALWAYS: bool = false;
    const RETURNS: bool = true;
    const COMBINES: Combination = Combination::InBatches;
    const MERGES: bool = true;

    fn is_same(self, other: Self) -> bool {
        self == other
    }

    fn places(self) -> bool {
        self != Self::GET && self != Self::REMOVE
    }

    fn change(self) -> Change {
        match self {
            Self::INSERT => Change::Set,
            Self::REMOVE => Change::Erase,
            Self::ADD => Change::Add,
            Self::ADD_SIGNED => Change::AddSigned,
            Self::ADD_FLOAT => Change::AddFloat,
            Self::MIN => Change::Min,
            Self::MAX => Change::Max,
            _ => Change::Keep,
        }
    }

    fn outcome(self) -> Outcome {
        match self {
            Self::REMOVE => Outcome::Removed,
            Self::GET | Self::INSERT_NEW | Self::GET_OR_INSERT => Outcome::Found,
            _ => Outcome::Replaced,
        }
    }
}

/// Insertion of an absent pair, or the change of the value of a present key by a merging operation
/// ([`Merge::operation`]). Unlike the operation itself, it does not return the previous value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Upsert(pub OpCode);

impl Shuffle for Upsert {
    #[device]
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self {
        Self(self.0.map_words(word))
    }
}

#[device]
impl Operation for Upsert {
    const WRITES: bool = true;
    const PLACES_ALWAYS: bool = true;
    const RETURNS: bool = false;
    const COMBINES: Combination = Combination::Always;
    const MERGES: bool = true;

    fn is_same(self, other: Self) -> bool {
        self == other
    }

    fn places(self) -> bool {
        true
    }

    /// Any operation that does not merge adds.
    fn change(self) -> Change {
        match self.0 {
            OpCode::ADD_SIGNED => Change::AddSigned,
            OpCode::ADD_FLOAT => Change::AddFloat,
            OpCode::MIN => Change::Min,
            OpCode::MAX => Change::Max,
            _ => Change::Add,
        }
    }

    fn outcome(self) -> Outcome {
        Outcome::Replaced
    }
}

/// The operation `O` on the first pair of a key that may have several. In slab lists, operations for keys
/// with one pair at most concern any of several pairs, and may miss a key while all its pairs are removed and
/// others are inserted; this one does not.
#[derive(Clone, Copy, Debug)]
pub struct OfMany<O>(pub O);

impl<O: Operation> Shuffle for OfMany<O> {
    #[device]
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self {
        Self(self.0.map_words(word))
    }
}

#[device]
impl<O: Operation> Operation for OfMany<O> {
    const WRITES: bool = O::WRITES;
    const PLACES_ALWAYS: bool = O::PLACES_ALWAYS;
    const RETURNS: bool = O::RETURNS;
    const EXCHANGES: bool = O::EXCHANGES;
    const REMOVES: bool = O::REMOVES;
    const MERGES: bool = O::MERGES;
    const OF_MANY: bool = true;

    fn matches(self) -> bool {
        self.0.matches()
    }

    fn places(self) -> bool {
        self.0.places()
    }

    fn change(self) -> Change {
        self.0.change()
    }

    fn outcome(self) -> Outcome {
        self.0.outcome()
    }
}

/// Operation chosen at run time on a map with several values per key: [`OpCode::INSERT`] appends; the other
/// codes act on the first pair of the key as they do on the only pair in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MultiOpCode(pub OpCode);

impl Shuffle for MultiOpCode {
    #[device]
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self {
        Self(self.0.map_words(word))
    }
}

#[device]
impl Operation for MultiOpCode {
    const WRITES: bool = OpCode::WRITES;
    const PLACES_ALWAYS: bool = OpCode::PLACES_ALWAYS;
    const RETURNS: bool = OpCode::RETURNS;
    const OF_MANY: bool = true;

    fn matches(self) -> bool {
        self.0 != OpCode::INSERT
    }

    fn places(self) -> bool {
        self.0.places()
    }

    fn change(self) -> Change {
        self.0.change()
    }

    fn outcome(self) -> Outcome {
        self.0.outcome()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_are_no_outcome_make_none() {
        let outcome = Outcome::Found.map_words(|_| 200);
        let known = (0..=u8::MAX).filter_map(Outcome::from_code);
        assert!(known.into_iter().any(|known| known as u8 == outcome as u8), "{}", outcome as u8);
        for code in 0..6 {
            assert_eq!(Outcome::Refused.map_words(|_| code) as u32, code);
        }
    }
}
