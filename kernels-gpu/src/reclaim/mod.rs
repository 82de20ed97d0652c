//! Epochs: memory that kernels free while others may still read it. In DEBRA's manner (Brown, PODC 2015). See
//! `docs/structures/reclaim.md`.
//!
//! ```text
//! words | epoch | retired | reclaimed | shelved | log of epochs ... |
//!       | processes inside without a place                         |
//!       | announcements: a word a place                              |  free, quiet, or the epoch that its process is in
//!       | what places keep while nobody has them: a line each        |  epoch, bag in use, three counts, entries
//!       | three bags a place                                         |
//!
//! block | a table a process, of four structures, in shared memory    |  place, epoch, bag in use, three
//! counts, ...
//! ```
//!
//! A *process* is a block, or a tile. It enters before it reads what others may retire, and leaves when it
//! holds none of it any more. What it retires goes into the bag of the epoch that it is in. Entering in a
//! later epoch it turns to the next bag, and frees what was in that: three epochs have begun since. The epoch
//! ends when a process that looks finds none that is still in an older one.
//!
//! Why three are enough: a process that announces epoch *e* late, while *e* + 1 begins, keeps *e* + 2 from
//! beginning. What it can reach was retired in *e* - 1 at the earliest, by who was late as well, and is freed
//! in *e* + 2 at the earliest.
mod epochs;
mod group;
pub mod kernels;
mod process;
mod table;
#[cfg(test)]
mod tests;

pub use epochs::{Epochs, LOG, epoch_words};
pub use group::{Blocks, Group, Tiles};
pub use process::{Owner, Process, Rules, Slabs, Sound};
pub use table::ENTRIES;
