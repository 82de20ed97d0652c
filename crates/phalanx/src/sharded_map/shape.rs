//! The columns of an operation, which all ranks must agree on.
use super::geometry::Sizes;
use super::work::words_at;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, nothing};
use phalanx_kernels::sharded::values_at;
use simt::{BoundedSlice, GlobalSlice};

/// An operation, as a rank calls it.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub op: BatchOp,
    /// Whether outcomes are returned.
    pub has_answers: bool,
    /// Whether the ranks try refused elements again together.
    pub retries: bool,
}

impl Call {
    /// Returns a batch on host slices.
    pub fn on_host(op: BatchOp) -> Self {
        Self { op, has_answers: true, retries: op.writes() }
    }

    /// Returns a batch on device buffers.
    pub fn on_device(op: BatchOp, has_answers: bool) -> Self {
        Self { op, has_answers, retries: false }
    }
}

/// An operation, and the bytes that move for each of its elements.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub op: BatchOp,
    /// Bytes of a key, and of an argument that moves with it: 0 if there is none.
    pub sent: Sizes,
    /// Bytes of an answer's value; 0 if there is none.
    pub value: usize,
    /// Whether outcomes are returned.
    pub has_answers: bool,
    /// As [`Call::retries`].
    retries: bool,
}

/// Names of the words that the ranks compare.
pub const COMPARED: [&str; 5] =
    ["operation", "bytes per key", "bytes per argument", "bytes per value returned", "request for outcomes"];

impl Shape {
    /// Returns the shape of an operation with words of keys and values.
    pub fn new<K, V>(Call { op, has_answers, retries }: Call) -> Self {
        let (takes, returns) = columns_of(op);
        let bytes = |has: bool| if has { size_of::<V>() } else { 0 };
        Self { op, sent: (size_of::<K>(), bytes(takes)), value: bytes(returns), has_answers, retries }
    }

    /// Returns the words that the ranks compare.
    pub fn words(&self) -> [u64; COMPARED.len()] {
        let ((key, argument), value) = (self.sent, self.value);
        let operation = number_of(self.op) + (u64::from(self.retries) << 15);
        [operation, key as u64, argument as u64, value as u64, self.has_answers.into()]
    }

    /// Returns the batch of the elements of a part, which has room for `room` of them: `keys`, and behind
    /// these the arguments. The answers are written as a part, too.
    pub fn batch_of<K: Word, V: Word>(
        &self,
        keys: impl Into<BoundedSlice<K>>,
        (part, room): (GlobalSlice<u8>, usize),
        answers: GlobalSlice<u8>,
    ) -> Batch<K, V> {
        let ((key, argument), value) = (self.sent, self.value);
        let mut batch = Batch::new(self.op, keys);
        if argument > 0 {
            batch.arguments = words_at(part, values_at(room, key), room);
        }
        if value > 0 {
            batch.results = words_at(answers, 0, room);
        }
        batch.outcomes = if self.has_answers { answers.part(room * value, room) } else { nothing() };
        batch
    }

    /// Returns the bytes of the answers to `count` elements.
    pub fn answer_bytes(&self, count: usize) -> usize {
        count * (self.value + 1)
    }
}

/// Returns the number that stands for an operation.
fn number_of(op: BatchOp) -> u64 {
    match op {
        BatchOp::Insert => 1,
        BatchOp::InsertNew => 2,
        BatchOp::Get => 3,
        BatchOp::ContainsKey => 4,
        BatchOp::Remove => 5,
        BatchOp::Take => 6,
        BatchOp::Replace => 7,
        BatchOp::GetOrInsert => 8,
        BatchOp::Mixed => 9,
        BatchOp::Upsert(operation) => 16 + u64::from(operation.code()),
    }
}

/// Returns whether an operation takes an argument, and whether it returns values.
fn columns_of(op: BatchOp) -> (bool, bool) {
    match op {
        BatchOp::Insert | BatchOp::InsertNew | BatchOp::Upsert(_) => (true, false),
        BatchOp::Get | BatchOp::Take => (false, true),
        BatchOp::Replace | BatchOp::GetOrInsert | BatchOp::Mixed => (true, true),
        BatchOp::ContainsKey | BatchOp::Remove => (false, false),
    }
}
