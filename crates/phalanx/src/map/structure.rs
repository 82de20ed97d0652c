//! The interface between the operations that all maps share and the structures.
use super::encoding::Word;
use super::launch::{Batch, BatchOp, Scan};
use crate::Result;
use gpu::{Device, Stream};

/// The operations that differ between structures. [`run`](super::run) and [`export`](super::export) build on
/// them what users call.
pub trait Structure {
    /// Type of the words of keys.
    type Key: Word;
    /// Type of the words of values.
    type Value: Word;

    /// Returns the device that holds the structure.
    fn device(&self) -> &Device;

    /// Submits a batch to a stream. Batches may run concurrently.
    fn submit(&self, stream: &Stream, batch: Batch<Self::Key, Self::Value>) -> Result<()>;

    /// Grows the structure for a batch that a blocking call is about to submit, if it will hardly fit and the
    /// policy allows: one growth, instead of several for the elements that launches refuse.
    fn reserve_for(&self, _batch: &Batch<Self::Key, Self::Value>) -> Result<()> {
        Ok(())
    }

    /// Returns whether a blocking call must bring all elements of a batch to the device at once, for
    /// [`Self::reserve_for`] and [`Self::run`]. Otherwise it submits the batch in chunks.
    fn needs_whole(&self, _op: BatchOp, _keys: &HostKeys<'_, Self::Key>) -> Result<bool> {
        Ok(false)
    }

    /// Submits a batch with these keys for a blocking call: the structure may also execute it at once, with
    /// exclusive access.
    fn run(&self, batch: Batch<Self::Key, Self::Value>, _keys: &HostKeys<'_, Self::Key>) -> Result<()> {
        self.submit(&self.device().default_stream(), batch)
    }

    /// Calls `run`, which may scan. Nothing else runs on the structure from the first scan to the last.
    fn scans(&self, run: Scans<'_, Self::Key, Self::Value>) -> Result<()>;

    /// Returns the number of times that the structure grew or freed memory. A caller compares it with the one
    /// that it has seen, to detect that another thread did so.
    fn generation(&self) -> u64;

    /// Returns whether the structure allocates more memory when elements do not fit.
    fn grows(&self) -> bool;

    /// Maintains the structure after a blocking call: grows it if it is too full and the policy allows. If
    /// that fails, it is due again after the next call.
    fn grow(&self) -> Result<()>;

    /// Grows the structure after a blocking call in which elements with these keys were refused, if the
    /// policy allows.
    ///
    /// The elements were refused by the structure of generation `seen`, or a later one; growth by another
    /// thread since then counts. `None` means that a retry after such growth was refused entirely: this call
    /// must then free or allocate memory itself, and grow if the policy allows.
    fn grow_for(&self, refused: &[Self::Key], seen: Option<u64>) -> Result<Room>;

    /// Returns whether the structure is ordered by key.
    fn is_ordered(&self) -> bool {
        false
    }

    /// Returns the number of pairs. Waits for all earlier launches.
    fn len(&self) -> Result<usize>;

    /// Removes all pairs. Nothing else may run.
    fn clear(&mut self) -> Result<()>;

    /// Returns the bytes of device memory.
    fn memory_usage(&self) -> usize;

    /// As [`Self::submit`], for a caller with exclusive access whose streams order lookups and batches that
    /// write: one of either kind accesses the structure when all earlier ones of the other have ended.
    /// Lookups may be executed by read-only kernels, unless the structure
    /// [is unsettled](Self::is_unsettled).
    #[cfg(feature = "sharded-map")]
    fn submit_in_order(&self, stream: &Stream, batch: Batch<Self::Key, Self::Value>) -> Result<()> {
        self.submit(stream, batch)
    }

    /// Returns whether [`Self::settle`] would allow read-only kernels for lookups in order: something else
    /// may have submitted writers since the last time.
    #[cfg(feature = "sharded-map")]
    fn is_unsettled(&self) -> bool {
        false
    }

    /// Waits for the device, so that lookups in order may be executed by read-only kernels. Only a caller
    /// with exclusive access may call it.
    #[cfg(feature = "sharded-map")]
    fn settle(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the structure as other devices of this process can read it, or `None` if they cannot.
    #[cfg(feature = "sharded-map")]
    fn readable(&self) -> Option<std::sync::Arc<dyn Readable<Self::Key, Self::Value>>> {
        None
    }
}

/// A structure that other devices read through peer access, while its owner keeps it.
#[cfg(feature = "sharded-map")]
pub trait Readable<K, V>: Send + Sync {
    /// Returns a number that names the structure while it lives: no other one has it.
    fn id(&self) -> usize;

    /// Returns the device that holds the structure.
    fn device(&self) -> Device;

    /// Submits a read-only batch to a stream of another device, which can access the structure's device.
    /// Returns what must live until the stream has executed the batch.
    fn look_up(&self, stream: &Stream, batch: Batch<K, V>) -> Result<std::sync::Arc<dyn Send + Sync>>;

    /// As [`Self::look_up`], for a `get` of which only the elements of one rank are executed. The answers to
    /// others are not written. Returns `None` if the structure has no kernel for it.
    fn look_up_owned(
        &self,
        stream: &Stream,
        batch: Batch<K, V>,
        owned: phalanx_kernels::sharded::owned::Owned,
    ) -> Result<Option<std::sync::Arc<dyn Send + Sync>>>;
}

/// Words of the keys of a batch on the host.
#[derive(Clone, Copy)]
pub struct HostKeys<'a, K> {
    /// Number of keys.
    pub len: usize,
    /// Returns the word of the key at an index.
    pub at: &'a dyn Fn(usize) -> K,
}

/// Memory that [`Structure::grow_for`] obtained for refused elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// None: a retry is useless.
    None,
    /// Memory was freed. It may be only memory that the refused attempts themselves had allocated and freed.
    Freed,
    /// More memory was allocated, or another thread has freed or allocated some meanwhile.
    More,
}

impl Room {
    /// Returns [`Self::More`] if the structure has grown.
    pub fn more_if(has_grown: bool) -> Self {
        if has_grown { Self::More } else { Self::None }
    }

    /// Returns [`Self::Freed`] if memory was freed.
    pub fn freed_if(is_freed: bool) -> Self {
        if is_freed { Self::Freed } else { Self::None }
    }
}

/// Callback of [`Structure::scans`].
pub type Scans<'a, K, V> = &'a mut dyn FnMut(Scanner<'_, K, V>) -> Result<()>;

/// Argument of the callback of [`Structure::scans`].
#[derive(Clone, Copy)]
pub struct Scanner<'a, K, V> {
    /// Runs a scan to completion.
    pub scan: &'a dyn Fn(Scan<K, V>) -> Result<()>,
    /// Number of threads of a scan of the whole structure.
    pub threads: usize,
    /// Number of pairs.
    pub pairs: usize,
}

/// Calls `run` for a structure of `pairs` pairs, whose scans `launch` submits to the stream. A scan of the
/// whole structure takes `threads` threads.
pub fn with_scanner<K, V>(
    stream: &Stream,
    (threads, pairs): (usize, usize),
    launch: impl Fn(Scan<K, V>) -> gpu::Result<()>,
    run: Scans<'_, K, V>,
) -> Result<()> {
    let scan = |scan: Scan<K, V>| -> Result<()> {
        launch(scan)?;
        Ok(stream.synchronize()?)
    };
    run(Scanner { scan: &scan, threads, pairs })
}

impl<K, V> Scanner<'_, K, V> {
    /// Runs a scan to completion.
    pub fn run(&self, scan: Scan<K, V>) -> Result<()> {
        (self.scan)(scan)
    }
}
