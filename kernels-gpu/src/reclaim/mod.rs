//! Epoch-based reclamation: kernels free memory that others may still read. A variant of DEBRA (Brown, PODC
//! 2015). See `docs/structures/reclaim.md`.
//!
//! ```text
//! words | epoch | retired | reclaimed | deferred | log of epochs ... |
//!       | count of participants inside without a slot              |
//!       | announcements: one word per participant slot             |  free, unpinned, or the participant's epoch
//!       | saved states of free slots: one line each                |  epoch, current bag, three counts, entries
//!       | three bags per slot                                      |
//!
//! block | one table per participant, of four structures, in shared |  slot, epoch, current bag,
//!       | memory                                                   |  three counts, ...
//! ```
//!
//! A *participant* is a block or a tile. It enters before it reads memory that others may retire, and leaves
//! when it holds no reference to such memory any more. Items that it retires go into the bag of its current
//! epoch. When it enters in a later epoch it rotates its bags, and frees the items that were in the next one:
//! three epochs have begun since they were retired. The epoch ends when a participant checks the
//! announcements and finds no participant in an older epoch.
//!
//! Three bags suffice: a participant that announces epoch *e* late, while *e* + 1 begins, keeps *e* + 2 from
//! beginning. The items that it can reach were retired in *e* - 1 at the earliest, by a participant that was
//! late as well, and are freed in *e* + 2 at the earliest.
//!
//! # Cost
//!
//! | function | cost |
//! |---|---|
//! | [`Participant::open`], [`Participant::begun`] | a compare-and-swap and six reads, two barriers of the participant |
//! | [`Participant::close`] | seven writes |
//! | [`Participant::enter`] | a read of the epoch, a write of the announcement, a sequentially consistent fence; in every second call 4 bytes per slot more |
//! | [`Participant::leave`] | a write of the announcement |
//! | [`Participant::retire`] | a few loads and two additions in shared memory, a write of 4 bytes |
//! | [`ItemPool::clear`], [`ItemPool::free`] for a slab of 128 bytes | a write of 128 bytes; an atomic on the bitmap |
//! | [`ItemPool::defer_to_host`] for a slab | an atomic |
//!
//! A structure beyond the fourth costs an atomic per entry and exit, and one per retired item.
//! [`Group::sync`] is one barrier. The other functions are arithmetic, or read a register.
mod epochs;
mod group;
pub mod kernels;
mod participant;
mod table;
#[cfg(test)]
mod tests;

pub use epochs::{Epochs, LOG, epoch_words};
pub use group::{Blocks, Group, Tiles};
pub use participant::{ItemPool, Participant, Slabs};
pub use table::ENTRIES;
