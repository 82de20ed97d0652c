//! How a map is made.
use super::engine::{self, Engine};
use super::table::Table;
use super::{HashMap, Key, Value};
use crate::map::owner::Owner;
use crate::{Error, PROGRAM, Result};
use gpu::Device;
use phalanx_kernels::probing;

/// What a map does when it fills up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Nothing: what finds no room is refused. Slots of removed keys come back by [`HashMap::compact`] alone.
    Fixed,
    /// A blocking call that was refused room, or that leaves the table too full, rehashes it: into one of the
    /// same size where the slots of removed keys suffice, else into one of twice the size, or of as many
    /// slots as what was refused may need. Where there is no memory for that, the call is
    /// [`Error::NoRoom`](crate::Error::NoRoom). Both tables are there meanwhile.
    ///
    /// Batches on buffers and kernels of your own never grow a map: [`HashMap::reserve`] before them.
    ///
    /// Too full is a table of which more than nine tenths of the slots are taken; for load factors above 0.8,
    /// more than midway between the load factor and all.
    Doubling,
}

/// The parameters of a map. Made by [`HashMap::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct Builder<K, V> {
    device: Option<Device>,
    capacity: usize,
    load_factor: f64,
    pub(super) growth: Growth,
    looks: u32,
    variant: Option<String>,
    of: std::marker::PhantomData<fn() -> (K, V)>,
}

impl<K: Key, V: Value> Default for Builder<K, V> {
    fn default() -> Self {
        Self {
            device: None,
            capacity: 1024,
            load_factor: 0.8,
            growth: Growth::Doubling,
            looks: 512,
            variant: None,
            of: std::marker::PhantomData,
        }
    }
}

impl<K: Key, V: Value> Builder<K, V> {
    /// The device that holds the map. Default: [`Device::from_environment`], which is a new emulated device
    /// at each call where there is no GPU.
    pub fn device(mut self, device: &Device) -> Self {
        self.device = Some(device.clone());
        self
    }

    /// How many pairs the map is to hold at its load factor. Default: 1024.
    pub fn capacity(mut self, pairs: usize) -> Self {
        self.capacity = pairs;
        self
    }

    /// Pairs over slots when the map holds its capacity, above 0 and at most 1: more saves memory, less saves
    /// time. Default: 0.8.
    pub fn load_factor(mut self, load_factor: f64) -> Self {
        self.load_factor = load_factor;
        self
    }

    /// What the map does when it fills up. Default: [`Growth::Doubling`].
    pub fn growth(mut self, growth: Growth) -> Self {
        self.growth = growth;
        self
    }

    /// At how many buckets an operation looks before it gives up, which bounds its time however full the
    /// table is. Default: 512, which no key needs below a load of 0.97. 0 counts as 1.
    pub fn looks(mut self, looks: u32) -> Self {
        self.looks = looks.max(1);
        self
    }

    /// The kind of table by its name, one of [`super::variants`]. Default: the fastest measured.
    pub fn variant(mut self, name: &str) -> Self {
        self.variant = Some(name.to_owned());
        self
    }

    /// Raises the capacity to `pairs`, if it is less.
    pub(super) fn at_least(mut self, pairs: usize) -> Self {
        self.capacity = self.capacity.max(pairs);
        self
    }

    /// Makes the map, empty.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`], [`Error::LoadFactor`], [`Error::TooLarge`], [`Error::UnknownVariant`],
    /// [`Error::NeedsWideSwap`], and the device's when it lacks the memory, or when the environment names one
    /// that cannot be had.
    pub fn build(self) -> Result<HashMap<K, V>> {
        if self.capacity == 0 {
            return Err(Error::ZeroCapacity);
        }
        if !(self.load_factor > 0.0 && self.load_factor <= 1.0) {
            return Err(Error::LoadFactor(self.load_factor));
        }
        let device = self.device.clone().map_or_else(Device::from_environment, Ok)?;
        device.add_program(&PROGRAM);
        let (name, engine) = self.engine(&device)?;
        let slots = (self.capacity as f64 / self.load_factor).ceil() as usize;
        let table = Table::new(&device, &*engine, slots, self.looks)?;
        let owner = Owner::new(device, engine, name, table);
        Ok(HashMap { owner, load_factor: self.load_factor, growth: self.growth })
    }

    fn engine(&self, device: &Device) -> Result<(String, Box<dyn Engine<K, V>>)> {
        let default = || default_variant::<K, V>(device.supports_cas128());
        let name = self.variant.clone().unwrap_or_else(default);
        let Some(engine) = engine::find::<K, V>(&name) else {
            let known = variants::<K, V>().join(", ");
            return Err(Error::UnknownVariant { name, known });
        };
        if engine.shape().wide && !device.supports_cas128() {
            return Err(Error::NeedsWideSwap { name, device: device.name() });
        }
        Ok((name, engine))
    }
}

/// The names of all kinds of table for these types of key and value: scheme and filter bits, bytes a bucket,
/// lanes a tile x slots a lane, types of key and value.
///
/// ```
/// let names = phalanx::hash_map::variants::<u32, u32>();
/// assert!(names.contains(&"hinted8_64_2x4_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    probing::NAMES.iter().copied().filter(|name| engine::find::<K, V>(name).is_some()).collect()
}

fn default_variant<K: Key, V: Value>(wide_swap: bool) -> String {
    let scheme = match (K::BITS, V::BITS, wide_swap) {
        (32, 32, _) => "hinted8_64_2x4",
        (_, _, true) => "double_64_2x2",
        (_, _, false) => "published_64_2x2",
    };
    format!("{scheme}_u{}_u{}", K::BITS, V::BITS)
}
