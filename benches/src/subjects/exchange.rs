//! All-to-all exchanges between devices: by an [`Exchange`], and by bare copies or calls of NCCL.
//!
//! Each rank has a thread and a device. A rank sends as many elements to each rank, itself included. The time
//! is that of the host, from the moment when all ranks are ready until the data of the last one have arrived.
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::statistics::summarize;
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use exchange::{Exchange, Limits, Meeting, nccl_id};
use gpu::{Buffer, Device, Slice, Stream};
use nccl_late::{Code, Communicator, Library, UniqueId};
use phalanx_kernels::roofline::content;
use rayon::prelude::*;
use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Exchanges as a structure. Its variants are the ways to move data.
#[derive(Debug)]
pub struct Exchanges<'a>(pub &'a Gpu);

/// The operation whose callers know how many elements arrive.
const SIZED: &str = "all_to_all_sized";

/// Way to move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Emulated,
    Peer,
    Nccl,
    RawPeer,
    RawNccl,
}

const WAYS: [(&str, Way); 5] = [
    ("peer", Way::Peer),
    ("nccl", Way::Nccl),
    ("raw_peer", Way::RawPeer),
    ("raw_nccl", Way::RawNccl),
    ("emulated", Way::Emulated),
];

impl Way {
    fn of(variant: &str) -> Result<Self> {
        let named = WAYS.iter().find(|(name, _)| *name == variant);
        named.map(|(_, way)| *way).with_context(|| format!("no exchange is called '{variant}'"))
    }

    fn is_possible(self, device: &Device) -> bool {
        match self {
            Self::Emulated => device.is_emulator(),
            Self::Peer | Self::RawPeer => true,
            Self::Nccl | Self::RawNccl => !device.is_emulator() && nccl_late::library().is_ok(),
        }
    }
}

impl Structure for Exchanges<'_> {
    fn name(&self) -> &'static str {
        "Exchange"
    }

    fn variants(&self) -> Vec<String> {
        WAYS.iter().map(|(name, _)| (*name).to_owned()).collect()
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["all_to_all", "all_to_all_sized"]
    }

    fn is_possible(&self, case: &Case) -> bool {
        let ranks = case.number("ranks").unwrap_or(1.0) as usize;
        let is_bare = |way| matches!(way, Way::RawPeer | Way::RawNccl);
        let has_way = Way::of(&case.variant).is_ok_and(|way| {
            // Bare copies and messages always know their sizes.
            way.is_possible(&self.0.device) && !(is_bare(way) && case.op == SIZED)
        });
        has_way && devices(self.0, ranks).is_ok()
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        ensure!(self.ops().contains(&&*case.op), "no operation of an exchange is called '{}'", case.op);
        let (devices, way) = (devices(self.0, case.number("ranks")? as usize)?, Way::of(&case.variant)?);
        Ok(Box::new(AllToAll {
            is_sized: case.op == SIZED,
            ..AllToAll::new(way, &devices, case.n as usize)?
        }))
    }
}

/// Returns a device for each rank, those of the machine in their order.
///
/// # Errors
/// Returns [`anyhow::Error`] when the machine has fewer devices.
pub fn devices(gpu: &Gpu, ranks: usize) -> Result<Vec<Device>> {
    ensure!(ranks > 0, "there is at least one rank, not 0");
    let device = |rank: usize| match gpu.device.is_emulator() {
        true => Ok(Device::named("emulator")?),
        false => Device::cuda(rank as u32).with_context(|| format!("rank {rank} needs a device of its own")),
    };
    let others = (1..ranks).map(device);
    std::iter::once(Ok(gpu.device.clone())).chain(others).collect()
}

/// A rank's means to move data.
enum End {
    Exchange(Box<Exchange>),
    Copies { remote: Stream, own: Stream },
    Calls { nccl: &'static Library, communicator: Communicator, stream: Stream },
}

/// Prepared case. Each list has an item for each rank.
struct AllToAll {
    way: Way,
    threads: Threads,
    ends: Vec<End>,
    sends: Vec<Buffer<u64>>,
    intos: Vec<Buffer<u64>>,
    /// Elements that a rank sends to each rank.
    each: usize,
    /// Whether exchanges are told how many elements arrive.
    is_sized: bool,
    /// Times of all launches, in milliseconds.
    times: Vec<f64>,
}

impl AllToAll {
    fn new(way: Way, devices: &[Device], n: usize) -> Result<Self> {
        let each = n / devices.len();
        ensure!(each > 0, "{n} elements are fewer than {} ranks", devices.len());
        let len = each * devices.len();
        let batch = |rank: usize| -> Vec<u64> {
            (0..len).into_par_iter().map(|index| element(rank, index)).collect()
        };
        let device = devices.iter().enumerate();
        let sends =
            device.map(|(rank, device)| Ok(device.from_slice(&batch(rank))?)).collect::<Result<_>>()?;
        let intos = devices.iter().map(|device| Ok(device.zeroed(len)?)).collect::<Result<_>>()?;
        let (meeting, id) = (Meeting::new(devices.len())?, id_of(way)?);
        let ends = on_threads(0..devices.len(), |rank| End::new(way, (&meeting, &id), rank, devices))?;
        let threads = Threads::new(devices.len())?;
        Ok(Self { way, threads, ends, sends, intos, each, is_sized: false, times: Vec::new() })
    }

    /// Checks that all elements of a rank have arrived.
    fn verify_rank(&self, rank: usize) -> Result<usize> {
        let (found, each) = (self.intos[rank].read()?, self.each);
        let expected = |index: usize| element(index / each, rank * each + index % each);
        let wrong = found.par_iter().enumerate().find_any(|(index, found)| **found != expected(*index));
        if let Some((index, found)) = wrong {
            bail!("rank {rank}: element {index} is {found:#x}, not {:#x}", expected(index));
        }
        Ok(found.len())
    }
}

/// Returns the name of a communicator, if the way needs one.
fn id_of(way: Way) -> Result<Option<UniqueId>> {
    let needs_one = matches!(way, Way::Nccl | Way::RawNccl);
    Ok(needs_one.then(nccl_id).transpose()?)
}

/// Returns the element of a rank's batch at an index.
fn element(rank: usize, index: usize) -> u64 {
    content(index).wrapping_add((rank as u64) << 56)
}

/// Calls a function in a thread for each of some values, and returns the results in their order.
///
/// # Errors
/// Returns [`anyhow::Error`]: that of the first thread that fails.
pub fn on_threads<T: Send, R: Send>(
    values: impl IntoIterator<Item = T>,
    run: impl Fn(T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let run = &run;
    thread::scope(|scope| {
        let threads: Vec<_> = values.into_iter().map(|value| scope.spawn(move || run(value))).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        joined.map(|result| result.unwrap_or_else(|_| bail!("the thread of a rank panicked"))).collect()
    })
}

impl End {
    fn new(
        way: Way,
        (meeting, id): (&Meeting, &Option<UniqueId>),
        rank: usize,
        devices: &[Device],
    ) -> Result<Self> {
        let (device, limits) = (&devices[rank], Limits::default());
        let id = || id.as_ref().context("a communicator needs a name");
        let exchange = match way {
            Way::Emulated => emulated(meeting, rank, device, limits)?,
            Way::Peer => Exchange::peer(meeting, rank, device, limits)?,
            Way::Nccl => Exchange::nccl(id()?, (rank, devices.len()), device, limits)?,
            Way::RawPeer => return Self::copies(rank, devices),
            Way::RawNccl => return Self::calls(id()?, rank, devices),
        };
        Ok(Self::Exchange(Box::new(exchange)))
    }

    fn copies(rank: usize, devices: &[Device]) -> Result<Self> {
        let device = &devices[rank];
        for other in devices {
            device.enable_peer(other)?;
        }
        Ok(Self::Copies { remote: device.stream()?, own: device.stream()? })
    }

    fn calls(id: &UniqueId, rank: usize, devices: &[Device]) -> Result<Self> {
        let nccl = nccl_late::library().map_err(Clone::clone)?;
        let stream = devices[rank].stream()?;
        devices[rank].make_current()?;
        // SAFETY: the context is current, and the stream keeps it.
        let (code, communicator) = unsafe { nccl.init_rank(*id, devices.len() as i32, rank as i32) };
        checked(nccl, code)?;
        Ok(Self::Calls { nccl, communicator, stream })
    }
}

#[cfg(feature = "emulator")]
fn emulated(meeting: &Meeting, rank: usize, device: &Device, limits: Limits) -> Result<Exchange> {
    Ok(Exchange::emulated(meeting, rank, device, limits)?)
}

#[cfg(not(feature = "emulator"))]
fn emulated(_: &Meeting, _: usize, _: &Device, _: Limits) -> Result<Exchange> {
    bail!("this program has no emulator")
}

fn checked(nccl: &Library, code: Code) -> Result<()> {
    ensure!(code == Code::SUCCESS, "NCCL: {}", nccl.describe(code));
    Ok(())
}

impl End {
    /// Sends a batch with `each` elements for each of `ranks` ranks. Waits until all data have arrived.
    fn exchange(
        &mut self,
        send: &Buffer<u64>,
        into: &mut Buffer<u64>,
        (ranks, each, is_sized): (usize, usize, bool),
    ) -> Result<()> {
        match self {
            Self::Exchange(exchange) => {
                let (counts, send, into) = (vec![each; ranks], send.slice(..)?, into.slice_mut(..)?);
                match is_sized {
                    true => exchange.all_to_all_sized(1, send, &counts, into, &counts)?,
                    false => {
                        let from = exchange.all_to_all(1, send, &counts, into)?;
                        ensure!(from == counts, "{from:?} elements arrived, not {each} from each");
                    }
                }
                Ok(exchange.wait()?)
            }
            Self::Calls { nccl, communicator, stream } => {
                checked(nccl, nccl.group_start())?;
                for rank in 0..ranks {
                    let message = (*communicator, stream.raw_handle(), rank as i32);
                    let part = rank * each..(rank + 1) * each;
                    call(nccl, message, send.slice(part.clone())?, into.slice(part)?)?;
                }
                // SAFETY: the communicator lives as long as this end.
                checked(nccl, unsafe { nccl.group_end() })?;
                Ok(stream.synchronize()?)
            }
            Self::Copies { .. } => bail!("copies are submitted by another function"),
        }
    }

    /// Copies a batch to the memory of all ranks. Waits until all data of this rank have been copied.
    fn copy(&self, rank: usize, send: &Buffer<u64>, intos: &[Buffer<u64>]) -> Result<()> {
        let Self::Copies { remote, own } = self else { bail!("this end does not copy") };
        let (ranks, each) = (intos.len(), send.len() / intos.len());
        for to in (0..ranks).map(|shift| (rank + shift) % ranks) {
            let stream = if to == rank { own } else { remote };
            let from = send.slice(to * each..(to + 1) * each)?;
            let into = intos[to].slice(rank * each..(rank + 1) * each)?;
            // SAFETY: no other copy writes this part, and the buffers outlive the waits below.
            unsafe { stream.copy_peer(into, from)? };
        }
        own.synchronize()?;
        Ok(remote.synchronize()?)
    }
}

/// Submits a message to a rank and one from it, in a group of calls. The buffers live until the stream has
/// executed the group.
fn call(
    nccl: &Library,
    (communicator, stream, rank): (Communicator, *mut c_void, i32),
    from: Slice<'_, u64>,
    into: Slice<'_, u64>,
) -> Result<()> {
    let bytes = 8 * from.len();
    // SAFETY: the communicator lives, and its stream is waited for before the buffers are used again.
    unsafe {
        checked(nccl, nccl.send(communicator, stream, rank, (from.pointer().cast(), bytes)))?;
        checked(nccl, nccl.receive(communicator, stream, rank, (into.pointer().cast(), bytes)))
    }
}

impl Benchmark for AllToAll {
    fn restore(&mut self) -> Result<()> {
        for into in &mut self.intos {
            into.fill_bytes(0)?;
            into.device().synchronize()?;
        }
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        let Self { way, threads, ends, sends, intos, each, is_sized, .. } = self;
        let (shape, line) = ((ends.len(), *each, *is_sized), StartLine::new(ends.len()));
        let ranks = ends.iter_mut().zip(&*sends).enumerate();
        let times = match way {
            Way::RawPeer => {
                let intos = &intos[..];
                threads.run(ranks, |(rank, (end, send))| {
                    line.time(send.device(), || end.copy(rank, send, intos))
                })
            }
            _ => threads.run(ranks.zip(intos.iter_mut()), |((_, (end, send)), into)| {
                line.time(send.device(), || end.exchange(send, into, shape))
            }),
        };
        self.times.push(times?.into_iter().fold(0.0, f64::max));
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        self.times.last().copied()
    }

    fn verify(&mut self) -> Result<Verified> {
        let compared = (0..self.ends.len()).map(|rank| self.verify_rank(rank)).sum::<Result<usize>>()?;
        Ok(Verified::all(compared))
    }

    fn operations(&self) -> u64 {
        (self.each * self.ends.len() * self.ends.len()) as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = 8 * self.each * (self.ends.len() - 1);
        let ms = summarize(&self.times).map_or(f64::INFINITY, |times| times.median);
        let rate = bytes as f64 / 1e6 / ms.max(1e-9);
        vec![Metric::Counted([("gb_per_s_each_way".to_owned(), rate)].into())]
    }
}

/// Threads of ranks, which live as long as this. The first calls of a new thread take 20 µs longer.
#[derive(Debug)]
pub struct Threads(rayon::ThreadPool);

impl Threads {
    /// Creates one for each of `ranks` ranks.
    pub fn new(ranks: usize) -> Result<Self> {
        Ok(Self(rayon::ThreadPoolBuilder::new().num_threads(ranks).build()?))
    }

    /// Calls a function with a value for each rank, each in the thread of the rank, and returns the results.
    pub fn run<T: Send, R: Send>(
        &self,
        values: impl IntoIterator<Item = T>,
        run: impl Fn(T) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let values: Vec<_> = values.into_iter().map(|value| Mutex::new(Some(value))).collect();
        let of_rank = |rank: usize| values[rank].lock().unwrap_or_else(PoisonError::into_inner).take();
        let results = self.0.broadcast(|thread| of_rank(thread.index()).map(&run));
        results.into_iter().map(|result| result.context("a rank has no value")?).collect()
    }
}

/// Point at which the threads of all ranks wait for each other. They do not sleep: to wake a thread takes
/// longer than a small batch.
#[derive(Debug)]
pub struct StartLine {
    ranks: usize,
    arrived: Mutex<usize>,
}

/// Spins between two looks of a thread that waits: well below a microsecond.
const SPINS: usize = 8;

impl StartLine {
    /// Creates one for `ranks` threads.
    pub fn new(ranks: usize) -> Self {
        Self { ranks, arrived: Mutex::new(0) }
    }

    /// Waits until all threads have called it as often as the caller.
    fn wait(&self) {
        let before = self.meetings(1);
        while self.meetings(0) == before {
            (0..SPINS).for_each(|_| std::hint::spin_loop());
        }
    }

    /// Adds threads that have arrived. Returns how often all had arrived before.
    fn meetings(&self, arriving: usize) -> usize {
        let mut arrived = self.arrived.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *arrived / self.ranks;
        *arrived += arriving;
        before
    }

    /// Returns the milliseconds that `run` takes from the moment when all ranks are ready. The thread has
    /// used the device before: its first call takes longer.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`]: that of `run`, or if the device is lost.
    pub fn time(&self, device: &Device, run: impl FnOnce() -> Result<()>) -> Result<f64> {
        let ready = device.synchronize();
        self.wait();
        let start = Instant::now();
        let result = run();
        let ms = start.elapsed().as_secs_f64() * 1e3;
        self.wait();
        ready?;
        result.map(|()| ms)
    }
}

impl Drop for End {
    fn drop(&mut self) {
        if let Self::Calls { nccl, communicator, .. } = self {
            // SAFETY: the communicator is there, and not used afterwards. Its work has ended, since each run
            // waits for it. An abort does not wait for the other ranks, which end one after the other.
            unsafe { nccl.abort(*communicator) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn elements_that_are_missing_or_wrong_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let case = first_case("sharded/limits", 0);
        for way in [Way::Emulated, Way::Peer, Way::RawPeer] {
            let devices = devices(&gpu, 3).unwrap();
            let mut exchange = AllToAll::new(way, &devices, case.n as usize).unwrap();
            exchange.restore().unwrap();
            assert!(exchange.verify().unwrap_err().to_string().contains("rank 0: element"));
            exchange.launch().unwrap();
            assert_eq!(exchange.verify().unwrap().succeeded, exchange.operations());
            let wrong = [exchange.intos[2].read().unwrap()[1] ^ 1];
            exchange.intos[2].write_at(1, &wrong).unwrap();
            assert!(exchange.verify().unwrap_err().to_string().contains("rank 2: element 1 is"));
        }
    }
}
