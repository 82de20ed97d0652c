//! Exploration of many seeds on one map variant.
use crate::common::{all_seeds, replay, seeds};
use crate::plan::{Choice, Plan};
use crate::script::Execution;
use crate::world::{Finding, HasFixture, Played, Setting, explore};
use phalanx_kernels::keyed::{Kind, Slot};
use simt::emulator::{Fault, Schedule, WeakMemory};
use std::ops::Range;

/// Returns the setting of a seed: random schedules alternate with priority-based ones.
pub fn setting<M: Kind>(seed: u64) -> Setting {
    let schedule = match seed % 3 {
        0 => Schedule::Random { seed },
        1 => Schedule::Pct { seed, depth: 3 },
        _ => Schedule::Pct { seed, depth: 10 },
    };
    let published = M::Slot::PUBLISHES;
    let weak_memory = WeakMemory::Off;
    let choice = Choice::USUAL;
    Setting { schedule, choice, cas128: !published, forget: false, weak_memory, faults: Vec::new() }
}

/// One in this many seeds is also run under weak memory.
const WEAK_PART: u64 = 4;

/// Returns the settings of `count` seeds, and then of the first of them under the program's weak memory
/// model.
pub fn settings<M: HasFixture>(count: u64) -> impl Iterator<Item = (u64, Setting)> {
    settings_of::<M>(count, seeds)
}

/// As [`settings`], for plans that need all seeds to explore what they are there for.
#[allow(dead_code)] // not every program has such plans
pub fn all_settings<M: HasFixture>(count: u64) -> impl Iterator<Item = (u64, Setting)> {
    settings_of::<M>(count, all_seeds)
}

fn settings_of<M: HasFixture>(
    count: u64,
    seeds: fn(u64) -> Range<u64>,
) -> impl Iterator<Item = (u64, Setting)> {
    let strong = seeds(count).map(|seed| (seed, setting::<M>(seed)));
    let weak = |seed| (seed, Setting { weak_memory: M::WEAK, ..setting::<M>(seed) });
    strong.chain(seeds(count.div_ceil(WEAK_PART)).map(weak))
}

/// Returns the message for a finding: its memory model, and the command that replays it.
pub fn told(name: &str, seed: u64, setting: &Setting, finding: &Finding) -> String {
    format!("{name}, weak memory {:?}: {finding}\n{}", setting.weak_memory, replay(seed))
}

/// Runs the plan of a seed.
pub fn play<M: HasFixture, E: Execution<M>>(seed: u64, setting: &Setting) -> Result<Played, Finding> {
    // A warp has at least two tiles, unless a tile is as wide as a warp.
    let rows = (M::TILE.max(2) * 2).min(32) / E::WIDTH;
    let plan = Plan::new::<M>(seed, rows.max(E::ROWS), setting.choice);
    explore::<M, E>(&plan, setting)
}

/// Runs the plans of `count` seeds; all must be sound.
pub fn all_are_sound<M: HasFixture, E: Execution<M>>(name: &str, count: u64) {
    all_are_sound_if::<M, E>(name, count, |setting| setting);
}

/// As [`all_are_sound`], with changed settings.
pub fn all_are_sound_if<M: HasFixture, E: Execution<M>>(
    name: &str,
    count: u64,
    change: impl Fn(Setting) -> Setting,
) {
    let (mut sum, mut runs) = (Played::default(), 0);
    for (seed, setting) in settings::<M>(count).map(|(seed, setting)| (seed, change(setting))) {
        let played = play::<M, E>(seed, &setting)
            .unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
        sum += played;
        runs += 1;
    }
    println!("{name}: {runs} runs, {sum:?}");
}

/// Runs plans of operations that return what they remove or replace, half of them beside changes of values;
/// all must be sound.
pub fn exchanges_are_sound<M: HasFixture, E: Execution<M>>(name: &str, count: u64) {
    for choice in [Choice::EXCHANGES, Choice::EXCHANGES_AND_CHANGES] {
        all_are_sound_if::<M, E>(name, count.div_ceil(2), |setting| Setting { choice, ..setting });
    }
}

#[allow(dead_code)] // not every program plants such faults
/// Checks that one of `count` seeds of operations that return what they remove or replace has a finding that
/// satisfies `is`, caused by the `faults`, and that it replays.
pub fn is_found_by_exchanges<M: HasFixture, E: Execution<M>>(
    name: &str,
    count: u64,
    faults: &[Fault],
    is: fn(&Finding) -> bool,
) {
    let choice = Choice::EXCHANGES;
    let planted = |setting| Setting { choice, faults: faults.to_vec(), ..setting };
    is_found::<M, E>(name, count, planted, is);
    faults.iter().for_each(|fault| assert!(fault.effects() > 0, "the fault has no effect: {fault}"));
}

#[allow(dead_code)] // not every program has mutants with plans
/// Checks that one of `count` seeds has a finding that satisfies `is`, and that it replays.
pub fn is_found<M: HasFixture, E: Execution<M>>(
    name: &str,
    count: u64,
    change: impl Fn(Setting) -> Setting,
    is: fn(&Finding) -> bool,
) {
    for seed in 0..count {
        if let Err(finding) = play::<M, E>(seed, &change(setting::<M>(seed)))
            && is(&finding)
        {
            let again = play::<M, E>(seed, &change(setting::<M>(seed))).expect_err("what was found is there");
            assert!(again.is_same(&finding), "{name}: seed {seed} does not replay: {finding} and {again}");
            println!("{name}: found by seed {seed}: {finding}");
            return;
        }
    }
    panic!("{name}: the planted bug was not found by {count} seeds");
}

/// Declares tests for map variants given by types: all plans, by lanes and by tiles, for the given number of
/// seeds, and optionally one more test by the `all_are_sound` of another module. With a name in
/// front, the function of that name returns the types.
#[macro_export]
macro_rules! explore {
    ($(($explored:ident))? $([$also:ident: $module:ident, one seed in $part:literal])?
     $($name:ident: $of:ty, $seeds:expr;)*) => {
        $crate::explore! { @each [$($also: $module, $part)?] $($name: $of, $seeds;)* }

        $crate::explore! { @ids [$($explored)?] $($of)* }
    };
    (@ids [] $($of:ty)*) => {};
    (@ids [$explored:ident] $($of:ty)*) => {
        fn $explored() -> Vec<std::any::TypeId> {
            vec![$(std::any::TypeId::of::<$of>()),*]
        }
    };
    (@each $also:tt $($name:ident: $of:ty, $seeds:expr;)*) => {$(
        mod $name {
            use super::*;
            use phalanx_kernels::keyed::Kind;
            use $crate::mutation::{all_are_sound, exchanges_are_sound};
            use $crate::script::{ByLanes, ByTiles};

            const TILE: u32 = <$of as Kind>::TILE;

            #[test]
            fn by_lanes() {
                all_are_sound::<$of, ByLanes>(stringify!($name), $seeds);
            }

            #[test]
            fn by_tiles() {
                all_are_sound::<$of, ByTiles<simt::Independent, TILE>>(stringify!($name), $seeds / 2);
                all_are_sound::<$of, ByTiles<simt::Lockstep, TILE>>(stringify!($name), $seeds / 2);
            }

            #[test]
            fn exchanges() {
                exchanges_are_sound::<$of, ByLanes>(stringify!($name), $seeds);
            }

            $crate::explore! { @also $also $of, $name, $seeds }
        }
    )*};
    (@also [] $($rest:tt)*) => {};
    (@also [$also:ident: $module:ident, $part:literal] $of:ty, $name:ident, $seeds:expr) => {
        #[test]
        fn $also() {
            $module::all_are_sound::<$of>(stringify!($name), $seeds / $part);
        }
    };
}
