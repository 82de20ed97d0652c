//! Exchanges of device batches between ranks: an all-to-all of typed elements with variable counts.
//!
//! A *rank* is a thread or process with one device. Each rank has an end of the exchange, an [`Exchange`];
//! all ranks call the same operations in the same order.
//!
//! | made by | ranks are | data move |
//! |---|---|---|
//! | [`Exchange::emulated`] | threads with emulated devices | through the memory of the host |
//! | [`Exchange::peer`] | threads with devices of one process | by copies from device to device |
//! | [`Exchange::nccl`] | threads or processes, also on several hosts | by NCCL |
//!
//! | operation | for |
//! |---|---|
//! | [`Exchange::all_to_all`], [`Exchange::all_to_all_sized`] | batches of any size, straight from the senders' memory to that of the receivers |
//! | [`Exchange::rounds`] | batches of any size with answers: counts first, then rounds of bounded size |
//! | [`Exchange::agree`], [`Exchange::move_pieces`] | rounds that the caller plans, several in flight |
//! | [`Exchange::padded`] | small batches: one exchange of slots of fixed size, without a wait of the host |
//!
//! The crate knows devices and their memory, and no data structure. The page `docs/scale-out.md` has the
//! algorithm and the cost model.
#![cfg_attr(docsrs, feature(doc_cfg))]

mod direct;
#[cfg(feature = "emulator")]
mod emulated;
mod error;
mod exchange;
mod gate;
mod hub;
mod limits;
#[cfg(target_os = "linux")]
mod nccl;
mod padded;
mod peer;
mod pieces;
mod plant;
mod rounds;
mod transport;

pub use error::{Error, Lost, Result};
pub use exchange::{Exchange, Traffic};
pub use hub::{Meeting, Shared};
pub use limits::Limits;
#[cfg(target_os = "linux")]
pub use nccl::{nccl_id, nccl_id_by_file};
#[cfg(target_os = "linux")]
pub use nccl_late::UniqueId as NcclId;
pub use padded::{Padded, SLOT_HEADER};
pub use pieces::Transfer;
pub use plant::{Fault, Planted};
pub use rounds::{Received, Rounds};
pub use transport::{Lane, check_equal};
