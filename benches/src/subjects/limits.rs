//! Limits of the machine: see `phalanx_kernels::roofline`.
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::{Buffer, Device, Grid, Stream, Tier};
use phalanx_kernels::roofline::{
    BATCH, COPIES, HALF, LANE, LINE, LimitCas, LimitCasWide, LimitCopy, LimitExchange, LimitFill,
    LimitHalves, LimitLines, LimitRows, LimitSectors, ROW, SECTOR, content, mark, place,
};
use rayon::prelude::*;
use simt::GlobalSlice;
use std::time::Instant;

/// Threads per block.
const THREADS: u32 = 256;

/// Accesses per thread.
const PER_THREAD: u32 = 4 * BATCH;

/// Limits as a structure with one variant.
#[derive(Debug)]
pub struct Limits<'a>(pub &'a Gpu);

impl Limits<'_> {
    /// Returns another device, whose memory kernels of this one can access.
    fn remote(&self) -> Result<Device> {
        let (device, other) = (&self.0.device, Device::cuda(1)?);
        let (from, to) = (device.name(), other.name());
        ensure!(device.enable_peer(&other)?, "{from} cannot access the memory of {to}");
        Ok(other)
    }
}

impl Structure for Limits<'_> {
    fn name(&self) -> &'static str {
        "Limits"
    }

    fn variants(&self) -> Vec<String> {
        vec!["raw".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        vec![
            "sector32", "half64", "line128", "line128_l2", "cas8", "cas16", "exchange8", "copy16",
            "pinned_row256", "pinned_sector32", "pinned_bucket64", "pinned_line128", "pinned_cas8",
            "copy_duplex", "remote_sector32", "remote_bucket64",
        ]
    }

    fn is_possible(&self, case: &Case) -> bool {
        match case.op.as_str() {
            "cas16" => self.0.device.supports_cas128(),
            op if op.starts_with("remote") => !self.0.device.is_emulator() && self.remote().is_ok(),
            _ => true,
        }
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let Gpu { device, stream, .. } = self.0;
        let access = match case.op.as_str() {
            "sector32" | "pinned_sector32" | "remote_sector32" => Access::Sectors,
            "half64" | "pinned_bucket64" | "remote_bucket64" => Access::HalfLines,
            "line128" | "line128_l2" | "pinned_line128" => Access::Lines,
            "pinned_row256" => Access::Rows,
            "cas8" | "pinned_cas8" => Access::Cas,
            "copy_duplex" => return Ok(Box::new(Duplex::new(device, case.n as usize)?)),
            "cas16" => Access::WideCas,
            "exchange8" => Access::Exchange,
            "copy16" => return Ok(Box::new(Copy::new(device, stream, case.n as usize)?)),
            other => bail!("no limit is called '{other}'"),
        };
        let bytes = case.number(if case.op == "line128_l2" { "l2_bytes" } else { "buffer_bytes" })? as usize;
        ensure!(
            bytes >= 256 && bytes / 8 <= u32::MAX as usize,
            "a limit needs a buffer of 256 bytes to 32 GiB, not {bytes}"
        );
        let len = bytes / 8 / ROW * ROW;
        let words = match &case.op {
            op if op.starts_with("pinned") => device.buffer_on(Tier::Pinned, len)?,
            op if op.starts_with("remote") => self.remote()?.zeroed(len)?,
            _ => device.zeroed(len)?,
        };
        Ok(Box::new(Accesses::new((device, stream), access, case.n, words, case.seed as u32)?))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Access {
    Sectors,
    HalfLines,
    Lines,
    /// Rows of 256 bytes.
    Rows,
    Cas,
    WideCas,
    Exchange,
}

impl Access {
    /// Returns the number of words between locations.
    fn words(self) -> usize {
        match self {
            Self::Sectors => SECTOR,
            Self::HalfLines => HALF,
            Self::Lines => LINE,
            Self::Rows => ROW,
            Self::WideCas => 2,
            Self::Cas | Self::Exchange => 1,
        }
    }

    /// Returns the number of lanes that cooperate in an access.
    fn lanes(self) -> usize {
        match self {
            Self::HalfLines | Self::Lines | Self::Rows => self.words() / LANE,
            Self::Sectors | Self::Cas | Self::WideCas | Self::Exchange => 1,
        }
    }

    fn writes(self) -> bool {
        matches!(self, Self::Cas | Self::WideCas | Self::Exchange)
    }
}

/// Random accesses to a buffer.
struct Accesses<'a> {
    stream: &'a Stream,
    access: Access,
    words: Buffer<u64>,
    sums: Buffer<u64>,
    grid: Grid,
    seed: u32,
}

impl<'a> Accesses<'a> {
    fn new(
        (device, stream): (&Device, &'a Stream),
        access: Access,
        n: u64,
        words: Buffer<u64>,
        seed: u32,
    ) -> Result<Self> {
        let blocks = (n * access.lanes() as u64).div_ceil(u64::from(PER_THREAD * THREADS));
        ensure!(
            blocks * u64::from(PER_THREAD * THREADS) < 1 << 32,
            "{n} operations are more than a counter of 32 bits holds"
        );
        let grid = Grid { blocks: blocks as u32, threads: THREADS };
        if !access.writes() {
            let fill = LimitFill { words: words.global() };
            // SAFETY: the buffer lives until the stream has executed the launch, because dropping it waits.
            unsafe { stream.launch(Grid::for_items(words.len().min(1 << 22), THREADS), fill)? };
            stream.synchronize()?;
        }
        let sums = device.zeroed((grid.blocks * THREADS) as usize)?;
        Ok(Self { stream, access, words, sums, grid, seed })
    }

    /// Returns the operations in which a thread participates.
    fn indices(&self, thread: usize) -> std::ops::Range<u32> {
        let first = (thread / self.access.lanes()) as u32 * PER_THREAD;
        first..first + PER_THREAD
    }

    fn places(&self) -> u32 {
        (self.words.len() / self.access.words()) as u32
    }

    /// Returns the sum that a thread must write in read-only tests.
    fn expected(&self, thread: usize) -> u64 {
        let (words, lanes, places) = (self.access.words(), self.access.lanes(), self.places());
        let of = |index| {
            let first = place(self.seed, index, places) * words + thread % lanes * 2;
            let far = first + words / 2;
            let read = [first, first + 1, far, far + 1];
            let read = if lanes == 1 { &read[..1] } else { &read[..] };
            read.iter().map(|&word| content(word)).fold(0, u64::wrapping_add)
        };
        self.indices(thread).map(of).fold(0, u64::wrapping_add)
    }

    fn verify_sums(&self) -> Result<Verified> {
        let sums = self.sums.read()?;
        let wrong = sums.par_iter().enumerate().find_any(|(thread, sum)| **sum != self.expected(*thread));
        if let Some((thread, sum)) = wrong {
            bail!("thread {thread} read words that sum to {sum:#x}, not {:#x}", self.expected(thread));
        }
        Ok(Verified::all(self.operations() as usize))
    }

    /// Checks that each marked word contains the mark of an operation on that word. For compare-and-swap, the
    /// number of marked words equals the number of successes. For exchanges, each mark was either returned by
    /// an exchange or is still in memory.
    fn verify_marks(&self) -> Result<Verified> {
        let (words, sums) = (self.words.read()?, self.sums.read()?);
        let (places, size) = (self.places(), self.access.words());
        let belongs = |at: usize, found: u64| {
            let index = (found - 1) as u32;
            mark(index) == found && place(self.seed, index, places) * size == at
        };
        let marked = words.par_iter().enumerate().filter(|(_, found)| **found != 0);
        let wrong = marked.clone().find_any(|(at, found)| !belongs(*at, **found));
        if let Some((at, found)) = wrong {
            bail!("word {at} holds {found:#x}, the mark of no operation that goes there");
        }
        let (asked, given) = (self.operations(), sums.par_iter().sum::<u64>());
        if self.access != Access::Exchange {
            let marked = marked.count() as u64;
            ensure!(marked == given, "{given} exchanges succeeded, but {marked} words are marked");
            return Ok(Verified { compared: asked, succeeded: given });
        }
        let left = words.par_iter().sum::<u64>();
        let made = (0..asked).into_par_iter().map(|index| mark(index as u32)).sum::<u64>();
        ensure!(
            given + left == made,
            "marks that sum to {made} were written; {given} was taken and {left} is left"
        );
        Ok(Verified { compared: asked, succeeded: asked })
    }
}

impl Benchmark for Accesses<'_> {
    fn restore(&mut self) -> Result<()> {
        if self.access.writes() {
            self.words.fill_bytes(0)?;
        }
        Ok(self.sums.fill_bytes(0)?)
    }

    fn launch(&mut self) -> Result<()> {
        let (words, sums, seed) = (self.words.global(), self.sums.global(), self.seed);
        let (stream, grid, per_thread, per_tile) = (self.stream, self.grid, PER_THREAD, PER_THREAD);
        // SAFETY: the buffers live until the stream has executed the launch. The grid has as many threads as
        // there are sums. Reads do not race with writes, and exchanges only race with each other.
        unsafe {
            match self.access {
                Access::Sectors => stream.launch(grid, LimitSectors { words, sums, per_thread, seed })?,
                Access::HalfLines => stream.launch(grid, LimitHalves { words, sums, per_tile, seed })?,
                Access::Lines => stream.launch(grid, LimitLines { words, sums, per_tile, seed })?,
                Access::Rows => stream.launch(grid, LimitRows { words, sums, per_tile, seed })?,
                Access::Cas => stream.launch(grid, LimitCas { words, sums, per_thread, seed })?,
                Access::WideCas => {
                    let words = GlobalSlice::from_raw_parts(self.words.pointer().cast(), words.len() / 2);
                    stream.launch(grid, LimitCasWide { words, sums, per_thread, seed })?;
                }
                Access::Exchange => stream.launch(grid, LimitExchange { words, sums, per_thread, seed })?,
            }
        }
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        if self.access.writes() { self.verify_marks() } else { self.verify_sums() }
    }

    fn operations(&self) -> u64 {
        (self.sums.len() / self.access.lanes()) as u64 * u64::from(PER_THREAD)
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.words.byte_len() as u64)]
    }
}

/// Streaming copy.
struct Copy<'a> {
    stream: &'a Stream,
    from: Buffer<u128>,
    to: Buffer<u128>,
}

impl<'a> Copy<'a> {
    fn new(device: &Device, stream: &'a Stream, len: usize) -> Result<Self> {
        let elements: Vec<u128> = (0..len).into_par_iter().map(element).collect();
        Ok(Self { stream, from: device.from_slice(&elements)?, to: device.zeroed(len)? })
    }
}

/// Returns the source element at an index.
fn element(index: usize) -> u128 {
    u128::from(content(2 * index)) << 64 | u128::from(content(2 * index + 1))
}

impl Benchmark for Copy<'_> {
    fn restore(&mut self) -> Result<()> {
        Ok(self.to.fill_bytes(0)?)
    }

    fn launch(&mut self) -> Result<()> {
        let kernel = LimitCopy { from: self.from.global(), to: self.to.global() };
        let grid = Grid::for_items(self.from.len().div_ceil(COPIES), THREADS);
        // SAFETY: the buffers live until the stream has executed the launch, and no thread accesses another's
        // element.
        unsafe { self.stream.launch(grid, kernel)? };
        Ok(())
    }

    fn verify(&mut self) -> Result<Verified> {
        let copied = self.to.read()?;
        let wrong = copied.par_iter().enumerate().find_any(|(index, found)| **found != element(*index));
        if let Some((index, found)) = wrong {
            bail!("element {index} is {found:#x} in the copy, not {:#x}", element(index));
        }
        Ok(Verified::all(copied.len()))
    }

    fn operations(&self) -> u64 {
        self.from.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes((self.from.byte_len() + self.to.byte_len()) as u64)]
    }
}

/// Copies between pinned and device memory in both directions at once. An operation is a copy of 16 bytes in
/// each direction.
struct Duplex {
    streams: [Stream; 2],
    host: [Buffer<u128>; 2],
    device: [Buffer<u128>; 2],
    ms: f64,
}

impl Duplex {
    fn new(device: &Device, len: usize) -> Result<Self> {
        let elements: Vec<u128> = (0..len).into_par_iter().map(element).collect();
        let (mut from, to) = (device.buffer_on(Tier::Pinned, len)?, device.buffer_on(Tier::Pinned, len)?);
        from.write(&elements)?;
        Ok(Self {
            streams: [device.stream()?, device.stream()?],
            host: [from, to],
            device: [device.zeroed(len)?, device.from_slice(&elements)?],
            ms: 0.0,
        })
    }
}

impl Benchmark for Duplex {
    fn restore(&mut self) -> Result<()> {
        self.device[0].fill_bytes(0)?;
        Ok(self.host[1].fill_bytes(0)?)
    }

    fn launch(&mut self) -> Result<()> {
        let start = Instant::now();
        // SAFETY: the buffers live until the streams are waited for, and nothing else accesses them.
        unsafe {
            self.streams[0].copy(self.device[0].global(), self.host[0].global())?;
            self.streams[1].copy(self.host[1].global(), self.device[1].global())?;
        }
        self.streams.iter().try_for_each(Stream::synchronize)?;
        self.ms = start.elapsed().as_secs_f64() * 1e3;
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        for copied in [self.device[0].read()?, self.host[1].read()?] {
            let wrong = copied.par_iter().enumerate().find_any(|(index, found)| **found != element(*index));
            ensure!(wrong.is_none(), "element {:?} is wrong in the copy", wrong.map(|(index, _)| index));
        }
        Ok(Verified::all(self.host[0].len()))
    }

    fn operations(&self) -> u64 {
        self.host[0].len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::BytesMoved(2 * self.host[0].byte_len() as u64)]
    }
}
