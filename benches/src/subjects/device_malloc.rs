//! Driver's allocator in kernels (`malloc`, `free`), as the baseline for `SlabAlloc`.
use crate::engine::benchmark::{Benchmark, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, bail, ensure};
use gpu::{Buffer, Grid};
use phalanx_kernels::slab::heap::{HeapGive, HeapTake, Pieces};

/// Bytes per allocation.
const BYTES: usize = 128;

/// Threads per block.
const THREADS: u32 = 256;

/// Device heap as a structure.
#[derive(Debug)]
pub struct Heap<'a>(pub &'a Gpu);

impl Structure for Heap<'_> {
    fn name(&self) -> &'static str {
        "DeviceMalloc"
    }

    fn variants(&self) -> Vec<String> {
        vec!["malloc".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["alloc", "free"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        let heap = case.number("heap_bytes")? as usize;
        ensure!(heap / BYTES > case.n as usize, "a heap of {heap} bytes has no {} pieces of {BYTES}", case.n);
        self.0.device.set_heap(heap)?;
        let addresses = self.0.device.zeroed(case.n as usize)?;
        let frees = match case.op.as_str() {
            "alloc" => false,
            "free" => true,
            other => bail!("no operation of a heap is called '{other}'"),
        };
        Ok(Box::new(Prepared { gpu: self.0, frees, addresses }))
    }
}

/// Prepared case. An address is 0 while nothing is allocated.
struct Prepared<'a> {
    gpu: &'a Gpu,
    frees: bool,
    addresses: Buffer<u64>,
}

impl Prepared<'_> {
    fn give(&self) -> Result<()> {
        let (grid, addresses) = (Grid::for_items(self.addresses.len(), THREADS), self.addresses.global());
        // SAFETY: the buffer lives until the stream has executed the launch, and each thread has its own
        // element.
        unsafe { self.gpu.stream.launch(grid, HeapGive { bytes: BYTES, addresses })? };
        Ok(())
    }

    fn take(&self) -> Result<()> {
        let (grid, addresses) = (Grid::for_items(self.addresses.len(), THREADS), self.addresses.global());
        // SAFETY: as in `give`; the addresses come from there, and are cleared after they have been freed.
        unsafe { self.gpu.stream.launch(grid, HeapTake { pieces: Pieces::new(addresses) })? };
        Ok(())
    }

    /// Checks that the allocations do not overlap.
    fn verify_given(&self) -> Result<Verified> {
        let mut addresses = self.addresses.read()?;
        addresses.sort_unstable();
        let given = addresses.iter().filter(|address| **address != 0).count() as u64;
        let apart = addresses.windows(2).all(|pair| pair[0] == 0 || pair[1] - pair[0] >= BYTES as u64);
        ensure!(apart, "two pieces overlap");
        Ok(Verified { compared: addresses.len() as u64, succeeded: given })
    }
}

impl Benchmark for Prepared<'_> {
    fn restore(&mut self) -> Result<()> {
        self.take()?;
        self.gpu.stream.synchronize()?;
        self.addresses.fill_bytes(0)?;
        if self.frees {
            self.give()?;
            self.gpu.stream.synchronize()?;
            self.verify_given()?;
        }
        Ok(self.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        if self.frees { self.take() } else { self.give() }
    }

    fn verify(&mut self) -> Result<Verified> {
        self.gpu.stream.synchronize()?;
        if !self.frees {
            return self.verify_given();
        }
        // The driver does not report the result of a free. The next repetition checks that the memory can be
        // allocated again.
        self.addresses.fill_bytes(0)?;
        Ok(Verified::all(self.addresses.len()))
    }

    fn operations(&self) -> u64 {
        self.addresses.len() as u64
    }
}

/// Frees the allocations: the heap belongs to the device, and leaked memory would be missing in the next
/// case.
impl Drop for Prepared<'_> {
    fn drop(&mut self) {
        // If the device is lost, so is its heap.
        drop(self.take().and_then(|()| Ok(self.gpu.stream.synchronize()?)));
    }
}
