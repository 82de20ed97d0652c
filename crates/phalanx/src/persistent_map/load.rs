//! Reads of a file's last epoch into the memory of an image.
use super::file::PersistentFile;
use super::memory::Shape;
use crate::Result;
use gpu::{Buffer, Device, Stream, Tier};

/// Bytes that are read at once for an image in device memory. Pinned memory of this size or more is allocated
/// fast.
const STEP: usize = 64 << 20;

/// Reads all pages of the last epoch that the levels have.
pub(super) fn load(file: &PersistentFile, shape: Shape, levels: &mut [Buffer<u32>]) -> Result<()> {
    load_in_steps(file, shape, levels, STEP)
}

fn load_in_steps(file: &PersistentFile, shape: Shape, levels: &mut [Buffer<u32>], step: usize) -> Result<()> {
    let words_each = shape.page_bytes() / 4;
    let largest = levels.iter().map(Buffer::len).max().unwrap_or(0);
    let most = (step / shape.page_bytes()).max(1).min(largest / words_each) * words_each;
    let mut uploads = Uploads { len: most, buffers: Vec::new(), turn: 1 };
    for (above, level) in levels.iter_mut().enumerate() {
        let first = shape.file_page(above as u32);
        if level.tier().is_host_visible() {
            file.load(first, bytemuck::cast_slice_mut(level.as_mut_slice()?))?;
            continue;
        }
        for start in (0..level.len()).step_by(most) {
            let len = (level.len() - start).min(most);
            let page = first + (start / words_each) as u64;
            let buffer = uploads.next(level.device())?;
            buffer.fill(len, |words| file.load(page, bytemuck::cast_slice_mut(words)))?;
            buffer.submit(level, start, len)?;
        }
    }
    uploads.finish()
}

/// Up to two buffers: one is copied to the device while the other one is filled.
struct Uploads {
    /// Words of a buffer.
    len: usize,
    buffers: Vec<UploadBuffer>,
    /// Number of the buffer that was used last.
    turn: usize,
}

impl Uploads {
    fn next(&mut self, device: &Device) -> Result<&mut UploadBuffer> {
        self.turn = 1 - self.turn;
        if self.buffers.len() <= self.turn {
            self.buffers.push(UploadBuffer::new(device, self.len)?);
        }
        Ok(&mut self.buffers[self.turn])
    }

    /// Waits for all copies.
    fn finish(&self) -> Result<()> {
        self.buffers.iter().try_for_each(|buffer| Ok(buffer.stream.synchronize()?))
    }
}

/// A pinned buffer, and the stream that copies it to the device.
struct UploadBuffer {
    stream: Stream,
    words: Buffer<u32>,
}

impl UploadBuffer {
    fn new(device: &Device, len: usize) -> Result<Self> {
        Ok(Self { stream: device.stream()?, words: device.buffer_on(Tier::Pinned, len)? })
    }

    /// Lets `fill` write the first `len` words, when the last copy has ended.
    fn fill(&mut self, len: usize, fill: impl FnOnce(&mut [u32]) -> Result<()>) -> Result<()> {
        self.stream.synchronize()?;
        assert!(len <= self.words.len());
        // An empty buffer has no pointer.
        let Some(host) = self.words.host_pointer() else { return fill(&mut []) };
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

#[cfg(test)]
mod tests {
    use super::super::builder::file_options;
    use super::super::kernels::Kind;
    use super::*;

    const KIND: Kind = Kind {
        key_words: 1,
        value_bytes: 8,
        levels: 2,
        hashes: 2,
        slots: 8,
        usable: 8,
        group_words: 16,
        reserves: false,
        caches: true,
    };

    /// Returns the word that each of a page's words is after the `epoch`-th commit.
    fn word(page: u64, epoch: u32) -> u32 {
        page as u32 * 10 + epoch
    }

    /// Buffers of one page, of several, and of more pages than a level has. Some pages were never written,
    /// and neighbours have copies in different parts of the file.
    #[test]
    fn levels_are_loaded_in_steps() {
        let folder = tempfile::tempdir().unwrap();
        let device = Device::emulator(simt::emulator::Options::default());
        let shape = Shape::new(KIND, 8, 0).with_slots(20_000).unwrap();
        let (page_words, pages) = (shape.page_bytes() / 4, shape.pages() as u64);
        let options = file_options::<u64, u64>(&device, shape, false);
        let mut file = PersistentFile::create(folder.path().join("map"), &options).unwrap();
        let mut expected = vec![vec![0; page_words]; pages as usize];
        for (epoch, every) in [(1, 2), (2, 3), (3, 5)] {
            for page in (0..pages).filter(|page| page % every == 0) {
                expected[page as usize].fill(word(page, epoch));
            }
            let of = |page: u64| (page, bytemuck::cast_slice(&expected[page as usize]));
            file.commit((0..pages).filter(|page| page % every == 0).map(of), &[]).unwrap();
        }
        assert!(shape.geometry.pages(0) > 3 && expected.iter().any(|page| page[0] == 0));
        for step in [0, 1, 2, 3, 1000] {
            let filled = |above| device.filled(shape.level_words(above), 0xaa).unwrap();
            let mut levels = [filled(0), filled(1)];
            load_in_steps(&file, shape, &mut levels, step * shape.page_bytes()).unwrap();
            let loaded = levels.iter().flat_map(|level| level.read().unwrap()).collect::<Vec<u32>>();
            assert!(loaded == expected.concat(), "{step} pages at a time");
        }
    }
}
