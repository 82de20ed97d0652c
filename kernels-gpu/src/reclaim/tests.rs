//! Cells that refer to slabs: a writer puts a new slab into a cell and retires the old one; a reader follows
//! a cell and reads the slab word by word.
use super::epochs::{Announcement, BAGS};
use super::kernels::DrainSlabs;
use super::{Blocks, ENTRIES, Epochs, Group, Participant, Slabs, Tiles, epoch_words};
use crate::slab::{Bitmaps, Handle, Light, Pool};
use simt::emulator::{Detect, Emulator, FailureKind, Fault, Launch, Options, Schedule, SiteId, WeakMemory};
use simt::{Global, GlobalSlice, Grid, Kernel, Order, Scope, Thread, Tile, fence};
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::slice;

const UNITS: u32 = 48;
const CELLS: usize = 2;
const PLACES: u32 = 40;
const LANES: u32 = 32;
type Slots = Light<128>;

/// Finds a site of the participants.
fn site(function: &str, text: &str) -> SiteId {
    SiteId::find("src/reclaim/participant.rs", function, text).unwrap()
}

/// Makes participants try to advance the epoch at each entry.
fn eager() -> Fault {
    Fault::replace(site("announce", "entry.set(LATE"), |_, _| 0)
}

struct Play<G> {
    pool: Slots,
    epochs: Epochs,
    cells: GlobalSlice<u32>,
    rounds: u32,
    writes: bool,
    wrong: GlobalSlice<u32>,
    of: PhantomData<fn() -> G>,
}

impl<G> Clone for Play<G> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<G> Copy for Play<G> {}

/// Replaces the slab of a cell by a new one, all of whose words are its handle.
fn replace<G: Group>(pool: Slots, process: Participant<G, Slabs<Slots>>, cell: Global<u32>, seed: u32) {
    let Some(handle) = pool.allocate(seed) else { return };
    fence(Scope::Device);
    for word in 0..16 {
        // SAFETY: a word of the slab.
        let place = unsafe { pool.slab(handle).offset(word) };
        place.store(handle.to_word() as u64, Order::Relaxed, Scope::Device);
    }
    let old = cell.exchange(handle.to_word(), Order::AcqRel, Scope::Device);
    // SAFETY: unlinked by this lane alone, inside an epoch.
    unsafe { process.retire(old) };
}

impl<G: Group> Play<G> {
    fn read_cell(self, cell: Global<u32>) {
        let handle = cell.load(Order::Acquire, Scope::Device);
        for word in 0..16 {
            // SAFETY: a word of a slab, live or not: the test checks that it is live.
            let place = unsafe { self.pool.slab(Handle::from_word(handle)).offset(word) };
            if place.load(Order::Relaxed, Scope::Device) != handle as u64 {
                self.wrong.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
            }
        }
    }
}

impl<G: Group> Kernel for Play<G> {
    const PROGRAM: &'static str = "reclaim";
    const NAME: &'static str = "play";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        // SAFETY: all retired items are slabs of the pool.
        let process = unsafe { Participant::<G, _>::open(self.epochs, Slabs(self.pool)) };
        for round in 0..self.rounds {
            process.enter();
            let cell = self.cells.at((Thread::lane() + round) as usize % CELLS);
            if Thread::lane().is_multiple_of(8) {
                if self.writes {
                    replace(self.pool, process, cell, Thread::index() as u32 * 977 + round);
                } else {
                    self.read_cell(cell);
                }
            }
            Tile::<32>::lockstep().sync();
            process.leave();
        }
        process.close();
    }
}

/// Allocates memory whose bytes have a value.
fn filled(device: &Emulator, bytes: usize, byte: u8) -> *mut u8 {
    let pointer = device.allocate(bytes, 256);
    // SAFETY: just allocated with this size.
    unsafe {
        pointer.write_bytes(byte, bytes);
        device.mark_initialized(pointer, bytes);
    }
    pointer
}

/// A device with a pool, cells that refer to the first slabs of the pool, and epochs.
struct World {
    device: Rc<Emulator>,
    pool: Slots,
    epochs: Epochs,
    epoch_words: *mut u64,
    live: *mut u32,
    retired: *mut u32,
    cells: GlobalSlice<u32>,
    wrong: GlobalSlice<u32>,
}

impl World {
    fn new(options: Options, room: u32) -> Self {
        Self::on(Rc::new(Emulator::new(options)), PLACES, room)
    }

    /// Creates a device whose participants try to advance the epoch at each entry.
    fn eager(room: u32) -> Self {
        Self::with(vec![eager()], room)
    }

    /// Creates a device with faults, whose lanes run in one random order.
    fn with(faults: Vec<Fault>, room: u32) -> Self {
        let schedule = Schedule::Random { seed: 0 };
        Self::new(Options { detect: Detect::CHEAP, faults, ..Options::explore(schedule) }, room)
    }

    fn on(device: Rc<Emulator>, places: u32, room: u32) -> Self {
        let zeroed = |bytes, byte| filled(&device, bytes, byte);
        let words = Bitmaps::words_for(UNITS as usize);
        let (live, retired): (*mut u32, *mut u32) =
            (zeroed(4 * words, 0xff).cast(), zeroed(4 * words, 0).cast());
        let slabs: *mut u64 = zeroed(UNITS as usize * 128, 0xff).cast();
        let (cells, wrong) = (zeroed(4 * CELLS, 0).cast::<u32>(), zeroed(4, 0).cast());
        // SAFETY: memory of these sizes, which lives as long as the device; the first slabs are live and
        // contain their handles.
        unsafe {
            for unit in CELLS as u32..UNITS {
                *live.add(unit as usize / 32) &= !(1 << (unit % 32));
            }
            for cell in 0..CELLS {
                cells.add(cell).write(cell as u32);
                (0..16).for_each(|word| slabs.add(16 * cell + word).write(cell as u64));
            }
            let pool = Light::new(Bitmaps::new(live, retired, zeroed(8, 0).cast(), UNITS), slabs);
            let epoch_words = zeroed(8 * epoch_words(places, room), 0).cast();
            let epochs = Epochs::new(epoch_words, places, room);
            let (cells, wrong) =
                (GlobalSlice::from_raw_parts(cells, CELLS), GlobalSlice::from_raw_parts(wrong, 1));
            Self { device, pool, epochs, epoch_words, live, retired, cells, wrong }
        }
    }

    fn play<G: Group>(&self, rounds: u32, writes: bool) -> Launch {
        self.play_by::<G>(LANES, rounds, writes)
    }

    fn play_by<G: Group>(&self, lanes: u32, rounds: u32, writes: bool) -> Launch {
        let Self { pool, epochs, cells, wrong, .. } = *self;
        let play = Play::<G> { pool, epochs, cells, rounds, writes, wrong, of: PhantomData };
        Launch::new(Grid::new(1, lanes), play)
    }

    /// Returns the number of live slabs.
    fn count(&self) -> u32 {
        // SAFETY: words of the bitmap, while nothing runs; the bits beyond the pool's slabs are set.
        let words = (0..UNITS.div_ceil(32)).map(|word| unsafe { self.live.add(word as usize).read() });
        words.map(u32::count_ones).sum::<u32>() - (UNITS.next_multiple_of(32) - UNITS)
    }

    /// Returns the epoch.
    fn epoch(&self) -> u64 {
        // SAFETY: nothing runs.
        unsafe { self.epoch_words.read() }
    }

    /// Returns the number of wrong reads.
    fn wrong(&self) -> u32 {
        // SAFETY: nothing runs.
        unsafe { self.wrong.at(0).as_ptr().read() }
    }

    /// Returns the number of slabs in each bag of each participant slot.
    fn bags(&self) -> Vec<[u32; BAGS as usize]> {
        let word = |place: u32, bag: usize| self.epochs.kept(place, 2 + bag).as_ptr();
        // SAFETY: nothing runs.
        let bags = |place| std::array::from_fn(|bag| unsafe { word(place, bag).read() });
        (0..self.epochs.places()).map(bags).collect()
    }

    /// Returns the number of slabs in bags.
    fn kept(&self) -> u32 {
        self.bags().concat().into_iter().sum()
    }

    /// Returns the number of items that were retired, that were freed, and that were deferred.
    fn counters(&self) -> [u64; 3] {
        // SAFETY: nothing runs.
        [1, 2, 3].map(|counter| unsafe { self.epoch_words.add(counter).read() })
    }

    /// Returns whether all words of all slabs that are not live are blank.
    fn free_slabs_are_blank(&self) -> bool {
        // SAFETY: words of the bitmap; nothing runs.
        let live = |slab: u32| unsafe { self.live.add(slab as usize / 32).read() } >> (slab % 32) & 1 != 0;
        // SAFETY: words of the slab; nothing runs.
        let word = |slab, word| unsafe { self.pool.slab(slab).offset(word).as_ptr().read() };
        let is_blank = |slab| (0..16).all(|index| word(Handle::from_word(slab), index) == u64::MAX);
        (0..UNITS).filter(|&slab| !live(slab)).all(is_blank)
    }

    /// Returns the number of slabs that did not fit into a bag.
    fn deferred(&self) -> u32 {
        // SAFETY: nothing runs.
        (0..UNITS.div_ceil(32))
            .map(|word| unsafe { self.retired.add(word as usize).read() }.count_ones())
            .sum()
    }
}

/// The failure of a reader whose slab was freed, and maybe allocated again.
const REUSED: &str = "a reader's slab was reused";

/// Runs two writers and a reader of `lanes` lanes each under the schedule of a seed, with faults. Returns the
/// failure, if any.
fn explored<G: Group>(seed: u64, lanes: u32, room: u32, faults: &[Fault]) -> Result<u32, String> {
    let schedule = match seed % 3 {
        0 if lanes > 1 => Schedule::Random { seed },
        0 => Schedule::Pct { seed, depth: 2 },
        1 => Schedule::Pct { seed, depth: 3 },
        _ => Schedule::Pct { seed, depth: 8 },
    };
    let options = Options { stale_l1: true, step_limit: 1 << 19, ..Options::explore(schedule) };
    let weak_memory = if lanes > 1 { options.weak_memory } else { WeakMemory::Ptx };
    let options = Options { faults: faults.to_vec(), weak_memory, ..options };
    let places = if lanes > 1 { PLACES } else { 3 };
    let world = World::on(Rc::new(Emulator::new(options)), places, room);
    let launches = [true, true, false].map(|writes| world.play_by::<G>(lanes, 8, writes)).into();
    world.device.launch_all(launches).map_err(|failure| match failure.kind {
        FailureKind::UseAfterReclaim { .. } => REUSED.to_owned(),
        _ => failure.to_string(),
    })?;
    if world.wrong() > 0 {
        return Err(REUSED.to_owned());
    }
    assert_eq!(world.count(), CELLS as u32 + world.kept() + world.deferred(), "seed {seed}: nothing is lost");
    Ok(world.count())
}

#[test]
fn nothing_is_freed_that_somebody_can_reach_and_nothing_is_lost() {
    let (mut least, eager) = (UNITS, [eager()]);
    for seed in 0..60 {
        let live = explored::<Blocks>(seed, LANES, 4, &eager);
        least = least.min(live.unwrap_or_else(|failure| panic!("{seed}: {failure}")));
        explored::<Tiles<8, 4>>(seed, LANES, 2, &eager)
            .unwrap_or_else(|failure| panic!("{seed}, tiles: {failure}"));
        explored::<Blocks>(seed, LANES, 0, &[]).unwrap_or_else(|failure| panic!("{seed}, seldom: {failure}"));
    }
    for seed in 0..2000 {
        explored::<Blocks>(seed, 1, 2, &eager)
            .unwrap_or_else(|failure| panic!("{seed}, one lane: {failure}"));
    }
    assert!(least < 40, "48 slabs are put in, and kernels have freed some: {least} are live at least");
    assert!(eager[0].effects() > 0);
}

/// Action of a participant in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Enters, and reads the slab of the first cell weakly.
    EnterAndRead,
    /// Reads that slab once more, and leaves.
    ReadAndLeave,
    /// Enters, replaces the slab, and leaves.
    Replace,
    /// Enters, and leaves.
    Pass,
}

/// Participants that take turns. The word with the number of the turn orders nothing else.
#[derive(Clone, Copy)]
struct TakeTurns<G> {
    pool: Slots,
    epochs: Epochs,
    cells: GlobalSlice<u32>,
    turn: Global<u32>,
    actions: [Option<Action>; TURNS],
    of: PhantomData<fn() -> G>,
}

const TURNS: usize = 13;

impl<G: Group> TakeTurns<G> {
    fn wait_for(self, turn: usize) {
        while self.turn.load(Order::Relaxed, Scope::Device) != turn as u32 {
            simt::spin_hint();
        }
    }

    fn act(self, process: Participant<G, Slabs<Slots>>, action: Action) {
        let (cell, is_first) = (self.cells.at(0), G::rank() == 0);
        if action != Action::ReadAndLeave {
            process.enter();
        }
        match action {
            Action::Replace if is_first => replace(self.pool, process, cell, 1),
            Action::EnterAndRead | Action::ReadAndLeave if is_first => {
                // SAFETY: the first word of the slab that was in the cell at first.
                let place = unsafe { self.pool.slab(Handle::from_word(0)) };
                place.load(Order::Weak, Scope::Device);
            }
            _ => {}
        }
        if action != Action::EnterAndRead {
            process.leave();
        }
    }
}

impl<G: Group> Kernel for TakeTurns<G> {
    const PROGRAM: &'static str = "reclaim";
    const NAME: &'static str = "take_turns";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        // SAFETY: all retired items are slabs of the pool.
        let process = unsafe { Participant::<G, _>::open(self.epochs, Slabs(self.pool)) };
        for (turn, action) in self.actions.into_iter().enumerate() {
            let Some(action) = action else { continue };
            self.wait_for(turn);
            self.act(process, action);
            G::sync();
            if G::rank() == 0 {
                self.turn.store(turn as u32 + 1, Order::Relaxed, Scope::Device);
            }
        }
        // To close would release as well.
        self.wait_for(TURNS);
        process.close();
    }
}

/// A reader holds a slab that the writer retires, and leaves. Three other participants then begin an epoch
/// each. The writer, which looks at no announcements in its third entry, frees the slab, and clears it.
/// Reports the first race.
fn relayed<G: Group>(lanes: u32, seed: u64, faults: &[Fault]) -> Result<(), String> {
    use Action::{EnterAndRead, Pass, ReadAndLeave, Replace};
    let schedule = Schedule::Random { seed };
    let options = Options { faults: faults.to_vec(), step_limit: 1 << 19, ..Options::explore(schedule) };
    let world = World::on(Rc::new(Emulator::new(options)), 5, 4);
    // SAFETY: a word of the device that nothing else uses.
    let turn = unsafe { Global::new(filled(&world.device, 4, 0).cast()) };
    let roles: [&[(usize, Action)]; 5] = [
        &[(2, Replace), (4, Pass), (12, Pass)],
        &[(1, EnterAndRead), (5, ReadAndLeave)],
        &[(0, Pass), (3, Pass), (6, Pass), (7, Pass)],
        &[(8, Pass), (9, Pass)],
        &[(10, Pass), (11, Pass)],
    ];
    let World { pool, epochs, cells, .. } = world;
    let launches = roles.map(|role| {
        let mut actions = [None; TURNS];
        role.iter().for_each(|&(turn, action)| actions[turn] = Some(action));
        let run = TakeTurns::<G> { pool, epochs, cells, turn, actions, of: PhantomData };
        Launch::new(Grid::new(1, lanes), run)
    });
    world.device.launch_all(launches.into()).map_err(|failure| failure.to_string())?;
    assert_eq!((world.epoch(), world.count()), (4, CELLS as u32), "the slab was freed");
    Ok(())
}

#[test]
fn reads_inside_an_epoch_happen_before_their_slab_is_cleared() {
    for seed in 0..40 {
        for lanes in [1, 8, 32] {
            relayed::<Blocks>(lanes, seed, &[]).unwrap_or_else(|failure| panic!("{seed}: {failure}"));
        }
        relayed::<Tiles<8, 4>>(8, seed, &[]).unwrap_or_else(|failure| panic!("{seed}: {failure}"));
    }
}

/// Requires that runs of the relay with a fault report a race.
fn is_found_as_race(lanes: u32, fault: &Fault) {
    let found = (0..40).find_map(|seed| relayed::<Blocks>(lanes, seed, slice::from_ref(fault)).err());
    let failure = found.expect("the fault is found");
    assert!(failure.contains("race"), "{failure}");
}

/// A participant leaves without releasing its reads.
#[test]
fn a_withdrawal_that_releases_nothing_is_found() {
    let leave = SiteId::find("src/reclaim/tests.rs", "act", "process.leave()").unwrap();
    is_found_as_race(1, &Fault::order(leave, Order::Relaxed));
}

/// A participant that begins an epoch does not acquire what others released.
#[test]
fn an_epoch_that_acquires_nothing_is_found() {
    is_found_as_race(1, &Fault::skip(site("try_advance", "fence(Scope::Device)")));
    is_found_as_race(8, &Fault::skip(site("try_advance", "fence(Scope::Device)")));
}

/// The first lane of a participant begins an epoch without releasing what its other lanes acquired.
#[test]
fn an_epoch_that_releases_nothing_is_found() {
    is_found_as_race(8, &Fault::order(site("try_advance", "self.epochs.advance(epoch)"), Order::Relaxed));
}

/// The epoch advances whatever its participants have announced.
#[test]
fn an_epoch_that_ends_too_early_is_found() {
    let faults = [eager(), Fault::skip(site("try_advance", "entry.add(LATE"))];
    let is_found = |seed| explored::<Blocks>(seed, 1, 2, &faults).is_err_and(|failure| failure == REUSED);
    let found = (0..200).find(|&seed| is_found(seed)).expect("the fault is found");
    assert!(is_found(found), "it replays");
    assert!(faults.iter().all(|fault| fault.effects() > 0));
}

#[test]
fn what_one_kernel_leaves_the_next_ones_free() {
    let world = World::eager(64);
    world.device.launch_all(vec![world.play::<Blocks>(1, true)]).unwrap();
    let left = world.kept();
    assert_eq!((left, world.count()), (4, CELLS as u32 + 4), "a launch of one epoch frees nothing");
    for _ in 0..6 {
        world.device.launch_all(vec![world.play::<Blocks>(1, false)]).unwrap();
    }
    assert_eq!((world.kept(), world.count()), (0, CELLS as u32), "later ones have freed it");
}

#[test]
fn a_lone_participant_reuses_what_it_retires() {
    // 6000 slabs from a pool of 48.
    let world = World::eager(4);
    world.device.launch_all(vec![world.play::<Blocks>(1500, true)]).unwrap();
    assert_eq!(world.deferred(), 0);
    assert_eq!(world.count(), CELLS as u32 + world.kept());
}

/// Retires `many` slabs in one epoch, by one lane.
#[derive(Clone, Copy)]
struct Hoard<G> {
    pool: Slots,
    epochs: Epochs,
    many: u32,
    of: PhantomData<G>,
}

impl<G: Group> Kernel for Hoard<G> {
    const PROGRAM: &'static str = "reclaim";
    const NAME: &'static str = "hoard";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        // SAFETY: all retired items are slabs of the pool.
        let process = unsafe { Participant::<G, _>::open(self.epochs, Slabs(self.pool)) };
        process.enter();
        let retires = if Thread::index() == 0 { self.many } else { 0 };
        for item in 0..retires {
            let slab = self.pool.allocate(item).expect("the pool has room").to_word();
            // SAFETY: no other thread knows the slab.
            unsafe { process.retire(slab) };
        }
        Tile::<32>::lockstep().sync();
        process.leave();
        process.close();
    }
}

/// Retires `many` slabs by one tile. Returns how many of them are in its bag, and how many are deferred to
/// the host.
fn hoarded(world: &World, many: u32) -> (u32, u32) {
    let hoard = Hoard::<Tiles<8, 4>> { pool: world.pool, epochs: world.epochs, many, of: PhantomData };
    world.device.launch_all(vec![Launch::new(Grid::new(1, LANES), hoard)]).unwrap();
    assert_eq!(world.count(), CELLS as u32 + world.kept() + world.deferred(), "nothing is lost");
    (world.kept(), world.deferred())
}

#[test]
fn bags_go_on_in_device_memory_and_what_is_beyond_is_deferred() {
    assert_eq!(hoarded(&World::eager(64), 15), (15, 0));
    assert_eq!(hoarded(&World::eager(64), 30), (30, 0));
    // A bag of capacity 4 takes the first four; the others are deferred.
    assert_eq!(hoarded(&World::eager(4), 30), (4, 26));
    assert_eq!(hoarded(&World::eager(0), 30), (0, 30));
}

#[test]
fn what_is_kept_is_freed_once_whatever_is_put_behind_it() {
    let world = World::eager(64);
    assert_eq!(hoarded(&world, 20), (20, 0));
    assert_eq!(hoarded(&world, 20), (40, 0), "an epoch has begun since, and no more");
    for _ in 0..8 {
        hoarded(&world, 0);
    }
    assert_eq!((world.kept(), world.deferred(), world.count()), (0, 0, CELLS as u32));
}

/// Frees the slabs in all bags by the kernel for hosts. Returns their number.
fn drained(world: &World) -> u32 {
    let count: *mut u64 = filled(&world.device, 8, 0).cast();
    // SAFETY: one word, which lives as long as the device.
    let counts = unsafe { GlobalSlice::from_raw_parts(count, 1) };
    let drain = DrainSlabs::<Slots> { epochs: world.epochs, pool: world.pool, count: counts };
    let grid = Grid::new(PLACES.div_ceil(LANES), LANES);
    world.device.launch_all(vec![Launch::new(grid, drain)]).unwrap();
    // SAFETY: nothing runs.
    unsafe { count.read() as u32 }
}

#[test]
fn the_host_drains_all_bags_of_all_slots() {
    let world = World::eager(4);
    world.device.launch_all(vec![world.play::<Blocks>(2, true), world.play::<Blocks>(2, true)]).unwrap();
    let (kept, deferred) = hoarded(&world, 10);
    let filled = world.bags().into_iter().map(|bags| bags.iter().filter(|&&count| count > 0).count());
    assert!(filled.clone().filter(|&bags| bags > 0).count() > 1, "several slots have items");
    assert!(filled.max() > Some(1), "a slot has items in several bags");
    assert_eq!((kept > 4, deferred > 0), (true, true));
    let [retired, reclaimed, _] = world.counters();

    assert_eq!(drained(&world), kept);
    assert_eq!((world.kept(), world.count()), (0, CELLS as u32 + deferred), "others stay live");
    assert_eq!(world.counters(), [retired, reclaimed + u64::from(kept), u64::from(deferred)]);
    assert!(world.free_slabs_are_blank());
    assert_eq!(drained(&world), 0, "the bags are empty");
    let (kept, _) = hoarded(&world, 3);
    assert_eq!((kept, drained(&world)), (3, 3), "and can be filled again");
}

#[test]
fn launches_of_one_block_end_epochs_too() {
    let world = World::new(Options::default(), 64);
    for launch in 0..60 {
        world.device.launch_all(vec![world.play::<Blocks>(1, true)]).unwrap();
        // Four slabs per launch, an epoch every other launch, four bags of which one is filled.
        assert!(world.count() <= CELLS as u32 + 32, "launch {launch}: {} slabs are live", world.count());
    }
    assert_eq!((world.deferred(), world.count()), (0, CELLS as u32 + world.kept()));
}

/// Number of structures of one block: more than a participant has entries for.
const MANY: usize = ENTRIES + 2;

/// Replaces the slabs of many structures' cells, inside all of them at a time.
#[derive(Clone, Copy)]
struct Many<G> {
    structures: [(Slots, Epochs, GlobalSlice<u32>); MANY],
    rounds: u32,
    /// Whether it opens the structures; otherwise all retired slabs are deferred to the host.
    opens: bool,
    of: PhantomData<G>,
}

impl<G: Group> Kernel for Many<G> {
    const PROGRAM: &'static str = "reclaim";
    const NAME: &'static str = "many";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let processes = self.structures.map(|(pool, epochs, _)| {
            // SAFETY: all retired items are slabs of the pool.
            let process = unsafe { Participant::<G, _>::opened(epochs, Slabs(pool)) };
            if self.opens { process.begun() } else { process }
        });
        for round in 0..self.rounds {
            // Entered in this order and left in it too; the third one twice.
            processes.iter().chain(&processes[2..3]).for_each(|process| process.enter());
            for (process, (pool, _, cells)) in processes.iter().zip(self.structures) {
                if Thread::lane().is_multiple_of(8) {
                    let seed = Thread::index() as u32 * 977 + round;
                    replace(pool, *process, cells.at((Thread::lane() + round) as usize % CELLS), seed);
                }
            }
            Tile::<32>::lockstep().sync();
            processes.iter().chain(&processes[2..3]).for_each(|process| process.leave());
        }
        if self.opens {
            processes.iter().for_each(|process| process.close());
        }
    }
}

/// Runs two blocks inside many structures under the schedule of a seed. Returns the structures.
fn inside_many<G: Group>(seed: u64, opens: bool) -> Vec<World> {
    let schedule = Schedule::Pct { seed, depth: 5 };
    let options = Options { step_limit: 1 << 20, faults: vec![eager()], ..Options::explore(schedule) };
    let device = Rc::new(Emulator::new(options));
    let worlds: Vec<World> = (0..MANY).map(|_| World::on(device.clone(), PLACES, 8)).collect();
    let structures = std::array::from_fn(|at| (worlds[at].pool, worlds[at].epochs, worlds[at].cells));
    let many = Many::<G> { structures, rounds: 4, opens, of: PhantomData };
    let launches = (0..2).map(|_| Launch::new(Grid::new(1, LANES), many)).collect();
    device.launch_all(launches).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    for world in &worlds {
        assert_eq!(
            world.count(),
            CELLS as u32 + world.kept() + world.deferred(),
            "seed {seed}: nothing is lost"
        );
    }
    worlds
}

#[test]
fn a_process_is_inside_many_structures_at_a_time() {
    let mut freed = 0;
    for seed in 0..15 {
        for worlds in [inside_many::<Blocks>(seed, true), inside_many::<Tiles<8, 4>>(seed, true)] {
            for world in &worlds[..ENTRIES] {
                freed += 32 - (world.kept() + world.deferred());
            }
            for world in &worlds[ENTRIES..] {
                assert_eq!((world.kept(), world.deferred()), (0, 32), "they have no place");
            }
        }
    }
    assert!(freed > 0, "structures that have an entry free slabs");
}

#[test]
fn items_retired_in_a_structure_that_is_not_open_are_deferred() {
    for world in inside_many::<Blocks>(0, false) {
        assert_eq!((world.kept(), world.deferred()), (0, 32));
    }
}

#[test]
fn no_epoch_ends_while_a_process_is_inside_without_a_place() {
    let world = World::eager(64);
    let ended = |inside: u32| {
        let before = world.epoch();
        // SAFETY: nothing runs.
        unsafe { world.epochs.placeless().as_ptr().write(inside) };
        for _ in 0..4 {
            world.device.launch_all(vec![world.play::<Blocks>(1, true)]).unwrap();
        }
        world.epoch() - before
    };
    assert_eq!(ended(0), 4);
    assert_eq!(ended(1), 0);
    assert_eq!(ended(0), 4, "it has left");
}

thread_local! {
    /// Whether participants read epoch 0 when they enter: as one does that was delayed between its read of
    /// the epoch and its announcement.
    static READS_EPOCH_0: Cell<bool> = const { Cell::new(false) };
}

/// Items that a participant retires after such a delay must not be freed any earlier. If the participant
/// freed all its bags as soon as it saw that three epochs had begun since, a reader that entered in the
/// second of them could still hold an item.
#[test]
fn a_participant_that_announces_an_old_epoch_frees_nothing_too_early() {
    let old = |_, now| if READS_EPOCH_0.get() { 0 } else { now };
    let delay = Fault::replace(site("announce", "self.epochs.now()"), old);
    let world = World::with(vec![eager(), delay.clone()], 4);
    let pass = |writes| world.device.launch_all(vec![world.play::<Blocks>(1, writes)]).unwrap();
    (0..2).for_each(|_| drop(pass(false)));
    let reader = world.epochs.announcement(1).as_ptr();
    // SAFETY: nothing runs.
    unsafe { reader.write(Announcement::within(2).word()) };
    pass(false);
    assert_eq!(world.epoch(), 3, "a reader is inside epoch 2");
    READS_EPOCH_0.set(true);
    pass(true);
    READS_EPOCH_0.set(false);
    assert!(delay.effects() > 0);
    for _ in 0..8 {
        pass(false);
        assert_eq!((world.epoch(), world.kept()), (3, 4), "the reader may hold the four slabs");
    }
    // SAFETY: nothing runs.
    unsafe { reader.write(Announcement::FREE.word()) };
    (0..4).for_each(|_| drop(pass(false)));
    assert_eq!((world.kept(), world.count()), (0, CELLS as u32), "it has left");
}
