//! Benchmarks of `phalanx::SlabAlloc`, with batches on device buffers.
//!
//! The pool has `n` slabs. A fraction `fill` of them is allocated beforehand, at random positions. A launch
//! operates on half of the remaining slabs.
//!
//! | op | what is timed |
//! |---|---|
//! | `alloc` | a slab for each element |
//! | `free` | the slabs are freed in the order of allocation |
//! | `free_random` | the slabs are freed in random order |
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::Buffer;
use phalanx::slab_alloc::{Handle, SlabAlloc};
use rayon::prelude::*;
use workloads::Permutation;
use workloads::random::Source;

/// Bytes per slab.
const BYTES: usize = 128;

/// Maximum number of slabs per super block.
const SUPER_BLOCK: usize = 1 << 22;

/// Variants of the pool: the layout of slabs, and `_lone` when each thread allocates and frees on its own.
#[derive(Debug)]
pub struct Pools<'a>(pub &'a Gpu);

impl Structure for Pools<'_> {
    fn name(&self) -> &'static str {
        "SlabAlloc"
    }

    fn variants(&self) -> Vec<String> {
        ["spread", "light", "spread_lone", "light_lone"].map(str::to_owned).to_vec()
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["alloc", "free", "free_random"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        Ok(Box::new(Prepared::new(self.0, case)?))
    }
}

/// Timed operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timed {
    Alloc,
    Free,
    FreeRandom,
}

/// Prepared case: a partly filled pool.
struct Prepared<'a> {
    gpu: &'a Gpu,
    pool: SlabAlloc,
    lone: bool,
    timed: Timed,
    seed: u64,
    /// Bitmap without the slabs of the batch.
    before: Vec<u32>,
    handles: Buffer<u32>,
    /// Whether the slabs of the batch are allocated.
    holds: bool,
}

impl<'a> Prepared<'a> {
    fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (n, fill) = (case.n as usize, case.number("fill")?);
        ensure!((0.0..1.0).contains(&fill), "a pool is filled to 0 up to 1, not {fill}");
        ensure!(n.is_power_of_two() && n >= 1024, "a pool of {n} slabs: give a power of two from 1024 on");
        let timed = match case.op.as_str() {
            "alloc" => Timed::Alloc,
            "free" => Timed::Free,
            "free_random" => Timed::FreeRandom,
            other => bail!("no operation of a pool is called '{other}'"),
        };
        let (light, lone) = (case.variant.starts_with("light"), case.variant.ends_with("_lone"));
        let builder = SlabAlloc::builder().device(&gpu.device).capacity(n).slab_bytes(BYTES).light(light);
        let pool = builder.super_block_slabs(n.min(SUPER_BLOCK)).build()?;
        let taken = (n as f64 * fill) as usize;
        let mut fillers = gpu.device.zeroed(taken)?;
        pool.on(&gpu.stream).allocate_lone(&mut fillers)?;
        let found = pool.stats()?.live;
        ensure!(found == taken, "{found} of {taken} slabs could be taken beforehand");
        let before = pool.bitmap()?;
        let handles = gpu.device.zeroed(((n - taken) / 2).max(1))?;
        Ok(Self { gpu, pool, lone, timed, seed: case.seed, before, handles, holds: false })
    }

    fn allocate(&mut self) -> Result<()> {
        let batches = self.pool.on(&self.gpu.stream);
        match self.lone {
            true => batches.allocate_lone(&mut self.handles)?,
            false => batches.allocate(&mut self.handles)?,
        }
        self.holds = true;
        Ok(())
    }

    fn free(&mut self) -> Result<()> {
        let batches = self.pool.on(&self.gpu.stream);
        match self.lone {
            true => batches.free_lone(&self.handles)?,
            false => batches.free(&self.handles)?,
        }
        self.holds = false;
        Ok(())
    }

    /// Shuffles the handles.
    fn shuffle(&mut self) -> Result<()> {
        let handles = self.handles.read()?;
        let order = Permutation::new(handles.len() as u64, &Source::new(self.seed, "slabs freed at random"));
        let shuffled: Vec<u32> = (0..handles.len())
            .into_par_iter()
            .map(|index| handles[order.at(index as u64) as usize])
            .collect();
        Ok(self.handles.write(&shuffled)?)
    }

    /// Returns the index of a slab. The handle of a light pool is the index; other handles consist of a super
    /// block, all of which are full, and a slab.
    fn number(&self, word: u32) -> usize {
        let handle = Handle::from_word(word);
        let supers = self.pool.capacity().min(SUPER_BLOCK);
        if self.pool.kind().starts_with("light") {
            return word as usize;
        }
        handle.super_block() as usize * supers + handle.slab() as usize
    }

    /// Checks that each slab was free before, is live now and was allocated once, and that nothing else has
    /// changed.
    fn verify_given(&self) -> Result<Verified> {
        let (words, mut expected) = (self.handles.read()?, self.before.clone());
        let mut given = 0;
        for (index, &word) in
            words.iter().enumerate().filter(|(_, word)| !Handle::from_word(**word).is_none())
        {
            let number = self.number(word);
            ensure!(number < self.pool.capacity(), "element {index}: {word:#x} is no slab");
            let bit = 1 << (number % 32);
            ensure!(
                expected[number / 32] & bit == 0,
                "element {index}: slab {number} was given to another too"
            );
            expected[number / 32] |= bit;
            given += 1;
        }
        ensure!(self.pool.bitmap()? == expected, "the bitmap does not say what was given");
        Ok(Verified { compared: words.len() as u64, succeeded: given })
    }

    /// Checks that the pool is in its previous state and has detected no fault.
    fn verify_freed(&self) -> Result<Verified> {
        ensure!(
            self.pool.bitmap()? == self.before,
            "the bitmap is not what it was before the slabs were given"
        );
        let faults = self.pool.stats()?.faults;
        ensure!(faults == 0, "{faults} slabs were not live when they were freed");
        Ok(Verified::all(self.handles.len()))
    }
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        if self.timed == Timed::Alloc {
            if self.holds {
                self.free()?;
            }
            self.gpu.stream.synchronize()?;
            return Ok(self.handles.fill_bytes(0xff)?);
        }
        if !self.holds {
            self.allocate()?;
            self.gpu.stream.synchronize()?;
            self.verify_given()?;
        }
        if self.timed == Timed::FreeRandom {
            self.shuffle()?;
        }
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        if self.timed == Timed::Alloc { self.allocate() } else { self.free() }
    }

    fn verify(&mut self) -> Result<Verified> {
        self.gpu.stream.synchronize()?;
        if self.timed == Timed::Alloc { self.verify_given() } else { self.verify_freed() }
    }

    fn operations(&self) -> u64 {
        self.handles.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.pool.memory_usage() as u64)]
    }
}
