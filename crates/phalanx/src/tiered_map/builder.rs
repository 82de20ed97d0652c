//! Construction of tiered maps.
use super::ledger::Ledger;
use super::partition::{Partition, Ranges};
use super::placement::{Costs, Placement};
use super::plan::{self, DEPTH, Wish};
use super::shard::{Image, Shard, Spares};
use super::shards::{TableParameters, Tables};
use super::storage::{Source, Storage};
use super::tiers::{Config, Empty, Tiers, empty_image};
use super::{Growth, TieredMap};
use crate::hash_map::kernels::{self, Kernels};
use crate::map::encoding::Word;
use crate::map::variant::{names, select};
use crate::program::open;
use crate::{Error, Key, Result, Value};
use gpu::{Device, Tier};
use phalanx_kernels::keyed::Scalar;
use std::marker::PhantomData;
use std::sync::Mutex;

/// Setters of the builders of tiered maps, whose fields have the same names.
macro_rules! tiered_setters {
    () => {
        /// Sets the device. Default: [`Device::from_environment`].
        pub fn device(mut self, device: &Device) -> Self {
            self.device = Some(device.clone());
            self
        }

        /// Raises the capacity to `pairs` if it is less.
        pub(super) fn at_least(mut self, pairs: usize) -> Self {
            self.capacity = self.capacity.max(pairs);
            self
        }

        /// Sets the budget in bytes of device memory, which is never exceeded. Default: 256 MiB.
        pub fn budget(mut self, bytes: usize) -> Self {
            self.budget = bytes;
            self
        }

        /// Sets where operations are executed. Default: [`Placement::ByCost`].
        pub fn placement(mut self, placement: Placement) -> Self {
            self.config.placement = placement;
            self
        }

        /// Sets the costs by which [`Placement::ByCost`] decides. Default: on a GPU they are measured by
        /// [`Self::build`], in some milliseconds; on the emulator they are those of an H200, estimated.
        pub fn costs(mut self, costs: Costs) -> Self {
            self.config.costs = costs;
            self.has_costs = true;
            self
        }
    };
}
pub(crate) use tiered_setters;

/// Parameters of a map. Created by [`TieredMap::builder`].
///
/// ```
/// use phalanx::tiered_map::{Costs, Growth, Partition, Placement, Storage, variants};
/// use phalanx::{Device, TieredMap};
///
/// let builder = TieredMap::<u32, u32>::builder()
///     .device(&Device::from_environment()?)
///     .capacity(1000)
///     .load_factor(0.5)
///     .growth(Growth::Fixed)
///     .max_probes(64)
///     .seed(7)
///     .shards(8)
///     .hot_pairs(1 << 20)
///     .storage(Storage::Pinned)
///     .partition(Partition::ByHash)
///     .placement(Placement::ByCost)
///     .costs(Costs::default())
///     .variant(variants::<u32, u32>()[0]);
/// let budget = builder.min_budget()?;
/// assert!(builder.clone().budget(budget - 1).build().is_err());
/// let map = builder.budget(budget).build()?;
/// assert!(map.slots() >= 2000 && map.shards() == 8 && map.budget() == map.min_budget());
/// assert!(map.peak_device_bytes() <= budget && map.device_bytes() == map.peak_device_bytes());
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `costs` and the other setters copy the parameters on the host. `min_budget` is arithmetic on the host.
/// `build` allocates the device memory of the budget, and host memory for the shards, and writes each of its
/// bytes once.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K: Key, V: Value> {
    device: Option<Device>,
    capacity: usize,
    budget: usize,
    shards: Option<usize>,
    variant: Option<String>,
    has_costs: bool,
    storage: Storage,
    partition: Partition<K>,
    pub(super) config: Config,
    parameters: TableParameters,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Default for Builder<K, V> {
    fn default() -> Self {
        let (growth, placement, costs) = (Growth::Doubling, Placement::default(), Costs::default());
        let config = Config { growth, placement, costs, hot: None };
        Self {
            device: None,
            capacity: 1024,
            budget: 256 << 20,
            shards: None,
            variant: None,
            has_costs: false,
            storage: Storage::default(),
            partition: Partition::default(),
            config,
            parameters: TableParameters { load_factor: 0.8, max_probes: 512, seed: 0 },
            of: PhantomData,
        }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    tiered_setters!();

    /// Sets the number of pairs that the map holds at its load factor. Default: 1024.
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// Gives a cache of hot pairs up to `bytes` bytes of the budget, from the start and for good: pairs that
    /// were looked up often are found there without an access to their shards. 0 for none. By default the
    /// cache has up to a third of the budget while lookups are so skewed that it pays, and none otherwise. It
    /// gets less if the rest does not suffice for three shards; a map without shards has none.
    pub fn hot_pairs(mut self, bytes: usize) -> Self {
        self.config.hot = Some(bytes);
        self
    }

    /// Sets the number of shards, a power of two up to 2^20. Default: one table in device memory if it fits
    /// the budget; otherwise so many that a shard has at most a 48th of the budget, but at least about half a
    /// MiB.
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = Some(shards);
        self
    }

    /// Sets how keys are divided among shards. Default: [`Partition::ByHash`]. With [`Partition::ByRange`],
    /// the number of shards is that of the ranges, and [`Self::shards`] must not be given. The baselines
    /// [`Placement::Remote`] and [`Placement::Managed`] divide no keys.
    pub fn partition(mut self, partition: Partition<K>) -> Self {
        self.partition = partition;
        self
    }

    /// Sets where the shards are kept. Default: [`Storage::Pinned`].
    pub fn storage(mut self, storage: Storage) -> Self {
        self.storage = storage;
        self
    }

    /// Sets the ratio of pairs to slots when the map holds its capacity, above 0 and at most 1. Default: 0.8.
    pub fn load_factor(mut self, load_factor: f64) -> Self {
        self.parameters.load_factor = load_factor;
        self
    }

    /// Sets the policy for full shards. Default: [`Growth::Doubling`], of each shard alone.
    pub fn growth(mut self, growth: Growth) -> Self {
        self.config.growth = growth;
        self
    }

    /// Sets the number of buckets that an operation probes before it gives up. Default: 512. 0 counts as 1.
    pub fn max_probes(mut self, max_probes: u32) -> Self {
        self.parameters.max_probes = max_probes.max(1);
        self
    }

    /// Sets the seed of the hash functions. Default: 0. A map of 32-bit keys uses the low half.
    pub fn seed(mut self, seed: u64) -> Self {
        self.parameters.seed = seed;
        self
    }

    /// Selects the variant of the shards' tables by name, one of [`variants`]. Default: the fastest one
    /// without compare-and-swaps of 16 bytes, which not every bus has.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    /// Returns the kernels of the selected variant.
    fn kernels(&self, device: &Device) -> Result<&'static dyn Kernels<K::Word, V::Word>> {
        let all = kernels::all::<K::Word, V::Word>();
        match &self.variant {
            Some(name) => select(device, Some(name), all),
            None => select(device, None, all.filter(|kernels| !kernels.variant().needs_wide_swap())),
        }
    }

    /// Checks the parameters, and returns what the map needs.
    fn wish(&self) -> Result<Wish> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let load_factor = self.parameters.load_factor;
        if !(load_factor > 0.0 && load_factor <= 1.0) {
            return Err(Error::LoadFactor(load_factor));
        }
        let slots = (self.capacity as f64 / load_factor).ceil() as usize;
        let (is_flat, ranges) = (self.config.placement.is_flat(), self.ranges()?);
        let ranges = ranges.filter(|_| !is_flat);
        let hot = if ranges.is_some() { Some(0) } else { self.config.hot };
        Ok(Wish { pairs: self.capacity, slots, shards: self.shards, is_flat, hot, ranges })
    }

    /// Checks the partition, and returns its ranges.
    fn ranges(&self) -> Result<Option<Ranges>> {
        let Partition::ByRange { keys, each } = &self.partition else { return Ok(None) };
        let word = |key: &K| K::encode(*key).to_u64();
        let ranges = Ranges::new(word(keys.start()), word(keys.end()), *each)?;
        match self.shards {
            Some(asked) if asked != ranges.count => Err(Error::Shards { asked, most: ranges.count }),
            _ => Ok(Some(ranges)),
        }
    }

    /// Returns the least budget with which these parameters can be built: three shards and the workspace of a
    /// small batch, or the whole map if that is less. A map with this budget divides batches into chunks of
    /// 128 elements, so it is slow; a few times as much is not. More [`Self::shards`] need less.
    ///
    /// # Errors
    /// As [`Self::build`], for invalid parameters.
    pub fn min_budget(&self) -> Result<usize> {
        let (device, wish) = (open(self.device.as_ref())?, self.wish()?);
        plan::least_budget(self.kernels(&device)?, wish)
    }

    /// Returns the source of the memory of shards.
    fn source(&self, device: &Device) -> Result<Source> {
        match self.config.placement {
            Placement::Remote => Ok(Source::Memory(Tier::Pinned)),
            Placement::Managed => Ok(Source::Memory(Tier::Managed)),
            _ => Source::open(&self.storage, device),
        }
    }

    /// Creates an empty map.
    ///
    /// # Errors
    /// [`Error::DeviceBudget`] if the budget is below [`Self::min_budget`]; [`Error::ZeroCapacity`],
    /// [`Error::LoadFactor`], [`Error::Shards`] and [`Error::Ranges`] for invalid parameters, [`Error::Zero`]
    /// for ranges without keys; [`Error::TooLarge`] if a shard
    /// would have too many slots; [`Error::UnknownVariant`] if no variant has the name for these types;
    /// [`Error::NeedsWideSwap`] if the device lacks the variant's compare-and-swap; [`Error::ShardFile`] if
    /// the file of the storage is there already, cannot be created, or the disk has no room for the shards;
    /// [`Error::Device`] if the host or the device lacks the memory, or the environment names a device that
    /// is not available. Shards that exceed the available host memory are refused before any is allocated.
    pub fn build(self) -> Result<TieredMap<K, V>> {
        let (device, wish) = (open(self.device.as_ref())?, self.wish()?);
        let kernels = self.kernels(&device)?;
        let plan = plan::divide(kernels, wish, self.budget)?;
        let least_budget = plan::least_budget(kernels, wish)?;
        let (ledger, source) = (Ledger::new(self.budget), self.source(&device)?);
        if plan.form.is_sharded() && wish.ranges.is_none() {
            source.check_room(plan.shards.saturating_mul(plan.size.byte_len()))?;
        }
        let form = (plan.form, &source);
        let new = |_| match wish.ranges {
            Some(_) => Ok(Shard::new(Image::Blank, plan.size)),
            None => Ok(Shard::new(empty_image(&device, &ledger, form, plan.size)?, plan.size)),
        };
        let shards = (0..plan.shards).map(new).collect::<Result<_>>()?;
        let mut spares = Spares::new(source);
        if matches!(spares.source(), Source::File(_)) && plan.form.is_sharded() {
            spares.reserve(&device, (DEPTH, plan.size.words))?;
        }
        let inner = Tables::new(kernels.boxed(), (self.parameters, wish.ranges), (&device, &ledger))?;
        let empty = Empty { plan, shards, spares };
        let mut tiers = Tiers::new(device.clone(), (ledger.clone(), inner), empty, self.config)?;
        if !self.has_costs {
            let lookups = tiers.measure()?;
            tiers.config.costs = tiers.measure_writes(lookups)?;
        }
        Ok(TieredMap { tiers: Mutex::new(tiers), device, ledger, least_budget })
    }
}

/// Returns the names of all variants of tables for these key and value types, as
/// [`hash_map::variants`](crate::hash_map::variants) does.
///
/// ```
/// assert!(phalanx::tiered_map::variants::<u32, u32>().contains(&"hinted8_64_2x4_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    fn of<K: Word, V: Word>() -> Vec<&'static str> {
        names(kernels::all::<K, V>())
    }
    of::<K::Word, V::Word>()
}
