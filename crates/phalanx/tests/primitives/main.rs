//! The primitives, compared with `std`: sizes around the ends of tiles, different input orders, and schedules
//! with every detector.
mod bad_input;
mod choose;
mod scan;
mod schedules;
mod segments;
mod slices;
mod sort;

use phalanx::Device;
use simt::hash::mix64;

fn device() -> Device {
    Device::emulator(Default::default())
}

/// Returns sizes around the ends of tiles of `tile` elements.
fn sizes(tile: usize) -> Vec<usize> {
    vec![0, 1, 31, 33, tile - 1, tile, tile + 1, 2 * tile, 3 * tile + 7]
}

/// Returns pseudorandom numbers.
fn random(seed: u64, len: usize) -> impl Iterator<Item = u64> {
    (0..len as u64).map(move |place| mix64(mix64(seed) ^ place))
}

/// Returns inputs of each kind that is known to break sorts and scans.
fn inputs(len: usize) -> Vec<(&'static str, Vec<u64>)> {
    let random: Vec<u64> = random(len as u64, len).collect();
    let mut sorted = random.clone();
    sorted.sort_unstable();
    let reversed = sorted.iter().rev().copied().collect();
    vec![
        ("few values", random.iter().map(|number| number % 5).collect()),
        ("all equal", vec![0x0123_4567_89ab_cdef; len]),
        ("largest", vec![u64::MAX; len]),
        ("sorted", sorted),
        ("reversed", reversed),
        ("random", random),
    ]
}
