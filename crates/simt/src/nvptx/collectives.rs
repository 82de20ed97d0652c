//! Collectives of a warp and the barrier of a block.
use simt_macros::device;

unsafe extern "C" {
    #[link_name = "llvm.nvvm.vote.ballot.sync"]
    fn vote_ballot(mask: u32, vote: bool) -> u32;
    #[link_name = "llvm.nvvm.vote.any.sync"]
    fn vote_any(mask: u32, vote: bool) -> bool;
    #[link_name = "llvm.nvvm.shfl.sync.idx.i32"]
    fn shfl_idx(mask: u32, value: u32, lane: u32, segment: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.bfly.i32"]
    fn shfl_bfly(mask: u32, value: u32, flip: u32, segment: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.up.i32"]
    fn shfl_up(mask: u32, value: u32, by: u32, segment: u32) -> u32;
    #[link_name = "llvm.nvvm.shfl.sync.down.i32"]
    fn shfl_down(mask: u32, value: u32, by: u32, segment: u32) -> u32;
    #[link_name = "llvm.nvvm.match.any.sync.i32"]
    fn match_any_i32(mask: u32, value: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.add"]
    fn redux_add(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umin"]
    fn redux_min(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.redux.sync.umax"]
    fn redux_max(value: u32, mask: u32) -> u32;
    #[link_name = "llvm.nvvm.bar.warp.sync"]
    fn bar_warp_sync(mask: u32);
    // Not `core`'s `_syncthreads`, which is `bar.sync` and requires the lanes of a warp to be converged.
    #[link_name = "llvm.nvvm.barrier.cta.sync.all"]
    fn barrier_sync(barrier: u32);
}

/// Source line of a shuffle. Empty here; the emulator's reports name the line.
#[derive(Clone, Copy)]
pub struct Site;

#[device]
pub fn site() -> Site {
    Site
}

macro_rules! collective {
    ($(
        $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? =
            $intrinsic:ident($($passed:ident),*);
    )*) => {$(
        #[inline(always)]
        pub fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: the lanes of `mask` execute this together: `tile.rs` requires it of its callers, and
            // the emulator checks it.
            unsafe { $intrinsic($($passed),*) }
        }
    )*};
}

collective! {
    ballot(mask: u32, vote: bool) -> u32 = vote_ballot(mask, vote);
    any(mask: u32, vote: bool) -> bool = vote_any(mask, vote);
    shuffle(_site: Site, mask: u32, value: u32, rank: u32, segment: u32) -> u32 =
        shfl_idx(mask, value, rank, segment);
    shuffle_xor(_site: Site, mask: u32, value: u32, flip: u32, segment: u32) -> u32 =
        shfl_bfly(mask, value, flip, segment);
    shuffle_up(_site: Site, mask: u32, value: u32, by: u32, segment: u32) -> u32 =
        shfl_up(mask, value, by, segment);
    shuffle_down(_site: Site, mask: u32, value: u32, by: u32, segment: u32) -> u32 =
        shfl_down(mask, value, by, segment);
    match_any(mask: u32, value: u32) -> u32 = match_any_i32(mask, value);
    reduce_add(mask: u32, value: u32) -> u32 = redux_add(value, mask);
    reduce_min(mask: u32, value: u32) -> u32 = redux_min(value, mask);
    reduce_max(mask: u32, value: u32) -> u32 = redux_max(value, mask);
    warp_sync(mask: u32) = bar_warp_sync(mask);
}

#[device]
pub fn block_sync() {
    // SAFETY: all threads of the block execute this together: `Block::sync` requires it of its callers, and
    // the emulator checks it.
    unsafe { barrier_sync(0) }
}
