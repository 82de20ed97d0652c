//! `phalanx::HashMap`, by the batches on device buffers.
use super::map_plan::{Call, OPS, Plan};
use crate::benchmark::{Benchmark, Structure, Verified};
use crate::structures::Gpu;
use crate::structures::first_launch::{self, FirstLaunch};
use crate::suite::Case;
use anyhow::{Result, bail, ensure};
use gpu::Buffer;
use phalanx::HashMap;
use phalanx::Map;
use phalanx::hash_map::{Growth, Key, Value, variants};
use phalanx_kernels::probing::{Coded, Outcome};
use rayon::prelude::*;
use workloads::{Key as Word, Op, value_of};

/// The name of the variant that the map takes when none is asked for.
const DEFAULT: &str = "default";

/// The operations of plans, and their first launch.
const ALL_OPS: [&str; OPS.len() + 1] = first_launch::and(OPS);

/// What outcomes are before a launch: no outcome, so that one that is never written is seen.
const UNWRITTEN: u8 = 0xff;

/// The hash map's variants.
#[derive(Debug)]
pub struct Maps<'a> {
    gpu: &'a Gpu,
}

impl<'a> Maps<'a> {
    /// The maps of a device.
    pub fn new(gpu: &'a Gpu) -> Self {
        Self { gpu }
    }

    fn open<K: Key + Word, V: Value + Word>(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(Box::new(Prepared::<K, V>::new(self.gpu, case)?))
    }
}

impl Structure for Maps<'_> {
    fn name(&self) -> &'static str {
        "HashMap"
    }

    fn variants(&self) -> Vec<String> {
        let named = variants::<u32, u32>().into_iter().chain(variants::<u64, u64>());
        std::iter::once(DEFAULT).chain(named).map(str::to_owned).collect()
    }

    fn ops(&self) -> &'static [&'static str] {
        &ALL_OPS
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        if case.op == first_launch::OP {
            return Ok(Box::new(FirstLaunch::new(self.gpu, case)?));
        }
        match (case.key_bits, case.value_bits) {
            (32, 32) => self.open::<u32, u32>(case),
            (64, 64) => self.open::<u64, u64>(case),
            (key, value) => bail!("the map has no instance for {key}-bit keys and {value}-bit values"),
        }
    }
}

/// A case on the device.
struct Prepared<'a, K, V> {
    gpu: &'a Gpu,
    plan: Plan<K, V>,
    map: HashMap<K, V>,
    preload: Option<(Buffer<K>, Buffer<V>)>,
    codes: Option<Buffer<u8>>,
    keys: Buffer<K>,
    arguments: Buffer<V>,
    results: Buffer<V>,
    outcomes: Buffer<u8>,
    is_loaded: bool,
}

impl<'a, K: Key + Word, V: Value + Word> Prepared<'a, K, V> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let plan = Plan::<K, V>::new(case)?;
        let device = &gpu.device;
        let builder = HashMap::builder().device(device).growth(Growth::Fixed);
        let builder = builder.capacity(plan.keys as usize).load_factor(case.number("load_factor")?);
        let map = if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) }.build()?;
        let (stream, asked) = (&plan.stream, plan.stream.len());
        let preload = if plan.preload.is_empty() {
            None
        } else {
            let values: Vec<V> = plan.preload.par_iter().map(|key| value_of(*key)).collect();
            Some((device.from_slice(&plan.preload)?, device.from_slice(&values)?))
        };
        let codes = match plan.call {
            Call::Mixed => {
                Some(device.from_slice(&stream.ops.iter().map(|op| code(*op)).collect::<Vec<_>>())?)
            }
            _ => None,
        };
        let (keys, arguments) = (device.from_slice(&stream.keys)?, device.from_slice(&stream.values)?);
        let (results, outcomes) = (device.zeroed(asked)?, device.zeroed(asked)?);
        Ok(Self { gpu, plan, map, preload, codes, keys, arguments, results, outcomes, is_loaded: false })
    }

    /// Fills the map with what is to be there before, and checks that all of it found room.
    fn load(&mut self) -> Result<()> {
        self.map.clear()?;
        self.is_loaded = true;
        let Some((keys, values)) = &self.preload else { return Ok(()) };
        let mut outcomes = self.gpu.device.filled(keys.len(), UNWRITTEN)?;
        self.map.on(&self.gpu.stream).insert(keys, values, Some(&mut outcomes))?;
        self.gpu.stream.synchronize()?;
        let inserted = outcomes.read()?.par_iter().filter(|code| **code == Outcome::Inserted as u8).count();
        ensure!(inserted == keys.len(), "only {inserted} of {} keys could be loaded beforehand", keys.len());
        Ok(())
    }

    /// What is there once the operation is done.
    fn verify_after(&mut self) -> Result<()> {
        self.outcomes.fill_bytes(UNWRITTEN)?;
        self.map.on(&self.gpu.stream).get(&self.keys, &mut self.results, &mut self.outcomes)?;
        self.gpu.stream.synchronize()?;
        self.plan.judge_after(&self.outcomes.read()?, &self.results.read()?)
    }
}

/// The code that a mixed batch has for an operation.
fn code(op: Op) -> u8 {
    let coded = match op {
        Op::Insert | Op::Update => Coded::INSERT,
        Op::ReadModifyWrite => Coded::ADD,
        Op::Remove => Coded::REMOVE,
        Op::Read | Op::FindHit | Op::FindMiss | Op::Scan => Coded::GET,
    };
    coded.code() as u8
}

impl<K: Key + Word, V: Value + Word> Benchmark for Prepared<'_, K, V> {
    fn restore(&mut self) -> Result<()> {
        if self.plan.writes() || !self.is_loaded {
            self.load()?;
        }
        self.results.fill_bytes(0)?;
        self.outcomes.fill_bytes(UNWRITTEN)?;
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let batches = self.map.on(&self.gpu.stream);
        match (self.plan.call, &self.codes) {
            (Call::Insert, _) => batches.insert(&self.keys, &self.arguments, Some(&mut self.outcomes))?,
            (Call::Get, _) => batches.get(&self.keys, &mut self.results, &mut self.outcomes)?,
            (Call::Remove, _) => batches.remove(&self.keys, &mut self.outcomes)?,
            (Call::Mixed, Some(codes)) => {
                batches.execute(codes, &self.keys, &self.arguments, &mut self.results, &mut self.outcomes)?;
            }
            (Call::Mixed, None) => bail!("a mixed batch was prepared without codes"),
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let verified = self.plan.judge(&self.outcomes.read()?, &self.results.read()?)?;
        if self.plan.writes() {
            self.verify_after()?;
        }
        Ok(verified)
    }

    fn operations(&self) -> u64 {
        self.keys.len() as u64
    }

    fn table_bytes(&self) -> Option<u64> {
        Some(self.map.memory_usage() as u64)
    }
}
