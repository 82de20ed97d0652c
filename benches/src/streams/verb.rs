//! Verbs, and a model of their effect on one key.
use clap::ValueEnum;
use phalanx::Outcome;
use phalanx::map::OpCode;

/// Operation that a batch performs on each of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Verb {
    /// Inserts or replaces the pair.
    Insert,
    /// Inserts the pair if the key is absent.
    InsertNew,
    /// Inserts the pair, or adds to the value.
    Upsert,
    /// Inserts the pair if the key is absent, and returns the value.
    GetOrInsert,
    /// Returns the value.
    Get,
    /// Returns whether the key is present.
    ContainsKey,
    /// Removes the pair.
    Remove,
    /// Mixes all operations of [`OpCode`].
    Execute,
    /// Returns the pair with the next higher key.
    Successor,
    /// Returns the pair with the next lower key.
    Predecessor,
    /// Counts the pairs in a range.
    Count,
    /// Returns the pairs in a range.
    Range,
    /// Counts the values of a key.
    CountValues,
    /// Removes one value of a key.
    RemoveOne,
    /// Removes all values of a key.
    RemoveAll,
}

impl Verb {
    /// Verbs of maps.
    pub const MAP: &[Self] = Self::ORDERED.split_at(8).0;
    /// Verbs of ordered maps: those of maps, and four by key order.
    pub const ORDERED: &[Self] = &[
        Self::Insert,
        Self::InsertNew,
        Self::Upsert,
        Self::GetOrInsert,
        Self::Get,
        Self::ContainsKey,
        Self::Remove,
        Self::Execute,
        Self::Successor,
        Self::Predecessor,
        Self::Count,
        Self::Range,
    ];
    /// Verbs of sets.
    pub const SET: &[Self] = &[Self::InsertNew, Self::ContainsKey, Self::Remove, Self::Execute];
    /// Verbs of multimaps.
    pub const MULTI: &[Self] = &[Self::Insert, Self::CountValues, Self::RemoveOne, Self::RemoveAll];

    /// Returns the name in lists of cells.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Returns the operation for element `index` of a batch.
    pub fn operation(self, index: usize) -> OpCode {
        match self {
            Self::Insert => OpCode::INSERT,
            Self::InsertNew => OpCode::INSERT_NEW,
            Self::Upsert => OpCode::ADD,
            Self::GetOrInsert => OpCode::GET_OR_INSERT,
            Self::Remove => OpCode::REMOVE,
            Self::Execute => OpCode::from_code(index as u32 % 8),
            _ => OpCode::GET,
        }
    }
}

/// Model of the operations' effect on a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// One value per key.
    Map,
    /// Keys without values.
    Set,
    /// Several values per key: the state of a key is their number.
    Multi,
}

/// State of a key: its value, or the number of its values; `None` if it is absent.
pub type State = Option<u64>;

/// Applies an operation to a key. Returns the outcome and, if the operation returns one, the value.
pub fn apply(operation: OpCode, argument: u64, mask: u64, state: &mut State) -> (Outcome, Option<u64>) {
    let Some(old) = *state else {
        if operation == OpCode::GET || operation == OpCode::REMOVE {
            return (Outcome::Absent, None);
        }
        *state = Some(argument);
        return (Outcome::Inserted, Some(argument));
    };
    let (new, outcome) = match operation {
        OpCode::INSERT => (argument, Outcome::Replaced),
        OpCode::ADD => (old.wrapping_add(argument) & mask, Outcome::Replaced),
        OpCode::MIN => (old.min(argument), Outcome::Replaced),
        OpCode::MAX => (old.max(argument), Outcome::Replaced),
        OpCode::REMOVE => {
            *state = None;
            return (Outcome::Removed, None);
        }
        _ => (old, Outcome::Found),
    };
    *state = Some(new);
    (outcome, Some(old))
}
