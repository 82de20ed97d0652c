//! Common parts of tests: the emulator, and replayable seeds.
use gpu::Device;
use phalanx::{Error, Outcomes, Result};
use simt::emulator::{Failure, Options};
use std::env;
use std::ops::Range;

/// Returns the emulator on all cores.
pub fn emulator() -> Option<Device> {
    Some(Device::emulator(Options::default()))
}

/// Returns the seed of a test's random choices: `PHALANX_SEED`, or a constant.
pub fn seed() -> u64 {
    env::var("PHALANX_SEED").map_or(1, |text| text.parse().expect("PHALANX_SEED is a number"))
}

/// One in this many seeds is explored unless `PHALANX_SEEDS` asks for all.
const PART: u64 = 4;

/// Number of seeds that are explored of any number. They have every schedule that the explorers use.
const LEAST: u64 = 4;

/// Returns the seeds to explore: `PHALANX_SEED` alone, or as [`all_seeds`] if another variable is set, or a
/// part of the first `count`.
pub fn seeds(count: u64) -> Range<u64> {
    let variables = ["PHALANX_SEED", "PHALANX_SEEDS", "PHALANX_LEAST_SEEDS"];
    match variables.into_iter().find_map(env::var_os) {
        None => 0..(count / PART).max(LEAST).min(count),
        Some(_) => all_seeds(count),
    }
}

/// Returns the seeds to search for a planted fault, or to explore without an exception: `PHALANX_SEED` alone,
/// or the first `count` times `PHALANX_SEEDS`, which is one by default, but at least `PHALANX_LEAST_SEEDS`.
pub fn all_seeds(count: u64) -> Range<u64> {
    match env::var_os("PHALANX_SEED") {
        Some(_) => seed()..seed() + 1,
        None => 0..(count * number("PHALANX_SEEDS", 1)).max(number("PHALANX_LEAST_SEEDS", 0)),
    }
}

/// Returns the number in a variable, which is `other` if it is not set.
fn number(variable: &str, other: u64) -> u64 {
    let parsed = |text: String| text.parse().unwrap_or_else(|_| panic!("{variable} is a number: {text}"));
    env::var(variable).map_or(other, parsed)
}

/// Returns whether tests on the device run on everything: on a GPU, or with `PHALANX_VARIANTS=all`. Otherwise
/// they run on samples.
pub fn runs_all(device: &Device) -> bool {
    !device.is_emulator() || wants_all()
}

fn wants_all() -> bool {
    env::var_os("PHALANX_VARIANTS").is_some_and(|which| which == "all")
}

/// Returns how many allocations or copies of the emulator succeed before one that fails, in one run of a test
/// after the other: each number with `PHALANX_VARIANTS=all`, otherwise the first `SURE` and a third of the
/// others, which `case` selects.
pub fn attempts(case: usize) -> impl Iterator<Item = u64> {
    let all = wants_all();
    (0..).filter(move |number| all || *number < SURE || (number + case as u64).is_multiple_of(3))
}

/// Number of first attempts that are always made.
const SURE: u64 = 4;

/// Returns whether a test runs a combination of elements of several lists, given the place of each in its
/// list: any if tests run on everything, otherwise a third. Every element is in one of them if a list has
/// three or more. With three such lists, every two elements of two lists are in one.
pub fn is_sampled(device: &Device, places: &[usize]) -> bool {
    runs_all(device) || places.iter().sum::<usize>().is_multiple_of(3)
}

/// Returns the command that replays a failure of the calling test program.
pub fn replay(seed: u64) -> String {
    let package = env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "phalanx".to_owned());
    format!("replay: PHALANX_SEED={seed} cargo test -p {package} --test {}", program())
}

/// Returns the name of the calling program, without the hash that cargo appends.
fn program() -> String {
    let path = env::current_exe().unwrap_or_default();
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    name.rsplit_once('-').map_or(&*name, |(program, _)| program).to_owned()
}

/// Returns whether two failures are equal, apart from addresses.
pub fn is_same_failure(a: &Failure, b: &Failure) -> bool {
    (&a.location, a.block, a.thread, &a.other, &a.trace)
        == (&b.location, b.block, b.thread, &b.other, &b.trace)
}

/// Random number generator: a 64-bit linear congruential generator with a mixing function.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Creates a generator with a distinct sequence for each seed.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }

    /// Returns the next number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        simt::hash::mix64(self.0) % end
    }

    /// Returns a random element.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Returns the outcomes of a call, including refused elements.
#[track_caller]
pub fn outcomes(said: Result<Outcomes>) -> Outcomes {
    match said {
        Err(Error::NoRoom { outcomes, .. }) => outcomes,
        said => said.unwrap(),
    }
}

/// Returns the outcomes of a call on a structure that could not grow; some of them must be refusals.
#[track_caller]
pub fn no_room(said: Result<Outcomes>) -> Outcomes {
    assert!(matches!(said, Err(Error::NoRoom { .. })), "{said:?}");
    let outcomes = outcomes(said);
    assert!(!outcomes.all_placed(), "{outcomes:?}");
    outcomes
}

/// Asserts that `$result` is an error of the kind `$kind`, whose message explains itself: it is longer than a
/// few words and contains all of `$words`.
#[macro_export]
macro_rules! refuses {
    ($result:expr, $kind:pat $(, $words:expr)* $(,)?) => {{
        let error = $result.map(drop).unwrap_err();
        assert!(matches!(error, $kind), "{error:?}");
        let said = error.to_string();
        assert!(said.len() > 20, "`{said}` says little");
        $(assert!(said.contains($words), "`{said}` does not say `{}`", $words);)*
    }};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_attempts_make_all_of_them() {
        let made: std::collections::BTreeSet<u64> =
            (0..3).flat_map(|case| attempts(case).take_while(|&number| number < 50)).collect();
        assert!(made.into_iter().eq(0..50));
        assert!((0..SURE).all(|number| attempts(2).any(|attempt| attempt == number)));
    }

    #[test]
    fn samples_have_every_two_elements_of_two_lists() {
        let device = Device::emulator(Options::default());
        type Order = fn(usize, usize, usize) -> [usize; 3];
        let orders: [Order; 3] = [|a, b, c| [a, b, c], |a, b, c| [c, a, b], |a, b, c| [a, c, b]];
        for (a, b) in (0..3).flat_map(|a| (0..5).map(move |b| (a, b))) {
            for places in orders {
                assert!((0..3).any(|c| is_sampled(&device, &places(a, b, c))));
            }
        }
    }
}
