//! Sums over runs of equal adjacent keys: a scan of pairs in one pass.
//!
//! # Cost
//!
//! [`reduce_runs`] reads each key up to four times, mostly from the L1 cache, and each value once; stores a
//! key and a value per run.
use super::carry::Carry;
use super::compact::Element;
use super::lookback::{Monoid, Values, scan_lanes};
use super::operator::Operator;
use super::{ticket, unrolled};
use crate::keyed::kernels::write_if;
use core::marker::PhantomData;
use simt::{GlobalSlice, Instance, Name, Thread, Tile, Word, device, kernel};

/// A reduction of runs of equal adjacent keys.
pub trait Runs: Copy + Send + Sync + 'static {
    /// Key type.
    type Key: Word;
    /// Operator that combines the values of a run.
    type Operator: Operator;
}

/// Runs of keys of type `K` under the operator `O`.
#[derive(Clone, Copy, Debug)]
pub struct RunsOf<K, O>(PhantomData<fn() -> (K, O)>);

impl<K: Word, O: Operator> Runs for RunsOf<K, O> {
    type Key = K;
    type Operator = O;
}

impl<K: Word, O: Operator> Instance for RunsOf<K, O> {
    const NAME: &'static str = const { &Name::of("").unsigned::<K>().part(O::NAME) }.as_str();
}

/// Type of the values of runs.
pub type RunValue<R> = <<R as Runs>::Operator as Monoid>::Value;

/// Number of threads per block of [`reduce_runs`].
pub const RUN_THREADS: u32 = 256;

/// Number of elements per thread of [`reduce_runs`].
pub const RUN_ITEMS: usize = 8;

/// Combines the values of each run of equal adjacent keys: writes the key of run `r` to `run_keys[r]`, the
/// combination of its values to `run_values[r]`, and the number of runs to `count[0]`. If `values` is empty,
/// every value is 1.
///
/// Implemented as a scan of pairs: the number of runs that begin, and the combination of the values since the
/// last beginning. The pair of a run's last element has the run's number and result.
#[kernel]
pub fn reduce_runs<R: Runs + Instance>(
    keys: GlobalSlice<R::Key>,
    values: GlobalSlice<RunValue<R>>,
    run_keys: GlobalSlice<R::Key>,
    run_values: GlobalSlice<RunValue<R>>,
    count: GlobalSlice<u32>,
    status: GlobalSlice<u64>,
    tickets: GlobalSlice<u32>,
) {
    let tile = ticket(tickets.at(0));
    let (warp, len) = (Tile::<32>::lockstep(), keys.len());
    let warps = RUN_THREADS / 32;
    let number = tile as usize * warps as usize + (Thread::index_in_block() / 32) as usize;
    let first = number * 32 * RUN_ITEMS + warp.rank() as usize;
    let identity = InRuns::<R::Operator>::IDENTITY;
    let (mut sums, mut total) = ([identity; RUN_ITEMS], identity);
    unrolled::<RUN_ITEMS>(|i| {
        let place = first + 32 * i;
        let mut own = identity;
        if place < len {
            let begins = place == 0 || keys.read(place - 1) != keys.read(place);
            let one = <RunValue<R> as Word>::narrow(1);
            own = (begins as u32, if values.is_empty() { one } else { values.read(place) });
        }
        let upto = scan_lanes::<InRuns<R::Operator>>(warp, own, 32);
        sums[i] = InRuns::<R::Operator>::combine(total, upto);
        total = warp.shuffle(sums[i], 31);
    });
    let carry = Carry::<InRuns<R::Operator>>::new(Values::of(status), warps);
    let (prefix, whole) = carry.learn(carry.announce(tile, total), 0);
    unrolled::<RUN_ITEMS>(|i| {
        let place = first + 32 * i;
        if place < len && (place == len - 1 || keys.read(place) != keys.read(place + 1)) {
            let (runs, value) = InRuns::<R::Operator>::combine(prefix, sums[i]);
            run_keys.write(runs as usize - 1, keys.read(place));
            run_values.write(runs as usize - 1, value);
        }
    });
    if tile == Thread::grid_size() - 1 && Thread::index_in_block() == 0 {
        count.write(0, whole.0);
    }
}

/// Marks of the elements of a batch in runs of equal keys, where a run begins with a pair of a structure, if
/// the structure has the key.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Mark of an element that begins a run: the structure lacks its key.
    pub begins: u32,
    /// Mark of the first element behind the structure's pair.
    pub second: u32,
    /// Mark of all other elements.
    pub others: u32,
}

/// Marks the elements of a batch in runs of equal adjacent keys. `order[i]` is the index of key `i`. The
/// first `pairs` indices are those of the structure's pairs, the others those of the batch's elements. For
/// each element, by its index less `pairs`, `kinds` receives the mark, and `before` the index of the key
/// before it in its run, or 0 if there is none or that index is `end` or more. Empty slices are not written.
/// Any number of threads.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel]
pub fn mark_runs<E: Element + Instance>(
    keys: GlobalSlice<E::Word>,
    order: GlobalSlice<u32>,
    pairs: u32,
    end: u32,
    marks: Marks,
    kinds: GlobalSlice<u8>,
    before: GlobalSlice<u32>,
) {
    let mut place = Thread::index();
    while place < keys.len() {
        let index = order.read(place);
        if index >= pairs {
            let element = (index - pairs) as usize;
            let begins = place == 0 || keys.read(place - 1) != keys.read(place);
            let previous = if begins { u32::MAX } else { order.read(place - 1) };
            let mark = match (begins, previous < pairs) {
                (true, _) => marks.begins,
                (false, true) => marks.second,
                (false, false) => marks.others,
            };
            write_if(kinds, element, mark as u8);
            write_if(before, element, if previous < end { previous } else { 0 });
        }
        place += Thread::count();
    }
}

/// Sum over a range of runs: the number of runs that begin, and the combination of the values since the last
/// beginning. If a run begins in the second operand, the first operand's value is dropped.
#[derive(Clone, Copy, Debug)]
pub struct InRuns<O>(PhantomData<fn() -> O>);

impl<O: Operator> Monoid for InRuns<O> {
    type Value = (u32, O::Value);
    const IDENTITY: Self::Value = (0, O::IDENTITY);

    #[device]
    fn combine(first: Self::Value, second: Self::Value) -> Self::Value {
        let value = if second.0 > 0 { second.1 } else { O::combine(first.1, second.1) };
        (first.0 + second.0, value)
    }
}
