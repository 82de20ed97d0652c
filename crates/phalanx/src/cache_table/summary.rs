//! The summary of a table's scores, by which evictions choose their victims: its memory, and when its bounds
//! are set anew.
use super::CacheTable;
use super::kernels::Launch;
use crate::Result;
use crate::number::Number;
use crate::primitives::{Bits, Workspace, sort_bytes};
use bytemuck::Pod;
use gpu::{Buffer, Device, Stream};
use phalanx_kernels::cache::{self, CLASSES};
use phalanx_kernels::keyed::Scalar;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How an insertion into full buckets finds the key with the lowest score.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Victims {
    /// It reads all scores of the buckets, 128 in each.
    Exact,
    /// It reads a summary of one byte per slot, and the scores of the slots with the lowest byte. The victim
    /// is the same. The bytes are classes of scores, which the table sets anew when half as many elements
    /// were written as it has slots. Takes a byte more per slot.
    #[default]
    Summary,
}

/// Maximum number of samples of which the bounds of the classes are quantiles.
const MOST_SAMPLES: usize = 1 << 14;

/// The memory of a summary, and its state.
#[derive(Debug)]
pub struct Summary<S> {
    classes: Buffer<u8>,
    bounds: Buffer<S>,
    state: Mutex<State<S>>,
}

#[derive(Debug)]
struct State<S> {
    samples: Buffer<S>,
    work: Workspace,
    /// Number of elements that were submitted since the bounds were set.
    written: usize,
}

impl<S: Scalar> Summary<S> {
    /// Allocates the summary of an empty table.
    pub fn new(device: &Device, slots: usize) -> Result<Self>
    where
        S: Number,
    {
        let samples = slots.min(MOST_SAMPLES);
        let work = Workspace::new(&device.stream()?, sort_bytes::<S, ()>(samples))?;
        Ok(Self {
            classes: device.zeroed(slots)?,
            bounds: device.zeroed(CLASSES - 1)?,
            state: Mutex::new(State { samples: device.zeroed(samples)?, work, written: 0 }),
        })
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        let state = self.state();
        let samples = state.samples.byte_len() + state.work.memory_usage();
        self.classes.byte_len() + self.bounds.byte_len() + samples
    }

    /// Returns the summary as kernels take it.
    pub fn view(&self) -> cache::Summary<S> {
        cache::Summary::new(self.classes.global(), self.bounds.global())
    }

    fn state(&self) -> MutexGuard<'_, State<S>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Prepares the summary, if there is one, for a batch of `len` elements that the stream executes next:
    /// sets the bounds of its classes anew if many scores were written since the last time. The caller has
    /// entered the inserters' group.
    pub(super) fn prepare_summary(&self, stream: &Stream, len: usize) -> Result<()> {
        let memory = self.memory();
        let Some(summary) = memory.summary() else { return Ok(()) };
        let mut state = summary.state();
        if state.written >= self.capacity() / 2 {
            state.work.stream().wait(&stream.point()?)?;
            self.set_bounds(&mut state)?;
            stream.wait(&state.work.stream().point()?)?;
            state.written = 0;
        }
        state.written = state.written.saturating_add(len);
        Ok(())
    }

    /// Submits the setting of the bounds to the stream of the summary's workspace.
    fn set_bounds(&self, state: &mut State<S>) -> Result<()> {
        let State { samples, work, .. } = state;
        let stream = work.stream().clone();
        // SAFETY: the buffers are the table's. Dropping them waits for the launches.
        unsafe {
            self.launch(&stream, Launch::Sample(samples.global()))?;
            work.sort_keys_in_place(&mut *samples, Bits::ALL)?;
            self.launch(&stream, Launch::SetBounds(samples.global()))?;
            self.launch(&stream, Launch::Classify)
        }
    }
}
