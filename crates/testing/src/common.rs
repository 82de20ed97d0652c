//! Common parts of tests: the emulator, and replayable seeds.
use gpu::Device;
use phalanx::{Error, Outcomes, Result};
use simt::emulator::{Failure, Options};

/// Returns the emulator on all cores.
pub fn emulator() -> Option<Device> {
    Some(Device::emulator(Options::default()))
}

/// Returns the seed of a test's random choices: `PHALANX_SEED`, or a constant.
pub fn seed() -> u64 {
    std::env::var("PHALANX_SEED").map_or(1, |text| text.parse().expect("PHALANX_SEED is a number"))
}

/// Returns the seeds to explore: `PHALANX_SEED` alone, or the first `count` times `PHALANX_SEEDS`.
pub fn seeds(count: u64) -> std::ops::Range<u64> {
    let times =
        std::env::var("PHALANX_SEEDS").map_or(1, |text| text.parse().expect("PHALANX_SEEDS is a number"));
    match std::env::var_os("PHALANX_SEED") {
        Some(_) => seed()..seed() + 1,
        None => 0..count * times,
    }
}

/// Returns the command that replays a failure of the calling test program.
pub fn replay(seed: u64) -> String {
    let package = std::env::var("CARGO_PKG_NAME").unwrap_or_else(|_| "phalanx".to_owned());
    format!("replay: PHALANX_SEED={seed} cargo test -p {package} --test {}", program())
}

/// Returns the name of the calling program, without the hash that cargo appends.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
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
        Err(Error::NoRoom { outcomes }) => outcomes,
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
