//! Copies between devices, and access of a device to the memory of another.
#[cfg(doc)]
use crate::Tier;
use crate::{Device, Error, Result, Slice, Stream};
use bytemuck::Pod;

/// Several devices in one process.
impl Device {
    /// Makes the device current in the calling thread, for other libraries that ask CUDA for the current
    /// device (NCCL does when a communicator is made). Calls of this crate do so themselves. Does nothing on
    /// the emulator.
    ///
    /// Cost: a call of the driver; no wait.
    ///
    /// ```
    /// gpu::Device::auto().make_current()?;
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Driver`] when the driver's call fails.
    pub fn make_current(&self) -> Result<()> {
        self.machine().make_current()
    }

    /// Lets this device access the memory of `other`, so that [copies](Stream::copy_peer) between them need
    /// not go through the memory of the host. Returns whether the hardware can do so; emulated devices
    /// always can. Repeated calls have no effect.
    ///
    /// Cost: two calls of the driver; the first call for a pair of devices may take milliseconds.
    ///
    /// ```
    /// let [one, two] = [(), ()].map(|()| gpu::Device::emulator(Default::default()));
    /// assert!(one.enable_peer(&two)?);
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PeerCopy`] when one of the devices is emulated and the other is not; [`Error::Driver`] when
    /// the driver's call fails.
    pub fn enable_peer(&self, other: &Device) -> Result<bool> {
        check_back_ends(self, other)?;
        if self == other { Ok(true) } else { self.machine().enable_peer(other.machine()) }
    }
}

impl Stream {
    /// Submits a copy of `from` to `to`, on another device or the same one. On the same device, memory of any
    /// tier can be copied, as by [`copy`](Self::copy); on different devices, both are [`Tier::Device`]. The
    /// stream belongs to one of the two devices; that of `from` is usually faster.
    ///
    /// Only this stream orders the copy. Streams of the other device must [wait](Self::wait) for an event
    /// after it, and so must the host before it uses methods without a stream.
    ///
    /// Cost: a call of the driver; no wait.
    ///
    /// ```
    /// let [one, two] = [(), ()].map(|()| gpu::Device::emulator(Default::default()));
    /// let (words, copy) = (one.from_slice(&[1u32, 2, 3])?, two.zeroed::<u32>(2)?);
    /// let stream = one.stream()?;
    /// // SAFETY: both buffers live until the copy has been executed, and nothing else accesses them.
    /// unsafe { stream.copy_peer(copy.slice(..)?, words.slice(1..)?)? };
    /// two.default_stream().wait(&stream.record()?)?;
    /// assert_eq!(copy.read()?, [2, 3]);
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Length`] if the lengths differ; [`Error::PeerCopy`] when the stream belongs to neither
    /// device, or one of them is emulated and the other is not; [`Error::DeviceLost`] when a kernel failed
    /// before; [`Error::Driver`] when the driver's call fails.
    ///
    /// # Safety
    /// - Both slices live until the stream has executed the copy, and do not overlap; nothing else accesses
    ///   `to` or writes `from` meanwhile. (Dropping a buffer waits for its own device only.)
    pub unsafe fn copy_peer<T: Pod>(&self, to: Slice<'_, T>, from: Slice<'_, T>) -> Result<()> {
        let to_start = to.whole("copy_peer", from.len())?;
        check_back_ends(to.device(), from.device())?;
        if self.device() != to.device() && self.device() != from.device() {
            return Err(refused(to.device(), from.device(), "the stream belongs to neither device"));
        }
        if from.is_empty() {
            return Ok(());
        }
        let (from_start, bytes) = (from.pointer() as *const u8, from.byte_len());
        // SAFETY: both ranges have these bytes; the rest is the caller's obligation.
        self.submitted(unsafe {
            match to.device() == from.device() {
                true => self.queue().copy(to_start, from_start, bytes),
                false => {
                    let ends = [to, from].map(|slice| slice.device().machine());
                    self.queue().copy_peer((to_start, ends[0]), (from_start, ends[1]), bytes)
                }
            }
        })
    }
}

fn check_back_ends(to: &Device, from: &Device) -> Result<()> {
    match to.is_emulator() == from.is_emulator() {
        true => Ok(()),
        false => Err(refused(to, from, "one of them is emulated and the other is not")),
    }
}

fn refused(to: &Device, from: &Device, cause: &'static str) -> Error {
    Error::PeerCopy { to: to.name(), from: from.name(), cause }
}
