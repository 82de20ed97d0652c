//! Sums the sales of each shop on the device: sorts by shop, then reduces each run of equal shops.
use phalanx::Device;
use phalanx::primitives::{Bits, Fold, Workspace, runs_bytes, sort_bytes};

const SALES: usize = 1000;

fn main() -> Result<(), phalanx::Error> {
    let shops: Vec<u32> = (0..SALES as u32).map(|sale| sale * sale % 13).collect();
    let amounts: Vec<u64> = (0..SALES as u64).map(|sale| 1 + sale % 50).collect();

    let device = Device::from_environment()?;
    let (mut keys, mut values) = (device.from_slice(&shops)?, device.from_slice(&amounts)?);
    let (mut found, mut sums) = (device.zeroed::<u32>(SALES)?, device.zeroed::<u64>(SALES)?);
    let mut count = device.buffer::<u32>(1)?;

    // The workspace has the temporary memory and the stream. Its calls do not block; `read` waits.
    let bytes = sort_bytes::<u32, u64>(SALES).max(runs_bytes(SALES));
    let mut work = Workspace::on_device(&device, bytes)?;
    // Numbers of shops are below 16, so a sort by their lowest four bits suffices.
    work.sort_pairs_in_place(&mut keys, &mut values, Bits::new(0, 4))?;
    work.reduce_by_key(Fold::Sum, (&keys, &values), (&mut found, &mut sums), &mut count)?;

    let count = count.read()?[0] as usize;
    let totals: Vec<(u32, u64)> = found.read()?.into_iter().zip(sums.read()?).take(count).collect();
    for &(shop, total) in &totals {
        let sales = shops.iter().zip(&amounts).filter(|&(&of, _)| of == shop);
        assert_eq!(sales.map(|(_, amount)| amount).sum::<u64>(), total, "shop {shop}");
    }
    assert_eq!(totals.iter().map(|(_, total)| total).sum::<u64>(), amounts.iter().sum());
    println!("{count} shops: {totals:?}");
    Ok(())
}
