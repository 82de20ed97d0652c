//! Messages of fixed size, whose counts stay on the device: for small batches, and for lookups in the tables
//! of other ranks.
//!
//! ```text
//! message   header of 16 bytes: the count, in its first word · keys · padding to 16 bytes · values
//! answers   values · outcomes
//! ```
//!
//! Each message has room for all elements of the batch, so that no count matters to the host. The order of
//! the elements in a message is that in which warps draw places, and `places` keeps it for the answers.
//!
//! # Cost
//!
//! Both kernels read and write each element once. [`sharded_route`] executes an atomic per warp and owner.
use super::geometry::{UNIT, values_at};
use super::kernels::{Answers, Division, Piece, Place, Sharded};
use super::owner::owner_of;
use crate::keyed::Scalar;
use simt::{GlobalSlice, Instance, Order, Scope, Thread, device, kernel};

/// Bytes of a message before its keys.
pub const HEADER: usize = UNIT;

/// Sizes of the messages.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fixed {
    /// Number of ranks.
    pub owners: u32,
    /// Elements that a message has room for.
    pub room: u32,
    /// Bytes from a message to the next.
    pub stride: usize,
}

impl Fixed {
    /// Returns the sizes for messages of `room` elements, with keys of `key` bytes and values of `value`.
    ///
    /// ```
    /// use phalanx_kernels::sharded::small::Fixed;
    ///
    /// assert_eq!(Fixed::new(2, 5, (4, 8)).stride, 16 + 32 + 48); // multiples of 16
    /// ```
    pub const fn new(owners: usize, room: usize, (key, value): (usize, usize)) -> Self {
        let stride = (HEADER + values_at(room, key) + room * value).div_ceil(UNIT) * UNIT;
        Self { owners: owners as u32, room: room as u32, stride }
    }
}

/// Writes the elements of a batch to the messages, whose counts are zero before. `counts`, `keys_to` and
/// `values_to` are the memory of all messages as words of these types. Writes the place of each element to
/// `places`: its owner times the room, plus its index in the message. Takes a thread for each element.
#[kernel]
pub fn sharded_route<P: Sharded + Instance>(
    keys: GlobalSlice<P::Key>,
    values: GlobalSlice<P::Value>,
    fixed: Fixed,
    counts: GlobalSlice<u32>,
    keys_to: GlobalSlice<P::Key>,
    values_to: GlobalSlice<P::Value>,
    places: GlobalSlice<u32>,
) {
    let (piece, at) = (Piece::new(keys, fixed.owners, 0), Thread::index());
    let mut key = P::Key::MAX;
    if at < keys.len() {
        key = keys.read(at);
    }
    let owner = owner_of(key, fixed.owners);
    let index = draw(piece, owner, at, counts, fixed);
    if at >= keys.len() {
        return;
    }
    let (message, key_bytes) = (owner as usize * fixed.stride + HEADER, size_of::<P::Key>());
    keys_to.write(message / key_bytes + index as usize, key);
    if !values.is_empty() {
        let message = message + values_at(fixed.room as usize, key_bytes);
        values_to.write(message / size_of::<P::Value>() + index as usize, values.read(at));
    }
    places.write(at, owner * fixed.room + index);
}

/// Returns the index of the caller's element in its message. All lanes call it.
#[device(caller)]
fn draw<K: Scalar>(piece: Piece<K>, owner: u32, at: usize, counts: GlobalSlice<u32>, fixed: Fixed) -> u32 {
    let (same, _) = piece.votes(owner, at);
    let (rank, leader) = (piece.rank(), same.trailing_zeros());
    let mut first = 0;
    if same != 0 && rank == leader {
        let count = counts.at(owner as usize * fixed.stride / size_of::<u32>());
        first = count.fetch_add(same.count_ones(), Order::Relaxed, Scope::Device);
    }
    piece.from(first, leader) + (same & ((1 << rank) - 1)).count_ones()
}

/// Writes the answers to a batch in its order, from the places that [`sharded_route`] has written. Empty
/// `results` or `outcomes` are not written; the answers have values if there are `results`. `own` is the rank
/// whose answers are the own ones, or no rank. Takes a thread for each element.
#[kernel]
pub fn sharded_collect<P: Sharded + Instance>(
    places: GlobalSlice<u32>,
    room: u32,
    own: u32,
    answers: Answers<P::Value>,
    results: GlobalSlice<P::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let at = Thread::index();
    if at >= places.len() {
        return;
    }
    let (place, room) = (places.read(at), room.max(1));
    let (owner, index) = (place / room, place % room);
    let bytes = if results.is_empty() { 0 } else { size_of::<P::Value>() };
    let division = Division { owners: 0, own, room_bits: 31, pieces: 0 };
    let (value, outcome) = answers.read(owner, division, Place { part: 0, count: room, index }, bytes);
    if bytes > 0 {
        results.write(at, value);
    }
    if !outcomes.is_empty() {
        outcomes.write(at, outcome);
    }
}
