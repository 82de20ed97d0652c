//! Results of ranges are written at any offset, with any maximum length, into slices of any two lengths;
//! nothing else is overwritten.
use crate::common::{Rng, replay, seeds};
use crate::mutation::setting;
use crate::order;
use crate::trees::Forest;
use crate::world::HasFixture;
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::btree::{Collect, Config, Sink, Span, TreeView};
use phalanx_kernels::keyed::Scalar;
use simt::emulator::{Launch, Options};
use simt::{GlobalSlice, Kernel, Thread};
use std::collections::BTreeSet;

/// Exclusive upper bound of keys.
const KEYS: u64 = 300;
/// Byte of unwritten elements.
const BLANK: u8 = 0x7b;
/// Number of guard elements after a slice.
const GUARD: usize = 24;

/// Range query and the location of its results.
#[derive(Clone, Copy, Debug)]
struct RangeRequest {
    from: u64,
    to: u64,
    offset: u64,
    room: u32,
}

/// Generates a range for each thread. Result areas do not overlap, are in no order and may have gaps between
/// them. Some have the maximum possible length.
fn ask(rng: &mut Rng, many: usize) -> Vec<RangeRequest> {
    let (mut next, mut asked) = (rng.below(4), Vec::new());
    for _ in 0..many {
        let ends = [rng.below(KEYS), rng.below(KEYS)];
        let from = rng.pick(&[0, ends[0], ends[1]]);
        let near = from + rng.below(40);
        let to = rng.pick(&[ends[0], ends[1], near, u64::from(u32::MAX)]);
        let room = rng.pick(&[0, 1, 2, 3, 4, 5, 7, 8, 13, 15, 18, 19, 31, 33, 64, 400]);
        asked.push(RangeRequest { from, to, offset: next, room });
        next += u64::from(room) + rng.pick(&[0, 0, 1, 2, 3]);
    }
    if let Some(last) = asked.last_mut() {
        last.room = rng.pick(&[last.room, 1 << 31, u32::MAX]);
    }
    asked.push(RangeRequest { offset: rng.pick(&[next + 1000, u64::MAX, u64::MAX - 3]), ..asked[0] });
    for place in (1..asked.len()).rev() {
        asked.swap(place, rng.below(place as u64 + 1) as usize);
    }
    asked
}

struct Gather<M: Config> {
    tree: TreeView<M>,
    asked: [GlobalSlice<u64>; 4],
    keys: GlobalSlice<M::Key>,
    values: GlobalSlice<M::Value>,
    counts: GlobalSlice<u64>,
}

impl<M: Config> Clone for Gather<M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Config> Copy for Gather<M> {}

impl<M: Config> Kernel for Gather<M> {
    const PROGRAM: &'static str = "btree_explore";
    const NAME: &'static str = "gather";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let index = Thread::index();
        let asks = index < self.counts.len();
        let [from, to, offset, room] = self.asked.map(|of| if asks { of.read(index) } else { 0 });
        let span = Span { from: M::Key::from_u64(from), to: M::Key::from_u64(to), offset, room: room as u32 };
        let answer = M::seek::<Collect>(self.tree, asks, span, Sink { keys: self.keys, values: self.values });
        if asks {
            self.counts.write(index, answer.count);
        }
    }
}

/// Slice of a buffer: number of elements before it, and its length.
type Part = (usize, usize);

/// Returns the expected content of a buffer after the pairs of `all` in the ranges were written to a part of
/// it, each as its key.
fn written<T: Scalar>(
    asked: &[RangeRequest],
    counts: &[u64],
    all: &BTreeSet<u64>,
    (before, len): Part,
) -> Vec<T> {
    let blank = T::from_u64(u64::from_ne_bytes([BLANK; 8]));
    let mut words = vec![blank; before + len + GUARD];
    for (range, &count) in asked.iter().zip(counts) {
        let keys = all.iter().filter(|key| (range.from..=range.to).contains(*key));
        for (place, &key) in (range.offset as usize..len).zip(keys.take(count as usize)) {
            words[before + place] = T::from_u64(key);
        }
    }
    words
}

/// Returns the number of pairs that each range yields: those of `all` in the range, as far as the request and
/// a buffer of `places` elements have space for them.
fn expected_counts(asked: &[RangeRequest], all: &BTreeSet<u64>, places: u64) -> Vec<u64> {
    let count = |range: &RangeRequest| {
        let there = all.iter().filter(|key| (range.from..=range.to).contains(*key)).count() as u64;
        there.min(u64::from(range.room)).min(places.saturating_sub(range.offset))
    };
    asked.iter().map(count).collect()
}

/// Collects ranges with kernels of the variant `M` from trees that were filled by kernels of the variant `F`
/// with the same layout.
pub fn ranges_go_where_they_should<F, M>(count: u64)
where
    F: HasFixture<Memory = Forest> + Config<Key = M::Key, Value = M::Value>,
    M: Config,
{
    seeds(count).for_each(collect_ranges::<F, M>);
}

/// Collects the ranges of one seed, and compares counts, keys and values with the expected ones.
fn collect_ranges<F, M>(seed: u64)
where
    F: HasFixture<Memory = Forest> + Config<Key = M::Key, Value = M::Value>,
    M: Config,
{
    let mut rng = Rng::new(seed);
    let all: BTreeSet<u64> = (0..rng.pick(&[0, 6, 60, 200])).map(|_| rng.below(KEYS)).collect();
    let filled = order::filled::<F>(&all, 120);
    let options = Options { stale_l1: true, ..Options::explore(setting::<F>(seed).schedule) };
    let device = Device::emulator(options);
    let mut forest = F::memory(&device, 120).expect("memory");
    F::copy(&mut forest, &filled).expect("memory");
    let most = rng.pick(&[4, 11, 31]);
    let asked = ask(&mut rng, most);
    let end = asked.iter().filter(|range| range.offset < 1 << 30).map(|range| range.offset).max();
    let len = end.expect("a range") as usize + 40;
    let mut part = || (rng.below(5) as usize, len.saturating_sub(rng.pick(&[0, 0, 1, 30, 60])));
    let (keys, values): (Part, Part) = (part(), part());
    let elements = |part: Part| part.0 + part.1 + GUARD;
    let to_keys = device.filled::<M::Key>(elements(keys), BLANK).expect("memory");
    let to_values = device.filled::<M::Value>(elements(values), BLANK).expect("memory");
    let counts = device.zeroed::<u64>(asked.len()).expect("memory");
    let column = |of: fn(&RangeRequest) -> u64| -> Buffer<u64> {
        device.from_slice(&asked.iter().map(of).collect::<Vec<_>>()).expect("memory")
    };
    let columns = [column(|a| a.from), column(|a| a.to), column(|a| a.offset), column(|a| u64::from(a.room))];
    let gather = Gather::<M> {
        tree: forest.view(),
        asked: columns.each_ref().map(Buffer::global),
        keys: to_keys.global().part(keys.0, keys.1),
        values: to_values.global().part(values.0, values.1),
        counts: counts.global(),
    };
    let emulator = device.emulator_handle().expect("an emulator");
    let ended = emulator.launch_all(vec![Launch::new(Grid::new(1, 32), gather)]);
    assert!(ended.is_ok(), "{ended:?}\n{}", replay(seed));
    let expected = expected_counts(&asked, &all, keys.1.max(values.1) as u64);
    let say = || format!("{asked:?}, into {keys:?} and {values:?}\n{}", replay(seed));
    assert_eq!(counts.read().expect("memory"), expected, "{}", say());
    let found = to_keys.read().expect("memory");
    assert_eq!(found, written(&asked, &expected, &all, keys), "keys: {}", say());
    let found = to_values.read().expect("memory");
    assert_eq!(found, written(&asked, &expected, &all, values), "values: {}", say());
}
