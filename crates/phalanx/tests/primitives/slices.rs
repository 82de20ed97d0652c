//! Primitives on parts of buffers that begin at any element, so that vectors of 16 bytes are not aligned.
//! The elements beside the parts must not change.
use super::sort::{key, workspace};
use super::{device, random};
use bytemuck::Pod;
use gpu::{Buffer, SliceMut};
use phalanx::Device;
use phalanx::primitives::Bits;
use phalanx::primitives::{
    Fold, Number, Test, Workspace, compact_bytes, merge_bytes, reduce_segments_bytes, runs_bytes, scan_bytes,
    scan_segments_bytes, sort_segments_bytes,
};
use std::fmt::Debug;

/// More than a tile of a sort, and a multiple of no vector.
const LEN: usize = 9001;

/// Byte of the elements beside a part.
const BESIDE: u8 = 0xc3;

/// A buffer of which a part is used.
struct Parted<T> {
    buffer: Buffer<T>,
    first: usize,
    len: usize,
}

impl<T: Pod + PartialEq + Debug> Parted<T> {
    fn new(device: &Device, first: usize, elements: &[T]) -> Self {
        let len = elements.len();
        let mut parted = Self { buffer: device.filled(first + len + 3, BESIDE).unwrap(), first, len };
        parted.part().write(elements).unwrap();
        parted
    }

    fn zeroed(device: &Device, first: usize, len: usize) -> Self {
        Self::new(device, first, &vec![T::zeroed(); len])
    }

    fn part(&mut self) -> SliceMut<'_, T> {
        self.buffer.slice_mut(self.first..self.first + self.len).unwrap()
    }

    /// Checks that only the part has changed, and returns it.
    fn read(&self) -> Vec<T> {
        let all = self.buffer.read().unwrap();
        let end = self.first + self.len;
        let beside = all[..self.first].iter().chain(&all[end..]);
        let intact = |element: &T| bytemuck::bytes_of(element).iter().all(|&byte| byte == BESIDE);
        assert!(beside.clone().all(intact), "elements beside a part have changed: {beside:?}");
        all[self.first..end].to_vec()
    }
}

/// Returns the numbers of elements before the source and before the target.
fn places() -> [(usize, usize); 4] {
    [(1, 1), (1, 0), (0, 3), (2, 3)]
}

fn keys<K: Number>(len: usize) -> Vec<K> {
    random(7, len).map(|number| key(number % 5000)).collect()
}

fn sorts<K: Number, V: Pod + PartialEq + Debug>(value: impl Fn(usize) -> V) {
    let (device, keys) = (device(), keys::<K>(LEN));
    let values: Vec<V> = (0..LEN).map(&value).collect();
    let mut order: Vec<usize> = (0..LEN).collect();
    order.sort_by_key(|&index| keys[index]);
    let sorted: Vec<K> = order.iter().map(|&index| keys[index]).collect();
    let moved: Vec<V> = order.iter().map(|&index| values[index]).collect();
    let mut work = workspace::<K, V>(&device, LEN);
    for (from, to) in places() {
        let (mut k, mut v) = (Parted::new(&device, from, &keys), Parted::new(&device, to, &values));
        let (mut s, mut m) = (Parted::zeroed(&device, to, LEN), Parted::zeroed(&device, from, LEN));
        work.sort_pairs((k.part(), v.part()), (s.part(), m.part()), Bits::ALL).unwrap();
        assert!(s.read() == sorted && m.read() == moved, "pairs from {from} to {to}");
        work.sort_pairs_in_place(k.part(), v.part(), Bits::new(0, 8)).unwrap(); // an odd number of passes
        work.sort_pairs_in_place(k.part(), v.part(), Bits::ALL).unwrap();
        assert!(k.read() == sorted, "keys in place at {from}");
        let mut found: Vec<_> = k.read().into_iter().zip(v.read()).collect();
        found.sort_by_key(|pair| pair.0);
        assert!(found.iter().all(|(key, value)| keys.iter().zip(&values).any(|pair| pair == (key, value))));
        work.sort_keys(s.part(), k.part(), Bits::new(0, 0)).unwrap(); // a copy
        assert!(k.read() == sorted, "a copy from {to} to {from}");
    }
}

#[test]
fn parts_are_sorted() {
    sorts::<u32, u32>(|index| index as u32);
    sorts::<u64, [u8; 3]>(|index| [index as u8, (index >> 8) as u8, 1]);
    sorts::<u32, u128>(|index| index as u128);
}

fn scans<T: Number>() {
    let (device, numbers) = (device(), keys::<T>(LEN));
    let mut work = Workspace::on_device(&device, scan_bytes::<T>(LEN)).unwrap();
    let sum = |end: usize| T::narrow(numbers[..end].iter().map(|number| number.widen()).sum());
    let inclusive: Vec<T> = (0..LEN).map(|index| sum(index + 1)).collect();
    let offsets: Vec<T> = (0..=LEN).map(sum).collect();
    for (from, to) in places() {
        let (mut source, mut target) =
            (Parted::new(&device, from, &numbers), Parted::zeroed(&device, to, LEN));
        work.inclusive_scan(Fold::Sum, source.part(), target.part()).unwrap();
        assert!(target.read() == inclusive, "from {from} to {to}");
        work.exclusive_scan(Fold::Sum, source.part(), target.part()).unwrap();
        assert!(target.read() == offsets[..LEN], "from {from} to {to}");
        let mut longer = Parted::zeroed(&device, to, LEN + 1);
        work.offsets(source.part(), longer.part()).unwrap();
        assert!(longer.read() == offsets, "from {from} to {to}");
        let mut total = Parted::zeroed(&device, to, 1);
        work.reduce(Fold::Sum, source.part(), total.part()).unwrap();
        assert_eq!(total.read(), offsets[LEN..]);
        work.scan_in_place(Fold::Sum, source.part(), true).unwrap();
        assert!(source.read() == inclusive, "in place at {from}");
    }
}

#[test]
fn parts_are_scanned() {
    scans::<u32>();
    scans::<u64>();
}

#[test]
fn elements_of_parts_are_selected_and_merged() {
    let (device, numbers) = (device(), keys::<u32>(LEN));
    let (mut sorted, limit) = (numbers.clone(), 2500);
    sorted.sort_unstable();
    let low: Vec<u32> = numbers.iter().copied().filter(|&number| number < limit).collect();
    let flags: Vec<u8> = numbers.iter().map(|&number| u8::from(number < limit)).collect();
    let mut work = Workspace::on_device(&device, compact_bytes(LEN).max(merge_bytes(2 * LEN))).unwrap();
    for (from, to) in places() {
        let (mut source, mut target) =
            (Parted::new(&device, from, &numbers), Parted::zeroed(&device, to, LEN));
        let (mut count, mut flags) = (Parted::zeroed(&device, from, 1), Parted::new(&device, from, &flags));
        let mut operand = Parted::new(&device, to, &[limit]);
        work.compact(
            source.part(),
            Test::Less(operand.part().slice(..).unwrap()),
            target.part(),
            count.part(),
        )
        .unwrap();
        assert_eq!((count.read(), &target.read()[..low.len()]), (vec![low.len() as u32], &low[..]));
        let flags = flags.part();
        let test = Test::Flagged(flags.slice(..).unwrap());
        work.partition(source.part(), test, target.part(), count.part()).unwrap();
        assert_eq!(target.read()[..low.len()], low);
        let mut bins = Parted::zeroed(&device, to, 2);
        work.histogram(source.part(), 12, bins.part()).unwrap();
        let below = numbers.iter().filter(|&&number| number < 4096).count() as u32;
        assert_eq!(bins.read(), [below, LEN as u32 - below]);
        let (mut one, mut both) = (Parted::new(&device, from, &sorted), Parted::zeroed(&device, to, 2 * LEN));
        let mut moved = Parted::zeroed(&device, from, 2 * LEN);
        let values = Parted::new(&device, to, &sorted).part().read().unwrap();
        let mut values = Parted::new(&device, to, &values);
        let (first, second) = (one.part(), values.part());
        work.merge_pairs((&first, &second), (&first, &second), (both.part(), moved.part())).unwrap();
        let twice: Vec<u32> = sorted.iter().flat_map(|&number| [number; 2]).collect();
        assert!(both.read() == twice && moved.read() == twice, "merged from {from} to {to}");
    }
}

#[test]
fn runs_and_segments_of_parts_are_reduced_scanned_and_sorted() {
    let (device, mut numbers) = (device(), keys::<u32>(LEN));
    numbers.iter_mut().for_each(|number| *number %= 100);
    let ends = [0, 10, 2010, 2010, LEN as u32];
    let segment = |index: usize| ends[index] as usize..ends[index + 1] as usize;
    let bytes = [
        runs_bytes(LEN),
        reduce_segments_bytes::<u32>(LEN, 4),
        scan_segments_bytes::<u32>(LEN),
        sort_segments_bytes::<u32, u32>(LEN, 4),
    ];
    let mut work = Workspace::on_device(&device, bytes.into_iter().max().unwrap()).unwrap();
    for (from, to) in places() {
        let (mut source, mut target) =
            (Parted::new(&device, from, &numbers), Parted::zeroed(&device, to, LEN));
        let (mut offsets, mut sums) = (Parted::new(&device, to, &ends), Parted::zeroed(&device, from, 4));
        work.reduce_segments(Fold::Sum, source.part(), offsets.part(), sums.part()).unwrap();
        let expected: Vec<u32> = (0..4).map(|index| numbers[segment(index)].iter().sum()).collect();
        assert_eq!(sums.read(), expected);
        work.inclusive_scan_segments(Fold::Sum, source.part(), offsets.part(), target.part()).unwrap();
        assert_eq!((target.read()[9], target.read()[LEN - 1]), (expected[0], expected[3]));
        let mut order = Parted::zeroed(&device, from, LEN);
        work.sort_segment_pairs(
            (source.part(), source_values(&device).part()),
            offsets.part(),
            (target.part(), order.part()),
        )
        .unwrap();
        let mut sorted = numbers.clone();
        (0..4).for_each(|index| sorted[segment(index)].sort());
        assert!(target.read() == sorted, "segments from {from} to {to}");
        let (mut keys, mut lengths) = (Parted::zeroed(&device, to, LEN), Parted::zeroed(&device, from, LEN));
        let mut count = Parted::zeroed(&device, to, 1);
        work.run_lengths(source.part(), (keys.part(), lengths.part()), count.part()).unwrap();
        let runs: Vec<(u32, u32)> =
            numbers.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32)).collect();
        assert_eq!(count.read(), [runs.len() as u32]);
        let found: Vec<_> = keys.read().into_iter().zip(lengths.read()).take(runs.len()).collect();
        assert!(found == runs, "runs from {from} to {to}");
    }
}

fn source_values(device: &Device) -> Parted<u32> {
    Parted::new(device, 1, &(0..LEN as u32).collect::<Vec<_>>())
}
