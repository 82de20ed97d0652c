//! Counts words in a map that may be larger than the device memory that it uses.
use phalanx::{Merge, Result, TieredMap};

fn main() -> Result<()> {
    let builder = TieredMap::<u64, u32>::builder().capacity(200_000).shards(16);
    // The least budget would do, but chunks of a batch would then have only 128 elements.
    let budget = 4 * builder.min_budget()?;
    let map = builder.budget(budget).build()?;
    let words: Vec<u64> = (0..100_000).map(|number| number * number % 10_007).collect();
    assert!(map.upsert(Merge::Add, &words, &vec![1; words.len()])?.all_placed());
    let counts = map.get(&[0, 1, 2, 10_007])?;
    println!("{} distinct words; counts of some: {counts:?}", map.len());
    println!("{} bytes of device memory of a budget of {budget}", map.peak_device_bytes());
    Ok(())
}
