//! Rates of a persistent map in device memory: `persistent_rates [KEYS] [VARIANT]`. Every result is verified.
//! On the emulator, times say nothing about a GPU.
use phalanx::gpu::{Buffer, Stream};
use phalanx::{Device, Outcome, PersistentMap, Result};

/// Elements of a batch.
const BATCH: usize = 1 << 22;

/// Share of the slots that keys take, in hundredths.
const LOAD: usize = 90;

fn key(number: usize) -> u64 {
    (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Runs `submit` for each batch of keys, and returns the elements per microsecond.
fn rate(
    stream: &Stream,
    batches: &[Buffer<u64>],
    mut submit: impl FnMut(&Buffer<u64>) -> Result<()>,
) -> Result<f64> {
    let begin = stream.record()?;
    batches.iter().try_for_each(&mut submit)?;
    let end = stream.record()?;
    end.synchronize()?;
    let elements: usize = batches.iter().map(Buffer::len).sum();
    Ok(elements as f64 / (end.elapsed_ms(&begin)? * 1000.0))
}

fn keys_on(device: &Device, range: std::ops::Range<usize>) -> Result<Vec<Buffer<u64>>> {
    let starts = range.clone().step_by(BATCH);
    let part = |start: usize| (start..(start + BATCH).min(range.end)).map(key).collect::<Vec<u64>>();
    starts.map(|start| Ok(device.from_slice(&part(start))?)).collect()
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let keys = arguments.next().map_or(20_000, |text| text.parse().expect("a number of keys"));
    let device = Device::from_environment()?;
    let builder = PersistentMap::<u64, u64>::builder().device(&device).grows(false).seed(1);
    // `capacity` leaves a tenth of the slots free by itself.
    let builder = builder.capacity(keys * 90 / LOAD);
    let map = match arguments.next() {
        Some(name) => builder.variant(&name).build()?,
        None => builder.build()?,
    };
    let (stream, present) = (device.stream()?, keys_on(&device, 0..keys)?);
    let absent = keys_on(&device, keys..2 * keys)?;
    let mut found = device.zeroed::<u64>(BATCH.min(keys))?;
    let mut outcomes = device.zeroed::<u8>(BATCH.min(keys))?;
    let insert = rate(&stream, &present, |keys| map.on(&stream).insert(keys, keys, None))?;
    let placed = map.len()?;
    let mut look_up = |batches: &[Buffer<u64>]| {
        rate(&stream, batches, |keys| {
            let (values, codes) = (found.slice_mut(..keys.len())?, outcomes.slice_mut(..keys.len())?);
            map.on(&stream).get(keys, values, codes)
        })
    };
    // The first run of a kernel includes its compilation.
    look_up(&present[..1])?;
    let (hit, miss) = (look_up(&present)?, look_up(&absent)?);
    let last = &present[present.len() - 1];
    map.on(&stream).get(last, found.slice_mut(..last.len())?, outcomes.slice_mut(..last.len())?)?;
    let (values, codes) = (found.read()?, outcomes.read()?);
    let expected = last.read()?;
    let wrong = (0..last.len()).filter(|&at| codes[at] == Outcome::Found as u8 && values[at] != expected[at]);
    assert_eq!(wrong.count(), 0, "wrong values");
    let is_found = map.contains_key(&(0..keys).map(key).collect::<Vec<_>>())?;
    assert_eq!(is_found.into_iter().filter(|&found| found).count(), placed, "keys are lost");
    assert!(map.contains_key(&(keys..2 * keys).map(key).collect::<Vec<_>>())?.iter().all(|&found| !found));
    map.check()?;
    println!("{} on {}, load {:.3}", map.variant(), device.name(), map.load_factor()?);
    println!("{} of {keys} keys refused", keys - placed);
    println!("insert {insert:.0} M/s, hit {hit:.0} M/s, miss {miss:.0} M/s");
    Ok(())
}
