//! Primitives on device buffers: radix sort, scan, reduce, compaction, histograms, runs, merge; sorts, scans
//! and reductions of segments.
//!
//! They are methods of a [`Workspace`], which holds the stream and the temporary memory:
//!
//! ```
//! use phalanx::Device;
//! use phalanx::primitives::{Bits, Workspace, sort_bytes};
//!
//! let device = Device::from_environment()?;
//! let mut keys = device.from_slice(&[3u32, 1, 2, 1])?;
//! let mut values = device.from_slice(&[30u32, 10, 20, 11])?;
//! let mut work = Workspace::on_device(&device, sort_bytes::<u32, u32>(keys.len()))?;
//! work.sort_pairs_in_place(&mut keys, &mut values, Bits::ALL)?;
//! assert_eq!(keys.read()?, [1, 1, 2, 3]);
//! assert_eq!(values.read()?, [10, 11, 20, 30]);
//! # Ok::<(), phalanx::Error>(())
//! ```
//!
//! | call | what it does | algorithm |
//! |---|---|---|
//! | [`sort_keys`](Workspace::sort_keys), [`sort_pairs`](Workspace::sort_pairs) | stable sorts by any bits of the keys | Adinets and Merrill, 2022 |
//! | [`exclusive_scan`](Workspace::exclusive_scan), [`inclusive_scan`](Workspace::inclusive_scan), [`offsets`](Workspace::offsets) | prefix sums, minima or maxima, without or with each element | Merrill and Garland, 2016 |
//! | [`reduce`](Workspace::reduce), [`histogram`](Workspace::histogram) | sum, minimum or maximum of all elements; counts by value | |
//! | [`compact`](Workspace::compact), [`partition`](Workspace::partition), [`unique`](Workspace::unique) | selection of the elements that pass a test | the scan |
//! | [`reduce_by_key`](Workspace::reduce_by_key), [`run_lengths`](Workspace::run_lengths) | reduction of each run of equal keys | the scan |
//! | [`merge_keys`](Workspace::merge_keys), [`merge_pairs`](Workspace::merge_pairs) | merge of two sorted arrays | Odeh and others, 2012 |
//! | [`reduce_segments`](Workspace::reduce_segments), [`exclusive_scan_segments`](Workspace::exclusive_scan_segments) | reduction and scan of each segment | the scan |
//! | [`sort_segments`](Workspace::sort_segments), [`sort_segment_pairs`](Workspace::sort_segment_pairs) | stable sort of each segment | the sort, and merges in blocks |
//!
//! Elements are `u32` or `u64`. Lengths are in elements, workspaces in bytes. Costs count memory reads and
//! writes; a launch takes some microseconds. `docs/structures/primitives.md` describes how all of them work,
//! what each costs, and the measurements.
//!
//! # Cost
//!
//! Each call states the memory that it reads and writes, and its launches. It allocates nothing and does not
//! wait. `sort_bytes`, `scan_bytes` and the other functions that return bytes or names compute them on the
//! host, O(1), without access to a device.
mod choose;
mod radix;
pub(crate) mod rebuild_steps;
mod runs;
mod scan;
mod segments;
mod sort;
mod workspace;

pub(crate) use workspace::{Cutter, last_used};

pub use choose::{Test, compact_bytes, merge_bytes};
pub use runs::runs_bytes;
pub use scan::{Fold, scan_bytes, scan_tiles};
pub use segments::{
    reduce_segments_bytes, scan_segments_bytes, segment_tiles, segment_windows, sort_segments_bytes,
};
pub use sort::{Bits, sort_bytes, sort_tiles};
pub use workspace::Workspace;

pub use crate::number::Number;
use crate::{Error, Result};
use gpu::Grid;
use phalanx_kernels::primitives::Tiled;
use std::any::TypeId;

/// Threads per block of kernels that need no particular number.
const THREADS: u32 = 256;

/// Maximum number of blocks of kernels whose threads process several elements.
const MOST_BLOCKS: u32 = 2048;

/// Returns a grid for kernels whose threads process any number of elements.
fn any_grid(items: usize) -> Grid {
    let grid = Grid::for_items(items, THREADS);
    Grid { blocks: grid.blocks.min(MOST_BLOCKS), ..grid }
}

/// Returns an error if the lengths differ.
fn check_len(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}

/// Returns an error if there are more than `most` elements.
fn check_count(what: &'static str, asked: usize, most: usize) -> Result<()> {
    if asked <= most { Ok(()) } else { Err(Error::TooMany { what, asked, most }) }
}

/// A plan for which kernels are compiled.
#[derive(Clone, Copy)]
struct PlanId {
    plan: TypeId,
    /// Number of elements of a tile or, for sorts of short segments, of the longest of them.
    size: usize,
}

impl PlanId {
    /// Returns whether this is the plan `P`.
    fn is<P: Tiled>(self) -> bool {
        self.plan == TypeId::of::<P>()
    }
}

/// Visitor that selects a plan for the types of a call: the one with the given tile or, without one, the
/// first.
struct Select<'a> {
    types: TypeId,
    tile: Option<&'a str>,
    /// Name of the types.
    what: &'static str,
    /// Names of the tiles of all plans for the types.
    tiles: Vec<&'static str>,
}

impl<'a> Select<'a> {
    fn new(types: TypeId, tile: Option<&'a str>) -> Self {
        Self { types, tile, what: "elements", tiles: Vec::new() }
    }

    /// Returns a visitor that selects nothing and sees all tiles.
    fn all(types: TypeId) -> Self {
        Self::new(types, Some(""))
    }

    fn see<P: Tiled>(&mut self, size: usize) -> Option<PlanId> {
        if TypeId::of::<P::Types>() != self.types {
            return None;
        }
        self.what = P::TYPES;
        self.tiles.push(P::TILE);
        self.tile.is_none_or(|tile| tile == P::TILE).then_some(PlanId { plan: TypeId::of::<P>(), size })
    }

    /// Returns the selected plan.
    fn found(self, plan: Option<PlanId>) -> Result<PlanId> {
        plan.ok_or_else(|| Error::UnknownTile {
            asked: self.tile.unwrap_or_default().to_owned(),
            what: self.what.to_owned(),
            known: self.tiles.join(", "),
        })
    }
}

/// Defines `plan(types, tile)`, which selects a plan of the list `$list`, and `tiles(types)`, which returns
/// the names of its tiles. `$size` is the size of the plan `$plan`.
macro_rules! plans {
    ($vis:vis $list:ident: $bound:path, |$plan:ident| $size:expr) => {
        impl $list::Visitor for $crate::primitives::Select<'_> {
            type Output = $crate::primitives::PlanId;

            fn visit<$plan: $bound + simt::Instance>(&mut self) -> Option<Self::Output> {
                self.see::<$plan>($size)
            }
        }

        $vis fn plan(types: std::any::TypeId, tile: Option<&str>) -> Result<$crate::primitives::PlanId> {
            let mut select = $crate::primitives::Select::new(types, tile);
            let plan = $list::visit(&mut select);
            select.found(plan)
        }

        $vis fn tiles(types: std::any::TypeId) -> Vec<&'static str> {
            let mut select = $crate::primitives::Select::all(types);
            $list::visit(&mut select);
            select.tiles
        }
    };
}
use plans;

/// Returns the result of a launch by a visitor, which does nothing if no kernel is compiled for the types.
fn launched(result: Option<Result<()>>) -> Result<()> {
    result.unwrap_or_else(|| Err(Error::Invalid("no kernel is compiled for these types".to_owned())))
}
