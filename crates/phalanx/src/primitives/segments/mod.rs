//! Scans, reductions and sorts of many segments.
//!
//! Segment `s` has the elements from `offsets[s]` up to but excluding `offsets[s + 1]`. There is one offset
//! more than segments, as [`Workspace::offsets`](super::Workspace::offsets) writes them, and offsets ascend.
//! Segments may be empty, and of any length.
mod scan;
mod sort;

pub use scan::{reduce_segments_bytes, scan_segments_bytes, segment_tiles};
pub use sort::{segment_windows, sort_segments_bytes};

use super::any_grid;
use super::scan::Published;
use super::workspace::Cutter;
use crate::{Error, Result};
use gpu::{Grid, Slice, Stream};
use phalanx_kernels::primitives::segments::{self, List, ListSegments, Segments};
use phalanx_kernels::primitives::words::ClearWords;
use simt::GlobalSlice;

/// Segments that one block marks.
const LISTED: usize = segments::THREADS as usize * segments::ITEMS;

/// Data that all operations on segments compute first: a bit per element, which marks segment heads, and
/// possibly a list of segments.
#[derive(Clone, Copy)]
struct Marks {
    heads: GlobalSlice<u32>,
    published: Published,
    list: List,
}

impl Marks {
    /// Allocates for an array of `len` elements in `count` segments, of which at most `listed` are listed.
    fn cut(cutter: &mut Cutter, len: usize, count: usize, listed: usize, starts: usize) -> Self {
        let tiles = if listed > 0 { count.div_ceil(LISTED) } else { 0 };
        let published = Published::cut(cutter, tiles, 2);
        let segments = cutter.words(listed);
        let list = List { segments, starts: cutter.words(starts), counts: published.counts() };
        Self { heads: cutter.words(segments::words(len)), published, list }
    }

    /// Marks segments, and lists those of more than `least` elements.
    ///
    /// # Safety
    /// - Workspace and offsets live until the stream has executed the launches.
    unsafe fn launch(
        self,
        stream: &Stream,
        offsets: Slice<'_, u32>,
        len: usize,
        least: usize,
    ) -> Result<Segments> {
        let segments = Segments { offsets: offsets.global(), heads: self.heads };
        let blocks = (offsets.len() - 1).div_ceil(LISTED) as u32;
        let kernel = ListSegments {
            segments,
            len: len as u32,
            least: least as u32,
            list: self.list,
            status: self.published.status(),
            tickets: self.published.tickets(),
        };
        // SAFETY: the caller's obligations.
        unsafe {
            stream.launch(any_grid(self.heads.len()), ClearWords { words: self.heads })?;
            self.published.clear(stream)?;
            stream.launch(Grid::new(blocks, segments::THREADS), kernel)?;
        }
        Ok(segments)
    }
}

/// Returns the number of segments, or an error if there are no offsets.
fn check_offsets(offsets: Slice<'_, u32>) -> Result<usize> {
    let what = "offsets of segments, which are one more than segments";
    offsets.len().checked_sub(1).ok_or(Error::Length { what, expected: 1, found: 0 })
}
