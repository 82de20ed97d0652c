//! Hot leaves: tiles of several launches update one key, so that its leaf becomes shared, while others insert
//! keys that split the leaf, and remove keys from it. In lists the removals also merge it.
use crate::common::{Rng, all_seeds, replay, seeds};
use crate::faults::{assert_effects, with};
use crate::mutation::{setting, settings, told};
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{Finding, HasFixture, Played, Setting, explore};
use phalanx_kernels::btree::Config;
use phalanx_kernels::keyed::OpCode;
use simt::emulator::{Fault, WeakMemory};

/// Operations that change the value of a present key. Sums must be exact.
const UPDATES: [OpCode; 5] = [OpCode::ADD, OpCode::ADD, OpCode::INSERT, OpCode::MAX, OpCode::GET_OR_INSERT];

/// Lanes of a warp.
const WARP: usize = 32;

/// Steps of a launch besides updates of the hot key.
#[derive(Clone, Copy)]
enum Role {
    /// Insert new keys above all others.
    Splits,
    /// Remove keys near the hot one, and seldom the hot one.
    Removes,
    /// Look the hot key up.
    Reads,
}

/// Returns a plan whose hot key is one of the last, where new keys are inserted.
fn plan<M: HasFixture + Config>(seed: u64) -> Plan {
    plan_of::<M>(seed, [Role::Splits, Role::Removes, Role::Reads])
}

/// Returns a plan of launches with these roles.
fn plan_of<M: HasFixture + Config>(seed: u64, roles: [Role; 3]) -> Plan {
    let mut rng = Rng::new(seed);
    let slots = u64::from(M::SLOTS);
    let fill = slots / 2 * (1 + rng.below(4)) + 1 + rng.below(slots);
    let hot = fill - 1 - rng.below(2);
    let (rows, rounds) = ((M::TILE.max(2) * 2).min(32) as usize, 3 + rng.below(4) as usize);
    let parts = roles.map(|role| {
        let step = |rng: &mut Rng| step(rng, role, (rows, fill, slots), hot);
        let rows = (0..rows).map(|_| (0..rounds).map(|_| step(&mut rng)).collect()).collect();
        Part { kinds: vec![MIXED; rounds], rows }
    });
    Plan { buckets: 64, fill, parts: parts.into() }
}

fn step(rng: &mut Rng, role: Role, (rows, fill, slots): (usize, u64, u64), hot: u64) -> Step {
    let (code, key) = match role {
        _ if rng.below(rows as u64) > 3 => return (NOTHING, hot, 0),
        _ if rng.below(4) < 3 => (rng.pick(&UPDATES), hot),
        Role::Splits => (OpCode::INSERT, fill + rng.below(slots)),
        Role::Removes if rng.below(4) == 0 => (OpCode::REMOVE, hot),
        Role::Removes => (OpCode::REMOVE, fill - 1 - rng.below(fill.min(slots))),
        Role::Reads => (OpCode::GET, hot),
    };
    (code.code() as u8, key, rng.below(100))
}

/// Returns a plan whose launches are whole warps: most of a warp's tiles update the same key at once.
#[allow(dead_code)] // for lists only
fn warps<M: HasFixture + Config>(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    let slots = u64::from(M::SLOTS);
    let fill = slots / 2 * (1 + rng.below(4)) + 1 + rng.below(slots);
    let hot = fill - 1 - rng.below(2);
    let parts = [Role::Splits, Role::Removes].map(|role| {
        let step = |rng: &mut Rng| step(rng, role, (WARP / 2, fill, slots), hot);
        let rows = (0..WARP).map(|_| (0..2).map(|_| step(&mut rng)).collect()).collect();
        Part { kinds: vec![MIXED; 2], rows }
    });
    Plan { buckets: 64, fill, parts: parts.into() }
}

/// Returns a plan that updates a key of each of the last two data nodes of a list with nodes of 6 pairs. Only
/// the link of the first of them leads to the second, because the pool had no slab for its index entry.
#[allow(dead_code)] // for lists only
fn linked(seed: u64) -> Plan {
    let mut rng = Rng::new(seed);
    let step = |rng: &mut Rng| {
        let code = if rng.below(3) == 0 { NOTHING } else { rng.pick(&UPDATES).code() as u8 };
        (code, rng.pick(&[16, 20]), rng.below(100))
    };
    let mut part = |_| {
        let rows = (0..8).map(|_| (0..2).map(|_| step(&mut rng)).collect()).collect();
        Part { kinds: vec![MIXED; 2], rows }
    };
    Plan { buckets: 9, fill: 23, parts: (0..3).map(&mut part).collect() }
}

/// Runs the plan of a seed.
fn play<M: HasFixture + Config>(seed: u64, setting: &Setting) -> Result<Played, Finding> {
    explore::<M, ByLanes>(&plan::<M>(seed), setting)
}

/// Requires that the plans of `count` seeds are sound.
pub fn all_are_sound<M: HasFixture + Config>(name: &str, count: u64) {
    are_sound::<M>(name, count, plan::<M>);
}

/// Requires that plans without splits are sound in the PTX memory model: no link leads to a new node, so
/// nothing relies on address dependencies.
#[allow(dead_code)] // for lists only
pub fn removals_are_sound<M: HasFixture + Config>(name: &str, count: u64) {
    for seed in seeds(count) {
        let setting = Setting { weak_memory: WeakMemory::Ptx, ..setting::<M>(seed) };
        let plan = plan_of::<M>(seed, [Role::Removes, Role::Removes, Role::Reads]);
        let played = explore::<M, ByLanes>(&plan, &setting);
        played.unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
}

/// Requires that plans whose warps update one key are sound.
#[allow(dead_code)] // for lists only
pub fn warps_are_sound<M: HasFixture + Config>(name: &str, count: u64) {
    are_sound::<M>(name, count, warps::<M>);
}

/// Requires that plans with hot keys in a node to which only a link leads are sound.
#[allow(dead_code)] // for lists only
pub fn linked_ones_are_sound<M: HasFixture + Config>(name: &str, count: u64) {
    are_sound::<M>(name, count, linked);
}

fn are_sound<M: HasFixture + Config>(name: &str, count: u64, plan: impl Fn(u64) -> Plan) {
    for (seed, setting) in settings::<M>(count) {
        let played = explore::<M, ByLanes>(&plan(seed), &setting);
        played.unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
}

/// Requires that one of `count` seeds finds the fault, by a finding that satisfies `is`, and replays it.
pub fn is_found<M: HasFixture + Config>(name: &str, count: u64, fault: Fault, is: fn(&Finding) -> bool) {
    let faults = [fault];
    let play = |seed| play::<M>(seed, &with(&faults)(setting::<M>(seed)));
    let (seed, finding) = all_seeds(count)
        .filter_map(|seed| play(seed).err().map(|finding| (seed, finding)))
        .find(|(_, finding)| is(finding))
        .unwrap_or_else(|| panic!("{name}: not found by {count} seeds, {} effects", faults[0].effects()));
    let again = play(seed).expect_err("it replays");
    assert!(again.is_same(&finding), "{name}: {finding} and {again}; {}", replay(seed));
    println!("{name}: found by seed {seed}: {finding}");
    assert_effects(&faults);
}

/// Tests that faults of the protocol of shared leaves are found in a kind with small nodes, within a number
/// of seeds. Names and texts say leaf for a data node of a list, too.
macro_rules! sharing_faults {
    ($kind:ty, $seeds:expr) => {
        mod shared_leaves {
            use super::*;
            use $crate::faults::site;
            use $crate::world::{is_race, is_wrong};

            /// A tile that closes a shared leaf does not wait for the sharers to leave.
            #[test]
            fn a_holder_that_does_not_wait_for_sharers_is_found() {
                let count = site("ordered/share.rs", "close_leaf", "node.meta(Order::Acquire)");
                let none = |_, meta| meta & ((1 << 11) - 1);
                hot::is_found::<$kind>("no wait", 8 * $seeds, Fault::replace(count, none), |_| true);
            }

            /// A tile that closes a shared leaf does not mark it, so others become sharers meanwhile.
            #[test]
            fn a_leaf_that_is_not_closed_is_found() {
                let close = site("ordered/share.rs", "close_leaf", "node.set(Meta::CLOSED");
                hot::is_found::<$kind>("not closed", $seeds, Fault::skip(close), |_| true);
            }

            /// The place where a sharer leaves the count.
            fn leave() -> SiteId {
                site("ordered/share.rs", "share_leaf", "node.add(Meta::SHARER.wrapping_neg()")
            }

            /// A sharer leaves without a trace in the count.
            #[test]
            fn a_sharer_that_stays_in_the_count_is_found() {
                hot::is_found::<$kind>("no leave", $seeds, Fault::skip(leave()), |_| true);
            }

            /// A sharer leaves before its change of the value is visible.
            #[test]
            fn a_sharer_that_releases_nothing_is_found() {
                let fault = Fault::order(leave(), Order::Relaxed);
                hot::is_found::<$kind>("no release by a sharer", 8 * $seeds, fault, is_race);
            }

            /// Sharers change values by a load and a store.
            #[test]
            fn a_value_that_changes_in_two_steps_is_found() {
                let change = site("ordered/share.rs", "share_leaf", "request.change_value(");
                hot::is_found::<$kind>("a torn sum", $seeds, Fault::tear(change), is_wrong);
            }
        }
    };
}
pub(crate) use sharing_faults;
