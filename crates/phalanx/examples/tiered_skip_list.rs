//! Keeps events by their time in a map that may be larger than the device memory that it uses.
use phalanx::{Result, TieredSkipList};

fn main() -> Result<()> {
    let builder = TieredSkipList::<u64, u32>::builder().capacity(40_000).list_capacity(2_000);
    // The least budget would do, but chunks of a batch would then have only 128 elements.
    let budget = 4 * builder.min_budget()?;
    let events = builder.budget(budget).build()?;
    let times: Vec<u64> = (0..40_000).map(|number| 1_000 * number + number % 7).collect();
    let kinds: Vec<u32> = (0..40_000).map(|number| number % 5).collect();
    assert!(events.insert(&times, &kinds)?.all_placed());

    let hours = events.range(&[0..3_600_000, 3_600_000..7_200_000])?;
    assert_eq!((hours[0].len(), hours[1].len()), (3_600, 3_600));
    let last = events.predecessor(&[3_600_000])?[0];
    assert_eq!(last, Some((3_599_001, 4)));
    println!(
        "{} events in {} inner lists, the last one before the hour: {last:?}",
        events.len(),
        events.lists()
    );
    println!("{} bytes of device memory of a budget of {budget}", events.peak_device_bytes());
    Ok(())
}
