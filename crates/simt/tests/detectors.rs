//! Tests each detector with a kernel that commits the error: the failure must have the right kind and name
//! the right source line. Each detector is also switched off, to prove that no other one reported the
//! failure.
mod common;

use common::{Buffer, fast, line, on_zeros, random, random_with};
use simt::emulator::{Detect, Emulator, Failure, FailureKind, Mode, Options, Schedule, Whereabouts};
use simt::{
    Block, Global, GlobalSlice, Grid, Independent, Order, Scope, Thread, Tile, kernel, shared, spin_hint,
};

const WARP: Grid = Grid { blocks: 1, threads: 32 };
const PAIR: Grid = Grid { blocks: 2, threads: 1 };

/// Returns the line of this file that ends with the comment `// @name`.
fn marked(name: &str) -> u32 {
    let mark = format!("// @{name}");
    let at = include_str!("detectors.rs").lines().position(|text| text.trim_end().ends_with(&mark));
    at.map_or_else(|| panic!("no line is marked {mark}"), |at| at as u32 + 1)
}

fn without(change: impl Fn(&mut Detect)) -> [Emulator; 2] {
    let mut detect = Detect::ALL;
    change(&mut detect);
    [Emulator::new(Options { detect, ..Options::default() }), random_with(1, detect)]
}

// Missing lanes.

#[kernel]
fn lane_5_ends(out: GlobalSlice<u32>) {
    if Thread::lane() != 5 {
        out.write(0, Tile::<32>::lockstep().ballot(true)); // @vote without lane 5
    }
}

#[test]
fn a_lane_that_ended_is_missing() {
    for device in [fast(), random(1), random(2)] {
        let failure = on_zeros(&device, [1], WARP, |[out]| Lane5Ends { out }).unwrap_err();
        let FailureKind::MissingLane { collective: "ballot", mask: u32::MAX, missing } = &failure.kind else {
            panic!("{failure}")
        };
        assert_eq!((missing[0].thread, &missing[0].whereabouts), (5, &Whereabouts::Ended), "{failure}");
        assert_eq!(line(&failure), marked("vote without lane 5"), "{failure}");
        assert_ne!(failure.thread, 5);
    }
}

#[test]
fn lanes_that_ended_need_not_come_when_collectives_are_not_watched() {
    for device in without(|detect| (detect.collectives, detect.races) = (false, false)) {
        let [out] = on_zeros(&device, [1], WARP, |[out]| Lane5Ends { out }).unwrap();
        assert_eq!(out, [!(1 << 5)]);
    }
}

#[kernel]
fn halves_part(out: GlobalSlice<u32>) {
    let tile = Tile::<32>::lockstep();
    if Thread::lane() < 16 {
        out.write(0, tile.ballot(true)); // @vote of the lower half
    } else {
        out.write(1, tile.shuffle(7, 3)); // @shuffle of the upper half
    }
}

#[test]
fn lanes_that_wait_for_each_other_at_different_collectives_are_missing() {
    for device in [fast(), random(1), random(2)] {
        let failure = on_zeros(&device, [2], WARP, |[out]| HalvesPart { out }).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::MissingLane { .. }), "{failure}");
        let other = failure.other.as_ref().map_or(0, |other| other.location.line);
        let lines = [line(&failure), other];
        let marks = ["vote of the lower half", "shuffle of the upper half"].map(marked);
        assert_eq!([lines[0].min(lines[1]), lines[0].max(lines[1])], marks, "{failure}");
    }
}

#[test]
fn a_deadlock_is_a_hang_when_collectives_are_not_watched() {
    for device in without(|detect| detect.collectives = false) {
        let failure = on_zeros(&device, [2], WARP, |[out]| HalvesPart { out }).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::Hang { .. }), "{failure}");
    }
}

#[kernel]
fn half_at_the_barrier(out: GlobalSlice<u32>) {
    if Thread::lane() < 16 {
        Block::sync(); // @barrier of the lower half
    } else {
        out.write(0, Tile::<32, Independent>::this().ballot(true)); // @vote of the upper half
    }
}

#[test]
fn a_lane_at_the_barrier_is_missing_from_the_collective() {
    for device in [fast(), random(1)] {
        let failure = on_zeros(&device, [1], WARP, |[out]| HalfAtTheBarrier { out }).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::MissingLane { .. }), "{failure}");
        assert_eq!(line(&failure), marked("vote of the upper half"), "{failure}");
        let other = failure.other.as_ref().unwrap().location.line;
        assert_eq!(other, marked("barrier of the lower half"), "{failure}");
    }
}

#[kernel]
fn read_beyond_a_short_warp(out: GlobalSlice<u32>) {
    let lane = Thread::lane();
    out.write(Thread::index(), Tile::<32>::lockstep().shuffle_xor(lane, 8)); // @shuffle in a short warp
}

#[test]
fn a_shuffle_from_a_lane_that_does_not_exist_is_reported() {
    for device in [fast(), random(1)] {
        let kernel = |[out]: [_; 1]| ReadBeyondAShortWarp { out };
        let failure = on_zeros(&device, [12], Grid::new(1, 12), kernel).unwrap_err();
        let FailureKind::MissingLane { missing, .. } = &failure.kind else { panic!("{failure}") };
        assert_eq!(missing[0].whereabouts, Whereabouts::Outside, "{failure}");
        assert_eq!(line(&failure), marked("shuffle in a short warp"), "{failure}");
    }
}

#[kernel]
fn thread_40_skips_the_barrier(_unused: u32) {
    if Thread::index_in_block() != 40 {
        Block::sync(); // @barrier without thread 40
    }
}

#[test]
fn a_thread_that_ended_is_missing_from_the_barrier() {
    let kernel = Thread40SkipsTheBarrier { _unused: 0 };
    for device in [fast(), random(1), random(2)] {
        let failure = device.launch(Grid::new(1, 64), kernel).unwrap_err();
        let FailureKind::BarrierMismatch { missing } = &failure.kind else { panic!("{failure}") };
        let absent = missing.iter().find(|absent| absent.whereabouts == Whereabouts::Ended);
        assert_eq!(absent.map(|absent| absent.thread), Some(40), "{failure}");
        assert_eq!(line(&failure), marked("barrier without thread 40"), "{failure}");
    }
    for device in without(|detect| detect.collectives = false) {
        device.launch(Grid::new(1, 64), kernel).unwrap();
    }
}

// Memory that is not allocated or not initialised.

#[kernel]
fn read_word(of: GlobalSlice<u32>, out: GlobalSlice<u32>) {
    let word = of.at(of.len() - 1).load(Order::Relaxed, Scope::Device); // @read a word
    if Thread::index() == 0 {
        out.write(0, word);
    }
}

/// Returns the buffer's words and one more, which lies in the gap behind the buffer.
fn one_too_long(buffer: &Buffer<u32>) -> GlobalSlice<u32> {
    // SAFETY: none; this is the error to be detected.
    unsafe { GlobalSlice::from_raw_parts(buffer.pointer(), buffer.slice().len() + 1) }
}

#[test]
fn an_access_outside_every_buffer_is_reported() {
    for device in [fast(), random(1)] {
        let (buffer, out) = (Buffer::zeroed(&device, 4), Buffer::zeroed(&device, 1));
        let kernel = ReadWord { of: one_too_long(&buffer), out: out.slice() };
        let failure = device.launch(WARP, kernel).unwrap_err();
        let FailureKind::OutOfBounds { bytes: 4, nearest: Some(nearest), .. } = failure.kind else {
            panic!("{failure}")
        };
        assert_eq!((nearest.offset, nearest.bytes), (16, 16), "{failure}");
        assert_eq!(line(&failure), marked("read a word"), "{failure}");
    }
    for device in without(|detect| detect.bounds = false) {
        let (buffer, out) = (Buffer::zeroed(&device, 4), Buffer::zeroed(&device, 1));
        device.launch(WARP, ReadWord { of: one_too_long(&buffer), out: out.slice() }).unwrap();
    }
}

#[test]
fn an_access_to_a_freed_buffer_is_reported() {
    for device in [fast(), random(1)] {
        let (buffer, out) = (Buffer::zeroed(&device, 4), Buffer::zeroed(&device, 1));
        let kernel = ReadWord { of: buffer.slice(), out: out.slice() };
        device.launch(WARP, kernel).unwrap();
        drop(buffer);
        let failure = device.launch(WARP, kernel).unwrap_err();
        let FailureKind::UseAfterFree { bytes: 4, within } = failure.kind else { panic!("{failure}") };
        assert_eq!((within.offset, within.bytes), (12, 16), "{failure}");
        assert_eq!(line(&failure), marked("read a word"), "{failure}");
    }
    for device in without(|detect| detect.use_after_free = false) {
        let (buffer, out) = (Buffer::zeroed(&device, 4), Buffer::zeroed(&device, 1));
        let kernel = ReadWord { of: buffer.slice(), out: out.slice() };
        drop(buffer);
        device.launch(WARP, kernel).unwrap();
    }
}

#[test]
fn a_read_of_unwritten_memory_is_reported() {
    let watching = Options { detect: Detect { uninitialized: true, ..Detect::CHEAP }, ..Options::default() };
    for device in [Emulator::new(watching), random(1)] {
        let (buffer, out) = (Buffer::uninitialized(&device, 4), Buffer::zeroed(&device, 1));
        let kernel = ReadWord { of: buffer.slice(), out: out.slice() };
        // SAFETY: none; the last byte of the last word stays uninitialised.
        unsafe { device.mark_initialized(buffer.pointer().cast(), 15) };
        let failure = device.launch(WARP, kernel).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::Uninitialized { bytes: 4, .. }), "{failure}");
        assert_eq!(line(&failure), marked("read a word"), "{failure}");
        // SAFETY: every byte is arbitrary, which suffices here.
        unsafe { device.mark_initialized(buffer.pointer().cast(), 16) };
        device.launch(WARP, kernel).unwrap();
    }
    for device in without(|detect| detect.uninitialized = false) {
        let (buffer, out) = (Buffer::uninitialized(&device, 4), Buffer::zeroed(&device, 1));
        device.launch(WARP, ReadWord { of: buffer.slice(), out: out.slice() }).unwrap();
    }
}

#[kernel]
fn copy_word(from: GlobalSlice<u32>, to: GlobalSlice<u32>) {
    to.write(0, from.read(0));
}

#[test]
fn what_is_written_is_known_to_the_byte() {
    let device = random(1);
    let (buffer, out) = (Buffer::<u32>::uninitialized(&device, 40), Buffer::zeroed(&device, 1));
    // SAFETY: every byte is arbitrary, which suffices here.
    unsafe { device.mark_initialized(buffer.pointer().add(3).cast(), 20 * 4) };
    for i in 0..40 {
        // SAFETY: a word of the buffer.
        let from = unsafe { GlobalSlice::from_raw_parts(buffer.pointer().add(i), 1) };
        let known = device.launch(Grid::new(1, 1), CopyWord { from, to: out.slice() }).is_ok();
        assert_eq!(known, (3..23).contains(&i), "word {i}");
    }
    // Words written by a kernel are initialised as well, and no others.
    let last = Buffer::<u32>::uninitialized(&device, 3);
    // SAFETY: each is a word of the buffer.
    let [left, middle, right] =
        [0, 1, 2].map(|i| unsafe { GlobalSlice::from_raw_parts(last.pointer().add(i), 1) });
    device.launch(Grid::new(1, 1), CopyWord { from: out.slice(), to: middle }).unwrap();
    let reads = |from| device.launch(Grid::new(1, 1), CopyWord { from, to: out.slice() }).is_ok();
    assert_eq!([left, middle, right].map(reads), [false, true, false]);
}

#[kernel]
fn read_unwritten_shared(out: GlobalSlice<u32>) {
    let words = shared!([u32; 4]);
    words.store(0, 1);
    out.write(0, words.load(0) + words.load(1)); // @read unwritten shared memory
}

/// Reads an initialised and an uninitialised element.
#[kernel]
fn read_uninit_shared(out: GlobalSlice<u32>) {
    let words = shared!([u32; 4]);
    words.store(0, 7);
    out.write(0, words.load_uninit(0));
    out.write(1, words.load_uninit(1));
}

#[test]
fn a_read_that_asks_for_no_written_element_is_not_reported() {
    for seed in 0..4 {
        let device = random(seed);
        let [out] = on_zeros(&device, [2], Grid::new(1, 1), |[out]| ReadUninitShared { out }).unwrap();
        assert_eq!(out[0], 7);
    }
}

#[test]
fn a_read_of_unwritten_shared_memory_is_reported() {
    let read =
        |device: &Emulator| on_zeros(device, [1], Grid::new(1, 1), |[out]| ReadUnwrittenShared { out });
    let watching = Options { detect: Detect { uninitialized: true, ..Detect::CHEAP }, ..Options::default() };
    for device in [Emulator::new(watching), random(1)] {
        let failure = read(&device).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Uninitialized { bytes: 4, within: None }, "{failure}");
        assert_eq!(line(&failure), marked("read unwritten shared memory"), "{failure}");
    }
    for device in without(|detect| detect.uninitialized = false) {
        read(&device).unwrap();
    }
}

#[kernel]
fn read_between_words(of: GlobalSlice<u64>, out: GlobalSlice<u64>, vector: u32) {
    // SAFETY: none; this is the error to be detected.
    unsafe {
        let word = if vector == 0 {
            let between = of.at(0).as_ptr().byte_add(4);
            Global::new(between).load(Order::Weak, Scope::Device) // @misaligned word
        } else {
            of.at(1).load_vec::<2>(Order::Weak, Scope::Device)[0] // @misaligned vector
        };
        out.write(0, word);
    }
}

#[test]
fn a_misaligned_access_is_reported() {
    for device in [fast(), random(1)] {
        for (vector, bytes, mark) in [(0, 8, "misaligned word"), (1, 16, "misaligned vector")] {
            let kernel = |[of, out]: [_; 2]| ReadBetweenWords { of, out, vector };
            let failure = on_zeros(&device, [4, 1], Grid::new(1, 1), kernel).unwrap_err();
            let FailureKind::Misaligned { bytes: found, .. } = failure.kind else { panic!("{failure}") };
            assert_eq!(found, bytes, "{failure}");
            assert_eq!(line(&failure), marked(mark), "{failure}");
        }
    }
}

// Races.

#[kernel]
fn race(place: GlobalSlice<u64>, first: u32, second: u32) {
    let does = if Thread::block_index() == 0 { first } else { second };
    let word = place.at(0);
    // SAFETY: the low half of the word.
    let low = unsafe { word.cast::<u32>() };
    match does {
        0 => word.store(1, Order::Weak, Scope::Device),          // @0
        1 => assert!(word.load(Order::Weak, Scope::Device) < 9), // @1
        2 => word.store(1, Order::Relaxed, Scope::Device),       // @2
        3 => assert!(word.load(Order::Acquire, Scope::Device) < 9), // @3
        4 => assert!(word.fetch_add(1, Order::Relaxed, Scope::Device) < 9), // @4
        5 => assert!(word.fetch_add(1, Order::Relaxed, Scope::Block) < 9), // @5
        6 => assert!(word.compare_exchange(99, 1, Order::Relaxed, Scope::Device).is_err()), // @6
        7 => low.store(1, Order::Weak, Scope::Device),           // @7
        // SAFETY: the high half of the word.
        _ => unsafe { low.offset(1) }.store(0, Order::Weak, Scope::Device), // @8
    }
}

const NAMES: [&str; 9] = ["0", "1", "2", "3", "4", "5", "6", "7", "8"];

/// Returns `true` if two of the accesses race: they overlap, at least one writes, and they are not both
/// strong with scopes that include each other.
fn races(a: usize, b: usize) -> bool {
    let writes = |x| [0, 2, 4, 5, 7, 8].contains(&x);
    let weak = |x| [0, 1, 7, 8].contains(&x);
    let disjoint = a.min(b) == 7 && a.max(b) == 8;
    (writes(a) || writes(b)) && (weak(a) || weak(b) || a == 5 || b == 5) && !disjoint
}

fn slot_pairs() -> impl Iterator<Item = (usize, usize)> {
    (0..9).flat_map(|first| (0..9).map(move |second| (first, second)))
}

fn try_race(device: &Emulator, first: usize, second: usize) -> Result<(), Failure> {
    let (first, second) = (first as u32, second as u32);
    on_zeros(device, [1], PAIR, |[place]| Race { place, first, second }).map(drop)
}

#[test]
fn accesses_that_nothing_orders_race_if_one_is_weak_and_one_writes() {
    for (first, second) in slot_pairs() {
        match try_race(&random(3), first, second) {
            Ok(()) => assert!(!races(first, second), "{first} and {second} should race"),
            Err(failure) => {
                assert!(races(first, second), "{first} and {second}: {failure}");
                assert!(matches!(failure.kind, FailureKind::DataRace { .. }), "{failure}");
                let mut found = [line(&failure), failure.other.as_ref().unwrap().location.line];
                let mut lines = [marked(NAMES[first]), marked(NAMES[second])];
                found.sort_unstable();
                lines.sort_unstable();
                assert_eq!(found, lines, "{failure}");
            }
        }
    }
}

#[test]
fn races_are_not_reported_when_they_are_not_watched() {
    let detect = Detect { races: false, ..Detect::ALL };
    for (first, second) in slot_pairs() {
        try_race(&random_with(3, detect), first, second).unwrap();
    }
}

#[kernel]
fn race_in_shared_memory(_unused: u32) {
    let words = shared!([u32; 2]);
    words.store(0, Thread::lane()); // @race in shared memory
}

#[test]
fn a_race_in_shared_memory_is_reported() {
    let failure = random(1).launch(Grid::new(1, 2), RaceInSharedMemory { _unused: 0 }).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::DataRace { access: "weak write", .. }), "{failure}");
    assert_eq!(line(&failure), marked("race in shared memory"), "{failure}");
    // Each block has separate words.
    random(1).launch(Grid::new(2, 1), RaceInSharedMemory { _unused: 0 }).unwrap();
}

// Traps, faults, panics and hangs.

#[kernel]
fn stop(how: u32) {
    match how {
        0 => simt::trap(),                                        // @trap
        1 => panic!("on purpose: {how}"),                         // @panic
        3 => simt::fault("told"),                                 // @fault
        _ => assert!(GlobalSlice::<u32>::len(empty_slice()) > 9), // @failed assertion
    }
}

fn empty_slice() -> GlobalSlice<u32> {
    // SAFETY: no word of the slice is accessed.
    unsafe { GlobalSlice::from_raw_parts(std::ptr::null_mut(), 0) }
}

#[test]
fn traps_faults_and_panics_are_failures() {
    for device in [fast(), random(1)] {
        let stop = |how| device.launch(WARP, Stop { how }).unwrap_err();
        let kinds = [
            (0, FailureKind::Trap, "trap"),
            (1, FailureKind::Panic("on purpose: 1".into()), "panic"),
            (3, FailureKind::Fault("told"), "fault"),
        ];
        for (how, kind, mark) in kinds {
            let failure = stop(how);
            assert_eq!((&failure.kind, line(&failure)), (&kind, marked(mark)));
        }
        let panic = stop(2);
        assert!(matches!(panic.kind, FailureKind::Panic(_)), "{panic}");
        assert_eq!(line(&panic), marked("failed assertion"), "{panic}");
    }
}

#[kernel]
fn read_beyond(slice: GlobalSlice<u32>) {
    slice.read(slice.len()); // @index beyond the slice
}

#[test]
fn an_index_beyond_a_slice_is_reported_with_the_line_that_uses_it() {
    for device in [fast(), random(1)] {
        let failure = device.launch(WARP, ReadBeyond { slice: empty_slice() }).unwrap_err();
        let kind = FailureKind::IndexOutOfRange { index: 0, len: 0 };
        assert_eq!((&failure.kind, line(&failure)), (&kind, marked("index beyond the slice")));
        assert!(failure.to_string().contains("index 0 is out of range: the slice has 0 elements"));
    }
}

#[kernel]
fn wait_for_ever(flag: GlobalSlice<u32>, hint: u32) {
    let mut set = 0;
    while set == 0 {
        set = flag.at(0).load(Order::Acquire, Scope::Device); // @wait
        if hint != 0 {
            spin_hint(); // @spin
        }
    }
}

#[test]
fn lanes_that_only_spin_hang() {
    for mode in [Mode::Fast { workers: 2 }, Mode::Explore(Schedule::Random { seed: 1 })] {
        for (hint, mark) in [(1, "spin"), (0, "wait")] {
            let options = Options { mode: mode.clone(), step_limit: 100_000, ..Options::default() };
            let device = Emulator::new(options);
            let kernel = |[flag]: [_; 1]| WaitForEver { flag, hint };
            let failure = on_zeros(&device, [1], Grid::new(3, 40), kernel).unwrap_err();
            assert!(matches!(failure.kind, FailureKind::Hang { .. }), "{failure}");
            assert!([marked("wait"), marked(mark)].contains(&line(&failure)), "{failure}");
        }
    }
}

#[test]
fn spinning_is_found_long_before_the_step_limit() {
    let kernel = |[flag]: [_; 1]| WaitForEver { flag, hint: 1 };
    let failure = on_zeros(&random(1), [1], Grid::new(1, 4), kernel).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::Hang { steps } if steps < 10_000), "{failure}");
}

#[test]
fn a_device_goes_on_after_a_failure() {
    for device in [fast(), random(1)] {
        let (words, out) = (Buffer::from_slice(&device, &[5, 6]), Buffer::zeroed(&device, 1));
        for _ in 0..3 {
            device.launch(WARP, Stop { how: 1 }).unwrap_err();
            device.launch(WARP, ReadWord { of: words.slice(), out: out.slice() }).unwrap();
            assert_eq!(out.read(), [6]);
        }
    }
}
