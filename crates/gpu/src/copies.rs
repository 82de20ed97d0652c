//! Records of copies between host and device.
use crate::pinned::PinnedRanges;
use crate::{Device, Event, Result, Stream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Copies in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CopyTime {
    /// Number of copies.
    pub copies: u64,
    /// Bytes of all copies.
    pub bytes: u64,
    /// Time in which at least one copy was executed, or was the next work of its stream and waited for a copy
    /// engine, in milliseconds.
    pub busy_ms: f64,
}

/// Copies between host and device in both directions, as [`CopyLog::finish`] returns them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct CopyTimes {
    /// Copies to the device.
    pub up: CopyTime,
    /// Copies from the device.
    pub down: CopyTime,
}

/// A record of the copies between host and device that [`Stream::upload`], [`Stream::download`] and
/// [`Stream::copy`] submit while it lives. Created by [`Device::log_copies`].
///
/// ```
/// use gpu::{Device, Tier};
///
/// let device = Device::auto();
/// let (words, stream) = (device.zeroed::<u32>(3)?, device.stream()?);
/// let pinned = device.buffer_on::<u32>(Tier::Pinned, 2)?;
/// let log = device.log_copies()?;
/// let (all, mut read) = (words.global(), [0; 3]);
/// // SAFETY: buffers and arrays live until the stream has executed the copies, and nothing else accesses
/// // them.
/// unsafe {
///     stream.copy(all.part(0, 2), pinned.global())?; // from the host: 8 bytes
///     stream.copy(all.part(2, 1), all.part(0, 1))?; // within the device
///     stream.download(&mut read, all)?;
/// }
/// let times = log.finish()?;
/// assert_eq!((times.up.copies, times.up.bytes), (1, 8));
/// assert_eq!((times.down.copies, times.down.bytes), (1, 12));
/// assert!(times.up.busy_ms >= 0.0);
/// # Ok::<(), gpu::Error>(())
/// ```
///
/// # Concurrency
/// Copies of all threads and streams of the device are recorded, in each log that lives. Copies of kernels,
/// of methods of [`Buffer`](crate::Buffer), and within host or device memory are not.
///
/// # Cost
/// While a log lives, each copy between host and device records two events in its stream. Without a log, a
/// copy costs an uncontended lock. `finish` waits for the copies.
#[derive(Debug)]
#[must_use = "a log ends when it is dropped"]
pub struct CopyLog {
    begin: Event,
    copies: Arc<Copies>,
}

impl Device {
    /// Begins to record copies between host and device.
    ///
    /// ```
    /// let device = gpu::Device::auto();
    /// let log = device.log_copies()?;
    /// assert_eq!(log.finish()?.up.copies, 0);
    /// # Ok::<(), gpu::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed before;
    /// [`Error::Driver`](crate::Error::Driver) when the driver's call fails.
    pub fn log_copies(&self) -> Result<CopyLog> {
        // A stream of its own: in another one the event would wait for earlier work.
        let begin = self.stream()?.record()?;
        begin.synchronize()?;
        Ok(CopyLog { begin, copies: self.copy_logs().add() })
    }
}

impl CopyLog {
    /// Ends the record. Waits for the copies, and returns their numbers, bytes and times.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](crate::Error::DeviceLost) when a kernel failed.
    pub fn finish(self) -> Result<CopyTimes> {
        let copies = std::mem::take(&mut *lock(&self.copies));
        let time = |is_up| {
            let own = copies.iter().filter(|copy| copy.is_up == is_up);
            let (count, bytes) =
                own.clone().fold((0, 0), |(count, bytes), copy| (count + 1, bytes + copy.bytes));
            let interval =
                |copy: &Copied| Ok((copy.begin.elapsed_ms(&self.begin)?, copy.end.elapsed_ms(&self.begin)?));
            let intervals = own.map(interval).collect::<Result<Vec<_>>>()?;
            Ok(CopyTime { copies: count, bytes, busy_ms: covered(intervals) })
        };
        Ok(CopyTimes { up: time(true)?, down: time(false)? })
    }
}

/// A copy between host and device, and events before and after it.
#[derive(Debug)]
struct Copied {
    is_up: bool,
    bytes: u64,
    begin: Arc<Event>,
    end: Arc<Event>,
}

type Copies = Mutex<Vec<Copied>>;

// Each change is complete, also if a thread panics.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends of a copy: addresses, and whether the address is one of the host that is not pinned.
#[derive(Clone, Copy)]
pub struct Ends {
    pub to: (*const u8, bool),
    pub from: (*const u8, bool),
    pub bytes: usize,
}

/// The logs of a device, and the memory of the host that kernels can access.
#[derive(Debug, Default)]
pub struct CopyLogs {
    logs: Mutex<Vec<Weak<Copies>>>,
    /// Its ranges, by the addresses that kernels use.
    visible: PinnedRanges,
}

impl CopyLogs {
    /// Returns the memory of the host that kernels can access, by the addresses that they use.
    pub fn visible(&self) -> &PinnedRanges {
        &self.visible
    }

    fn add(&self) -> Arc<Copies> {
        let log = Arc::default();
        lock(&self.logs).push(Arc::downgrade(&log));
        log
    }

    /// Returns the logs that live.
    fn live(&self) -> Vec<Arc<Copies>> {
        let mut logs = lock(&self.logs);
        logs.retain(|log| log.strong_count() > 0);
        logs.iter().filter_map(Weak::upgrade).collect()
    }

    /// Returns whether a copy goes to the device; `None` if it stays within host or device.
    fn direction(&self, Ends { to, from, bytes }: Ends) -> Option<bool> {
        let is_host =
            |(address, is_host): (*const u8, bool)| is_host || self.visible.contain(address.addr(), bytes);
        let (to, from) = (is_host(to), is_host(from));
        (to != from).then_some(from)
    }

    /// Submits a copy, and records it in all logs.
    pub fn submit(&self, stream: &Stream, ends: Ends, copy: impl FnOnce() -> Result<()>) -> Result<()> {
        let logs = self.live();
        let Some(is_up) = (if logs.is_empty() { None } else { self.direction(ends) }) else { return copy() };
        let begin = stream.record()?;
        copy()?;
        // An error of this event must not hide that the copy is submitted.
        if let Ok(end) = stream.record() {
            let (begin, end, bytes) = (Arc::new(begin), Arc::new(end), ends.bytes as u64);
            for log in logs {
                lock(&log).push(Copied { is_up, bytes, begin: begin.clone(), end: end.clone() });
            }
        }
        Ok(())
    }
}

/// Returns the length of the union of intervals.
fn covered(mut intervals: Vec<(f64, f64)>) -> f64 {
    intervals.sort_by(|left, right| left.0.total_cmp(&right.0));
    let (mut sum, mut upto) = (0.0, f64::NEG_INFINITY);
    for (begin, end) in intervals {
        sum += (end - begin.max(upto)).max(0.0);
        upto = upto.max(end);
    }
    sum
}

#[cfg(all(test, feature = "emulator"))]
mod tests {
    use super::*;
    use crate::Tier;

    #[test]
    fn times_that_overlap_count_once() {
        assert_eq!(covered(Vec::new()), 0.0);
        assert_eq!(covered(vec![(5.0, 6.0), (0.0, 2.0)]), 3.0);
        assert_eq!(covered(vec![(1.0, 9.0), (0.0, 2.0), (3.0, 4.0), (9.0, 10.0)]), 10.0);
    }

    #[test]
    fn directions_follow_from_the_memory() {
        let device = Device::emulator(Default::default());
        let stream = device.stream().unwrap();
        let on = |tier| device.buffer_on::<u64>(tier, 4).unwrap();
        let (on_device, pinned, more) = (on(Tier::Device), on(Tier::Pinned), on(Tier::Pinned));
        let before = device.log_copies().unwrap();
        let log = device.log_copies().unwrap();
        let mut host = [0u64; 4];
        // SAFETY: all live until the copies have ended: the emulator waits.
        unsafe {
            stream.upload(on_device.global(), &host).unwrap();
            stream.copy(on_device.global().part(1, 3), pinned.global().part(1, 3)).unwrap();
            stream.copy(more.global(), pinned.global()).unwrap();
            stream.upload(more.global(), &host).unwrap();
            stream.download(&mut host, pinned.global()).unwrap();
            stream.copy(pinned.global().part(0, 1), on_device.global().part(3, 1)).unwrap();
        }
        let counts = |time: CopyTime| (time.copies, time.bytes);
        let times = log.finish().unwrap();
        assert_eq!((counts(times.up), counts(times.down)), ((2, 56), (1, 8)));
        drop(pinned);
        // SAFETY: as above.
        unsafe { stream.download(&mut host, on_device.global()).unwrap() };
        let times = before.finish().unwrap();
        assert_eq!((counts(times.up), counts(times.down)), ((2, 56), (2, 40)));
        assert!(device.copy_logs().live().is_empty());
    }

    #[test]
    fn a_copy_that_fails_is_not_recorded() {
        let device = Device::emulator(Default::default());
        let (stream, words) = (device.stream().unwrap(), device.zeroed::<u32>(2).unwrap());
        let log = device.log_copies().unwrap();
        device.emulator_handle().unwrap().fail_copy(0);
        // SAFETY: both live until the copy has ended: the emulator waits.
        assert!(unsafe { stream.upload(words.global(), &[1, 2]) }.is_err());
        assert_eq!(log.finish().unwrap(), CopyTimes::default());
    }
}
