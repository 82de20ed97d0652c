//! Lookups in several tables: one launch for all of them.
//!
//! Each warp processes elements of one table ([`Sections`]), so it runs the code of a batch for one table. It
//! reads the words of the table's view first, which are in the L1 cache.
//!
//! # Cost
//!
//! As the kernels for one table, see [`kernels`](super::kernels); each warp also reads the ten words of a
//! view. If absent keys are wanted, each of them probes a table in scratch memory, see
//! [`merge`](super::merge): the first of equal keys takes a slot by a compare-and-swap, the others read its
//! key. A warp with absent keys executes one more atomic.
use super::action::reserve;
use super::layout::NOWHERE;
use super::merge::ClaimTable;
use super::mode::Reading;
use super::rows::{Chunk, CopyOut, RowSlice, move_rows};
use super::sections::Sections;
use super::view::{CacheView, Config, Rows, VIEW_WORDS};
use crate::keyed::Outcome;
use crate::keyed::kernels::{read_if, write_if};
use simt::{GlobalSlice, Instance, Tile, kernel};

/// The elements of lookups in several tables, and their outputs. An output that is not wanted is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LookupsOfMany<K> {
    /// Keys, and slots by which equal keys that are absent are merged.
    pub claims: ClaimTable<K>,
    /// Output: a row for each key.
    pub rows: RowSlice,
    /// A row for each table, by position: that of its absent keys.
    pub defaults: Rows,
    /// Whether absent keys get rows.
    pub has_defaults: bool,
    /// Output: the distinct keys that are absent, one behind the other, in any order.
    pub missed: GlobalSlice<K>,
    /// Output: the numbers of their tables.
    pub missed_tables: GlobalSlice<u32>,
    /// Output: for each of them, the index of an element with this key.
    pub missed_indices: GlobalSlice<u32>,
    /// Output: their number, one word, zero before the batch.
    pub missed_count: GlobalSlice<u32>,
    /// Number of the first table, which is added to the numbers of tables in the output.
    pub first_table: u32,
    /// Index of the first key, which is added to the indices in the output.
    pub first_index: u32,
    /// Output: an outcome for each key.
    pub outcomes: GlobalSlice<u8>,
    /// Number of words that a lane moves at once.
    pub chunk: Chunk,
}

/// Looks keys up in several tables. `views` has the words of their views, [`CacheView::to_words`]. Nothing
/// may change the tables meanwhile. A warp for 32 elements of a section.
#[kernel]
pub fn cache_get_of_many<C: Config + Instance>(
    views: GlobalSlice<u64>,
    sections: Sections,
    batch: LookupsOfMany<C::Key>,
) {
    let (warp, section) = (Tile::<32>::lockstep(), sections.of_warp(1));
    let index = section.index(1);
    // Warps behind the last element have a section without a table.
    let table = if index < section.end { section.table as usize } else { 0 };
    let table = warp.shuffle(table as u32, 0) as usize;
    let words = views.part(table * VIEW_WORDS, VIEW_WORDS);
    // SAFETY: these are the words of the table's view.
    let view: CacheView<C> = unsafe { CacheView::from_words(|word| words.read(word)) };
    let exists = index < section.end;
    let key = read_if(batch.claims.keys, index as usize, exists);
    let position = C::search::<Reading>(view, exists, key).position;
    let mover = CopyOut::<false> { to: batch.rows };
    move_rows(view.rows(), batch.chunk, warp, (position, index), mover);
    let is_missed = exists && position == NOWHERE;
    if warp.any(is_missed) {
        if batch.has_defaults {
            let row = if is_missed { section.table } else { NOWHERE };
            move_rows(batch.defaults, batch.chunk, warp, (row, index), mover);
        }
        if !batch.missed_count.is_empty() {
            let is_first = is_missed && batch.claims.owner(section, key, index) == index;
            let place = reserve(warp, batch.missed_count, is_first) as usize;
            if is_first {
                write_if(batch.missed, place, key);
                write_if(batch.missed_tables, place, batch.first_table + section.table);
                write_if(batch.missed_indices, place, batch.first_index + index);
            }
        }
    }
    if exists {
        let outcome = if is_missed { Outcome::Absent } else { Outcome::Found };
        write_if(batch.outcomes, index as usize, outcome as u8);
    }
}
