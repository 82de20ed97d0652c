//! The host's side that all families have: a device, the bridge to the kernels of one kind, and memory behind
//! a lock.
use super::counts::Counts;
use super::launch::Batch;
use super::launcher::{Launcher, Viewed, scans};
use super::structure::Scans;
use crate::{Error, Result};
use gpu::{Device, Stream};
use std::any::TypeId;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// The device memory of a structure.
pub trait Memory {
    /// What views are made of.
    type Parts: Copy;

    fn parts(&self) -> Self::Parts;

    /// Counts, once all launches have ended.
    fn counts(&self) -> Result<Counts>;
}

/// Owns the memory `M` of a structure whose kernels `E` launches. Launches that may run beside others hold
/// the lock for reading, what replaces the memory or must run alone holds it for writing.
pub struct Owner<E: ?Sized, M> {
    pub device: Device,
    pub engine: Box<E>,
    /// The kind's name.
    pub name: String,
    memory: RwLock<M>,
}

// A lock is poisoned by a panic while it is held; the memory is then what the last finished launch left,
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

    /// Runs what must run alone, to its end, also where it fails: kernels that it has launched before must
    /// not run beside those of whoever comes next.
    pub fn alone<T>(&self, run: impl FnOnce(&E, &Stream, &mut M) -> Result<T>) -> Result<T> {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        self.device.synchronize()?;
        let done = run(&self.engine, &self.device.default_stream(), &mut memory);
        self.device.synchronize()?;
        done
    }

    /// What is counted once the launches asked for before have ended.
    pub fn counts(&self) -> Result<Counts> {
        let memory = self.read();
        self.device.synchronize()?;
        memory.counts()
    }

    /// [`Structure::launch`](super::structure::Structure::launch).
    pub fn launch<K, V>(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()>
    where
        E: Launcher<M::Parts, K, V>,
    {
        let memory = self.read();
        // SAFETY: the memory outlives the launch, since dropping its buffers waits for it, and so do the
        // slices' buffers. Batches may run side by side; what may not takes the exclusive lock, after the
        // device has come to rest.
        unsafe { self.engine.launch(stream, memory.parts(), batch)? };
        Ok(())
    }

    /// [`Structure::scans`](super::structure::Structure::scans).
    pub fn scans<K, V>(&self, run: Scans<'_, K, V>) -> Result<()>
    where
        E: Launcher<M::Parts, K, V>,
    {
        self.alone(|engine, stream, memory| {
            let pairs = memory.counts()?.live;
            // SAFETY: the lock keeps other launches out, and those asked for before have ended.
            unsafe { scans(engine, stream, memory.parts(), pairs, run) }
        })
    }

    /// The structure as kernels take it, if it is of the kind `V`.
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
