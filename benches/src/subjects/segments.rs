//! Benchmarks of `phalanx::primitives` on segments: sums, scans and sorts per segment, out of place. A
//! variant is a tile size; `default` is the usual one. The parameter `length` is the average length of
//! segments: each has a random length from 0 to twice that.
//!
//! | op | what is timed | an operation |
//! |---|---|---|
//! | `reduce_segments` | the sum of each segment, of numbers of `key_bits` | a number |
//! | `scan_segments` | an exclusive sum scan of each segment | a number |
//! | `sort_segments` | a sort of each segment, with values of `value_bits` | a key |
use super::primitives::{Numbered, ensure_equal, numbers, tile, variants};
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::Buffer;
use phalanx::primitives::{
    Fold, Number, Workspace, reduce_segments_bytes, scan_segments_bytes, segment_tiles, segment_windows,
    sort_segments_bytes,
};
use rayon::prelude::*;
use simt::hash::{mix64, reduce};

/// Segmented primitives as a structure.
#[derive(Debug)]
pub struct AllSegments<'a> {
    gpu: &'a Gpu,
}

impl<'a> AllSegments<'a> {
    /// Returns the segmented primitives of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }
}

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
            (32, 0) => Box::new(Segments::<u32, ()>::new(self.gpu, case)?),
            (32, 32) => Box::new(Segments::<u32, u32>::new(self.gpu, case)?),
            (64, 0) => Box::new(Segments::<u64, ()>::new(self.gpu, case)?),
            (64, 64) => Box::new(Segments::<u64, u64>::new(self.gpu, case)?),
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

/// Prepared case: numbers in segments.
struct Segments<'a, T, V> {
    gpu: &'a Gpu,
    work: Workspace,
    what: What,
    offsets: Buffer<u32>,
    from: Buffer<T>,
    values: Buffer<V>,
    to: Buffer<T>,
    moved: Buffer<V>,
    expected: (Vec<T>, Vec<V>),
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

impl<'a, T: Number, V: Numbered> Segments<'a, T, V> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
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
        let count = offsets.len() - 1;
        let bytes = match what {
            What::Reduce => reduce_segments_bytes::<T>(n, count),
            What::Scan => scan_segments_bytes::<T>(n),
            What::Sort => sort_segments_bytes::<T, V>(n, count),
        };
        // Small tiles need more workspace, and small windows leave more segments to the sort of long
        // segments.
        let small = if gpu.device.is_emulator() { 128 * n + 65536 } else { 1 << 20 };
        let mut work = Workspace::new(&gpu.stream, 2 * bytes + small)?;
        work.set_tile(tile(case));
        let results = if what == What::Reduce { count } else { n };
        let values: Vec<V> = (0..n as u32).into_par_iter().map(V::numbered).collect();
        let device = &gpu.device;
        Ok(Self {
            gpu,
            work,
            what,
            offsets: device.from_slice(&offsets)?,
            from: device.from_slice(&numbers)?,
            values: device.from_slice(&values)?,
            to: device.buffer(results)?,
            moved: device.buffer(n)?,
            expected: expected::<T, V>(what, &numbers, &offsets),
        })
    }
}

impl<T: Number, V: Numbered> Benchmark for Segments<'_, T, V> {
    fn restore(&mut self) -> Result<()> {
        self.to.fill_bytes(0xa5)?;
        self.moved.fill_bytes(0xa5)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let Self { work, offsets, from, to, .. } = self;
        let asked = match self.what {
            What::Reduce => work.reduce_segments(Fold::Sum, from, offsets, to),
            What::Scan => work.exclusive_scan_segments(Fold::Sum, from, offsets, to),
            What::Sort if size_of::<V>() == 0 => work.sort_segments(from, offsets, to),
            What::Sort => work.sort_segment_pairs((from, &self.values), offsets, (to, &mut self.moved)),
        };
        Ok(asked?)
    }

    fn verify(&mut self) -> Result<Verified> {
        ensure_equal("results", &self.to.read()?, &self.expected.0)?;
        if self.what == What::Sort && size_of::<V>() > 0 {
            ensure_equal("values", &self.moved.read()?, &self.expected.1)?;
        }
        let compared = self.operations();
        Ok(Verified { compared, succeeded: compared })
    }

    fn operations(&self) -> u64 {
        self.from.len() as u64
    }

    /// Each element is read once, and each result is written once.
    fn metrics(&self) -> Vec<Metric> {
        let values = if self.what == What::Sort { 2 * self.values.byte_len() } else { 0 };
        let moved = (self.from.byte_len() + self.to.byte_len() + values) as u64;
        vec![Metric::TableBytes(self.work.memory_usage() as u64), Metric::BytesMoved(moved)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn each_operation_is_verified() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let segments = AllSegments::new(&gpu);
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
        let mut sort = Segments::<u32, u32>::new(&gpu, &case).unwrap();
        sort.launch().unwrap();
        let mut values = sort.moved.read().unwrap();
        values.swap(7, 8);
        sort.moved.write(&values).unwrap();
        assert!(sort.verify().unwrap_err().to_string().contains("values: element 7"));
    }
}
