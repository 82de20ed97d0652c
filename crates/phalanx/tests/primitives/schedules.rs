//! Schedules of decoupled look-back, explored with every detector and with caches that keep stale values.
use super::random;
use super::sort::workspace;
use phalanx::Device;
use phalanx::gpu::Grid;
use phalanx::kernels::primitives::operator::Sum;
use phalanx::kernels::primitives::scan::{Job, Scan, Vectors};
use phalanx::primitives::{
    Bits, Fold, Test, Workspace, compact_bytes, runs_bytes, scan_bytes, sort_segments_bytes,
};
use simt::emulator::{Options, Schedule};

fn exploring(schedule: Schedule) -> Device {
    Device::emulator(Options { stale_l1: true, step_limit: 1 << 26, ..Options::explore(schedule) })
}

/// Panics with the failure's message, because its debug form contains the whole schedule.
fn told(error: phalanx::Error) {
    panic!("{error}");
}

fn schedules(seeds: u64) -> impl Iterator<Item = Device> {
    let both = |seed| [Schedule::Random { seed }, Schedule::Pct { seed, depth: 4 }];
    (1..=seeds).flat_map(both).map(exploring)
}

#[test]
fn sorts_look_back_right_in_every_order_of_tiles() {
    let keys: Vec<u32> = random(1, 3 * 192 - 50).map(|number| number as u32 % 700).collect();
    let mut expected: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
    expected.sort_by_key(|pair| pair.0);
    for device in schedules(3) {
        let mut work = workspace::<u32, u32>(&device, keys.len());
        work.set_tile(Some("64x3"));
        let mut sorted = device.from_slice(&keys).unwrap();
        let mut values = device.from_slice(&(0..keys.len() as u32).collect::<Vec<_>>()).unwrap();
        work.sort_pairs_in_place(&mut sorted, &mut values, Bits::new(0, 10)).unwrap_or_else(told);
        let found: Vec<_> = sorted.read().unwrap().into_iter().zip(values.read().unwrap()).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn scans_look_back_right_in_every_order_of_tiles() {
    let numbers: Vec<u64> = random(2, 6 * 128 - 5).collect();
    let before = |place: usize| numbers[..place].iter().copied().fold(0, u64::wrapping_add);
    let expected: Vec<u64> = (0..numbers.len()).map(before).collect();
    for device in schedules(6) {
        let (from, mut to) = (device.from_slice(&numbers).unwrap(), device.buffer(numbers.len()).unwrap());
        let mut work = Workspace::on_device(&device, scan_bytes::<u64>(numbers.len()) + 4096).unwrap();
        work.set_tile(Some("64x2"));
        work.exclusive_scan(Fold::Sum, &from, &mut to).unwrap_or_else(told);
        assert_eq!(to.read().unwrap(), expected);
    }
}

/// Uses few blocks, so that each has several tiles: the tiles that a block holds at once and passes through
/// shared memory interleave in every order.
#[test]
fn scans_that_work_ahead_are_right_in_every_order_of_tiles() {
    type Plan = Vectors<Sum<u64>, 64, 1, 2, true, 20>;
    let numbers: Vec<u64> = random(4, 9 * 128 - 5).collect();
    let upto = |place: usize| numbers[..=place].iter().copied().fold(0, u64::wrapping_add);
    let expected: Vec<u64> = (0..numbers.len()).map(upto).collect();
    for (device, blocks) in schedules(4).zip([1, 2, 3].into_iter().cycle()) {
        let (from, to) = (device.from_slice(&numbers).unwrap(), device.buffer::<u64>(numbers.len()).unwrap());
        let (status, tickets) = (device.zeroed::<u64>(2 * 9).unwrap(), device.zeroed::<u32>(1).unwrap());
        let (from, status, tickets) = (from.global(), status.global(), tickets.global());
        let job = Job { from, to: to.global(), status, tickets, inclusive: 1 };
        // SAFETY: the buffers outlive the launch.
        let launched = unsafe { device.default_stream().launch(Grid::new(blocks, 64), Scan::<Plan> { job }) };
        launched.map_err(phalanx::Error::from).unwrap_or_else(told);
        assert_eq!(to.read().unwrap(), expected, "{blocks} blocks");
    }
}

#[test]
fn runs_and_choices_share_the_scans_look_back() {
    let keys: Vec<u32> = random(3, 2048 + 100).map(|number| (number % 2) as u32).collect();
    for device in schedules(1) {
        let (from, mut count) = (device.from_slice(&keys).unwrap(), device.buffer(1).unwrap());
        let (mut to, mut lengths) = (device.zeroed(keys.len()).unwrap(), device.zeroed(keys.len()).unwrap());
        let bytes = compact_bytes(keys.len()).max(runs_bytes(keys.len()));
        let mut work = Workspace::on_device(&device, bytes).unwrap();
        work.run_lengths(&from, (&mut to, &mut lengths), &mut count).unwrap_or_else(told);
        let mut begins = keys.clone();
        begins.dedup();
        assert_eq!(to.read().unwrap()[..begins.len()], begins);
        assert_eq!(lengths.read().unwrap().iter().sum::<u32>(), keys.len() as u32);
        work.partition(&from, Test::BeginsRun, &mut to, &mut count).unwrap_or_else(told);
        assert_eq!(to.read().unwrap()[..begins.len()], begins);
    }
}

#[test]
fn segments_are_right_in_every_order_of_tiles() {
    let offsets = [3u32, 3, 70, 200, 201, 530, 700, 700];
    let keys: Vec<u32> = random(5, 720).map(|number| number as u32 % 50).collect();
    let mut sorted: Vec<(u32, u32)> = keys.iter().copied().zip(0..).collect();
    let mut sums = Vec::new();
    for ends in offsets.windows(2) {
        sorted[ends[0] as usize..ends[1] as usize].sort();
        sums.push(keys[ends[0] as usize..ends[1] as usize].iter().sum::<u32>());
    }
    for device in schedules(2) {
        let (mut from, at) = (device.from_slice(&keys).unwrap(), device.from_slice(&offsets).unwrap());
        let mut work =
            Workspace::on_device(&device, sort_segments_bytes::<u32, u32>(720, 7) + 90_000).unwrap();
        work.set_tile(Some("64x4"));
        let mut results = device.buffer(7).unwrap();
        work.reduce_segments(Fold::Sum, &from, &at, &mut results).unwrap_or_else(told);
        assert_eq!(results.read().unwrap(), sums);
        work.set_tile(Some("64x3"));
        let mut values = device.from_slice(&(0..720).collect::<Vec<u32>>()).unwrap();
        work.sort_segment_pairs_in_place((&mut from, &mut values), &at).unwrap_or_else(told);
        let found: Vec<_> = from.read().unwrap().into_iter().zip(values.read().unwrap()).collect();
        assert!(found == sorted);
    }
}
