//! Hot leaves: tiles of several launches update one key, so that its leaf becomes shared, while others insert
//! keys that split the leaf, and remove keys from it. In lists the removals also merge it.
use crate::common::Rng;
use crate::mutation::{settings, told};
use crate::plan::{Part, Plan, Step};
use crate::script::{ByLanes, MIXED, NOTHING};
use crate::world::{Finding, HasFixture, Played, Setting, explore};
use phalanx_kernels::btree::Config;
use phalanx_kernels::keyed::OpCode;

/// Operations that change the value of a present key. Sums must be exact.
const UPDATES: [OpCode; 5] = [OpCode::ADD, OpCode::ADD, OpCode::INSERT, OpCode::MAX, OpCode::GET_OR_INSERT];

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
    let mut rng = Rng::new(seed);
    let slots = u64::from(M::SLOTS);
    let fill = slots / 2 * (1 + rng.below(4)) + 1 + rng.below(slots);
    let hot = fill - 1 - rng.below(2);
    let (rows, rounds) = ((M::TILE.max(2) * 2).min(32) as usize, 3 + rng.below(4) as usize);
    let parts = [Role::Splits, Role::Removes, Role::Reads].map(|role| {
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

/// Runs the plan of a seed.
pub fn play<M: HasFixture + Config>(seed: u64, setting: &Setting) -> Result<Played, Finding> {
    explore::<M, ByLanes>(&plan::<M>(seed), setting)
}

/// Requires that the plans of `count` seeds are sound.
pub fn all_are_sound<M: HasFixture + Config>(name: &str, count: u64) {
    for (seed, setting) in settings::<M>(count) {
        let played = play::<M>(seed, &setting);
        played.unwrap_or_else(|finding| panic!("{}", told(name, seed, &setting, &finding)));
    }
}
