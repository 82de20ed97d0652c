//! Epoch-based reclamation: kernels free memory that others may still read. A variant of DEBRA (Brown, PODC
//! 2015). See `docs/structures/reclaim.md`.
//!
//! ```text
//! words | epoch | retired | reclaimed | deferred | log of epochs ... |
//!       | count of participants inside without a slot              |
//!       | announcements: one word per participant slot             |  free, unpinned, or the participant's epoch
//!       | saved states of free slots: one line each                |  epoch, current bag, four counts, entries
//!       | four bags per slot                                       |
//!
//! block | one table per participant, of four structures, in shared |  slot, epoch, current bag,
//!       | memory                                                   |  four counts, ...
//! ```
//!
//! A *participant* is a block or a tile. It enters before it reads memory that others may retire, and leaves
//! when it holds no reference to such memory any more. Items that it retires go into its current bag. When it
//! enters and reads a new epoch it rotates its bags once, and frees the items that were in the next one: at
//! least three epochs have begun since its first entry after they were retired. The epoch ends when a
//! participant checks the announcements and finds no participant in an older epoch.
//!
//! Three epochs suffice, even if participants announce old epochs: the page has the proof.
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
