//! Exchange between emulated devices: data are messages in the memory of the host.
use crate::hub::{Post, Seat, Shared, shape};
use crate::plant::Fault;
use crate::transport::{
    Arrival, DirectPlan, Lane, RoundPlan, Transport, WINDOWS, check_bytes, check_equal, column,
};
use crate::{Error, Limits, Meeting, Result};
use gpu::{Buffer, Device, Stream};
use std::time::Instant;

/// A rank whose device is emulated.
#[derive(Debug)]
pub struct Emulated {
    seat: Seat,
    stream: Stream,
    windows: [Buffer<u8>; WINDOWS],
}

impl Emulated {
    pub fn new(meeting: &Meeting, rank: usize, device: &Device, limits: &Limits) -> Result<Self> {
        let seat = meeting.join(rank)?;
        if !device.is_emulator() {
            return Err(Error::arguments("the device of the rank", rank, "it is an emulated one"));
        }
        let bytes = limits.window_bytes(meeting.ranks());
        let windows = [device.buffer(bytes)?, device.buffer(bytes)?, device.buffer(bytes)?];
        Ok(Self { seat, stream: device.stream()?, windows })
    }

    /// Writes a message to the window. The emulator has executed all work that used the window before.
    fn receive(&mut self, plan: &RoundPlan<'_>, source: usize, message: &[u8]) -> Result<()> {
        let part = match self.seat.fault() {
            Some(Fault::DropRound) => return Ok(()),
            Some(Fault::WrongSlot) => (source + 1) % self.seat.ranks(),
            _ => source,
        };
        let window = &mut self.windows[plan.lane as usize];
        Ok(window.write_at(part * plan.stride, message)?)
    }
}

impl Transport for Emulated {
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
        &self.windows[lane as usize]
    }

    fn gather(&mut self, words: Vec<u64>, deadline: Instant) -> Result<Vec<Vec<u64>>> {
        self.seat.gather_words(words, deadline)
    }

    fn begin(&mut self, plan: RoundPlan<'_>) -> Result<Arrival> {
        // Also a round without messages comes after all work of the streams.
        plan.after.synchronize()?;
        let messages = plan.sends.iter().map(gpu::Slice::read).collect::<gpu::Result<_>>()?;
        let posts = self.seat.gather(Post::Messages(plan.shape, messages), plan.deadline)?;
        check_equal("shape of a round", posts.iter().map(|post| shape(post)))?;
        for (source, post) in posts.iter().enumerate() {
            let Post::Messages(_, messages) = &**post else { continue };
            let message = &messages[self.rank()];
            check_bytes(source, message.len(), plan.receives[source])?;
            self.receive(&plan, source, message)?;
        }
        Ok(Arrival::default())
    }

    fn direct(&mut self, plan: DirectPlan<'_>) -> Result<Vec<usize>> {
        let headers = self.seat.gather_words(plan.header.clone(), plan.deadline)?;
        let counts = (plan.check)(&headers)?;
        self.stream.synchronize()?;
        let messages = plan.sends.iter().map(gpu::Slice::read).collect::<gpu::Result<_>>()?;
        let posts = self.seat.gather(Post::Messages(u64::MAX, messages), plan.deadline)?;
        check_equal("shape of a round", posts.iter().map(|post| shape(post)))?;
        let rank = self.rank();
        for (source, post) in posts.iter().enumerate() {
            let Post::Messages(_, messages) = &**post else { continue };
            let (message, place) = (&messages[rank], plan.place(&counts, source, rank));
            check_bytes(source, message.len(), place.len())?;
            let begin = match self.seat.fault() {
                Some(Fault::DropRound) => continue,
                Some(Fault::WrongSlot) => plan.place(&counts, (source + 1) % self.ranks(), rank).start,
                _ => place.start,
            };
            let to = plan.into.slice(begin..begin + message.len())?;
            // SAFETY: the caller borrows the memory mutably; an emulated device executes the copy at once.
            unsafe { self.stream.upload(to.global(), message)? };
        }
        Ok(column(&counts, rank))
    }

    fn share(&mut self, value: Shared, deadline: Instant) -> Result<Option<Vec<Shared>>> {
        self.seat.gather_shared(value, deadline).map(Some)
    }

    fn leave(&mut self, cause: &str) {
        self.seat.leave(cause);
    }
}
