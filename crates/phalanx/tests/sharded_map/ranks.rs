//! Ranks as threads.
use phalanx::exchange::{Error, Exchange, Limits, Meeting, Planted, nccl_id};
use phalanx::{Device, HashMap, Key, Result, ShardedMap, Value};
use std::thread;
use std::time::Duration;

/// Ways to move data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Emulated,
    Peer,
    Nccl,
}

/// A way to move data, and a number of ranks.
pub type Case = (Kind, usize);

fn is_cuda() -> bool {
    std::env::var("PHALANX_DEVICE").is_ok_and(|name| name.starts_with("cuda"))
}

/// Returns the CUDA devices of the machine.
fn cuda_devices() -> Vec<Device> {
    (0..8).map_while(|ordinal| Device::cuda(ordinal).ok()).collect()
}

/// Returns a device for each rank. If there are fewer CUDA devices, some have several ranks.
fn devices(ranks: usize) -> Vec<Device> {
    match is_cuda() {
        true => cuda_devices().into_iter().cycle().take(ranks).collect(),
        false => (0..ranks).map(|_| Device::emulator(Default::default())).collect(),
    }
}

/// Returns all cases that this machine can run.
pub fn cases() -> Vec<Case> {
    if !is_cuda() {
        let both = |ranks| [(Kind::Emulated, ranks), (Kind::Peer, ranks)];
        return [1, 2, 3, 5, 8].into_iter().flat_map(both).collect();
    }
    let devices = cuda_devices().len();
    assert!(devices > 0, "PHALANX_DEVICE is cuda, but there is no CUDA device");
    let nccl = match nccl_id() {
        Ok(_) => Some(Kind::Nccl),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    };
    println!("{devices} devices");
    // NCCL refuses two ranks on one device.
    let of_nccl = nccl.into_iter().flat_map(|kind| (1..=devices).map(move |ranks| (kind, ranks)));
    (1..=devices.max(3)).map(|ranks| (Kind::Peer, ranks)).chain(of_nccl).collect()
}

/// Small parts, so that small batches need several rounds.
pub fn small() -> Limits {
    Limits { part_bytes: 512, slot_bytes: 256, deadline: Duration::from_secs(60) }
}

/// Runs a function on each rank in a thread of its own, and returns the results.
pub fn run_with<R: Send>(
    (kind, ranks): Case,
    limits: Limits,
    planted: Vec<Planted>,
    run: impl Fn(Exchange) -> Result<R> + Sync,
) -> Vec<Result<R>> {
    let meeting = Meeting::with_faults(ranks, planted).unwrap();
    let id = (kind == Kind::Nccl).then(|| nccl_id().unwrap());
    let (meeting, run, id) = (&meeting, &run, id.as_ref());
    thread::scope(|scope| {
        let rank = |(rank, device): (usize, Device)| {
            scope.spawn(move || {
                run(match (kind, id) {
                    (Kind::Nccl, Some(id)) => Exchange::nccl(id, (rank, ranks), &device, limits)?,
                    (Kind::Emulated, _) => Exchange::emulated(meeting, rank, &device, limits)?,
                    _ => Exchange::peer(meeting, rank, &device, limits)?,
                })
            })
        };
        let threads: Vec<_> = devices(ranks).into_iter().enumerate().map(rank).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// As [`run_with`], without faults; all must succeed.
pub fn run<R: Send>(case: Case, limits: Limits, run: impl Fn(Exchange) -> Result<R> + Sync) -> Vec<R> {
    run_with(case, limits, Vec::new(), run).into_iter().map(|result| result.unwrap()).collect()
}

/// Makes a rank's end of a map with a shard for `capacity` pairs.
pub fn map<K: Key, V: Value>(exchange: Exchange, capacity: usize) -> Result<ShardedMap<K, V>> {
    let shard = HashMap::builder().device(exchange.device()).capacity(capacity).build()?;
    let mut map = ShardedMap::new(exchange, shard)?;
    map.force_exchange(true);
    Ok(map)
}

/// Returns the error of the exchange that a call has returned.
pub fn exchange_error<R>(result: &Result<R>) -> Option<&Error> {
    match result {
        Err(phalanx::Error::Exchange(error)) => Some(error),
        _ => None,
    }
}
