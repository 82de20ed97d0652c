//! Construction of B-trees.
use super::BTree;
use crate::map::variant::{names, variants};
pub use crate::ordered::builder::Builder;
use crate::ordered::kernels::Kernels;
#[allow(unused_imports)] // for links in the documentation
use crate::{Error, SlabAlloc};
use crate::{Key, Result, Value};
use phalanx_kernels::btree;
use phalanx_kernels::ordered::Config;

impl<K: Key, V: Value> Builder<K, V> {
    /// Creates an empty tree.
    ///
    /// # Errors
    /// [`Error::ZeroCapacity`] if the capacity is 0; [`Error::UnknownVariant`] if no variant has the name for
    /// these types; [`Error::NeedsWideSwap`] if the device lacks the variant's compare-and-swap;
    /// [`Error::Device`] if the device lacks the memory; otherwise as [`SlabAlloc`]'s builder.
    pub fn build(self) -> Result<BTree<K, V>> {
        Ok(BTree { tree: self.build_tree(trees(), |_, _| Ok(None))? })
    }
}

/// Returns the names of all variants for these key and value types. A name consists of pool, bytes per node,
/// lanes per tile x words per lane, and bits of key and value.
///
/// ```
/// let names = phalanx::btree::variants::<u32, u32>();
/// assert!(names.contains(&"tree_spread_128_4x4_u32_u32"));
/// ```
pub fn variants<K: Key, V: Value>() -> Vec<&'static str> {
    names(trees::<K::Word, V::Word>())
}

variants! {
    /// Returns the kernels of all B-trees with these key and value types, the defaults first.
    trees: Kernels, btree, Config
}
