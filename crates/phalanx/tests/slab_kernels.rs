//! A user's kernels that operate on a pool (`device-crate`), on the emulator and, if available, on CUDA.
mod common;

use gpu::{Device, Grid};
use phalanx::slab_alloc::{Handle, Light, Pool, SlabAlloc, Spread, Stats};
use phalanx_test_kernels::slabs::{
    AFTER_ALLOCATE, Alone, BEFORE_FREE, CheckStamps, Churn, Crew, Stamp, Tiles,
};
use simt::emulator::{Failure, FailureKind, Options, Schedule};
use simt::{Independent, Instance, Lockstep};

const BOTH: u32 = BEFORE_FREE | AFTER_ALLOCATE;

fn pool<P: Pool>(device: &Device, super_block: usize, capacity: usize) -> SlabAlloc {
    let builder = SlabAlloc::builder().device(device).light(P::CONTIGUOUS).slab_bytes(P::BYTES);
    builder.super_block_slabs(super_block).capacity(capacity).build().unwrap()
}

/// Launches the checking kernel and returns the number of wrong words.
fn wrong_words<P: Pool + Instance>(pool: &SlabAlloc, handles: &[Handle], blank: bool) -> u32 {
    let words: Vec<u32> = handles.iter().map(|handle| handle.to_word()).collect();
    let device = pool.device();
    let (words, wrong) = (device.from_slice(&words).unwrap(), device.zeroed::<u32>(1).unwrap());
    // SAFETY: the buffers and the pool outlive the kernel, which has ended when its count is read.
    unsafe {
        let (pool, handles, wrong) = (pool.view::<P>().unwrap(), words.global(), wrong.global());
        let launch = CheckStamps { pool, handles, blank: blank.into(), wrong };
        device.default_stream().launch(Grid::for_items(handles.len(), 64), launch).unwrap();
    }
    wrong.read().unwrap()[0]
}

fn stamp<P: Pool + Instance>(pool: &SlabAlloc, handles: &[Handle]) {
    let words: Vec<u32> = handles.iter().map(|handle| handle.to_word()).collect();
    let words = pool.device().from_slice(&words).unwrap();
    // SAFETY: the buffer and the pool outlive the kernel, because dropping the buffer waits for it.
    unsafe {
        let launch = Stamp { pool: pool.view::<P>().unwrap(), handles: words.global() };
        pool.device().default_stream().launch(Grid::for_items(handles.len(), 64), launch).unwrap();
    }
}

fn keeps_contents<P: Pool + Instance>(device: &Device) {
    let mut pool = pool::<P>(device, 128, 200);
    let old = pool.allocate(256).unwrap();
    assert_eq!((old.len(), wrong_words::<P>(&pool, &old, true)), (256, 0));
    stamp::<P>(&pool, &old);
    assert_eq!(wrong_words::<P>(&pool, &old, false), 0);
    assert!(wrong_words::<P>(&pool, &old, true) >= 256, "stamps are not blank");
    pool.grow(400).unwrap();
    let new = pool.allocate(1000).unwrap();
    assert_eq!((pool.capacity(), new.len()), (768, 512));
    assert_eq!((wrong_words::<P>(&pool, &old, false), wrong_words::<P>(&pool, &new, true)), (0, 0));
    stamp::<P>(&pool, &new);
    assert_eq!(wrong_words::<P>(&pool, &[old, new].concat(), false), 0);
}

/// When the pool grows, slabs keep their contents, handles remain valid, and new slabs are blank.
fn growth_keeps_contents(device: &Device) {
    keeps_contents::<Spread<128>>(device);
    keeps_contents::<Spread<256>>(device);
    keeps_contents::<Light<128>>(device);
    keeps_contents::<Light<256>>(device);
}

/// Launches `churn` on a new pool. Returns the numbers of allocated slabs and of wrong words.
fn churn<M: Crew>(
    device: &Device,
    grid: Grid,
    slabs: usize,
    rounds: u32,
    fences: u32,
) -> Result<[u32; 2], Box<Failure>>
where
    M::Pool: Instance,
{
    let pool = pool::<M::Pool>(device, 32, slabs);
    let counts = device.zeroed::<u32>(2).unwrap();
    // SAFETY: the buffer and the pool outlive the kernel, which has ended when its counts are read.
    let launched = unsafe {
        let pool = pool.view::<M::Pool>().unwrap();
        let launch = Churn::<M> { pool, rounds, fences, counts: counts.global() };
        device.default_stream().launch(grid, launch)
    };
    match launched {
        Err(gpu::Error::Emulator { failure, .. }) => return Err(failure),
        other => other.unwrap(),
    }
    let counts = counts.read().unwrap();
    let capacity = pool.capacity();
    assert_eq!(pool.stats().unwrap(), Stats { capacity, free: capacity, ..Stats::default() });
    pool.close().unwrap();
    Ok([counts[0], counts[1]])
}

fn churns<M: Crew>(device: &Device)
where
    M::Pool: Instance,
{
    let (blocks, rounds) = if device.is_emulator() { (4, 20) } else { (256, 200) };
    let [had, wrong] = churn::<M>(device, Grid::new(blocks, 128), 1024, rounds, BOTH).unwrap();
    println!("{}: {had} slabs", M::NAME);
    assert!(had > blocks * rounds && wrong == 0, "{}: {had} slabs, {wrong} wrong words", M::NAME);
}

/// Many more lanes than slabs, on a device that runs the lanes concurrently.
fn slabs_go_from_lane_to_lane(device: &Device) {
    churns::<Alone<Spread<128>>>(device);
    churns::<Tiles<Light<256>, 1, Lockstep>>(device);
    churns::<Tiles<Spread<128>, 4, Lockstep>>(device);
    churns::<Tiles<Light<256>, 8, Independent>>(device);
    churns::<Tiles<Light<256>, 32, Lockstep>>(device);
    churns::<Tiles<Spread<128>, 32, Independent>>(device);
}

/// Explores one schedule of lanes that reuse each other's slabs.
fn explored<M: Crew>(seed: u64, fences: u32) -> Result<[u32; 2], Box<Failure>>
where
    M::Pool: Instance,
{
    let schedule =
        if seed.is_multiple_of(2) { Schedule::Random { seed } } else { Schedule::Pct { seed, depth: 5 } };
    let device = Device::emulator(Options { stale_l1: true, ..Options::explore(schedule) });
    churn::<M>(&device, Grid::new(2, 4), 32, 12, fences)
}

/// With both fences, weak accesses to reused slabs never race; without one of them they do.
fn fences_order<M: Crew>()
where
    M::Pool: Instance,
{
    let mut had = 0;
    for seed in common::all_seeds(40) {
        let [slabs, wrong] =
            explored::<M>(seed, BOTH).unwrap_or_else(|failure| panic!("{failure}\n{}", common::replay(seed)));
        assert_eq!(wrong, 0, "{}", common::replay(seed));
        had += slabs;
    }
    assert!(had > 40 * 32, "{had} slabs: none went from lane to lane");
    for fences in [BEFORE_FREE, AFTER_ALLOCATE] {
        let raced = (0..200).find_map(|seed| explored::<M>(seed, fences).err());
        let failure = raced.expect("a race within 200 seeds");
        assert!(matches!(failure.kind, FailureKind::DataRace { .. }), "{failure}");
    }
}

#[test]
fn the_two_fences_are_what_it_takes() {
    fences_order::<Alone<Spread<128>>>();
    fences_order::<Tiles<Light<256>, 1, Lockstep>>();
    fences_order::<Tiles<Spread<128>, 4, Lockstep>>();
}

macro_rules! suite {
    ($device:ident: $($case:ident)*) => {
        mod $device {
            $(
                #[test]
                fn $case() {
                    if let Some(device) = crate::$device() {
                        crate::$case(&device);
                    }
                }
            )*
        }
    };
}

suite!(emulator: growth_keeps_contents slabs_go_from_lane_to_lane);
#[cfg(feature = "cuda")]
suite!(cuda: growth_keeps_contents slabs_go_from_lane_to_lane);

fn emulator() -> Option<Device> {
    common::emulator()
}

/// Returns the CUDA device with the kernels added.
#[cfg(feature = "cuda")]
fn cuda() -> Option<Device> {
    common::cuda_with_test_kernels()
}
