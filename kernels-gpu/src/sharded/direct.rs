//! Messages that a kernel writes where their owners read them: into windows in the memory of all ranks, which
//! it can access.
//!
//! ```text
//! a part of a window   counters of the messages of one rank · keys · padding to 16 bytes · values
//! ```
//!
//! Part `r` of rank `d`'s window has the message of rank `r` for `d`. Each message has room for all elements
//! of its chunk, so that no count has to be known before. The counters of the messages of a rank are in its
//! own part of its own window, where the owners read them. The order of the elements in a message is that in
//! which warps reserve places, and `places` keeps it for the answers.
//!
//! # Cost
//!
//! [`sharded_send`] reads each key twice, the second time from a cache, and each value once; writes both once;
//! and executes an atomic per [piece](super::PIECE) and owner.
use super::PIECE;
use super::geometry::{UNIT, values_at};
use super::kernels::{Counting, Piece, Sharded, Target, scatter_piece};
use simt::{GlobalSlice, Instance, Order, Scope, Thread, device, kernel};

/// Words from a message's counter to that of the next owner: counters in different cache lines change faster.
pub const COUNTER_WORDS: usize = 32;

/// Returns the bytes of a part before its keys.
///
/// ```
/// assert_eq!(phalanx_kernels::sharded::direct::header(3), 3 * 128);
/// ```
pub const fn header(ranks: usize) -> usize {
    ranks * COUNTER_WORDS * size_of::<u32>()
}

/// Returns the most elements of a message in a part of `bytes` bytes, with keys of `key` bytes and arguments of
/// `value`, 0 if none move: a multiple of 16.
///
/// ```
/// use phalanx_kernels::sharded::direct::room;
///
/// assert_eq!(room(1024, 2, (8, 8)), 48); // of 768 bytes after the counters
/// assert_eq!(room(100, 2, (8, 8)), 0);
/// ```
pub const fn room(bytes: usize, ranks: usize, (key, value): (usize, usize)) -> usize {
    bytes.saturating_sub(header(ranks)) / (key + value) / UNIT * UNIT
}

/// The messages of a rank to all owners.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Number of ranks.
    pub owners: u32,
    /// Elements that a message has room for, a multiple of 16.
    pub room: u32,
    /// For each owner, the address of the first key of its message.
    pub messages: GlobalSlice<u64>,
    /// A counter for each message, 0 before: see [`COUNTER_WORDS`].
    pub counters: GlobalSlice<u32>,
}

/// A lane's copy of the address of the message for the owner with its number.
#[derive(Clone, Copy)]
struct Remote {
    room: u32,
    message: u64,
    places: GlobalSlice<u32>,
}

#[device(caller)]
impl<P: Sharded> Target<P> for Remote {
    /// Address of the message, and index in it.
    type Slot = (u64, u32);

    fn note(self, at: usize, owner: u32, index: u32) {
        self.places.write(at, owner * self.room + index);
    }

    fn slot(self, piece: Piece<P::Key>, owner: u32, index: u32) -> (u64, u32) {
        let [low, high] = [self.message as u32, (self.message >> 32) as u32];
        let [low, high] = [piece.from(low, owner), piece.from(high, owner)];
        (u64::from(high) << 32 | u64::from(low), index)
    }

    fn put_key(self, (message, index): (u64, u32), key: P::Key) {
        // SAFETY: the message has room for all elements of the chunk.
        let keys = unsafe { GlobalSlice::from_raw_parts(message as *mut P::Key, self.room as usize) };
        keys.write(index as usize, key);
    }

    fn put_value(self, (message, index): (u64, u32), value: P::Value) {
        let begin = message + values_at(self.room as usize, size_of::<P::Key>()) as u64;
        // SAFETY: as for the keys, which the values follow.
        let values = unsafe { GlobalSlice::from_raw_parts(begin as *mut P::Value, self.room as usize) };
        values.write(index as usize, value);
    }
}

/// Writes the elements of a chunk to the messages of their owners, and the place of each element to `places`:
/// its owner times the room, plus its index in the message. Without `values`, no values are written. Takes a
/// warp for each piece, in blocks of [`SCATTER_THREADS`](super::kernels::SCATTER_THREADS).
#[kernel]
pub fn sharded_send<P: Sharded + Instance>(
    keys: GlobalSlice<P::Key>,
    values: GlobalSlice<P::Value>,
    windows: Windows,
    places: GlobalSlice<u32>,
) {
    let number = Thread::index() / 32;
    if number * PIECE >= keys.len() {
        return;
    }
    let piece = Piece::new(keys, windows.owners, number);
    let (count, lane) = (piece.count(), piece.rank());
    let (mut message, mut next) = (0, 0);
    if lane < windows.owners {
        message = windows.messages.read(lane as usize);
        let counter = windows.counters.at(lane as usize * COUNTER_WORDS);
        next = counter.fetch_add(count, Order::Relaxed, Scope::Device);
    }
    let target = Remote { room: windows.room, message, places };
    scatter_piece::<P, _>(&mut Counting { piece, next }, values, target);
}
