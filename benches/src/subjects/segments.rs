//! Benchmarks of `phalanx::primitives` on segments: sums, scans and sorts per segment, out of place. A
//! variant is a tile size; `default` is the usual one. The parameter `length` is the average length of
//! segments: each has a random length from 0 to twice that.
//!
//! | op | what is timed | an operation |
//! |---|---|---|
//! | `reduce_segments` | the sum of each segment, of numbers of `key_bits` | a number |
//! | `scan_segments` | an exclusive sum scan of each segment | a number |
//! | `sort_segments` | a sort of each segment, with values of `value_bits` | a key |
use super::primitives::{Launch, Numbered, Prepared, numbers, variants, workspace};
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use phalanx::primitives::{
    Fold, Number, reduce_segments_bytes, scan_segments_bytes, segment_tiles, segment_windows,
    sort_segments_bytes,
};
use rayon::prelude::*;
use simt::hash::{mix64, reduce};
use workloads::parallel;

/// Segmented primitives as a structure.
#[derive(Debug)]
pub struct AllSegments<'a>(pub &'a Gpu);

impl Structure for AllSegments<'_> {
    fn name(&self) -> &'static str {
        "Segments"
    }

    fn variants(&self) -> Vec<String> {
        let tiles = [segment_tiles::<u32>(Fold::Sum), segment_tiles::<u64>(Fold::Sum)].concat();
        variants(tiles.into_iter().chain(segment_windows::<u32>()))
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["reduce_segments", "scan_segments", "sort_segments"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let value_bits = if case.op == "sort_segments" { case.value_bits } else { 0 };
        Ok(match (case.key_bits, value_bits) {
            (32, 0) => Box::new(segments::<u32, ()>(self.0, case)?),
            (32, 32) => Box::new(segments::<u32, u32>(self.0, case)?),
            (64, 0) => Box::new(segments::<u64, ()>(self.0, case)?),
            (64, 64) => Box::new(segments::<u64, u64>(self.0, case)?),
            (key, value) => bail!("there are no segments of keys of {key} bits with values of {value}"),
        })
    }
}

/// Timed operation.
#[derive(Clone, Copy, PartialEq)]
enum What {
    Reduce,
    Scan,
    Sort,
}

/// Returns the start of each segment and the end of the last one, for `n` elements in segments of about
/// `length`.
fn offsets(case: &Case, length: u32) -> Vec<u32> {
    let (mut offsets, n) = (vec![0], case.n as u32);
    while offsets[offsets.len() - 1] < n {
        let random = mix64(mix64(case.seed) ^ offsets.len() as u64) as u32;
        let end = offsets[offsets.len() - 1].saturating_add(reduce(random, 2 * length + 1));
        offsets.push(end.min(n));
    }
    offsets
}

/// Computes the expected results.
fn expected<T: Number, V: Numbered>(what: What, numbers: &[T], offsets: &[u32]) -> (Vec<T>, Vec<V>) {
    let segments = offsets.par_windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
    let sum = |sum: T, number: &T| T::narrow(sum.widen() + number.widen());
    match what {
        What::Reduce => {
            (segments.map(|places| numbers[places].iter().fold(T::narrow(0), sum)).collect(), Vec::new())
        }
        What::Scan => {
            let scan = |places: std::ops::Range<usize>| {
                let before = |upto: &mut T, number: &T| {
                    let before = *upto;
                    *upto = sum(before, number);
                    Some(before)
                };
                numbers[places].iter().scan(T::narrow(0), before).collect::<Vec<_>>()
            };
            (segments.flat_map_iter(scan).collect(), Vec::new())
        }
        What::Sort => {
            let sort = |places: std::ops::Range<usize>| {
                let mut pairs: Vec<(T, u32)> = places.map(|place| (numbers[place], place as u32)).collect();
                // The index makes all pairs distinct, so this is the stable order.
                pairs.sort_unstable();
                pairs.into_iter().map(|(key, place)| (key, V::numbered(place)))
            };
            segments.flat_map_iter(sort).unzip()
        }
    }
}

/// Prepares an operation on numbers in segments.
fn segments<'a, T: Number, V: Numbered>(gpu: &'a Gpu, case: &Case) -> Result<Prepared<'a, T, V>> {
    let n = case.n as usize;
    ensure!(n < 1 << 30, "segments are of less than 2^30 elements here, not {n}");
    let length = case.params.get("length").and_then(|length| length.number()).unwrap_or(100.0);
    ensure!((1.0..=1e9).contains(&length), "segments are 1 to 10^9 elements long, not {length}");
    let what = match case.op.as_str() {
        "reduce_segments" => What::Reduce,
        "scan_segments" => What::Scan,
        _ => What::Sort,
    };
    let (numbers, offsets) = (numbers::<T>(case)?, offsets(case, length as u32));
    let expected = expected::<T, V>(what, &numbers, &offsets);
    let count = offsets.len() - 1;
    let (bytes, results) = match what {
        What::Reduce => (reduce_segments_bytes::<T>(n, count), count),
        What::Scan => (scan_segments_bytes::<T>(n), n),
        What::Sort => (sort_segments_bytes::<T, V>(n, count), n),
    };
    // Small tiles need more workspace, and small windows leave more segments to the sort of long segments.
    let small = if gpu.device.is_emulator() { 128 * n + 65536 } else { 1 << 20 };
    let work = workspace(gpu, case, 2 * bytes + small)?;
    let values: Vec<V> = parallel::tabulate(n, |index| V::numbered(index as u32));
    let (device, operations) = (&gpu.device, n);
    let (from, offsets) = (device.from_slice(&numbers)?, device.from_slice(&offsets)?);
    let (to, moved, values) = (device.buffer(results)?, device.buffer(n)?, device.from_slice(&values)?);
    // Each element is read once, and each result is written once.
    let moved_values = if what == What::Sort { 2 * values.byte_len() } else { 0 };
    let bytes_moved = from.byte_len() + to.byte_len() + moved_values;
    let launch: Launch<T, V> = Box::new(move |work, to, moved| match what {
        What::Reduce => work.reduce_segments(Fold::Sum, &from, &offsets, to),
        What::Scan => work.exclusive_scan_segments(Fold::Sum, &from, &offsets, to),
        What::Sort if size_of::<V>() == 0 => work.sort_segments(&from, &offsets, to),
        What::Sort => work.sort_segment_pairs((&from, &values), &offsets, (to, moved)),
    });
    Ok(Prepared { gpu, work, to, moved, expected, operations, bytes_moved, launch })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn each_operation_is_verified() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let segments = AllSegments(&gpu);
        for op in segments.ops() {
            let case = Case { op: (*op).to_owned(), ..first_case("primitives/segments", 0) };
            let mut benchmark = segments.prepare(&case).unwrap();
            benchmark.restore().unwrap();
            let error = benchmark.verify().unwrap_err().to_string();
            assert!(error.contains("results: element 0"), "{op}: {error}");
            benchmark.launch().unwrap();
            assert_eq!(benchmark.verify().unwrap().succeeded, case.n, "{op}");
        }
    }

    #[test]
    fn values_that_were_swapped_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let case = Case { op: "sort_segments".to_owned(), ..first_case("primitives/segments", 0) };
        let mut sort = segments::<u32, u32>(&gpu, &case).unwrap();
        sort.launch().unwrap();
        let mut values = sort.moved.read().unwrap();
        values.swap(7, 8);
        sort.moved.write(&values).unwrap();
        assert!(sort.verify().unwrap_err().to_string().contains("values: element 7"));
    }
}
