//! Sketches, from which the host estimates how many distinct keys a batch has: HyperLogLog.
//!
//! A key's hash value chooses a register and has a rank: the number of leading zeros of its other bits, plus
//! one. A register keeps the highest rank of its keys. Source: Flajolet, Fusy, Gandouet and Meunier, 2007.
use super::hash::hash;
use super::slot::Scalar;
use simt::{GlobalSlice, Order, Scope, device};

/// Binary logarithm of [`SKETCH_REGISTERS`].
const BITS: u32 = 12;
/// Number of registers of a sketch. The standard error of the estimate is 1.04 divided by their square root:
/// 1.6 %.
pub const SKETCH_REGISTERS: usize = 1 << BITS;

/// Returns the register of a key, and the key's rank.
///
/// ```
/// use phalanx_kernels::keyed::{SKETCH_REGISTERS, sketched};
///
/// let (register, rank) = sketched(7u32);
/// assert!(register < SKETCH_REGISTERS && (1..=21).contains(&rank));
/// ```
#[device]
pub fn sketched<K: Scalar>(key: K) -> (usize, u32) {
    let hashed = hash(key, 0).first;
    // The set bit behind the others limits the rank.
    let rest = (hashed << BITS) | (1 << (BITS - 1));
    ((hashed >> (32 - BITS)) as usize, rest.leading_zeros() + 1)
}

/// Adds a key to a sketch of [`SKETCH_REGISTERS`] registers. Most keys change nothing and only read.
#[device(caller)]
pub(crate) fn sketch<K: Scalar>(key: K, registers: GlobalSlice<u32>) {
    let (register, rank) = sketched(key);
    let register = registers.at(register);
    if register.load(Order::Relaxed, Scope::Device) < rank {
        register.fetch_max(rank, Order::Relaxed, Scope::Device);
    }
}
