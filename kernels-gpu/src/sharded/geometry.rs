//! Places in messages. The host and the kernels use the same functions.
use simt::device;

/// Bytes in which the places of messages are counted.
pub const UNIT: usize = 16;

/// Returns the byte at which the values begin in a part of `count` elements with keys of `key` bytes.
///
/// ```
/// assert_eq!(phalanx_kernels::sharded::values_at(3, 4), 16);
/// ```
#[device]
pub const fn values_at(count: usize, key: usize) -> usize {
    (count * key).div_ceil(UNIT) * UNIT
}

/// Returns the [units](UNIT) of a message of `count` elements, in parts of 2^`room_bits`, at least 16.
///
/// ```
/// use phalanx_kernels::sharded::message_units;
///
/// assert_eq!(message_units(5, 4, (4, 8)), 5); // 20 bytes of keys, 12 of padding, 40 of values
/// assert_eq!(message_units(16 + 5, 4, (4, 8)), 12 + 5); // in two parts
/// ```
#[device]
pub const fn message_units(count: usize, room_bits: u32, (key, value): (usize, usize)) -> usize {
    let (full, rest) = (count >> room_bits, count & ((1 << room_bits) - 1));
    let part = (key + value) << room_bits;
    (full * part + values_at(rest, key) + rest * value).div_ceil(UNIT)
}

/// The elements of a chunk for one owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Sum of the counts before those of the owner in the chunk.
    pub first: u32,
    /// Number of elements.
    pub count: u32,
    /// Begin of the message, in [units](UNIT).
    pub begin: u32,
}
