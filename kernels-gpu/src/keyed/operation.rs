//! What an operation does once the walk has found its key or come to the end: policies of the one probe loop.
use simt::Shuffle;

/// What became of an operation. Kernels write it as a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Outcome {
    /// No room: the key is not in the map, and the map is as it was.
    Refused = 0,
    /// The key was not there and is now.
    Inserted = 1,
    /// The key was there and its value was written.
    Replaced = 2,
    /// The key is there, untouched.
    Found = 3,
    /// The key was there and is gone.
    Removed = 4,
    /// The key is not there.
    Absent = 5,
}

impl Outcome {
    /// The outcome that a kernel wrote as `code`.
    pub fn from_code(code: u8) -> Option<Self> {
        use Outcome::*;
        [Refused, Inserted, Replaced, Found, Removed, Absent].get(code as usize).copied()
    }
}

impl Shuffle for Outcome {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        // Whatever the word has become, these bits of it and no more make an outcome; lanes bring outcomes,
        // which stay as they are.
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

/// What to do with a key that is there. Each is one atomic operation on the value's or the key's half of the
/// slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Leave it.
    Keep,
    /// Write the argument.
    Set,
    /// Add the argument, wrapping.
    Add,
    /// Keep the smaller of value and argument.
    Min,
    /// Keep the larger.
    Max,
    /// Remove the key.
    Erase,
}

/// An operation on one key.
pub trait Operation: Shuffle {
    /// Whether it may change the table; where it may not, the code for that is not compiled.
    const WRITES: bool;
    /// Whether it always inserts a key that is not there.
    const PLACES_ALWAYS: bool;
    /// Whether its caller wants a value.
    const RETURNS: bool;
    /// Whether it looks for its key at all. What does not, places another one beside those that are there.
    #[inline(always)]
    fn matches(self) -> bool {
        true
    }

    /// Whether a key that is not there is to be inserted.
    fn places(self) -> bool;
    /// What to do where the key is there.
    fn change(self) -> Change;
    /// What has happened then.
    fn outcome(self) -> Outcome;
}

macro_rules! operations {
    ($(
        $(#[$doc:meta])*
        $name:ident: matches $matches:literal, writes $writes:literal, returns $returns:literal,
            places $places:literal, $change:ident, $outcome:ident;
    )*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;

        impl Shuffle for $name {
            #[inline(always)]
            fn map_words(self, _word: impl FnMut(u32) -> u32) -> Self {
                self
            }
        }

        impl Operation for $name {
            const WRITES: bool = $writes;
            const PLACES_ALWAYS: bool = $places;
            const RETURNS: bool = $returns;

            #[inline(always)]
            fn matches(self) -> bool {
                $matches
            }

            #[inline(always)]
            fn places(self) -> bool {
                $places
            }

            #[inline(always)]
            fn change(self) -> Change {
                Change::$change
            }

            #[inline(always)]
            fn outcome(self) -> Outcome {
                Outcome::$outcome
            }
        }
    )*};
}

operations! {
    /// Looks the value up.
    Get: matches true, writes false, returns true, places false, Keep, Found;
    /// Looks whether the key is there.
    ContainsKey: matches true, writes false, returns false, places false, Keep, Found;
    /// Inserts, or replaces the value.
    Insert: matches true, writes true, returns false, places true, Set, Replaced;
    /// Inserts, or leaves the value.
    InsertNew: matches true, writes true, returns false, places true, Keep, Found;
    /// Places a pair behind all others, whether or not its key is there: what lists do where a key may have
    /// many values.
    Append: matches false, writes true, returns false, places true, Keep, Inserted;
    /// Removes.
    Remove: matches true, writes true, returns false, places false, Erase, Removed;
}

/// How an upsert joins the value that is there with the one that is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Merge {
    /// The sum, wrapping.
    Add,
    /// The smaller.
    Min,
    /// The larger.
    Max,
}

impl Merge {
    /// The operation that inserts or merges.
    #[inline(always)]
    pub fn operation(self) -> Coded {
        match self {
            Self::Add => Coded::ADD,
            Self::Min => Coded::MIN,
            Self::Max => Coded::MAX,
        }
    }
}

/// Any operation, chosen when it runs: the operations of a mixed batch, and the merging ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coded(u32);

impl Coded {
    /// [`Get`].
    pub const GET: Self = Self(0);
    /// [`Insert`].
    pub const INSERT: Self = Self(1);
    /// [`InsertNew`].
    pub const INSERT_NEW: Self = Self(2);
    /// [`Remove`].
    pub const REMOVE: Self = Self(3);
    /// Inserts, or leaves the value and returns it.
    pub const GET_OR_INSERT: Self = Self(4);
    /// Inserts, or adds to the value, wrapping.
    pub const ADD: Self = Self(5);
    /// Inserts, or keeps the smaller value.
    pub const MIN: Self = Self(6);
    /// Inserts, or keeps the larger value.
    pub const MAX: Self = Self(7);

    /// The operation of a code. A code that is none looks its key up.
    #[inline(always)]
    pub fn from_code(code: u32) -> Self {
        if code <= Self::MAX.0 { Self(code) } else { Self::GET }
    }

    /// The code.
    #[inline(always)]
    pub fn code(self) -> u32 {
        self.0
    }
}

impl Shuffle for Coded {
    #[inline(always)]
    fn map_words(self, mut word: impl FnMut(u32) -> u32) -> Self {
        Self(word(self.0))
    }
}

impl Operation for Coded {
    const WRITES: bool = true;
    const PLACES_ALWAYS: bool = false;
    const RETURNS: bool = true;

    #[inline(always)]
    fn places(self) -> bool {
        self != Self::GET && self != Self::REMOVE
    }

    #[inline(always)]
    fn change(self) -> Change {
        match self {
            Self::INSERT => Change::Set,
            Self::REMOVE => Change::Erase,
            Self::ADD => Change::Add,
            Self::MIN => Change::Min,
            Self::MAX => Change::Max,
            _ => Change::Keep,
        }
    }

    #[inline(always)]
    fn outcome(self) -> Outcome {
        match self {
            Self::REMOVE => Outcome::Removed,
            Self::GET | Self::INSERT_NEW | Self::GET_OR_INSERT => Outcome::Found,
            _ => Outcome::Replaced,
        }
    }
}

/// Any operation on a map with many values a key, chosen when it runs: [`Coded::INSERT`] appends, the others
/// deal with the first pair of the key as they do with a map's only one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodedOfMany(pub Coded);

impl Shuffle for CodedOfMany {
    #[inline(always)]
    fn map_words(self, word: impl FnMut(u32) -> u32) -> Self {
        Self(self.0.map_words(word))
    }
}

impl Operation for CodedOfMany {
    const WRITES: bool = Coded::WRITES;
    const PLACES_ALWAYS: bool = Coded::PLACES_ALWAYS;
    const RETURNS: bool = Coded::RETURNS;

    #[inline(always)]
    fn matches(self) -> bool {
        self.0 != Coded::INSERT
    }

    #[inline(always)]
    fn places(self) -> bool {
        self.0.places()
    }

    #[inline(always)]
    fn change(self) -> Change {
        self.0.change()
    }

    #[inline(always)]
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
