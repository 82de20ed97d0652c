//! The quick start of the README.
use phalanx::HashMap;

fn main() -> Result<(), phalanx::Error> {
    // On a GPU, with the feature `cuda` and where a driver answers; else on the emulator.
    let map = HashMap::<u32, u32>::with_capacity(1000)?;
    assert!(map.insert(&[1, 2, 3], &[10, 20, 30])?.all_placed());
    assert_eq!(map.get(&[2, 4])?, [Some(20), None]);
    Ok(())
}
