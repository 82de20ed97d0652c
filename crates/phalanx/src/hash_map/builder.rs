//! Construction of hash maps.
use super::growth::{Growing, Growth};
use super::kernels::Kernels;
use super::table::Table;
use super::{HashMap, Key, Value, kernels};
use crate::map::checks::Checks;
use crate::map::frozen::Freezer;
use crate::map::handle::Handle;
use crate::map::variant::{VariantTag, names, select};
use crate::program::open;
use crate::{Error, Result};
use gpu::Device;
use phalanx_kernels::hash_map::Config;
use simt::Instance;

/// Parameters of a map. Created by [`HashMap::builder`].
///
/// ```
/// use phalanx::hash_map::{Growth, variants};
/// use phalanx::{Device, HashMap};
///
/// let map = HashMap::<u32, u32>::builder()
///     .device(&Device::from_environment()?)
///     .capacity(1000)
///     .load_factor(0.5)
///     .growth(Growth::Fixed)
///     .max_probes(64)
///     .seed(7)
///     .variant(variants::<u32, u32>()[0])
///     .build()?;
/// assert!(map.slots() >= 2000 && map.seed() == 7);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Setters copy the parameters on the host. `build` allocates the table and writes each of its bytes once:
/// capacity / load factor slots.
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K: Key, V: Value> {
    device: Option<Device>,
    capacity: usize,
    load_factor: f64,
    pub(super) growth: Growth,
    max_probes: u32,
    seed: u64,
    variant: Choice<K::Word, V::Word>,
}

/// Choice of a variant. (A function returns the kernels, because a reference to them would require that the
/// types of key and value are `'static`.)
#[derive(Clone, Debug)]
enum Choice<K, V> {
    Default,
    Named(String),
    Given(fn() -> Box<dyn Kernels<K, V>>),
}

impl<K: Key, V: Value> Default for Builder<K, V> {
    fn default() -> Self {
        Self {
            device: None,
            capacity: 1024,
            load_factor: 0.8,
            growth: Growth::Doubling,
            max_probes: 512,
            seed: 0,
            variant: Choice::Default,
        }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    /// Sets the device that holds the map. Default: [`Device::from_environment`].
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// Sets the number of pairs that the map holds at its load factor. Default: 1024.
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// Sets the ratio of pairs to slots when the map holds its capacity, above 0 and at most 1: a higher one
    /// saves memory, a lower one saves time. Default: 0.8.
    pub fn load_factor(mut self, load_factor: f64) -> Self {
        self.load_factor = load_factor;
        self
    }

    /// Sets the policy for a full map. Default: [`Growth::Doubling`].
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self
    }

    /// Sets the number of buckets that an operation probes before it gives up, which bounds its time even in
    /// a full table. Default: 512, which no key needs below a load of 0.97. 0 counts as 1.
    pub fn max_probes(mut self, max_probes: u32) -> Self {
        self.max_probes = max_probes.max(1);
        self
    }

    /// Sets the seed of the hash function. Default: 0. A map of 32-bit keys uses the low half.
    ///
    /// Keys that were chosen to collide under one seed do not collide under another. The function is no
    /// cryptographic one: a seed protects while the adversary does not learn it.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets a random seed, which the process draws from the system's randomness. Then the memory accesses,
    /// and the order of [`HashMap::export`], differ from run to run.
    ///
    /// ```
    /// let map = phalanx::HashMap::<u32, u32>::builder().random_seed().build()?;
    /// assert_ne!(map.seed(), 0);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn random_seed(self) -> Self {
        self.seed(crate::map::random_seed())
    }

    /// Selects the variant of the table by name, one of [`super::variants`]. Default: the fastest measured.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Choice::Named(name.to_owned());
        self
    }

    /// Selects the variant by its type. It can be one of another package, which then compiles the kernels for
    /// it; on a GPU, register that package's PTX by [`Device::add_program`].
    ///
    /// ```
    /// use phalanx::kernels::hash_map::{Hinted, Packed, Table};
    /// use phalanx::HashMap;
    ///
    /// let map = HashMap::builder().variant_of::<Table<Packed, Hinted<16>, 2, 4>>().build()?;
    /// assert!(map.insert(&[1], &[10])?.all_placed());
    /// assert_eq!(map.variant(), "hinted16_64_2x4_u32_u32");
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    pub fn variant_of<M: Config<Key = K::Word, Value = V::Word> + Instance>(mut self) -> Self {
        self.variant = Choice::Given(|| Box::new(VariantTag::<M>::NEW));
        self
    }

    /// Returns the kernels of the selected variant.
    fn kernels(&self, device: &Device) -> Result<Box<dyn Kernels<K::Word, V::Word>>> {
        let name = match &self.variant {
            Choice::Default => None,
            Choice::Named(name) => Some(name.as_str()),
            Choice::Given(kernels) => {
                let kernels = kernels();
                kernels.variant().check_runs_on(device)?;
                return Ok(kernels);
            }
        };
        Ok(select(device, name, kernels::all())?.boxed())
    }

    /// Raises the capacity to `pairs` if it is less.
    pub(super) fn at_least(mut self, pairs: usize) -> Self {
        self.capacity = self.capacity.max(pairs);
        self
    }

    /// Creates an empty map.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`] and [`Error::LoadFactor`] for invalid parameters; [`Error::TooLarge`] if the
    /// table would have too many slots; [`Error::UnknownVariant`] if no variant has the name for these types;
    /// [`Error::NeedsWideSwap`] if the device lacks the variant's compare-and-swap; [`Error::Device`] if the
    /// device lacks the memory, or the environment names a device that is not available.
    pub fn build(self) -> Result<HashMap<K, V>> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        if !(self.load_factor > 0.0 && self.load_factor <= 1.0) {
            return Err(Error::LoadFactor(self.load_factor));
        }
        let device = open(self.device.as_ref())?;
        let kernels = self.kernels(&device)?;
        let slots = (self.capacity as f64 / self.load_factor).ceil() as usize;
        let table = Table::new(&device, &*kernels, slots, (self.max_probes, self.seed))?;
        let handle = Handle::new(device, kernels, table);
        let (load_factor, growth, checks) = (self.load_factor, self.growth, Checks::default());
        Ok(HashMap { table: Growing { handle, load_factor, growth, checks, freezer: Freezer::default() } })
    }
}

/// Returns the names of all variants for these key and value types. A name consists of scheme and filter
/// bits, bytes per bucket, lanes per tile x slots per lane, key type and value type.
///
/// ```
/// let names = phalanx::hash_map::variants::<u32, u32>();
/// assert!(names.contains(&"hinted8_64_2x4_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    names(kernels::all::<K::Word, V::Word>())
}
