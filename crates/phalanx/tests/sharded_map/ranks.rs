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

/// Returns whether the ranks have CUDA devices.
pub fn is_cuda() -> bool {
    std::env::var("PHALANX_DEVICE").is_ok_and(|name| name.starts_with("cuda"))
}

/// Returns a device for each rank, at most `most`.
fn devices(most: usize) -> Vec<Device> {
    match is_cuda() {
        true => (0..most as u32).map_while(|ordinal| Device::cuda(ordinal).ok()).collect(),
        false => (0..most).map(|_| Device::emulator(Default::default())).collect(),
    }
}

/// Returns all cases that this machine can run.
pub fn cases() -> Vec<Case> {
    if !is_cuda() {
        let both = |ranks| [(Kind::Emulated, ranks), (Kind::Peer, ranks)];
        return [1, 2, 3, 5, 8].into_iter().flat_map(both).collect();
    }
    let devices = devices(8).len();
    assert!(devices > 0, "PHALANX_DEVICE is cuda, but there is no CUDA device");
    let nccl = match nccl_id() {
        Ok(_) => Some(Kind::Nccl),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    };
    let kinds: Vec<_> = [Some(Kind::Peer), nccl].into_iter().flatten().collect();
    let all = kinds.into_iter().flat_map(|kind| (1..=devices).map(move |ranks| (kind, ranks)));
    println!("{devices} devices");
    all.collect()
}

/// Small parts, so that small batches need several rounds.
pub fn small() -> Limits {
    Limits { part_bytes: 512, slot_bytes: 256, deadline: Duration::from_secs(60) }
}

/// Parts in which kernels write messages of some thousand elements.
pub fn in_several_chunks() -> Limits {
    Limits { part_bytes: 32 << 10, ..small() }
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
