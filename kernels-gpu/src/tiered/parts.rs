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
//! Each kernel reads and writes each element once, at neighbouring addresses within a part. For each window
//! of 128 elements, a warp also reads words of 8 bytes: as many as the logarithm of the number of parts.
use super::hot::Pair;
use crate::keyed::kernels::{read_if, write_if};
use simt::{Global, GlobalSlice, Instance, Order, Scope, Thread, device, kernel};

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

/// Elements of a window. A warp moves those of one part at a time, so that each access to the spill is a line
/// of 128 bytes, except at the ends of a part.
pub const WINDOW: usize = 128;

/// Elements of a window that a lane moves.
const OF_LANE: [usize; WINDOW / 32] = [0, 1, 2, 3];

/// Returns the number of windows of `len` elements in `parts` parts. Some of them are empty.
///
/// ```
/// use phalanx_kernels::tiered::parts::windows;
///
/// assert_eq!(windows(1000, 3), 1000 / 128 + 2 * 3);
/// ```
pub const fn windows(len: usize, parts: usize) -> usize {
    len / WINDOW + 2 * parts
}

/// A window of the spill, and the elements of one part in it.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// Index of the window's first element in the spill, a multiple of [`WINDOW`].
    first: usize,
    /// The part: indices of its first element and behind its last one.
    begin: usize,
    end: usize,
    /// Elements of the run before the part.
    before: usize,
}

#[device(caller)]
impl Window {
    /// Returns whether the part has the element at an index of the window.
    fn has(self, index: usize) -> bool {
        self.begin <= index && index < self.end
    }

    /// Returns whether the part has all elements of the window.
    fn is_full(self) -> bool {
        self.begin <= self.first && self.first + WINDOW <= self.end
    }

    /// Returns the place in the run of an element of the part.
    fn place(self, index: usize) -> usize {
        self.before + (index - self.begin)
    }
}

#[device(caller)]
impl ShardParts {
    /// Returns a window by its number. A part begins and ends anywhere, so it touches at most two windows
    /// more than it could fill: part number `c` behind `n` elements has the windows from
    /// `n / WINDOW + 2 c` on.
    fn window(self, number: usize) -> Window {
        let (mut chunk, mut len) = (0, self.row.len());
        // The first part whose windows end above the number.
        while len > 0 {
            let half = len / 2;
            if windows(self.end(chunk + half), chunk + half + 1) <= number {
                (chunk, len) = (chunk + half + 1, len - half - 1);
            } else {
                len = half;
            }
        }
        let before = if chunk == 0 { 0 } else { self.end(chunk - 1) };
        let start = self.row.read(chunk) as u32 as usize;
        let begin = (self.first + chunk as u64 * self.each) as usize + start;
        let first = (begin / WINDOW + number - windows(before, chunk)) * WINDOW;
        Window { first, begin, end: begin + self.end(chunk) - before, before }
    }

    /// Returns the number of elements of the run up to the end of a part.
    fn end(self, chunk: usize) -> usize {
        ((self.row.read(chunk) >> 32) - self.before as u64) as usize
    }
}

/// Calls `body` for each window that the thread's warp moves, with the window and the lane.
#[device(caller)]
fn each_window(parts: ShardParts, len: usize, mut body: impl FnMut(Window, usize)) {
    let (mut number, all) = (Thread::index() / 32, windows(len, parts.row.len()));
    while number < all {
        body(parts.window(number), Thread::index() % 32);
        number += Thread::count() / 32;
    }
}

/// Calls `body` for each element of a window that a lane moves.
#[device(caller)]
fn each_turn(body: impl FnMut(usize)) {
    let _: [(); OF_LANE.len()] = OF_LANE.map(body);
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
    each_window(parts, keys.len(), |window, lane| {
        let index = |turn: usize| window.first + 32 * turn + lane;
        // All are read before any is written, so that a thread waits for the bus once.
        let read = OF_LANE.map(|turn| {
            let (from, has) = (index(turn), window.has(index(turn)));
            let argument = read_if(from_arguments, from, has && !arguments.is_empty());
            (read_if(from_keys, from, has), argument, read_if(from_codes, from, has && !codes.is_empty()))
        });
        each_turn(|turn| {
            if window.has(index(turn)) {
                let (place, (key, argument, code)) = (window.place(index(turn)), read[turn]);
                keys.write(place, key);
                write_if(arguments, place, argument);
                write_if(codes, place, code);
            }
        });
    });
}

/// Copies the results of a shard to its parts: outcomes, which determine their number, and values if there
/// are any. `to_outcomes` is aligned to 4 bytes.
#[kernel]
pub fn tiered_hand_out<P: Pair + Instance>(
    parts: ShardParts,
    outcomes: GlobalSlice<u8>,
    to_outcomes: GlobalSlice<u8>,
    values: GlobalSlice<P::Value>,
    to_values: GlobalSlice<P::Value>,
) {
    each_window(parts, outcomes.len(), |window, lane| {
        if window.is_full() {
            hand_out_word(window, lane, (outcomes, to_outcomes));
        }
        each_turn(|turn| {
            let index = window.first + 32 * turn + lane;
            if window.has(index) {
                let place = window.place(index);
                if !window.is_full() {
                    to_outcomes.write(index, outcomes.read(place));
                }
                if !values.is_empty() {
                    to_values.write(index, values.read(place));
                }
            }
        });
    });
}

/// Copies four outcomes of a full window in one word: bytes of single lanes would be written to the host in
/// pieces of 32 bytes.
#[device]
fn hand_out_word(window: Window, lane: usize, (outcomes, to_outcomes): (GlobalSlice<u8>, GlobalSlice<u8>)) {
    let first = window.first + OF_LANE.len() * lane;
    let place = window.place(first);
    let word = u32::from_le_bytes(OF_LANE.map(|turn| outcomes.read(place + turn)));
    // SAFETY: all four outcomes are in the window, which is aligned as the memory is.
    let to = unsafe { Global::<u32>::new(to_outcomes.at(first).as_ptr().cast()) };
    to.store(word, Order::Weak, Scope::Device);
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

    /// Elements in a chunk, and in all chunks.
    const EACH: usize = 512;
    const ALL: usize = EACH * PARTS.len();
    /// First element and length of the shard's part in each chunk.
    const PARTS: [(u32, u32); 6] = [(2, 300), (500, 0), (511, 1), (0, 0), (128, 384), (3, 0)];

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
            (first..first + len).map(move |place| EACH * chunk + place as usize)
        };
        let first = (EACH * chunks.start) as u64;
        (ShardParts { row, before, first, each: EACH as u64 }, chunks.flat_map(of_chunk).collect())
    }

    /// Collects the elements of some chunks, and hands them out as results. Returns what is wrong, if
    /// anything.
    fn collected(device: &Emulator, chunks: std::ops::Range<usize>) -> Result<(), &'static str> {
        let from: Vec<u32> = (0..ALL as u32).map(|place| 100 + place).collect();
        let arguments: Vec<u64> = (0..ALL as u64).map(|place| 7 * place).collect();
        let codes: Vec<u8> = (0..ALL).map(|place| (place % 97) as u8).collect();
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
        let (outcomes, results) = (words(device, &[99u8; ALL]), words(device, &[99u32; ALL]));
        let hand_out = TieredHandOut::<Hot<u32, u32>> {
            parts,
            outcomes: bytes,
            to_outcomes: outcomes,
            values: keys,
            to_values: results,
        };
        device.launch(Grid::new(1, 32), hand_out).map_err(|_| "launch")?;
        let returned: Vec<_> = read(outcomes).into_iter().zip(read(results)).collect();
        let returns = |place: usize| {
            returned[place] == if indices.contains(&place) { (codes[place], from[place]) } else { (99, 99) }
        };
        match (is_right, (0..ALL).all(returns)) {
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
        for (function, written) in [
            ("tiered_hand_out", "to_outcomes.write"),
            ("hand_out_word", "to.store"),
            ("tiered_hand_out", "to_values.write"),
        ] {
            let site = SiteId::find_nth("src/tiered/parts.rs", function, written, 0).unwrap();
            let schedule = Schedule::Random { seed: 1 };
            let options = Options { faults: vec![Fault::skip(site)], ..Options::explore(schedule) };
            assert_eq!(collected(&Emulator::new(options), 0..6), Err("the results"), "{written}");
        }
    }
}
