//! Batches of few elements, which are executed in place as they come: each tile finds the shard of its
//! element. To bring the elements into the order of the shards, and to launch a kernel for each, would take
//! longer.
//!
//! # Cost
//!
//! A tile reads a key and the row of its shard, executes the operation in the shard's table, and writes a
//! byte and at most one value. With ranges it also reads a splitter for each bit of their number. Insertions
//! and removals take at most two atomics per element. [`tiered_add_changes`] reads two words per shard.
use super::route::{not_above, shard_of};
use crate::hash_map::{Config, MapView};
use crate::keyed::kernels::{read_if, write_if};
use crate::keyed::{OpCode, Outcome, Scalar, combine};
use simt::{BoundedSlice, GlobalSlice, Instance, Order, Scope, Thread, device, kernel};

/// Words of a shard's row: addresses of the buckets and of the filters, the number of buckets (0 for a shard
/// without a table), and the maximum number of probes.
pub const ROW_WORDS: usize = 4;

/// Words of a shard's changes: pairs added, which may wrap below zero, and slots taken.
pub const CHANGE_WORDS: usize = 2;

/// The shards of a map.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ShardRows<K> {
    rows: GlobalSlice<u64>,
    /// The lowest keys of all shards but the first, sorted; empty if a hash selects the shard.
    splitters: GlobalSlice<K>,
    bits: u32,
    seed: u64,
    /// Counters of long probe sequences of all shards.
    counters: GlobalSlice<u64>,
    changes: GlobalSlice<u32>,
}

impl<K: Scalar> ShardRows<K> {
    /// Returns the shards whose rows are `rows`. The shard of a key is selected by `bits` bits of a hash or,
    /// if there are splitters, by these. `seed` is that of the hash functions.
    ///
    /// # Safety
    /// - Each row describes a table as [`MapView::new`] requires it, of the kind of the kernel that takes the
    ///   rows, and the table has the seed; or its number of buckets is 0.
    /// - `counters` has as many words as a structure has. `changes` has [`CHANGE_WORDS`] words per row.
    /// - All of them outlive all uses of the returned value.
    pub const unsafe fn new(
        rows: GlobalSlice<u64>,
        (splitters, bits, seed): (GlobalSlice<K>, u32, u64),
        (counters, changes): (GlobalSlice<u64>, GlobalSlice<u32>),
    ) -> Self {
        Self { rows, splitters, bits, seed, counters, changes }
    }
}

#[device(caller)]
impl<K: Scalar> ShardRows<K> {
    /// Returns the number of the shard of a key.
    fn shard_of(self, key: K) -> usize {
        if self.splitters.is_empty() {
            return shard_of(key, self.bits, self.seed) as usize;
        }
        not_above(self.splitters, key)
    }

    /// Returns the table of a shard, and whether it has one.
    fn table<M: Config<Key = K>>(self, shard: usize) -> (MapView<M>, bool) {
        let word = |word: usize| self.rows.read(ROW_WORDS * shard + word);
        let (buckets, filters) = (word(0) as usize as *mut u64, word(1) as usize as *mut u32);
        let (count, max_probes) = (word(2) as u32, word(3) as u32);
        // SAFETY: the obligations of `new`. A shard without a table is not accessed; its count is one by
        // which positions can be divided.
        let view =
            unsafe { MapView::new(buckets, filters, self.counters.at(0).as_ptr(), count.max(1), max_probes) };
        (view.with_seed(self.seed), count > 0)
    }

    /// Adds the change of one operation to those of a shard.
    fn note(self, shard: usize, outcome: Outcome) {
        let first = CHANGE_WORDS * shard;
        let add = |word: usize, many: u32| {
            self.changes.at(first + word).fetch_add(many, Order::Relaxed, Scope::Device);
        };
        match outcome {
            Outcome::Inserted => {
                add(0, 1);
                add(1, 1);
            }
            Outcome::Removed => add(0, 1u32.wrapping_neg()),
            _ => {}
        }
    }
}

/// Executes an operation for each key, in place: the one that `code` names or, if there are codes, its own.
/// Takes a tile for each element.
#[kernel]
pub fn tiered_scattered<M: Config + Instance>(
    shards: ShardRows<M::Key>,
    code: u32,
    codes: GlobalSlice<u8>,
    keys: BoundedSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let width = M::TILE as usize;
    let (index, leads) = (Thread::index() / width, Thread::index().is_multiple_of(width));
    let keys = keys.resolve();
    let exists = index < keys.len();
    // All lanes of a tile read the same key, so that all have the table of its shard.
    let (key, own) = (read_if(keys, index, exists), exists && !codes.is_empty());
    let operation = OpCode::from_code(if own { codes.read(index) as u32 } else { code });
    let argument = read_if(arguments, index, exists && !arguments.is_empty());
    let shard = if exists { shards.shard_of(key) } else { 0 };
    let (table, has_table) = shards.table::<M>(shard);
    let brings = exists && leads;
    M::enter(table);
    let (outcome, value) = combine::execute::<M, _>(table, brings && has_table, operation, key, argument);
    M::leave(table);
    if brings {
        let outcome = if has_table { outcome } else { Outcome::Absent };
        write_if(outcomes, index, outcome as u8);
        write_if(results, index, value);
        shards.note(shard, outcome);
    }
}

/// Adds the changes of each shard to its sums, of `each` words, of which no other has the shard's.
#[kernel]
pub fn tiered_add_changes(changes: GlobalSlice<u32>, sums: GlobalSlice<u64>, each: u32) {
    let shard = Thread::index();
    if shard >= changes.len() / CHANGE_WORDS {
        return;
    }
    let first = CHANGE_WORDS * shard;
    let (live, taken) = (changes.read(first) as i32 as i64 as u64, changes.read(first + 1) as u64);
    if (live | taken) != 0 {
        let sums = sums.part(shard * each as usize, CHANGE_WORDS);
        sums.write(0, sums.read(0).wrapping_add(live));
        sums.write(1, sums.read(1).wrapping_add(taken));
    }
}
