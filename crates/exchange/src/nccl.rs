//! Exchange by NCCL, between threads, processes and hosts.
//!
//! The communicator is of mode non-blocking: a call that would wait for other ranks returns at once, and this
//! module polls the communicator's state until the deadline. When a rank is lost, the others abort their
//! communicators, which ends the kernels of NCCL that wait for it. Abort itself is known to hang at times, so
//! a thread of its own makes the call, and after the deadline its memory is leaked.
//!
//! Loading a kernel or allocating memory while a kernel of NCCL waits may deadlock. So all memory is
//! allocated before the communicator is made, and operations allocate none.
use crate::transport::{self, Arrival, Lane, RoundPlan, Transport, WINDOWS, WORDS, poll};
use crate::{Error, Limits, Result};
use gpu::{Buffer, Device, Slice, Stream, Tier};
use nccl_late::{Code, Communicator, Library, UniqueId};
use std::ffi::c_int;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::{Arc, mpsc};
use std::time::Instant;

#[cfg(all(test, feature = "emulator"))]
mod tests;

/// Creates the name of a new exchange by NCCL, which one rank passes to all others.
///
/// ```
/// match exchange::nccl_id() {
///     Ok(id) => assert_eq!(id.to_bytes().len(), 128),
///     Err(error) => println!("{error}"), // it says what to install
/// }
/// ```
///
/// # Errors
/// [`Error::NoNccl`] when NCCL cannot be used; [`Error::Nccl`] when there is no network interface.
pub fn nccl_id() -> Result<UniqueId> {
    let nccl = nccl_late::library().map_err(Clone::clone)?;
    let failed = |code| Error::Nccl { call: "ncclGetUniqueId", cause: nccl.describe(code) };
    nccl.unique_id().map_err(failed)
}

/// States of a communicator that another rank or the network causes: a failed system call, and the end of
/// another rank.
const REMOTE: [Code; 2] = [Code(2), Code(6)];

/// A rank of a communicator.
#[derive(Debug)]
pub struct Nccl {
    nccl: &'static Library,
    /// `None` after an abort.
    communicator: Option<Communicator>,
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
    pub fn new(
        nccl: &'static Library,
        id: &UniqueId,
        (rank, ranks): (usize, usize),
        device: &Device,
        limits: &Limits,
    ) -> Result<Self> {
        let [c_rank, c_ranks] = check_ranks(rank, ranks)?;
        check_environment()?;
        let memory = Memory::new(device, ranks, limits)?;
        let (stream, messages) = (device.stream()?, device.stream()?);
        device.make_current()?;
        // SAFETY: the device's context is current; `stream` keeps the device until `drop` has ended the
        // communicator.
        let (code, communicator) = unsafe { nccl.init_rank(*id, c_ranks, c_rank) };
        let communicator = (!communicator.0.is_null()).then_some(communicator);
        let mut made = Self { nccl, communicator, rank, ranks, stream, messages, memory, limits: *limits };
        let ready = made.settle("ncclCommInitRankConfig", code, limits.step_end());
        ready.inspect_err(|_| made.abort())?;
        Ok(made)
    }

    fn communicator(&self) -> Result<Communicator> {
        self.communicator.ok_or_else(|| Error::lost(None, "the communicator was aborted"))
    }

    /// Returns the communicator's state.
    fn state(&self) -> Result<Code> {
        let communicator = self.communicator()?;
        // SAFETY: neither destroyed nor aborted, since it is there.
        Ok(unsafe { self.nccl.async_error(communicator) })
    }

    fn failed(&self, call: &'static str, code: Code) -> Error {
        let cause = self.nccl.describe(code);
        match REMOTE.contains(&code) {
            true => Error::lost(None, format!("{call}: {cause}")),
            false => Error::Nccl { call, cause },
        }
    }

    /// Waits until a call that returned `code` has been submitted.
    fn settle(&self, call: &'static str, code: Code, deadline: Instant) -> Result<()> {
        let mut state = code;
        let is_settled = poll(deadline, || {
            if state == Code::IN_PROGRESS {
                state = self.state()?;
            }
            Ok(state != Code::IN_PROGRESS)
        })?;
        match (is_settled, state) {
            (true, Code::SUCCESS) => Ok(()),
            (true, code) => Err(self.failed(call, code)),
            (false, _) => Err(Error::lost(None, format!("{call} did not end before the deadline"))),
        }
    }

    /// Submits the calls of a group, of which the first error counts.
    fn group(
        &self,
        calls: impl FnOnce(Communicator) -> Code,
        call: &'static str,
        deadline: Instant,
    ) -> Result<()> {
        let communicator = self.communicator()?;
        self.settle("ncclGroupStart", self.nccl.group_start(), deadline)?;
        let inner = calls(communicator);
        // SAFETY: the communicator is there.
        let end = unsafe { self.nccl.group_end() };
        match inner {
            Code::SUCCESS | Code::IN_PROGRESS => self.settle(call, end, deadline),
            code => Err(self.failed(call, code)),
        }
    }

    /// Submits one send and one receive for each other rank.
    fn submit(&self, plan: &RoundPlan<'_>, communicator: Communicator) -> Code {
        let ranks = self.ranks;
        let both = (1..ranks).flat_map(|shift| {
            let (to, from) = ((self.rank + shift) % ranks, (self.rank + ranks - shift) % ranks);
            [self.send(plan, to, communicator), self.receive(plan, from, communicator)]
        });
        both.fold(Code::SUCCESS, |first, code| if is_good(first) { code } else { first })
    }

    fn send(&self, plan: &RoundPlan<'_>, to: usize, communicator: Communicator) -> Code {
        let (piece, stream) = (&plan.sends[to], self.messages.raw_handle());
        if piece.is_empty() {
            return Code::SUCCESS;
        }
        // SAFETY: the communicator is there, and the stream is one of its device. The piece is device memory
        // that the caller keeps; dropping it waits for the device.
        unsafe { self.nccl.send(communicator, stream, to as c_int, (piece.pointer().cast(), piece.len())) }
    }

    fn receive(&self, plan: &RoundPlan<'_>, from: usize, communicator: Communicator) -> Code {
        let (bytes, stream) = (plan.receives[from], self.messages.raw_handle());
        if bytes == 0 {
            return Code::SUCCESS;
        }
        let to = self.window(plan.lane).pointer().wrapping_add(from * plan.stride);
        // SAFETY: as for `send`; the part lies in the window, which lives as long as the communicator.
        unsafe { self.nccl.receive(communicator, stream, from as c_int, (to.cast(), bytes)) }
    }

    fn own_part(&self, plan: &RoundPlan<'_>) -> Result<()> {
        let (from, begin) = (plan.sends[self.rank], self.rank * plan.stride);
        let to = self.window(plan.lane).slice(begin..begin + from.len())?;
        // SAFETY: as for `send` and `receive`.
        unsafe { transport::copy(&self.messages, to, from) }
    }

    /// Makes a call that ends the communicator, in a thread of its own, and waits for it until the deadline.
    fn end(&mut self, call: unsafe fn(&Library, Communicator) -> Code) {
        let Some(communicator) = self.communicator.take() else { return };
        let (nccl, device) = (self.nccl, self.stream.device().clone());
        let (done, ended) = mpsc::channel();
        std::thread::spawn(move || {
            let communicator = communicator;
            let current = device.make_current();
            // SAFETY: it was there, and nothing uses it from now on.
            let code = unsafe { call(nccl, communicator) };
            // The other side may have given up.
            let _ = done.send(current.map(|()| code));
        });
        match ended.recv_timeout(self.limits.deadline) {
            Ok(Ok(Code::SUCCESS | Code::IN_PROGRESS)) => {}
            Ok(result) => tracing::warn!(?result, "a communicator was not ended properly"),
            Err(_) => self.leak(),
        }
    }

    fn abort(&mut self) {
        self.end(Library::abort);
    }

    /// Keeps the memory that kernels of NCCL may still use. Freeing it would wait for them.
    fn leak(&mut self) {
        tracing::error!("ncclCommAbort hangs: the memory of the exchange is leaked");
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
        let gather = |communicator| {
            // SAFETY: the communicator is there, and the stream is one of its device; the words of this rank
            // and of all lie in `words` and do not overlap.
            unsafe { self.nccl.all_gather(communicator, self.messages.raw_handle(), to, (from, len)) }
        };
        self.group(gather, "ncclAllGather", deadline)?;
        self.copy_words(host.slice(all.clone())?, device.slice(all.clone())?)?;
        transport::wait_for(&self.messages.record()?, deadline, || self.check())?;
        Ok(self.memory.read(all).chunks(len.max(1)).map(<[u64]>::to_vec).collect())
    }

    fn begin(&mut self, plan: RoundPlan<'_>) -> Result<Arrival> {
        self.messages.wait(&plan.after.record()?)?;
        let submit = |communicator| self.submit(&plan, communicator);
        self.group(submit, "ncclSend and ncclRecv", plan.deadline)?;
        self.own_part(&plan)?;
        Ok(Arrival(vec![Arc::new(self.messages.record()?)]))
    }

    fn check(&self) -> Result<()> {
        match self.state()? {
            code if is_good(code) => Ok(()),
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
        let Some(communicator) = self.communicator else { return };
        // SAFETY: neither finalized nor ended, since it is there.
        let code = unsafe { self.nccl.finalize(communicator) };
        match self.settle("ncclCommFinalize", code, self.limits.step_end()) {
            Ok(()) => self.end(Library::destroy),
            Err(error) => {
                tracing::debug!(%error, "a communicator cannot be flushed");
                self.abort();
            }
        }
    }
}

fn is_good(code: Code) -> bool {
    matches!(code, Code::SUCCESS | Code::IN_PROGRESS)
}

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
