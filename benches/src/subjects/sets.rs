//! Sets of 32-bit keys: `phalanx::SlabSet`, and the lock-free chains that the slab-hash paper compares with
//! (section VI-C, figure 7b).
//!
//! The parameter `buckets` is the number of lists in both.
use super::both_widths::DEFAULT;
use super::driver::{Batch, Prepared, Subject};
use super::map_plan::{Call, Plan, SET_OPS};
use crate::engine::benchmark::{Benchmark, Structure};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::{Buffer, Device, Grid, Stream};
use phalanx::SlabSet;
use phalanx::slab_hash::{Growth, set_variants};
use phalanx_kernels::baseline::chains::{self, ChainsExecute, MOST_NODES};
use phalanx_kernels::keyed::OpCode;

/// Threads per block of the baseline, the same as in the structures.
const THREADS: u32 = 128;

/// Returns the number of lists of the case.
fn buckets(case: &Case) -> Result<u32> {
    let buckets = case.number("buckets")?;
    ensure!((1.0..f64::from(u32::MAX - 2)).contains(&buckets), "a set cannot have {buckets} buckets");
    Ok(buckets as u32)
}

fn check_widths(case: &Case) -> Result<()> {
    let (key, value) = (case.key_bits, case.value_bits);
    ensure!((key, value) == (32, 0), "sets have 32-bit keys and 0-bit values here, not {key} and {value}");
    Ok(())
}

/// Variants of slab sets.
#[derive(Debug)]
pub struct SlabSets<'a>(pub &'a Gpu);

impl Structure for SlabSets<'_> {
    fn name(&self) -> &'static str {
        "SlabSet"
    }

    fn variants(&self) -> Vec<String> {
        std::iter::once(DEFAULT).chain(set_variants::<u32>()).map(str::to_owned).collect()
    }

    fn ops(&self) -> Vec<&'static str> {
        SET_OPS.to_vec()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        check_widths(case)?;
        let plan = Plan::<u32, u32>::new(case)?;
        let builder = SlabSet::builder().device(&self.0.device).growth(Growth::Fixed);
        let builder = builder.capacity(plan.keys as usize).buckets(buckets(case)?);
        let set = if case.variant == DEFAULT { builder } else { builder.variant(&case.variant) }.build()?;
        Ok(Box::new(Prepared::new(self.0, plan, set)?))
    }
}

impl Subject<u32, u32> for SlabSet<u32> {
    const TELLS: bool = false;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<u32, u32>) -> Result<()> {
        let Batch { codes, keys, outcomes, .. } = batch;
        let batches = self.on(stream);
        match call {
            Call::Insert => batches.insert(keys, outcomes)?,
            Call::Get => batches.contains_key(keys, outcomes)?,
            Call::Remove => batches.remove(keys, outcomes)?,
            Call::Mixed => batches.execute(codes, keys, outcomes)?,
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        Ok(SlabSet::clear(self)?)
    }

    fn memory_usage(&self) -> usize {
        self.memory_usage()
    }
}

/// Baseline with lock-free chains.
#[derive(Debug)]
pub struct ChainSets<'a>(pub &'a Gpu);

impl Structure for ChainSets<'_> {
    fn name(&self) -> &'static str {
        "ChainSet"
    }

    fn variants(&self) -> Vec<String> {
        vec!["harris_michael".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        SET_OPS.to_vec()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        check_widths(case)?;
        let plan = Plan::<u32, u32>::new(case)?;
        let set = ChainSet::new(&self.0.device, buckets(case)?, plan.preload.len() + plan.stream.len())?;
        Ok(Box::new(Prepared::new(self.0, plan, set)?))
    }
}

/// Set of lock-free chains with an array of nodes.
pub struct ChainSet {
    heads: Buffer<u32>,
    nodes: Buffer<u64>,
    /// Empty buffer of codes, for batches with one operation.
    no_codes: Buffer<u8>,
    /// Index of the first node not yet assigned to a launch.
    next: usize,
}

impl ChainSet {
    /// Creates an empty set with one node per element of inserting batches, `elements` in total.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when links cannot address that many nodes, and [`gpu::Error`] when the
    /// device runs out of memory.
    pub fn new(device: &Device, buckets: u32, elements: usize) -> Result<Self> {
        ensure!(elements < MOST_NODES, "{elements} elements need more nodes than links of 31 bits can name");
        let (heads, nodes) = (device.zeroed(buckets as usize)?, device.zeroed(elements + 1)?);
        Ok(Self { heads, nodes, no_codes: device.buffer(0)?, next: 1 })
    }

    /// Reserves the nodes of a batch: one per element if the batch inserts.
    fn take(&mut self, call: Call, elements: usize) -> Result<u32> {
        if matches!(call, Call::Get | Call::Remove) {
            return Ok(0);
        }
        let (first, nodes) = (self.next, self.nodes.len());
        ensure!(
            elements <= nodes - first,
            "{elements} elements need as many nodes; {} are left",
            nodes - first
        );
        self.next += elements;
        Ok(first as u32)
    }
}

impl Subject<u32, u32> for ChainSet {
    const TELLS: bool = false;

    fn ask(&mut self, stream: &Stream, call: Call, batch: &mut Batch<u32, u32>) -> Result<()> {
        let all = match call {
            Call::Insert => OpCode::INSERT_NEW,
            Call::Get | Call::Mixed => OpCode::GET,
            Call::Remove => OpCode::REMOVE,
        };
        let codes = if call == Call::Mixed { &batch.codes } else { &self.no_codes }.global();
        let (keys, outcomes) = (batch.keys.global(), batch.outcomes.global());
        let first = self.take(call, keys.len())?;
        let chains = chains::Chains { heads: self.heads.global(), nodes: self.nodes.global() };
        let launch = ChainsExecute { chains, first, all: all.code(), codes, keys, outcomes };
        // SAFETY: dropping a buffer waits for the launch. Meanwhile only launches of this kernel access heads
        // and nodes, and they do so atomically. In the other buffers each thread accesses its own element.
        unsafe { stream.launch(Grid::for_items(keys.len(), THREADS), launch)? };
        Ok(())
    }

    fn clear(&mut self) -> Result<()> {
        self.next = 1;
        self.heads.fill_bytes(0)?;
        Ok(self.nodes.fill_bytes(0)?)
    }

    fn memory_usage(&self) -> usize {
        self.heads.byte_len() + self.nodes.byte_len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::engine::record::Param;
    use crate::machine::DeviceChoice;

    #[test]
    fn nodes_are_used_once_and_run_out() {
        let device = Device::emulator(Default::default());
        let mut set = ChainSet::new(&device, 4, 10).unwrap();
        assert_eq!(set.take(Call::Insert, 6).unwrap(), 1);
        assert_eq!(set.take(Call::Get, 100).unwrap(), 0);
        assert_eq!(set.take(Call::Mixed, 4).unwrap(), 7);
        assert!(set.take(Call::Insert, 1).unwrap_err().to_string().contains("0 are left"));
        set.clear().unwrap();
        assert_eq!(set.take(Call::Insert, 10).unwrap(), 1);
        assert!(ChainSet::new(&device, 4, MOST_NODES).is_err());
    }

    #[test]
    fn cases_that_no_set_can_have_are_refused() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let (slabs, chains) = (SlabSets(&gpu), ChainSets(&gpu));
        let refused = |part: usize, change: fn(&mut Case)| {
            let mut case = first_case("slabhash/fig7b", part);
            let of: [&dyn Structure; 2] = [&slabs, &chains];
            assert!(of[part].prepare(&case).is_ok());
            change(&mut case);
            of[part].prepare(&case).err().expect("it is refused").to_string()
        };
        for part in 0..2 {
            assert!(refused(part, |case| case.key_bits = 64).contains("not 64 and 0"));
            let none = |case: &mut Case| drop(case.params.insert("buckets".to_owned(), Param::Integer(0)));
            assert!(refused(part, none).contains("0 buckets"));
        }
    }
}
