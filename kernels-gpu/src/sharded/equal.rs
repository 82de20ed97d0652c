//! Equal keys of a batch, of which only one goes to its owner.
//!
//! ```text
//! sorted keys   3  3  3  5  9  9      by a stable sort, with the order of the batch beside them
//! heads         1  0  0  1  1  0      a key that differs from the one before
//! runs          1  1  1  2  3  3      inclusive sums: the number of the run, from 1
//! distinct      3  5  9
//! ```
//!
//! # Cost
//!
//! Each kernel reads and writes each element once. [`sharded_distinct`] reads values, and [`sharded_expand`]
//! writes results, at random addresses.
use super::kernels::Sharded;
use crate::keyed::{Outcome, Scalar};
use simt::{GlobalSlice, Instance, Thread, device, kernel};

/// Writes keys at equal distances to `sample`, which has at most as many.
#[kernel]
pub fn sharded_sample<P: Sharded + Instance>(keys: GlobalSlice<P::Key>, sample: GlobalSlice<P::Key>) {
    let at = Thread::index();
    if at < sample.len() {
        sample.write(at, keys.read(at * (keys.len() / sample.len().max(1))));
    }
}

/// Writes 1 for each sorted key that differs from the one before, and 0 for others.
#[kernel]
pub fn sharded_heads<P: Sharded + Instance>(sorted: GlobalSlice<P::Key>, heads: GlobalSlice<u32>) {
    let at = Thread::index();
    if at < sorted.len() {
        heads.write(at, is_head(sorted, at).into());
    }
}

#[device(caller)]
fn is_head<K: Scalar>(sorted: GlobalSlice<K>, at: usize) -> bool {
    at == 0 || sorted.read(at - 1) != sorted.read(at)
}

/// Writes the key and the value of the first element of each run. Without `values`, no values are written.
#[kernel]
pub fn sharded_distinct<P: Sharded + Instance>(
    sorted: GlobalSlice<P::Key>,
    order: GlobalSlice<u32>,
    runs: GlobalSlice<u32>,
    values: GlobalSlice<P::Value>,
    keys_to: GlobalSlice<P::Key>,
    values_to: GlobalSlice<P::Value>,
) {
    let at = Thread::index();
    if at < sorted.len() && is_head(sorted, at) {
        let run = runs.read(at) as usize - 1;
        keys_to.write(run, sorted.read(at));
        if !values.is_empty() {
            values_to.write(run, values.read(order.read(at) as usize));
        }
    }
}

/// Writes to each element of the batch the answer of its run. The first element has its outcome, and the
/// others the one that they would have after it. Empty `results` are not written.
#[kernel]
pub fn sharded_expand<P: Sharded + Instance>(
    order: GlobalSlice<u32>,
    runs: GlobalSlice<u32>,
    values: GlobalSlice<P::Value>,
    answers: GlobalSlice<u8>,
    is_new: u32,
    results: GlobalSlice<P::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let at = Thread::index();
    if at >= order.len() {
        return;
    }
    let (run, element) = (runs.read(at), order.read(at) as usize);
    let (place, is_first) = (run as usize - 1, at == 0 || runs.read(at - 1) != run);
    let outcome = answers.read(place);
    outcomes.write(element, if is_first { outcome } else { repeated(outcome, is_new) });
    if !results.is_empty() {
        results.write(element, values.read(place));
    }
}

/// Returns the outcome of a repetition of an operation. `is_new` says whether it inserts only absent keys.
#[device]
fn repeated(outcome: u8, is_new: u32) -> u8 {
    if outcome == Outcome::Inserted as u8 {
        return if is_new != 0 { Outcome::Found as u8 } else { Outcome::Replaced as u8 };
    }
    if outcome == Outcome::Removed as u8 { Outcome::Absent as u8 } else { outcome }
}
