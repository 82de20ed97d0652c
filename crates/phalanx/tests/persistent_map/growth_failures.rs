//! Growth that fails, since memory, a copy or the disk fails: the map and its file have all pairs.
use crate::folder;
use phalanx::persistent_map::{Builder, Durability, FileFault, Storage};
use phalanx::{Device, Error, Outcome, PersistentMap, emulator};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;

type Map = PersistentMap<u64, u64>;

/// Where a map is.
#[derive(Clone, Copy, Debug)]
enum Place {
    Memory,
    File(Storage),
    Mapping,
}

const PLACES: [Place; 4] =
    [Place::Memory, Place::File(Storage::Device), Place::File(Storage::Pinned), Place::Mapping];

/// Number of keys that fill the lowest level and most of the other one: a map has 120 slots, of which 40 are
/// in the lowest level.
const FULL: u64 = 110;

/// Number of keys that stay. All are in the lowest level, so growth moves each of them: to the new level,
/// since insertions prefer the highest one while it has room.
const BEFORE: usize = 36;

fn key(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn keys(range: std::ops::Range<u64>) -> Vec<u64> {
    range.map(key).collect()
}

fn builder(place: Place, device: &Device) -> Builder<u64, u64> {
    let builder = Map::builder().capacity(100).seed(3).device(device);
    match place {
        Place::Memory => builder,
        Place::File(storage) => builder.storage(storage),
        Place::Mapping => builder.durability(Durability::Process),
    }
}

/// Creates a map with keys that are their values, all in an epoch or none. Returns it with the keys.
fn create(place: Place, device: &Device, path: &Path, is_synced: bool) -> (Map, Vec<u64>) {
    let builder = builder(place, device);
    let map = if let Place::Memory = place { builder.build() } else { builder.create(path) }.unwrap();
    assert!(map.insert(&keys(0..FULL), &keys(0..FULL)).unwrap().all_placed());
    // From the lowest level on.
    let (mut keys, _) = map.export().unwrap();
    let removed = keys.split_off(BEFORE);
    assert!(map.remove(&removed).unwrap().iter().all(|&removed| removed) && map.capacity() == 120);
    if is_synced && !matches!(place, Place::Memory) {
        map.sync().unwrap();
    }
    (map, keys)
}

/// Requires that the map has exactly these pairs of keys that are their values.
fn has(map: &Map, expected: &[u64], what: &str) {
    map.check().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found: usize =
        map.get(expected).unwrap().iter().zip(expected).filter(|(a, b)| **a == Some(**b)).count();
    assert_eq!((found, map.len().unwrap()), (expected.len(), expected.len()), "{what}");
}

/// Requires the pairs in the map, and in its file after a sync.
fn survives(map: Map, place: Place, device: &Device, path: &Path, expected: &[u64], what: &str) {
    has(&map, expected, what);
    if let Place::Memory = place {
        return;
    }
    map.sync().unwrap();
    drop(map);
    let map = builder(place, device).open(path).unwrap();
    has(&map, expected, &format!("{what}, opened again"));
}

/// Lets the device fail in one way after `count` successes.
type Inject = fn(&emulator::Emulator, u64);

const INJECTIONS: [(&str, Inject); 2] = [
    ("allocations", |emulator, count| {
        emulator.fail_allocations_after(count);
    }),
    ("copies", |emulator, count| {
        emulator.fail_copy(count);
    }),
];

/// Calls `run` for a device whose first, second, ... allocation or copy fails, until it returns true: nothing
/// has failed.
fn with_each_failure(run: impl Fn(&Device, &dyn Fn(bool), &str) -> bool) {
    for (what, inject) in INJECTIONS {
        let mut count = 0;
        loop {
            let device = Device::emulator(emulator::Options::default());
            let emulator = device.emulator_handle().unwrap().clone();
            let fails = |fails: bool| inject(&emulator, if fails { count } else { u64::MAX });
            if run(&device, &fails, &format!("after {count} {what}")) {
                break;
            }
            count += 1;
        }
        assert!(count >= 5, "only {count} {what}");
    }
}

/// Growth by one level, and by so many that the table has none of the old ones.
#[test]
fn a_failed_growth_changes_nothing() {
    for (place, room) in PLACES.into_iter().flat_map(|place| [(place, 100), (place, 400)]) {
        with_each_failure(|device, fails, what| {
            let (folder, what) = (folder(), format!("{place:?}, {room}, {what}"));
            let path = folder.path().join("map");
            let (map, keys) = create(place, device, &path, true);
            let before = (map.capacity(), map.epoch());
            fails(true);
            let grown = map.reserve(room);
            fails(false);
            match &grown {
                Ok(()) => assert!(map.capacity() > BEFORE + room, "{what}"),
                Err(error) => {
                    assert!(matches!(error, Error::Device(_)), "{what}: {error}");
                    assert_eq!((map.capacity(), map.epoch()), before, "{what}");
                }
            }
            survives(map, place, device, &path, &keys, &what);
            grown.is_ok()
        });
    }
}

#[test]
fn a_map_grows_after_a_failed_growth() {
    for place in PLACES {
        with_each_failure(|device, fails, what| {
            let (folder, what) = (folder(), format!("{place:?}, {what}"));
            let path = folder.path().join("map");
            let (map, mut expected) = create(place, device, &path, false);
            fails(true);
            let grown = map.reserve(100);
            fails(false);
            let new = keys(FULL..500);
            assert!(map.insert(&new, &new).unwrap().all_placed(), "{what}");
            expected.extend(new);
            survives(map, place, device, &path, &expected, &what);
            grown.is_ok()
        });
    }
}

/// The map has the keys whose outcome is `Inserted`, and no others.
#[test]
fn insertions_report_what_they_placed_before_growth_failed() {
    for place in PLACES {
        let mut refused = 0;
        for count in 0..100 {
            let device = Device::emulator(emulator::Options::default());
            let (folder, what) = (folder(), format!("{place:?}, {count}"));
            let path = folder.path().join("map");
            let (map, mut expected) = create(place, &device, &path, true);
            let new = keys(FULL..700);
            // The memory of batches, which do not need more then.
            map.get(&new).unwrap();
            device.emulator_handle().unwrap().fail_allocations_after(count);
            let inserted = map.insert(&new, &new);
            device.emulator_handle().unwrap().fail_allocations_after(u64::MAX);
            match &inserted {
                Err(Error::NoRoom { outcomes, .. }) => {
                    refused += 1;
                    let placed = new.iter().zip(outcomes.iter()).filter(|(_, o)| **o == Outcome::Inserted);
                    expected.extend(placed.map(|(key, _)| key));
                }
                // Batches that lack memory.
                Err(Error::Device(_)) => {
                    let present = map.contains_key(&new).unwrap();
                    expected
                        .extend(new.iter().zip(present).filter(|(_, present)| *present).map(|(key, _)| key));
                }
                inserted => {
                    assert!(inserted.as_ref().unwrap().all_placed());
                    expected.extend(&new);
                }
            }
            survives(map, place, &device, &path, &expected, &what);
            if inserted.is_ok() {
                break;
            }
        }
        assert!(refused >= 5, "{place:?}: {refused}");
    }
}

#[test]
fn too_much_room_is_refused_before_anything_changes() {
    for place in PLACES {
        let (folder, device) = (folder(), Device::emulator(emulator::Options::default()));
        let path = folder.path().join("map");
        let (map, _) = create(place, &device, &path, false);
        let state =
            || (map.stats().unwrap(), map.epoch(), std::fs::metadata(&path).map(|file| file.len()).ok());
        let before = state();
        for keys in [usize::MAX, usize::MAX / 20, 1 << 33] {
            let reserved = map.reserve(keys);
            assert!(matches!(reserved, Err(Error::TooLarge { .. })), "{reserved:?}");
            assert_eq!(state(), before);
        }
    }
}

/// One epoch for all levels.
#[test]
fn room_for_many_keys_is_one_epoch() {
    for place in [Place::File(Storage::Device), Place::Mapping] {
        let (folder, device) = (folder(), Device::emulator(emulator::Options::default()));
        let path = folder.path().join("map");
        let (map, mut expected) = create(place, &device, &path, false);
        map.reserve(5000).unwrap();
        assert!(map.epoch().unwrap().0 == 1 && map.stats().unwrap().lowest_level >= 5);
        let new = keys(FULL..5000);
        assert!(map.insert(&new, &new).unwrap().all_placed());
        assert_eq!(map.epoch().unwrap().0, 1);
        expected.extend(new);
        survives(map, place, &device, &path, &expected, "grown");
    }
}

/// Threads whose keys are refused at the same time grow the map once.
#[test]
fn threads_grow_a_map_no_further_than_needed() {
    for seed in 0..20 {
        let device = Device::emulator(emulator::Options::default());
        let map = Map::builder().capacity(100).seed(seed).device(&device).build().unwrap();
        let (threads, each) = (4, 150);
        let barrier = Barrier::new(threads as usize);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (map, barrier) = (&map, &barrier);
                scope.spawn(move || {
                    let keys = keys(thread * each..(thread + 1) * each);
                    barrier.wait();
                    assert!(map.insert(&keys, &keys).unwrap().all_placed());
                });
            }
        });
        has(&map, &keys(0..threads * each), "threads");
        // Half of the slots were not enough.
        assert!(map.load_factor().unwrap() > 0.4, "seed {seed}: {:?}", map.stats());
    }
}

const CHILD: &str = "PHALANX_TEST_FULL_DISK";

/// Inserts until the disk is full. The parent has limited the size of files.
#[test]
fn child_with_a_full_disk() {
    let Some(folder) = std::env::var_os(CHILD) else { return };
    for place in PLACES.into_iter().skip(1) {
        let device = Device::emulator(emulator::Options::default());
        let path = Path::new(&folder).join(format!("{place:?}"));
        let (map, mut expected) = create(place, &device, &path, true);
        let mut first = FULL;
        let refused = loop {
            let new = keys(first..first + 2000);
            match map.insert(&new, &new) {
                Ok(outcomes) => assert!(outcomes.all_placed()),
                Err(Error::NoRoom { outcomes, .. }) => {
                    let placed = new.iter().zip(outcomes.iter()).filter(|(_, o)| **o == Outcome::Inserted);
                    expected.extend(placed.map(|(key, _)| key));
                    break outcomes.refused();
                }
                Err(error) => panic!("{place:?}: {error}"),
            }
            expected.extend(new);
            first += 2000;
        };
        assert!(refused > 0 && expected.len() > BEFORE, "{place:?}: {refused}");
        let reserved = map.reserve(100_000);
        let is_full = matches!(reserved, Err(Error::PersistentFile { fault: FileFault::Full { .. }, .. }));
        assert!(is_full, "{place:?}: {reserved:?}");
        survives(map, place, &device, &path, &expected, &format!("{place:?}"));
        println!("{place:?} was full with {} keys", expected.len());
    }
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_lack_of_room() {
    let folder = folder();
    // 300 or 600 KB, by the unit of the shell.
    let script = "trap '' XFSZ; ulimit -f 600; exec \"$0\" --exact \"$1\" --nocapture";
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(std::env::current_exe().unwrap());
    command.arg("growth_failures::child_with_a_full_disk").env(CHILD, folder.path());
    let output = command.stdin(Stdio::null()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.matches("was full").count() == 3, "{text}\n{errors}");
}

/// A thread in which one kind of system call fails, from now on.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod refused {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};

    /// Offsets of the number of a system call and of its fourth argument, in what a filter reads.
    const NUMBER: u32 = 0;
    const FOURTH: u32 = 16 + 3 * 8;

    fn step(code: u32, operand: u32, skips_if_not: u8) -> libc::sock_filter {
        libc::sock_filter { code: code as u16, jt: 0, jf: skips_if_not, k: operand }
    }

    fn load(offset: u32) -> libc::sock_filter {
        step(BPF_LD | BPF_W | BPF_ABS, offset, 0)
    }

    fn answer(value: u32) -> libc::sock_filter {
        step(BPF_RET | BPF_K, value, 0)
    }

    /// Lets the calls of this thread fail that sync a file.
    pub fn syncs() {
        let is_sync = step(BPF_JMP | BPF_JEQ | BPF_K, libc::SYS_fdatasync as u32, 1);
        install(vec![load(NUMBER), is_sync, answer(failure()), answer(libc::SECCOMP_RET_ALLOW)]);
    }

    /// Lets the calls of this thread fail that write to this place of a file.
    pub fn writes_to(offset: u32) {
        let is_write = step(BPF_JMP | BPF_JEQ | BPF_K, libc::SYS_pwrite64 as u32, 3);
        let is_there = step(BPF_JMP | BPF_JEQ | BPF_K, offset, 1);
        let allow = answer(libc::SECCOMP_RET_ALLOW);
        install(vec![load(NUMBER), is_write, load(FOURTH), is_there, answer(failure()), allow]);
    }

    fn failure() -> u32 {
        libc::SECCOMP_RET_ERRNO | libc::EIO as u32
    }

    fn install(mut steps: Vec<libc::sock_filter>) {
        let program = libc::sock_fprog { len: steps.len() as u16, filter: steps.as_mut_ptr() };
        // SAFETY: the program has as many steps as it says, and lives during the calls.
        let results = unsafe {
            [
                libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
                libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program),
            ]
        };
        assert_eq!(results, [0, 0], "{}", std::io::Error::last_os_error());
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod uncertain {
    use super::*;

    fn is_uncertain<T>(result: phalanx::Result<T>) -> bool {
        matches!(result, Err(Error::PersistentFile { fault: FileFault::Uncertain, .. }))
    }

    /// Lets the epoch of a growth fail, before the superblock is written or after.
    fn fail_growth(map: &Map, is_written: bool) {
        let capacity = map.capacity();
        let grow = || {
            if is_written {
                refused::writes_to(4096)
            } else {
                refused::syncs()
            }
            map.reserve(100)
        };
        let grown = std::thread::scope(|scope| scope.spawn(grow).join().unwrap());
        let is_io = matches!(grown, Err(Error::PersistentFile { fault: FileFault::Io { .. }, .. }));
        assert!(is_io && map.capacity() == capacity, "{grown:?}");
        assert!(is_uncertain(map.reserve(100)) && is_uncertain(map.sync()));
    }

    /// Whichever levels the file has, it has all pairs. Without a mapping, those of the epoch.
    #[test]
    fn a_map_takes_no_changes_if_its_levels_in_the_file_are_unknown() {
        for (place, is_mapped) in [(Place::Mapping, true), (Place::File(Storage::Device), false)] {
            for is_written in [false, true] {
                let (folder, device) = (folder(), Device::emulator(emulator::Options::default()));
                let path = folder.path().join("map");
                let (mut map, keys) = create(place, &device, &path, true);
                let capacity = map.capacity();
                fail_growth(&map, is_written);
                has(&map, &keys, "failed");
                let (first, new) = (&keys[..1], [key(1 << 20)]);
                assert_eq!(is_uncertain(map.insert(&new, &new)), is_mapped);
                assert_eq!(is_uncertain(map.insert_new(first, first)), is_mapped);
                assert_eq!(is_uncertain(map.update(first, first)), is_mapped);
                assert_eq!(is_uncertain(map.remove(&new)), is_mapped);
                if is_mapped {
                    assert!(is_uncertain(map.clear()));
                }
                has(&map, &keys, "unchanged");
                drop(map);
                let map = builder(place, &device).open(&path).unwrap();
                assert_eq!(map.capacity() > capacity, is_written);
                assert!(map.remove(&new).is_ok());
                survives(map, place, &device, &path, &keys, "opened");
            }
        }
    }

    /// The new file has the levels of the map.
    #[test]
    fn compaction_lets_a_map_take_changes_again() {
        let (folder, device) = (folder(), Device::emulator(emulator::Options::default()));
        let path = folder.path().join("map");
        let (mut map, mut expected) = create(Place::Mapping, &device, &path, false);
        fail_growth(&map, true);
        let new = [key(1 << 20)];
        assert!(is_uncertain(map.insert(&new, &new)));
        map.compact().unwrap();
        assert!(map.insert(&new, &new).unwrap().all_placed());
        expected.extend(new);
        survives(map, Place::Mapping, &device, &path, &expected, "compacted");
    }
}
