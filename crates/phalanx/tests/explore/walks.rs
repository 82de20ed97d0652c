//! Bounds of walks: how many buckets an operation probes, and from which on it counts as long.
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::hash_map::{Config, DoubleHash, LONG, MapView, OVERFLOW_BUCKETS, Table, Wide};
use phalanx_kernels::keyed::{COUNTER_SHARDS, InsertNew, Outcome, PerLane, Remove, SHARD_WORDS, Session};
use simt::emulator::{Launch, Options, Schedule};
use simt::{GlobalSlice, Kernel};

/// Table whose buckets have one slot, so that each pair ends a walk one bucket further.
type One = Table<Wide<u64, u64>, DoubleHash, 1, 1>;

/// Kernel whose only lane inserts a key, `step` more for each round, and removes it if wanted.
#[derive(Clone, Copy)]
struct Fill {
    map: MapView<One>,
    first: u64,
    step: u64,
    removes: bool,
    /// Output: the outcome of the insertion of each round.
    outcomes: GlobalSlice<u8>,
}

impl Kernel for Fill {
    const PROGRAM: &'static str = "explore";
    const NAME: &'static str = "fill";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let mut session = Session::<One, PerLane>::new(self.map, PerLane);
        for round in 0..self.outcomes.len() {
            let key = self.first.wrapping_add(self.step * round as u64);
            let (outcome, _) = session.execute(true, InsertNew, key, 1);
            self.outcomes.write(round, outcome as u8);
            if self.removes {
                session.execute(true, Remove, key, 0);
            }
        }
        session.finish();
    }
}

/// Memory of a table.
struct World {
    device: Device,
    count: u32,
    buckets: Buffer<u64>,
    filters: Buffer<u32>,
    counters: Buffer<u64>,
}

impl World {
    fn new(count: u32) -> gpu::Result<Self> {
        let device = Device::emulator(Options::explore(Schedule::Random { seed: 1 }));
        let words = (count + OVERFLOW_BUCKETS) as usize * One::BUCKET_BYTES / 8;
        Ok(Self {
            buckets: device.filled(words, 0xff)?,
            filters: device.filled(One::filter_words(count).max(1), 0xff)?,
            counters: device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?,
            device,
            count,
        })
    }

    /// Runs [`Fill`] on one lane. Returns the numbers of pairs inserted and refused, and of long walks.
    fn fill(&self, max_probes: u32, rounds: usize, (first, step): (u64, u64), removes: bool) -> [usize; 3] {
        let Self { device, count, buckets, filters, counters } = self;
        let outcomes = device.zeroed::<u8>(rounds).expect("memory");
        // SAFETY: the memory has the right sizes and outlives the launch; the counts here are primes.
        let map = unsafe {
            MapView::<One>::new(buckets.pointer(), filters.pointer(), counters.pointer(), *count, max_probes)
        };
        let before = self.long();
        let kernel = Fill { map, first, step, removes, outcomes: outcomes.global() };
        let launch = Launch::new(Grid::new(1, 1), kernel);
        device.emulator_handle().expect("an emulator").launch_all(vec![launch]).expect("no failure");
        let outcomes = outcomes.read().expect("memory");
        let number = |of: Outcome| outcomes.iter().filter(|code| **code == of as u8).count();
        [number(Outcome::Inserted), number(Outcome::Refused), self.long() - before]
    }

    /// Returns how many walks have been counted as long: the third word of each shard.
    fn long(&self) -> usize {
        let counters = self.counters.read().expect("memory");
        counters.iter().skip(2).step_by(SHARD_WORDS).sum::<u64>() as usize
    }
}

/// The overflow buckets have room for one pair each. Slots of removed pairs are not used again, so round `i`
/// goes to bucket `i`. A walk that has left half of the buckets behind is long: those of the insertion and of
/// the removal in each of the last 8 buckets, and both walks of the round that finds no room.
#[test]
fn walks_in_the_overflow_buckets_end_and_count() {
    let buckets = OVERFLOW_BUCKETS as usize;
    let world = World::new(3).expect("memory");
    let found = world.fill(3, buckets + 1, (u64::MAX, 0), true);
    assert_eq!(found, [buckets, 1, 2 * (buckets / 2) + 2]);
}

/// In a full table a walk for a new key ends at its bound. It is long if it has left [`LONG`] buckets behind.
#[test]
fn walks_of_more_than_the_bound_are_long() {
    let world = World::new(211).expect("memory");
    assert_eq!(world.fill(211, 211, (0, 1), false)[..2], [211, 0]);
    for (max_probes, long) in [(1, 0), (LONG - 1, 0), (LONG, 0), (LONG + 1, 1), (LONG + 2, 1), (211, 1)] {
        assert_eq!(world.fill(max_probes, 1, (1000, 1), false), [0, 1, long], "{max_probes} probes");
    }
}
