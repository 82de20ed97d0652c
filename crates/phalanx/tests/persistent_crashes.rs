//! Crashes of persistent maps beyond batches: scripts of all calls, among them growth, compaction, `sync` and
//! recovery, are recorded at their stores and at their calls of the operating system. What a death of the
//! process or a loss of power may leave at each of these is opened again, and must have what was
//! acknowledged. `PHALANX_SEEDS` multiplies the number of scripts.
#![cfg(all(
    feature = "persistent-map",
    target_os = "linux",
    target_env = "gnu",
    target_pointer_width = "64"
))]
mod common;
#[path = "persistent_crashes/faults.rs"]
mod faults;
#[path = "persistent_crashes/script.rs"]
mod script;
#[path = "persistent_crashes/states.rs"]
mod states;
#[path = "persistent_crashes/system.rs"]
mod system;

use phalanx::persistent_map::Durability;
use script::{Recording, Setting, Step, Tagged, execute, record_recovery, steps};
use states::{Checker, State};

/// Number of scripts of each kind.
const SCRIPTS: u64 = 1;

/// One in this many crashes is followed by another one in the recovery.
const AGAIN: usize = 97;

/// Numbers of different states that were opened, and of recoveries in which crashes were tried.
#[derive(Clone, Copy, Debug, Default)]
struct Explored {
    states: usize,
    recoveries: usize,
}

/// Executes a script, and opens what crashes leave. Returns the first wrong state, if there is one.
fn explore<V: Tagged>(setting: &Setting, steps: &[Step]) -> Result<Explored, String> {
    let recording = execute::<V>(setting, steps);
    let deaths = deaths::<V>(setting, &recording, 0)?;
    let losses = losses_of_power::<V>(setting, &recording)?;
    let recoveries = deaths.recoveries + losses.recoveries;
    Ok(Explored { states: deaths.states + losses.states, recoveries })
}

/// Opens what deaths of the process leave, after a number of steps.
fn deaths<V: Tagged>(setting: &Setting, recording: &Recording, first: usize) -> Result<Explored, String> {
    let mut checks = Checks::<V>::new(setting, false);
    recording.deaths(setting.durability, first, &mut |state| checks.check(&state, 2));
    checks.end()
}

/// Opens what losses of power leave.
fn losses_of_power<V: Tagged>(setting: &Setting, recording: &Recording) -> Result<Explored, String> {
    let mut checks = Checks::<V>::new(setting, true);
    recording.losses_of_power(&mut |state| checks.check(&state, 2));
    checks.end()
}

/// Checks of states, up to the first wrong one.
struct Checks<V> {
    setting: Setting,
    checker: Checker<V>,
    recoveries: usize,
    wrong: Option<String>,
}

impl<V: Tagged> Checks<V> {
    fn new(setting: &Setting, is_restarted: bool) -> Self {
        let checker = Checker::new(setting.durability, is_restarted);
        Self { setting: setting.clone(), checker, recoveries: 0, wrong: None }
    }

    /// Checks a state and, of some states, those that crashes in its recovery leave, `depth` times.
    fn check(&mut self, state: &State<'_>, depth: usize) {
        if self.wrong.is_some() {
            return;
        }
        let before = self.checker.opened();
        self.wrong = self.checker.check(state).err();
        let is_new = self.checker.opened() > before;
        if depth == 0 || !is_new || !before.is_multiple_of(AGAIN) || self.wrong.is_some() {
            return;
        }
        let Some(bytes) = state.bytes else { return };
        let setting = Setting { faults: Vec::new(), system: None, ..self.setting.clone() };
        let recovery = record_recovery::<V>(&setting, &self.checker.found(bytes));
        self.recoveries += 1;
        self.check_recovery(&recovery, state, depth - 1);
    }

    fn check_recovery(&mut self, recovery: &Recording, outer: &State<'_>, depth: usize) {
        let durability = self.setting.durability;
        let mut check = |state: State<'_>| {
            let what = format!("{}; then {}", outer.what, state.what);
            self.check(&State { allowed: outer.allowed.clone(), what, ..state }, depth);
        };
        match outer.is_loss {
            true => recovery.losses_of_power(&mut check),
            false => recovery.deaths(durability, 0, &mut check),
        }
    }

    fn end(self) -> Result<Explored, String> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None => Ok(Explored { states: self.checker.opened(), recoveries: self.recoveries }),
        }
    }
}

/// Explores scripts with batches of up to `most` keys.
fn all_are_sound<V: Tagged>(name: &str, durability: Durability, most: u64) {
    let (mut sum, mut scripts) = (Explored::default(), 0);
    for seed in common::seeds(SCRIPTS) {
        let setting = Setting::new(seed, durability);
        let explored = explore::<V>(&setting, &steps(seed, durability, most));
        let explored = explored.unwrap_or_else(|wrong| panic!("{wrong}\n{}", common::replay(seed)));
        sum.states += explored.states;
        sum.recoveries += explored.recoveries;
        scripts += 1;
    }
    let Explored { states, recoveries } = sum;
    println!("persistent_map_{name}: {scripts} scripts, {states} different crashes, {recoveries} recoveries");
    assert!(states > 100 * scripts && recoveries > scripts, "{sum:?}");
}

mod scripts {
    use super::*;

    #[test]
    fn mapped_small_pairs() {
        all_are_sound::<u64>("mapped_small", Durability::Process, 12);
    }

    #[test]
    fn mapped_other_pairs() {
        all_are_sound::<[u64; 3]>("mapped_other", Durability::Process, 4);
    }

    #[test]
    fn synced_small_pairs() {
        all_are_sound::<u64>("synced_small", Durability::Machine, 12);
    }

    #[test]
    fn synced_other_pairs() {
        all_are_sound::<[u64; 3]>("synced_other", Durability::Machine, 4);
    }
}
