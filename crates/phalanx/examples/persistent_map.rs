//! Keeps visits to pages in a file, and continues with them after a restart.
use bytemuck::{Pod, Zeroable};
use phalanx::persistent_map::check_file;
use phalanx::{PersistentMap, Result};

/// Visits to a page.
#[repr(C)]
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
struct Visits {
    count: u64,
    last: u64,
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("phalanx-visits-{}", std::process::id()));
    let builder = || PersistentMap::<u64, Visits>::builder().capacity(1000);
    for day in 1..=3 {
        let map = builder().open_or_create(&path)?;
        let pages: Vec<u64> = (0..100).map(|page| page * day).collect();
        let visited =
            |found: &Option<Visits>| Visits { count: found.map_or(1, |old| old.count + 1), last: day };
        let visits: Vec<Visits> = map.get(&pages)?.iter().map(visited).collect();
        assert!(map.insert(&pages, &visits)?.all_placed());
        // What is not synced is lost when the map is dropped.
        let epoch = map.sync()?;
        println!("day {day}: {} pages, epoch {}, page 0: {:?}", map.len()?, epoch.0, map.get(&[0])?[0]);
    }
    println!("{}", check_file(&path)?);
    std::fs::remove_file(path).expect("the file is ours");
    Ok(())
}
