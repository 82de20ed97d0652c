//! Benchmarks of `phalanx::primitives`: radix sorts and scans, out of place. A variant is a tile size;
//! `default` is the usual one.
//!
//! | op | what is timed | an operation |
//! |---|---|---|
//! | `sort_pairs` | keys of `key_bits` with values of `value_bits`, all bits | a pair |
//! | `sort_keys` | keys without values | a key |
//! | `scan` | an exclusive scan of numbers of `key_bits`, by `fold` | a number |
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use bytemuck::Pod;
use gpu::Buffer;
use phalanx::primitives::{Bits, Fold, Number, Workspace, scan_bytes, scan_tiles, sort_bytes, sort_tiles};
use rayon::prelude::*;
use simt::hash::mix64;
use workloads::parallel;

/// Variant that uses the default tile.
const DEFAULT: &str = "default";

/// Radix sorts.
#[derive(Debug)]
pub struct Sorts<'a>(pub &'a Gpu);

/// Scans.
#[derive(Debug)]
pub struct Scans<'a>(pub &'a Gpu);

/// Returns the names of tiles as variants, without the duplicates that different types produce.
pub(super) fn variants(tiles: impl IntoIterator<Item = &'static str>) -> Vec<String> {
    let mut names: Vec<String> = tiles.into_iter().map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names.insert(0, DEFAULT.to_owned());
    names
}

impl Structure for Sorts<'_> {
    fn name(&self) -> &'static str {
        "RadixSort"
    }

    fn variants(&self) -> Vec<String> {
        let short = [sort_tiles::<u32, ()>(), sort_tiles::<u32, u32>(), sort_tiles::<u32, u64>()].concat();
        let long = [sort_tiles::<u64, ()>(), sort_tiles::<u64, u32>(), sort_tiles::<u64, u64>()].concat();
        variants(short.into_iter().chain(long))
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["sort_pairs", "sort_keys"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let value_bits = if case.op == "sort_keys" { 0 } else { case.value_bits };
        Ok(match (case.key_bits, value_bits) {
            (32, 0) => Box::new(sort::<u32, ()>(self.0, case)?),
            (32, 32) => Box::new(sort::<u32, u32>(self.0, case)?),
            (32, 64) => Box::new(sort::<u32, u64>(self.0, case)?),
            (32, 128) => Box::new(sort::<u32, u128>(self.0, case)?),
            (64, 0) => Box::new(sort::<u64, ()>(self.0, case)?),
            (64, 32) => Box::new(sort::<u64, u32>(self.0, case)?),
            (64, 64) => Box::new(sort::<u64, u64>(self.0, case)?),
            (64, 128) => Box::new(sort::<u64, u128>(self.0, case)?),
            (key, value) => bail!("there is no sort of keys of {key} bits with values of {value}"),
        })
    }
}

impl Structure for Scans<'_> {
    fn name(&self) -> &'static str {
        "Scan"
    }

    fn variants(&self) -> Vec<String> {
        variants([scan_tiles::<u32>(Fold::Sum), scan_tiles::<u64>(Fold::Sum)].concat())
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["scan"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(match case.key_bits {
            32 => Box::new(scan::<u32>(self.0, case)?),
            64 => Box::new(scan::<u64>(self.0, case)?),
            bits => bail!("there is no scan of numbers of {bits} bits"),
        })
    }
}

/// Generates numbers with the case's `distribution`.
pub(super) fn numbers<K: Number>(case: &Case) -> Result<Vec<K>> {
    let seed = mix64(case.seed);
    let number = |place: u64| K::narrow(u128::from(mix64(seed ^ place)));
    let mut all: Vec<K> = (0..case.n).into_par_iter().map(number).collect();
    match case.choice("distribution", &["uniform", "equal", "sorted"].map(|name| (name, name)))? {
        "uniform" => {}
        "equal" => all = vec![all[0]; all.len()],
        _ => all.par_sort_unstable(),
    }
    Ok(all)
}

/// Value type that can represent the index of an element.
pub(super) trait Numbered: Pod + PartialEq + Send + Sync {
    fn numbered(place: u32) -> Self;
}

impl Numbered for () {
    fn numbered(_place: u32) {}
}

macro_rules! numbered {
    ($($word:ty)*) => {$(
        impl Numbered for $word {
            fn numbered(place: u32) -> Self {
                <$word>::from(place).rotate_left(7)
            }
        }
    )*};
}
numbered!(u32 u64 u128);

/// Checks that two arrays are equal, and reports the first difference.
fn ensure_equal<T: PartialEq + Sync>(what: &str, found: &[T], expected: &[T]) -> Result<()> {
    let wrong = found.par_iter().zip(expected).position_first(|(found, expected)| found != expected);
    ensure!(found.len() == expected.len(), "there are {} {what}, not {}", found.len(), expected.len());
    wrong.map_or(Ok(()), |place| bail!("{what}: element {place} is wrong"))
}

/// Call of a primitive that writes to a buffer of numbers and to one of values.
pub(super) type Launch<T, V> =
    Box<dyn FnMut(&mut Workspace, &mut Buffer<T>, &mut Buffer<V>) -> phalanx::Result<()>>;

/// Prepared case: a primitive, its outputs and their expected contents.
pub(super) struct Prepared<'a, T, V> {
    pub gpu: &'a Gpu,
    pub work: Workspace,
    pub to: Buffer<T>,
    pub moved: Buffer<V>,
    /// Contents of `to` and `moved`. The values are not compared if there are none.
    pub expected: (Vec<T>, Vec<V>),
    pub operations: usize,
    /// Minimum number of bytes that the primitive reads and writes.
    pub bytes_moved: usize,
    pub launch: Launch<T, V>,
}

impl<T: Number, V: Numbered> Benchmark for Prepared<'_, T, V> {
    fn restore(&mut self) -> Result<()> {
        self.to.fill_bytes(0xa5)?;
        self.moved.fill_bytes(0xa5)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        Ok((self.launch)(&mut self.work, &mut self.to, &mut self.moved)?)
    }

    fn verify(&mut self) -> Result<Verified> {
        ensure_equal("results", &self.to.read()?, &self.expected.0)?;
        if size_of::<V>() > 0 && !self.expected.1.is_empty() {
            ensure_equal("values", &self.moved.read()?, &self.expected.1)?;
        }
        Ok(Verified::all(self.operations))
    }

    fn operations(&self) -> u64 {
        self.operations as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let moved = Metric::BytesMoved(self.bytes_moved as u64);
        vec![Metric::TableBytes(self.work.memory_usage() as u64), moved]
    }
}

/// Creates a workspace with the tile that the case's variant names.
pub(super) fn workspace(gpu: &Gpu, case: &Case, bytes: usize) -> Result<Workspace> {
    let mut work = Workspace::new(&gpu.stream, bytes)?;
    work.set_tile(Some(case.variant.as_str()).filter(|name| *name != DEFAULT));
    Ok(work)
}

/// Prepares a sort of pairs, or of keys alone if values have no size.
fn sort<'a, K: Number, V: Numbered>(gpu: &'a Gpu, case: &Case) -> Result<Prepared<'a, K, V>> {
    let (keys, n) = (numbers::<K>(case)?, case.n as usize);
    ensure!(n < 1 << 30, "a sort takes less than 2^30 elements, not {n}");
    let values: Vec<V> = parallel::tabulate(n, |index| V::numbered(index as u32));
    let mut pairs: Vec<(K, u32)> = keys.par_iter().copied().zip(0..n as u32).collect();
    // The index makes all pairs distinct, so this is the stable order.
    pairs.par_sort_unstable();
    let expected = pairs.into_par_iter().map(|(key, number)| (key, V::numbered(number))).unzip();
    let device = &gpu.device;
    // The smallest tiles, which the emulator uses, need the most workspace.
    let small = if device.is_emulator() { 16 * n + 8192 } else { 1 << 20 };
    let work = workspace(gpu, case, sort_bytes::<K, V>(n) * 5 / 4 + small)?;
    let (keys, values) = (device.from_slice(&keys)?, device.from_slice(&values)?);
    let (to, moved) = (device.buffer(n)?, device.buffer(n)?);
    // One read for the histograms, and a read and a write for each digit.
    let (passes, key, value) = (size_of::<K>(), size_of::<K>(), size_of::<V>());
    let bytes_moved = n * (key + 2 * passes * (key + value));
    let launch: Launch<K, V> = Box::new(move |work, sorted, moved| match size_of::<V>() {
        0 => work.sort_keys(&keys, sorted, Bits::ALL),
        _ => work.sort_pairs((&keys, &values), (sorted, moved), Bits::ALL),
    });
    Ok(Prepared { gpu, work, to, moved, expected, operations: n, bytes_moved, launch })
}

/// Prepares a scan.
fn scan<'a, T: Number>(gpu: &'a Gpu, case: &Case) -> Result<Prepared<'a, T, ()>> {
    let (numbers, n) = (numbers::<T>(case)?, case.n as usize);
    let fold = case.choice("fold", &[("sum", Fold::Sum), ("min", Fold::Min), ("max", Fold::Max)])?;
    let mut before = T::narrow(if fold == Fold::Min { u128::MAX } else { 0 });
    let mut expected = Vec::with_capacity(n);
    for &number in &numbers {
        expected.push(before);
        before = match fold {
            Fold::Sum => T::narrow(before.widen() + number.widen()),
            Fold::Min => before.min(number),
            Fold::Max => before.max(number),
        };
    }
    let work = workspace(gpu, case, 2 * scan_bytes::<T>(n) + 16 * n.min(1 << 20))?;
    let (from, to) = (gpu.device.from_slice(&numbers)?, gpu.device.buffer(n)?);
    let (moved, bytes_moved) = (gpu.device.buffer(0)?, from.byte_len() + to.byte_len());
    let launch: Launch<T, ()> = Box::new(move |work, to, _| work.exclusive_scan(fold, &from, to));
    let expected = (expected, Vec::new());
    Ok(Prepared { gpu, work, to, moved, expected, operations: n, bytes_moved, launch })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn results_that_were_not_written_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let (sorts, scans) = (Sorts(&gpu), Scans(&gpu));
        let cases: [(&str, &dyn Structure, &str); 2] = [
            ("primitives/sort", &sorts, "results: element 0"),
            ("primitives/scan", &scans, "results: element 0"),
        ];
        for (suite, structure, wrong) in cases {
            let case = first_case(suite, 0);
            let mut benchmark = structure.prepare(&case).unwrap();
            benchmark.restore().unwrap();
            let error = benchmark.verify().unwrap_err().to_string();
            assert!(error.contains(wrong), "{error}");
            benchmark.launch().unwrap();
            assert_eq!(benchmark.verify().unwrap().succeeded, case.n);
        }
    }

    #[test]
    fn values_that_were_swapped_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut sort = sort::<u32, u32>(&gpu, &first_case("primitives/sort", 0)).unwrap();
        sort.launch().unwrap();
        let mut values = sort.moved.read().unwrap();
        values.swap(7, 8);
        sort.moved.write(&values).unwrap();
        assert!(sort.verify().unwrap_err().to_string().contains("values: element 7"));
    }
}
