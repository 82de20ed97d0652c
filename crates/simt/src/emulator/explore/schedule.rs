//! Schedules: an enum that names each policy.
use super::pct::Pct;
use super::random::Random;
use super::replay::Replay;
use super::scheduler::Scheduler;
use super::trace::{Trace, TraceError};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::fmt;
use std::str::FromStr;

/// Scheduling policy of an exploration. Each has a text form, which parses back: `random:7`, `pct:7:3`,
/// `replay:0x3,1,0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Schedule {
    /// Picks any runnable lane next, with equal probability.
    Random {
        /// Seed; equal seeds produce equal runs.
        seed: u64,
    },
    /// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): the lane of the highest priority
    /// runs until, at a few random steps, it drops to the lowest. Effective for bugs in which many lanes
    /// overtake one.
    Pct {
        /// Seed; equal seeds produce equal runs.
        seed: u64,
        /// Number of ordered events that trigger the bug: one more than the number of priority changes.
        depth: u32,
    },
    /// Replays the choices of an earlier run, then runs lanes round-robin.
    Replay(Trace),
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Random { seed } => write!(f, "random:{seed}"),
            Self::Pct { seed, depth } => write!(f, "pct:{seed}:{depth}"),
            Self::Replay(trace) => write!(f, "replay:{trace}"),
        }
    }
}

impl FromStr for Schedule {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<Self, TraceError> {
        let no_schedule = || TraceError::Schedule { text: text.to_owned() };
        match text.split_once(':').ok_or_else(no_schedule)? {
            ("random", seed) => Ok(Self::Random { seed: seed.parse().map_err(|_| no_schedule())? }),
            ("pct", rest) => {
                let (seed, depth) = rest.split_once(':').ok_or_else(no_schedule)?;
                let (seed, depth) =
                    (seed.parse().map_err(|_| no_schedule())?, depth.parse().map_err(|_| no_schedule())?);
                Ok(Self::Pct { seed, depth })
            }
            ("replay", trace) => Ok(Self::Replay(trace.parse()?)),
            _ => Err(no_schedule()),
        }
    }
}

impl Schedule {
    /// Creates the scheduler for the `index`-th launch of its device.
    pub(super) fn start(&self, index: usize) -> Box<dyn Scheduler> {
        match self {
            Self::Random { seed } => Box::new(Random(generator(*seed, index))),
            Self::Pct { seed, depth } => Box::new(Pct::new(generator(*seed, index), *depth)),
            Self::Replay(trace) => Box::new(Replay::new(trace.launch(index))),
        }
    }
}

/// Creates the random number generator of a launch: a separate stream per launch under the same seed.
fn generator(seed: u64, index: usize) -> ChaCha8Rng {
    let mut generator = ChaCha8Rng::seed_from_u64(seed);
    generator.set_stream(index as u64);
    generator
}
