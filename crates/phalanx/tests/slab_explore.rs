//! Explores schedules of the pool's functions on the emulator, with every detector and a stale L1 cache: tiny
//! pools, and lanes that concurrently allocate, free and retire slabs. `PHALANX_SEED` replays one seed,
//! `PHALANX_SEEDS=50` explores fifty times as many seeds.
mod common;
#[path = "slab_explore/mutants.rs"]
mod mutants;
#[path = "slab_explore/play.rs"]
mod play;
#[path = "explore/pool.rs"]
mod pool;
#[path = "slab_explore/world.rs"]
mod world;

use phalanx_kernels::slab::{self, Light, Pool, Spread};
use play::{Alone, Tiles, Ways};
use simt::{Independent, Instance, Lockstep};
use std::convert::Infallible;
use world::{Finding, Played, explore, searches_without_result};

/// Number of seeds per allocation method.
const SEEDS: u64 = 300;

/// Runs `count` seeds; all must be sound.
fn all_are_sound<P: Pool + Instance, A: Ways<P>>(count: u64) {
    let name = format!("{} by {}", std::any::type_name::<P>(), std::any::type_name::<A>());
    let (mut sum, seeds) = (Played::default(), common::all_seeds(count));
    for seed in seeds {
        let played = explore::<P, A>(seed)
            .unwrap_or_else(|finding| panic!("{name}: {finding}\n{}", common::replay(seed)));
        sum += played;
    }
    println!("{name}: {sum:?}");
    assert!(sum.given > 0 && sum.refused > 0 && sum.freed > 0 && sum.retired > 0, "{sum:?}");
}

/// Checks that one of `count` seeds has a finding that satisfies `is`, and that it replays.
fn is_found<P: Pool + Instance, A: Ways<P>>(name: &str, count: u64, is: fn(&Finding) -> bool) {
    for seed in 0..count {
        if let Err(finding) = explore::<P, A>(seed)
            && is(&finding)
        {
            let again = explore::<P, A>(seed).expect_err("what was found is there");
            assert!(again.is_same(&finding), "{name}: seed {seed} does not replay: {finding} and {again}");
            println!("{name}: found by seed {seed}: {finding}");
            return;
        }
    }
    panic!("{name}: the planted bug was not found by {count} seeds");
}

#[test]
fn lanes_alone() {
    all_are_sound::<Light<128>, Alone>(SEEDS);
    all_are_sound::<Spread<256>, Alone>(SEEDS);
}

/// A search probes each word of a small bitmap.
#[test]
fn searches_end_at_the_last_free_slab() {
    for units in [5, 33, 130, 32 * 32] {
        assert_eq!(searches_without_result::<Light<128>>(units), 0, "{units} slabs");
    }
}

/// Explores the compiled pools.
struct Compiled;

impl slab::Visitor for Compiled {
    type Output = Infallible;

    fn visit<P: Pool + Instance>(&mut self) -> Option<Infallible> {
        all_are_sound::<P, Alone>(SEEDS / 15);
        all_are_sound::<P, Tiles<32, Lockstep>>(SEEDS / 30);
        None
    }
}

#[test]
fn compiled_pools() {
    slab::visit(&mut Compiled);
}

macro_rules! tiles {
    ($($test:ident: $width:literal, $seeds:expr;)*) => {$(
        mod $test {
            use super::*;

            #[test]
            fn lockstep() {
                all_are_sound::<Spread<128>, Tiles<$width, Lockstep>>($seeds);
            }

            #[test]
            fn independent() {
                all_are_sound::<Light<256>, Tiles<$width, Independent>>($seeds);
            }
        }
    )*};
}

tiles! {
    tiles_of_1: 1, SEEDS;
    tiles_of_2: 2, SEEDS;
    tiles_of_4: 4, SEEDS / 2;
    tiles_of_8: 8, SEEDS / 2;
    tiles_of_16: 16, SEEDS / 3;
    tiles_of_32: 32, SEEDS / 3;
}
