//! A batch on its way through a map: its elements in the order of the shards, and its failure.
use super::hot::is_worthwhile;
use super::parts::Spilled;
use super::shards::Part;
use crate::Error;
use crate::map::launch::BatchOp;
use std::ops::Range;

/// Chunks of a batch after which lookups among the hot pairs may end.
const SAMPLED: usize = 3;

/// A batch that failed: the cause, and for each element whether it is done (empty if none is).
pub struct Failure {
    pub source: Box<Error>,
    pub done: Vec<bool>,
}

impl Failure {
    pub fn new(source: Error, done: Vec<bool>) -> Self {
        Self { source: Box::new(source), done }
    }
}

impl<E: Into<Error>> From<E> for Failure {
    fn from(source: E) -> Self {
        Self::new(source.into(), Vec::new())
    }
}

/// A batch in the order of the shards.
pub struct Work<P> {
    /// The elements of each chunk.
    pub chunks: Vec<P>,
    /// The number of elements of each chunk.
    pub lens: Vec<usize>,
    /// For each chunk, the first element of each shard.
    pub bounds: Vec<Vec<u32>>,
    /// The elements, if they are in the spill, and the device knows the parts of each shard.
    pub spilled: Option<Spilled>,
    /// Whether the operation changes shards.
    pub writes: bool,
    /// Whether the operation finds its keys or does nothing, as lookups and removals.
    pub only_finds: bool,
    /// Whether the pairs that are found are added to the hot ones.
    pub learns: bool,
    /// For each chunk, whether its keys are those that are not among the hot pairs.
    pub filtered: Vec<bool>,
    /// Whether the keys of the next chunk are looked up there.
    pub looks: bool,
    /// Whether keys are added to a sample of the hot pairs.
    pub samples: bool,
    /// Keys that were looked up there, and those that were found.
    pub lookups: usize,
    pub hits: usize,
}

impl<P: Part> Work<P> {
    /// Returns work without chunks.
    fn without_chunks(writes: bool) -> Self {
        Self {
            chunks: Vec::new(),
            lens: Vec::new(),
            bounds: Vec::new(),
            spilled: None,
            writes,
            only_finds: false,
            learns: false,
            filtered: Vec::new(),
            looks: false,
            samples: false,
            lookups: 0,
            hits: 0,
        }
    }

    /// Returns the work of a batch without chunks, which uses the hot pairs or not.
    pub fn new(op: BatchOp, (uses_hot, looks): (bool, bool)) -> Self {
        let learns = uses_hot && matches!(op, BatchOp::Get);
        let only_finds = !op.places();
        Self { learns, looks: uses_hot && looks, only_finds, ..Self::without_chunks(op.writes()) }
    }

    /// Returns work on one chunk of sorted elements, with the first element of each shard.
    pub fn of_chunk(chunk: P, bounds: Vec<u32>, writes: bool) -> Self {
        Self { chunks: vec![chunk], bounds: vec![bounds], ..Self::without_chunks(writes) }
    }

    /// Adds a chunk of `len` elements.
    pub fn push(&mut self, chunk: P, len: usize) {
        self.chunks.push(chunk);
        self.lens.push(len);
    }

    /// Returns the last chunks, with at most `most` elements in all.
    pub fn last_chunks(&self, most: usize) -> Range<usize> {
        let (mut first, mut left) = (self.chunks.len(), most);
        while first > 0 && self.lens[first - 1] <= left {
            first -= 1;
            left -= self.lens[first];
        }
        first..self.chunks.len()
    }

    /// Notes how many keys of the next chunk are not among the hot pairs. If these are almost all keys of
    /// several chunks, the other chunks are not looked up.
    pub fn note_missed(&mut self, len: usize, missed: usize) {
        (self.lookups, self.hits) = (self.lookups + len, self.hits + len - missed);
        self.looks &= self.chunks.len() + 1 < SAMPLED || is_worthwhile(self.lookups, self.hits);
    }

    /// Returns the number of elements of all chunks.
    pub fn elements(&self) -> usize {
        self.lens.iter().sum()
    }

    /// Returns the number of elements of a shard.
    pub fn elements_of(&self, shard: usize) -> usize {
        self.lens_of(shard).sum()
    }

    /// Returns the number of elements of a shard in each chunk.
    pub fn lens_of(&self, shard: usize) -> impl Iterator<Item = usize> {
        self.bounds.iter().map(move |bounds| (bounds[shard + 1] - bounds[shard]) as usize)
    }

    /// Returns the elements of a shard in a chunk.
    pub fn part_of(&self, shard: usize, chunk: usize) -> P {
        let (first, end) = (self.bounds[chunk][shard] as usize, self.bounds[chunk][shard + 1] as usize);
        self.chunks[chunk].part(first, end - first)
    }

    /// Returns the elements of a shard, by chunk.
    pub fn parts_of(&self, shard: usize) -> impl Iterator<Item = (usize, P)> {
        let full = self.lens_of(shard).enumerate().filter(|&(_, len)| len > 0);
        full.map(move |(chunk, _)| (chunk, self.part_of(shard, chunk)))
    }
}
