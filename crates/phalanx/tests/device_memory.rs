//! Batches on parts of buffers and on another library's memory, and what may be dropped while batches run.
use bytemuck::Pod;
use gpu::emulator::Options;
use gpu::{Buffer, Device, SliceMut};
use phalanx::map::OpCode;
use phalanx::slab_alloc::Handle;
use phalanx::{
    BTree, Error, HashMap, Map, Merge, MultiVersionBTree, Outcome, SkipList, SlabAlloc, SlabHash,
    SlabMultiMap, SlabSet,
};
use std::fmt::Debug;
use std::ptr::null_mut;

fn device() -> Device {
    Device::emulator(Options::default())
}

/// Byte of the elements beside a part.
const BESIDE: u8 = 0xc3;

/// A part of a buffer, which may begin at any element.
struct Parted<T> {
    buffer: Buffer<T>,
    first: usize,
}

impl<T: Pod + PartialEq + Debug> Parted<T> {
    fn new(device: &Device, first: usize, elements: &[T]) -> Self {
        let mut parted = Self { buffer: device.filled(first + elements.len() + 1, BESIDE).unwrap(), first };
        parted.part().write(elements).unwrap();
        parted
    }

    fn part(&mut self) -> SliceMut<'_, T> {
        let end = self.buffer.len() - 1;
        self.buffer.slice_mut(self.first..end).unwrap()
    }

    /// Checks that only the part has changed, and returns it.
    fn read(&self) -> Vec<T> {
        let mut all = self.buffer.read().unwrap();
        let mut beside = vec![all.pop().unwrap()];
        beside.extend(all.drain(..self.first));
        let bytes: &[u8] = bytemuck::cast_slice(&beside);
        assert!(bytes.iter().all(|&byte| byte == BESIDE), "elements beside a part have changed: {beside:?}");
        all
    }
}

/// Numbers of elements before keys, values and results.
const PLACES: [[usize; 3]; 4] = [[0, 1, 2], [1, 1, 1], [3, 0, 1], [2, 3, 0]];
const LEN: u32 = 201;

fn all(outcome: Outcome) -> Vec<u8> {
    vec![outcome as u8; LEN as usize]
}

/// Runs every operation of a map on parts.
fn check_map(map: &impl Map<Key = u32, Value = u32>) {
    let (device, stream) = (map.device(), map.device().stream().unwrap());
    for [first, second, third] in PLACES {
        let numbers: Vec<u32> = (0..LEN).map(|n| 3 * n).collect();
        let mut keys = Parted::new(device, first, &numbers);
        let mut values = Parted::new(device, second, &numbers);
        let mut results = Parted::new(device, third, &vec![0; LEN as usize]);
        let mut outcomes = Parted::new(device, first, &vec![0u8; LEN as usize]);
        let codes = vec![OpCode::REMOVE.code() as u8; LEN as usize];
        let mut codes = Parted::new(device, second, &codes);
        let on = map.on(&stream);
        on.insert(keys.part(), values.part(), outcomes.part()).unwrap();
        assert_eq!(outcomes.read(), all(Outcome::Inserted));
        on.insert_new(keys.part(), values.part(), &mut outcomes.part()).unwrap();
        assert_eq!(outcomes.read(), all(Outcome::Found));
        on.upsert(Merge::Add, keys.part(), values.part(), None).unwrap();
        on.get(keys.part(), results.part(), outcomes.part()).unwrap();
        assert_eq!(results.read(), (0..LEN).map(|n| 6 * n).collect::<Vec<_>>());
        on.get_or_insert(keys.part(), values.part(), results.part(), outcomes.part()).unwrap();
        on.contains_key(keys.part(), outcomes.part()).unwrap();
        assert_eq!(outcomes.read(), all(Outcome::Found));
        on.execute(codes.part(), keys.part(), values.part(), results.part(), outcomes.part()).unwrap();
        assert_eq!(outcomes.read(), all(Outcome::Removed));
        on.remove(keys.part(), outcomes.part()).unwrap();
        assert_eq!(
            (outcomes.read(), keys.read(), values.read()),
            (all(Outcome::Absent), numbers.clone(), numbers)
        );
    }
    assert_eq!(map.len().unwrap(), 0);
}

#[test]
fn maps_work_on_parts_of_buffers() {
    let device = &device();
    check_map(&HashMap::<u32, u32>::builder().device(device).capacity(1000).build().unwrap());
    check_map(&SlabHash::<u32, u32>::builder().device(device).capacity(1000).build().unwrap());
    check_map(&BTree::<u32, u32>::builder().device(device).capacity(1000).build().unwrap());
    check_map(&MultiVersionBTree::<u32, u32>::builder().device(device).capacity(1000).build().unwrap());
    check_map(&SkipList::<u32, u32>::builder().device(device).capacity(1000).build().unwrap());
}

#[test]
fn ordered_queries_work_on_parts_of_buffers() {
    let tree = BTree::<u32, u32>::builder().device(&device()).capacity(1000).build().unwrap();
    let numbers: Vec<u32> = (0..LEN).collect();
    assert!(tree.insert(&numbers, &numbers).unwrap().all_placed());
    let (device, stream) = (tree.device(), tree.device().stream().unwrap());
    for [first, second, third] in PLACES {
        let (mut lows, mut highs) =
            (Parted::new(device, first, &[7u32, 100]), Parted::new(device, second, &[36u32, 180]));
        let (mut keys, mut values) =
            (Parted::new(device, third, &[0u32; 60]), Parted::new(device, third, &[0u32; 60]));
        let mut counts = Parted::new(device, first, &[0u64; 2]);
        tree.ordered_on(&stream)
            .range(lows.part(), highs.part(), 30, keys.part(), values.part(), counts.part())
            .unwrap();
        let expected: Vec<u32> = (7..37).chain(100..130).collect();
        assert_eq!((keys.read(), values.read(), counts.read()), (expected.clone(), expected, vec![30, 30]));
        let (mut found, mut outcomes) =
            (Parted::new(device, second, &[0u32; 2]), Parted::new(device, 1, &[0u8; 2]));
        tree.ordered_on(&stream).successor(lows.part(), found.part(), highs.part(), outcomes.part()).unwrap();
        assert_eq!((found.read(), highs.read()), (vec![8, 101], vec![8, 101]));
    }
}

#[test]
fn sets_lists_and_pools_work_on_parts_of_buffers() {
    let device = &device();
    let set = SlabSet::<u32>::builder().device(device).capacity(1000).build().unwrap();
    let lists = SlabMultiMap::<u32, u32>::builder().device(device).capacity(1000).build().unwrap();
    let pool = SlabAlloc::builder().device(device).super_block_slabs(64).capacity(64).build().unwrap();
    let stream = device.stream().unwrap();
    for [first, second, third] in PLACES {
        let numbers: Vec<u32> = (0..LEN).collect();
        let (mut keys, mut outcomes) =
            (Parted::new(device, first, &numbers), Parted::new(device, second, &vec![0u8; LEN as usize]));
        set.on(&stream).insert(keys.part(), outcomes.part()).unwrap();
        assert_eq!(outcomes.read(), all(Outcome::Inserted));
        set.on(&stream).remove(keys.part(), outcomes.part()).unwrap();
        assert_eq!(outcomes.read(), all(Outcome::Removed));
        let (mut values, mut counts) =
            (Parted::new(device, third, &numbers), Parted::new(device, second, &vec![0u32; LEN as usize]));
        lists.on(&stream).insert(keys.part(), values.part(), outcomes.part()).unwrap();
        lists.on(&stream).remove_all(keys.part(), counts.part()).unwrap();
        assert_eq!((outcomes.read(), counts.read()), (all(Outcome::Inserted), vec![1; LEN as usize]));
        let mut handles = Parted::new(device, first, &[0u32; 20]);
        pool.on(&stream).allocate(handles.part()).unwrap();
        assert!(handles.read().iter().all(|&word| Handle::from_word(word) != Handle::NONE));
        assert_eq!(pool.stats().unwrap().live, 20);
        pool.on(&stream).free(handles.part()).unwrap();
        assert_eq!(pool.stats().unwrap().live, 0);
    }
}

#[test]
fn parts_outside_of_a_buffer_are_refused() {
    let mut words = device().zeroed::<u32>(4).unwrap();
    let is_refused = |error: gpu::Error| matches!(error, gpu::Error::SliceRange { len: 4, .. });
    #[allow(clippy::reversed_empty_ranges)] // a range that a program may compute
    for (start, end) in [(0, 5), (5, 5), (3, 2), (usize::MAX, usize::MAX), (0, usize::MAX)] {
        assert!(is_refused(words.slice(start..end).unwrap_err()), "{start}..{end}");
        assert!(is_refused(words.slice_mut(start..end).unwrap_err()), "{start}..{end}");
    }
    assert!(is_refused(words.slice(..=usize::MAX).unwrap_err()));
    assert!(is_refused(words.split_at_mut(5).unwrap_err()));
    assert!(words.slice(4..).unwrap().is_empty() && words.slice_mut(2..2).unwrap().is_empty());
}

#[test]
fn a_pool_refuses_buffers_and_streams_of_other_devices() {
    let pool = SlabAlloc::builder().device(&device()).super_block_slabs(64).build().unwrap();
    let other = device();
    let mut foreign = other.zeroed::<u32>(8).unwrap();
    let mut own = pool.device().zeroed::<u32>(8).unwrap();
    let stream = pool.device().default_stream();
    let refusals = [
        pool.on(&stream).allocate(&mut foreign),
        pool.on(&stream).allocate_lone(&mut foreign),
        pool.on(&stream).free(&foreign),
        pool.on(&stream).free_lone(&foreign),
        pool.on(&stream).retire(&foreign),
        pool.on(&other.default_stream()).allocate(&mut own),
    ];
    for refusal in refusals {
        assert!(matches!(refusal, Err(Error::OtherDevice { .. })), "{refusal:?}");
    }
    assert_eq!(pool.stats().unwrap().live, 0);
}

#[test]
fn everything_may_be_dropped_while_batches_run() {
    let map = HashMap::<u32, u32>::builder().device(&device()).capacity(1000).build().unwrap();
    let device = map.device().clone();
    let numbers: Vec<u32> = (0..500).collect();
    let (mut outcomes, mut results) = (device.zeroed::<u8>(500).unwrap(), device.zeroed::<u32>(500).unwrap());
    let stream = device.stream().unwrap();
    {
        let (keys, values) = (device.from_slice(&numbers).unwrap(), device.from_slice(&numbers).unwrap());
        map.on(&stream).insert(&keys, &values, None).unwrap();
        map.on(&stream).get(&keys, &mut results, &mut outcomes).unwrap();
    }
    drop(stream);
    drop(map);
    assert_eq!(
        (results.read().unwrap(), outcomes.read().unwrap()),
        (numbers, vec![Outcome::Found as u8; 500])
    );
}

#[test]
fn two_threads_share_a_device_a_stream_and_a_map() {
    let map = &HashMap::<u32, u32>::builder().device(&device()).capacity(4000).build().unwrap();
    let stream = &map.device().stream().unwrap();
    let insert = |first: u32| {
        for part in 0..10 {
            let numbers: Vec<u32> = (0..100).map(|n| first + 2 * (100 * part + n)).collect();
            let keys = map.device().from_slice(&numbers).unwrap();
            let mut outcomes = map.device().zeroed::<u8>(100).unwrap();
            map.on(stream).insert(&keys, &keys, &mut outcomes).unwrap();
            assert_eq!(outcomes.read().unwrap(), [Outcome::Inserted as u8; 100]);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| insert(0));
        scope.spawn(|| insert(1));
    });
    let numbers: Vec<u32> = (0..2000).collect();
    assert_eq!(map.get(&numbers).unwrap(), numbers.iter().copied().map(Some).collect::<Vec<_>>());
}

#[test]
fn maps_work_on_memory_and_streams_of_other_libraries() {
    let map = HashMap::<u32, u32>::builder().device(&device()).capacity(1000).build().unwrap();
    let (mut keys, mut results) = (vec![5u32, 6, 7], vec![0u32; 3]);
    // SAFETY: the vectors live until the wrapped buffers are dropped, and nothing else accesses them.
    unsafe {
        let keys = map.device().wrap_memory(keys.as_mut_ptr().add(1), 2).unwrap();
        let mut values = map.device().wrap_memory(results.as_mut_ptr().add(1), 2).unwrap();
        let stream = map.device().wrap_stream(null_mut()).unwrap();
        map.on(&stream).insert(&keys, &keys, None).unwrap();
        map.on(&stream).get(&keys, &mut values, &mut map.device().zeroed(2).unwrap()).unwrap();
    }
    assert_eq!(results, [0, 6, 7]);
    assert_eq!(map.get(&[5, 6]).unwrap(), [None, Some(6)]);
}
