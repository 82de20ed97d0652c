//! The verbs, and a model of what each does to one key.
use phalanx::Outcome;
use phalanx::map::Coded;

/// What a batch asks for each of its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Inserts or replaces.
    Insert,
    /// Inserts where the key is absent.
    InsertNew,
    /// Inserts or adds.
    Upsert,
    /// Inserts where the key is absent, and returns the value.
    GetOrInsert,
    /// Returns the value.
    Get,
    /// Tells whether the key is there.
    ContainsKey,
    /// Removes.
    Remove,
    /// Mixes all operations that [`Coded`] has.
    Execute,
    /// Finds the next higher pair.
    Successor,
    /// Finds the next lower pair.
    Predecessor,
    /// Counts the pairs of a range.
    Count,
    /// Returns the pairs of a range.
    Range,
    /// Counts the values of a key.
    CountValues,
    /// Removes one value of a key.
    RemoveOne,
    /// Removes all values of a key.
    RemoveAll,
}

impl Verb {
    /// The verbs of maps.
    pub const MAP: [Self; 8] = [
        Self::Insert,
        Self::InsertNew,
        Self::Upsert,
        Self::GetOrInsert,
        Self::Get,
        Self::ContainsKey,
        Self::Remove,
        Self::Execute,
    ];
    /// The verbs of ordered maps.
    pub const ORDERED: [Self; 12] = [
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
    /// The verbs of sets.
    pub const SET: [Self; 4] = [Self::InsertNew, Self::ContainsKey, Self::Remove, Self::Execute];
    /// The verbs of maps with several values a key.
    pub const MULTI: [Self; 4] = [Self::Insert, Self::CountValues, Self::RemoveOne, Self::RemoveAll];

    /// The name in lists of cells.
    pub fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::InsertNew => "insert_new",
            Self::Upsert => "upsert",
            Self::GetOrInsert => "get_or_insert",
            Self::Get => "get",
            Self::ContainsKey => "contains_key",
            Self::Remove => "remove",
            Self::Execute => "execute",
            Self::Successor => "successor",
            Self::Predecessor => "predecessor",
            Self::Count => "count",
            Self::Range => "range",
            Self::CountValues => "count_values",
            Self::RemoveOne => "remove_one",
            Self::RemoveAll => "remove_all",
        }
    }

    /// Whether it asks for neighbours in the order of keys.
    pub fn is_ordered(self) -> bool {
        matches!(self, Self::Successor | Self::Predecessor | Self::Count | Self::Range)
    }

    /// The operation of element `index` of a batch.
    pub fn operation(self, index: usize) -> Coded {
        match self {
            Self::Insert => Coded::INSERT,
            Self::InsertNew => Coded::INSERT_NEW,
            Self::Upsert => Coded::ADD,
            Self::GetOrInsert => Coded::GET_OR_INSERT,
            Self::Remove => Coded::REMOVE,
            Self::Execute => Coded::from_code(index as u32 % 8),
            _ => Coded::GET,
        }
    }
}

/// How a structure's operations change a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// One value a key.
    Map,
    /// Keys without values.
    Set,
    /// Several values a key: the state of a key is their number.
    Multi,
}

/// What is known of a key: its value, or the number of its values; nothing where it is absent.
pub type State = Option<u64>;

/// Applies an operation to a key, and returns the outcome and, where the operation tells it, the value.
pub fn apply(operation: Coded, argument: u64, mask: u64, state: &mut State) -> (Outcome, Option<u64>) {
    let Some(old) = *state else {
        if operation == Coded::GET || operation == Coded::REMOVE {
            return (Outcome::Absent, None);
        }
        *state = Some(argument);
        return (Outcome::Inserted, Some(argument));
    };
    let (new, outcome) = match operation {
        Coded::INSERT => (argument, Outcome::Replaced),
        Coded::ADD => (old.wrapping_add(argument) & mask, Outcome::Replaced),
        Coded::MIN => (old.min(argument), Outcome::Replaced),
        Coded::MAX => (old.max(argument), Outcome::Replaced),
        Coded::REMOVE => {
            *state = None;
            return (Outcome::Removed, None);
        }
        _ => (old, Outcome::Found),
    };
    *state = Some(new);
    (outcome, Some(old))
}
