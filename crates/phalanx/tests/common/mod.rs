//! Common parts of the tests: devices, and replayable seeds.
#![allow(dead_code, unused_macros)] // each test uses some of these
use gpu::Device;
use phalanx::{Error, Outcome, Result};
use ptx_builder::{Arch, Ptx, PtxBuilder};
use simt::emulator::Options;

/// Returns the emulator on all cores.
pub fn emulator() -> Option<Device> {
    Some(Device::emulator(Options::default()))
}

/// Returns the first CUDA device. Without one the test is skipped, or fails if `PHALANX_REQUIRE_CUDA` is set.
#[cfg(feature = "cuda")]
pub fn cuda() -> Option<Device> {
    match Device::cuda(0) {
        Ok(device) => Some(device),
        Err(error) => {
            assert!(std::env::var_os("PHALANX_REQUIRE_CUDA").is_none(), "a CUDA device is required: {error}");
            println!("skipped: no CUDA device ({error})");
            None
        }
    }
}

/// Returns the PTX of the test kernels (`device-crate`): built here, or taken from a bundle on machines
/// without sources or compiler.
pub fn test_kernels(arch: Arch) -> Ptx {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/device-crate");
    let builder = PtxBuilder::new(folder).arch(arch);
    let builder = match std::env::var_os("PHALANX_BUNDLE") {
        Some(bundle) => builder.shipped(std::path::Path::new(&bundle).join("test-ptx")),
        None => builder,
    };
    builder.build().unwrap_or_else(|error| panic!("{error}"))
}

/// Returns the CUDA device with the test kernels added.
#[cfg(feature = "cuda")]
pub fn cuda_with_test_kernels() -> Option<Device> {
    static PROGRAM: std::sync::OnceLock<gpu::Program> = std::sync::OnceLock::new();
    let device = cuda()?;
    let program = PROGRAM.get_or_init(|| {
        let text = test_kernels(Arch::Sm80).text().to_owned().leak();
        gpu::Program { name: "phalanx-test-kernels", ptx: vec![(80, &*text)].leak() }
    });
    device.add_program(program);
    Some(device)
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

/// Returns the command that replays a failure.
pub fn replay(test: &str, seed: u64) -> String {
    format!("replay: PHALANX_SEED={seed} cargo test -p phalanx --test {test}")
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
pub fn outcomes(said: Result<Vec<Outcome>>) -> Vec<Outcome> {
    match said {
        Err(Error::NoRoom { outcomes }) => outcomes.into(),
        said => said.unwrap(),
    }
}

/// Returns the outcomes of a call on a structure that could not grow; some of them must be refusals.
#[track_caller]
pub fn no_room(said: Result<Vec<Outcome>>) -> Vec<Outcome> {
    assert!(matches!(said, Err(Error::NoRoom { .. })), "{said:?}");
    let outcomes = outcomes(said);
    assert!(outcomes.contains(&Outcome::Refused), "{outcomes:?}");
    outcomes
}

/// Declares a test for each case of each module, on the named device.
macro_rules! cases_on {
    ($device:ident: $($module:ident { $($case:ident)* })*) => {
        mod $device {
            $($(
                #[test]
                fn $case() {
                    if let Some(device) = crate::common::$device() {
                        crate::$module::$case(&device);
                    }
                }
            )*)*
        }
    };
}
#[allow(unused_imports)] // as above
pub(crate) use cases_on;
