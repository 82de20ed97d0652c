//! Random scripts of calls on random maps of each structure, compared with a map of the standard library:
//! batches of all sizes and orders, allocations that fail, files between. The seed of a script selects
//! everything.
//!
//! A test runs a few scripts, and `cargo xtask soak` ten thousand. Other tests let each copy of a call fail.
#![cfg(all(
    feature = "hash-map",
    feature = "slab-hash",
    feature = "btree",
    feature = "mvbtree",
    feature = "skip-list"
))]
mod batch;
mod faults;
mod script;

use gpu::Device;
use phalanx::btree::LargeBatches;
use phalanx::{BTree, HashMap, MultiVersionBTree, SkipList, SlabHash};
use phalanx_testing::common::{Rng, emulator};
use phalanx_testing::kinds::Tested;
use phalanx_testing::scripts;
use script::Script;

/// A structure that grows.
trait Scripted: Tested<Key = u32, Value = u32> {
    const NAME: &'static str;

    /// A change of a present key may need memory, too: for the version before it.
    const KEEPS_VERSIONS: bool;

    /// Returns a builder with random parameters.
    fn random(device: &Device, rng: &mut Rng) -> Self::Builder;

    fn build(builder: Self::Builder) -> phalanx::Result<Self>;

    fn load_in(saved: &[u8], builder: Self::Builder) -> phalanx::Result<Self>;
}

macro_rules! scripted {
    ($($test:ident: $map:ident, $keeps:expr, |$builder:ident, $rng:ident| $random:expr;)*) => {
        $(
            impl Scripted for $map<u32, u32> {
                const NAME: &'static str = stringify!($map);
                const KEEPS_VERSIONS: bool = $keeps;

                fn random(device: &Device, $rng: &mut Rng) -> Self::Builder {
                    let $builder = Self::builder().device(device);
                    $random
                }

                fn build(builder: Self::Builder) -> phalanx::Result<Self> {
                    builder.build()
                }

                fn load_in(saved: &[u8], builder: Self::Builder) -> phalanx::Result<Self> {
                    Self::load(saved, builder)
                }
            }

            #[test]
            fn $test() {
                run::<$map<u32, u32>>();
            }
        )*
    };
}
scripted! {
    hash_map: HashMap, false, |builder, rng| builder.capacity(rng.pick(&[1, 100, 3000]));
    slab_hash: SlabHash, false, |builder, rng| {
        builder.buckets(rng.pick(&[1, 7, 200])).slabs(rng.pick(&[1, 64]))
    };
    btree: BTree, false, |builder, rng| builder.nodes(1).large_batches(large_batches(rng));
    skip_list: SkipList, false, |builder, rng| builder.nodes(1).large_batches(large_batches(rng));
    multi_version_btree: MultiVersionBTree, true, |builder, rng| {
        let updates = rng.pick(&[phalanx::mvbtree::Updates::InPlace, phalanx::mvbtree::Updates::OutOfPlace]);
        builder.nodes(1).large_batches(large_batches(rng)).updates(updates)
    };
}

fn large_batches(rng: &mut Rng) -> LargeBatches {
    rng.pick(&[LargeBatches::Concurrent, LargeBatches::RebuildIfBlocking, LargeBatches::Rebuild])
}

fn run<M: Scripted>() {
    let device = emulator().unwrap();
    scripts::run(M::NAME, 500, |seed, counters| Script::<M>::new(&device, seed, counters).run());
}
