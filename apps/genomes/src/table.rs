//! Tables on a device: within its memory, or with a budget.
use crate::kmers::Length;
use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, ValueEnum};
use indicatif::BinaryBytes;
use phalanx::gpu::Device;
use phalanx::hash_map::{Growth, HashMap};
use phalanx::tiered_map::{Builder, Placement};
use phalanx::{Merge, TieredMap, Value};
use std::str::FromStr;

/// Options for the device and the table on it.
#[derive(Args, Clone, Debug)]
pub struct TableArgs {
    /// Device: auto (a GPU if available, else the emulator), cuda, cuda:N or emulator
    #[arg(long, default_value = "auto")]
    pub device: String,
    /// Expected number of distinct k-mers. The table grows beyond it; a good estimate saves time, and memory
    /// during growth
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub capacity: Option<u64>,
    /// Limit of device memory, such as 256M or 4G. The table then lies in the host's memory, unless it fits
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<Bytes>,
    /// Place the table differently, to compare: remote is one table in pinned memory, accessed over the bus
    #[arg(long, value_enum, value_name = "NAME", requires = "budget")]
    pub baseline: Option<Baseline>,
    /// Number of pairs in a batch
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub batch: Option<u64>,
}

/// Placement to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Baseline {
    /// One table in pinned host memory; all operations go over the bus.
    Remote,
}

/// A number of bytes, written with a suffix of powers of 1024: 256M.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub usize);

impl FromStr for Bytes {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let advice = || anyhow!("{text} is no number of bytes: write one such as 500000, 64K, 256M or 4G");
        let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
        let shift =
            match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB").trim_end_matches('B') {
                "" => 0,
                "K" => 10,
                "M" => 20,
                "G" => 30,
                "T" => 40,
                _ => return Err(advice()),
            };
        let number: usize = digits.parse().map_err(|_| advice())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(advice)
    }
}

/// Properties of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Initial capacity in distinct k-mers. The table grows when it is full.
    pub capacity: usize,
    /// Limit of device memory in bytes. Without one, the table is in device memory as a whole.
    pub budget: Option<usize>,
    /// Placement to compare with. Only with a budget.
    pub baseline: Option<Baseline>,
    /// Number of pairs in a batch.
    pub batch: usize,
}

/// Upper limit of the initial capacity on a device when the user sets none, in pairs: 128 MiB.
const MOST_AT_FIRST: u64 = 1 << 22;
/// Pairs of a batch for a table on the device: 16 MiB.
const BATCH: usize = 1 << 20;
/// Most pairs of a batch unless the user asks for more: 1 GiB.
const LARGEST_BATCH: usize = 1 << 26;
/// The number of shards of a table with a budget is at most two to this power.
const MOST_SHARD_BITS: u32 = 16;
/// Bytes of device or host memory that a distinct k-mer takes.
const PAIR_BYTES: u64 = 20;

impl TableOptions {
    /// Returns options for the k-mers of an input of `size` bytes.
    ///
    /// With a budget, each shard of the table is copied to the device and back for a batch, so a batch should
    /// have as many pairs as half the table.
    pub fn new(args: &TableArgs, length: Length, size: u64) -> Self {
        Self::on_devices(args, length, size, 1)
    }

    /// Returns options for a table on `devices` devices, as [`Self::new`]. The part on each begins as large
    /// as a table on one would.
    pub fn on_devices(args: &TableArgs, length: Length, size: u64, devices: usize) -> Self {
        let budget = args.budget.map(|bytes| bytes.0);
        // A file has hardly more distinct k-mers than bytes, and never more than there are k-mers of this
        // length. A table with a budget begins with up to four times the budget.
        let of_devices = MOST_AT_FIRST.saturating_mul(devices as u64);
        let most = budget.map_or(of_devices, |bytes| (bytes as u64 / PAIR_BYTES * 4).max(1024));
        let guess = size.clamp(1024, most.max(1024)).min(length.kinds());
        let capacity = args.capacity.unwrap_or(guess) as usize;
        let of_shards = || (capacity / 2).clamp(BATCH, LARGEST_BATCH);
        let batch = args.batch.map_or_else(|| budget.map_or(BATCH, |_| of_shards()), |batch| batch as usize);
        Self { capacity, budget, baseline: args.baseline, batch }
    }
}

/// Returns a builder whose shards fit the budget: a small table has few shards unless more are asked for.
fn divided<V: Value>(builder: Builder<u64, V>, budget: usize) -> Result<Builder<u64, V>> {
    let mut least = builder.min_budget()?;
    if least <= budget {
        return Ok(builder);
    }
    for bits in 2..=MOST_SHARD_BITS {
        let builder = builder.clone().shards(1 << bits);
        least = least.min(builder.min_budget()?);
        if least <= budget {
            return Ok(builder);
        }
    }
    bail!("--budget {budget} is too small for so many k-mers: give at least {least} bytes")
}

/// Opens the device of a name.
///
/// # Errors
/// Returns [`anyhow::Error`] when it is not available.
pub fn open(name: &str) -> Result<Device> {
    let device = if name == "auto" { Device::from_environment() } else { Device::named(name) };
    device.with_context(|| {
        format!(
            "no device {name}: --device emulator needs no GPU, and --device auto takes one if there is one"
        )
    })
}

/// A hash map from packed k-mers to values.
#[derive(Debug)]
pub enum Table<V: Value> {
    /// In device memory.
    Whole(Box<HashMap<u64, V>>),
    /// With a budget of device memory.
    Tiered(Box<TieredMap<u64, V>>),
}

impl<V: Value> Table<V> {
    /// Creates an empty table.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device or the host lacks the memory, or the budget is too small.
    pub fn new(device: &Device, options: &TableOptions) -> Result<Self> {
        let capacity = options.capacity;
        let Some(budget) = options.budget else {
            let builder = HashMap::builder().device(device).capacity(capacity).growth(Growth::Doubling);
            return builder.build().map(Box::new).map(Self::Whole).with_context(|| {
                format!("no table for {capacity} k-mers: a smaller --capacity does, since the table grows")
            });
        };
        let builder = TieredMap::builder().device(device).capacity(capacity).budget(budget);
        let remote = options.baseline.map(|Baseline::Remote| Placement::Remote);
        let builder = builder.placement(remote.unwrap_or_default());
        divided(builder, budget)?.build().map(Box::new).map(Self::Tiered).with_context(|| {
            format!(
                "no table for {capacity} k-mers: the host has not enough memory that can be pinned; a \
                 smaller --capacity does, since the table grows"
            )
        })
    }

    /// Inserts pairs, and merges their values with those of present keys.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the table cannot grow, or the device fails.
    pub fn upsert(&self, merge: Merge<V>, keys: &[u64], values: &[V]) -> Result<()> {
        // A growing table either inserts all pairs or returns an error.
        let result = match self {
            Self::Whole(map) => map.upsert(merge, keys, values),
            Self::Tiered(map) => map.upsert(merge, keys, values),
        };
        result.map(drop).with_context(|| self.advice())
    }

    /// Inserts or merges pairs as [`Self::upsert`] does. A table with a budget writes outcomes to `outcomes`,
    /// one for each pair: in pinned memory, this takes no time of the host.
    ///
    /// # Errors
    /// As [`Self::upsert`].
    pub fn upsert_into(
        &self,
        merge: Merge<V>,
        (keys, values): (&[u64], &[V]),
        outcomes: &mut [u8],
    ) -> Result<()> {
        match self {
            Self::Whole(_) => self.upsert(merge, keys, values),
            Self::Tiered(map) => {
                map.upsert_into(merge, keys, values, outcomes).with_context(|| self.advice())
            }
        }
    }

    /// Inserts the pairs whose keys are absent. Returns for each pair the value of its key.
    ///
    /// # Errors
    /// As [`Self::upsert`].
    pub fn get_or_insert(&self, keys: &[u64], values: &[V]) -> Result<Vec<Option<V>>> {
        let result = match self {
            Self::Whole(map) => map.get_or_insert(keys, values),
            Self::Tiered(map) => map.get_or_insert(keys, values),
        };
        result.with_context(|| self.advice())
    }

    /// Writes the values of keys to `values`, and to `found` whether each key is present.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails, or the slices differ in length.
    pub fn get_into(&self, keys: &[u64], values: &mut [V], found: &mut [bool]) -> Result<()> {
        let result = match self {
            Self::Whole(map) => map.get_into(keys, values, found),
            Self::Tiered(map) => map.get_into(keys, values, found),
        };
        result.context("k-mers could not be looked up on the device")
    }

    /// Copies all keys and values to the host, in no particular order.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails, or lacks the memory.
    pub fn export(&self) -> Result<(Vec<u64>, Vec<V>)> {
        let result = match self {
            Self::Whole(map) => map.export(),
            Self::Tiered(map) => map.export(),
        };
        result.context("the table could not be copied from the device")
    }

    /// Returns the number of keys.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails.
    pub fn len(&self) -> Result<usize> {
        match self {
            Self::Whole(map) => Ok(map.len()?),
            Self::Tiered(map) => Ok(map.len()),
        }
    }

    /// Returns whether there are no keys.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Returns the memory of the table.
    pub fn memory(&self) -> Memory {
        match self {
            Self::Whole(map) => Memory { device: map.memory_usage(), host: 0, budget: None },
            Self::Tiered(map) => Memory {
                device: map.peak_device_bytes(),
                host: if map.is_resident() { 0 } else { map.host_bytes() },
                budget: Some(map.budget()),
            },
        }
    }

    fn advice(&self) -> String {
        match self {
            Self::Whole(map) => format!(
                "the table could not grow beyond {} k-mers: while it grows there are two, so set --capacity \
                 to what is needed at once, give a --budget, or read fewer files at a time",
                map.capacity()
            ),
            Self::Tiered(map) => format!(
                "the table could not grow beyond {} places in the host's memory: read fewer files at a time",
                map.slots()
            ),
        }
    }
}

/// Memory of a table, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Most device memory at one time with a budget; otherwise the size of the table.
    pub device: usize,
    /// Host memory of a table that does not fit its budget.
    pub host: usize,
    /// Limit of device memory.
    pub budget: Option<usize>,
}

impl std::fmt::Display for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [device, host] = [self.device, self.host].map(|bytes| BinaryBytes(bytes as u64));
        match self.budget.map(|bytes| BinaryBytes(bytes as u64)) {
            None => write!(f, "{device} of table"),
            Some(budget) if self.host == 0 => write!(f, "{device} of a budget of {budget}"),
            Some(budget) => write!(f, "{device} of a budget of {budget}, {host} of table on the host"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<usize> {
        text.parse::<Bytes>().ok().map(|bytes| bytes.0)
    }

    #[test]
    fn bytes_have_suffixes() {
        let found = ["500", "64K", "256M", "4g", "1GiB", "2MB"].map(parsed);
        assert_eq!(found, [500, 64 << 10, 256 << 20, 4 << 30, 1 << 30, 2 << 20].map(Some));
        assert_eq!(["", "M", "1.5G", "-1", "4X", "1KK", "99999999999G"].map(parsed), [None; 7]);
    }

    fn args(budget: Option<&str>) -> TableArgs {
        let budget = budget.map(|text| text.parse().unwrap());
        TableArgs { device: String::new(), capacity: None, budget, baseline: None, batch: None }
    }

    fn options(budget: Option<&str>, bases: u32, size: u64) -> TableOptions {
        TableOptions::new(&args(budget), Length::new(bases).unwrap(), size)
    }

    #[test]
    fn the_first_capacity_is_bounded() {
        let capacity = |budget, bases, size| options(budget, bases, size).capacity;
        assert_eq!(capacity(None, 21, 5000), 5000);
        assert_eq!(capacity(None, 21, 0), 1024);
        assert_eq!(capacity(None, 21, 1 << 40), 1 << 22);
        assert_eq!(capacity(None, 3, 1 << 40), 64);
        assert_eq!(capacity(Some("100"), 21, 1 << 40), 1024);
        assert_eq!(capacity(Some("1000000"), 21, 1 << 40), 200_000);
        assert_eq!(capacity(Some("1G"), 21, 5000), 5000);
        let on_two = |size| TableOptions::on_devices(&args(None), Length::new(21).unwrap(), size, 2).capacity;
        assert_eq!([5000, 1 << 40].map(on_two), [5000, 1 << 23]);
    }

    #[test]
    fn a_batch_grows_with_a_table_on_the_host() {
        assert_eq!(options(None, 21, 1 << 40).batch, BATCH);
        assert_eq!(options(Some("1M"), 21, 1 << 40).batch, BATCH);
        assert_eq!(options(Some("256M"), 21, 1 << 40).batch, options(Some("256M"), 21, 1 << 40).capacity / 2);
        assert_eq!(options(Some("64G"), 21, 1 << 40).batch, LARGEST_BATCH);
    }
}
