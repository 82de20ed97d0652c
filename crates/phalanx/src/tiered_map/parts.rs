//! Launches for the elements of a shard that lie in many chunks of the spill.
//!
//! A launch for each part would be short: a batch of 2^26 elements has some 50 chunks, and each shard some
//! thousand elements in each. So a kernel first brings the elements of all chunks together on the device,
//! one launch executes them, and another kernel returns the results to the parts. The memory for this is that
//! of the chunk buffers, which are not used while shards are served. Their columns are divided into areas,
//! one for each stream that serves shards. The words that tell the parts are in the first chunk buffer, too.
use super::chunk::{Columns, Has};
use super::plan::{DEPTH, PLACES};
use super::shards::Shards;
use super::tiers::Tiers;
use super::work::Work;
use crate::Result;
use crate::map::encoding::Word;
use crate::map::launch::{BatchOp, THREADS, nothing};
use gpu::{Grid, Stream};
use phalanx_kernels::tiered::hot::Hot;
use phalanx_kernels::tiered::part_word;
use phalanx_kernels::tiered::parts::{ShardParts, TieredCollect, TieredHandOut, windows};
use simt::GlobalSlice;
use std::ops::Range;

/// Number of parts up to which each one is launched: to bring elements together and to return results takes
/// two more launches.
const FEW: usize = 3;

/// Blocks on a multiprocessor of a kernel that moves elements over the bus. They suffice for its bandwidth,
/// and leave room for the kernels of other shards.
const BUS_BLOCKS: u32 = 2;

/// The elements of a batch in the spill.
#[derive(Clone, Copy)]
pub struct Spilled {
    op: BatchOp,
    has: Has,
    /// On the device: for each shard a word for each chunk.
    words: GlobalSlice<u64>,
    /// Elements of all chunks.
    len: usize,
    /// Elements of a chunk.
    each: usize,
}

/// Stream that executes elements of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Area {
    /// The stream of a slot.
    OfSlot(usize),
    /// A stream of operations in place.
    OfPlace(usize),
}

impl Area {
    fn index(self) -> usize {
        match self {
            Self::OfSlot(slot) => slot % DEPTH,
            Self::OfPlace(place) => DEPTH + place % PLACES,
        }
    }
}

/// Columns of elements that are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The keys are read.
    Keys,
    /// The columns of the operation are read, and its results written.
    Operation,
}

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Writes the parts of all shards to the device, if there is room. Waits. Nothing may use the chunk
    /// buffers, and the elements of `work` are in the spill.
    pub fn list_parts(
        &self,
        (op, has): (BatchOp, Has),
        work: &Work<S::Part>,
        chunks: &[Range<usize>],
    ) -> Result<Option<Spilled>> {
        let (len, many) = (chunks.last().map_or(0, |last| last.end), chunks.len());
        let room = self.buffers[0].words();
        // SAFETY: this is the same memory, which is aligned for words of 8 bytes.
        let room = unsafe { GlobalSlice::<u64>::from_raw_parts(room.as_ptr().cast(), room.len() / 2) };
        if len > u32::MAX as usize || self.shards.len() * many > room.len() {
            return Ok(None);
        }
        let listed: Vec<u64> = (0..self.shards.len()).flat_map(|shard| row(&work.bounds, shard)).collect();
        let words = room.part(0, listed.len());
        let stream = &self.buffers[0].stream;
        // SAFETY: the chunk buffers live until the stream is waited for, and nothing else uses them.
        let uploaded = unsafe { stream.upload(words, &listed) };
        stream.synchronize()?;
        uploaded?;
        Ok(Some(Spilled { op, has, words, len, each: chunks[0].len() }))
    }

    /// Submits work on the elements of a shard: calls `launch` with elements, and then with the chunks that
    /// they come from `launched`.
    ///
    /// # Safety
    /// - The elements live until the stream has executed the work. No other stream uses the shard or the
    ///   area.
    pub unsafe fn launch_parts(
        &self,
        stream: &Stream,
        work: &Work<S::Part>,
        (shard, area, uses): (usize, Area, Use),
        mut launch: impl FnMut(S::Part) -> Result<()>,
        mut launched: impl FnMut(usize),
    ) -> Result<()> {
        let lens: Vec<usize> = work.lens_of(shard).collect();
        let columns = work.spilled.map(|spilled| (spilled, self.area(area)));
        let room = columns.map_or(0, |(_, columns)| columns.keys.len());
        for run in runs(&lens, room) {
            let full = run.clone().filter(|&chunk| lens[chunk] > 0);
            match columns.filter(|_| full.clone().count() > FEW) {
                Some((spilled, columns)) => {
                    let before = lens[..run.start].iter().sum();
                    let columns = columns.part(0..lens[run.clone()].iter().sum());
                    let together = Together { spilled, shard, before, run, columns };
                    // SAFETY: the caller's obligations.
                    unsafe { self.launch_together(stream, together, uses, &mut launch)? };
                    full.for_each(&mut launched);
                }
                None => {
                    for chunk in full {
                        launch(work.part_of(shard, chunk))?;
                        launched(chunk);
                    }
                }
            }
        }
        Ok(())
    }

    /// Submits work on elements that are first brought together.
    ///
    /// # Safety
    /// - As for [`Self::launch_parts`].
    unsafe fn launch_together(
        &self,
        stream: &Stream,
        together: Together<K, V>,
        uses: Use,
        launch: impl FnOnce(S::Part) -> Result<()>,
    ) -> Result<()> {
        let Together { spilled, columns, .. } = together;
        let (from, has, parts) = (self.spill.columns(0..spilled.len), spilled.has, together.parts());
        let has_all = uses == Use::Operation;
        let grid = self.grid_of_windows(windows(columns.keys.len(), parts.row.len()));
        let kernel = TieredCollect::<Hot<K, V>> {
            parts,
            from_keys: from.keys,
            keys: columns.keys,
            from_arguments: from.arguments,
            arguments: if has_all && has.arguments { columns.arguments } else { nothing() },
            from_codes: from.codes,
            codes: if has_all && has.codes { columns.codes } else { nothing() },
        };
        // SAFETY: the caller's obligations; spill and areas live as long as the map, which waits.
        unsafe { stream.launch(grid, kernel)? };
        launch(columns.batch(spilled.op, has).into())?;
        let kernel = TieredHandOut::<Hot<K, V>> {
            parts,
            outcomes: columns.outcomes,
            to_outcomes: from.outcomes,
            values: if has.results { columns.results } else { nothing() },
            to_values: from.results,
        };
        match has_all {
            // SAFETY: as above.
            true => unsafe { Ok(stream.launch(grid, kernel)?) },
            false => Ok(()),
        }
    }

    /// Returns the grid of a kernel that moves windows over the bus: no larger than the bus can use.
    fn grid_of_windows(&self, many: usize) -> Grid {
        let (all, most) = (Grid::for_items(32 * many, THREADS), BUS_BLOCKS * self.device.multiprocessors());
        Grid { blocks: all.blocks.min(most), ..all }
    }

    /// Returns the memory of a stream for elements: an eighth or so of the chunk buffers' columns.
    fn area(&self, area: Area) -> Columns<K, V> {
        let (index, many) = (area.index(), self.buffers.len());
        let (buffer, part) = (&self.buffers[index % many], index / many);
        let half = self.plan.chunk / 2;
        let columns = if part < 2 { buffer.given(2 * half) } else { buffer.moved(2 * half) };
        columns.part(part % 2 * half..(part % 2 + 1) * half)
    }
}

/// Elements of a shard that are brought together.
struct Together<K, V> {
    spilled: Spilled,
    shard: usize,
    /// Elements of the shard in the chunks before the run.
    before: usize,
    /// The chunks that the elements come from.
    run: Range<usize>,
    /// Their copy on the device.
    columns: Columns<K, V>,
}

impl<K, V> Together<K, V> {
    fn parts(&self) -> ShardParts {
        let Spilled { words, len, each, .. } = self.spilled;
        let row = words.part(self.shard * len.div_ceil(each) + self.run.start, self.run.len());
        let first = (self.run.start * each) as u64;
        ShardParts { row, before: self.before as u32, first, each: each as u64 }
    }
}

/// Returns the words of a shard's parts.
fn row(bounds: &[Vec<u32>], shard: usize) -> impl Iterator<Item = u64> {
    bounds.iter().scan(0, move |end, bounds| {
        *end += bounds[shard + 1] - bounds[shard];
        Some(part_word(bounds[shard], *end))
    })
}

/// Returns runs of chunks: of at most `room` elements in all, or of one chunk.
fn runs(lens: &[usize], room: usize) -> Vec<Range<usize>> {
    let (mut runs, mut first, mut all) = (Vec::new(), 0, 0);
    for (chunk, &len) in lens.iter().enumerate() {
        if all + len > room && chunk > first {
            runs.push(first..chunk);
            (first, all) = (chunk, 0);
        }
        all += len;
    }
    runs.push(first..lens.len());
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_room() {
        assert_eq!(runs(&[3, 0, 4, 2, 9, 1, 0, 5], 7), [0..3, 3..4, 4..5, 5..8]);
        assert_eq!(runs(&[3, 4], 0), [0..1, 1..2]);
        assert_eq!(runs(&[], 9), std::slice::from_ref(&(0..0)));
    }

    #[test]
    fn rows_tell_the_parts() {
        let bounds = [vec![0, 2, 5], vec![0, 0, 4], vec![0, 3, 3]];
        assert!(row(&bounds, 0).eq([part_word(0, 2), part_word(0, 2), part_word(0, 5)]));
        assert!(row(&bounds, 1).eq([part_word(2, 3), part_word(0, 7), part_word(3, 7)]));
    }

    /// Streams of slots and of operations in place run at the same time.
    #[test]
    fn areas_differ() {
        let all = (0..DEPTH).map(Area::OfSlot).chain((0..PLACES).map(Area::OfPlace));
        assert!(all.map(Area::index).eq(0..DEPTH + PLACES));
        const { assert!(DEPTH + PLACES <= 4 * super::super::plan::CHUNK_BUFFERS) };
    }
}
