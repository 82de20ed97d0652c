//! The cases of frozen hash maps, for maps of slab lists.
crate::frozen_tables::frozen_cases!(
    SlabHash,
    phalanx_kernels::slab::list::phased,
    phalanx::slab_hash::variants
);
