//! Lookups of one rank's keys in a batch, which are executed where they lie.
use super::table::RawTable;
use crate::map::launch::{self, Batch};
use crate::map::variant::{HasVariant, Variant, VariantTag, variants};
use gpu::Stream;
use phalanx_kernels::hash_map::Config;
use phalanx_kernels::keyed::Scalar;
use phalanx_kernels::sharded::owned::{GetOwned, Owned};
use phalanx_kernels::sharded::tables;
use simt::Instance;

/// Lookups of a rank's keys in tables of one variant.
pub trait OwnedReader<K, V>: HasVariant + Send + Sync {
    /// Launches a `get`.
    ///
    /// # Safety
    /// - As for `Kernels::launch_batch`.
    unsafe fn look_up_owned(
        &self,
        stream: &Stream,
        table: &RawTable,
        batch: Batch<K, V>,
        owned: Owned,
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
        table: &RawTable,
        batch: Batch<M::Key, M::Value>,
        owned: Owned,
    ) -> gpu::Result<()> {
        let Batch { keys, results: values, outcomes, .. } = batch;
        let grid = launch::grid::<M>(stream, keys.max_len());
        // SAFETY: the caller's obligations. The grid has at least one thread per element.
        unsafe { stream.launch(grid, GetOwned::<M> { map: table.view(), keys, owned, values, outcomes }) }
    }
}
