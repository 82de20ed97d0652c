//! Scans, sums and sorts of each of many segments.
//!
//! Segment `s` is what stands from `offsets[s]` up to `offsets[s + 1]`, which is not part of it: offsets are
//! one more than segments, as [`Workspace::offsets`](super::Workspace::offsets) makes them, and ascend. Any
//! segment may be empty, and of any length.
mod scan;
mod sort;

pub use scan::{reduce_segments_bytes, scan_segments_bytes, segment_tiles};
pub use sort::{segment_windows, sort_segments_bytes};

use super::any_grid;
use super::scan::Published;
use super::workspace::Cutter;
use crate::{Error, Result};
use gpu::{Buffer, Grid, Stream};
use phalanx_kernels::primitives::segments::{self, List, ListSegments, Segments};
use phalanx_kernels::primitives::words::ClearWords;
use simt::GlobalSlice;

/// Segments of a block that marks them.
const LISTED: usize = segments::THREADS as usize * segments::ITEMS;

/// What all of these make first: a bit an element, and perhaps a list of segments.
#[derive(Clone, Copy)]
struct Marks {
    heads: GlobalSlice<u32>,
    published: Published,
    list: List,
}

impl Marks {
    /// For an array of `len` elements in `count` segments, of which `listed` may have to be listed.
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
    /// - Workspace and offsets live until the stream has done it.
    unsafe fn launch(
        self,
        stream: &Stream,
        offsets: &Buffer<u32>,
        len: usize,
        least: usize,
    ) -> Result<Segments> {
        let segments = Segments { offsets: offsets.slice(), heads: self.heads };
        let blocks = (offsets.len() - 1).div_ceil(LISTED) as u32;
        let kernel = ListSegments {
            segments,
            len: len as u32,
            least: least as u32,
            list: self.list,
            status: self.published.status(),
            tickets: self.published.tickets(),
        };
        // SAFETY: the caller's.
        unsafe {
            stream.launch(any_grid(self.heads.len()), ClearWords { words: self.heads })?;
            self.published.clear(stream)?;
            stream.launch(Grid::new(blocks, segments::THREADS), kernel)?;
        }
        Ok(segments)
    }
}

/// Refuses offsets that are not one more than some number of segments.
fn check_offsets(offsets: &Buffer<u32>) -> Result<usize> {
    let what = "offsets of segments, which are one more than segments";
    offsets.len().checked_sub(1).ok_or(Error::Length { what, expected: 1, found: 0 })
}
