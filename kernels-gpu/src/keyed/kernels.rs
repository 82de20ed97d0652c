//! Entry points: batches of operations, and scans of the whole table.
//!
//! In a batch each thread brings one element or, if the batch is small, each tile does; the lanes of a tile
//! then share the work. A slice of results may be empty if the caller does not want those results. If a count
//! bounds the keys, the batch has as many elements as it says, and the grid may have threads without one.
//!
//! # Cost
//!
//! Each kernel of a batch reads a key, an operation code or an argument per element where it has them,
//! executes the operation, and writes a byte and at most one value per element; each warp adds its counts by
//! two atomics. Where equal operations are combined ([`Kind::COMBINES`]), a block reads one word more, and
//! takes one barrier if keys are distinct, otherwise three and about 20 accesses to shared memory per lane.
//! [`sketch_absent`] looks each key up, and writes at most one word for it. [`export`],
//! [`rehash`] and [`retain_between`] read the whole structure once; `export` takes one atomic per warp to
//! reserve its output, `rehash` inserts each pair, `retain_between` erases each rejected pair by a
//! compare-and-swap.
use super::combine;
use super::counters::CounterDelta;
use super::kind::{EntryRef, Kind};
use super::operation::{self, Combination, OpCode, Operation, Outcome};
use super::sketch::sketch;
use super::slot::{Scalar, Slot};
use simt::{BoundedSlice, Global, GlobalSlice, Instance, Order, Scope, Thread, Tile, Word, device, kernel};

/// Returns the maximum number of threads per element of a small batch that tiles of `width` lanes execute. A
/// tile of two lanes executes at most two elements in sequence: spreading them gains less than the registers
/// cost that the code for it takes from all batches.
///
/// ```
/// use phalanx_kernels::keyed::kernels::spread;
///
/// assert_eq!((spread(2), spread(4)), (1, 4));
/// ```
pub const fn spread(width: u32) -> usize {
    if width > 2 { width as usize } else { 1 }
}

/// Returns the index of the element that the calling thread brings to a batch of `len` elements, and whether
/// it brings one. Tiles of `width` lanes execute the elements.
///
/// The grid has at least one thread per element. If it has twice as many, or a higher power of two up to
/// [`spread`], the elements are spread further apart: each tile gets proportionally fewer elements, at best
/// one, and elements that one tile would execute in sequence run concurrently.
#[device]
pub(crate) fn element(width: u32, len: usize) -> (usize, bool) {
    let index = index(Thread::index(), width, apart(width, len));
    (index, index < len)
}

/// Returns the number of elements that a tile of `width` lanes executes in a batch of `len` elements.
#[device]
fn apart(width: u32, len: usize) -> u32 {
    let mut each = width;
    while spread(width) > 1 && each > 1 && (len * width as usize / each as usize) * 2 <= Thread::count() {
        each /= 2;
    }
    each
}

/// Returns the index of the element that a thread brings if each tile of `width` lanes executes `each`. A
/// thread without an element gets an index beyond every batch.
#[device]
fn index(thread: usize, width: u32, each: u32) -> usize {
    if spread(width) == 1 {
        return thread;
    }
    let (width, each) = (width as usize, each as usize);
    if thread % width < each { thread / width * each + thread % width } else { usize::MAX }
}

/// Returns the calling thread's index, computed anew, so that it takes no registers before.
#[device]
fn thread_again() -> usize {
    let [block, thread] = [Thread::block_index(), Thread::index_in_block()].map(simt::black_box);
    block as usize * Thread::block_size() as usize + thread as usize
}

#[device(caller)]
pub(crate) fn read_if<T: Word>(slice: GlobalSlice<T>, index: usize, pending: bool) -> T {
    if pending { slice.read(index) } else { T::narrow(0) }
}

#[device(caller)]
pub(crate) fn write_if<T: Word>(slice: GlobalSlice<T>, index: usize, value: T) {
    if index < slice.len() {
        slice.write(index, value);
    }
}

/// The element that the calling thread brings to a batch, if any.
pub(crate) struct Element {
    index: usize,
    pending: bool,
    /// Number of elements of the thread's tile, if the index is computed anew after the operation.
    each: Option<u32>,
}

#[device]
impl Element {
    /// Returns the element of a batch of `len` elements on a structure of kind `M`: see [`element`].
    fn of<M: Kind>(len: usize) -> Self {
        let each = apart(M::TILE, len);
        let index = index(Thread::index(), M::TILE, each);
        // Measured in registers: trees and skip lists rather keep the index.
        let is_anew = const { M::COMBINES.includes(Combination::InBatches) };
        Self { index, pending: index < len, each: is_anew.then_some(each) }
    }

    /// Returns the element with an index, which is kept.
    pub(crate) fn at((index, pending): (usize, bool)) -> Self {
        Self { index, pending, each: None }
    }

    /// Returns the index, after the operation; tiles have `width` lanes.
    fn index_again(&self, width: u32) -> usize {
        match self.each {
            Some(each) => index(thread_again(), width, each),
            None => self.index,
        }
    }
}

/// Executes the operation of the element that the calling thread brings to a batch, if any. `request` returns
/// the operation, key and argument of an element.
#[device(caller)]
pub(crate) fn batch<M: Kind, O: Operation>(
    map: M::View,
    element: Element,
    request: impl Fn(usize, bool) -> (O, M::Key, M::Value),
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let (mut delta, pending) = (CounterDelta::default(), element.pending);
    let (operation, key, argument) = request(element.index, pending);
    M::enter(map);
    let (outcome, value) = if const { combine::combines::<M, O>(Combination::InBatches) } {
        combine::block::execute::<M, O>(map, pending, operation, key, argument)
    } else {
        M::execute(map, pending, operation, key, argument)
    };
    M::leave(map);
    let index = element.index_again(M::TILE);
    if pending {
        delta.count(outcome);
        write_if(outcomes, index, outcome as u8);
        if O::RETURNS {
            write_if(values, index, value);
        }
    }
    if O::WRITES {
        M::counters(map).record(delta);
    }
}

/// Reads an element's argument. Structures without values have none.
#[device(caller)]
fn argument<M: Kind>(arguments: GlobalSlice<M::Value>, index: usize, pending: bool) -> M::Value {
    read_if(arguments, index, pending && M::Slot::HAS_VALUE)
}

/// Executes the same operation for each key, with an argument.
#[device(caller)]
pub(crate) fn with_arguments<M: Kind, O: Operation>(
    operation: O,
    map: M::View,
    keys: BoundedSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let keys = keys.resolve();
    let request =
        |index, pending| (operation, read_if(keys, index, pending), argument::<M>(arguments, index, pending));
    batch::<M, _>(map, Element::of::<M>(keys.len()), request, results, outcomes);
}

/// Executes a separate operation for each key; `operation` decodes it.
#[device(caller)]
pub(crate) fn with_codes<M: Kind, O: Operation>(
    operation: fn(u32) -> O,
    map: M::View,
    codes: GlobalSlice<u8>,
    keys: BoundedSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let keys = keys.resolve();
    let request = |index, pending| {
        let operation = operation(read_if(codes, index, pending) as u32);
        (operation, read_if(keys, index, pending), argument::<M>(arguments, index, pending))
    };
    batch::<M, _>(map, Element::of::<M>(keys.len()), request, results, outcomes);
}

/// Executes the same operation for each key, without an argument.
#[device(caller)]
pub(crate) fn with_keys<M: Kind, O: Operation>(
    operation: O,
    map: M::View,
    keys: BoundedSlice<M::Key>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let keys = keys.resolve();
    let request = |index, pending| (operation, read_if(keys, index, pending), M::Value::narrow(0));
    batch::<M, _>(map, Element::of::<M>(keys.len()), request, results, outcomes);
}

/// Inserts pairs; replaces the values of present keys.
#[kernel(registers = M::UPDATES_IN)]
pub fn insert<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_arguments::<M, _>(operation::Insert, map, keys, values, values, outcomes);
}

/// Inserts pairs whose keys are absent.
#[kernel(registers = M::UPDATES_IN)]
pub fn insert_new<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_arguments::<M, _>(operation::InsertNew, map, keys, values, values, outcomes);
}

/// Looks up values.
#[kernel(registers = M::READS_IN)]
pub fn get<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_keys::<M, _>(operation::Get, map, keys, values, outcomes);
}

/// Tests which keys are present.
#[kernel(registers = M::READS_IN)]
pub fn contains_key<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_keys::<M, _>(operation::ContainsKey, map, keys, values, outcomes);
}

/// Adds the keys that are absent to a sketch ([`super::SKETCH_REGISTERS`] registers, zero before), from which
/// the host estimates how many distinct pairs a batch would insert.
#[kernel(registers = M::READS_IN)]
pub fn sketch_absent<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    registers: GlobalSlice<u32>,
) {
    let keys = keys.resolve();
    let (index, pending) = element(M::TILE, keys.len());
    let (key, argument) = (read_if(keys, index, pending), M::Value::narrow(0));
    M::enter(map);
    let (outcome, _) = M::execute(map, pending, operation::ContainsKey, key, argument);
    M::leave(map);
    if pending && outcome == Outcome::Absent {
        sketch(key, registers);
    }
}

/// Removes keys.
#[kernel(registers = M::UPDATES_IN)]
pub fn remove<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_keys::<M, _>(operation::Remove, map, keys, values, outcomes);
}

/// Removes keys and returns their values.
#[kernel(registers = M::REGISTERS)]
pub fn take<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_keys::<M, _>(operation::Take, map, keys, values, outcomes);
}

/// Inserts pairs; replaces the values of present keys and returns the old ones. `results` receives the
/// argument where the key was absent.
#[kernel(registers = M::REGISTERS)]
pub fn replace<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_arguments::<M, _>(operation::Replace, map, keys, values, results, outcomes);
}

/// Inserts pairs; merges into the values of present keys by the operation with the code `code`, one that
/// [`Merge::operation`](super::Merge::operation) returns.
#[kernel(registers = M::UPDATES_IN)]
pub fn upsert<M: Kind + Instance>(
    map: M::View,
    code: u32,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let operation = operation::Upsert(OpCode::from_code(code));
    with_arguments::<M, _>(operation, map, keys, values, values, outcomes);
}

/// Inserts pairs whose keys are absent, and returns the values of all.
#[kernel(registers = M::REGISTERS)]
pub fn get_or_insert<M: Kind + Instance>(
    map: M::View,
    keys: BoundedSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_arguments::<M, _>(operation::GetOrInsert, map, keys, values, results, outcomes);
}

/// Executes a separate operation for every element.
#[kernel(registers = M::REGISTERS)]
pub fn mixed<M: Kind + Instance>(
    map: M::View,
    codes: GlobalSlice<u8>,
    keys: BoundedSlice<M::Key>,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    with_codes::<M, _>(OpCode::from_code, map, codes, keys, arguments, results, outcomes);
}

/// Writes the pairs of a part of the structure to `keys` and `values`, in no particular order, and adds their
/// number to `count`, which must be zero before; the number also counts pairs that do not fit into the
/// slices. Requires exclusive access to the structure. The part is the one that `threads` threads of a scan
/// see from thread `first` on; both are multiples of the warp size.
#[kernel]
pub fn export<M: Kind + Instance>(
    map: M::View,
    first: u64,
    threads: u64,
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    count: GlobalSlice<u64>,
) {
    let warp = Tile::<32>::lockstep();
    let index = Thread::index();
    // A thread beyond the part gets a number beyond the whole scan, so it sees nothing.
    let thread = if index < threads as usize { first as usize + index } else { usize::MAX };
    // Counted first, so that a warp changes the counter once: on one address, that takes a nanosecond.
    let mut total = 0;
    M::scan(map, thread, |place| total += warp.ballot(place.is_some()).count_ones());
    let mut base = reserve(warp, count.at(0), total) as usize;
    M::scan(map, thread, |place| {
        let votes = warp.ballot(place.is_some());
        if let Some(EntryRef { key, value, .. }) = place {
            let index = base + (votes & warp.lower_ranks()).count_ones() as usize;
            write_if(keys, index, key);
            write_if(values, index, value);
        }
        base += votes.count_ones() as usize;
    });
}

/// Advances a counter by `many` for the whole warp and returns its previous value.
#[device(caller)]
fn reserve(warp: Tile<32>, counter: Global<u64>, many: u32) -> u64 {
    let mut base = 0;
    if warp.rank() == 0 && many > 0 {
        base = counter.fetch_add(many as u64, Order::Relaxed, Scope::Device);
    }
    warp.shuffle(base, 0)
}

/// Adds the sum of the lanes' `many` to a counter. All lanes of the warp call it together.
#[device(caller)]
pub(crate) fn add_up(counter: Global<u64>, many: u32) {
    let warp = Tile::<32>::lockstep();
    let sum = warp.reduce_add(many);
    if warp.rank() == 0 && sum > 0 {
        counter.fetch_add(sum as u64, Order::Relaxed, Scope::Device);
    }
}

/// Inserts the pairs of one structure into another if their keys are absent there, and counts in `refused`
/// the pairs that did not fit. Requires exclusive access to both structures.
#[kernel(registers = M::REGISTERS)]
pub fn rehash<M: Kind + Instance>(from: M::View, into: M::View, refused: GlobalSlice<u64>) {
    copy_by::<M, _>(operation::InsertNew, from, into, refused);
}

/// Executes an operation on one structure for every pair of another.
#[device(caller)]
pub(crate) fn copy_by<M: Kind, O: Operation>(
    operation: O,
    from: M::View,
    into: M::View,
    refused: GlobalSlice<u64>,
) {
    let mut delta = CounterDelta::default();
    M::enter(into);
    M::scan(from, Thread::index(), |place| {
        let (key, value) = place
            .map_or((M::Key::narrow(0), M::Value::narrow(0)), |EntryRef { key, value, .. }| (key, value));
        let (outcome, _) = M::execute(into, place.is_some(), operation, key, value);
        if place.is_some() {
            delta.count(outcome);
            if outcome == Outcome::Refused {
                refused.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
            }
        }
    });
    M::leave(into);
    M::counters(into).record(delta);
}

/// Removes the pairs whose key (or value, if `by_value` is not 0) lies outside `low..=high`. Requires
/// exclusive access to the structure.
#[kernel]
pub fn retain_between<M: Kind + Instance>(map: M::View, by_value: u32, low: u64, high: u64) {
    let mut delta = CounterDelta::default();
    M::scan(map, Thread::index(), |place| {
        let Some(place) = place else { return };
        let judged = if by_value != 0 { place.value.to_u64() } else { place.key.to_u64() };
        if (judged < low || judged > high) && place.erase() {
            delta.count(Outcome::Removed);
        }
    });
    M::counters(map).record(delta);
}

#[cfg(test)]
mod tests {
    use super::element;
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, Order, Scope, Thread, kernel};

    /// Counts how often each element is brought, and how many elements each tile brings.
    #[kernel]
    fn submit_widths(width: u32, seen: GlobalSlice<u32>, tiles: GlobalSlice<u32>) {
        let (index, exists) = element(width, seen.len());
        if exists {
            seen.at(index).fetch_add(1, Order::Relaxed, Scope::Device);
            tiles.at(Thread::index() / width as usize).fetch_add(1, Order::Relaxed, Scope::Device);
        }
    }

    fn zeroed(device: &Emulator, len: usize) -> GlobalSlice<u32> {
        let pointer = device.allocate(4 * len, 4);
        // SAFETY: just allocated with this size.
        unsafe {
            pointer.write_bytes(0, 4 * len);
            device.mark_initialized(pointer, 4 * len);
            GlobalSlice::from_raw_parts(pointer.cast(), len)
        }
    }

    fn read(slice: GlobalSlice<u32>) -> Vec<u32> {
        // SAFETY: no kernel is running, and the whole slice was initialized when it was allocated.
        (0..slice.len()).map(|index| unsafe { slice.at(index).as_ptr().read() }).collect()
    }

    #[test]
    fn every_element_is_brought_once_and_a_tile_brings_no_more_than_the_grid_asks_for() {
        let device = Emulator::new(Options::default());
        for width in [1, 2, 4, 8, 16, 32u32] {
            for (len, times) in
                [1, 2, 31, 32, 33, 70].into_iter().flat_map(|len| [1, 2, 3, 4, 32, 64].map(|s| (len, s)))
            {
                let grid = Grid::for_items(len * times, 64);
                let threads = (grid.blocks * grid.threads) as usize;
                let (seen, tiles) = (zeroed(&device, len), zeroed(&device, threads / width as usize));
                device.launch(grid, SubmitWidths { width, seen, tiles }).unwrap();
                assert!(read(seen).iter().all(|&times| times == 1), "{width} {len} {times}");
                let most = (len * width as usize).div_ceil(threads).next_power_of_two() as u32;
                let most = if super::spread(width) == 1 { width } else { most };
                assert!(read(tiles).iter().all(|&brought| brought <= most), "{width} {len} {times}");
            }
        }
    }
}
