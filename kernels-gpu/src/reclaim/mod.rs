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
//!
//! ```
//! use phalanx_kernels::reclaim::{Blocks, Epochs, Group, ItemPool, Participant, Slabs, Tiles, epoch_words};
//! use phalanx_kernels::slab::Pool;
//!
//! let words = epoch_words(100, 384); // of 8 bytes, for 100 participant slots
//! assert!(words * 8 > 100 * (36 + 16 * 384));
//!
//! /// Retires a slab that the first thread of each block has unlinked.
//! ///
//! /// # Safety
//! /// - As for `Epochs::new` and `Participant::opened`; `item` was unlinked by this thread.
//! unsafe fn retire_one<P: Pool>(words: *mut u64, pool: P, item: u32) {
//!     // SAFETY: the caller's obligation.
//!     let epochs = unsafe { Epochs::new(words, 100, 384) };
//!     // SAFETY: the caller's obligation.
//!     let participant = unsafe { Participant::<Blocks, _>::opened(epochs, Slabs(pool)) };
//!     participant.begun().enter();
//!     if Blocks::rank() == 0 {
//!         // SAFETY: the caller's obligation.
//!         unsafe { participant.retire(item) };
//!     }
//!     participant.leave();
//!     participant.close();
//! }
//!
//! /// Frees an item as a participant does, or leaves it to the host.
//! ///
//! /// # Safety
//! /// - As for `ItemPool::free`.
//! unsafe fn free_item<O: ItemPool>(owner: O, item: u32, is_late: bool) {
//!     // SAFETY: the caller's obligation.
//!     unsafe {
//!         if is_late {
//!             return owner.defer_to_host(item);
//!         }
//!         owner.clear(item);
//!         simt::fence(simt::Scope::Device);
//!         owner.free(item);
//!     }
//! }
//!
//! /// Returns the participant's slot number, if the grid has one slot per tile of eight lanes.
//! fn number_in_grid(epochs: Epochs) -> Option<u32> {
//!     type Own = Tiles<8, 16>;
//!     Own::sync();
//!     assert!(Own::rank() < Own::size() && Own::number() <= Own::index());
//!     assert!(epochs.now() < 1 << 30);
//!     Some(Own::index()).filter(|&index| index < epochs.places())
//! }
//! ```
//!
//! # Cost
//!
//! | function | cost |
//! |---|---|
//! | [`Participant::open`], [`Participant::begun`] | a compare-and-swap and seven reads, two barriers of the participant |
//! | [`Participant::close`] | eight writes |
//! | [`Participant::enter`] | a read of the epoch, a write of the announcement, a sequentially consistent fence; in every second call 4 bytes per slot more |
//! | [`Participant::leave`] | a write of the announcement |
//! | [`Participant::retire`] | a few loads and two additions in shared memory, a write of 4 bytes |
//! | [`ItemPool::clear`], [`ItemPool::free`] for a slab of 128 bytes | a write of 128 bytes; an atomic on the bitmap |
//! | [`ItemPool::defer_to_host`] for a slab | an atomic |
//!
//! A structure that is opened while the participant's table has no free entry costs an atomic per entry and
//! exit, and one per retired item.
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
