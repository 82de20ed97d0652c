//! Gives each job a slab of device memory, reclaims the slabs of finished jobs, and grows when none is free.
use phalanx::SlabAlloc;
use std::collections::VecDeque;

fn main() -> Result<(), phalanx::Error> {
    let mut pool = SlabAlloc::builder().super_block_slabs(1024).build()?;
    let mut running = VecDeque::new();
    let mut grown = 0;
    // In each round 400 jobs begin, and jobs end three rounds after they began.
    for round in 0..10 {
        let mut slabs = pool.allocate(400)?;
        if slabs.len() < 400 {
            // A full pool returns fewer handles. Existing handles stay valid while it grows.
            pool.grow(400 - slabs.len())?;
            grown += 1;
            slabs.extend(pool.allocate(400 - slabs.len())?);
        }
        assert_eq!(slabs.len(), 400, "round {round}");
        running.push_back(slabs);
        if running.len() > 3 {
            let ended = running.pop_front().expect("four rounds are running");
            // Kernels might still read the slabs of an ended job: they are retired now and reclaimed later.
            pool.retire(&ended)?;
            pool.reclaim()?;
        }
    }
    let stats = pool.stats()?;
    assert_eq!((stats.live, stats.retired, stats.faults), (1200, 0, 0));
    assert_eq!((pool.capacity(), grown), (2048, 1));
    println!("{} of {} slabs of {} bytes are in use", stats.live, pool.capacity(), pool.slab_bytes());

    for slabs in running {
        pool.free(&slabs)?;
    }
    pool.close() // an error if a slab leaked
}
