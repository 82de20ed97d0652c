//! Filters readings on the device, and inserts those that pass into a map. Their number stays in device
//! memory: the batches on the map read it there, and the host does not wait for it.
use phalanx::primitives::{Test, Workspace, compact_bytes};
use phalanx::{Device, HashMap, Merge};

const READINGS: usize = 1000;
/// Readings of sensors below this number are of interest.
const LIMIT: u32 = 40;

fn main() -> Result<(), phalanx::Error> {
    let sensors: Vec<u32> = (0..READINGS as u32).map(|reading| reading * reading % 101).collect();

    let device = Device::from_environment()?;
    let readings = HashMap::<u32, u32>::builder().device(&device).capacity(LIMIT as usize).build()?;
    let (all, limit) = (device.from_slice(&sensors)?, device.from_slice(&[LIMIT])?);
    let (mut kept, mut count) = (device.zeroed::<u32>(READINGS)?, device.buffer::<u32>(1)?);
    let ones = device.from_slice(&[1u32; READINGS])?;

    // Nothing below waits for the device: one kernel writes the count, and the next ones read it.
    let mut work = Workspace::on_device(&device, compact_bytes(READINGS))?;
    work.compact(&all, Test::Less((&limit).into()), &mut kept, &mut count)?;
    readings.on(work.stream()).upsert(Merge::Add, kept.bounded_by(&count)?, &ones, None)?;
    work.unique(&all, &mut kept, &mut count)?;
    let mut outcomes = device.zeroed::<u8>(READINGS)?;
    readings.on(work.stream()).contains_key(kept.bounded_by(&count)?, &mut outcomes)?;

    // The results agree with counts on the host. A batch writes no outcomes beyond its number of elements.
    for (sensor, found) in readings.iter()? {
        assert_eq!(sensors.iter().filter(|&&other| other == sensor).count(), found as usize, "{sensor}");
    }
    assert!(readings.iter()?.all(|(sensor, _)| sensor < LIMIT));
    let looked_up = outcomes.read()?.iter().filter(|&&outcome| outcome != 0).count();
    assert_eq!(looked_up, count.read()?[0] as usize);
    println!(
        "{} sensors below {LIMIT} of {looked_up} readings that differ from the one before",
        readings.len()?
    );
    Ok(())
}
