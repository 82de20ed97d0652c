//! Counting on several GPUs: a shard of the table on each, and a thread for each.
//!
//! All cores read the files as for one GPU. Batches go to the ranks in turn; all ranks count theirs at the
//! same time, and each k-mer is counted on the GPU that owns it.
use crate::count::{Cost, Counts, Options, blocks_of, with_reader};
use anyhow::{Context, Result, anyhow, bail, ensure};
use genomes::feed::{Batches, Segments};
use genomes::table::{Memory, TableOptions, open};
use indicatif::ProgressBar;
use phalanx::exchange::{Exchange, Limits};
use phalanx::gpu::Device;
use phalanx::sharded_map::on_devices;
use phalanx::{HashMap, Merge, ShardedMap};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Returns `gpus` devices: the first CUDA devices, or emulated ones if `name` names the emulator or there is
/// no GPU.
///
/// # Errors
/// Returns [`anyhow::Error`] when the machine has fewer devices, or `name` names a single one of them.
pub fn devices(name: &str, gpus: usize) -> Result<Vec<Device>> {
    ensure!(gpus > 0, "--gpus 0 counts nothing: give at least 1");
    ensure!(
        !name.starts_with("cuda:"),
        "--device {name} is one GPU: --gpus takes the first ones of the machine"
    );
    let first = open(name)?;
    let device = |ordinal: usize| match first.is_emulator() {
        true => Ok(Device::named("emulator")?),
        false => Device::cuda(ordinal as u32)
            .with_context(|| format!("--gpus {gpus} needs a GPU number {ordinal}: give a smaller number")),
    };
    (0..gpus).map(device).collect()
}

/// K-mers and their counts.
type Pairs = (Vec<u64>, Vec<u64>);

/// Result of a rank.
struct Counted {
    pairs: Pairs,
    memory: usize,
    counting: Duration,
}

/// Counts the k-mers of the files on several devices.
///
/// # Errors
/// As [`count`](crate::count::count); also when a table has a budget.
pub fn count_on(
    files: &[PathBuf],
    devices: &[Device],
    options: &Options,
    progress: &ProgressBar,
) -> Result<Counts> {
    ensure!(options.table.budget.is_none(), "--gpus and --budget exclude each other: leave one out");
    let (senders, receivers): (Vec<_>, Vec<_>) = devices.iter().map(|_| sync_channel::<Pairs>(1)).unzip();
    let receivers: Vec<_> = receivers.into_iter().map(|receiver| Mutex::new(Some(receiver))).collect();
    let (start, mut upserts) = (Instant::now(), 0);
    let (counted, reading) = thread::scope(|scope| {
        let ranks = scope.spawn(|| {
            on_devices(devices, limits(&options.table), |exchange| {
                let receiver =
                    receivers[exchange.rank()].lock().unwrap_or_else(PoisonError::into_inner).take();
                run_rank(exchange, receiver, &options.table)
            })
        });
        let reading = with_reader(blocks_of(files, options, progress), options, |segments| {
            deal(&devices[0], segments, senders, (options.table.batch, &mut upserts))
        });
        (ranks.join(), reading)
    });
    let counted = counted.map_err(|_| anyhow!("the thread of a GPU panicked: please report this"))?;
    let counted = counted.with_context(|| format!("counting on {} GPUs failed", devices.len()))?;
    let reading = reading?;
    let time = start.elapsed();
    let compiling = devices.iter().map(|device| device.jit_ms() / 1e3).fold(0.0, f64::max);
    let cost = Cost {
        upserts,
        memory: Memory { device: counted.iter().map(|rank| rank.memory).sum(), ..Memory::default() },
        reading: reading.time,
        counting: counted.iter().map(|rank| rank.counting).max().unwrap_or_default(),
        time,
        compiling: Duration::from_secs_f64(compiling),
    };
    let pairs = counted.into_iter().flat_map(|rank| rank.pairs.0.into_iter().zip(rank.pairs.1)).collect();
    Counts::of(options.length, reading.input, pairs, cost)
}

/// Returns the bounds of the exchange: parts that a batch of uniform k-mers fits.
pub(crate) fn limits(table: &TableOptions) -> Limits {
    let bytes = table.batch.saturating_mul(16).clamp(1 << 16, 32 << 20).next_power_of_two();
    Limits { part_bytes: bytes, ..Limits::default() }
}

/// Sends batches to the ranks, the same number to each: the last ones may be empty.
fn deal(
    device: &Device,
    segments: Segments<u64>,
    ranks: Vec<SyncSender<Pairs>>,
    (batch, upserts): (usize, &mut u64),
) -> Result<()> {
    let mut round = Vec::with_capacity(ranks.len());
    Batches::new(device, batch)?.run(segments, |kmers, counts| {
        *upserts += kmers.len() as u64;
        round.push((kmers.to_vec(), counts.to_vec()));
        if round.len() == ranks.len() { send(&ranks, &mut round) } else { Ok(()) }
    })?;
    if !round.is_empty() {
        round.resize(ranks.len(), Pairs::default());
        send(&ranks, &mut round)?;
    }
    Ok(())
}

fn send(ranks: &[SyncSender<Pairs>], round: &mut Vec<Pairs>) -> Result<()> {
    for (rank, batch) in ranks.iter().zip(round.drain(..)) {
        if rank.send(batch).is_err() {
            bail!("a GPU has ended early");
        }
    }
    Ok(())
}

/// Makes a rank's end of the table.
pub(crate) fn make_map(exchange: Exchange, options: &TableOptions) -> phalanx::Result<ShardedMap<u64, u64>> {
    let capacity = options.capacity.div_ceil(exchange.ranks()).max(1);
    let shard = HashMap::builder().device(exchange.device()).capacity(capacity).build()?;
    ShardedMap::new(exchange, shard)
}

/// Counts the batches of a rank until there are no more.
fn run_rank(
    exchange: Exchange,
    batches: Option<Receiver<Pairs>>,
    options: &TableOptions,
) -> phalanx::Result<Counted> {
    let (mut map, mut counting) = (make_map(exchange, options)?, Duration::ZERO);
    for (kmers, counts) in batches.into_iter().flatten() {
        let start = Instant::now();
        let outcomes = map.upsert(Merge::Add, &kmers, &counts)?;
        debug_assert!(outcomes.all_placed());
        counting += start.elapsed();
    }
    Ok(Counted { memory: map.shard().memory_usage(), pairs: map.export()?, counting })
}
