//! Partition of a batch among the ranks of a map on several devices, and the way back of the answers: the
//! device side of `phalanx::ShardedMap`. The repository's page `docs/scale-out.md` describes the algorithm.
//!
//! A batch is divided into chunks, and a chunk into pieces of [`PIECE`] elements, one for each warp.
//!
//! ```text
//! counts    chunk 0: owner 0: piece 0, piece 1, ...  owner 1: piece 0, ...   chunk 1: ...
//!    │ exclusive scan: since each chunk but the last has as many elements as it has room, the sum before a
//!    ▼ number is its chunk's begin in the batch, plus the elements before in the chunk's order by owner
//! offsets   the same places
//!
//! message   for each owner: part 0, part 1, ...  of at most 2^room_bits elements
//! a part    keys, padding to 16 bytes, values
//! answers   a part: values, outcomes
//! ```
//!
//! No permutation is stored. The position of an element in the message is the offset of its piece and owner,
//! plus the number of elements before it in the piece with the same owner. A warp finds the latter by ballots
//! of the bits of the owners. [`kernels::sharded_gather`] computes the same position again when the answers
//! come back.
//!
//! # Cost
//!
//! [`kernels::sharded_count`] reads each key once, [`kernels::sharded_scatter`] reads and writes each key and
//! value once, and [`kernels::sharded_gather`] reads each key and answer, and writes each answer once. Each
//! hashes each key, and executes up to five ballots for 32 keys. [`kernels::sharded_bounds`] reads two
//! offsets for each owner of a chunk. There is no atomic and no barrier. For batches without counts on the
//! host see [`small`], for equal keys [`equal`].
pub mod direct;
pub mod equal;
mod geometry;
#[cfg(feature = "sharded-map")]
mod instances;
pub mod kernels;
pub mod owned;
mod owner;
pub mod small;

pub use geometry::{Message, UNIT, message_units, values_at};
#[cfg(feature = "sharded-map")]
pub use instances::*;
pub use kernels::{Pair, Sharded};
pub use owner::owner_of;

/// Elements of a piece: those that a warp moves.
pub const PIECE: usize = 32 * ITEMS;

/// Elements that a lane moves.
pub const ITEMS: usize = 16;

/// Maximum number of ranks: a lane of a warp counts for each.
pub const MOST_OWNERS: usize = 32;

/// Words that describe an owner in a chunk: see [`Message`].
pub const MESSAGE_WORDS: usize = 4;
