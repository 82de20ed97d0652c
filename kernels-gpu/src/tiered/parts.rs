//! Elements of a shard that lie in several places, one for each chunk of a batch, and kernels that bring them
//! together: one launch then executes all of them.
//!
//! ```text
//! spill       chunk 0: | a a b b b c |   chunk 1: | a b c c c c |   chunk 2: | b b b b c c |
//! row of b    ends 3, 4, 8; first elements 2, 1, 0
//! together    b b b b b b b b
//! ```
//!
//! # Cost
//!
//! Each kernel reads and writes each element once, at neighbouring addresses within a part. A thread also
//! reads the logarithm of the number of parts, in words of 8 bytes.
use super::hot::Pair;
use crate::keyed::kernels::{read_if, write_if};
use simt::{GlobalSlice, Instance, Thread, device, kernel};

/// The parts of a shard in a run of chunks, which have equal lengths.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ShardParts {
    /// A [`part_word`] for each chunk.
    pub row: GlobalSlice<u64>,
    /// Number of elements of the shard in the chunks before.
    pub before: u32,
    /// Index of the first element of the first chunk.
    pub first: u64,
    /// Elements in a chunk.
    pub each: u64,
}

/// Returns the word of a part: its `first` element in its chunk, and `end`, the number of elements of the
/// shard in this chunk and all before.
///
/// ```
/// assert_eq!(phalanx_kernels::tiered::part_word(2, 3), 3 << 32 | 2);
/// ```
pub const fn part_word(first: u32, end: u32) -> u64 {
    (end as u64) << 32 | first as u64
}

#[device(caller)]
impl ShardParts {
    /// Returns the index of element `place` of the shard, counted from the first one of the run, among the
    /// elements of all chunks.
    fn index(self, place: usize) -> usize {
        let (number, mut chunk, mut len) = (self.before as u64 + place as u64, 0, self.row.len());
        // The first chunk whose end is above the number: an empty part has the end of the one before.
        while len > 0 {
            let half = len / 2;
            if self.row.read(chunk + half) >> 32 <= number {
                (chunk, len) = (chunk + half + 1, len - half - 1);
            } else {
                len = half;
            }
        }
        let begin = if chunk == 0 { self.before as u64 } else { self.row.read(chunk - 1) >> 32 };
        let start = self.row.read(chunk) as u32 as u64;
        (self.first + chunk as u64 * self.each + start + number - begin) as usize
    }
}

/// Copies the elements of a shard from their parts to `keys`, which determines their number. Arguments and
/// codes are copied if there are any.
#[kernel]
pub fn tiered_collect<P: Pair + Instance>(
    parts: ShardParts,
    from_keys: GlobalSlice<P::Key>,
    keys: GlobalSlice<P::Key>,
    from_arguments: GlobalSlice<P::Value>,
    arguments: GlobalSlice<P::Value>,
    from_codes: GlobalSlice<u8>,
    codes: GlobalSlice<u8>,
) {
    let place = Thread::index();
    if place >= keys.len() {
        return;
    }
    let from = parts.index(place);
    // All are read before any is written, so that a thread waits for the bus once.
    let key = from_keys.read(from);
    let argument = read_if(from_arguments, from, !arguments.is_empty());
    let code = read_if(from_codes, from, !codes.is_empty());
    keys.write(place, key);
    write_if(arguments, place, argument);
    write_if(codes, place, code);
}

/// Copies the results of a shard to its parts: outcomes, which determine their number, and values if there
/// are any.
#[kernel]
pub fn tiered_hand_out<P: Pair + Instance>(
    parts: ShardParts,
    outcomes: GlobalSlice<u8>,
    to_outcomes: GlobalSlice<u8>,
    values: GlobalSlice<P::Value>,
    to_values: GlobalSlice<P::Value>,
) {
    let place = Thread::index();
    if place >= outcomes.len() {
        return;
    }
    let to = parts.index(place);
    to_outcomes.write(to, outcomes.read(place));
    if !values.is_empty() {
        to_values.write(to, values.read(place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiered::hot::Hot;
    use simt::Grid;
    use simt::emulator::{Emulator, Fault, Options, Schedule, SiteId};

    /// Returns memory with these words.
    fn words<T: simt::Word>(device: &Emulator, words: &[T]) -> GlobalSlice<T> {
        let bytes = size_of_val(words);
        let pointer = device.allocate(bytes, 256).cast::<T>();
        // SAFETY: just allocated with this size; it lives as long as the device.
        unsafe {
            pointer.copy_from(words.as_ptr(), words.len());
            device.mark_initialized(pointer.cast(), bytes);
            GlobalSlice::from_raw_parts(pointer, words.len())
        }
    }

    fn read<T: simt::Word>(slice: GlobalSlice<T>) -> Vec<T> {
        // SAFETY: nothing runs, and all words are initialized.
        (0..slice.len()).map(|index| unsafe { slice.at(index).as_ptr().read() }).collect()
    }

    /// First element and length of the shard's part in each chunk of 10 elements.
    const PARTS: [(u32, u32); 6] = [(2, 3), (5, 0), (9, 1), (0, 0), (6, 4), (3, 0)];

    /// Returns the parts of a run of chunks, and the indices of their elements.
    fn run(device: &Emulator, chunks: std::ops::Range<usize>) -> (ShardParts, Vec<usize>) {
        let ends = PARTS.iter().scan(0, |end, &(_, len)| {
            *end += len;
            Some(*end)
        });
        let row: Vec<u64> = PARTS.iter().zip(ends).map(|(&(first, _), end)| part_word(first, end)).collect();
        let before = PARTS[..chunks.start].iter().map(|&(_, len)| len).sum();
        let row = words(device, &row[chunks.clone()]);
        let of_chunk = |chunk: usize| {
            let (first, len) = PARTS[chunk];
            (first..first + len).map(move |place| 10 * chunk + place as usize)
        };
        let first = 10 * chunks.start as u64;
        (ShardParts { row, before, first, each: 10 }, chunks.flat_map(of_chunk).collect())
    }

    /// Collects the elements of some chunks, and hands them out as results. Returns what is wrong, if
    /// anything.
    fn collected(device: &Emulator, chunks: std::ops::Range<usize>) -> Result<(), &'static str> {
        let from: Vec<u32> = (0..60).map(|place| 100 + place).collect();
        let arguments: Vec<u64> = (0..60).map(|place| 7 * place).collect();
        let codes: Vec<u8> = (0..60).collect();
        let (parts, indices) = run(device, chunks);
        let len = indices.len();
        let keys = words(device, &vec![0u32; len]);
        let (into, bytes) = (words(device, &vec![0u64; len]), words(device, &vec![0u8; len]));
        let collect = TieredCollect::<Hot<u32, u64>> {
            parts,
            from_keys: words(device, &from),
            keys,
            from_arguments: words(device, &arguments),
            arguments: into,
            from_codes: words(device, &codes),
            codes: bytes,
        };
        device.launch(Grid::new(1, 32), collect).map_err(|_| "launch")?;
        let is_right = read(keys).into_iter().eq(indices.iter().map(|&index| from[index]))
            && read(into).into_iter().eq(indices.iter().map(|&index| arguments[index]))
            && read(bytes).into_iter().eq(indices.iter().map(|&index| codes[index]));
        let (outcomes, results) = (words(device, &[99u8; 60]), words(device, &[99u32; 60]));
        let hand_out = TieredHandOut::<Hot<u32, u32>> {
            parts,
            outcomes: bytes,
            to_outcomes: outcomes,
            values: keys,
            to_values: results,
        };
        device.launch(Grid::new(1, 32), hand_out).map_err(|_| "launch")?;
        let returns = |place: usize| {
            let its = if indices.contains(&place) { (codes[place], from[place]) } else { (99, 99) };
            (read(outcomes)[place], read(results)[place]) == its
        };
        match (is_right, (0..60).all(returns)) {
            (true, true) => Ok(()),
            (false, _) => Err("the elements"),
            _ => Err("the results"),
        }
    }

    #[test]
    fn elements_are_collected_and_handed_out() {
        let device = Emulator::new(Options::default());
        for chunks in [0..6, 0..1, 1..6, 2..4, 4..5, 4..6] {
            assert_eq!(collected(&device, chunks.clone()), Ok(()), "{chunks:?}");
        }
    }

    #[test]
    fn results_that_do_not_return_are_found() {
        for (written, wrong) in [("to_outcomes.write", "the results"), ("to_values.write", "the results")] {
            let site = SiteId::find_nth("src/tiered/parts.rs", "tiered_hand_out", written, 0).unwrap();
            let schedule = Schedule::Random { seed: 1 };
            let options = Options { faults: vec![Fault::skip(site)], ..Options::explore(schedule) };
            assert_eq!(collected(&Emulator::new(options), 0..6), Err(wrong));
        }
    }
}
