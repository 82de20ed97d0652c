//! Benchmarks of `phalanx::CacheTable` with keys and scores of 64 bits and rows of `dim` elements `f32`, with
//! batches on device buffers. `n` is the number of elements in a batch, `capacity` that of slots. `buckets`
//! is `single` or `dual`; `rule` names the rule of the scores, `Lru` by default.
//!
//! | op | before | what is timed |
//! |---|---|---|
//! | `get`, `get_ref`, `contains`, `get_and_touch`, `assign`, `remove` | filled to `load` | a batch of present keys |
//! | `insert`, `insert_evict` | filled to `load` | a batch of new keys |
//! | `get_or_insert`, `accumulate` | filled to `load` | a batch, half of whose keys are present |
//! | `hit_rate`, `retention` | `warmup_fills` capacities of the stream | lookups and insertions of a Zipf stream |
//! | `first_eviction` | empty | insertions up to the first batch that evicts a key |
//! | `promotion` | filled to `load` | Zipf lookups while hot rows move to the device |
//! | `round_get`, `round_get_or_insert` | `tables` tables, filled to `load` | a batch for each table |
//! | `call_get`, `call_get_missed`, `call_get_or_insert` | the same | one call for all tables |
//! | `threads` | filled to `load` | batches of several host threads |
//! | `admission` | filled to `load` | a burst of new keys with the score `score` |
//!
//! Streams draw from `universe` keys for each slot, with the exponent `theta`. A burst has `burst` keys for
//! each slot. `hits` replaces the fraction of keys that are present. `keys` is `distinct` (the call promises
//! that they are), `merged` (they are, without the promise), `uniform` or `zipf` (with duplicates, for
//! insertions). `merge_by` is `auto`, `sort` or `hash`.
mod addresses;
mod batch;
mod clicks;
mod evictions;
mod fills;
mod inputs;
mod loaded;
mod promotion;
mod rates;
mod rounds;
mod threads;

use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result};
use clicks::Clicks;
use fills::{Burst, FirstEviction};
use loaded::{DEFAULT, Table};
use promotion::Promotion;
use rates::{Rates, VERBS};
use rounds::{ROUNDS, Rounds};
use threads::Threads;

/// Variants of the cache table.
#[derive(Debug)]
pub struct CacheTables<'a>(pub &'a Gpu);

impl Structure for CacheTables<'_> {
    fn name(&self) -> &'static str {
        "CacheTable"
    }

    fn variants(&self) -> Vec<String> {
        std::iter::once(DEFAULT).chain(Table::variants()).map(str::to_owned).collect()
    }

    fn ops(&self) -> Vec<&'static str> {
        let rates = VERBS.iter().map(|(name, _)| *name);
        let rates = rates.chain(["hit_rate", "retention", "first_eviction", "admission"]);
        rates.chain(["promotion", "threads"]).chain(ROUNDS.iter().map(|(name, _)| *name)).collect()
    }

    fn is_possible(&self, case: &Case) -> bool {
        (case.key_bits, case.value_bits) == (64, 32)
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(match case.op.as_str() {
            "hit_rate" => Box::new(Clicks::new(self.0, case, false)?),
            "retention" => Box::new(Clicks::new(self.0, case, true)?),
            "first_eviction" => Box::new(FirstEviction::new(self.0, case)?),
            "promotion" => Box::new(Promotion::new(self.0, case)?),
            "threads" => Box::new(Threads::new(self.0, case)?),
            "admission" => Box::new(Burst::new(self.0, case)?),
            op => {
                if let Some((_, round)) = ROUNDS.iter().find(|(name, _)| *name == op) {
                    return Ok(Box::new(Rounds::new(self.0, case, *round)?));
                }
                let verb = VERBS.iter().find(|(name, _)| *name == op);
                let (_, verb) = verb.with_context(|| format!("a cache table has no '{op}'"))?;
                Box::new(Rates::new(self.0, case, *verb)?)
            }
        })
    }
}
