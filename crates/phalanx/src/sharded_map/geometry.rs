//! Division of a batch into chunks, and of a chunk into messages and rounds. All ranks plan the same rounds,
//! because each knows the counts of all.
use exchange::Limits;
use phalanx_kernels::sharded::kernels::Division;
use phalanx_kernels::sharded::{MOST_OWNERS, PIECE, UNIT, message_units, values_at};
use std::ops::Range;

/// Most elements of a chunk: enough that launches take little of its time.
pub const MOST_CHUNK: usize = 1 << 24;

/// Elements of a chunk below which a batch is not divided into more chunks to overlap them. A single rank has
/// nothing to overlap.
const LEAST_CHUNK: usize = 1 << 18;

/// Chunks into which a large batch is divided at least.
const LEAST_CHUNKS: usize = 8;

/// Bytes of a key, and of a value that moves with it or with its answer: 0 if none does.
pub type Sizes = (usize, usize);

/// The numbers that determine places in messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    pub rank: usize,
    pub ranks: usize,
    /// Elements that one part of a window has room for, as a power of two.
    pub room_bits: u32,
    /// Most pieces of a chunk.
    most_pieces: usize,
}

impl Geometry {
    /// Returns the geometry of a map with pairs of `pair` bytes.
    pub fn new(limits: &Limits, (rank, ranks): (usize, usize), pair: usize) -> Self {
        let room_bits = (limits.part_bytes / pair).ilog2();
        let room = 1usize << room_bits;
        // A chunk of uniform keys has three quarters of `room` elements for each owner. So owners may have a
        // third more than others without another round. A single rank sends nothing, and needs no room.
        let most = if ranks == 1 { 4 * room } else { ranks * room / 4 * 3 };
        let most_pieces = (most.min(MOST_CHUNK) / PIECE).max(1);
        Self { rank, ranks, room_bits, most_pieces }
    }

    /// Returns the elements that one part has room for.
    pub fn room(&self) -> usize {
        1 << self.room_bits
    }

    /// Returns the pieces of each chunk of a batch of `len` elements.
    pub fn pieces(&self, len: usize) -> usize {
        let least = len.min(if self.ranks == 1 { MOST_CHUNK } else { LEAST_CHUNK });
        len.div_ceil(LEAST_CHUNKS).max(least).div_ceil(PIECE).clamp(1, self.most_pieces)
    }

    /// Returns the most elements of a chunk.
    pub fn most_chunk(&self) -> usize {
        self.most_pieces * PIECE
    }

    /// Returns the bytes of the messages of a chunk, at most.
    pub fn message_bytes(&self, pair: usize) -> usize {
        self.most_chunk() * pair + 2 * UNIT * self.ranks
    }

    /// Returns the division of chunks of `pieces` pieces, as kernels take it.
    pub fn division(&self, pieces: usize) -> Division {
        let (owners, own) = (self.ranks as u32, self.rank as u32);
        Division { owners, own, room_bits: self.room_bits, pieces: pieces as u32 }
    }

    /// Returns the bytes of a part of `count` elements.
    pub fn part_bytes(count: usize, (key, value): Sizes) -> usize {
        if value == 0 { count * key } else { values_at(count, key) + count * value }
    }

    /// Returns for each owner the byte at which its message of a chunk begins.
    pub fn begins(&self, counts: &[u32], sizes: Sizes) -> Vec<usize> {
        let mut begin = 0;
        let next = |(owner, &count): (usize, &u32)| {
            let bits = if owner == self.rank { 31 } else { self.room_bits };
            let before = begin;
            begin += message_units(count as usize, bits, sizes) * UNIT;
            before
        };
        counts.iter().enumerate().map(next).collect()
    }

    /// Returns the bytes of the part for `owner` in round `round` of a chunk: a range of the messages.
    pub fn sent(&self, counts: &[u32], round: usize, owner: usize, sizes: Sizes) -> Range<usize> {
        let full = (sizes.0 + sizes.1) << self.room_bits;
        let begin = self.begins(counts, sizes)[owner] + round * full;
        let len = Self::part_bytes(self.in_round(counts[owner], round), sizes);
        if len == 0 { 0..0 } else { begin..begin + len }
    }

    /// Returns how many of `count` elements for another rank move in a round.
    pub fn in_round(&self, count: u32, round: usize) -> usize {
        (count as usize).saturating_sub(round << self.room_bits).min(self.room())
    }
}

/// Returns the most elements of a chunk of a batch, whose messages have room for `room` elements each, at
/// least [`PIECE`]. The longest batch of all ranks has `longest` elements, not 0.
pub fn direct_chunk(longest: usize, room: usize) -> usize {
    let most = room.min(MOST_CHUNK) / PIECE * PIECE;
    let chunks = longest.div_ceil(most).max(LEAST_CHUNKS.min(longest.div_ceil(LEAST_CHUNK)));
    longest.div_ceil(chunks).next_multiple_of(PIECE).min(most)
}

/// Returns the first element of a chunk of the longest batch, or its end. Chunks have `chunk` elements, but
/// the first and the last ones a quarter and a half, if there are many: nothing else runs while the first is
/// sent, and while the answers of the last are collected.
pub fn direct_begin(longest: usize, chunk: usize, number: usize) -> usize {
    let quarter = chunk / 4 / PIECE * PIECE;
    if longest < 4 * chunk || quarter == 0 {
        return (number * chunk).min(longest);
    }
    let (middle, many) = (longest - 6 * quarter, (longest - 6 * quarter).div_ceil(chunk));
    let each = middle.div_ceil(many).next_multiple_of(PIECE);
    match number {
        0 | 1 => number * quarter,
        _ if number < 2 + many => (3 * quarter + (number - 2) * each).min(longest - 3 * quarter),
        _ if number == 2 + many => longest - 3 * quarter,
        _ if number == 3 + many => longest - quarter,
        _ => longest,
    }
}

/// Returns whether a map can have this number of ranks.
pub fn is_possible(ranks: usize) -> bool {
    (1..=MOST_OWNERS).contains(&ranks)
}

/// A round of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub chunk: usize,
    pub round: usize,
    /// Whether any two ranks exchange elements in it.
    pub moves: bool,
}

/// The counts of all chunks of all ranks.
#[derive(Debug, Default)]
pub struct Plan {
    /// For each rank, the counts of its chunks: one for each owner.
    counts: Vec<Vec<u32>>,
    ranks: usize,
    pub items: Vec<Item>,
}

impl Plan {
    /// Plans rounds for counts, of which each rank has as many.
    pub fn new(geometry: &Geometry, counts: Vec<Vec<u32>>) -> Self {
        let ranks = geometry.ranks;
        let mut plan = Self { counts, ranks, items: Vec::new() };
        let chunks = plan.counts.first().map_or(0, Vec::len) / ranks;
        for chunk in 0..chunks {
            let most = plan.most(chunk);
            let rounds = (most as usize).div_ceil(geometry.room());
            let item = |round| Item { chunk, round, moves: rounds > 0 };
            plan.items.extend((0..rounds.max(1)).map(item));
        }
        plan
    }

    /// Returns the largest number of elements from a rank to another in a chunk.
    fn most(&self, chunk: usize) -> u32 {
        let pairs = (0..self.ranks).flat_map(|from| (0..self.ranks).map(move |to| (from, to)));
        let counts = pairs.filter(|(from, to)| from != to).map(|(from, to)| self.of(from, chunk)[to]);
        counts.max().unwrap_or(0)
    }

    /// Returns the number of elements of a rank for each owner in a chunk.
    pub fn of(&self, rank: usize, chunk: usize) -> &[u32] {
        &self.counts[rank][chunk * self.ranks..(chunk + 1) * self.ranks]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geometry(ranks: usize) -> Geometry {
        Geometry::new(&Limits { part_bytes: 512, slot_bytes: 256, ..Limits::default() }, (0, ranks), 16)
    }

    #[test]
    fn parts_of_messages_follow_each_other() {
        let geometry = geometry(3);
        assert_eq!((geometry.room(), geometry.most_chunk()), (32, PIECE));
        // 16 bytes each: the own part 160 bytes, two full parts and one of 5 elements for rank 1.
        let counts = [10, 69, 1];
        assert_eq!(geometry.begins(&counts, (8, 8)), [0, 160, 160 + 70 * 16]);
        assert_eq!(geometry.sent(&counts, 1, 1, (8, 8)), 672..1184);
        assert_eq!(geometry.sent(&counts, 2, 1, (8, 8)), 1184..1184 + 48 + 40);
        assert_eq!(geometry.sent(&counts, 1, 2, (8, 8)), 0..0);
    }

    #[test]
    fn rounds_are_those_of_the_largest_count_between_two_ranks() {
        let geometry = geometry(2);
        let plan = Plan::new(&geometry, vec![vec![500, 65, 9, 0], vec![0, 7, 0, 512]]);
        let item = |chunk, round, moves| Item { chunk, round, moves };
        let expected = [item(0, 0, true), item(0, 1, true), item(0, 2, true), item(1, 0, false)];
        assert_eq!((&plan.items[..], plan.of(1, 1)), (&expected[..], &[0, 512][..]));
        assert_eq!([0, 1, 2, 3].map(|round| geometry.in_round(65, round)), [32, 32, 1, 0]);
    }

    #[test]
    fn chunks_fit_a_message() {
        assert_eq!(direct_chunk(1, 1000), PIECE);
        assert_eq!(direct_chunk(5000, 1820), 1536); // 3 pieces, of 1820 elements of room
        assert_eq!(direct_chunk(1 << 14, 1 << 22), 1 << 14);
        assert_eq!(direct_chunk(1 << 20, 1 << 22), 1 << 18);
        // All chunks have about as many elements.
        let chunk = direct_chunk(1 << 26, 7_456_540);
        assert!(chunk <= 7_456_540 && chunk * 9 < (1 << 26) && chunk * 10 - (1 << 26) < 10 * PIECE);
    }

    #[test]
    fn chunks_cover_the_batch() {
        let lens = (1..400).map(|len| 97 * len * PIECE / 100).chain([1, (1 << 31) - 1]);
        for (longest, room) in lens.flat_map(|len| [PIECE, 1820, 9000, 1 << 22].map(|room| (len, room))) {
            let chunk = direct_chunk(longest, room);
            let begins = (0..).map(|number| direct_begin(longest, chunk, number));
            let begins: Vec<_> = begins.take_while(|&begin| begin < longest).collect();
            let ends = begins[1..].iter().copied().chain([longest]);
            assert!(
                begins[0] == 0
                    && begins
                        .iter()
                        .zip(ends)
                        .all(|(&begin, end)| { begin < end && end - begin <= room && end - begin <= chunk }),
                "{longest} elements, room for {room}: chunks begin at {begins:?}"
            );
            assert_eq!(direct_begin(longest, chunk, begins.len()), longest);
        }
    }

    #[test]
    fn large_batches_have_several_chunks() {
        let limits = Limits { part_bytes: 64 << 20, ..Limits::default() };
        let geometry = Geometry::new(&limits, (0, 2), 16);
        assert_eq!((geometry.room(), geometry.pieces(0), geometry.pieces(PIECE + 1)), (1 << 22, 1, 2));
        assert_eq!(geometry.pieces(1 << 20) * PIECE, 1 << 18);
        assert_eq!(geometry.pieces(1 << 26), geometry.most_pieces);
        assert_eq!(geometry.most_chunk(), 6 << 20);
        // A single rank sends nothing.
        let geometry = Geometry::new(&limits, (0, 1), 16);
        assert_eq!([1 << 20, 1 << 26].map(|len| geometry.pieces(len) * PIECE), [1 << 20, 1 << 24]);
    }
}
