//! Mutation tests: pools with one planted bug each, which the exploration must find within the given number
//! of seeds.
use crate::is_found;
use crate::play::{Alone, Tiles, Ways};
use crate::pool::{FlawedPool, PoolFlaw};
use crate::world::Finding;
use phalanx_kernels::slab::{Handle, Light, Pool};
use simt::{Global, Lockstep, Order, Scope};

/// Number of seeds within which a planted bug must be found.
const SEEDS: u64 = 50;

/// Declares flaws: a type for each, and the operations that it overrides.
macro_rules! flaws {
    ($($(#[$doc:meta])* $name:ident { $($item:item)* })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy)]
        struct $name;

        impl PoolFlaw for $name {
            $($item)*
        }
    )*};
}

fn word(pool: Light<128>, index: u32) -> Global<u32> {
    // SAFETY: `index` comes from a call of `take` or `give`; the flaw determines the bits.
    unsafe { pool.bitmaps().word(index) }
}

flaws! {
    /// Takes slabs with a load and a store instead of an atomic operation.
    TornTake {
        fn take(pool: Light<128>, index: u32, bits: u32) -> u32 {
            let old = word(pool, index).load(Order::Relaxed, Scope::Device);
            word(pool, index).store(old | bits, Order::Relaxed, Scope::Device);
            old
        }
    }
    /// Frees slabs with a load and a store instead of an atomic operation.
    TornGive {
        fn give(pool: Light<128>, index: u32, bits: u32) -> u32 {
            let old = word(pool, index).load(Order::Relaxed, Scope::Device);
            word(pool, index).store(old & !bits, Order::Relaxed, Scope::Device);
            old
        }
    }
    /// Assumes that all slabs that it takes were free.
    BlindTake {
        fn take(pool: Light<128>, index: u32, bits: u32) -> u32 {
            // SAFETY: the caller fulfils the obligations of `take`.
            unsafe { pool.take(index, bits) & !bits }
        }
    }
    /// Frees a whole word of slabs instead of one slab.
    WideGive {
        fn give(pool: Light<128>, index: u32, _bits: u32) -> u32 {
            // SAFETY: the word belongs to the pool; freeing other slabs is the flaw.
            unsafe { pool.give(index, u32::MAX) }
        }
    }
    /// Reads the bitmap with a weak load before it takes slabs.
    WeakLook {
        fn take(pool: Light<128>, index: u32, bits: u32) -> u32 {
            word(pool, index).load(Order::Weak, Scope::Device);
            // SAFETY: the caller fulfils the obligations of `take`.
            unsafe { pool.take(index, bits) }
        }
    }
    /// Frees slabs immediately instead of retiring them.
    HastyRetire {
        fn retire(pool: Light<128>, handle: Handle) {
            pool.free(handle);
        }
    }
}

fn hunts<F: PoolFlaw, A: Ways<FlawedPool<F>>>(is: fn(&Finding) -> bool) {
    let name = format!("{} by {}", std::any::type_name::<F>(), std::any::type_name::<A>());
    is_found::<FlawedPool<F>, A>(&name, SEEDS, is);
}

macro_rules! mutants {
    ($($test:ident: $flaw:ident by $($way:ty),* => $is:expr;)*) => {$(
        #[test]
        fn $test() {
            $(hunts::<$flaw, $way>($is);)*
        }
    )*};
}

fn any(_: &Finding) -> bool {
    true
}

fn is_shared(finding: &Finding) -> bool {
    matches!(finding, Finding::Shared(_))
}

fn is_machine(finding: &Finding) -> bool {
    matches!(finding, Finding::Machine(_))
}

mutants! {
    a_torn_take_is_found:
        TornTake by Alone, Tiles<1, Lockstep>, Tiles<8, Lockstep>, Tiles<32, Lockstep> => any;
    a_torn_free_is_found: TornGive by Alone, Tiles<4, Lockstep>, Tiles<32, Lockstep> => any;
    a_blind_take_is_found: BlindTake by Alone, Tiles<2, Lockstep>, Tiles<16, Lockstep> => is_shared;
    a_free_of_neighbours_is_found: WideGive by Alone, Tiles<4, Lockstep> => any;
    an_unordered_look_is_found: WeakLook by Alone, Tiles<4, Lockstep> => is_machine;
    a_hasty_retirement_is_found: HastyRetire by Alone, Tiles<4, Lockstep> => any;
}
