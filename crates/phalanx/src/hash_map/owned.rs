//! Lookups of the keys of one rank or two in a batch, which are executed where they lie.
use super::table::RawTable;
use crate::map::launch::{self, Batch};
use crate::map::variant::{HasVariant, Variant, VariantTag, variants};
use gpu::{Grid, Stream};
use phalanx_kernels::hash_map::Config;
use phalanx_kernels::keyed::Scalar;
use phalanx_kernels::sharded::owned::{GetOwned, Owned, Two};
use phalanx_kernels::sharded::tables;
use simt::Instance;

/// Lookups of ranks' keys in tables of one variant.
pub trait OwnedReader<K, V>: HasVariant + Send + Sync {
    /// Launches a `get` of the keys of a rank and, if there is a second table, of the next one. `ranks` are
    /// the number of ranks, and the first of these.
    ///
    /// # Safety
    /// - As for `Kernels::launch_batch`, for each table.
    unsafe fn look_up_owned(
        &self,
        stream: &Stream,
        tables: (&RawTable, Option<&RawTable>),
        batch: Batch<K, V>,
        ranks: (u32, u32),
    ) -> gpu::Result<()>;
}

variants! {
    /// Returns the kernels of all variants that have them.
    all: OwnedReader, tables, Config
}

/// Returns the kernels of a variant, if there are any.
pub fn find<K: Scalar, V: Scalar>(variant: Variant) -> Option<&'static dyn OwnedReader<K, V>> {
    all().find(|kernels| kernels.variant() == variant)
}

impl<M: Config + Instance> OwnedReader<M::Key, M::Value> for VariantTag<M> {
    unsafe fn look_up_owned(
        &self,
        stream: &Stream,
        (first, second): (&RawTable, Option<&RawTable>),
        batch: Batch<M::Key, M::Value>,
        (owners, own): (u32, u32),
    ) -> gpu::Result<()> {
        let Batch { keys, results: values, outcomes, .. } = batch;
        let owned = Owned { owners, own, tables: 1 + u32::from(second.is_some()) };
        let grid = launch::grid::<M>(stream, keys.max_len());
        // SAFETY: the caller's obligations. For each table the grid has at least one thread per element.
        unsafe {
            let maps = Two { first: first.view(), second: second.unwrap_or(first).view() };
            let grid = Grid::new(owned.tables * grid.blocks, grid.threads);
            stream.launch(grid, GetOwned::<M> { maps, keys, owned, values, outcomes })
        }
    }
}
