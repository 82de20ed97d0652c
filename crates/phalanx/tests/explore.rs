//! Explores schedules of the hash map's kernels on the emulator, with every detector. The outcomes are
//! checked for linearizability. `PHALANX_SEED` replays one seed. Without it a quarter of the seeds are
//! explored; `PHALANX_SEEDS=1` explores all, `PHALANX_SEEDS=50` fifty times as many.
mod common;
#[path = "explore/faults.rs"]
mod faults;
#[path = "explore/flaws.rs"]
mod flaws;
#[path = "explore/mutants.rs"]
mod mutants;
#[path = "explore/sessions.rs"]
mod sessions;
#[path = "explore/walks.rs"]
mod walks;

use phalanx_kernels::hash_map::{self, Config, Hinted, Packed, Published, Table, Visitor, Wide};
use phalanx_kernels::hash_map::{DoubleHash, TwoChoice};
use phalanx_kernels::keyed::{Kind, PerLane};
use phalanx_testing::mutation::{all_are_sound, exchanges_are_sound};
use phalanx_testing::script::{ByBlocks, ByLanes, ByTiles};
use phalanx_testing::{mutation, script, world};
use simt::{Independent, Instance, Lockstep, Tile};
use std::convert::Infallible;

/// Number of seeds per table variant.
const SEEDS: u64 = 400;

/// Tests the compiled table variants with these names; their warps share the work of their lanes.
struct Lanewise<W> {
    which: W,
    count: usize,
}

impl<W: Fn(&str) -> bool> Visitor for Lanewise<W> {
    type Output = Infallible;

    fn visit<M: Config + Instance>(&mut self) -> Option<Infallible> {
        if (self.which)(M::NAME) {
            let seeds = if M::TILE <= 4 { SEEDS } else { SEEDS / 5 };
            all_are_sound::<M, ByLanes>(M::NAME, seeds);
            exchanges_are_sound::<M, ByLanes>(M::NAME, seeds);
            self.count += 1;
        }
        None
    }
}

/// Schemes with tests of their own. Another test explores all other compiled variants.
const SCHEMES: [&str; 3] = ["hinted", "double", "choice"];

fn kinds(which: impl Fn(&str) -> bool) {
    let mut tested = Lanewise { which, count: 0 };
    hash_map::visit(&mut tested);
    assert!(tested.count > 0);
}

#[test]
fn hinted_kinds_are_linearizable() {
    kinds(|name| name.starts_with(SCHEMES[0]));
}

#[test]
fn double_hash_kinds_are_linearizable() {
    kinds(|name| name.starts_with(SCHEMES[1]));
}

#[test]
fn two_choice_kinds_are_linearizable() {
    kinds(|name| name.starts_with(SCHEMES[2]));
}

#[test]
fn published_and_other_kinds_are_linearizable() {
    kinds(|name| !SCHEMES.iter().any(|scheme| name.starts_with(scheme)));
}

macro_rules! tiles {
    ($($test:ident: $of:ty, $seeds:expr;)*) => {$(
        mod $test {
            use super::*;

            const TILE: u32 = <$of as Kind>::TILE;

            #[test]
            fn independent() {
                all_are_sound::<$of, ByTiles<Independent, TILE>>(stringify!($test), $seeds);
                exchanges_are_sound::<$of, ByTiles<Independent, TILE>>(stringify!($test), $seeds / 2);
            }

            #[test]
            fn lockstep() {
                all_are_sound::<$of, ByTiles<Lockstep, TILE>>(stringify!($test), $seeds);
            }
        }
    )*};
}

tiles! {
    tiles_of_1: Table<Packed, Hinted<16>, 1, 4>, SEEDS;
    tiles_of_2: Table<Packed, Hinted<16>, 2, 2>, SEEDS;
    tiles_of_4: Table<Packed, Hinted<8>, 4, 2>, SEEDS;
    tiles_of_8: Table<Packed, DoubleHash, 8, 1>, SEEDS / 2;
    tiles_of_16: Table<Packed, TwoChoice, 16, 1>, SEEDS / 3;
    tiles_of_32: Table<Packed, Hinted<32>, 32, 1>, SEEDS / 5;
    wide_tiles_of_2: Table<Wide<u64, u64>, DoubleHash, 2, 1>, SEEDS;
    wide_tiles_of_4: Table<Wide<u64, u64>, Hinted<16>, 4, 1>, SEEDS;
    published_tiles_of_1: Table<Published<u64, u64>, DoubleHash, 1, 2>, SEEDS;
    published_tiles_of_2: Table<Published<u64, u32>, Hinted<8>, 2, 1>, SEEDS;
    published_tiles_of_8: Table<Published<u32, u64>, TwoChoice, 8, 1>, SEEDS / 2;
    published_tiles_of_32: Table<Published<u64, u64>, DoubleHash, 32, 1>, SEEDS / 5;
}

/// Blocks whose warps combine equal operations.
#[test]
fn blocks_are_linearizable() {
    fn are_sound<M: world::HasFixture>(name: &str, seeds: u64) {
        all_are_sound::<M, ByBlocks>(name, seeds);
        exchanges_are_sound::<M, ByBlocks>(name, seeds);
    }
    are_sound::<Table<Packed, Hinted<8>, 2, 4>>("hinted", SEEDS / 2);
    are_sound::<Table<Packed, TwoChoice, 16, 1>>("two choices", SEEDS / 8);
    are_sound::<Table<Wide<u64, u64>, DoubleHash, 2, 2>>("wide", SEEDS / 4);
    are_sound::<Table<Published<u64, u32>, Hinted<8>, 2, 1>>("published", SEEDS / 4);
}

#[test]
fn what_a_session_did_is_published_by_the_lane_that_asked() {
    type Double = Table<Packed, DoubleHash, 2, 2>;
    type Two = Table<Published<u64, u32>, Hinted<8>, 4, 1>;
    sessions::are_published::<Double, PerLane>(3, SEEDS);
    sessions::are_published::<Double, Tile<2>>(3, SEEDS);
    sessions::are_published::<Double, Tile<2, Independent>>(3, SEEDS);
    sessions::are_published::<Two, PerLane>(3, SEEDS);
    sessions::are_published::<Two, Tile<4>>(3, SEEDS);
}
