//! Streams of operations: the input of one batch.

/// Kind of an operation. The discriminants are stable: kernels may take them as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Reads a key that may be present.
    #[default]
    Read = 0,
    /// Reads a key that is certainly present.
    FindHit = 1,
    /// Reads a key that is certainly absent.
    FindMiss = 2,
    /// Inserts an absent key.
    Insert = 3,
    /// Overwrites the value of a present key.
    Update = 4,
    /// Adds the operation's value to the value of a present key and returns the old value.
    ReadModifyWrite = 5,
    /// Removes a present key.
    Remove = 6,
    /// Reads as many pairs as the operation's value, starting at the key.
    Scan = 7,
}

/// Operations in order, as three parallel arrays of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream<K, V> {
    /// Kind of each operation.
    pub ops: Vec<Op>,
    /// Key of each operation.
    pub keys: Vec<K>,
    /// Value of each operation, depending on its kind: the value to insert, write or add, or the number of
    /// pairs to scan. Reads and removals hold the value that the key was loaded with; certain misses hold 0.
    pub values: Vec<V>,
}

impl<K, V> Stream<K, V> {
    /// Returns the number of operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Returns `true` if there are no operations.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// Returns the number of operations of kind `op`.
    pub fn count(&self, op: Op) -> usize {
        self.ops.iter().filter(|&&found| found == op).count()
    }

    /// Creates the stream from `(op, key, value)` triples.
    pub(crate) fn unzip(operations: Vec<(Op, K, V)>) -> Self {
        let (ops, keys, values) = operations.into_iter().collect();
        Self { ops, keys, values }
    }
}
