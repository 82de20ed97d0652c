//! Exchange between devices of one process: each rank copies to the windows of the others.
//!
//! A round has two steps. In the first, each rank posts an event from which on its window may be written.
//! Then each rank submits its copies to a stream of its own, which waits for the event of each destination.
//! Rank r copies to rank r + s in the s-th place, so that at any time each rank sends to one rank and
//! receives from one. In the second step, each rank posts an event after its copies; the main streams wait
//! for those of all when the caller takes the round. No step of a round waits for a device.
//!
//! All ranks own all windows, so a window lives as long as any rank that may copy to it.
//!
//! Callers may also write to the windows of other ranks by kernels, and order these by the points that ranks
//! tell each other: see [`Exchange::windows`](crate::Exchange::windows).
//!
//! # Direct exchanges
//!
//! An all-to-all copies to memory of the receivers' callers instead. It has two steps as well. In the first,
//! each rank posts its counts, where its memory lies, and an event from which on it may be written, unless
//! its stream is idle; in the second, an event after its copies.
//!
//! The memory is borrowed: when the call of its owner has returned, it may be freed, and nobody else keeps it
//! alive. To free it waits for the work of its own device only, and this includes the waits of its streams
//! for events of other devices. So the owner must not return before
//!
//! 1. no rank submits copies to its memory any more, and
//! 2. a stream of its device waits for the copies that were submitted.
//!
//! Without an error this is so after the second step: each rank posts the event after it has submitted its
//! copies, and the owner's stream waits for all events. But an owner may give up, at the deadline or because
//! its own device failed, while another rank knows where the memory lies and has not submitted its copies
//! yet: the other thread may have lost its processor, for any time. Therefore each rank has a [gate](Gate), a
//! mutex with an event:
//!
//! - A rank submits its copies while it holds its own gate, after it has made sure, under the gate, that no
//!   rank is marked as lost. Then it leaves an event after the copies in the gate, also if some of them
//!   failed.
//! - An owner that gives up marks a rank as lost first. Then it takes each gate once, and its stream waits
//!   for the event that it finds there.
//!
//! Either the owner takes the gate after the other rank: then it finds the event (2). Or before: then the
//! other rank sees the loss and submits nothing (1). An owner that gives up in the first step marks the loss
//! while the step is incomplete; such a step never succeeds on any rank, so none learns where the memory
//! lies. If all ranks find the same error in what was posted, none of them copies, and the memory can be used
//! at once.
//!
//! The copies to others belong to the main stream, since all later work of it waits for them anyway. A stream
//! of their own would cost two more waits, which take some microseconds each on the device. Only a long own
//! part is copied in another stream, beside them; at the end of the call, also after an error, the main
//! stream waits for it unless it has been copied.
//!
//! A gate is taken by its own rank only, unless a rank is lost: without contention. A copy also reads memory
//! that the sender's caller lends; to free that memory waits for the copy, which is work of its own device.
#[cfg(doc)]
use crate::gate::Gate;
use crate::gate::Lent;
use crate::hub::{Lending, Post, Seat, Shared, check_lengths, shape};
use crate::plant::Fault;
use crate::transport::{
    self, Arrival, DirectPlan, Lane, Matrix, RoundPlan, Transport, WINDOWS, check_bytes, check_equal, column,
};
use crate::{Error, Limits, Meeting, Result};
use gpu::{Buffer, Device, Event, Stream};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest own part that is copied in the order of the main stream, in bytes: some microseconds.
const SHORT: usize = 1 << 20;

/// Longest part of another rank for which the host waits a little, in bytes: its copy takes 30 microseconds.
const SHORT_COPY: usize = 8 << 20;

/// Longest time for which it does. The wait of a device for another one takes seven microseconds.
const SOON: Duration = Duration::from_micros(60);

type Windows = [Arc<Buffer<u8>>; WINDOWS];

/// A rank that copies to the other ranks' devices.
#[derive(Debug)]
pub struct Peer {
    seat: Seat,
    stream: Stream,
    /// The stream of the copies.
    copies: Stream,
    /// The windows of all ranks.
    windows: Vec<Windows>,
    /// Whether kernels of this device can access the windows of all ranks.
    has_access: bool,
    limits: Limits,
}

impl Peer {
    pub fn new(meeting: &Meeting, rank: usize, device: &Device, limits: &Limits) -> Result<Self> {
        let mut seat = meeting.join(rank)?;
        let window = || Ok::<_, Error>(Arc::new(device.buffer(limits.window_bytes(meeting.ranks()))?));
        let own = Post::Windows([window()?, window()?, window()?]);
        let (stream, copies) = (device.stream()?, device.stream()?);
        let posts = seat.gather(own, limits.step_end())?;
        let windows: Vec<_> = posts.iter().filter_map(|post| windows(post)).collect();
        let mut has_access = true;
        for [window, ..] in &windows {
            if !device.enable_peer(window.device())? {
                tracing::warn!(rank, "no peer access: copies go through the memory of the host");
                has_access = false;
            }
        }
        Ok(Self { seat, stream, copies, windows, has_access, limits: *limits })
    }

    /// Submits the copies to all ranks.
    fn send(&self, plan: &RoundPlan<'_>, posts: &[Arc<Post>]) -> Result<()> {
        let (rank, ranks) = (self.rank(), self.ranks());
        for to in (0..ranks).map(|shift| (rank + shift) % ranks) {
            let Post::Ready(_, _, event) = &*posts[to] else { continue };
            self.copies.wait(event)?;
            self.send_to(plan, to)?;
        }
        Ok(())
    }

    fn send_to(&self, plan: &RoundPlan<'_>, to: usize) -> Result<()> {
        let part = match self.seat.fault() {
            Some(Fault::DropRound) => return Ok(()),
            Some(Fault::WrongSlot) => (self.rank() + 1) % self.ranks(),
            _ => self.rank(),
        };
        let (from, begin) = (plan.sends[to], part * plan.stride);
        let window = self.windows[to][plan.lane as usize].slice(begin..begin + from.len())?;
        // The own part need not wait until a link is free.
        let stream = if to == self.rank() { &plan.after } else { &self.copies };
        // SAFETY: the window is owned by this rank, too, and `from` by the caller until the main stream has
        // waited for the copies. The destination's main stream does not use the part between its event and
        // the wait for this copy, and no other rank writes it. The own part is used after the event that
        // follows it in its stream.
        unsafe { transport::copy(stream, window, from) }
    }

    /// Returns the points after the copies of all ranks.
    fn receive(&mut self, done: Arc<Event>, deadline: Instant) -> Result<Arrival> {
        let posts = self.seat.gather(Post::Done(done), deadline)?;
        let event = |post: &Arc<Post>| match &**post {
            Post::Done(event) => Some(event.clone()),
            _ => None,
        };
        Ok(Arrival(posts.iter().filter_map(event).collect()))
    }
}

/// Direct exchanges.
impl Peer {
    /// Lends memory to the others. Returns the posts of all ranks and the numbers of elements.
    fn lend(&mut self, plan: &DirectPlan<'_>) -> Result<(Vec<Arc<Post>>, Matrix)> {
        let ready = if self.stream.is_idle()? { None } else { Some(self.stream.point()?) };
        let own = Post::Direct(Lending { words: plan.header.clone(), ready, memory: Lent::new(plan.into) });
        let posts = self.seat.gather(own, plan.deadline)?;
        let words = posts.iter().filter_map(|post| lending(post)).map(|lending| lending.words.clone());
        let counts = (plan.check)(&check_lengths(words.collect())?)?;
        Ok((posts, counts))
    }

    fn move_direct(
        &mut self,
        plan: &DirectPlan<'_>,
        posts: &[Arc<Post>],
        counts: &Matrix,
    ) -> Result<Vec<usize>> {
        let rank = self.rank();
        for (piece, count) in plan.sends.iter().zip(&counts[rank]) {
            check_bytes(rank, piece.len(), plan.element * count)?;
        }
        let copies = || self.copy_direct(plan, posts, counts);
        let done = self.seat.submit(&self.stream, copies, plan.deadline)?;
        let own = self.copy_own(plan, posts, plan.place(counts, rank, rank))?;
        let arrived = self.receive_direct(plan, counts, done);
        // Also after an error: in the order of the stream the memory may be used again.
        let copied = own.map_or(Ok(()), |own| transport::wait_in(&self.stream, &own));
        arrived.and(copied).map(|()| column(counts, rank))
    }

    /// Makes the stream wait for the copies of all other ranks, after it has told them of this rank's.
    fn receive_direct(&mut self, plan: &DirectPlan<'_>, counts: &Matrix, done: Arc<Event>) -> Result<()> {
        let (rank, done) = (self.rank(), self.receive(done, plan.deadline)?);
        let soon = Instant::now() + SOON;
        for (from, event) in done.0.iter().enumerate().filter(|(from, _)| *from != rank) {
            if plan.element * counts[from][rank] <= SHORT_COPY {
                transport::look_until(event, soon)?;
            }
            transport::wait_in(&self.stream, event)?;
        }
        Ok(())
    }

    /// Submits the copy of the own part, which need not wait until a link is free. If it is long, it runs
    /// beside the others, and the event after it is returned; else another stream costs more than it gains.
    fn copy_own(
        &self,
        plan: &DirectPlan<'_>,
        posts: &[Arc<Post>],
        place: Range<usize>,
    ) -> Result<Option<Event>> {
        let (from, own) = (plan.sends[self.rank()], lending(&posts[self.rank()]));
        let is_long = from.len() > SHORT;
        let stream = if is_long { &self.copies } else { &self.stream };
        if let (true, Some(ready)) = (is_long, own.and_then(|own| own.ready.as_ref())) {
            transport::wait_in(stream, ready)?;
        }
        // SAFETY: `into` and the piece are the caller's until the main stream has executed the call, and no
        // other rank writes this part. The main stream waits for the event that is returned; if it does not
        // because of an error, both lie in memory of this device, whose free waits for all of its streams.
        unsafe { transport::copy(stream, plan.into.slice(place)?, from)? };
        Ok(if is_long { Some(stream.point()?) } else { None })
    }

    /// Submits the copies to the other ranks. Called behind the gate.
    fn copy_direct(&self, plan: &DirectPlan<'_>, posts: &[Arc<Post>], counts: &Matrix) -> Result<()> {
        let (rank, ranks) = (self.rank(), self.ranks());
        let (is_dropped, source) = match self.seat.fault() {
            Some(Fault::DropRound) => (true, rank),
            Some(Fault::WrongSlot) => (false, (rank + 1) % ranks),
            _ => (false, rank),
        };
        for to in (1..ranks).map(|shift| (rank + shift) % ranks) {
            let Some(lending) = lending(&posts[to]).filter(|_| !is_dropped) else { continue };
            let (from, begin) = (plan.sends[to], plan.place(counts, source, to).start);
            lending.ready.as_ref().map_or(Ok(()), |ready| transport::wait_in(&self.stream, ready))?;
            // SAFETY: this rank holds its gate, and no rank was lost when it took it: `to` does not return
            // from its call before it has taken this gate, too, or has learnt that the copies were submitted.
            let memory = unsafe { lending.memory.get() };
            let place = memory.slice(begin..begin + from.len())?;
            // SAFETY: `from` belongs to the caller until the stream has executed the call. `to` frees its
            // memory after a wait for this copy; its stream does not use it between its event and this wait,
            // and no other rank writes this part.
            unsafe { transport::copy(&self.stream, place, from)? };
        }
        Ok(())
    }
}

/// A rank in a direct exchange, whose memory the others may write until it is dropped.
struct Borrowed<'a> {
    peer: &'a mut Peer,
    deadline: Instant,
    /// Reason for which this rank gives up; `None` if the others do not write any more.
    cause: Option<String>,
}

impl Drop for Borrowed<'_> {
    /// Takes the memory back: see the documentation of the module.
    fn drop(&mut self) {
        let Some(cause) = &self.cause else { return };
        for event in self.peer.seat.recall(cause, self.deadline) {
            if let Err(error) = self.peer.stream.wait(&event) {
                tracing::debug!(%error, "a lost device cannot wait for copies");
            }
        }
    }
}

impl Transport for Peer {
    fn rank(&self) -> usize {
        self.seat.rank()
    }

    fn ranks(&self) -> usize {
        self.seat.ranks()
    }

    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn window(&self, lane: Lane) -> &Buffer<u8> {
        &self.windows[self.rank()][lane as usize]
    }

    fn gather(&mut self, words: Vec<u64>, deadline: Instant) -> Result<Vec<Vec<u64>>> {
        self.seat.gather_words(words, deadline)
    }

    fn windows(&self, lane: Lane) -> Option<Vec<&Buffer<u8>>> {
        self.has_access.then(|| self.windows.iter().map(|windows| &*windows[lane as usize]).collect())
    }

    fn gather_points(
        &mut self,
        words: Vec<u64>,
        points: Vec<Arc<Event>>,
        deadline: Instant,
    ) -> Result<(Vec<Vec<u64>>, Vec<Arrival>)> {
        self.seat.gather_points(words, points, deadline)
    }

    fn begin(&mut self, plan: RoundPlan<'_>) -> Result<Arrival> {
        let bytes = plan.sends.iter().map(gpu::Slice::len).collect();
        let ready = Post::Ready(plan.shape, bytes, plan.after.point()?);
        let posts = self.seat.gather(ready, plan.deadline)?;
        check_equal("shape of a round", posts.iter().map(|post| shape(post)))?;
        for (source, post) in posts.iter().enumerate() {
            let Post::Ready(_, bytes, _) = &**post else { continue };
            check_bytes(source, bytes[self.rank()], plan.receives[source])?;
        }
        self.send(&plan, &posts)?;
        let (own, done) = (plan.own_event(self.rank())?, Arc::new(self.copies.point()?));
        let mut arrival = self.receive(done, plan.deadline)?;
        arrival.0.extend(own.map(Arc::new));
        Ok(arrival)
    }

    fn direct(&mut self, plan: DirectPlan<'_>) -> Result<Vec<usize>> {
        let cause = "its thread panicked".to_owned();
        let mut borrowed = Borrowed { peer: self, deadline: plan.deadline, cause: Some(cause) };
        let begun = borrowed.peer.lend(&plan);
        if let Err(error) = &begun
            && error.is_in_step()
        {
            borrowed.cause = None; // on all ranks: none of them copies
        }
        let moved = begun.and_then(|(posts, counts)| borrowed.peer.move_direct(&plan, &posts, &counts));
        match (&moved, &mut borrowed.cause) {
            (Ok(_), cause) => *cause = None,
            (Err(error), Some(cause)) => *cause = error.to_string(),
            (Err(_), None) => {}
        }
        moved
    }

    fn share(&mut self, value: Shared, deadline: Instant) -> Result<Option<Vec<Shared>>> {
        self.seat.gather_shared(value, deadline).map(Some)
    }

    fn leave(&mut self, cause: &str) {
        self.seat.leave(cause);
    }
}

impl Drop for Peer {
    /// Waits for the copies of this rank, and for its kernels, which may write to the windows of others,
    /// until the deadline. If they have not ended then, the windows are never freed.
    fn drop(&mut self) {
        let deadline = self.limits.step_end();
        let finish = |stream: &Stream| transport::finish(stream, deadline);
        if let Err(error) = finish(&self.copies).and_then(|()| finish(&self.stream)) {
            tracing::warn!(%error, "work of a dropped exchange may still run: its windows are leaked");
            std::mem::forget(std::mem::take(&mut self.windows));
        }
    }
}

fn windows(post: &Post) -> Option<Windows> {
    match post {
        Post::Windows(windows) => Some(windows.clone()),
        _ => None,
    }
}

fn lending(post: &Post) -> Option<&Lending> {
    match post {
        Post::Direct(lending) => Some(lending),
        _ => None,
    }
}
