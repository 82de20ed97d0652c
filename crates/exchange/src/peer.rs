//! Exchange between devices of one process: each rank copies to the windows of the others.
//!
//! A round has two steps. In the first, each rank posts an event from which on its window may be written.
//! Then each rank submits its copies to a stream of its own, which waits for the event of each destination.
//! Rank r copies to rank r + s in the s-th place, so that at any time each rank sends to one rank and
//! receives from one. In the second step, each rank posts an event after its copies; the main streams wait
//! for those of all when the caller takes the round. No step waits for a device.
//!
//! All ranks own all windows, so a window lives as long as any rank that may copy to it.
use crate::hub::{Post, Seat, Shared, shape};
use crate::plant::Fault;
use crate::transport::{self, Arrival, Lane, RoundPlan, Transport, WINDOWS, check_bytes, check_equal};
use crate::{Error, Limits, Meeting, Result};
use gpu::{Buffer, Device, Event, Stream};
use std::sync::Arc;
use std::time::Instant;

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
        for [window, ..] in &windows {
            if !device.enable_peer(window.device())? {
                tracing::warn!(rank, "no peer access: copies go through the memory of the host");
            }
        }
        Ok(Self { seat, stream, copies, windows, limits: *limits })
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
        // the wait for this copy, and no other rank writes it. The own part is used later in its stream,
        // or after an event that follows it there.
        unsafe { transport::copy(stream, window, from) }
    }

    /// Returns the points after the copies of all ranks.
    fn receive(&mut self, done: Event, deadline: Instant) -> Result<Arrival> {
        let posts = self.seat.gather(Post::Done(Arc::new(done)), deadline)?;
        let event = |post: &Arc<Post>| match &**post {
            Post::Done(event) => Some(event.clone()),
            _ => None,
        };
        Ok(Arrival(posts.iter().filter_map(event).collect()))
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

    fn begin(&mut self, plan: RoundPlan<'_>) -> Result<Arrival> {
        let bytes = plan.sends.iter().map(gpu::Slice::len).collect();
        let ready = Post::Ready(plan.shape, bytes, plan.after.record()?);
        let posts = self.seat.gather(ready, plan.deadline)?;
        check_equal("shape of a round", posts.iter().map(|post| shape(post)))?;
        for (source, post) in posts.iter().enumerate() {
            let Post::Ready(_, bytes, _) = &**post else { continue };
            check_bytes(source, bytes[self.rank()], plan.receives[source])?;
        }
        self.send(&plan, &posts)?;
        self.receive(self.copies.record()?, plan.deadline)
    }

    fn share(&mut self, value: Shared, deadline: Instant) -> Result<Option<Vec<Shared>>> {
        self.seat.gather_shared(value, deadline).map(Some)
    }

    fn leave(&mut self, cause: &str) {
        self.seat.leave(cause);
    }
}

impl Drop for Peer {
    /// Waits for the copies of this rank, until the deadline. If they have not ended then, the windows are
    /// never freed.
    fn drop(&mut self) {
        let deadline = self.limits.step_end();
        let has_ended = self.copies.record().map_err(Error::from);
        let has_ended = has_ended.and_then(|event| transport::wait_for(&event, deadline, || Ok(())));
        if let Err(error) = has_ended {
            tracing::warn!(%error, "copies of a dropped exchange may still run: its windows are leaked");
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
