//! What a map of this crate gives to the methods that all of them have.
use super::launch::{Batch, Scan};
use super::{Key, Value};
use crate::Result;
use gpu::{Device, Stream};

/// The parts of a map that differ. Not to be implemented outside this crate.
pub trait Structure {
    /// Keys.
    type Key: Key;
    /// Values.
    type Value: Value;

    /// The device that holds it.
    fn home(&self) -> &Device;

    /// Asks the stream for a batch. Batches may run side by side.
    fn launch(&self, stream: &Stream, batch: Batch<Self::Key, Self::Value>) -> Result<()>;

    /// Lets `run` scan, with nothing else running on the structure from the first scan to the last.
    fn scans(&self, run: Scans<'_, Self::Key, Self::Value>) -> Result<()>;

    /// How often there was made room: tells whether the memory that a call has seen is still there.
    fn age(&self) -> u64;

    /// Whether its policy is to ask for more memory when it has no room.
    fn grows(&self) -> bool;

    /// After a blocking call: makes room, if that is the policy and the structure is too full. Where that
    /// fails, the next call finds it due again.
    fn make_room(&self) -> Result<()>;

    /// After a blocking call that was refused room for elements with these keys: makes room, if that is the
    /// policy.
    ///
    /// The refusal came from a structure of the age `seen`, or a later one; what another thread has made
    /// since counts. `None` means that a retry found nothing with such room: then this call makes room
    /// itself, and by growth if that is the policy.
    fn make_room_for(&self, refused: &[Self::Key], seen: Option<u64>) -> Result<Room>;

    /// Pairs, once all launches that were asked for have ended.
    fn pairs(&self) -> Result<usize>;

    /// Removes all pairs, with nothing running beside it.
    fn empty(&mut self) -> Result<()>;

    /// Bytes of device memory.
    fn bytes(&self) -> usize;
}

/// What a structure found for elements that it refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// Nothing: trying again is useless.
    None,
    /// Memory that was in use is free again. It may be what the refused attempts themselves took and gave
    /// back.
    Freed,
    /// More memory, or memory that another thread found in the meantime.
    More,
}

impl Room {
    /// More memory, or none.
    pub fn more_if(has_grown: bool) -> Self {
        if has_grown { Self::More } else { Self::None }
    }

    /// Some memory freed, or none.
    pub fn freed_if(is_freed: bool) -> Self {
        if is_freed { Self::Freed } else { Self::None }
    }
}

/// What [`Structure::scans`] runs.
pub type Scans<'a, K, V> = &'a mut dyn FnMut(Scanner<'_, K, V>) -> Result<()>;

/// What [`Structure::scans`] gives.
#[derive(Clone, Copy)]
pub struct Scanner<'a, K, V> {
    /// Runs a scan to its end.
    pub scan: &'a dyn Fn(Scan<K, V>) -> Result<()>,
    /// The threads that a scan of the whole takes.
    pub threads: usize,
    /// Pairs.
    pub pairs: usize,
}

impl<K, V> Scanner<'_, K, V> {
    /// Runs a scan to its end.
    pub fn run(&self, scan: Scan<K, V>) -> Result<()> {
        (self.scan)(scan)
    }
}
