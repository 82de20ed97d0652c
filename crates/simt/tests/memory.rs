//! Tests global and shared memory, ids, barriers and launches with correct kernels.
mod common;

use common::{Buffer, devices, fast, on_zeros};
use simt::emulator::{Emulator, Failure, FailureKind, Launch, Mode, Options, Schedule, SiteId};
use simt::{
    Block, Global, GlobalSlice, Grid, Order, Scope, Shared, SharedShape, Thread, Word, fence, kernel, shared,
    spin_hint,
};
use std::hash::{Hash, Hasher};

const GRID: Grid = Grid { blocks: 3, threads: 48 };

#[kernel]
fn who_am_i(out: GlobalSlice<u64>) {
    let ids = [Thread::block_index(), Thread::index_in_block(), Thread::lane(), Thread::block_size()];
    let packed = ids.iter().fold(0, |packed, &id| packed << 16 | u64::from(id));
    out.write(
        Thread::index(),
        packed ^ u64::from(Thread::grid_size()) << 60 ^ (Thread::count() as u64) << 48 << 8,
    );
}

#[test]
fn threads_know_who_they_are() {
    for device in devices() {
        let [out] = on_zeros(&device, [144], GRID, |[out]| WhoAmI { out }).unwrap();
        for (thread, packed) in out.into_iter().enumerate() {
            let (block, index) = (thread as u64 / 48, thread as u64 % 48);
            let expected = block << 48 | index << 32 | (index % 32) << 16 | 48;
            assert_eq!(packed, expected ^ 3 << 60 ^ 144 << 48 << 8);
        }
    }
}

/// One update of a word by every thread, and a final read of it.
#[derive(Clone, Copy)]
struct Updates<T>(GlobalSlice<T>);

impl<T: Word> simt::Kernel for Updates<T> {
    const PROGRAM: &'static str = "test";
    const NAME: &'static str = "updates";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let mine = T::narrow(Thread::index() as u128 + 1);
        let scope = Scope::Device;
        self.0.at(0).fetch_add(mine, Order::Relaxed, scope);
        self.0.at(1).fetch_min(mine, Order::Acquire, scope);
        self.0.at(2).fetch_max(mine, Order::Release, scope);
        self.0.at(3).fetch_or(mine, Order::AcqRel, scope);
        self.0.at(4).fetch_and(mine, Order::Weak, scope);
        let old = self.0.at(5).exchange(mine, Order::Relaxed, scope);
        self.0.at(6).fetch_add(old, Order::Relaxed, Scope::System);
    }
}

fn check_updates<T: Word>(device: &Emulator) {
    let ones = T::narrow(0xffff_ffff);
    let memory = Buffer::from_slice(device, &[0, 99, 0, 0, 255, 0, 0].map(T::narrow));
    device.launch(Grid { blocks: 2, threads: 50 }, Updates(memory.slice())).unwrap();
    let found = memory.read();
    assert_eq!(found[..5], [5050, 1, 100, 127, 0].map(T::narrow));
    assert_eq!(found[5].widen() + found[6].widen(), 5050, "every value was exchanged once");
    assert_ne!(found[5], ones);
}

#[test]
fn updates_of_4_and_8_bytes() {
    for device in devices() {
        check_updates::<u32>(&device);
        check_updates::<u64>(&device);
    }
}

#[test]
fn updates_of_other_sizes_trap() {
    for device in devices() {
        let bytes = on_zeros(&device, [7], GRID, |[bytes]| Updates::<u8>(bytes)).unwrap_err();
        let wide = on_zeros(&device, [7], GRID, |[wide]| Updates::<u128>(wide)).unwrap_err();
        assert_eq!([&bytes.kind, &wide.kind], [&FailureKind::Trap; 2]);
    }
}

/// Reverses an array word by word, with all memory orders in turn.
#[derive(Clone, Copy)]
struct Reverse<T> {
    from: GlobalSlice<T>,
    to: GlobalSlice<T>,
}

impl<T: Word> simt::Kernel for Reverse<T> {
    const PROGRAM: &'static str = "test";
    const NAME: &'static str = "reverse";
    const INSTANCE: Option<&'static str> = None;

    fn run(self) {
        let i = Thread::index();
        if i < self.from.len() {
            let orders = [Order::Weak, Order::Relaxed, Order::Acquire, Order::Release, Order::AcqRel];
            let word = self.from.at(i).load(orders[i % 5], Scope::Device);
            self.to.at(self.from.len() - 1 - i).store(word, orders[i / 5 % 5], Scope::System);
        }
    }
}

fn check_reverse<T: Word>(device: &Emulator) {
    let wide = 0x0123_4567_89ab_cdef_u128;
    let words: Vec<T> = (0..100).map(|i| T::narrow((wide << 64 | wide).rotate_left(i))).collect();
    let (from, to) = (Buffer::from_slice(device, &words), Buffer::uninitialized(device, 100));
    device.launch(Grid::for_items(100, 32), Reverse { from: from.slice(), to: to.slice() }).unwrap();
    assert_eq!(to.read(), words.into_iter().rev().collect::<Vec<_>>());
}

#[test]
fn words_of_every_size_are_read_and_written() {
    for device in devices() {
        check_reverse::<u8>(&device);
        check_reverse::<u32>(&device);
        check_reverse::<u64>(&device);
        check_reverse::<u128>(&device);
    }
}

#[kernel]
fn load_vectors(words: GlobalSlice<u32>, out: GlobalSlice<u64>) {
    let (i, weak) = (Thread::index(), Order::Weak);
    // SAFETY: the slice is aligned to 16 bytes and has 4 words per thread.
    unsafe {
        let [a, b, c, d] = words.at(4 * i).load_vec::<4>(weak, Scope::Device);
        let [low, high] = words.at(4 * i).cast::<u64>().load_vec::<2>(Order::Relaxed, Scope::Device);
        let [only] = words.at(4 * i).cast::<u128>().load_vec::<1>(Order::Acquire, Scope::Device);
        let fits = low == u64::from(a) | u64::from(b) << 32
            && high == u64::from(c) | u64::from(d) << 32
            && only == u128::from(low) | u128::from(high) << 64;
        out.write(i, if fits { low } else { 0 });
    }
}

#[test]
fn neighbouring_words_are_read_together() {
    for device in devices() {
        let words: Vec<u32> = (1..129).collect();
        let (input, out) = (Buffer::from_slice(&device, &words), Buffer::zeroed(&device, 32));
        device.launch(Grid::new(1, 32), LoadVectors { words: input.slice(), out: out.slice() }).unwrap();
        let expected: Vec<_> = (0..32).map(|i| (4 * i + 1) | (4 * i + 2) << 32).collect();
        assert_eq!(out.read(), expected);
    }
}

/// Every thread appends itself to a list whose head holds a count in the low half and the last thread in the
/// high half.
#[kernel]
fn count_wide(place: GlobalSlice<u128>, halves: GlobalSlice<u64>) {
    let wide = place.at(0);
    let mut current = wide.load(Order::Relaxed, Scope::Device);
    loop {
        let new = (current as u64 + 1) as u128 | (Thread::index() as u128) << 64;
        match wide.compare_exchange(current, new, Order::AcqRel, Scope::Device) {
            Ok(_) => break,
            Err(found) => current = found,
        }
    }
    // SAFETY: the halves of the 16-byte word.
    let low = unsafe { wide.cast::<u64>() };
    if Thread::index().is_multiple_of(2) {
        // An access to a half, between compare-exchanges of the whole.
        low.fetch_add(1 << 32, Order::Relaxed, Scope::Device);
    }
    halves.write(Thread::index(), low.load(Order::Relaxed, Scope::Device));
}

#[test]
fn sixteen_bytes_and_their_halves_fit_together() {
    for device in devices() {
        let (place, halves) = (Buffer::<u128>::zeroed(&device, 1), Buffer::zeroed(&device, 144));
        device.launch(GRID, CountWide { place: place.slice(), halves: halves.slice() }).unwrap();
        let low = place.read()[0] as u64;
        assert_eq!((low & 0xffff_ffff, low >> 32), (144, 72));
    }
}

#[test]
fn sixteen_byte_compare_exchange_traps_on_old_devices() {
    for mode in [Mode::Fast { workers: 1 }, Mode::Explore(Schedule::Random { seed: 0 })] {
        let device = Emulator::new(Options { mode, cas128: false, ..Options::default() });
        let (place, halves) = (Buffer::<u128>::zeroed(&device, 1), Buffer::zeroed(&device, 144));
        let failure =
            device.launch(GRID, CountWide { place: place.slice(), halves: halves.slice() }).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Trap);
    }
}

#[kernel]
fn reverse_in_shared_memory(out: GlobalSlice<u32>) {
    let words = shared!([u32; 48]);
    let same_type = shared!([u32; 48]);
    let total = shared!([u32; 1]);
    let i = Thread::index_in_block() as usize;
    if i == 0 {
        total.store(0, 0);
    }
    words.store(i, Thread::index() as u32);
    same_type.store(i, 7);
    Block::sync();
    total.fetch_add(0, words.load(47 - i));
    Block::sync();
    out.write(Thread::index(), words.load(47 - i) + 1000 * total.load(0) + same_type.load(i));
}

#[test]
fn blocks_have_memory_of_their_own() {
    for device in devices() {
        let [out] = on_zeros(&device, [144], GRID, |[out]| ReverseInSharedMemory { out }).unwrap();
        for (thread, found) in out.into_iter().enumerate() {
            let block = thread as u32 / 48;
            let sum: u32 = (48 * block..48 * block + 48).sum();
            assert_eq!(found, 48 * block + 47 - thread as u32 % 48 + 1000 * sum + 7);
        }
    }
}

/// A barrier of the whole grid by a counter, for which every block needs every other.
#[kernel]
fn grid_barrier(arrived: GlobalSlice<u32>, out: GlobalSlice<u32>, patient: u32) {
    Block::sync();
    if Thread::index_in_block() == 0 {
        arrived.at(0).fetch_add(1, Order::Release, Scope::Device);
        while arrived.at(0).load(Order::Acquire, Scope::Device) < Thread::grid_size() {
            if patient != 0 {
                spin_hint();
            }
        }
    }
    Block::sync();
    out.write(Thread::index(), arrived.at(0).load(Order::Relaxed, Scope::Device));
}

fn check_grid_barrier(device: &Emulator, blocks: u32, patient: bool) {
    let kernel = |[arrived, out]: [_; 2]| GridBarrier { arrived, out, patient: patient.into() };
    let [_, out] = on_zeros(device, [1, 40 * blocks as usize], Grid::new(blocks, 40), kernel).unwrap();
    assert!(out.into_iter().all(|seen| seen == blocks));
}

#[test]
fn resident_blocks_progress_side_by_side() {
    for device in devices() {
        check_grid_barrier(&device, 5, true);
        check_grid_barrier(&device, 2, false);
    }
    let device = Emulator::new(Options { mode: Mode::Fast { workers: 1 }, ..Options::default() });
    check_grid_barrier(&device, device.options().resident_blocks(40), true);
}

#[kernel]
fn send(flag: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    data.write(0, 42);
    fence(Scope::Device);
    flag.at(0).store(1, Order::Relaxed, Scope::Device);
}

#[kernel]
fn receive(flag: GlobalSlice<u32>, data: GlobalSlice<u32>) {
    while flag.at(0).load(Order::Relaxed, Scope::Device) == 0 {
        spin_hint();
    }
    fence(Scope::Device);
    data.write(1, data.read(0));
}

#[test]
fn launches_side_by_side_talk_to_each_other() {
    for device in devices() {
        let (flag, data) = (Buffer::zeroed(&device, 1), Buffer::zeroed(&device, 2));
        let one = Grid::new(1, 1);
        let receiver = Launch::new(one, Receive { flag: flag.slice(), data: data.slice() });
        let sender = Launch::new(one, Send { flag: flag.slice(), data: data.slice() });
        device.launch_all(vec![receiver, sender]).unwrap();
        assert_eq!(data.read(), [42, 42]);
    }
}

/// Executes many compare-exchanges of 16 bytes and records the host threads that execute them.
#[kernel]
fn contend(place: GlobalSlice<u128>, hosts: GlobalSlice<u64>) {
    let mut current = place.at(0).load(Order::Relaxed, Scope::Device);
    for _ in 0..100 {
        while let Err(found) =
            place.at(0).compare_exchange(current, current + (1 << 64) + 1, Order::AcqRel, Scope::Device)
        {
            current = found;
        }
        spin_hint();
    }
    let mut hasher = std::hash::DefaultHasher::new();
    std::thread::current().id().hash(&mut hasher);
    hosts.write(Thread::index(), hasher.finish());
}

#[test]
fn workers_execute_blocks_at_a_time() {
    let device = fast();
    let (place, hosts) = (Buffer::zeroed(&device, 1), Buffer::zeroed(&device, 64 * 100));
    device.launch(Grid::new(64, 100), Contend { place: place.slice(), hosts: hosts.slice() }).unwrap();
    let total = 64 * 100 * 100;
    assert_eq!(place.read(), [total << 64 | total]);
    let mut hosts = hosts.read();
    hosts.sort_unstable();
    hosts.dedup();
    assert_eq!(hosts.len(), 2);
}

#[test]
fn grids_may_be_larger_than_what_fits() {
    let big = Grid::new(20, 1000);
    for device in devices() {
        assert!(device.options().resident_blocks(big.threads) < big.blocks);
        assert_eq!(on_zeros(&device, [1], big, |[to]| AddOne { to }).unwrap(), [[20_000]]);
    }
}

#[kernel]
fn count_up(out: GlobalSlice<u64>) {
    out.write(2 * Thread::index(), simt::timer());
    simt::clock();
    out.write(2 * Thread::index() + 1, simt::timer());
}

#[test]
fn no_two_reads_of_the_timer_are_equal() {
    for device in devices() {
        let [mut times] = on_zeros(&device, [288], GRID, |[out]| CountUp { out }).unwrap();
        assert!(times.chunks(2).all(|pair| pair[0] < pair[1]));
        times.sort_unstable();
        times.dedup();
        assert_eq!(times.len(), 288);
    }
}

#[kernel]
fn add_one(to: GlobalSlice<u32>) {
    to.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
}

#[test]
fn host_memory_can_be_adopted() {
    for device in devices() {
        let mut word = 1u32;
        let pointer = &raw mut word;
        // SAFETY: the word outlives the launch.
        let slice = unsafe {
            device.adopt(pointer.cast(), 4);
            GlobalSlice::from_raw_parts(pointer, 1)
        };
        device.launch(GRID, AddOne { to: slice }).unwrap();
        // SAFETY: no launch is running.
        unsafe { device.disown(pointer.cast()) };
        let failure = device.launch(GRID, AddOne { to: slice }).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::UseAfterFree { bytes: 4, .. }), "{failure}");
        assert_eq!(word, 145);
    }
}

#[test]
fn threads_of_the_host_may_launch_at_a_time() {
    for device in devices() {
        let to = Buffer::zeroed(&device, 1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (device, kernel) = (device.clone(), AddOne { to: to.slice() });
                scope.spawn(move || device.launch(GRID, kernel).unwrap());
            }
        });
        assert_eq!(to.read(), [4 * 144]);
    }
}

#[test]
fn grids_that_no_device_takes_are_refused() {
    let device = fast();
    let to = Buffer::zeroed(&device, 1);
    for grid in [Grid::new(0, 32), Grid::new(1, 0), Grid::new(1, 1025)] {
        let failure = device.launch(grid, AddOne { to: to.slice() }).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidGrid { grid });
    }
    assert_eq!(to.read(), [0]);
}

#[test]
fn an_allocation_that_cannot_be_is_null() {
    assert!(fast().allocate(usize::MAX, 16).is_null());
    assert!(fast().allocate(16, 3).is_null());
}

#[test]
fn pointers_are_plain() {
    let device = fast();
    let buffer = Buffer::<u32>::zeroed(&device, 2);
    // SAFETY: both words lie in one buffer.
    let second = unsafe { Global::new(buffer.pointer()).offset(1) };
    assert_eq!(second.as_ptr(), buffer.slice().at(1).as_ptr());
}

/// Allocates, writes and, if `uses` is 1, accesses the memory after freeing it.
#[kernel]
fn use_heap(uses: u32, kept: GlobalSlice<u64>) {
    let pointer = simt::heap_allocate(24);
    // SAFETY: just allocated, except for the error that the test expects.
    let word = unsafe { Global::new(pointer.cast::<u64>()) };
    word.store(7, Order::Weak, Scope::Device);
    kept.write(Thread::index(), pointer as u64 * word.load(Order::Weak, Scope::Device) / 7);
    if uses == 1 {
        // SAFETY: as above.
        unsafe { simt::heap_free(pointer) };
        word.store(8, Order::Weak, Scope::Device);
    }
}

#[test]
fn memory_of_the_heap_is_memory() {
    for device in devices() {
        let launch = |uses| on_zeros(&device, [144], GRID, |[kept]| UseHeap { uses, kept });
        let places: std::collections::BTreeSet<u64> = launch(0).unwrap().concat().into_iter().collect();
        assert!(places.len() == 144 && places.iter().all(|place| place % 16 == 0 && *place != 0));
        let failure = launch(1).unwrap_err();
        assert!(matches!(failure.kind, FailureKind::UseAfterFree { bytes: 8, .. }), "{failure}");
    }
}

/// `N` words of shared memory.
struct Words<const N: usize>;

impl<const N: usize> SharedShape for Words<N> {
    type Word = u32;
    const LEN: usize = N;
}

/// Each thread writes a word to two arrays of one source line and different shapes, and reads both of its
/// neighbour's by one wide access.
#[kernel]
fn keep_in_shapes(out: GlobalSlice<u64>) {
    let (thread, count) = (Thread::index_in_block(), Thread::block_size());
    let [near, far] = [Shared::of::<Words<48>>(), Shared::of::<Words<96>>()];
    // SAFETY: there are 48 threads.
    unsafe {
        near.store_unchecked(thread, thread + 1);
        far.store_unchecked(2 * thread, thread);
        near.fetch_add_if(thread > 99, 99, 1);
        near.fetch_add_if(true, thread, 2);
        near.or_unchecked(thread, 1 << 16);
        far.store_unchecked(2 * thread + 1, Shared::of::<Words<48>>().fetch_add_unchecked(thread, 5));
    }
    Block::sync();
    let next = (thread + 1) % count;
    // SAFETY: the array is aligned to 16 bytes, and 48 pairs of words fit.
    let pair = unsafe { far.cast::<u64>().load_unchecked(next) };
    out.write(Thread::index(), pair + u64::from(near.load(next as usize)));
}

#[test]
fn shapes_are_arrays_of_their_own() {
    for device in devices() {
        let [out] = on_zeros(&device, [144], GRID, |[out]| KeepInShapes { out }).unwrap();
        for (thread, found) in out.into_iter().enumerate() {
            let next = (thread as u64 % 48 + 1) % 48;
            // What `fetch_add` adds to is `thread + 3`, with the bit that was set.
            let bits = 1 << 16;
            assert_eq!(found, (next + 3 + bits) << 32 | (next + next + 8 + bits), "thread {thread}");
        }
    }
}

#[kernel]
fn read_beyond_shape(at: u32, out: GlobalSlice<u32>) {
    let array = Shared::of::<Words<4>>();
    array.store(0, 1);
    // SAFETY: none; the index is out of bounds, and the emulator reports it.
    out.write(0, unsafe { array.load_unchecked(at) });
}

#[test]
fn unchecked_accesses_beyond_an_array_are_reported() {
    let kernel = |[out]: [_; 1]| ReadBeyondShape { at: 4, out };
    let failure = on_zeros(&fast(), [1], Grid::new(1, 1), kernel).unwrap_err();
    assert!(failure.to_string().contains("element 4 of 4 in shared memory"), "{failure}");
}

#[kernel]
fn store_vectors(words: GlobalSlice<u32>, long: GlobalSlice<u64>) {
    let first = Thread::index() as u32 * 4;
    // SAFETY: each thread has four words and two long words.
    unsafe {
        let four = words.at(first as usize);
        four.store_vec([first, first + 1, first + 2, first + 3], Order::Weak, Scope::Device);
        let two = long.at(first as usize / 2);
        two.store_vec([u64::from(first) << 40, 1], Order::Relaxed, Scope::Device);
        words.at(first as usize + 2).store_vec([9, 8], Order::Release, Scope::Device);
    }
}

#[test]
fn neighbouring_words_are_written_together() {
    for device in devices() {
        let (words, long) = (Buffer::zeroed(&device, 96), Buffer::zeroed(&device, 48));
        let launch = StoreVectors { words: words.slice(), long: long.slice() };
        device.launch(Grid::new(1, 24), launch).unwrap();
        for (place, word) in words.read().into_iter().enumerate() {
            let expected = if place % 4 < 2 { place as u32 } else { 11 - place as u32 % 4 };
            assert_eq!(word, expected, "word {place}");
        }
        for (place, pair) in long.read().chunks(2).enumerate() {
            assert_eq!(pair, [(place as u64 * 4) << 40, 1]);
        }
    }
}

#[kernel]
fn store_askew(words: GlobalSlice<u32>) {
    // SAFETY: none; the address is misaligned, and the emulator reports it.
    unsafe { words.at(1).store_vec([1, 2], Order::Weak, Scope::Device) };
}

#[test]
fn vectors_written_askew_are_reported() {
    let failure = on_zeros(&fast(), [4], Grid::new(1, 1), |[words]| StoreAskew { words }).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::Misaligned { bytes: 8, .. }), "{failure}");
}

/// Sums an array on its stack that is larger than the stack of any library kernel without optimisation.
#[kernel]
fn pile_up(out: GlobalSlice<u64>) {
    let index = Thread::index();
    let pile = [index as u64; (160 << 10) / 8];
    out.write(index, std::hint::black_box(&pile).iter().sum());
}

#[test]
fn stacks_are_large_enough_for_kernels_that_are_not_optimised() {
    for device in devices() {
        let [out] = on_zeros(&device, [32], Grid::new(1, 32), |[out]| PileUp { out }).unwrap();
        assert_eq!(out, (0..32).map(|lane| lane * (160 << 10) / 8).collect::<Vec<u64>>());
    }
}

/// Recurses, with a write at each level.
#[inline(never)]
#[allow(unconditional_recursion)]
fn dig(words: GlobalSlice<u32>, depth: u32) -> u32 {
    let pile = std::hint::black_box([depth; 64]);
    words.write(0, pile[depth as usize % 64]);
    dig(words, depth + 1) + pile[1]
}

#[kernel]
fn recurse_with_accesses(words: GlobalSlice<u32>) {
    words.write(0, dig(words, 0));
}

/// Recurses without any access.
#[inline(never)]
#[allow(unconditional_recursion)]
fn fall(depth: u32) -> u32 {
    let pile = std::hint::black_box([depth; 64]);
    fall(depth + 1) + pile[depth as usize % 64]
}

#[kernel]
fn recurse_without_access(words: GlobalSlice<u32>) {
    if Thread::index() == 3 {
        words.write(0, fall(words.read(0)));
    }
}

/// Checks that the failure names the kernel, the thread and the line of the access that contains `text`, and
/// that the device goes on.
fn check_overflow(failure: &Failure, kernel: &str, thread: u32, function: &str, text: &str) {
    assert!(matches!(failure.kind, FailureKind::StackOverflow { bytes: 262_144 }), "{failure}");
    assert_eq!((failure.kernel.as_str(), failure.thread), (kernel, thread), "{failure}");
    let site = SiteId::find("tests/memory.rs", function, text).unwrap().to_string();
    let line = &failure.location.as_ref().unwrap().line;
    assert!(site.ends_with(&format!(":{line}")), "{failure}, not {site}");
    assert!(failure.to_string().contains("stack_bytes"), "{failure}");
}

#[test]
fn overflows_of_stacks_say_where_and_the_device_goes_on() {
    for device in devices() {
        for _ in 0..3 {
            let failure =
                on_zeros(&device, [1], Grid::new(1, 1), |[words]| RecurseWithAccesses { words }).unwrap_err();
            check_overflow(&failure, "recurse_with_accesses", 0, "dig", "write");
            if cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
                let failure =
                    on_zeros(&device, [1], Grid::new(1, 4), |[words]| RecurseWithoutAccess { words })
                        .unwrap_err();
                check_overflow(&failure, "recurse_without_access", 3, "recurse_without_access", "read(0)");
            }
            let [out] = on_zeros(&device, [32], Grid::new(1, 32), |[out]| PileUp { out }).unwrap();
            assert_eq!(out[1], (160 << 10) / 8);
        }
    }
}
