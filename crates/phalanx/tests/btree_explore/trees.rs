//! Memory of a small tree in a pool of few slabs.
use crate::common::Rng;
use crate::world::{Finding, Fixture, HasFixture, counted};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::btree::{
    Config, EMPTY_TREE_NODES, FIRST_LEAF, HEAD, LATEST, RawVersions, Time, TreeView, Versions,
    directory_words,
};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS, Scalar, Slot, Wide};
use phalanx_kernels::ordered::kernels::FreeNodes;
use phalanx_kernels::reclaim::{LOG, epoch_words};
use phalanx_kernels::slab::{Bitmaps, MOST_SUPER_BLOCKS, Pool, Supers};
use simt::emulator::{Launch, Options, Schedule};
use simt::{GlobalSlice, Instance, Kernel, Order, Scope, Thread, Word};
use std::collections::HashMap;

/// Entries of a directory: two levels of keys.
const ENTRIES: u32 = 64;
/// Participant slots for epochs: more than the participants of any plan.
const PLACES: u32 = 40;
/// Capacity of a participant's bag.
const ROOM: u32 = 8;

/// Buffers of a tree.
pub struct Forest {
    slabs: Buffer<u64>,
    bases: Buffer<u64>,
    live: Buffer<u32>,
    retired: Buffer<u32>,
    faults: Buffer<u64>,
    counters: Buffer<u64>,
    directory: Buffer<u64>,
    clock: Buffer<u64>,
    pin: Buffer<u32>,
    epochs: Buffer<u64>,
    units: u32,
}

impl Forest {
    /// Creates a pool of `units` slabs without nodes.
    fn new(device: &Device, slab_bytes: usize, units: u32) -> gpu::Result<Self> {
        let words = Bitmaps::words_for(units as usize);
        let slabs = device.filled::<u64>(units as usize * slab_bytes / 8, 0xff)?;
        let mut bases = vec![0; MOST_SUPER_BLOCKS + 1];
        bases[0] = slabs.pointer().expose_provenance() as u64;
        let mut live = vec![u32::MAX; words];
        (0..units).for_each(|unit| live[unit as usize / 32] &= !(1 << (unit % 32)));
        live[0] |= (1 << EMPTY_TREE_NODES) - 1;
        Ok(Self {
            slabs,
            bases: device.from_slice(&bases)?,
            live: device.from_slice(&live)?,
            retired: device.zeroed(words)?,
            faults: device.zeroed(1)?,
            counters: device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?,
            directory: device.zeroed(directory_words::<Wide<u64, u64>>(ENTRIES))?,
            clock: device.zeroed(1)?,
            pin: device.zeroed(1)?,
            epochs: device.zeroed(epoch_words(PLACES, ROOM))?,
            units,
        })
    }

    /// Fills the directory with entries of a slab that the pool does not have, for key 0: a search that reads
    /// a word that no rebuild has written leaves the pool.
    #[allow(dead_code)] // used by some programs only
    pub fn spoil_directory<M: Config>(&mut self) {
        let slab = <M::Slot as Slot>::pack(Scalar::from_u64(0), Scalar::from_u64(0x7777_7777)).widen();
        let words = [slab as u64, (slab >> 64) as u64];
        let bytes = size_of::<<M::Slot as Slot>::Word>();
        let mut directory = self.directory.read().expect("memory");
        for (place, word) in directory.iter_mut().enumerate().skip(HEAD) {
            *word = words[place % (bytes / 8)];
        }
        self.directory.write(&directory).expect("memory");
    }

    /// Frees all nodes as the host does before it builds another tree, and builds an empty tree.
    #[allow(dead_code)] // used by some programs only
    pub fn free_all_nodes<M: Config + Instance>(&mut self) {
        let (device, mut copy) = self.calm::<M>();
        let (tree, units) = (copy.view::<M>(), copy.units as usize);
        // In exploring mode, so that mutants of the kernel are tested.
        let exploring = Device::emulator(Options::explore(Schedule::Random { seed: 0 }));
        let mut copy_there = Self::new(&exploring, M::Pool::BYTES, self.units).expect("memory");
        copy_there.take(&copy).expect("memory");
        let there = copy_there.view::<M>();
        launch(&exploring, units * M::TILE as usize, move || FreeNodes::<M> { tree: there, first: 0 }.run());
        copy.take(&copy_there).expect("memory");
        assert_eq!(copy.live(), EMPTY_TREE_NODES as u64, "all other slabs are free");
        launch(&device, units.max(COUNTER_SHARDS), move || {
            M::begin(tree, Thread::index() as u64, EMPTY_TREE_NODES as u64, 0);
        });
        build_empty::<M>(&device, &copy);
        self.take(&copy).expect("memory");
    }

    /// Marks all slabs as allocated, except for one.
    #[allow(dead_code)] // used by one program only
    pub fn leave_one_slab(&mut self, unit: usize) {
        let mut live = vec![u32::MAX; Bitmaps::words_for(self.units as usize)];
        live[unit / 32] &= !(1 << (unit % 32));
        self.live.write(&live).expect("memory");
    }

    /// Copies the contents of another forest.
    fn take(&mut self, from: &Self) -> gpu::Result<()> {
        self.slabs.write(&from.slabs.read()?)?;
        self.live.write(&from.live.read()?)?;
        self.directory.write(&from.directory.read()?)?;
        self.clock.write(&from.clock.read()?)?;
        self.epochs.write(&from.epochs.read()?)?;
        self.counters.write(&from.counters.read()?)
    }

    /// Sets the clock as if the host had taken snapshots up to `stamp` and the last one were live.
    #[allow(dead_code)] // used by programs with snapshots
    pub fn set_clock(&mut self, stamp: u64) {
        self.clock.write(&[1 << 32 | stamp]).expect("memory");
    }

    /// Returns the parts for versions.
    fn history(&self) -> RawVersions {
        let Time { stamp: now, pins } = Time::of(self.clock.read().expect("memory")[0]);
        RawVersions {
            clock: self.clock.pointer(),
            now,
            since: if pins > 0 { now } else { 0 },
            at: LATEST,
            pin: self.pin.pointer(),
            epochs: self.epochs.pointer(),
            places: PLACES,
            room: ROOM,
        }
    }

    /// Compares the counters of reclamation: each retired slab was freed, or deferred to the host, or is in a
    /// bag of a participant slot. Returns the number of those that are not free.
    fn check_counters(&self) -> Result<u64, Finding> {
        let words = self.epochs.read().expect("memory");
        let small: &[u32] = bytemuck::cast_slice(&words[4 + LOG * 3..]);
        // The counts of the four bags follow the epoch and the current bag.
        let saved = small[1 + PLACES as usize..].chunks(8).take(PLACES as usize);
        let in_bags: u64 = saved.flat_map(|saved| &saved[2..6]).map(|&count| u64::from(count)).sum();
        let [retired, freed, deferred] = [words[1], words[2], words[3]];
        if retired == freed + deferred + in_bags {
            return Ok(deferred + in_bags);
        }
        let counts = format!("{freed} were freed, {deferred} deferred, and {in_bags} are in bags");
        Err(Finding::Order(format!("{retired} slabs were retired, {counts}")))
    }

    /// Returns the number of live slabs.
    fn live(&self) -> u64 {
        let words = self.live.read().expect("memory");
        (0..self.units).filter(|unit| words[*unit as usize / 32] >> (unit % 32) & 1 != 0).count() as u64
    }

    /// Compares the contents with `before`. Returns whether slabs were added since, whether slabs were
    /// retired, and whether the directory was rebuilt.
    #[allow(dead_code)] // used by some programs only
    pub fn events_since(&self, before: &Self) -> [bool; 3] {
        let read = |words: &Buffer<u64>| words.read().expect("memory");
        let retired = self.retired.read().expect("memory").into_iter().any(|word| word != 0);
        [self.live() > before.live(), retired, read(&self.directory) != read(&before.directory)]
    }

    /// Blanks the header of the second leaf, like one that is not visible yet. Returns its index among the
    /// words of 8 bytes, and the previous header. Requires pairs of 8 bytes, one super block, and no inner
    /// nodes except the root and the nodes of the lowest inner level.
    #[allow(dead_code)] // used by one program only
    pub fn hide_second_leaf<M: Config>(&mut self) -> (usize, u64) {
        let (each, mut words) = (M::Pool::BYTES / 8, self.slabs.read().expect("memory"));
        let header = |node: usize| node * each + each - 2;
        let low = |word: u64| word as u32;
        let is_leaf = |word: u64| (word >> 32) as u8 == 0;
        let leaves = (EMPTY_TREE_NODES..self.units as usize)
            .map(header)
            .filter(|place| is_leaf(words[*place]) && low(words[*place]) > 0);
        let place = leaves.min_by_key(|place| low(words[*place])).expect("two leaves");
        let hidden = std::mem::replace(&mut words[place], u64::MAX);
        self.slabs.write(&words).expect("memory");
        (place, hidden)
    }

    /// Returns the slots of the first leaf, and the index of the first of them among the words of 8 bytes.
    /// Requires pairs of 8 bytes.
    #[allow(dead_code)] // used by one program only
    pub fn first_leaf<M: Config>(&self) -> (Vec<u64>, usize) {
        let (first, words) =
            (FIRST_LEAF.to_word() as usize * M::Pool::BYTES / 8, self.slabs.read().expect("memory"));
        (words[first..first + M::SLOTS as usize].to_vec(), first)
    }

    /// Returns the words of the slabs.
    #[allow(dead_code)] // as above
    pub fn words(&self) -> GlobalSlice<u64> {
        self.slabs.global()
    }

    /// Returns the kernel view.
    pub fn view<M: Config>(&self) -> TreeView<M> {
        let (live, retired, faults) = (self.live.pointer(), self.retired.pointer(), self.faults.pointer());
        let supers = Supers { first: self.slabs.pointer(), joined: 1, table: self.bases.pointer() };
        // SAFETY: the memory has the right sizes and outlives every launch here; a super block has up to 2^10
        // slabs.
        unsafe {
            let pool = M::Pool::from_parts(Bitmaps::new(live, retired, faults, self.units), supers, 10);
            TreeView::new(self.counters.pointer(), pool, self.directory.pointer(), ENTRIES, self.history())
        }
    }

    /// Returns a copy on a device without schedule exploration.
    pub fn calm<M: Config>(&self) -> (Device, Self) {
        let device = Device::emulator(Default::default());
        let mut copy = Self::new(&device, M::Pool::BYTES, self.units).expect("memory");
        copy.take(self).expect("memory");
        (device, copy)
    }
}

/// Executes `run` in `threads` threads.
pub fn launch<F: Fn() + Copy + Send + Sync + 'static>(device: &Device, threads: usize, run: F) {
    #[derive(Clone, Copy)]
    struct Run<F>(F);

    impl<F: Fn() + Copy + Send + Sync + 'static> Kernel for Run<F> {
        const PROGRAM: &'static str = "btree_explore";
        const NAME: &'static str = "run";
        const INSTANCE: Option<&'static str> = None;

        fn run(self) {
            (self.0)();
        }
    }

    let emulator = device.emulator_handle().expect("an emulator");
    let launch = Launch::new(Grid::for_items(threads, 32), Run(run));
    emulator.launch_all(vec![launch]).expect("nothing else runs");
}

/// Builds an empty tree.
fn build_empty<M: Config>(device: &Device, forest: &Forest) {
    let tree = forest.view::<M>();
    launch(device, EMPTY_TREE_NODES * M::TILE as usize, move || {
        let number = Thread::index() / M::TILE as usize;
        if number < EMPTY_TREE_NODES {
            M::build_empty(tree, number as u32);
        }
    });
}

/// Checks the invariants of the tree and returns its pairs.
fn check<M: Config>(forest: &Forest) -> Result<Vec<(u64, u64)>, Finding> {
    let retired = forest.check_counters()?;
    let (device, forest) = forest.calm::<M>();
    let tree = forest.view::<M>();
    let report = device.zeroed::<u64>(9).expect("memory");
    let told = report.global();
    launch(&device, forest.units as usize, move || {
        let found = M::examine(tree, Thread::index() as u32);
        let many = [
            found.nodes, found.children, found.latched, found.misplaced, found.children_wrong,
            found.link_wrong, found.pairs, found.versions, found.undated,
        ];
        for (place, many) in many.into_iter().enumerate() {
            told.at(place).fetch_add(many.into(), Order::Relaxed, Scope::Device);
        }
    });
    let found = report.read().expect("memory");
    if found[0] != found[1] + 2 || found[2..6] != [0; 4] {
        return Err(Finding::Order(format!(
            "the tree is damaged: {} nodes, {} children, {} latched, {} misplaced, {} children wrong, {} \
             links wrong",
            found[0], found[1], found[2], found[3], found[4], found[5]
        )));
    }
    if found[8] != 0 {
        return Err(Finding::Order(format!("the time of {} leaves was never fixed", found[8])));
    }
    let Time { pins, .. } = Time::of(forest.clock.read().expect("memory")[0]);
    if M::Versions::CLOCK_MOVES && pins == 0 && found[7] != retired {
        return Err(Finding::Order(format!("{} old versions exist, and {retired} were retired", found[7])));
    }
    let pairs = contents_of::<M>(&device, tree, found[6] as usize);
    swept::<M>(&device, &forest, found[0])?;
    Ok(pairs)
}

/// Sweeps with no snapshot live: afterwards all live slabs must be nodes.
fn swept<M: Config>(device: &Device, forest: &Forest, nodes: u64) -> Result<(), Finding> {
    let (tree, units) = (forest.view::<M>(), forest.units as usize);
    if !M::Versions::VERSIONED {
        return Ok(());
    }
    let none = device.buffer::<u32>(0).expect("memory");
    let (pins, count) = (none.global(), device.zeroed::<u64>(1).expect("memory"));
    // SAFETY: the pool is only used to count its slabs.
    let (bitmaps, counted) = (unsafe { tree.raw_pool() }.bitmaps(), count.global());
    launch(device, units, move || M::mark_version(tree, Thread::index() as u32));
    launch(device, units, move || M::sweep(tree, Thread::index() as u32, pins));
    launch(device, units, move || M::clear_marked(tree, Thread::index() as u32));
    launch(device, units, move || {
        phalanx_kernels::slab::kernels::SlabReclaim { bitmaps, count: counted }.run();
    });
    let live = forest.live();
    if live == nodes { Ok(()) } else { Err(Finding::Slabs { live: live as usize, reached: nodes as usize }) }
}

fn contents_of<M: Config>(device: &Device, tree: TreeView<M>, count: usize) -> Vec<(u64, u64)> {
    let listed = device.zeroed::<u64>(1 + 2 * count).expect("memory");
    let told = listed.global();
    launch(device, M::scan_threads(tree), move || {
        M::scan(tree, Thread::index(), |place| {
            if let Some(place) = place {
                let index = told.at(0).fetch_add(1, Order::Relaxed, Scope::Device) as usize;
                told.write(1 + 2 * index, place.key.to_u64());
                told.write(2 + 2 * index, place.value.to_u64());
            }
        });
    });
    let words = listed.read().expect("memory");
    assert_eq!(words[0] as usize, count, "a scan and an examination see the same");
    words[1..].chunks(2).map(|pair| (pair[0], pair[1])).collect()
}

impl<M: Config> HasFixture for M {
    type Memory = Forest;

    const REFUSES_CHANGES: bool = M::Versions::VERSIONED;

    /// Generates empty trees, trees of one full leaf, and trees with about as many keys as fill an inner
    /// node, also the root. `buckets` is the number of the pool's slabs.
    fn crowd(rng: &mut Rng) -> Fixture {
        let slots = u64::from(M::SLOTS);
        let (half, under) = (slots / 2, slots * (slots / 2));
        let about = rng.pick(&[0, 1, slots, slots + half, under, under + half, under * half + slots]);
        let fill = about + rng.below(slots);
        // The number of slabs that the keys need, or slightly less or more.
        let needed = EMPTY_TREE_NODES as u64 + fill / half + fill / (half * half);
        let spare = rng.pick(&[0, 1, 2, 3, 40, 40, 40, 40]);
        Fixture { buckets: (needed + spare) as u32, fill, news: rng.pick(&[1, 3, 12, 20]) }
    }

    /// Creates an empty tree in `units` slabs.
    fn memory(device: &Device, units: u32) -> gpu::Result<Forest> {
        let (calm, mut forest) = Forest::new(device, M::Pool::BYTES, units)?.calm::<M>();
        build_empty::<M>(&calm, &forest);
        let planted = std::mem::replace(&mut forest, Forest::new(device, M::Pool::BYTES, units)?);
        forest.take(&planted)?;
        Ok(forest)
    }

    /// Copies the tree. In pools with an even number of slabs it also rebuilds the directory.
    fn copy(to: &mut Forest, from: &Forest) -> gpu::Result<()> {
        let (device, copy) = from.calm::<M>();
        let tree = copy.view::<M>();
        if copy.units.is_multiple_of(2) {
            launch(&device, 32, move || M::rebuild_directory(tree));
        }
        to.take(&copy)
    }

    /// Counts zombies, for nodes with pairs of 8 bytes: nodes of the lowest level whose high key is 0.
    fn merged(memory: &Forest) -> [u64; 2] {
        let (each, words) = (M::Pool::BYTES / 8, memory.slabs.read().expect("memory"));
        let first = FIRST_LEAF.to_word() as usize + 1;
        let is_zombie = |node: usize| {
            let [header, tail] = [2, 1].map(|back| words[node * each + each - back]);
            node >= first && (header >> 32) as u8 == 0 && tail as u32 == 0
        };
        if size_of::<<M::Slot as Slot>::Word>() != 8 {
            return [0; 2];
        }
        let next = |node: usize| (words[node * each + each - 1] >> 32) as usize;
        let zombies = (first..memory.units as usize).filter(|&node| is_zombie(node));
        let follows = |node: usize| u64::from(is_zombie(next(node)));
        zombies.fold([0; 2], |[merged, chained], node| [merged + 1, chained + follows(node)])
    }

    fn view(memory: &Forest, _units: u32) -> TreeView<Self> {
        memory.view()
    }

    /// Returns the pairs of a tree after checking its layout.
    fn contents(memory: &Forest, _units: u32) -> Result<HashMap<u64, u64>, Finding> {
        let pairs = check::<M>(memory)?;
        let mut map = HashMap::new();
        if let Some((key, _)) = pairs.into_iter().find(|&(key, value)| map.insert(key, value).is_some()) {
            return Err(Finding::Twice(key));
        }
        counted(&memory.counters, map.len(), map)
    }
}
