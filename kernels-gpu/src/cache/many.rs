//! Batches for several tables: one launch for all of them.
//!
//! Each warp processes elements of one table ([`Parts`]), so it runs the code of a batch for one table. The
//! tables' views are arguments of the kernel.
//!
//! # Cost
//!
//! As the kernels for one table: see [`kernels`](super::kernels). A key that is absent claims a slot of a
//! table in scratch memory if absent keys are wanted: see [`merge`](super::merge).
use super::action::{ReadRows, reserve};
use super::change::{Changes, change};
use super::merge::Claims;
use super::parts::{MOST_TABLES, Parts};
use super::policy::Time;
use super::rows::{Chunk, CopyOut, RowSlice, move_rows};
use super::search::{Placing, Reading};
use super::view::{CacheView, Config, NOWHERE, Rows};
use crate::keyed::Outcome;
use crate::keyed::kernels::{read_if, write_if};
use simt::{GlobalSlice, Instance, Tile, kernel};

/// A table of a batch for several.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Member<C: Config> {
    /// The table.
    pub view: CacheView<C>,
    /// Time of the batch in this table.
    pub time: Time,
    /// Parameter of the table's score policy.
    pub parameter: u32,
}

/// The tables of a batch, and their parts of it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Members<C: Config> {
    /// The tables, in the order of the parts; after the last one, any.
    pub members: [Member<C>; MOST_TABLES],
    /// The parts.
    pub parts: Parts,
}

/// The elements of lookups in several tables, and their outputs. An output that is not wanted is empty.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct LookupsOfMany<K> {
    /// Keys, and slots by which equal keys that are absent are merged.
    pub claims: Claims<K>,
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

/// Looks keys up in several tables. Nothing may change the tables meanwhile. A warp for 32 elements of a
/// part.
#[kernel]
pub fn cache_get_of_many<C: Config + Instance>(tables: Members<C>, batch: LookupsOfMany<C::Key>) {
    let (warp, part) = (Tile::<32>::lockstep(), tables.parts.of_warp(1));
    let view = tables.members[part.table as usize % MOST_TABLES].view;
    let index = part.index(1);
    let exists = index < part.end;
    let key = read_if(batch.claims.keys, index as usize, exists);
    let position = C::search::<Reading>(view, exists, key).position;
    let mover = CopyOut::<false> { to: batch.rows };
    move_rows(view.rows(), batch.chunk, warp, (position, index), mover);
    let is_missed = exists && position == NOWHERE;
    if warp.any(is_missed) {
        if batch.has_defaults {
            let row = if is_missed { part.table } else { NOWHERE };
            move_rows(batch.defaults, batch.chunk, warp, (row, index), mover);
        }
        if !batch.missed_count.is_empty() {
            let is_first = is_missed && batch.claims.owner(part, key, index) == index;
            let place = reserve(warp, batch.missed_count, is_first) as usize;
            if is_first {
                write_if(batch.missed, place, key);
                write_if(batch.missed_tables, place, batch.first_table + part.table);
                write_if(batch.missed_indices, place, batch.first_index + index);
            }
        }
    }
    if exists {
        let outcome = if is_missed { Outcome::Absent } else { Outcome::Found };
        write_if(batch.outcomes, index as usize, outcome as u8);
    }
}

/// Copies the rows of keys that are present in their tables to `to`, and places the others. The batch has
/// the elements of each part by keys, from the index of its first element on, and outcomes likewise. `counts`
/// has two words for each table, of which the second is the number of its keys. A warp for 32 keys of a part.
#[kernel]
pub fn cache_get_or_insert_of_many<C: Config + Instance>(
    tables: Members<C>,
    batch: Changes<C::Key, C::Score>,
    counts: GlobalSlice<u32>,
    to: RowSlice,
) {
    let part = tables.parts.of_warp(1);
    let member = tables.members[part.table as usize % MOST_TABLES];
    let (first, len) = (part.first as usize, counts.read(2 * part.table as usize + 1) as usize);
    let batch = Changes {
        keys: batch.keys.part(first, len),
        ends: batch.ends.part(first, len),
        order: batch.order.part(first, part.len()),
        outcomes: batch.outcomes.part(first, len),
        first_thread: part.first_thread(),
        time: member.time,
        parameter: member.parameter,
        ..batch
    };
    change(member.view, batch, ReadRows::<Placing>::to(to));
}
