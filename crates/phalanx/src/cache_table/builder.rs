//! Options of cache tables.
use super::groups::Groups;
use super::growth::Growth;
use super::kernels::{Kernels, all};
use super::{CacheTable, Clock, HostRows, Lock, MergeBy, Shape, Victims};
use crate::map::variant::VariantTag;
use crate::number::Number;
use crate::{Error, Result, program};
use bytemuck::Pod;
use gpu::Device;
use phalanx_kernels::cache::{Config, MOST_BUCKETS, Rule, SLOTS};
use phalanx_kernels::keyed::Scalar;
use simt::Instance;
use std::marker::PhantomData;

/// Options of a [`CacheTable`]; created by [`CacheTable::builder`].
///
/// ```
/// use phalanx::CacheTable;
/// use phalanx::cache_table::{HostRows, Lock, MergeBy, Rule, Victims};
///
/// let table = CacheTable::<u64, f32>::builder()
///     .capacity(1000)
///     .max_capacity(4096)
///     .grow_at(0.7)
///     .dim(8)
///     .rule(Rule::Lfu)
///     .two_buckets(true)
///     .rows_on_device(0.5)
///     .seed(42)
///     .device(&phalanx::Device::from_environment()?)
///     .lock(Lock::Groups)
///     .victims(Victims::Exact)
///     .host_rows(HostRows::Direct)
///     .merge_by(MergeBy::Hash)
///     .variant("cache_4x8_u64_u64")
///     .build()?;
/// assert_eq!((table.capacity(), table.max_capacity(), table.dim()), (1024, 4096, 8));
/// assert_eq!(table.victims(), Victims::Exact);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `build` allocates the table's memory and writes a byte per slot. `rows_on_device` and the other calls set
/// options.
#[derive(Debug)]
pub struct Builder<K, V, S> {
    capacity: usize,
    max_capacity: usize,
    load: Option<f64>,
    dim: usize,
    rule: Rule,
    two_buckets: bool,
    near_slots: Option<u32>,
    seed: u64,
    lock: Lock,
    device: Option<Device>,
    variant: Choice<K, S>,
    /// Parameter of a policy that is not the library's.
    parameter: u32,
    victims: Victims,
    host_rows: HostRows,
    merge_by: MergeBy,
    of: PhantomData<(K, V, S)>,
}

/// Choice of a kind of table.
#[derive(Debug)]
enum Choice<K, S> {
    Default,
    Named(String),
    Given(fn() -> Box<dyn Kernels<K, S>>),
}

/// Maximum number of bytes in a row.
const MOST_ROW_BYTES: usize = 4096;

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> Builder<K, V, S> {
    pub(super) fn new() -> Self {
        Self {
            capacity: SLOTS as usize,
            max_capacity: 0,
            load: None,
            dim: 1,
            rule: Rule::Lru,
            two_buckets: false,
            near_slots: Some(SLOTS),
            seed: 0,
            lock: Lock::Groups,
            device: None,
            variant: Choice::Default,
            parameter: 0,
            victims: Victims::default(),
            host_rows: HostRows::default(),
            merge_by: MergeBy::default(),
            of: PhantomData,
        }
    }

    /// Sets the number of keys that the table can hold, rounded up to whole buckets of 128. Default: 128.
    pub fn capacity(mut self, keys: usize) -> Self {
        self.capacity = keys;
        self
    }

    /// Sets the number of keys up to which the table grows: see [`CacheTable::set_max_capacity`]. Default:
    /// the capacity, so the table does not grow.
    pub fn max_capacity(mut self, keys: usize) -> Self {
        self.max_capacity = keys;
        self
    }

    /// Sets the ratio of keys to slots above which a table grows, above 0 and at most 1. Default: 0.5 with
    /// one bucket per key, 0.8 with two. A table may exceed the ratio by 1/32 of its capacity before it
    /// notices.
    pub fn grow_at(mut self, load: f64) -> Self {
        self.load = Some(load);
        self
    }

    /// Sets the number of elements in a row. Default: 1. A row has a multiple of 4 bytes, at most 4096.
    pub fn dim(mut self, elements: usize) -> Self {
        self.dim = elements;
        self
    }

    /// Sets the rule for the scores of keys. Default: [`Rule::Lru`].
    pub fn rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// Gives each key two buckets. A new key goes to the one with fewer keys; if both are full, the key with
    /// the lowest score of both is evicted. The table then fills to about 0.98 of its capacity before the
    /// first eviction, instead of about 0.65, and keeps more of the keys with the highest scores
    /// (HierarchicalKV, section 3.4). Searches for absent keys read two lines. Default: one bucket.
    pub fn two_buckets(mut self, two: bool) -> Self {
        self.two_buckets = two;
        self
    }

    /// Leaves only this share of the rows in device memory, rounded to 128ths; the others lie in pinned host
    /// memory, which kernels read over the bus. Keys, scores and digests are always on the device. Each
    /// bucket has its share of slots with rows on the device: [`CacheTable::promote`] moves the keys with the
    /// highest scores there (HierarchicalKV, section 3.6, without promotion). Default: 1, all rows.
    pub fn rows_on_device(mut self, share: f64) -> Self {
        let slots = || (share * f64::from(SLOTS)).round() as u32;
        self.near_slots = (0.0..=1.0).contains(&share).then(slots);
        self
    }

    /// Sets how insertions into full buckets find the key with the lowest score. Default:
    /// [`Victims::Summary`].
    pub fn victims(mut self, victims: Victims) -> Self {
        self.victims = victims;
        self
    }

    /// Sets the order in which lookups read rows in host memory. Default: [`HostRows::Auto`].
    pub fn host_rows(mut self, order: HostRows) -> Self {
        self.host_rows = order;
        self
    }

    /// Sets how batches that place keys merge elements with equal keys. Default: [`MergeBy::Auto`].
    pub fn merge_by(mut self, way: MergeBy) -> Self {
        self.merge_by = way;
        self
    }

    /// Sets the seed of the hash function. Default: 0.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets which batches may run at the same time. Default: [`Lock::Groups`].
    pub fn lock(mut self, lock: Lock) -> Self {
        self.lock = lock;
        self
    }

    /// Sets the device. Default: that of [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Selects the kernels by their name. Default: the first of
    /// [`CacheTable::variants`].
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Choice::Named(name.to_owned());
        self
    }

    /// Selects the kernels by their type. It can be one of another package, with a
    /// [`ScorePolicy`](phalanx_kernels::cache::ScorePolicy) of its own, which then compiles the kernels for
    /// it ([`cache_instances!`](phalanx_kernels::cache_instances)); on a GPU, register that package's PTX by
    /// [`Device::add_program`]. A policy of its own takes the place of the [rule](Self::rule).
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::kernels::cache::{BuiltIn, Cache};
    ///
    /// let builder = CacheTable::<u64, f32>::builder().capacity(100);
    /// let table = builder.variant_of::<Cache<u64, u64, BuiltIn, 4, 8>>().build()?;
    /// assert_eq!(table.variant(), "cache_4x8_u64_u64");
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn variant_of<C: Config<Key = K, Score = S> + Instance>(mut self) -> Self {
        self.variant = Choice::Given(|| Box::new(VariantTag::<C>::NEW));
        self
    }

    /// Sets the parameter of a score policy of your own. Default: 0. With `u32::MAX`, keys get exactly the
    /// scores that are passed. Rules have no parameter.
    ///
    /// ```
    /// use phalanx::CacheTable;
    ///
    /// let table = CacheTable::<u64, f32>::builder().parameter(7).build()?; // no effect on a rule
    /// assert!(table.rule().is_some());
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn parameter(mut self, parameter: u32) -> Self {
        self.parameter = parameter;
        self
    }

    /// Builds the table.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`]; [`Error::TooLarge`] for more than 2^25 - 1 buckets, also of the maximum
    /// capacity; [`Error::LoadFactor`] if the ratio at which the table grows is out of range;
    /// [`Error::RowBytes`] if a
    /// row has 0 bytes, more than 4096, or no multiple of 4; [`Error::Share`] if the share of rows on the
    /// device is not from 0 to 1; [`Error::UnknownVariant`]; [`Error::Device`] if there is no device, or it
    /// lacks the memory.
    pub fn build(self) -> Result<CacheTable<K, V, S>> {
        let device = program::open(self.device.as_ref())?;
        let shape = self.shape()?;
        let load = self.load.unwrap_or(if self.two_buckets { 0.8 } else { 0.5 });
        if !(load > 0.0 && load <= 1.0) {
            return Err(Error::LoadFactor(load));
        }
        let growth = Growth::new(shape.buckets, self.max_capacity, load)?;
        let kernels = self.kernels()?;
        let clock = match kernels.own_policy() {
            Some(_) => Clock::new(None, self.parameter),
            None => Clock::new(Some(self.rule), self.rule as u32),
        };
        let order = (clock, Groups::new(self.lock));
        let options = (self.dim, self.victims, self.host_rows, self.merge_by);
        CacheTable::create(&device, kernels, (shape, growth), order, options)
    }

    /// Returns the kernels of the selected kind.
    fn kernels(&self) -> Result<Box<dyn Kernels<K, S>>> {
        let name = match &self.variant {
            Choice::Default => None,
            Choice::Named(name) => Some(name.as_str()),
            Choice::Given(kernels) => return Ok(kernels()),
        };
        let is_chosen = |kernels: &&'static dyn Kernels<K, S>| name.is_none_or(|name| kernels.name() == name);
        let Some(kernels) = all::<K, S>().find(is_chosen) else {
            let known = CacheTable::<K, V, S>::variants().join(", ");
            return Err(Error::UnknownVariant { name: name.unwrap_or_default().to_owned(), known });
        };
        Ok(kernels.boxed())
    }

    fn shape(&self) -> Result<Shape> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        let (buckets, most) = (self.capacity.div_ceil(SLOTS as usize), MOST_BUCKETS as usize);
        if buckets > most {
            return Err(Error::TooLarge { what: "buckets of a cache table", asked: buckets, most });
        }
        let bytes = self.dim.saturating_mul(size_of::<V>());
        if bytes == 0 || bytes > MOST_ROW_BYTES || !bytes.is_multiple_of(4) {
            return Err(Error::RowBytes { dim: self.dim, element: size_of::<V>() });
        }
        let near_slots = self.near_slots.ok_or(Error::Share)?;
        let choices = if self.two_buckets { 2 } else { 1 };
        Ok(Shape { buckets: buckets as u32, choices, words: bytes as u32 / 4, near_slots, seed: self.seed })
    }
}
