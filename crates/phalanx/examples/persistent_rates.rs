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
    // The first launches of the kernels include their compilation.
    let small = PersistentMap::<u64, u64>::builder().device(&device).seed(1).variant(map.variant());
    let small = small.capacity(64).build()?;
    small.on(&stream).insert(present[0].slice(..8)?, present[0].slice(..8)?, None)?;
    stream.synchronize()?;
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
    patterns(&device, &map, keys)
}

/// Prints rates of batches of present keys in other orders and with other frequencies.
fn patterns(device: &Device, map: &PersistentMap<u64, u64>, keys: usize) -> Result<()> {
    let (stream, len) = (device.stream()?, BATCH.min(keys));
    let mut state = 1u64;
    let mut random = move || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let mut uniform: Vec<u64> = (0..len).map(|_| key((random() * keys as f64) as usize)).collect();
    let zipf: Vec<u64> = (0..len).map(|_| key((keys as f64).powf(random()) as usize - 1)).collect();
    let all = |name, batch: &[u64]| -> Result<()> {
        let keys = device.from_slice(batch)?;
        let (mut found, mut outcomes) = (device.zeroed::<u64>(len)?, device.zeroed::<u8>(len)?);
        let batches = vec![keys];
        let get = rate(&stream, &batches, |keys| map.on(&stream).get(keys, &mut found, &mut outcomes))?;
        let contains = rate(&stream, &batches, |keys| map.on(&stream).contains_key(keys, &mut outcomes))?;
        let insert = rate(&stream, &batches, |keys| map.on(&stream).insert(keys, keys, None))?;
        let update = rate(&stream, &batches, |keys| map.on(&stream).update(keys, keys, None))?;
        let update = update.max(rate(&stream, &batches, |keys| map.on(&stream).update(keys, keys, None))?);
        let insert_new = rate(&stream, &batches, |keys| map.on(&stream).insert_new(keys, keys, None))?;
        let remove = rate(&stream, &batches, |keys| map.on(&stream).remove(keys, None))?;
        let again = rate(&stream, &batches, |keys| map.on(&stream).insert(keys, keys, None))?;
        println!(
            "{name}: get {get:.0}, contains {contains:.0}, insert present {insert:.0}, update {update:.0}, insert_new present {insert_new:.0}, remove {remove:.0}, insert again {again:.0}"
        );
        Ok(())
    };
    all("warm", &uniform)?;
    all("uniform", &uniform)?;
    uniform.sort();
    all("sorted", &uniform)?;
    all("zipf", &zipf)?;
    all("one key", &vec![key(5); len])?;
    all("ten keys", &(0..len).map(|at| key(at % 10)).collect::<Vec<_>>())
}
