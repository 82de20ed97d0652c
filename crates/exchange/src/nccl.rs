//! Exchange by NCCL, between threads, processes and hosts.
//!
//! The communicator is of mode blocking: a call that has to wait for other ranks does not return. That is
//! rare, because NCCL then only submits work to streams, but happens when NCCL connects ranks, or when its
//! queue of work is full. No call of this module waits longer than its deadline, all the same:
//!
//! - Making the communicator waits for all ranks, and cannot be aborted. A thread of its own does it, which
//!   the caller leaves alone at the deadline, with the memory. If all ranks join later, this thread ends what
//!   it has made.
//! - The same thread makes the first messages between all ranks, so that NCCL connects them there.
//! - Every other call is [watched](watchdog): at its deadline, another thread aborts the communicator, and so
//!   the call returns.
//!
//! When a rank is lost, the others abort their communicators, which ends the kernels of NCCL that wait for
//! it. Abort itself is known to hang at times; after the deadline it is left alone, and its memory is leaked.
//!
//! Loading a kernel or allocating memory while a kernel of NCCL waits may deadlock. So all memory is
//! allocated before the communicator is made, and operations allocate none.
use crate::limits::MOST;
use crate::rounds::offsets;
use crate::transport::{self, Arrival, DirectPlan, Lane, RoundPlan, Transport, WINDOWS, WORDS, column};
use crate::{Error, Limits, Result};
use gpu::{Buffer, Device, Slice, Stream, Tier};
use nccl_late::{Code, Communicator, Library, UniqueId};
use std::ffi::c_int;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, mpsc};
use std::time::Instant;
use watchdog::{Ending, Guarded};

mod id;
#[cfg(all(test, feature = "emulator"))]
mod tests;
mod watchdog;

pub use id::{nccl_id, nccl_id_by_file};

/// States of a communicator that another rank or the network causes: a failed system call, and the end of
/// another rank.
const REMOTE: [Code; 2] = [Code(2), Code(6)];

/// Most bytes of a message. The tests have few elements, and need several groups all the same.
const MESSAGE: usize = if cfg!(test) { 512 } else { MOST };

/// Name of the calls that submit messages.
const MESSAGES: &str = "ncclSend and ncclRecv";

/// A rank of a communicator.
#[derive(Debug)]
pub struct Nccl {
    nccl: &'static Library,
    communicator: Guarded,
    rank: usize,
    ranks: usize,
    stream: Stream,
    /// The stream of all calls of NCCL.
    messages: Stream,
    memory: Memory,
    limits: Limits,
}

#[derive(Debug)]
struct Memory {
    windows: [Buffer<u8>; WINDOWS],
    /// Words of this rank, and after them those of all ranks.
    words: Buffer<u64>,
    /// Their copies in pinned memory of the host.
    host: Buffer<u64>,
}

impl Memory {
    fn new(device: &Device, ranks: usize, limits: &Limits) -> Result<Self> {
        let (window, words) = (limits.window_bytes(ranks), (ranks + 1) * (ranks + WORDS));
        Ok(Self {
            windows: [device.buffer(window)?, device.buffer(window)?, device.buffer(window)?],
            words: device.buffer(words)?,
            host: device.buffer_on(Tier::Pinned, words)?,
        })
    }

    fn without_buffers(device: &Device) -> Result<Self> {
        let windows = [device.buffer(0)?, device.buffer(0)?, device.buffer(0)?];
        Ok(Self { windows, words: device.buffer(0)?, host: device.buffer(0)? })
    }

    /// Writes words to the memory of the host. No copy from it or to it runs: each gather waits for its own.
    fn write(&mut self, words: &[u64]) {
        let host = self.host.host_pointer().filter(|_| words.len() <= self.host.len());
        if let Some(host) = host {
            // SAFETY: the host can access as many words, and nothing else does.
            unsafe { host.copy_from_nonoverlapping(NonNull::from(words).cast(), words.len()) }
        }
    }

    /// Returns words of the memory of the host, after a wait for the copies to it.
    fn read(&self, range: Range<usize>) -> &[u64] {
        let Some(host) = self.host.host_pointer() else { return &[] };
        // SAFETY: the host can access these initialised words, and no copy to them runs.
        unsafe { std::slice::from_raw_parts(host.as_ptr(), self.host.len()) }.get(range).unwrap_or(&[])
    }
}

impl Nccl {
    /// Joins a communicator, and sends first messages to all ranks.
    pub fn new(
        nccl: &'static Library,
        id: &UniqueId,
        (rank, ranks): (usize, usize),
        device: &Device,
        limits: &Limits,
    ) -> Result<Self> {
        let place = check_ranks(rank, ranks)?;
        check_environment()?;
        let memory = Memory::new(device, ranks, limits)?;
        let (stream, messages) = (device.stream()?, device.stream()?);
        let (id, limits, deadline) = (*id, *limits, limits.step_end());
        let join = move || {
            let device = stream.device().clone();
            let communicator = join(nccl, id, place, &device)?;
            // SAFETY: it was made now, and nothing else uses it.
            let communicator = unsafe { Guarded::new(nccl, communicator, device) };
            let mut made = Self { nccl, communicator, rank, ranks, stream, messages, memory, limits };
            made.connect(deadline).inspect_err(|_| made.abort())?;
            Ok(made)
        };
        let (send, made) = mpsc::channel();
        // If the caller has given up, the communicator is dropped, and thereby ended.
        std::thread::spawn(move || drop(send.send(join())));
        let late = |_| Err(Error::lost(None, "ncclCommInitRank did not end before the deadline"));
        made.recv_timeout(limits.deadline).unwrap_or_else(late)
    }

    /// Sends some bytes to all ranks and receives some, in all ways that are used later.
    fn connect(&mut self, deadline: Instant) -> Result<()> {
        self.gather(vec![self.rank as u64], deadline)?;
        let word = self.memory.words.slice(..1)?.cast()?;
        let (sends, receives) = (vec![word; self.ranks], vec![word.len(); self.ranks]);
        let stride = self.limits.part_bytes;
        let (lane, shape, after) = (Lane::Even, 0, self.stream.clone());
        let arrival = self.exchange(&RoundPlan { lane, shape, sends, receives, stride, after, deadline })?;
        let check = || self.check();
        arrival.0.iter().try_for_each(|event| transport::wait_for(event, deadline, check))
    }

    fn failed(&self, call: &'static str, code: Code) -> Error {
        failed(self.nccl, call, code)
    }

    /// Makes a call that may wait for other ranks.
    fn call(
        &self,
        name: &'static str,
        deadline: Instant,
        run: impl FnOnce(&Library, Communicator) -> Code,
    ) -> Result<()> {
        match self.communicator.call(name, deadline, run)? {
            Code::SUCCESS => Ok(()),
            code => Err(self.failed(name, code)),
        }
    }

    /// Submits the calls of a group, of which the first error counts.
    fn group(
        &self,
        name: &'static str,
        deadline: Instant,
        calls: impl FnOnce(Communicator) -> Code,
    ) -> Result<()> {
        self.call(name, deadline, |nccl, communicator| {
            let start = nccl.group_start();
            if start != Code::SUCCESS {
                return start;
            }
            let inner = calls(communicator);
            // SAFETY: the communicator is there, or is being aborted.
            let end = unsafe { nccl.group_end() };
            if inner == Code::SUCCESS { end } else { inner }
        })
    }

    /// Submits one send and one receive for each other rank.
    fn submit(
        &self,
        communicator: Communicator,
        sends: &[Slice<'_, u8>],
        receives: &[Slice<'_, u8>],
    ) -> Code {
        let ranks = self.ranks;
        let both = (1..ranks).flat_map(|shift| {
            let (to, from) = ((self.rank + shift) % ranks, (self.rank + ranks - shift) % ranks);
            [self.send(communicator, to, sends[to]), self.receive(communicator, from, receives[from])]
        });
        both.fold(Code::SUCCESS, |first, code| if first == Code::SUCCESS { code } else { first })
    }

    fn send(&self, communicator: Communicator, to: usize, piece: Slice<'_, u8>) -> Code {
        let stream = self.messages.raw_handle();
        if piece.is_empty() {
            return Code::SUCCESS;
        }
        // SAFETY: the communicator is there, and the stream is one of its device. The piece is device memory
        // that the caller keeps; dropping it waits for the device.
        unsafe { self.nccl.send(communicator, stream, to as c_int, (piece.pointer().cast(), piece.len())) }
    }

    fn receive(&self, communicator: Communicator, from: usize, place: Slice<'_, u8>) -> Code {
        let stream = self.messages.raw_handle();
        if place.is_empty() {
            return Code::SUCCESS;
        }
        // SAFETY: as for `send`. The place lies in a window, which lives as long as the communicator, or in
        // memory that the caller borrows mutably.
        unsafe {
            self.nccl.receive(communicator, stream, from as c_int, (place.pointer().cast(), place.len()))
        }
    }

    /// Submits the messages of a round.
    fn exchange(&self, plan: &RoundPlan<'_>) -> Result<Arrival> {
        let window = self.window(plan.lane);
        let place =
            |(from, bytes): (usize, &usize)| window.slice(from * plan.stride..from * plan.stride + bytes);
        let places: Vec<_> = plan.receives.iter().enumerate().map(place).collect::<gpu::Result<_>>()?;
        self.messages.wait(&plan.after.point()?)?;
        self.group(MESSAGES, plan.deadline, |communicator| self.submit(communicator, &plan.sends, &places))?;
        copy_own(&plan.after, places[self.rank], plan.sends[self.rank])?;
        let own = plan.own_event(self.rank)?;
        Ok(Arrival([self.messages.point()?].into_iter().chain(own).map(Arc::new).collect()))
    }

    /// Submits the messages of a direct exchange, in groups. Each message of a pair of ranks has the same
    /// number of groups before it on both, so no group waits for a later one.
    fn exchange_direct(
        &self,
        sends: &[Slice<'_, u8>],
        places: &[Slice<'_, u8>],
        deadline: Instant,
    ) -> Result<()> {
        let others = (0..self.ranks).filter(|rank| *rank != self.rank);
        let longest = others.map(|rank| sends[rank].len().max(places[rank].len())).max().unwrap_or(0);
        self.messages.wait(&self.stream.point()?)?;
        for begin in (0..longest).step_by(MESSAGE) {
            let (sends, places) = (message(sends, begin)?, message(places, begin)?);
            self.group(MESSAGES, deadline, |communicator| self.submit(communicator, &sends, &places))?;
        }
        copy_own(&self.stream, places[self.rank], sends[self.rank])?;
        Ok(self.stream.wait(&self.messages.point()?)?)
    }

    /// Ends the communicator, or leaves it alone at the deadline.
    fn end(&mut self, ending: Ending) {
        if !self.communicator.end(ending, self.limits.deadline) {
            self.leak();
        }
    }

    fn abort(&mut self) {
        self.end(Ending::Abort);
    }

    /// Keeps the memory that kernels of NCCL may still use. Freeing it would wait for them.
    fn leak(&mut self) {
        tracing::error!("the end of a communicator hangs: the memory of the exchange is leaked");
        let device = self.stream.device();
        // Buffers without elements have no memory.
        let Ok(nothing) = Memory::without_buffers(device) else { return };
        std::mem::forget(std::mem::replace(&mut self.memory, nothing));
    }
}

impl Transport for Nccl {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn stream(&self) -> &Stream {
        &self.stream
    }

    fn window(&self, lane: Lane) -> &Buffer<u8> {
        &self.memory.windows[lane as usize]
    }

    fn gather(&mut self, words: Vec<u64>, deadline: Instant) -> Result<Vec<Vec<u64>>> {
        let len = words.len();
        if len > self.ranks + WORDS {
            return Err(Error::arguments("the words of a rank", len, "there are fewer"));
        }
        self.memory.write(&words);
        let (device, host) = (self.memory.words.slice(..)?, self.memory.host.slice(..)?);
        let all = len..len * (1 + self.ranks);
        self.copy_words(device.slice(..len)?, host.slice(..len)?)?;
        let (from, to) = (device.pointer() as *const u64, device.slice(all.clone())?.pointer());
        self.call("ncclAllGather", deadline, |nccl, communicator| {
            // SAFETY: the communicator is there, and the stream is one of its device; the words of this rank
            // and of all lie in `words` and do not overlap.
            unsafe { nccl.all_gather(communicator, self.messages.raw_handle(), to, (from, len)) }
        })?;
        self.copy_words(host.slice(all.clone())?, device.slice(all.clone())?)?;
        transport::wait_for(&self.messages.point()?, deadline, || self.check())?;
        Ok(self.memory.read(all).chunks(len.max(1)).map(<[u64]>::to_vec).collect())
    }

    fn begin(&mut self, plan: RoundPlan<'_>) -> Result<Arrival> {
        self.exchange(&plan)
    }

    fn direct(&mut self, mut plan: DirectPlan<'_>) -> Result<Vec<usize>> {
        let from = match plan.receives.take() {
            Some(receives) => receives,
            None => {
                let headers = self.gather(std::mem::take(&mut plan.header), plan.deadline)?;
                column(&(plan.check)(&headers)?, self.rank)
            }
        };
        let place = |(begin, count): (usize, &usize)| {
            plan.into.slice(plan.element * begin..plan.element * (begin + count))
        };
        let places: Vec<_> = offsets(&from).into_iter().zip(&from).map(place).collect::<gpu::Result<_>>()?;
        self.exchange_direct(&plan.sends, &places, plan.deadline)?;
        Ok(from)
    }

    fn check(&self) -> Result<()> {
        match self.communicator.state()? {
            Code::SUCCESS | Code::IN_PROGRESS => Ok(()),
            code => Err(self.failed("a round", code)),
        }
    }

    fn leave(&mut self, cause: &str) {
        tracing::debug!(cause, rank = self.rank, "aborting a communicator");
        self.abort();
    }
}

impl Nccl {
    fn copy_words(&self, to: Slice<'_, u64>, from: Slice<'_, u64>) -> Result<()> {
        // SAFETY: both are parts of this rank's memory, which is only used in the order of the stream, or by
        // the host after a wait for it.
        unsafe { transport::copy(&self.messages, to.cast()?, from.cast()?) }
    }
}

impl Drop for Nccl {
    /// Flushes and frees the communicator, or aborts it if that does not end before the deadline.
    fn drop(&mut self) {
        if self.communicator.is_gone() {
            return;
        }
        // SAFETY: neither finalized nor ended.
        let flush = |nccl: &Library, communicator| unsafe { nccl.finalize(communicator) };
        match self.call("ncclCommFinalize", self.limits.step_end(), flush) {
            Ok(()) => self.end(Ending::Destroy),
            Err(error) => {
                tracing::debug!(%error, "a communicator cannot be flushed");
                self.abort();
            }
        }
    }
}

/// Returns the bytes of each piece that move in a group: as many as a message may have, from `begin` on.
fn message<'a>(pieces: &[Slice<'a, u8>], begin: usize) -> Result<Vec<Slice<'a, u8>>> {
    let part = |piece: &Slice<'a, u8>| {
        let len = piece.len();
        piece.slice(begin.min(len)..(begin + MESSAGE).min(len))
    };
    Ok(pieces.iter().map(part).collect::<gpu::Result<_>>()?)
}

/// Makes the communicator of a rank, of mode blocking. Waits for all ranks.
fn join(nccl: &Library, id: UniqueId, [rank, ranks]: [c_int; 2], device: &Device) -> Result<Communicator> {
    device.make_current()?;
    // SAFETY: the device's context is current; the caller keeps the device until the communicator has ended.
    match unsafe { nccl.init_rank(id, ranks, rank) } {
        (Code::SUCCESS, communicator) => Ok(communicator),
        (code, _) => Err(failed(nccl, "ncclCommInitRank", code)),
    }
}

fn failed(nccl: &Library, call: &'static str, code: Code) -> Error {
    let cause = nccl.describe(code);
    match REMOTE.contains(&code) {
        true => Error::lost(None, format!("{call}: {cause}")),
        false => Error::Nccl { call, cause },
    }
}

/// Returns rank and ranks as NCCL takes them.
fn check_ranks(rank: usize, ranks: usize) -> Result<[c_int; 2]> {
    if !(1..=1024).contains(&ranks) {
        return Err(Error::arguments("the number of ranks", ranks, "it is from 1 to 1024"));
    }
    match rank < ranks {
        true => Ok([rank as c_int, ranks as c_int]),
        false => Err(Error::arguments("the rank", rank, format!("it is below {ranks}"))),
    }
}

/// Refuses a setting with which NCCL is known to hang.
fn check_environment() -> Result<()> {
    match std::env::var("CUDA_LAUNCH_BLOCKING") {
        Ok(value) if value == "1" => {
            let expected = "NCCL hangs with it: unset it";
            Err(Error::arguments("the environment variable CUDA_LAUNCH_BLOCKING", 1, expected))
        }
        _ => Ok(()),
    }
}

/// Copies the own part, in the order of a stream of kernels: it need not wait until a link is free.
fn copy_own(stream: &Stream, to: Slice<'_, u8>, from: Slice<'_, u8>) -> Result<()> {
    // SAFETY: as for `Nccl::send` and `Nccl::receive`.
    unsafe { transport::copy(stream, to, from) }
}
