//! What benchmarks use of tiered maps and tiered skip lists.
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::Result;
use phalanx::map::Word as MapWord;
use phalanx::tiered_map::{Costs, Placement, Traffic};
use phalanx::{Merge, Result as MapResult, TieredMap, TieredSkipList};

/// Name of the default variant.
pub const DEFAULT: &str = "default";

/// A tiered map, as benchmarks use it.
pub trait Tiered<K, V>: Sized + 'static {
    /// Bytes of host memory for a pair.
    const BYTES_EACH: f64;

    /// Builds an empty map for `capacity` pairs. `budget` returns the budget for a least one.
    fn build(gpu: &Gpu, case: &Case, capacity: usize, budget: &dyn Fn(usize) -> usize) -> Result<Self>;

    /// Returns the number of shards or inner lists.
    fn parts(&self) -> usize;

    /// Returns the bytes of the budget, of the least one, of the peak, and of the host's memory.
    fn sizes(&self) -> [usize; 4];

    fn insert_into(&self, keys: &[K], values: &[V], outcomes: &mut [u8]) -> MapResult<()>;
    /// Adds each value to that of its key, or inserts it.
    fn add(&self, keys: &[K], values: &[V]) -> MapResult<()>;

    fn remove_into(&self, keys: &[K], outcomes: &mut [u8]) -> MapResult<()>;
    fn get_into(&self, keys: &[K], values: &mut [V], found: &mut [bool]) -> MapResult<()>;
    fn clear(&mut self) -> MapResult<()>;
    fn len(&self) -> usize;
    fn chunk(&self) -> usize;

    /// Returns the maximum number of hot pairs.
    fn hot_capacity(&self) -> usize {
        0
    }

    fn traffic(&self) -> Traffic;
    fn costs(&self) -> Costs;
    fn set_placement(&mut self, placement: Placement);
}

/// Implements [`Tiered`] by the methods of the same names.
macro_rules! tiered {
    ($map:ident, $parts:ident, $bytes:expr, $($hot:ident,)? |$builder:ident, $case:ident| $own:expr) => {
        impl<K: MapWord, V: MapWord> Tiered<K, V> for $map<K, V> {
            const BYTES_EACH: f64 = $bytes * (size_of::<K>() + size_of::<V>()) as f64;

            fn build(
                gpu: &Gpu,
                $case: &Case,
                capacity: usize,
                budget: &dyn Fn(usize) -> usize,
            ) -> Result<Self> {
                let mut $builder = Self::builder().device(&gpu.device).capacity(capacity);
                $builder = $own.placement(placement($case)?);
                if $case.variant != DEFAULT {
                    $builder = $builder.variant(&$case.variant);
                }
                let least = $builder.min_budget()?;
                Ok($builder.budget(budget(least)).build()?)
            }

            fn parts(&self) -> usize {
                self.$parts()
            }

            fn sizes(&self) -> [usize; 4] {
                [self.budget(), self.min_budget(), self.peak_device_bytes(), self.host_bytes()]
            }

            fn insert_into(&self, keys: &[K], values: &[V], outcomes: &mut [u8]) -> MapResult<()> {
                self.insert_into(keys, values, outcomes)
            }

            fn add(&self, keys: &[K], values: &[V]) -> MapResult<()> {
                self.upsert(Merge::Add, keys, values).map(drop)
            }

            fn remove_into(&self, keys: &[K], outcomes: &mut [u8]) -> MapResult<()> {
                self.remove_into(keys, outcomes)
            }

            fn get_into(&self, keys: &[K], values: &mut [V], found: &mut [bool]) -> MapResult<()> {
                self.get_into(keys, values, found)
            }

            fn clear(&mut self) -> MapResult<()> {
                self.clear()
            }

            fn len(&self) -> usize {
                self.len()
            }

            fn chunk(&self) -> usize {
                self.chunk()
            }

            $(fn hot_capacity(&self) -> usize {
                self.$hot()
            })?

            fn traffic(&self) -> Traffic {
                self.traffic()
            }

            fn costs(&self) -> Costs {
                self.costs()
            }

            fn set_placement(&mut self, placement: Placement) {
                self.set_placement(placement);
            }
        }
    };
}

tiered!(TieredMap, shards, 1.25, hot_pairs, |builder, case| {
    if let Some(shards) = case.number_if_given("shards")? {
        builder = builder.shards(shards as usize);
    }
    if let Some(bytes) = case.number_if_given("hot_pairs")? {
        builder = builder.hot_pairs(bytes as usize);
    }
    builder
});
tiered!(TieredSkipList, lists, 2.5, |builder, case| match case.number_if_given("list_capacity")? {
    Some(pairs) => builder.list_capacity(pairs as usize),
    None => builder,
});

/// Returns the policy of a case.
pub fn placement(case: &Case) -> Result<Placement> {
    Ok(case.choice(
        "placement",
        &[
            ("by_cost", Placement::ByCost),
            ("copy", Placement::AlwaysCopy),
            ("in_place", Placement::AlwaysInPlace),
            ("remote", Placement::Remote),
            ("managed", Placement::Managed),
        ],
    )?)
}
