//! The host side that all families share: a device, the kernels of one variant, and memory behind a lock.
use crate::Result;
use gpu::{Device, Stream};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

/// Handle of a structure with the memory `M`, whose kernels `T` launches. Launches that may run concurrently
/// hold the read lock; operations that replace the memory or must run exclusively hold the write lock.
pub struct Handle<T: ?Sized, M> {
    pub device: Device,
    kernels: Box<T>,
    memory: RwLock<M>,
}

// A lock is poisoned by a panic while it is held. The memory is then as the last finished launch left it,
// which is valid.
impl<T: ?Sized, M> Handle<T, M> {
    pub fn new(device: Device, kernels: Box<T>, memory: M) -> Self {
        Self { device, kernels, memory: RwLock::new(memory) }
    }

    /// Returns the kernels of the structure's variant.
    pub fn kernels(&self) -> &T {
        &self.kernels
    }

    pub fn read(&self) -> RwLockReadGuard<'_, M> {
        self.memory.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn get_mut(&mut self) -> &mut M {
        self.memory.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all earlier launches, and returns the memory.
    ///
    /// # Errors
    /// [`Error::Device`](crate::Error::Device) if the device is lost.
    pub fn settled(&self) -> Result<RwLockReadGuard<'_, M>> {
        let memory = self.read();
        self.device.synchronize()?;
        Ok(memory)
    }

    /// Runs an exclusive operation to completion. Waits even if it fails: kernels that it has launched must
    /// not run concurrently with those of the next lock holder.
    ///
    /// # Errors
    /// Those of `run`; [`Error::Device`](crate::Error::Device) if the device is lost.
    pub fn exclusive<R>(&self, run: impl FnOnce(&Stream, &mut M) -> Result<R>) -> Result<R> {
        let mut memory = self.memory.write().unwrap_or_else(PoisonError::into_inner);
        self.device.synchronize()?;
        let done = run(&self.device.default_stream(), &mut memory);
        self.device.synchronize()?;
        done
    }
}
