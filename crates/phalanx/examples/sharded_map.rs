//! A map over several GPUs, or over two emulated devices: batches on host slices and on device buffers, and a
//! saved map that another number of ranks loads.
//!
//! `cargo run -p phalanx --features sharded-map --example sharded_map`
use phalanx::exchange::{Exchange, Limits};
use phalanx::sharded_map::{on_devices, share};
use phalanx::{Device, Error, HashMap, Merge, Outcome, ShardedMap};

/// Pairs of all ranks.
const PAIRS: usize = 10_000;

fn main() -> Result<(), Error> {
    // With `PHALANX_DEVICE=cuda`, all GPUs of the machine.
    let devices: Vec<Device> = match std::env::var("PHALANX_DEVICE").is_ok_and(|name| name == "cuda") {
        true => (0..32).map_while(|ordinal| Device::cuda(ordinal).ok()).collect(),
        false => (0..2).map(|_| Device::emulator(Default::default())).collect(),
    };
    // Small windows, because the batches are. By default a rank has 192 MiB for each rank.
    let limits = Limits { part_bytes: 1 << 16, slot_bytes: 1 << 10, ..Limits::default() };
    let parts = on_devices(&devices, limits, |exchange| {
        let mut map = make(exchange)?;
        fill(&mut map)?;
        read(&mut map)?;
        let mut part = Vec::new();
        map.save(&mut part)?;
        Ok(part)
    })?;
    println!("{} parts of {} bytes in all", parts.len(), parts.iter().map(Vec::len).sum::<usize>());
    let lens = on_devices(&devices[..1], limits, |exchange| {
        let (mut map, rank, ranks) = (make(exchange)?, 0, 1);
        // Each part is passed on exactly one rank.
        map.load(parts.iter().map(|part| &part[..]).skip(rank).step_by(ranks))?;
        map.len()
    })?;
    println!("{} pairs on one rank", lens[0]);
    assert_eq!(lens, [PAIRS]);
    Ok(())
}

/// Makes a rank's end of the map, whose shard grows when it is full.
fn make(exchange: Exchange) -> Result<ShardedMap<u64, u64>, Error> {
    let shard = HashMap::builder().device(exchange.device()).capacity(1000).build()?;
    ShardedMap::new(exchange, shard)
}

/// Changes the map by batches on host slices. Each rank has a share of them.
fn fill(map: &mut ShardedMap<u64, u64>) -> Result<(), Error> {
    let (keys, values): (Vec<u64>, Vec<u64>) = (0..PAIRS as u64).map(|key| (key, 7 * key)).unzip();
    let own = share(PAIRS, map.rank(), map.ranks());
    assert!(map.insert(&keys[own.clone()], &values[own.clone()])?.all_placed());
    assert!(map.upsert(Merge::Add, &keys[own.clone()], &vec![1; own.len()])?.all_placed());
    assert_eq!(map.len()?, PAIRS);
    Ok(())
}

/// Looks up keys in buffers of the rank's device.
fn read(map: &mut ShardedMap<u64, u64>) -> Result<(), Error> {
    let device = map.device().clone();
    let keys = device.from_slice(&[3u64, 9999, 10_000])?;
    let (mut values, mut outcomes) = (device.zeroed::<u64>(3)?, device.zeroed::<u8>(3)?);
    map.batches().get(&keys, &mut values, &mut outcomes)?;
    map.wait()?; // results are there when the map's stream has executed the batch
    let found = [Outcome::Found, Outcome::Found, Outcome::Absent].map(|outcome| outcome as u8);
    assert_eq!(outcomes.read()?, found);
    assert_eq!(values.read()?[..2], [22, 69_994]);
    Ok(())
}
