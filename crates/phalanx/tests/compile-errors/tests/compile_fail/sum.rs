//! Sums of values that have none.
use phalanx::{Error, HashMap, Merge};
use std::num::NonZero;

fn main() -> Result<(), Error> {
    let flags = HashMap::<u32, bool>::with_capacity(100)?;
    flags.upsert(Merge::Max, &[1], &[true])?;
    flags.upsert(Merge::Add, &[1], &[true])?;
    HashMap::<u32, char>::with_capacity(100)?.upsert(Merge::Add, &[1], &['a'])?;
    HashMap::<u32, NonZero<u32>>::with_capacity(100)?.upsert(Merge::Add, &[1], &[NonZero::<u32>::MIN])?;
    Ok(())
}
