//! Shards in a file that kernels cannot access: the host reads and writes them through pinned memory.
use super::plan::DEPTH;
use super::shard::{Image, Shard};
use super::shards::{ImageSize, Shards};
use super::tiers::Tiers;
use super::work::Work;
use crate::Result;
use crate::map::encoding::Word;
use gpu::{Buffer, Device, Tier};
use simt::GlobalSlice;

/// Pinned memory that no shard uses.
#[derive(Debug, Default)]
pub struct Stages(Vec<Buffer<u64>>);

impl Stages {
    /// Returns memory of at least `words` words, with arbitrary contents.
    pub fn take(&mut self, device: &Device, words: usize) -> Result<Buffer<u64>> {
        match self.0.iter().rposition(|stage| stage.len() >= words) {
            Some(place) => Ok(self.0.swap_remove(place)),
            None => Ok(device.buffer_on(Tier::Pinned, words)?),
        }
    }

    /// Keeps memory for later: as many pieces as shards are in flight.
    pub fn put(&mut self, stage: Option<Buffer<u64>>) {
        let Some(stage) = stage else { return };
        if self.0.len() == DEPTH {
            self.0.remove(0);
        }
        self.0.push(stage);
    }

    /// Frees the memory.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns the bytes of host memory.
    pub fn byte_len(&self) -> usize {
        self.0.iter().map(Buffer::byte_len).sum()
    }
}

impl<Z: ImageSize> Shard<Z> {
    /// Returns the words of the shard's image, or of a copy of it.
    pub fn words_at(&self, copy: Option<&Buffer<u64>>) -> GlobalSlice<u64> {
        copy.map_or_else(|| self.image.words(), |copy| copy.global().part(0, self.size.words()))
    }
}

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Returns whether kernels cannot access the image of a shard, or the one that a blank shard will have.
    pub fn is_staged(&self, shard: usize) -> bool {
        let shard = &self.shards[shard];
        shard.image.staged().is_some() || shard.is_blank() && self.spares.source().is_staged()
    }

    /// Reads the image of a shard if kernels cannot access it. Returns its copy in pinned memory.
    pub fn read_staged(&mut self, shard: usize) -> Result<Option<Buffer<u64>>> {
        let image = std::mem::replace(&mut self.shards[shard].image, Image::Blank);
        let copy = self.read_image(&image);
        self.shards[shard].image = image;
        copy
    }

    /// Reads an image if kernels cannot access it. Returns its copy in pinned memory.
    pub fn read_image(&mut self, image: &Image) -> Result<Option<Buffer<u64>>> {
        let Some(image) = image.staged() else { return Ok(None) };
        let mut stage = self.stages.take(&self.device, image.len())?;
        // SAFETY: no kernel and no copy uses memory that was taken; images change only in `write_staged`.
        unsafe { image.read(&mut stage)? };
        self.traffic.file_read += 8 * image.len() as u64;
        Ok(Some(stage))
    }

    /// Makes the image of a shard accessible to kernels: allocates the one of a blank shard. If the image is
    /// staged, returns a copy in pinned memory. Waits.
    pub fn open(&mut self, shard: usize) -> Result<Option<Buffer<u64>>> {
        if self.is_provided(shard, 0)? {
            return Ok(None);
        }
        if let Some(copy) = self.read_staged(shard)? {
            return Ok(Some(copy));
        }
        let words = self.shards[shard].size.words();
        let copy = self.stages.take(&self.device, words)?;
        self.create_at(shard, copy.global().part(0, words), 0)?;
        Ok(Some(copy))
    }

    /// Returns the table of a shard as [`Self::open`] has made it accessible, with the first counters of
    /// operations in place.
    pub fn raw_opened(&self, shard: usize, copy: Option<&Buffer<u64>>) -> S::Table {
        let shard = &self.shards[shard];
        self.inner.table(shard, shard.words_at(copy).as_ptr(), self.places[0].counters.pointer())
    }

    /// Executes the elements of a staged shard that fits no slot, on a copy in pinned memory. Waits.
    pub fn serve_staged(
        &mut self,
        work: &Work<S::Part>,
        (shard, many): (usize, usize),
        done: &mut [bool],
    ) -> Result<()> {
        let copy = self.open(shard)?;
        let (mut table, stream) = (self.raw_opened(shard, copy.as_ref()), self.places[0].stream.clone());
        for (_, part) in work.parts_of(shard) {
            // SAFETY: table and elements live until the stream is waited for; no other stream uses the shard.
            unsafe { self.inner.launch(&stream, &mut table, part)? };
        }
        if work.writes {
            self.slots.forget(shard);
            self.fold(shard, 0)?;
        }
        stream.synchronize()?;
        let words = self.shards[shard].size.words();
        let spare = if work.writes { Some(self.spares.take(&self.device, words)?) } else { None };
        self.keep_written(shard, spare, copy)?;
        self.inner.launched(&mut self.shards[shard].size, &table);
        self.note_operations(many, false);
        let shards = self.shards.len();
        work.parts_of(shard).for_each(|(chunk, _)| done[chunk * shards + shard] = true);
        Ok(())
    }

    /// Makes the image to which a changed shard was written back that of the shard, and counts. If the image
    /// is staged, the memory between it and the device is first written to it.
    pub fn keep_written(
        &mut self,
        shard: usize,
        spare: Option<Image>,
        mut stage: Option<Buffer<u64>>,
    ) -> Result<()> {
        if let Some(mut spare) = spare {
            self.write_staged(&mut spare, stage.as_mut())?;
            let old = std::mem::replace(&mut self.shards[shard].image, spare);
            self.spares.put(old);
            self.count(shard);
        }
        self.stages.put(stage);
        Ok(())
    }

    /// Writes the copy of an image that is staged.
    pub fn write_staged(&mut self, image: &mut Image, copy: Option<&mut Buffer<u64>>) -> Result<()> {
        if let (Image::File(image), Some(copy)) = (image, copy)
            && image.is_staged()
        {
            // SAFETY: the caller has waited for kernels and copies that use the memory; no other shard has
            // the image.
            unsafe { image.write(copy)? };
            self.traffic.file_written += 8 * image.len() as u64;
        }
        Ok(())
    }
}
