//! Common parts of measured maps: keys and values of 32 bits, or both of 64.
use super::first_launch::{self, FirstLaunch};
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail};
use phalanx::map::Word as MapWord;
use workloads::Key as Word;

/// Name of the default variant of a map.
pub const DEFAULT: &str = "default";

/// Maps on a device, in both widths.
pub trait BothWidths {
    /// Name used in suites and records.
    const NAME: &'static str;
    /// Lists of the operations that can be timed, without [`first_launch::OP`], which every map has.
    const OPS: &'static [&'static [&'static str]];

    /// Returns the device.
    fn gpu(&self) -> &Gpu;

    /// Returns the names of the variants for these types.
    fn variants<K: MapWord, V: MapWord>() -> Vec<&'static str>;

    /// Creates the inputs and the map: [`Structure::prepare`].
    ///
    /// # Errors
    /// As [`Structure::prepare`].
    fn open<K: MapWord + Word, V: MapWord + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>>;
}

impl<M: BothWidths> Structure for M {
    fn name(&self) -> &'static str {
        M::NAME
    }

    fn variants(&self) -> Vec<String> {
        let named = M::variants::<u32, u32>().into_iter().chain(M::variants::<u64, u64>());
        std::iter::once(DEFAULT).chain(named).map(str::to_owned).collect()
    }

    fn ops(&self) -> Vec<&'static str> {
        [M::OPS.concat(), vec![first_launch::OP]].concat()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        if case.op == first_launch::OP {
            return Ok(Box::new(FirstLaunch::new(self.gpu(), case)?));
        }
        match (case.key_bits, case.value_bits) {
            (32, 32) => self.open::<u32, u32>(case),
            (64, 64) => self.open::<u64, u64>(case),
            (key, value) => bail!("{} has no pairs of {key}-bit keys and {value}-bit values here", M::NAME),
        }
    }
}
