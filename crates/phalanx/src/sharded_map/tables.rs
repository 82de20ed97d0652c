//! Tables of a batch's partition by owner, and the launches that write and use them.
use super::geometry::Sizes;
use super::work::{host_words, words};
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, THREADS};
use crate::primitives::{Fold, Workspace, scan_bytes};
use gpu::{Buffer, Device, Grid, Stream, Tier};
use phalanx_kernels::sharded::kernels::{
    Division, SCATTER_THREADS, ShardedBounds, ShardedCount, ShardedScatter,
};
use phalanx_kernels::sharded::{MESSAGE_WORDS, PIECE, Pair};
use simt::GlobalSlice;

/// Counts of the elements of a batch by owner, and the places of its messages.
pub struct Tables {
    /// Counts of pieces, and then their offsets.
    offsets: Buffer<u32>,
    messages: Buffer<u32>,
    /// Counts of chunks, in pinned memory.
    counts: Buffer<u32>,
    scan: Workspace,
}

impl Tables {
    /// Creates tables without memory.
    pub fn new(stream: &Stream) -> Result<Self> {
        let device = stream.device();
        Ok(Self {
            offsets: device.buffer(0)?,
            messages: device.buffer(0)?,
            counts: device.buffer_on(Tier::Pinned, 0)?,
            scan: Workspace::new(stream, 0)?,
        })
    }

    /// Returns whether [`reserve`](Self::reserve) replaces memory: dropping it waits for the device.
    pub fn replaces(&self, ranks: usize, chunks: usize, pieces: usize) -> bool {
        let (counts, offsets) = (chunks * ranks, chunks * ranks * pieces);
        let (words, had) =
            (counts * MESSAGE_WORDS, [&self.counts, &self.messages, &self.offsets].map(Buffer::len));
        had.into_iter().zip([counts, words, offsets]).any(|(had, needed)| had > 0 && needed > had)
    }

    /// Provides memory for `chunks` chunks of `pieces` pieces. Waits for the device if it allocates.
    pub fn reserve(&mut self, device: &Device, ranks: usize, chunks: usize, pieces: usize) -> Result<()> {
        let (counts, offsets) = (chunks * ranks, chunks * ranks * pieces);
        if counts > self.counts.len() {
            self.counts = device.buffer_on(Tier::Pinned, counts)?;
        }
        // Not with the counts: an allocation may have failed between them.
        if counts * MESSAGE_WORDS > self.messages.len() {
            self.messages = device.buffer(counts * MESSAGE_WORDS)?;
        }
        if offsets > self.offsets.len() {
            self.offsets = device.buffer(offsets)?;
        }
        self.scan.reserve(scan_bytes::<u32>(offsets))
    }

    /// Submits the counting of a batch of some chunks, for which there is memory. `sizes` are those of the
    /// columns that move.
    pub fn count<K: Word, V: Word>(
        &mut self,
        stream: &Stream,
        (division, chunks): (Division, usize),
        keys: GlobalSlice<K>,
        sizes: Sizes,
    ) -> Result<()> {
        let (owners, pieces) = (division.owners as usize, chunks * division.pieces as usize);
        let numbers = pieces * owners;
        let counts = self.offsets.slice(..numbers)?.global();
        // SAFETY: the buffers of the batch and these tables live until the stream has executed the launch.
        // The counts have a word for each piece and owner.
        unsafe { stream.launch(warps(pieces), ShardedCount::<Pair<K, V>> { keys, division, counts })? };
        self.scan.scan_in_place(Fold::Sum, self.offsets.slice_mut(..numbers)?, false)?;
        let bounds = ShardedBounds {
            offsets: counts,
            division,
            key: sizes.0 as u32,
            value: sizes.1 as u32,
            len: keys.len(),
            messages: self.messages.global(),
            counts: self.counts.slice(..chunks * owners)?.global(),
        };
        // SAFETY: as above; the host reads the counts after a wait.
        unsafe { Ok(stream.launch(warps(chunks), bounds)?) }
    }

    /// Returns the counts of chunks that [`count`](Self::count) has written, after a wait for it.
    pub fn read_counts(&self, len: usize) -> &[u32] {
        // SAFETY: the kernel that has written the words has ended.
        let words = unsafe { host_words(&self.counts) };
        &words[..len]
    }

    /// Returns the offsets and the messages of a chunk.
    pub fn of(&self, division: Division, chunk: usize) -> (GlobalSlice<u32>, GlobalSlice<u32>) {
        let owners = division.owners as usize;
        let (offsets, messages) = (owners * division.pieces as usize, owners * MESSAGE_WORDS);
        (
            self.offsets.global().part(chunk * offsets, offsets),
            self.messages.global().part(chunk * messages, messages),
        )
    }

    /// Submits the partition of a chunk, whose elements are `part`. Nothing else uses `send` at that point of
    /// the stream's order.
    pub fn scatter<K: Word, V: Word>(
        &self,
        stream: &Stream,
        (division, chunk): (Division, usize),
        part: &Batch<K, V>,
        send: &Buffer<u128>,
    ) -> Result<()> {
        let (keys, values) = (part.keys.words(), part.arguments);
        if keys.is_empty() {
            return Ok(());
        }
        let (offsets, messages) = self.of(division, chunk);
        let (keys_to, values_to) = (words(send), words(send));
        let kernel =
            ShardedScatter::<Pair<K, V>> { keys, values, division, offsets, messages, keys_to, values_to };
        let grid = Grid::for_items(32 * keys.len().div_ceil(PIECE), SCATTER_THREADS);
        // SAFETY: the buffers live until the stream has executed the launch. Nothing else uses the messages.
        unsafe { Ok(stream.launch(grid, kernel)?) }
    }

    /// Overwrites the counts of chunks, so that those of an earlier batch are not taken for later ones.
    pub fn forget(&mut self) -> Result<()> {
        Ok(self.counts.fill_bytes(0xff)?)
    }

    /// Returns the bytes of memory.
    pub fn memory_usage(&self) -> usize {
        let buffers = [&self.offsets, &self.messages, &self.counts];
        buffers.into_iter().map(Buffer::byte_len).sum::<usize>() + self.scan.memory_usage()
    }
}

/// Returns the grid of a warp for each of `many`.
pub fn warps(many: usize) -> Grid {
    Grid::for_items(32 * many, THREADS)
}
