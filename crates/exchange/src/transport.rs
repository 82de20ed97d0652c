//! Interface between the algorithm and the three ways to move data.
use crate::hub::Shared;
use crate::{Error, Result};
use gpu::{Buffer, Event, Slice, Stream};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Purpose of a round, which determines the window that receives its data. Requests alternate between two
/// windows, so that those of a round arrive while the caller uses those of the round before.
///
/// ```
/// use exchange::Lane;
///
/// assert_eq!((Lane::request(2), Lane::request(3)), (Lane::Even, Lane::Odd));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Requests of rounds with even numbers.
    Even,
    /// Requests of rounds with odd numbers.
    Odd,
    /// Answers.
    Answer,
}

/// Most words that a rank tells the others in one step, beside a count for each rank.
pub const WORDS: usize = 1024;

/// Number of windows of a rank.
pub const WINDOWS: usize = 3;

impl Lane {
    /// Returns the lane of the requests of a round. O(1).
    pub fn request(round: usize) -> Self {
        if round.is_multiple_of(2) { Self::Even } else { Self::Odd }
    }
}

/// Points in the order of streams after which the data of a round have arrived.
#[derive(Debug, Default)]
pub struct Arrival(pub Vec<Arc<Event>>);

impl Arrival {
    /// Makes later work of a stream wait for the arrival.
    pub fn order(&self, stream: &Stream) -> Result<()> {
        self.0.iter().try_for_each(|event| wait_in(stream, event))
    }
}

/// The data of a rank in a round.
#[derive(Debug)]
pub struct RoundPlan<'a> {
    pub lane: Lane,
    /// A number that must be the same on all ranks.
    pub shape: u64,
    /// Bytes for each rank.
    pub sends: Vec<Slice<'a, u8>>,
    /// Number of bytes from each rank.
    pub receives: Vec<usize>,
    /// Distance of the parts of a window, in bytes.
    pub stride: usize,
    /// Stream after whose work of now the data move: it has written what is sent, and used the window.
    pub after: Stream,
    pub deadline: Instant,
}

/// Makes later work of a stream wait for an event, unless it has completed. The host finds this in a
/// microsecond; the wait of a device for another one takes seven, also if the event has completed.
pub fn wait_in(stream: &Stream, event: &Event) -> Result<()> {
    if event.is_complete()? {
        return Ok(());
    }
    Ok(stream.wait(event)?)
}

/// Looks at an event until it has completed, or the time has come.
pub fn look_until(event: &Event, end: Instant) -> Result<()> {
    while !event.is_complete()? && Instant::now() < end {
        std::hint::spin_loop();
    }
    Ok(())
}

/// Numbers of elements from each rank to each rank.
pub type Matrix = Vec<Vec<usize>>;

/// The data of a rank in a direct exchange, in which each piece goes straight to its place in the receiver's
/// memory: one after the other, in the order of the senders' ranks.
#[derive(Debug)]
pub struct DirectPlan<'a> {
    /// Words that the ranks compare.
    pub header: Vec<u64>,
    /// Returns what the headers of all ranks agree on, or the error that they all find in them.
    pub check: fn(&[Vec<u64>]) -> Result<Matrix>,
    /// Bytes for each rank. Empty if the header refuses the operation.
    pub sends: Vec<Slice<'a, u8>>,
    /// Number of elements from each rank, if the caller knows it.
    pub receives: Option<Vec<usize>>,
    /// Bytes of an element.
    pub element: usize,
    /// Memory for what arrives, which the caller borrows mutably.
    pub into: Slice<'a, u8>,
    pub deadline: Instant,
}

impl DirectPlan<'_> {
    /// Returns the bytes in the memory of rank `to` for the elements from rank `from`.
    pub fn place(&self, counts: &Matrix, from: usize, to: usize) -> Range<usize> {
        let before: usize = counts[..from].iter().map(|row| row[to]).sum();
        self.element * before..self.element * (before + counts[from][to])
    }
}

/// Returns the numbers of elements for a rank.
pub fn column(counts: &Matrix, to: usize) -> Vec<usize> {
    counts.iter().map(|row| row[to]).collect()
}

impl RoundPlan<'_> {
    /// Returns the point after the copy of the own part, which is in the order of [`Self::after`]; `None` if
    /// the part is empty.
    pub fn own_event(&self, rank: usize) -> Result<Option<Event>> {
        Ok(if self.sends[rank].is_empty() { None } else { Some(self.after.point()?) })
    }
}

/// One rank's end of a way to move data.
///
/// All ranks call the same methods in the same order. After an error that [`Error::is_in_step`] does not
/// name, only `leave` may be called.
pub trait Transport: Send + std::fmt::Debug {
    fn rank(&self) -> usize;

    fn ranks(&self) -> usize;

    /// Returns the stream in whose order data are read and windows are written.
    fn stream(&self) -> &Stream;

    fn window(&self, lane: Lane) -> &Buffer<u8>;

    /// Returns the numbers of all ranks, which are as many on each.
    fn gather(&mut self, words: Vec<u64>, deadline: Instant) -> Result<Vec<Vec<u64>>>;

    /// Returns the windows of all ranks if kernels of this rank can write to them.
    fn windows(&self, _lane: Lane) -> Option<Vec<&Buffer<u8>>> {
        None
    }

    /// As [`gather`](Self::gather). Returns also the points of all ranks, as many on each, if there are
    /// [`windows`](Self::windows).
    fn gather_points(
        &mut self,
        words: Vec<u64>,
        _points: Vec<Arc<Event>>,
        deadline: Instant,
    ) -> Result<(Vec<Vec<u64>>, Vec<Arrival>)> {
        Ok((self.gather(words, deadline)?, Vec::new()))
    }

    /// Begins to move data to the windows of all ranks, after all work that their streams
    /// ([`RoundPlan::after`]) have now. The window may be used in the order of the arrival that is returned,
    /// and until the next round of the lane. The host waits for other ranks' threads or processes, not for
    /// devices.
    fn begin(&mut self, plan: RoundPlan<'_>) -> Result<Arrival>;

    /// Moves data straight to the receivers' memory, and returns the number of elements from each rank. They
    /// are there when the stream has executed the call.
    ///
    /// When the call has returned, also with an error, no rank submits work that accesses the memory of this
    /// one's plan, and to free this memory waits for the work submitted before.
    fn direct(&mut self, plan: DirectPlan<'_>) -> Result<Vec<usize>>;

    /// Returns the values that all ranks share, or `None` if they may be in several processes.
    fn share(&mut self, _value: Shared, _deadline: Instant) -> Result<Option<Vec<Shared>>> {
        Ok(None)
    }

    /// Returns an error if the transport has noticed that a rank is lost.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Tells the other ranks that this one is lost.
    fn leave(&mut self, cause: &str);
}

/// Returns an error unless the numbers of all ranks, a property `what`, are that of rank 0. O(ranks).
///
/// ```
/// use exchange::{Error, check_equal};
///
/// assert!(check_equal("operation", [3, 3, 3]).is_ok());
/// let error = check_equal("operation", [3, 3, 4]).unwrap_err();
/// assert!(matches!(error, Error::Mismatch { what: "operation", rank: 2, found: 4, expected: 3 }));
/// ```
///
/// # Errors
/// [`Error::Mismatch`] with the first rank that has another number.
pub fn check_equal(what: &'static str, values: impl IntoIterator<Item = u64>) -> Result<()> {
    let mut values = values.into_iter();
    let expected = values.next().unwrap_or_default();
    match values.enumerate().find(|(_, found)| *found != expected) {
        None => Ok(()),
        Some((before, found)) => Err(Error::Mismatch { what, rank: before + 1, found, expected }),
    }
}

/// Returns an error unless a rank sends as many bytes as its counts say.
pub fn check_bytes(rank: usize, found: usize, expected: usize) -> Result<()> {
    let (found, expected) = (found as u64, expected as u64);
    if found == expected { Ok(()) } else { Err(Error::Damaged { rank, found, expected }) }
}

/// Time for which a wait for a thread keeps a core busy before it sleeps.
pub const BUSY: Duration = Duration::from_micros(100);

/// The same of a wait for a device, which wakes no thread: a nap takes 100 µs or more, as the clock allows,
/// so that a shorter wait would end late by a good part of its time.
const BUSY_FOR_DEVICE: Duration = Duration::from_millis(20);
const NAP: Duration = Duration::from_micros(50);

/// Waits until `is_done` returns `true`, or returns `false` at the deadline.
fn poll(deadline: Instant, mut is_done: impl FnMut() -> Result<bool>) -> Result<bool> {
    let start = Instant::now();
    while !is_done()? {
        let now = Instant::now();
        if now >= deadline {
            return Ok(false);
        }
        match now - start {
            time if time < BUSY / 2 => std::hint::spin_loop(),
            time if time < BUSY_FOR_DEVICE => std::thread::yield_now(),
            _ => std::thread::sleep(NAP),
        }
    }
    Ok(true)
}

/// Waits for an event of the device, while the transport is `healthy`.
pub fn wait_for(event: &Event, deadline: Instant, healthy: impl Fn() -> Result<()>) -> Result<()> {
    match poll(deadline, || Ok(event.is_complete()? || healthy().map(|()| false)?))? {
        true => Ok(()),
        false => Err(Error::lost(None, "the device did not complete a round before the deadline")),
    }
}

/// Waits for all work of a stream, also if a rank is lost.
pub fn finish(stream: &Stream, deadline: Instant) -> Result<()> {
    wait_for(&stream.point()?, deadline, || Ok(()))
}

/// Submits a copy between parts of devices in the order of `stream`.
///
/// # Safety
/// - As [`Stream::copy_peer`].
pub unsafe fn copy(stream: &Stream, to: Slice<'_, u8>, from: Slice<'_, u8>) -> Result<()> {
    if from.is_empty() {
        return Ok(());
    }
    // SAFETY: the caller's obligations.
    unsafe { stream.copy_peer(to, from) }.map_err(Error::from)
}
