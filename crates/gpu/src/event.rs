//! Points in the order of a stream.
use crate::{Device, Error, Result};
use std::time::Instant;

/// A point in the order of a [`Stream`](crate::Stream): reached when all that was asked before it is done.
#[derive(Debug)]
pub struct Event {
    device: Device,
    mark: Mark,
}

/// What a back end keeps of an event.
#[derive(Debug)]
pub(crate) enum Mark {
    /// The emulator's: work is done when it is asked, so the point is passed when it is made.
    Clock(Instant),
    #[cfg(feature = "cuda")]
    Cuda(crate::cuda::Mark),
}

impl Event {
    pub(crate) fn new(device: Device, mark: Mark) -> Self {
        Self { device, mark }
    }

    pub(crate) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// The device of the event's stream.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Waits until the point is reached.
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

    /// Whether the point is reached. Does not wait.
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

    /// Milliseconds from `earlier` to this event, waiting until both are reached.
    ///
    /// A CUDA device measures it itself, to about half a microsecond. On the emulator it is time on the wall
    /// and says nothing of a GPU's speed.
    ///
    /// # Errors
    /// [`Error::OtherDevice`] for events of different devices; [`Error::DeviceLost`] when a kernel failed.
    pub fn elapsed_ms(&self, earlier: &Event) -> Result<f64> {
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
