//! Rebuilds of a table's fingerprints from its image.
use super::kernels::{Kernels, Launch, RebuildPages};
use super::memory::{Memory, Shape};
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream, Tier};
use phalanx_kernels::persistent::recover::{DUPLICATES, FINDINGS, MISPLACED};
use simt::GlobalSlice;

/// Bytes of an image in host memory that are copied to the device at once. A copy engine reads host memory
/// several times faster than a kernel.
const STEP: usize = 4 << 20;

/// Streams and buffers of a rebuild.
#[derive(Debug)]
pub(super) struct Scratch {
    findings: Buffer<u32>,
    /// Used in turn: one copies pages while the kernel reads those of the other.
    parts: [Part; 2],
}

/// A stream, and room for pages of an image in host memory: empty for an image in device memory.
#[derive(Debug)]
struct Part {
    stream: Stream,
    pages: Buffer<u32>,
}

impl Scratch {
    /// Allocates what the rebuild of a table with this shape or a smaller one takes, whose image is in
    /// memory of `tier`.
    pub fn new(device: &Device, shape: Shape, tier: Tier) -> Result<Self> {
        let largest = (0..shape.kind.levels).map(|above| shape.level_words(above)).max().unwrap_or(0);
        let most = (STEP / shape.page_bytes()).max(1) * shape.page_bytes() / 4;
        let words = if tier.is_host_visible() { most.min(largest) } else { 0 };
        let part = || Ok::<_, Error>(Part { stream: device.stream()?, pages: device.buffer(words)? });
        Ok(Self { findings: device.zeroed(FINDINGS)?, parts: [part()?, part()?] })
    }
}

impl Part {
    /// Returns the pages as kernels of this part's stream read them.
    ///
    /// # Safety
    /// - Nothing writes the pages until the stream has been waited for.
    unsafe fn on_device(&self, pages: GlobalSlice<u32>) -> Result<GlobalSlice<u32>> {
        if self.pages.is_empty() {
            return Ok(pages);
        }
        let copies = self.pages.global().part(0, pages.len());
        // SAFETY: the caller's obligation; only launches of the same stream read the copies.
        unsafe { self.stream.copy(copies, pages)? };
        Ok(copies)
    }
}

impl Memory {
    /// Rebuilds the fingerprints from the slot bits and the items, and removes duplicates. Returns their
    /// number. The cache is empty afterwards, since the links of its copies lie among the fingerprints.
    pub fn rebuild(&mut self, device: &Device, kernels: &dyn Kernels) -> Result<u32> {
        // Allocated first: without them the table would be without fingerprints.
        let mut scratch = Scratch::new(device, self.shape, self.levels[0].tier())?;
        self.rebuild_with(&mut scratch, kernels)
    }

    /// As [`Self::rebuild`], without an allocation.
    pub fn rebuild_with(&mut self, scratch: &mut Scratch, kernels: &dyn Kernels) -> Result<u32> {
        scratch.findings.fill_bytes(0)?;
        self.fingerprints.fill_bytes(0)?;
        self.reserved.fill_bytes(0)?;
        for above in 0..self.shape.kind.levels {
            self.revive_level(above, scratch, kernels)?;
        }
        scratch.parts.iter().try_for_each(|part| part.stream.synchronize())?;
        let misplaced = scratch.findings.read()?[MISPLACED];
        if misplaced > 0 {
            let text = format!("{misplaced} items of a persistent map are in no bucket of their keys");
            return Err(Error::Invalid(text));
        }
        let resolve = Launch::Resolve(scratch.findings.global());
        // SAFETY: nothing else runs on the table; the findings are read, which waits, before they are
        // dropped.
        unsafe { kernels.launch(&scratch.parts[0].stream, self, resolve)? };
        Ok(scratch.findings.read()?[DUPLICATES])
    }

    /// Submits launches that make the slots of a level live whose bits are set.
    fn revive_level(&self, above: u32, scratch: &Scratch, kernels: &dyn Kernels) -> Result<()> {
        let (level, page_words) = (&self.levels[above as usize], self.shape.page_bytes() / 4);
        let each = if scratch.parts[0].pages.is_empty() { level.len() } else { scratch.parts[0].pages.len() };
        for (turn, start) in (0..level.len()).step_by(each).enumerate() {
            let part = &scratch.parts[turn % 2];
            let words = level.global().part(start, each.min(level.len() - start));
            // SAFETY: nothing else runs on the table. The caller waits for the streams before the findings
            // and the copies are dropped.
            unsafe {
                let first = (start / page_words) as u32;
                let pages = RebuildPages { above, first, pages: part.on_device(words)? };
                kernels.launch(&part.stream, self, Launch::Rebuild(pages, scratch.findings.global()))?;
            }
        }
        Ok(())
    }
}
