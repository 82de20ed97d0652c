//! Tiny pool on an emulated device, and the findings when lanes operate on it.
use crate::common::Rng;
use crate::play::{ALLOCATE, FREE, Play, REST, RETIRE, Script, Ways};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::slab::kernels::SlabFree;
use phalanx_kernels::slab::{Bitmaps, Handle, MOST_SUPER_BLOCKS, Pool, Supers};
use simt::emulator::{Launch, Options, Schedule};
use simt::{GlobalSlice, Instance, Kernel};
use std::collections::HashSet;
use std::marker::PhantomData;
use std::ops::AddAssign;

/// Fault that a test has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The emulator ended the launch because of a race, a hang, a fault, ...
    Machine(simt::emulator::Failure),
    /// Number of slabs that were allocated to a lane while another lane had them.
    Shared(u32),
    /// Number of allocations that were refused although slabs were free.
    Refused(u32),
    /// Number of live slabs that no lane has, and number of slabs that a lane has and that are not live.
    Bitmap { lost: usize, stolen: usize },
    /// The bitmap of retired slabs differs from the slabs that lanes have retired.
    Retired,
}

impl Finding {
    /// Returns whether the findings are equal, apart from addresses.
    pub fn is_same(&self, other: &Self) -> bool {
        let (Self::Machine(a), Self::Machine(b)) = (self, other) else { return self == other };
        crate::common::is_same_failure(a, b)
    }
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Machine(failure) => failure.fmt(f),
            other => std::fmt::Debug::fmt(other, f),
        }
    }
}

/// Totals of runs without a finding.
#[derive(Clone, Copy, Debug, Default)]
pub struct Played {
    pub given: u32,
    pub refused: u32,
    pub freed: u32,
    pub retired: usize,
}

impl AddAssign for Played {
    fn add_assign(&mut self, other: Self) {
        self.given += other.given;
        self.refused += other.refused;
        self.freed += other.freed;
        self.retired += other.retired;
    }
}

/// Concurrent launches on a pool whose first slabs are live, some of which a batch frees.
#[derive(Debug)]
struct Plan {
    units: usize,
    live: usize,
    batch: usize,
    rounds: usize,
    frees: bool,
    scripts: Vec<Vec<u8>>,
}

impl Plan {
    fn new(seed: u64, lanes: u32) -> Self {
        let mut rng = Rng::new(seed);
        let units = rng.pick(&[5, 32, 40, 64, 100, 130]);
        let room = rng.pick(&[1, 3, lanes as u64, units]).min(units);
        let (rounds, frees) = (1 + rng.below(3) as usize, rng.below(4) != 0);
        let steps: &[u8] =
            if frees { &[REST, ALLOCATE, ALLOCATE, FREE, FREE, RETIRE] } else { &[REST, ALLOCATE] };
        let scripts = (0..2 + rng.below(2))
            .map(|_| (0..lanes as usize * rounds).map(|_| rng.pick(steps)).collect())
            .collect();
        let live = (units - room) as usize;
        let batch = if frees { rng.below(live as u64 + 1) as usize } else { 0 };
        Self { units: units as usize, live, batch, rounds, frees, scripts }
    }

    /// Returns the number of slabs that are free at all times, for any schedule of allocations.
    fn spare(&self, lanes: u32, retired: usize) -> usize {
        let most = self.live + lanes as usize * self.scripts.len() + retired;
        self.units.saturating_sub(most)
    }
}

/// Memory of a pool.
struct World {
    device: Device,
    slabs: Buffer<u64>,
    bases: Buffer<u64>,
    live: Buffer<u32>,
    retired: Buffer<u32>,
    faults: Buffer<u64>,
    units: u32,
}

impl World {
    fn new<P: Pool>(options: Options, plan: &Plan) -> gpu::Result<Self> {
        let device = Device::emulator(options);
        let supers = plan.units.div_ceil(32);
        let slabs = device.filled::<u64>(supers * 32 * P::BYTES / 8, 0xff)?;
        // The super blocks are in reverse order.
        let base = |place: usize| slabs.pointer().wrapping_byte_add(place * 32 * P::BYTES) as u64;
        let mut bases = vec![0; MOST_SUPER_BLOCKS + 1];
        (0..supers).for_each(|number| bases[number] = base(supers - 1 - number));
        let words = Bitmaps::words_for(plan.units);
        let is_taken = |number: usize| number < plan.live || number >= plan.units;
        let word = |index: usize| (0..32).map(|bit| u32::from(is_taken(index * 32 + bit)) << bit).sum();
        let live: Vec<u32> = (0..words).map(word).collect();
        let (bases, live) = (device.from_slice(&bases)?, device.from_slice(&live)?);
        let (retired, faults) = (device.zeroed(words)?, device.zeroed(1)?);
        Ok(Self { device, slabs, bases, live, retired, faults, units: plan.units as u32 })
    }

    fn pool<P: Pool>(&self) -> P {
        let (live, retired, faults) = (self.live.pointer(), self.retired.pointer(), self.faults.pointer());
        let last = self.slabs.pointer().wrapping_byte_add((self.units as usize - 1) / 32 * 32 * P::BYTES);
        let first = if P::CONTIGUOUS { self.slabs.pointer() } else { last };
        let supers = Supers { first, joined: 1, table: self.bases.pointer() };
        // SAFETY: the memory has the right sizes and outlives every launch here; super blocks have 2^5 slabs.
        unsafe { P::from_parts(Bitmaps::new(live, retired, faults, self.units), supers, 5) }
    }
}

/// Buffers of a launch.
struct Told {
    script: Buffer<u8>,
    held: Buffer<u32>,
    retired: Buffer<u32>,
}

impl Told {
    fn new(device: &Device, plan: &Plan, script: &[u8]) -> gpu::Result<Self> {
        let none = Handle::NONE.to_word().to_ne_bytes()[0];
        Ok(Self {
            script: device.from_slice(script)?,
            held: device.filled(script.len() / plan.rounds, none)?,
            retired: device.filled(script.len(), none)?,
        })
    }

    fn script(&self, plan: &Plan, counts: &Buffer<u32>, first: usize) -> Script {
        Script {
            script: self.script.global(),
            rounds: plan.rounds,
            held: self.held.global(),
            retired: self.retired.global(),
            counts: counts.global(),
            first: first as u32,
        }
    }
}

/// Allocates and frees the last free slab of a pool, by one lane, with many seeds.
#[derive(Clone, Copy)]
struct FindLast<P> {
    pool: P,
    missed: GlobalSlice<u32>,
}

impl<P: Pool> Kernel for FindLast<P> {
    const PROGRAM: &'static str = "slab_explore";
    const NAME: &'static str = "find_last";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        for seed in 0..200 {
            match self.pool.allocate(seed) {
                Some(slab) => self.pool.free(slab),
                None => self.missed.write(0, self.missed.read(0) + 1),
            }
        }
    }
}

/// Returns how many of 200 searches for the only free slab of a pool of `units` slabs fail.
pub fn searches_without_result<P: Pool>(units: usize) -> u32 {
    let plan = Plan { units, live: units - 1, batch: 0, rounds: 1, frees: true, scripts: Vec::new() };
    let world = World::new::<P>(Options::explore(schedule(0)), &plan).expect("memory");
    let missed = world.device.zeroed::<u32>(1).expect("memory");
    let find = FindLast { pool: world.pool::<P>(), missed: missed.global() };
    let emulator = world.device.emulator_handle().expect("an emulator");
    emulator.launch_all(vec![Launch::new(Grid::new(1, 1), find)]).expect("nothing else runs");
    missed.read().expect("memory")[0]
}

fn schedule(seed: u64) -> Schedule {
    match seed % 3 {
        0 => Schedule::Random { seed },
        1 => Schedule::Pct { seed, depth: 3 },
        _ => Schedule::Pct { seed, depth: 10 },
    }
}

/// Runs the plan of a seed and checks its results.
pub fn explore<P: Pool + Instance, A: Ways<P>>(seed: u64) -> Result<Played, Finding> {
    let plan = Plan::new(seed, A::LANES);
    let options = Options { stale_l1: true, step_limit: 1 << 20, ..Options::explore(schedule(seed)) };
    let world = World::new::<P>(options, &plan).expect("memory");
    let (pool, device) = (world.pool::<P>(), &world.device);
    let counts = device.zeroed::<u32>(4).expect("memory");
    let batch: Vec<u32> = (0..plan.batch as u32).map(|number| pool.handle(number).to_word()).collect();
    let batch = device.from_slice(&batch).expect("memory");
    let told: Vec<_> =
        plan.scripts.iter().map(|script| Told::new(device, &plan, script).expect("memory")).collect();
    let launch = |(part, told): (usize, &Told)| {
        let script = told.script(&plan, &counts, part * A::LANES as usize);
        Launch::new(Grid::new(1, A::LANES), Play::<P, A> { pool, script, by: PhantomData })
    };
    let mut launches: Vec<_> = told.iter().enumerate().map(launch).collect();
    if plan.batch > 0 {
        launches
            .push(Launch::new(Grid::for_items(plan.batch, 64), SlabFree { pool, handles: batch.global() }));
    }
    let emulator = device.emulator_handle().expect("an emulator");
    emulator.launch_all(launches).map_err(Finding::Machine)?;
    judge::<P, A>(&plan, &world, &told, &counts.read().expect("memory"))
}

/// Compares the results of the lanes with the bitmaps.
fn judge<P: Pool, A: Ways<P>>(
    plan: &Plan,
    world: &World,
    told: &[Told],
    counts: &[u32],
) -> Result<Played, Finding> {
    let numbers = |words: Vec<u32>| -> HashSet<u32> {
        let handles = words.into_iter().filter_map(|word| Handle::from_word(word).some());
        handles.map(|handle| world.pool::<P>().number(handle).expect("a slab of the pool")).collect()
    };
    let all =
        |of: fn(&Told) -> &Buffer<u32>| told.iter().flat_map(move |told| of(told).read().expect("memory"));
    let retired = numbers(all(|told| &told.retired).collect());
    let mut owned = numbers(all(|told| &told.held).collect());
    owned.extend(retired.iter().chain(&(plan.batch as u32..plan.live as u32).collect::<HashSet<_>>()));
    let set = |bitmap: &Buffer<u32>| -> HashSet<u32> {
        let words = bitmap.read().expect("memory");
        (0..world.units).filter(|number| words[*number as usize / 32] >> (number % 32) & 1 != 0).collect()
    };
    let live = set(&world.live);
    let (lost, stolen) = (live.difference(&owned).count(), owned.difference(&live).count());
    let [given, refused, freed, shared] = counts[..] else { unreachable!("four counts") };
    if shared > 0 {
        return Err(Finding::Shared(shared));
    }
    if lost + stolen > 0 {
        return Err(Finding::Bitmap { lost, stolen });
    }
    if set(&world.retired) != retired {
        return Err(Finding::Retired);
    }
    let room = plan.spare(A::LANES, retired.len());
    if refused > 0 && (room > 0 || !plan.frees && live.len() < plan.units) {
        return Err(Finding::Refused(refused));
    }
    Ok(Played { given, refused, freed, retired: retired.len() })
}
