//! Points in the order of a stream.
use crate::machine::Mark;
use crate::{Device, Error, Result};

/// A point in the order of a [`Stream`](crate::Stream), which completes when all work submitted before it
/// has.
///
/// ```
/// use gpu::Device;
///
/// let device = Device::auto();
/// let (first, second) = (device.stream()?, device.stream()?);
/// let begin = first.record()?;
/// let end = first.record()?;
/// second.wait(&end)?; // later work of `second` runs after the earlier work of `first`
/// end.synchronize()?;
/// assert!(begin.is_complete()? && end.elapsed_ms(&begin)? >= 0.0);
/// assert_eq!((end.device(), second.device()), (&device, &device));
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Cost
///
/// `synchronize` and `elapsed_ms` wait for the event; the latter for both, and for no later work.
/// `is_complete` is one call of the driver and does not wait.
#[derive(Debug)]
pub struct Event {
    device: Device,
    mark: Mark,
    has_time: bool,
}

impl Event {
    pub(crate) fn new(device: Device, mark: Mark, has_time: bool) -> Self {
        Self { device, mark, has_time }
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Returns the device of the event's stream.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until the event completes.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed.
    pub fn synchronize(&self) -> Result<()> {
        match &self.mark {
            Mark::Clock(_) => Ok(()),
            #[cfg(feature = "cuda")]
            Mark::Cuda(mark) => mark.synchronize(),
        }
    }

    /// Returns `true` if the event has completed. Does not wait.
    ///
    /// # Errors
    /// [`Error::DeviceLost`] when a kernel failed.
    pub fn is_complete(&self) -> Result<bool> {
        match &self.mark {
            Mark::Clock(_) => Ok(true),
            #[cfg(feature = "cuda")]
            Mark::Cuda(mark) => mark.is_complete(),
        }
    }

    /// Returns the milliseconds from `earlier` to this event; waits until both have completed.
    ///
    /// A CUDA device measures the time itself, with a resolution of about half a microsecond. On the emulator
    /// it is wall-clock time and says nothing about GPU speed.
    ///
    /// # Errors
    /// [`Error::NoTime`] if an event comes from [`Stream::point`](crate::Stream::point);
    /// [`Error::OtherDevice`] for events of different devices; [`Error::DeviceLost`] when a kernel failed.
    pub fn elapsed_ms(&self, earlier: &Event) -> Result<f64> {
        if !self.has_time || !earlier.has_time {
            return Err(Error::NoTime);
        }
        earlier.synchronize()?;
        self.synchronize()?;
        match (&self.mark, &earlier.mark) {
            (Mark::Clock(end), Mark::Clock(start)) if self.device == earlier.device => {
                Ok(end.saturating_duration_since(*start).as_secs_f64() * 1e3)
            }
            #[cfg(feature = "cuda")]
            (Mark::Cuda(end), Mark::Cuda(start)) if self.device == earlier.device => end.elapsed_ms(start),
            _ => Err(Error::OtherDevice { this: self.device.name(), other: earlier.device.name() }),
        }
    }
}
