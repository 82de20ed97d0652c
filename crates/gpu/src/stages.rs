//! Blocks of staging memory, and the unused ones that a device keeps: see [`Staging`](crate::Staging).
use crate::machine::{Block, Machine, Queue};
use crate::{Result, Tier};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Largest number of unused blocks that a device keeps, of each [`Reach`]. A call that finds none allocates
/// one; a block that is returned beyond this number is freed.
const KEPT: usize = 8;

/// How kernels reach the data of a [`Staging`](crate::Staging).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reach {
    /// Kernels read and write the pinned memory itself, over the bus. There is nothing to copy, which is
    /// faster for some kilobytes.
    Mapped,
    /// Kernels use a block of device memory of the same size, to and from which
    /// [`upload`](crate::Staging::upload) and [`download`](crate::Staging::download) copy.
    Copied,
}

/// A block of pinned memory, its copy in device memory if it has one, and the stream that uses them.
#[derive(Debug)]
pub struct Stage {
    pub bytes: usize,
    pub pinned: Block,
    pub device: Option<Block>,
    pub queue: Arc<dyn Queue>,
}

// SAFETY: the pointers are valid in every thread, and one call at a time owns the value.
unsafe impl Send for Stage {}

impl Stage {
    pub fn new(machine: &dyn Machine, bytes: usize, reach: Reach) -> Result<Self> {
        let queue = machine.queue(false)?;
        let pinned = machine.allocate(Tier::Pinned, bytes)?;
        let mut stage = Self { bytes, pinned, device: None, queue };
        if reach == Reach::Copied {
            match machine.allocate(Tier::Device, bytes) {
                Ok(block) => stage.device = Some(block),
                Err(error) => {
                    stage.free(machine);
                    return Err(error);
                }
            }
        }
        Ok(stage)
    }

    fn reach(&self) -> Reach {
        if self.device.is_some() { Reach::Copied } else { Reach::Mapped }
    }

    /// Returns the bytes of pinned memory and of device memory.
    fn usage(&self) -> (usize, usize) {
        (self.bytes, if self.device.is_some() { self.bytes } else { 0 })
    }

    pub fn free(self, machine: &dyn Machine) {
        // SAFETY: the machine allocated both blocks, and nothing else knows them.
        unsafe {
            machine.free(Tier::Pinned, self.pinned);
            if let Some(block) = self.device {
                machine.free(Tier::Device, block);
            }
        }
    }
}

/// The unused blocks of a device, and the size of all.
#[derive(Debug, Default)]
pub struct Pool {
    stages: Mutex<Vec<Stage>>,
    usage: Mutex<(usize, usize)>,
}

impl Pool {
    // Each change of the list or of the sums is complete, also if a thread panics.
    fn stages(&self) -> MutexGuard<'_, Vec<Stage>> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn usage(&self) -> MutexGuard<'_, (usize, usize)> {
        self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the block that was used last among those that are large enough. Otherwise, one that is too
    /// small, to be freed.
    pub fn take(&self, bytes: usize, reach: Reach) -> Option<Stage> {
        let mut stages = self.stages();
        let fits = |stage: &Stage| stage.reach() == reach && stage.bytes >= bytes;
        let found = stages.iter().rposition(fits);
        let found = found.or_else(|| stages.iter().rposition(|stage| stage.reach() == reach));
        found.map(|place| stages.remove(place))
    }

    /// Keeps a block, or returns it if there are enough.
    pub fn put(&self, stage: Stage) -> Option<Stage> {
        let mut stages = self.stages();
        if stages.iter().filter(|kept| kept.reach() == stage.reach()).count() >= KEPT {
            return Some(stage);
        }
        stages.push(stage);
        None
    }

    pub fn count(&self, stage: &Stage) {
        let (mut usage, (pinned, device)) = (self.usage(), stage.usage());
        *usage = (usage.0 + pinned, usage.1 + device);
    }

    pub fn discount(&self, stage: &Stage) {
        let (mut usage, (pinned, device)) = (self.usage(), stage.usage());
        *usage = (usage.0 - pinned, usage.1 - device);
    }

    /// Frees all unused blocks.
    pub fn release(&self, machine: &dyn Machine) {
        let stages = std::mem::take(&mut *self.stages());
        for stage in stages {
            self.discount(&stage);
            stage.free(machine);
        }
    }
}
