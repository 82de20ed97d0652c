//! Construction of tiered skip lists.
use super::TieredSkipList;
use super::lists::Lists;
use super::plan::{self, Wish};
use crate::map::encoding::Word;
use crate::map::variant::{names, select};
use crate::program::open;
use crate::skiplist::kernels::{self, Kernels};
use crate::tiered_map::builder::tiered_setters;
use crate::tiered_map::ledger::Ledger;
use crate::tiered_map::plan::Form;
use crate::tiered_map::shard::{Image, Shard, Spares};
use crate::tiered_map::shards::ImageSize;
use crate::tiered_map::storage::Source;
use crate::tiered_map::tiers::{Config, Empty, Tiers};
use crate::tiered_map::{Costs, Growth, Placement};
use crate::{Error, Key, Result, Value};
use gpu::{Device, Tier};
use std::marker::PhantomData;
use std::sync::Mutex;

/// Ratio of the time of an operation that writes in place to that of a lookup: it takes and releases a latch.
const WRITE_RATIO: f64 = 3.0;

/// Parameters of a list. Created by [`TieredSkipList::builder`].
///
/// ```
/// use phalanx::tiered_skip_list::{Costs, Placement, variants};
/// use phalanx::{Device, TieredSkipList};
///
/// let builder = TieredSkipList::<u32, u32>::builder()
///     .device(&Device::from_environment()?)
///     .capacity(1000)
///     .list_capacity(100)
///     .placement(Placement::ByCost)
///     .costs(Costs::default())
///     .variant(variants::<u32, u32>()[0]);
/// let budget = builder.min_budget()?;
/// assert!(builder.clone().budget(budget - 1).build().is_err());
/// let list = builder.budget(budget).build()?;
/// assert!(list.lists() == 1 && list.list_capacity() >= 100 && list.budget() == list.min_budget());
/// assert!(list.peak_device_bytes() <= budget && list.device_bytes() == list.peak_device_bytes());
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `costs` and the other setters copy the parameters on the host. `min_budget` is arithmetic on the host.
/// `build` allocates the device memory of the budget, and host memory for the capacity.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K: Key, V: Value> {
    device: Option<Device>,
    capacity: usize,
    budget: usize,
    of_list: Option<usize>,
    variant: Option<String>,
    has_costs: bool,
    config: Config,
    of: PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Default for Builder<K, V> {
    fn default() -> Self {
        let costs = Costs { access_ns: 30.0, write_ratio: WRITE_RATIO, ..Costs::default() };
        let config = Config { growth: Growth::Doubling, placement: Placement::default(), costs, hot: None };
        Self {
            device: None,
            capacity: 1024,
            budget: 256 << 20,
            of_list: None,
            variant: None,
            has_costs: false,
            config,
            of: PhantomData,
        }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    tiered_setters!();

    /// Sets the number of pairs for which host memory is allocated from the start. Default: 1024. The list
    /// grows beyond it, except with [`Placement::Remote`] and [`Placement::Managed`].
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// Sets the number of pairs for which each inner list is planned. Default: as many as fit a 48th of the
    /// budget, or 1 MiB if that is more, or less if the budget is too small for three such lists.
    pub fn list_capacity(mut self, pairs: usize) -> Self {
        self.of_list = Some(pairs);
        self
    }

    /// Selects the variant of the inner lists by name, one of [`variants`]. Default: that of
    /// [`SkipList`](crate::SkipList).
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    fn kernels(&self, device: &Device) -> Result<&'static dyn Kernels<K::Word, V::Word>> {
        let usable = kernels::all().filter(|kernels| is_usable(*kernels));
        select(device, self.variant.as_deref(), usable)
    }

    /// Checks the parameters, and returns what the list needs.
    fn wish(&self) -> Result<Wish> {
        if self.capacity == 0 || self.of_list == Some(0) {
            return Err(Error::ZeroCapacity);
        }
        let is_flat = self.config.placement.is_flat();
        Ok(Wish { pairs: self.capacity, of_list: self.of_list, is_flat })
    }

    /// Returns the least budget with which these parameters can be built: three inner lists and the workspace
    /// of a small batch.
    ///
    /// # Errors
    /// As [`Self::build`], for invalid parameters.
    pub fn min_budget(&self) -> Result<usize> {
        let (device, wish) = (open(self.device.as_ref())?, self.wish()?);
        plan::least_budget(self.kernels(&device)?, wish)
    }

    /// Creates an empty list.
    ///
    /// # Errors
    /// [`Error::DeviceBudget`] if the budget is below [`Self::min_budget`]; [`Error::ZeroCapacity`] if one of
    /// the capacities is 0; [`Error::TooLarge`] if an inner list would have too many nodes;
    /// [`Error::UnknownVariant`] if no variant has the name for these types; [`Error::NeedsWideSwap`] if the
    /// device lacks the variant's compare-and-swap; [`Error::Device`] if the host or the device lacks the
    /// memory, or the environment names a device that is not available. A capacity that exceeds the available
    /// host memory is refused before any is allocated.
    pub fn build(self) -> Result<TieredSkipList<K, V>> {
        let (device, wish) = (open(self.device.as_ref())?, self.wish()?);
        let kernels = self.kernels(&device)?;
        let divided = plan::divide(kernels, wish, self.budget)?;
        let (least_budget, plan) = (plan::least_budget(kernels, wish)?, divided.plan);
        let tier = if self.config.placement == Placement::Managed { Tier::Managed } else { Tier::Pinned };
        let (ledger, source) = (Ledger::new(self.budget), Source::Memory(tier));
        // One more for the write-back of a list.
        let images = self.capacity.div_ceil(plan.size.target).saturating_add(1);
        if plan.form != Form::Flat {
            source.check_room(images.saturating_mul(plan.size.byte_len()))?;
        }
        let sizes = (plan.size, divided.splitters);
        let inner = Lists::new(kernels.boxed_list(), (&device, &ledger), sizes)?;
        let first = Shard::new(Image::Blank, plan.size);
        let mut spares = Spares::without_limit(source);
        if plan.form != Form::Flat {
            spares.reserve(&device, (images, plan.size.words()))?;
        }
        let empty = Empty { plan, shards: vec![first], spares };
        let mut tiers = Tiers::new(device.clone(), (ledger.clone(), inner), empty, self.config)?;
        if plan.form == Form::Flat {
            tiers.create_whole()?;
        }
        if !self.has_costs {
            tiers.config.costs = tiers.measured_costs(self.config.costs)?;
        }
        Ok(TieredSkipList { tiers: Mutex::new(tiers), device, ledger, least_budget })
    }
}

/// Returns whether lists of a variant can be images: the nodes of all layers are in one part of the pool.
fn is_usable<K, V>(kernels: &dyn Kernels<K, V>) -> bool {
    let name = kernels.variant().name;
    !name.starts_with("list_layered") && !name.starts_with("list_apart")
}

/// Returns the names of all variants of inner lists for these key and value types: those of
/// [`skiplist::variants`](crate::skiplist::variants) without separate parts of the pool for the layers.
///
/// ```
/// assert!(phalanx::tiered_skip_list::variants::<u32, u32>().contains(&"list_spread_128_8x2_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    fn of<K: Word, V: Word>() -> Vec<&'static str> {
        names(kernels::all::<K, V>().filter(|kernels| is_usable(*kernels)))
    }
    of::<K::Word, V::Word>()
}
