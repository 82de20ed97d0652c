//! Rounds that the caller plans: for an operation of many rounds whose counts all ranks know beforehand.
//!
//! [`Exchange::rounds`] plans by itself and waits for the counts of its batch. A caller with several batches
//! in flight tells the others the counts of all of them once, by [`Exchange::agree`], and then moves pieces:
//!
//! ```text
//! agree ── move_pieces(Even) ── move_pieces(Odd) ── arrive(first) ── kernels ── move_pieces(Answer) ...
//! ```
//!
//! Where kernels of each rank can write to the windows of all ([`Exchange::windows`]), they may move the data
//! themselves: a rank tells the others points in the order of its streams ([`Exchange::agree_at`]), and each
//! makes its streams wait for those of all ranks.
use crate::hub::Shared;
use crate::transport::{Arrival, Lane, RoundPlan, finish, wait_for};
use crate::{Error, Exchange, Result};
use gpu::{Event, Slice, Stream};
use std::sync::Arc;

/// Most words that one step tells the others; more go in several steps.
const MOST: usize = crate::transport::WORDS;

/// A round that was begun by [`Exchange::move_pieces`] and has not been taken yet, or points of all ranks
/// from [`Exchange::agree_at`].
#[derive(Debug)]
#[must_use = "the pieces have arrived only after `Exchange::arrive`"]
pub struct Transfer(Arrival);

/// Rounds that the caller plans.
impl Exchange {
    /// Tells all ranks some words, as many on each rank, and returns those of all ranks, in their order.
    ///
    /// Cost: one step for each 1024 words; by NCCL, each waits for the device once.
    ///
    /// ```
    /// use exchange::{Exchange, Limits, Meeting};
    ///
    /// let device = gpu::Device::auto();
    /// let mut exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// assert_eq!(exchange.agree(&[7, 8])?, [[7, 8]]);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PeerLost`] when a rank is lost; [`Error::Mismatch`] if another rank executes another
    /// operation; [`Error::Device`] when a device failed.
    pub fn agree(&mut self, words: &[u64]) -> Result<Vec<Vec<u64>>> {
        let mut all = vec![Vec::with_capacity(words.len()); self.ranks()];
        for piece in words.chunks(MOST) {
            let parts = self.step(|transport, deadline| transport.gather(piece.to_vec(), deadline))?;
            all.iter_mut().zip(parts).for_each(|(all, part)| all.extend(part));
        }
        Ok(all)
    }

    /// Returns the windows of a lane of all ranks if kernels of this rank can write to all of them, as by
    /// peer copies between devices with peer access; it may be so for some ranks only. Part `i` of each,
    /// which begins at byte `i` times [`part_bytes`](crate::Limits::part_bytes), is for what rank `i` writes.
    /// This rank keeps them all alive until its [stream](Self::stream) has executed all work.
    ///
    /// ```
    /// use exchange::{Exchange, Lane, Limits, Meeting};
    ///
    /// let device = gpu::Device::auto();
    /// let exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// assert_eq!(exchange.windows(Lane::Odd)?.unwrap()[0].len(), Limits::default().part_bytes);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Device`] when a window has no memory, which does not happen.
    pub fn windows(&self, lane: Lane) -> Result<Option<Vec<Slice<'_, u8>>>> {
        let Some(windows) = self.transport().windows(lane) else { return Ok(None) };
        Ok(Some(windows.into_iter().map(|window| window.slice(..)).collect::<gpu::Result<_>>()?))
    }

    /// As [`agree`](Self::agree), for at most 1024 words, and with events in the order of this rank's
    /// streams: *points*, as many on each rank. Returns for each point those of all ranks, for which streams
    /// wait by [`arrive_in`](Self::arrive_in); none if there are no [`windows`](Self::windows).
    ///
    /// Cost: one step; no wait for the device by peer copies.
    ///
    /// ```
    /// use exchange::{Exchange, Limits, Meeting};
    /// use std::sync::Arc;
    ///
    /// let device = gpu::Device::auto();
    /// let mut exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// let point = Arc::new(exchange.stream().point()?);
    /// let (words, mut points) = exchange.agree_at(&[7], vec![point])?;
    /// exchange.arrive(points.pop().unwrap())?;
    /// assert_eq!(words, [[7]]);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`agree`](Self::agree); [`Error::Arguments`] for more words.
    pub fn agree_at(
        &mut self,
        words: &[u64],
        points: Vec<Arc<Event>>,
    ) -> Result<(Vec<Vec<u64>>, Vec<Transfer>)> {
        if words.len() > MOST {
            return Err(Error::arguments("the words of a step", words.len(), format!("at most {MOST} fit")));
        }
        let told = self.step(|transport, deadline| transport.gather_points(words.to_vec(), points, deadline));
        let (words, points) = told?;
        Ok((words, points.into_iter().map(Transfer).collect()))
    }

    /// Waits until the device has executed the work before a point in the order of a stream.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn wait_for(&mut self, point: &Event) -> Result<()> {
        self.count_wait();
        self.step(|transport, deadline| wait_for(point, deadline, || transport.check()))
    }

    /// Waits until the [stream](Self::stream) has executed all work, until the deadline at most, also if a
    /// rank is lost or the device failed: then there is nothing to wait for.
    pub fn finish(&self) {
        if let Err(error) = finish(self.stream(), self.limits().step_end()) {
            tracing::debug!(%error, "work of this rank may still run");
        }
    }

    /// Begins to move `sends[i]` to rank `i`, for all ranks, into the [window](Self::window) of a lane. The
    /// copies come after all work that the [streams](Self::stream) of all ranks have now. `receives[i]` is
    /// the number of bytes that rank `i` sends to this one, and `shape` a number that all ranks agree on.
    ///
    /// The pieces must not change before the stream has executed [`arrive`](Self::arrive). All memory stays
    /// allocated until then; methods of buffers, which wait for the device, are no danger.
    ///
    /// Cost: one step, `peer`: 2; no wait for the device.
    ///
    /// ```
    /// use exchange::{Exchange, Lane, Limits, Meeting};
    ///
    /// let device = gpu::Device::auto();
    /// let mut exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// let piece = device.from_slice(&[1u8, 2, 3])?;
    /// let moving = exchange.move_pieces(Lane::Even, 0, vec![piece.slice(..)?], vec![3])?;
    /// exchange.arrive(moving)?;
    /// exchange.wait()?; // since the host reads
    /// assert_eq!(exchange.window(Lane::Even)?.slice(..3)?.read()?, [1, 2, 3]);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Arguments`] unless there is a piece and a number for each rank, none above
    /// [`part_bytes`](crate::Limits::part_bytes); [`Error::PeerLost`] when a rank is lost;
    /// [`Error::Mismatch`] if the shapes differ; [`Error::Damaged`] if a rank sends another number of bytes
    /// than `receives` says; [`Error::Device`] when a device failed. After an error the exchange is at its
    /// end.
    pub fn move_pieces(
        &mut self,
        lane: Lane,
        shape: u64,
        sends: Vec<Slice<'_, u8>>,
        receives: Vec<usize>,
    ) -> Result<Transfer> {
        let stream = self.stream().clone();
        self.move_pieces_after(&stream, (lane, shape), sends, receives)
    }

    /// As [`move_pieces`](Self::move_pieces), in the order of another stream of this rank's device: the
    /// copies come after all work that `after` has now, which has used the window and written the pieces.
    ///
    /// ```
    /// use exchange::{Exchange, Lane, Limits, Meeting};
    ///
    /// let device = gpu::Device::auto();
    /// let mut exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// let (stream, piece) = (device.urgent_stream()?, device.from_slice(&[1u8, 2, 3])?);
    /// let pieces = vec![piece.slice(..)?];
    /// let moving = exchange.move_pieces_after(&stream, (Lane::Even, 0), pieces, vec![3])?;
    /// exchange.arrive_in(&stream, moving)?;
    /// stream.synchronize()?;
    /// assert_eq!(exchange.window(Lane::Even)?.slice(..3)?.read()?, [1, 2, 3]);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`move_pieces`](Self::move_pieces); [`Error::Arguments`] also for a stream of another device.
    pub fn move_pieces_after(
        &mut self,
        after: &Stream,
        (lane, shape): (Lane, u64),
        sends: Vec<Slice<'_, u8>>,
        receives: Vec<usize>,
    ) -> Result<Transfer> {
        let checked = self.check_device("the ordinal of the stream's device", after.device());
        let checked = checked.and_then(|()| self.check_pieces(&sends, &receives));
        if let Err(error) = checked {
            self.mark_lost(&error);
            return Err(error);
        }
        let arrival = self.begin_pieces(after, (lane, shape), sends, receives);
        Ok(Transfer(arrival.inspect_err(|error| self.mark_lost(error))?))
    }

    /// Begins to move pieces, as many as there are ranks, and counts them as a round.
    pub(crate) fn begin_pieces(
        &mut self,
        after: &Stream,
        (lane, shape): (Lane, u64),
        sends: Vec<Slice<'_, u8>>,
        receives: Vec<usize>,
    ) -> Result<Arrival> {
        let after = after.clone();
        let (rank, stride) = (self.rank(), self.limits().part_bytes);
        let to_others = sends.iter().map(Slice::len).sum::<usize>() - sends[rank].len();
        let arrival = self.step(|transport, deadline| {
            transport.begin(RoundPlan { lane, shape, sends, receives, stride, after, deadline })
        })?;
        self.count_round(to_others);
        Ok(arrival)
    }

    fn check_pieces(&self, sends: &[Slice<'_, u8>], receives: &[usize]) -> Result<()> {
        let (ranks, part) = (self.ranks(), self.limits().part_bytes);
        for (what, found) in [("the number of pieces", sends.len()), ("the sizes", receives.len())] {
            if found != ranks {
                return Err(Error::arguments(what, found, format!("there are {ranks} ranks")));
            }
        }
        let longest = sends.iter().map(Slice::len).chain(receives.iter().copied()).max().unwrap_or(0);
        match longest <= part {
            true => Ok(()),
            false => Err(Error::arguments("a piece", longest, format!("a part has {part} bytes"))),
        }
    }

    /// Makes later work of the [stream](Self::stream) wait until the pieces of all ranks have arrived.
    ///
    /// Cost: no wait of the host.
    ///
    /// # Errors
    /// [`Error::PeerLost`] when a rank is lost; [`Error::Device`] when a device failed. After an error the
    /// exchange is at its end.
    pub fn arrive(&mut self, moving: Transfer) -> Result<()> {
        let stream = self.stream().clone();
        self.arrive_in(&stream, moving)
    }

    /// As [`arrive`](Self::arrive), for later work of another stream.
    ///
    /// # Errors
    /// As [`arrive`](Self::arrive).
    pub fn arrive_in(&mut self, stream: &Stream, moving: Transfer) -> Result<()> {
        self.step(|_, _| moving.0.order(stream))
    }

    /// Returns the window of a lane: part `i`, which begins at byte `i` times
    /// [`part_bytes`](crate::Limits::part_bytes), has what rank `i` has sent. It is valid from
    /// [`arrive`](Self::arrive) until the next round of the lane, in the order of the [stream](Self::stream).
    ///
    /// # Errors
    /// [`Error::Device`] when the window has no memory, which does not happen.
    pub fn window(&self, lane: Lane) -> Result<Slice<'_, u8>> {
        Ok(self.transport().window(lane).slice(..)?)
    }

    /// Shares a value with the other ranks, and returns the values of all, in their order; `None` if the
    /// ranks may be in several processes, as by NCCL. For memory that other ranks access directly: each of
    /// them then keeps it alive.
    ///
    /// Cost: one step; by NCCL none.
    ///
    /// ```
    /// use exchange::{Exchange, Limits, Meeting};
    /// use std::sync::Arc;
    ///
    /// let device = gpu::Device::auto();
    /// let mut exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// let all = exchange.share(Arc::new(7u32))?.unwrap();
    /// assert_eq!(all[0].downcast_ref(), Some(&7u32));
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PeerLost`] when a rank is lost; [`Error::Mismatch`] if another rank executes another
    /// operation.
    pub fn share(&mut self, value: Shared) -> Result<Option<Vec<Shared>>> {
        self.step(|transport, deadline| transport.share(value, deadline))
    }

    /// Ends the exchange: all ranks get [`Error::PeerLost`] from now on. For a caller that cannot finish an
    /// operation which others have begun.
    ///
    /// ```
    /// use exchange::{Error, Exchange, Limits, Meeting};
    ///
    /// let device = gpu::Device::auto();
    /// let mut exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// exchange.give_up("the map's memory is full");
    /// assert!(matches!(exchange.agree(&[1]), Err(Error::PeerLost(_))));
    /// # Ok::<(), exchange::Error>(())
    /// ```
    pub fn give_up(&mut self, cause: &str) {
        let rank = self.rank();
        self.mark_lost(&Error::lost(rank, cause));
    }

    /// Returns an error if a rank was lost before, without a step.
    ///
    /// # Errors
    /// [`Error::PeerLost`].
    pub fn check(&self) -> Result<()> {
        self.check_alive()
    }
}
