//! Streams of operations: what one batch asks of a structure.

/// What an operation asks for. The numbers are stable: kernels may take them as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Read a key that may be there.
    #[default]
    Read = 0,
    /// Read a key that is certainly there.
    FindHit = 1,
    /// Read a key that is certainly not there.
    FindMiss = 2,
    /// Insert a key that is not there.
    Insert = 3,
    /// Write the value of a key that is there.
    Update = 4,
    /// Add the operation's value to the value of a key that is there, giving the old one.
    ReadModifyWrite = 5,
    /// Remove a key that is there.
    Remove = 6,
    /// Read as many pairs as the operation's value says, from the key on.
    Scan = 7,
}

/// Operations in order, as three parallel arrays of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Stream<K, V> {
    /// What each operation asks for.
    pub ops: Vec<Op>,
    /// Its key.
    pub keys: Vec<K>,
    /// Its value, by operation: what to insert or write, what to add, how many to scan. A read carries the
    /// value that the key was loaded with, a remove too; a certain miss carries 0.
    pub values: Vec<V>,
}

impl<K, V> Stream<K, V> {
    /// Operations.
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    /// How many operations ask for `op`.
    pub fn count(&self, op: Op) -> usize {
        self.ops.iter().filter(|&&found| found == op).count()
    }

    /// The stream of `(op, key, value)`.
    pub(crate) fn unzip(operations: Vec<(Op, K, V)>) -> Self {
        let (ops, keys, values) = operations.into_iter().collect();
        Self { ops, keys, values }
    }
}
