//! Where ranges are written: from any offset on, for any room, into slices of any two lengths; and nothing
//! beside that.
use crate::common::{Dice, replay, seeds};
use crate::hunt::setting;
use crate::order;
use crate::trees::Forest;
use crate::world::Crowded;
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::btree::{Collect, Config, Sink, Span, TreeView};
use phalanx_kernels::keyed::Scalar;
use simt::emulator::{Launch, Options};
use simt::{GlobalSlice, Kernel, Thread};
use std::collections::BTreeSet;

/// Keys are below it.
const KEYS: u64 = 300;
/// What stands where nothing was written.
const BLANK: u32 = 0x7b7b_7b7b;
/// Places behind a slice.
const GUARD: usize = 24;

/// A range, and where its pairs go.
#[derive(Clone, Copy, Debug)]
struct Asked {
    from: u64,
    to: u64,
    offset: u64,
    room: u32,
}

/// A range for each thread, places for which lie side by side, in no order and not always close together.
/// Some want all the room that there may be.
fn ask(dice: &mut Dice, many: usize) -> Vec<Asked> {
    let (mut next, mut asked) = (dice.below(4), Vec::new());
    for _ in 0..many {
        let ends = [dice.below(KEYS), dice.below(KEYS)];
        let from = dice.pick(&[0, ends[0], ends[1]]);
        let near = from + dice.below(40);
        let to = dice.pick(&[ends[0], ends[1], near, u64::from(u32::MAX)]);
        let room = dice.pick(&[0, 1, 2, 3, 4, 5, 7, 8, 13, 15, 18, 19, 31, 33, 64, 400]);
        asked.push(Asked { from, to, offset: next, room });
        next += u64::from(room) + dice.pick(&[0, 0, 1, 2, 3]);
    }
    if let Some(last) = asked.last_mut() {
        last.room = dice.pick(&[last.room, 1 << 31, u32::MAX]);
    }
    asked.push(Asked { offset: dice.pick(&[next + 1000, u64::MAX, u64::MAX - 3]), ..asked[0] });
    for place in (1..asked.len()).rev() {
        asked.swap(place, dice.below(place as u64 + 1) as usize);
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

/// A slice of a buffer: places before it, and its length.
type Part = (usize, usize);

/// What should stand in a buffer once the pairs that `all` has of the ranges were written to a part of it,
/// each as its key.
fn written(asked: &[Asked], counts: &[u64], all: &BTreeSet<u64>, (before, len): Part) -> Vec<u32> {
    let mut words = vec![BLANK; before + len + GUARD];
    for (range, &count) in asked.iter().zip(counts) {
        let keys = all.iter().filter(|key| (range.from..=range.to).contains(*key));
        for (place, &key) in (range.offset as usize..len).zip(keys.take(count as usize)) {
            words[before + place] = key as u32;
        }
    }
    words
}

/// Has kernels of the kind `M` collect ranges of trees that kernels of the kind `F` have filled, which has
/// the same layout.
pub fn ranges_go_where_they_should<F, M>(count: u64)
where
    F: Crowded<Memory = Forest> + Config<Key = u32, Value = u32>,
    M: Config<Key = u32, Value = u32>,
{
    for seed in seeds(count) {
        let mut dice = Dice::new(seed);
        let all: BTreeSet<u64> = (0..dice.pick(&[0, 6, 60, 200])).map(|_| dice.below(KEYS)).collect();
        let filled = order::filled::<F>(&all, 120);
        let options = Options { stale_l1: true, ..Options::explore(setting::<F>(seed).schedule) };
        let device = Device::emulator(options);
        let mut forest = F::memory(&device, 120).expect("memory");
        F::copy(&mut forest, &filled).expect("memory");
        let most = dice.pick(&[4, 11, 31]);
        let asked = ask(&mut dice, most);
        let end = asked.iter().filter(|range| range.offset < 1 << 30).map(|range| range.offset).max();
        let len = end.expect("a range") as usize + 40;
        let mut part = || {
            let before = dice.below(5) as usize;
            (before, len.saturating_sub(dice.pick(&[0, 0, 1, 30, 60])))
        };
        let (keys, values): (Part, Part) = (part(), part());
        let buffer = |part: Part| device.filled::<u32>(part.0 + part.1 + GUARD, 0x7b).expect("memory");
        let (to_keys, to_values, counts) =
            (buffer(keys), buffer(values), device.zeroed::<u64>(asked.len()).expect("memory"));
        let column = |of: fn(&Asked) -> u64| -> Buffer<u64> {
            device.from_slice(&asked.iter().map(of).collect::<Vec<_>>()).expect("memory")
        };
        let columns =
            [column(|a| a.from), column(|a| a.to), column(|a| a.offset), column(|a| u64::from(a.room))];
        let gather = Gather::<M> {
            tree: forest.view(),
            asked: columns.each_ref().map(Buffer::slice),
            keys: to_keys.slice().part(keys.0, keys.1),
            values: to_values.slice().part(values.0, values.1),
            counts: counts.slice(),
        };
        let ended = device
            .emulator_handle()
            .expect("an emulator")
            .launch_all(vec![Launch::new(Grid::new(1, 32), gather)]);
        assert!(ended.is_ok(), "{ended:?}\n{}", replay(crate::PROGRAM, seed));
        let places = keys.1.max(values.1) as u64;
        let expected: Vec<u64> = asked
            .iter()
            .map(|range| {
                let there = all.iter().filter(|key| (range.from..=range.to).contains(*key)).count() as u64;
                there.min(u64::from(range.room)).min(places.saturating_sub(range.offset))
            })
            .collect();
        let say = || format!("{asked:?}, into {keys:?} and {values:?}\n{}", replay(crate::PROGRAM, seed));
        assert_eq!(counts.read().expect("memory"), expected, "{}", say());
        assert_eq!(
            to_keys.read().expect("memory"),
            written(&asked, &expected, &all, keys),
            "keys: {}",
            say()
        );
        assert_eq!(
            to_values.read().expect("memory"),
            written(&asked, &expected, &all, values),
            "values: {}",
            say()
        );
    }
}
