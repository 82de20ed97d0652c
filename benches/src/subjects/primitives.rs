//! Benchmarks of `phalanx::primitives`: radix sorts and scans, out of place. A variant is a tile size;
//! `default` is the usual one.
//!
//! | op | what is timed | an operation |
//! |---|---|---|
//! | `sort_pairs` | keys of `key_bits` with values of `value_bits`, all bits | a pair |
//! | `sort_keys` | keys without values | a key |
//! | `scan` | an exclusive scan of numbers of `key_bits`, by `fold` | a number |
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::record::Param;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use bytemuck::Pod;
use gpu::Buffer;
use phalanx::primitives::{Bits, Fold, Number, Workspace, scan_bytes, scan_tiles, sort_bytes, sort_tiles};
use rayon::prelude::*;
use simt::hash::mix64;

/// Variant that uses the default tile.
const DEFAULT: &str = "default";

/// Radix sorts.
#[derive(Debug)]
pub struct Sorts<'a> {
    gpu: &'a Gpu,
}

/// Scans.
#[derive(Debug)]
pub struct Scans<'a> {
    gpu: &'a Gpu,
}

impl<'a> Sorts<'a> {
    /// Returns the sorts of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }
}

impl<'a> Scans<'a> {
    /// Returns the scans of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }
}

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
            (32, 0) => Box::new(Sort::<u32, ()>::new(self.gpu, case)?),
            (32, 32) => Box::new(Sort::<u32, u32>::new(self.gpu, case)?),
            (32, 64) => Box::new(Sort::<u32, u64>::new(self.gpu, case)?),
            (32, 128) => Box::new(Sort::<u32, u128>::new(self.gpu, case)?),
            (64, 0) => Box::new(Sort::<u64, ()>::new(self.gpu, case)?),
            (64, 32) => Box::new(Sort::<u64, u32>::new(self.gpu, case)?),
            (64, 64) => Box::new(Sort::<u64, u64>::new(self.gpu, case)?),
            (64, 128) => Box::new(Sort::<u64, u128>::new(self.gpu, case)?),
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
            32 => Box::new(Scan::<u32>::new(self.gpu, case)?),
            64 => Box::new(Scan::<u64>::new(self.gpu, case)?),
            bits => bail!("there is no scan of numbers of {bits} bits"),
        })
    }
}

/// Returns a text parameter of the case, or `usual`.
fn word<'a>(case: &'a Case, name: &str, usual: &'a str) -> Result<&'a str> {
    match case.params.get(name) {
        None => Ok(usual),
        Some(Param::Text(text)) => Ok(text),
        Some(other) => bail!("{name} is a word, not {other}"),
    }
}

/// Returns the tile that the case's variant names.
pub(super) fn tile(case: &Case) -> Option<&str> {
    Some(case.variant.as_str()).filter(|name| *name != DEFAULT)
}

/// Generates numbers with the case's `distribution`.
pub(super) fn numbers<K: Number>(case: &Case) -> Result<Vec<K>> {
    let seed = mix64(case.seed);
    let number = |place: u64| K::narrow(u128::from(mix64(seed ^ place)));
    let all: Vec<K> = (0..case.n).into_par_iter().map(number).collect();
    match word(case, "distribution", "uniform")? {
        "uniform" => Ok(all),
        "equal" => Ok(vec![all[0]; all.len()]),
        "sorted" => {
            let mut sorted = all;
            sorted.par_sort_unstable();
            Ok(sorted)
        }
        other => bail!("no distribution is called '{other}': say uniform, equal or sorted"),
    }
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
pub(super) fn ensure_equal<T: PartialEq + Sync>(what: &str, found: &[T], expected: &[T]) -> Result<()> {
    let wrong = found.par_iter().zip(expected).position_first(|(found, expected)| found != expected);
    ensure!(found.len() == expected.len(), "there are {} {what}, not {}", found.len(), expected.len());
    wrong.map_or(Ok(()), |place| bail!("{what}: element {place} is wrong"))
}

/// Prepared sort.
struct Sort<'a, K, V> {
    gpu: &'a Gpu,
    work: Workspace,
    keys: Buffer<K>,
    values: Buffer<V>,
    sorted: Buffer<K>,
    moved: Buffer<V>,
    expected: (Vec<K>, Vec<V>),
}

impl<'a, K: Number, V: Numbered> Sort<'a, K, V> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (keys, n) = (numbers::<K>(case)?, case.n as usize);
        ensure!(n < 1 << 30, "a sort takes less than 2^30 elements, not {n}");
        let values: Vec<V> = (0..n as u32).into_par_iter().map(V::numbered).collect();
        let mut pairs: Vec<(K, u32)> = keys.par_iter().copied().zip(0..n as u32).collect();
        // The index makes all pairs distinct, so this is the stable order.
        pairs.par_sort_unstable();
        let expected = pairs.into_par_iter().map(|(key, number)| (key, V::numbered(number))).unzip();
        let device = &gpu.device;
        // The smallest tiles, which the emulator uses, need the most workspace.
        let small = if device.is_emulator() { 16 * n + 8192 } else { 1 << 20 };
        let mut work = Workspace::new(&gpu.stream, sort_bytes::<K, V>(n) * 5 / 4 + small)?;
        work.set_tile(tile(case));
        let (sorted, moved) = (device.buffer(n)?, device.buffer(n)?);
        let (keys, values) = (device.from_slice(&keys)?, device.from_slice(&values)?);
        Ok(Self { gpu, work, keys, values, sorted, moved, expected })
    }
}

impl<K: Number, V: Numbered> Benchmark for Sort<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        self.sorted.fill_bytes(0xa5)?;
        self.moved.fill_bytes(0xa5)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        if size_of::<V>() == 0 {
            return Ok(self.work.sort_keys(&self.keys, &mut self.sorted, Bits::ALL)?);
        }
        let to = (&mut self.sorted, &mut self.moved);
        Ok(self.work.sort_pairs((&self.keys, &self.values), to, Bits::ALL)?)
    }

    fn verify(&mut self) -> Result<Verified> {
        ensure_equal("keys", &self.sorted.read()?, &self.expected.0)?;
        if size_of::<V>() > 0 {
            ensure_equal("values", &self.moved.read()?, &self.expected.1)?;
        }
        let compared = self.operations();
        Ok(Verified { compared, succeeded: compared })
    }

    fn operations(&self) -> u64 {
        self.keys.len() as u64
    }

    /// One read for the histograms, and a read and a write for each digit.
    fn metrics(&self) -> Vec<Metric> {
        let (passes, key, value) = (size_of::<K>(), size_of::<K>(), size_of::<V>());
        let moved = self.operations() * (key + 2 * passes * (key + value)) as u64;
        vec![Metric::TableBytes(self.work.memory_usage() as u64), Metric::BytesMoved(moved)]
    }
}

/// Prepared scan.
struct Scan<'a, T> {
    gpu: &'a Gpu,
    work: Workspace,
    fold: Fold,
    from: Buffer<T>,
    to: Buffer<T>,
    expected: Vec<T>,
}

impl<'a, T: Number> Scan<'a, T> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (numbers, n) = (numbers::<T>(case)?, case.n as usize);
        let fold = match word(case, "fold", "sum")? {
            "sum" => Fold::Sum,
            "min" => Fold::Min,
            "max" => Fold::Max,
            other => bail!("no operation is called '{other}': say sum, min or max"),
        };
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
        let mut work = Workspace::new(&gpu.stream, 2 * scan_bytes::<T>(n) + 16 * n.min(1 << 20))?;
        work.set_tile(tile(case));
        let (from, to) = (gpu.device.from_slice(&numbers)?, gpu.device.buffer(n)?);
        Ok(Self { gpu, work, fold, from, to, expected })
    }
}

impl<T: Number> Benchmark for Scan<'_, T> {
    fn restore(&mut self) -> Result<()> {
        self.to.fill_bytes(0xa5)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        Ok(self.work.exclusive_scan(self.fold, &self.from, &mut self.to)?)
    }

    fn verify(&mut self) -> Result<Verified> {
        ensure_equal("results", &self.to.read()?, &self.expected)?;
        let compared = self.operations();
        Ok(Verified { compared, succeeded: compared })
    }

    fn operations(&self) -> u64 {
        self.from.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let moved = (self.from.byte_len() + self.to.byte_len()) as u64;
        vec![Metric::TableBytes(self.work.memory_usage() as u64), Metric::BytesMoved(moved)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn results_that_were_not_written_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        for (suite, wrong) in
            [("primitives/sort", "keys: element 0"), ("primitives/scan", "results: element 0")]
        {
            let case = first_case(suite, 0);
            let structure: Box<dyn Structure> = match suite {
                "primitives/sort" => Box::new(Sorts::new(&gpu)),
                _ => Box::new(Scans::new(&gpu)),
            };
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
        let mut sort = Sort::<u32, u32>::new(&gpu, &first_case("primitives/sort", 0)).unwrap();
        sort.launch().unwrap();
        let mut values = sort.moved.read().unwrap();
        values.swap(7, 8);
        sort.moved.write(&values).unwrap();
        assert!(sort.verify().unwrap_err().to_string().contains("values: element 7"));
    }
}
