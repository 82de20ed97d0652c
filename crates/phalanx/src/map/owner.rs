//! The host side that all families share: a device, the engine of one variant, and memory behind a lock.
use super::counts::Counts;
use super::launch::Batch;
use super::launcher::{Launcher, Viewed, scans};
use super::structure::Scans;
use crate::{Error, Result};
use gpu::{Device, Stream};
use std::any::TypeId;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Device memory of a structure.
pub trait Memory {
    /// The raw pointers from which views are created.
    type Parts: Copy;

    fn parts(&self) -> Self::Parts;

    /// Reads the counters. Waits for all earlier launches.
    fn counts(&self) -> Result<Counts>;
}

/// Owns the memory `M` of a structure whose kernels `E` launches. Launches that may run concurrently hold the
/// read lock; operations that replace the memory or must run exclusively hold the write lock.
pub struct Owner<E: ?Sized, M> {
    pub device: Device,
    pub engine: Box<E>,
    /// Name of the variant.
    pub name: String,
    memory: RwLock<M>,
}

// A lock is poisoned by a panic while it is held. The memory is then as the last finished launch left it,
// which is valid.
impl<E: ?Sized, M: Memory> Owner<E, M> {
    pub fn new(device: Device, engine: Box<E>, name: String, memory: M) -> Self {
        Self { device, engine, name, memory: RwLock::new(memory) }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, M> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get_mut(&mut self) -> &mut M {
        self.memory.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs an exclusive operation to completion. Waits even if it fails: kernels that it has launched must
    /// not run concurrently with those of the next lock holder.
    pub fn exclusive<T>(&self, run: impl FnOnce(&E, &Stream, &mut M) -> Result<T>) -> Result<T> {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        self.device.synchronize()?;
        let done = run(&self.engine, &self.device.default_stream(), &mut memory);
        self.device.synchronize()?;
        done
    }

    /// Waits for all earlier launches and returns the counters.
    pub fn counts(&self) -> Result<Counts> {
        let memory = self.read();
        self.device.synchronize()?;
        memory.counts()
    }

    /// Implements [`Structure::launch`](super::structure::Structure::launch).
    pub fn launch<K, V>(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()>
    where
        E: Launcher<M::Parts, K, V>,
    {
        let memory = self.read();
        // SAFETY: the memory outlives the launch, since dropping its buffers waits for it, and so do the
        // slices' buffers. Batches may run concurrently; exclusive operations take the write lock and wait
        // for the device.
        unsafe { self.engine.launch(stream, memory.parts(), batch)? };
        Ok(())
    }

    /// Implements [`Structure::scans`](super::structure::Structure::scans).
    pub fn scans<K, V>(&self, run: Scans<'_, K, V>) -> Result<()>
    where
        E: Launcher<M::Parts, K, V>,
    {
        self.exclusive(|engine, stream, memory| {
            let pairs = memory.counts()?.live;
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            unsafe { scans(engine, stream, memory.parts(), pairs, run) }
        })
    }

    /// Returns the structure's view, if it is of variant `V`.
    pub fn view<V: Viewed<M::Parts>>(&self) -> Result<V::View>
    where
        E: Launcher<M::Parts, V::Key, V::Value>,
    {
        if TypeId::of::<V>() != self.engine.kind() {
            return Err(Error::OtherVariant { asked: V::NAME, found: self.name.clone() });
        }
        Ok(V::view(self.read().parts()))
    }
}
