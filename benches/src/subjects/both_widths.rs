//! Common parts of measured maps: keys and values of 32 bits, or both of 64.
use super::ageing::{self, Ageing};
use super::blocking::{self, Blocking, Ranges};
use super::driver::Get;
use super::first_launch::{self, FirstLaunch};
use super::patterns::{self, Patterned};
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail};
use phalanx::Map;
use phalanx::map::Word as MapWord;
use workloads::Key as Word;

/// Name of the default variant of a map.
pub const DEFAULT: &str = "default";

/// Maps on a device, in both widths.
pub trait BothWidths {
    /// Name used in suites and records.
    const NAME: &'static str;
    /// Lists of the operations that can be timed, without those that every map has.
    const OPS: &'static [&'static [&'static str]];

    /// Returns the device.
    fn gpu(&self) -> &Gpu;

    /// Returns the names of the variants for these types.
    fn variants<K: MapWord, V: MapWord>() -> Vec<&'static str>;

    /// Creates the inputs and the map: [`Structure::prepare`]. Calls [`usual`] for the operations that every
    /// map has.
    ///
    /// # Errors
    /// As [`Structure::prepare`].
    fn open<K: MapWord + Word, V: MapWord + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>>;
}

/// Prepares a case whose operation every map has: calls on host slices, a batch of a pattern, or ageing.
/// Returns `None` for other operations. `make` creates an empty map of a capacity, which grows if needed.
/// `get` submits lookups of a pattern, if the map's batches do not. `ranges` are those of an ordered map.
///
/// # Errors
/// As [`Structure::prepare`].
pub fn usual<'a, M>(
    gpu: &'a Gpu,
    case: &Case,
    make: impl Fn(usize) -> phalanx::Result<M> + 'a,
    get: Option<Get<M>>,
    ranges: Option<Ranges<M>>,
) -> Result<Option<Box<dyn Benchmark + 'a>>>
where
    M: Map<Key: MapWord + Word, Value: MapWord + Word> + 'a,
{
    let make = move |capacity| Ok(make(capacity)?);
    Ok(if blocking::OPS.contains(&case.op.as_str()) {
        Some(Box::new(Blocking::new(gpu, case, make)?.with_ranges(ranges)))
    } else if patterns::OPS.contains(&case.op.as_str()) {
        Some(Box::new(Patterned::new(gpu, case, make)?.with_get(get)))
    } else if case.op == ageing::OP {
        Some(Box::new(Ageing::new(gpu, case, make)?))
    } else {
        None
    })
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
        [&M::OPS.concat()[..], blocking::OPS, patterns::OPS, &[ageing::OP, first_launch::OP]].concat()
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
