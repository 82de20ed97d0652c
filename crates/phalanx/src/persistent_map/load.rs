//! Reads of a file's last epoch into the memory of an image.
use super::file::PersistentFile;
use super::memory::Shape;
use crate::Result;
use gpu::{Buffer, Device, Stream, Tier};

/// Bytes that are read at once for an image in device memory.
const STEP: usize = 32 << 20;

/// Reads all pages of the last epoch that the levels have.
pub(super) fn load(file: &PersistentFile, shape: Shape, levels: &mut [Buffer<u32>]) -> Result<()> {
    for (above, level) in levels.iter_mut().enumerate() {
        let first = shape.file_page(above as u32);
        if level.tier().is_host_visible() {
            file.load(first, bytemuck::cast_slice_mut(level.as_mut_slice()?))?;
        } else {
            upload(file, shape, (first, level))?;
        }
    }
    Ok(())
}

/// Reads a level, from page `first` of the file on, by way of two pinned buffers: one is copied to the device
/// while the other one is filled.
fn upload(file: &PersistentFile, shape: Shape, (first, level): (u64, &mut Buffer<u32>)) -> Result<()> {
    let words_each = shape.page_bytes() / 4;
    let most = (STEP / shape.page_bytes()).max(1).min(level.len() / words_each) * words_each;
    let device = level.device().clone();
    let mut pair = [Staging::new(&device, most)?, Staging::new(&device, most)?];
    for (start, turn) in (0..level.len()).step_by(most).zip([0, 1].into_iter().cycle()) {
        let len = (level.len() - start).min(most);
        let page = first + (start / words_each) as u64;
        pair[turn].fill(len, |words| file.load(page, bytemuck::cast_slice_mut(words)))?;
        pair[turn].submit(level, start, len)?;
    }
    pair.iter().try_for_each(|staging| Ok(staging.stream.synchronize()?))
}

/// A pinned buffer, and the stream that copies it to the device.
struct Staging {
    stream: Stream,
    words: Buffer<u32>,
}

impl Staging {
    fn new(device: &Device, len: usize) -> Result<Self> {
        Ok(Self { stream: device.stream()?, words: device.buffer_on(Tier::Pinned, len)? })
    }

    /// Lets `fill` write the first `len` words, when the last copy has ended.
    fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u32]) -> Result<()>) -> Result<()> {
        self.stream.synchronize()?;
        let Some(host) = self.words.host_pointer() else {
            // Memory that is not visible to the host is not pinned.
            return fill(&mut self.words.as_mut_slice()?[..len]);
        };
        assert!(len <= self.words.len());
        // SAFETY: the buffer has these words, and only the stream's copies access them, which have ended. All
        // bits are valid, and the buffer was allocated with contents.
        fill(unsafe { std::slice::from_raw_parts_mut(host.as_ptr(), len) })
    }

    /// Submits a copy of the first `len` words to a part of `level`.
    fn submit(&self, level: &Buffer<u32>, start: usize, len: usize) -> Result<()> {
        let (to, from) = (level.global().part(start, len), self.words.global().part(0, len));
        // SAFETY: nothing else uses the level; `fill` waits for the copy before it writes the words, and both
        // buffers wait for it before they are freed.
        unsafe { self.stream.copy(to, from)? };
        Ok(())
    }
}
