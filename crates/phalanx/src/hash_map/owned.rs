//! Batches of which one rank's elements are executed where they lie.
use super::table::RawTable;
use crate::map::launch::{self, Batch, BatchOp};
use crate::map::variant::{HasVariant, Variant, VariantTag, variants};
use gpu::Stream;
use phalanx_kernels::hash_map::Config;
use phalanx_kernels::keyed::Scalar;
use phalanx_kernels::sharded::owned::{GetOwned, InsertOwned, Owned};
use phalanx_kernels::sharded::tables;
use simt::Instance;

/// Launches for a rank's elements, on tables of one variant.
pub trait OwnedKernels<K, V>: HasVariant + Send + Sync {
    /// Launches a batch of an operation that [`executes`] names.
    ///
    /// # Safety
    /// - As for `Kernels::launch_batch`.
    unsafe fn launch_owned(
        &self,
        stream: &Stream,
        table: &RawTable,
        batch: Batch<K, V>,
        owned: Owned,
    ) -> gpu::Result<()>;
}

variants! {
    /// Returns the kernels of all variants that have them.
    all: OwnedKernels, tables, Config
}

/// Returns whether there are kernels for an operation.
pub fn executes(op: BatchOp) -> bool {
    matches!(op, BatchOp::Get | BatchOp::Insert)
}

/// Returns the kernels of a variant, if there are any.
pub fn find<K: Scalar, V: Scalar>(variant: Variant) -> Option<&'static dyn OwnedKernels<K, V>> {
    all().find(|kernels| kernels.variant() == variant)
}

impl<M: Config + Instance> OwnedKernels<M::Key, M::Value> for VariantTag<M> {
    unsafe fn launch_owned(
        &self,
        stream: &Stream,
        table: &RawTable,
        batch: Batch<M::Key, M::Value>,
        owned: Owned,
    ) -> gpu::Result<()> {
        let Batch { op, keys, arguments, results, outcomes, .. } = batch;
        let grid = launch::grid::<M>(stream, keys.max_len());
        // SAFETY: the caller's obligations. The grid has at least one thread per element.
        unsafe {
            let map = table.view();
            match op {
                BatchOp::Insert => {
                    let kernel = InsertOwned::<M> { map, keys, values: arguments, owned, outcomes };
                    stream.launch(grid, kernel)
                }
                _ => stream.launch(grid, GetOwned::<M> { map, keys, owned, values: results, outcomes }),
            }
        }
    }
}
