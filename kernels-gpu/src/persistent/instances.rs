//! The kinds of table that are compiled. A new variant is one line here.
use super::kind::Levels;

simt::instances! {
    types {
        // Names: levels, hash locations, slots, lanes, bytes of a key, and bytes of a value if constant.
        levels_2l2h8s1w_k8_v8: Levels<1, 8, 2, 2, 8, 1>,
        levels_2l2h8s1w_k8: Levels<1, 0, 2, 2, 8, 1>,
        levels_2l2h8s1w_k16: Levels<2, 0, 2, 2, 8, 1>,
        levels_2l2h8s1w_k32: Levels<4, 0, 2, 2, 8, 1>,
        levels_2l2h8s1w_k64: Levels<8, 0, 2, 2, 8, 1>,
    }
    #[cfg(feature = "variants")]
    types {
        // One-shot access: a tile reads all buckets of a key at once. Others of the paper's spectrum.
        levels_2l2h8s4w_k8_v8: Levels<1, 8, 2, 2, 8, 4>,
        levels_2l2h8s4w_k32: Levels<4, 0, 2, 2, 8, 4>,
        levels_1l1h32s1w_k8_v8: Levels<1, 8, 1, 1, 32, 1>,
        levels_1l2h16s2w_k8_v8: Levels<1, 8, 1, 2, 16, 2>,
        levels_1l4h8s4w_k8_v8: Levels<1, 8, 1, 4, 8, 4>,
        levels_4l2h4s8w_k8_v8: Levels<1, 8, 4, 2, 4, 8>,
        levels_2l4h4s8w_k8_v8: Levels<1, 8, 2, 4, 4, 8>,
    }
    kernels {
        crate::persistent::kernels::PersistentGet, crate::persistent::kernels::PersistentContains,
        crate::persistent::kernels::PersistentInsert,
        crate::persistent::kernels::PersistentInsertNew, crate::persistent::kernels::PersistentUpdate,
        crate::persistent::kernels::PersistentRemove,
        crate::persistent::recover::PersistentRebuild, crate::persistent::recover::PersistentResolve,
        crate::persistent::recover::PersistentExport, crate::persistent::recover::PersistentCount,
        crate::persistent::recover::PersistentCheck, crate::persistent::make_room::PersistentMakeRoom,
        crate::persistent::kernels::PersistentGetCached,
        crate::persistent::kernels::PersistentContainsCached,
        crate::persistent::refresh::PersistentRefresh,
    }
    visitor: crate::persistent::Search
}
