//! The partition of a batch without an exchange, for benchmarks.
use super::geometry::{Geometry, Sizes};
use super::tables::Tables;
use crate::Result;
use crate::map::batches::slice;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp};
use exchange::Limits;
use gpu::{Buffer, Stream};
use phalanx_kernels::sharded::PIECE;
use std::marker::PhantomData;

/// Partition of batches of pairs on one rank: the launches of a sharded map before it sends any element.
///
/// There are two differences to a map. The host does not wait for the counts before it submits the first
/// chunk. Each chunk has a buffer for its messages, instead of two buffers that alternate, so that all
/// messages of a batch can be compared.
pub struct Partition<K, V> {
    stream: Stream,
    geometry: Geometry,
    tables: Tables,
    /// Messages of each chunk.
    messages: Vec<Buffer<u128>>,
    /// Elements of a batch.
    len: usize,
    of: PhantomData<fn() -> (K, V)>,
}

/// Bytes of a pair's columns.
const fn sizes<K, V>() -> Sizes {
    (size_of::<K>(), size_of::<V>())
}

impl<K: Word, V: Word> Partition<K, V> {
    /// Allocates the memory for batches of `len` pairs of the first of `ranks` ranks.
    pub fn new(stream: &Stream, limits: &Limits, ranks: usize, len: usize) -> Result<Self> {
        let pair = size_of::<K>() + size_of::<V>();
        let geometry = Geometry::new(limits, (0, ranks), pair);
        let (pieces, device, mut tables) = (geometry.pieces(len), stream.device(), Tables::new(stream)?);
        let chunks = len.div_ceil(pieces * PIECE);
        tables.reserve(device, ranks, chunks, pieces)?;
        let units = geometry.message_bytes(pair).div_ceil(size_of::<u128>());
        let messages = (0..chunks).map(|_| device.buffer(units)).collect::<gpu::Result<_>>()?;
        Ok(Self { stream: stream.clone(), geometry, tables, messages, len, of: PhantomData })
    }

    /// Returns the number of chunks of a batch.
    pub fn chunks(&self) -> usize {
        self.messages.len()
    }

    /// Returns the elements of each chunk but the last.
    pub fn chunk_len(&self) -> usize {
        self.geometry.pieces(self.len) * PIECE
    }

    /// Overwrites all messages and counts. Waits for the device.
    pub fn forget(&mut self) -> Result<()> {
        self.tables.forget()?;
        self.messages.iter_mut().try_for_each(|messages| Ok(messages.fill_bytes(0xff)?))
    }

    /// Submits the partition of a batch, from the counts to the messages of all chunks.
    ///
    /// # Errors
    /// [`Error::Length`] if the batch does not have the length that was passed to [`new`](Self::new).
    pub fn run(&mut self, keys: &Buffer<K>, values: &Buffer<V>) -> Result<()> {
        let device = self.stream.device();
        let keys = slice(device, "keys", keys, self.len)?;
        let arguments = slice(device, "values", values, self.len)?;
        let batch = Batch { arguments, ..Batch::new(BatchOp::Insert, keys) };
        let (chunk_len, chunks) = (self.chunk_len(), self.chunks());
        let division = self.geometry.division(chunk_len / PIECE);
        self.tables.count::<K, V>(&self.stream, (division, chunks), keys, sizes::<K, V>())?;
        for (chunk, messages) in self.messages.iter().enumerate() {
            let part = batch.part(chunk * chunk_len, chunk_len);
            self.tables.scatter(&self.stream, (division, chunk), &part, messages)?;
        }
        Ok(())
    }

    /// Returns the number of elements of each owner, for each chunk of the last batch. Waits for the stream.
    pub fn counts(&self) -> Result<Vec<u32>> {
        self.stream.synchronize()?;
        Ok(self.tables.read_counts(self.chunks() * self.geometry.ranks).to_vec())
    }

    /// Returns the messages of each chunk of the last batch. Waits for the device.
    pub fn messages(&self) -> Result<Vec<Vec<u128>>> {
        self.messages.iter().map(|messages| Ok(messages.read()?)).collect()
    }

    /// Returns the parts of the message of a chunk for `owner`, as a map sends or executes them: the byte of
    /// the chunk's messages at which each begins, and its elements. `counts` are those of the chunk.
    pub fn parts(&self, counts: &[u32], owner: usize) -> Vec<(usize, usize)> {
        let (count, geometry, sizes) = (counts[owner], &self.geometry, sizes::<K, V>());
        if owner == geometry.rank {
            return vec![(geometry.begins(counts, sizes)[owner], count as usize)];
        }
        let part = |round| {
            let bytes = geometry.sent(counts, round, owner, sizes);
            (bytes.start, geometry.in_round(count, round))
        };
        (0..(count as usize).div_ceil(geometry.room())).map(part).collect()
    }
}
