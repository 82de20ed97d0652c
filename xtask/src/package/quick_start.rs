//! The quick start of the README.
use phalanx::{HashMap, Map};

fn main() -> Result<(), phalanx::Error> {
    let map = HashMap::<u32, u32>::with_capacity(1000)?;
    map.insert(&[1, 2, 3], &[10, 20, 30])?;
    assert_eq!(map.get(&[2, 4])?, [Some(20), None]);
    Ok(())
}
