//! Keeps the time of each client's last request. The number of clients is unknown, and clients come and go.
use phalanx::{Merge, Outcome, SlabHash};

fn main() -> Result<(), phalanx::Error> {
    // The map was built for 100 clients. Lists grow slab by slab during a call; when lists are long, the map
    // gets more buckets after the call.
    let mut last_seen = SlabHash::<u64, u32>::with_capacity(100)?;
    for time in 1..=5 {
        // In each period 1000 clients send two requests; half of these clients are new.
        let clients: Vec<u64> = (0..2000).map(|request| u64::from(time) * 500 + request / 2).collect();
        let outcomes = last_seen.upsert(Merge::Max, &clients, &vec![time; clients.len()])?;
        assert!(!outcomes.contains(&Outcome::Refused));
    }
    assert_eq!(last_seen.len()?, 3000);
    assert_eq!(last_seen.get(&[500, 1000, 3400, 9999])?, [Some(1), Some(2), Some(5), None]);

    // Clients without a request in periods 4 and 5 are forgotten.
    let silent: Vec<u64> =
        last_seen.iter()?.filter(|&(_, time)| time < 4).map(|(client, _)| client).collect();
    last_seen.remove(&silent)?;
    assert_eq!(last_seen.len()?, 1500);

    // A flush packs the lists, so that their slabs return to the pool.
    let before = last_seen.stats()?.live;
    last_seen.flush_all()?;
    let after = last_seen.stats()?.live;
    assert!(after < before);
    println!("{} clients; the flush freed {} of {before} slabs", last_seen.len()?, before - after);
    Ok(())
}
