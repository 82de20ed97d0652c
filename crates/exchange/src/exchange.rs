//! One rank's end of an exchange.
use crate::error::Lost;
use crate::padded::Headers;
use crate::transport::{self, Transport, check_equal};
use crate::{Error, Limits, Result};
use gpu::{Device, Stream};
use std::time::Instant;

/// Data that a rank has sent so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Bytes of data sent to other ranks; headers of padded exchanges and their padding included.
    pub bytes: u64,
    /// Rounds, in both directions. A padded exchange is one, and its answers are another. What kernels write
    /// to windows counts by [`Exchange::count_round`].
    pub rounds: u64,
    /// Waits of the host for the device, in [`Exchange::wait`], [`Exchange::wait_for`] and
    /// [`Padded::counts`](crate::Padded::counts).
    pub waits: u64,
}

/// One rank's end of an exchange between N ranks, each with a device.
///
/// All ranks call the same operations in the same order, each in a thread or process of its own. An operation
/// is a *step* or several; in a step all ranks meet.
///
/// | operation | steps | waits of the host for the device |
/// |---|---|---|
/// | making it | 1; [`peer`](Self::peer): 2 | 0 |
/// | [`rounds`](Self::rounds) | 1, for the counts | 0 between threads; 1 by NCCL |
/// | [`Rounds::next`](crate::Rounds::next), [`Rounds::answer`](crate::Rounds::answer) | 1 a round, which is begun one call ahead; `peer`: 2 | 0 |
/// | [`all_to_all`](Self::all_to_all) | 2 | between threads 0, or 60 µs for short parts; 1 by NCCL |
/// | [`all_to_all_sized`](Self::all_to_all_sized) | 2; by NCCL 1 | 0, or 60 µs for short parts |
/// | [`agree`](Self::agree) | 1 for each 1024 words | 0 between threads; 1 a step by NCCL |
/// | [`agree_at`](Self::agree_at) | 1 | 0 between threads; 1 by NCCL |
/// | [`share`](Self::share) | 1; 0 by NCCL | 0 |
/// | [`move_pieces`](Self::move_pieces) | 1; `peer`: 2 | 0 |
/// | [`padded`](Self::padded), [`Padded::answer`](crate::Padded::answer) | 1; `peer`: 2 | 0 |
/// | [`Padded::counts`](crate::Padded::counts), [`wait`](Self::wait), [`wait_for`](Self::wait_for) | 0 | 1 |
///
/// ```
/// use exchange::{Exchange, Limits, Meeting};
/// use gpu::Device;
///
/// let meeting = Meeting::new(2)?;
/// let limits = Limits { part_bytes: 256, slot_bytes: 256, ..Limits::default() };
/// // Each rank has two elements for itself, and one for the other rank.
/// let run = |rank: usize| -> exchange::Result<Vec<u32>> {
///     let device = Device::emulator(Default::default());
///     let mut exchange = Exchange::emulated(&meeting, rank, &device, limits)?;
///     let counts = if rank == 0 { [2, 1] } else { [1, 2] };
///     let batch = device.from_slice(&[10 * rank as u32, 10 * rank as u32 + 1, 10 * rank as u32 + 2])?;
///     let mut received = device.zeroed::<u32>(3)?;
///     let from = exchange.all_to_all(7, batch.slice(..)?, &counts, received.slice_mut(..)?)?;
///     assert_eq!(from, counts);
///     Ok(received.read()?)
/// };
/// std::thread::scope(|scope| {
///     let other = scope.spawn(|| run(1));
///     assert_eq!(run(0).unwrap(), [0, 1, 10]);
///     assert_eq!(other.join().unwrap().unwrap(), [2, 11, 12]);
/// });
/// # Ok::<(), exchange::Error>(())
/// ```
///
/// # Failures
/// A rank is lost when its `Exchange` is dropped, when an operation of it fails in the middle, or when it
/// does not answer before the [deadline](Limits::deadline). Then every other rank gets [`Error::PeerLost`],
/// in this or its next operation, and in all later ones. (By NCCL, a rank that expects no data of the lost
/// one completes its operation, and notices the loss in the next one.) Buffers and devices stay usable.
/// Arguments that do not fit are an error on all ranks, after which the exchange can be used again.
///
/// # Concurrency
/// An end belongs to one thread at a time. The ends of one process must be used by different threads: an
/// operation waits for the other ranks.
#[derive(Debug)]
pub struct Exchange {
    transport: Box<dyn Transport>,
    limits: Limits,
    headers: Headers,
    lost: Option<Lost>,
    traffic: Traffic,
}

/// Making an exchange.
impl Exchange {
    /// Joins rank `rank` on an emulated device. Data move through the memory of the host.
    ///
    /// # Errors
    /// [`Error::Arguments`] for a rank that does not exist or is taken, for a device that is not emulated,
    /// and for limits out of range; [`Error::Mismatch`] if the ranks have different limits;
    /// [`Error::PeerLost`] if a rank does not join before the deadline; [`Error::Device`] when the windows
    /// exceed the memory.
    #[cfg(feature = "emulator")]
    pub fn emulated(meeting: &crate::Meeting, rank: usize, device: &Device, limits: Limits) -> Result<Self> {
        limits.check()?;
        Self::handshake(Box::new(crate::emulated::Emulated::new(meeting, rank, device, &limits)?), limits)
    }

    /// Joins rank `rank` of several devices of one process. Data are copied from device to device.
    ///
    /// ```
    /// use exchange::{Exchange, Limits, Meeting};
    ///
    /// let device = gpu::Device::auto();
    /// let exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// assert_eq!((exchange.rank(), exchange.ranks()), (0, 1));
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`emulated`](Self::emulated); [`Error::Device`] also if some devices are emulated and others not.
    pub fn peer(meeting: &crate::Meeting, rank: usize, device: &Device, limits: Limits) -> Result<Self> {
        limits.check()?;
        Self::handshake(Box::new(crate::peer::Peer::new(meeting, rank, device, &limits)?), limits)
    }

    /// Joins rank `rank` of `ranks` ranks, which may be threads, processes, or processes on several hosts.
    /// NCCL moves the data. `id` comes from [`nccl_id`](crate::nccl_id) of one rank, and is the same on all.
    ///
    /// # Errors
    /// [`Error::NoNccl`] when NCCL cannot be used; otherwise as [`emulated`](Self::emulated), where the
    /// device must be a CUDA device.
    #[cfg(target_os = "linux")]
    pub fn nccl(
        id: &nccl_late::UniqueId,
        (rank, ranks): (usize, usize),
        device: &Device,
        limits: Limits,
    ) -> Result<Self> {
        limits.check()?;
        let nccl = nccl_late::library().map_err(Clone::clone)?;
        if device.is_emulator() {
            return Err(Error::arguments("the device of the rank", rank, "it is a CUDA device"));
        }
        let transport = crate::nccl::Nccl::new(nccl, id, (rank, ranks), device, &limits)?;
        Self::handshake(Box::new(transport), limits)
    }

    /// Compares the limits of all ranks.
    pub(crate) fn handshake(transport: Box<dyn Transport>, limits: Limits) -> Result<Self> {
        let headers = Headers::new(transport.stream().device(), transport.ranks())?;
        let (lost, traffic) = (None, Traffic::default());
        let mut exchange = Self { transport, limits, headers, lost, traffic };
        let all = exchange.step(|transport, deadline| transport.gather(limits.words().to_vec(), deadline))?;
        check_equal("part_bytes", all.iter().map(|words| words[0]))?;
        check_equal("slot_bytes", all.iter().map(|words| words[1]))?;
        Ok(exchange)
    }
}

/// Properties.
impl Exchange {
    /// Returns the number of this rank, counted from 0.
    pub fn rank(&self) -> usize {
        self.transport.rank()
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.transport.ranks()
    }

    /// Returns the device of this rank.
    pub fn device(&self) -> &Device {
        self.transport.stream().device()
    }

    /// Returns the stream in whose order the exchange reads batches and writes its windows. Kernels that
    /// write a batch or read what has arrived belong to this stream.
    pub fn stream(&self) -> &Stream {
        self.transport.stream()
    }

    /// Returns the bounds.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Returns what this rank has sent so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Waits until the stream has executed all work submitted to it.
    ///
    /// # Errors
    /// [`Error::PeerLost`] when it has not before the deadline; [`Error::Device`] when a kernel failed.
    pub fn wait(&mut self) -> Result<()> {
        self.count_wait();
        self.step(|transport, deadline| {
            let event = transport.stream().point()?;
            transport::wait_for(&event, deadline, || transport.check())
        })
    }
}

/// Steps.
impl Exchange {
    pub(crate) fn transport(&self) -> &dyn Transport {
        &*self.transport
    }

    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns an error if a rank was lost before.
    pub(crate) fn check_alive(&self) -> Result<()> {
        self.lost.as_ref().map_or(Ok(()), |lost| Err(Error::PeerLost(lost.clone())))
    }

    /// Returns an error unless a device is that of this rank. `what` names its ordinal.
    pub(crate) fn check_device(&self, what: &'static str, device: &Device) -> Result<()> {
        if device == self.device() {
            return Ok(());
        }
        let expected = format!("the rank has another device, of ordinal {}", self.device().ordinal());
        Err(Error::arguments(what, device.ordinal() as usize, expected))
    }

    /// Runs a part of an operation. If it fails in the middle, this rank is lost to the others.
    pub(crate) fn step<R>(
        &mut self,
        run: impl FnOnce(&mut dyn Transport, Instant) -> Result<R>,
    ) -> Result<R> {
        self.check_alive()?;
        let result = run(&mut *self.transport, self.limits.step_end());
        if let Err(error) = &result
            && !error.is_in_step()
        {
            self.mark_lost(error);
        }
        result
    }

    /// Ends the exchange after an error.
    pub(crate) fn mark_lost(&mut self, error: &Error) {
        let lost = match error {
            Error::PeerLost(lost) => lost.clone(),
            error => Lost { rank: Some(self.rank()), cause: error.to_string() },
        };
        self.transport.leave(&lost.cause);
        self.lost.get_or_insert(lost);
    }

    /// Ends the exchange because the caller did not finish an operation.
    pub(crate) fn abandon(&mut self) {
        if self.lost.is_none() {
            self.mark_lost(&Error::lost(self.rank(), "it did not finish an operation"));
        }
    }

    /// Counts a wait for the device.
    pub(crate) fn count_wait(&mut self) {
        self.traffic.waits += 1;
    }

    /// Counts a round in which this rank sends `bytes` bytes to other ranks: also one in which kernels of the
    /// caller write them to the [windows](Self::windows).
    pub fn count_round(&mut self, bytes: usize) {
        self.traffic.bytes += bytes as u64;
        self.traffic.rounds += 1;
    }
}
