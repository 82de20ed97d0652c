//! Bad input is rejected at once with an error that explains the remedy, and the map stays unchanged.
use phalanx::gpu::Device;
use phalanx::hash_map::{Builder, Growth, Merge, Op, Outcome, variants};
use phalanx::{Error, HashMap};
use phalanx_kernels::hash_map::{
    Config, Counters, DefaultPublished, DefaultTable, DefaultWide, DoubleHash, EntryRef, Kind, MapView,
    Operation, Outcome as Code, Packed, Table,
};
use phalanx_testing::refuses;
use simt::emulator::Options;
use simt::{Global, Instance};
use std::io::{self, ErrorKind};
use std::ops::RangeInclusive;

fn emulator() -> Device {
    Device::emulator(Options { cas128: true, ..Options::default() })
}

fn builder() -> Builder<u32, u32> {
    HashMap::builder().device(&emulator())
}

/// Returns a map with a few pairs.
fn map() -> HashMap<u32, u32> {
    let map = builder().build().unwrap();
    assert!(map.insert(&[1, 2, 3], &[10, 20, u32::MAX]).unwrap().all_placed());
    map
}

#[test]
fn slices_must_have_one_length() {
    let map = map();
    refuses!(map.insert(&[1, 2], &[1]), Error::Length { expected: 2, found: 1, .. }, "values", "2 elements");
    refuses!(map.insert_new(&[1], &[]), Error::Length { .. }, "values");
    refuses!(map.upsert(Merge::Add, &[1], &[1, 2]), Error::Length { .. }, "values");
    refuses!(map.get_or_insert(&[], &[1]), Error::Length { .. }, "values");
    refuses!(map.replace(&[], &[1]), Error::Length { .. }, "values");
    assert_eq!(map.len().unwrap(), 3);
}

#[test]
fn buffers_must_have_one_length() {
    let map = map();
    let (device, stream) = (map.device().clone(), map.device().default_stream());
    let two = device.from_slice(&[8u32, 9]).unwrap();
    let mut one = device.from_slice(&[1u32]).unwrap();
    let (mut few, mut bytes) = (device.zeroed::<u8>(1).unwrap(), device.zeroed::<u8>(2).unwrap());
    let on = map.on(&stream);
    refuses!(on.insert(&two, &one, None), Error::Length { .. }, "values");
    refuses!(on.insert(&two, &two, Some(&mut few)), Error::Length { .. }, "outcomes");
    refuses!(on.insert_new(&two, &one, None), Error::Length { .. }, "values");
    refuses!(on.upsert(Merge::Max, &two, &one, None), Error::Length { .. }, "values");
    // A batch takes buffers for all elements, however few its count includes.
    refuses!(on.insert(two.bounded_by(&one).unwrap(), &one, None), Error::Length { .. }, "values");
    refuses!(two.bounded_by(&two), gpu::Error::Length { .. }, "bounded_by");
    refuses!(two.bounded_by(two.slice(2..).unwrap()), gpu::Error::Length { .. }, "bounded_by");
    refuses!(on.get(&two, &mut one, &mut bytes), Error::Length { .. }, "values");
    refuses!(on.contains_key(&two, &mut few), Error::Length { .. }, "outcomes");
    refuses!(on.remove(&two, &mut few), Error::Length { .. }, "outcomes");
    let mut results = device.zeroed::<u32>(2).unwrap();
    let codes = device.zeroed::<u8>(2).unwrap();
    refuses!(on.get_or_insert(&two, &one, &mut results, &mut bytes), Error::Length { .. }, "values");
    refuses!(on.get_or_insert(&two, &two, &mut one, &mut bytes), Error::Length { .. }, "results");
    refuses!(on.get_or_insert(&two, &two, &mut results, &mut few), Error::Length { .. }, "outcomes");
    refuses!(on.replace(&two, &one, &mut results, &mut bytes), Error::Length { .. }, "values");
    refuses!(on.replace(&two, &two, &mut one, &mut bytes), Error::Length { .. }, "results");
    refuses!(on.take(&two, &mut one, &mut bytes), Error::Length { .. }, "values");
    refuses!(on.take(&two, &mut results, &mut few), Error::Length { .. }, "outcomes");
    refuses!(on.execute(&few, &two, &two, &mut results, &mut bytes), Error::Length { .. }, "codes");
    refuses!(on.execute(&codes, &two, &one, &mut results, &mut bytes), Error::Length { .. }, "arguments");
    refuses!(on.execute(&codes, &two, &two, &mut one, &mut bytes), Error::Length { .. }, "results");
    refuses!(on.execute(&codes, &two, &two, &mut results, &mut few), Error::Length { .. }, "outcomes");
    assert_eq!(map.get(&[8, 9]).unwrap(), [None, None]);
}

#[test]
fn buffers_and_streams_must_be_of_the_maps_device() {
    let (map, other) = (map(), emulator());
    let (device, stream) = (map.device().clone(), map.device().default_stream());
    let mut own = device.from_slice(&[8u32]).unwrap();
    let mut codes = device.from_slice(&[1u8]).unwrap();
    let foreign = other.from_slice(&[8u32]).unwrap();
    let (mut foreign_values, mut foreign_codes) = (other.zeroed(1).unwrap(), other.zeroed::<u8>(1).unwrap());
    let on = map.on(&stream);
    refuses!(on.insert(&foreign, &own, None), Error::OtherDevice { what: "keys", .. }, "keys", "device");
    refuses!(on.insert(&own, &foreign, None), Error::OtherDevice { what: "values", .. }, "values");
    refuses!(on.insert(&own, &own, Some(&mut foreign_codes)), Error::OtherDevice { .. }, "outcomes");
    refuses!(on.insert_new(&own, &foreign, None), Error::OtherDevice { .. }, "values");
    refuses!(on.upsert(Merge::Add, &own, &foreign, None), Error::OtherDevice { .. }, "values");
    refuses!(on.get(&own, &mut foreign_values, &mut codes), Error::OtherDevice { .. }, "values");
    refuses!(on.contains_key(&foreign, &mut codes), Error::OtherDevice { .. }, "keys");
    refuses!(on.remove(&foreign, &mut codes), Error::OtherDevice { .. }, "keys");
    let mut bytes = device.zeroed::<u8>(1).unwrap();
    let mut run = |codes, arguments, results: &mut _| on.execute(codes, &own, arguments, results, &mut bytes);
    refuses!(run(&foreign_codes, &own, &mut foreign_values), Error::OtherDevice { .. }, "codes");
    refuses!(run(&codes, &foreign, &mut foreign_values), Error::OtherDevice { .. }, "arguments");
    refuses!(run(&codes, &own, &mut foreign_values), Error::OtherDevice { .. }, "results");
    let counted = own.bounded_by(&foreign).unwrap();
    refuses!(on.contains_key(counted, &mut codes), Error::OtherDevice { what: "count", .. }, "count");
    // Of several foreign buffers, the keys are named.
    let mut foreign_results = other.zeroed::<u32>(1).unwrap();
    refuses!(on.insert(&foreign, &foreign, None), Error::OtherDevice { what: "keys", .. }, "keys");
    refuses!(
        on.get(&foreign, &mut foreign_results, &mut foreign_codes),
        Error::OtherDevice { what: "keys", .. },
        "keys"
    );
    let stream = other.default_stream();
    let on = map.on(&stream);
    refuses!(on.insert(&own, &foreign, None), Error::OtherDevice { .. }, "values");
    refuses!(on.remove(&own, &mut codes), Error::OtherDevice { what: "stream", .. }, "stream");
    refuses!(on.get(&foreign, &mut own, &mut codes), Error::OtherDevice { .. }, "device");
    assert_eq!(map.get(&[8, 1]).unwrap(), [None, Some(10)], "the map is as it was");
}

#[test]
fn parameters_must_make_a_table() {
    refuses!(builder().capacity(0).build(), Error::ZeroCapacity, "at least 1");
    refuses!(HashMap::<u64, u64>::with_capacity(0), Error::ZeroCapacity, "at least 1");
    for load_factor in [0.0, -0.5, 1.0001, 2.0, f64::NAN, f64::INFINITY] {
        refuses!(builder().load_factor(load_factor).build(), Error::LoadFactor(_), "above 0 and at most 1");
    }
}

#[test]
fn variants_must_be_known() {
    let known = variants::<u32, u32>();
    for name in ["", "fastest", "double_64_2x2_u64_u64", "hinted8_64_2x4_u32_u32 "] {
        refuses!(
            builder().variant(name).build(),
            Error::UnknownVariant { .. },
            known[0],
            *known.last().unwrap(),
            name
        );
    }
}

#[test]
fn wide_swaps_must_be_supported() {
    let device = Device::emulator(Options { cas128: false, ..Options::default() });
    for name in variants::<u64, u64>() {
        let built = HashMap::<u64, u64>::builder().device(&device).variant(name).build();
        if name.starts_with("published") {
            assert_eq!(built.unwrap().variant(), name);
        } else {
            refuses!(built, Error::NeedsWideSwap { .. }, name, "published", "omit the variant");
        }
    }
    let map = HashMap::<u64, u64>::builder().device(&device).build().unwrap();
    assert!(map.variant().starts_with("published"), "the default runs: {}", map.variant());
    assert_eq!(map.insert(&[1], &[2]).unwrap(), [Outcome::Inserted]);
    // Ordered maps have no variant for such devices, so their message must not recommend leaving the variant
    // out.
    let tree = phalanx::BTree::<u64, u64>::builder().device(&device).build();
    refuses!(tree, Error::NeedsWideSwap { .. }, "ordered map", "32 bits");
    let list = phalanx::SkipList::<u32, u64>::builder().device(&device).build();
    refuses!(list, Error::NeedsWideSwap { .. }, "ordered map", "32 bits");
    assert!(phalanx::SkipList::<u32, u32>::builder().device(&device).build().is_ok());
}

#[test]
fn capacities_beyond_reach_are_refused_at_once() {
    let started = std::time::Instant::now();
    for capacity in [usize::MAX, usize::MAX / 2, 1 << 60, 1 << 45] {
        refuses!(
            builder().capacity(capacity).build(),
            Error::TooLarge { .. },
            "split the keys over several maps"
        );
        refuses!(builder().capacity(capacity).load_factor(0.001).build(), Error::TooLarge { .. }, "at most");
    }
    // The size, a quarter of a terabyte, is addressable, but exceeds the memory of all test machines.
    let built = builder().variant("hinted16_256_32x1_u32_u32").capacity(25 << 30).build();
    refuses!(built, Error::Device(phalanx::gpu::Error::OutOfMemory { .. }), "bytes");
    let mut map = map();
    for more in [usize::MAX, 1 << 50] {
        refuses!(map.reserve(more), Error::TooLarge { .. }, "at most");
    }
    assert_eq!(map.get(&[1, 2]).unwrap(), [Some(10), Some(20)], "the map is as it was");
    assert!(started.elapsed().as_secs() < 20, "it took {:?}", started.elapsed());
}

#[test]
fn sizes_of_ordered_maps_are_named() {
    let most = &usize::MAX.to_string();
    let tree = || phalanx::BTree::<u32, u32>::builder().device(&emulator());
    refuses!(tree().capacity(usize::MAX).build(), Error::TooLarge { .. }, most, "`capacity`", "at most");
    refuses!(tree().nodes(usize::MAX).build(), Error::TooManySlabs { .. }, most, "slabs", "fewer");
    let list = || phalanx::SkipList::<u32, u32>::builder().device(&emulator());
    refuses!(list().capacity(usize::MAX).build(), Error::TooLarge { .. }, most, "`capacity`", "at most");
    refuses!(list().nodes(usize::MAX).build(), Error::TooManySlabs { .. }, most, "slabs", "fewer");
}

#[test]
fn ranges_must_not_be_swapped() {
    let mut map = map();
    refuses!(
        map.retain_keys(RangeInclusive::new(3, 1)),
        Error::Range { .. },
        "from 3 to 1 has its ends swapped"
    );
    refuses!(
        map.retain_values(RangeInclusive::new(1, 0)),
        Error::Range { .. },
        "from 1 to 0 has its ends swapped"
    );
    assert_eq!(map.len().unwrap(), 3);
}

#[test]
fn views_must_be_of_the_maps_kind() {
    let map = map();
    assert_eq!(map.variant(), "hinted8_64_2x4_u32_u32");
    // SAFETY: no kernel uses the views.
    let (right, wrong) =
        unsafe { (map.view::<DefaultTable>(), map.view::<Table<Packed, DoubleHash, 2, 4>>()) };
    assert!(right.is_ok());
    refuses!(
        wrong,
        Error::OtherVariant { .. },
        "hinted8_64_2x4_u32_u32",
        ".variant(\"double_64_2x4_u32_u32\")"
    );
    let old = Device::emulator(Options { cas128: false, ..Options::default() });
    let new = HashMap::<u64, u32>::builder().device(&emulator()).build().unwrap();
    let old = HashMap::<u32, u64>::builder().device(&old).build().unwrap();
    // SAFETY: no kernel uses the views.
    unsafe {
        assert!(new.view::<DefaultWide<u64, u32>>().is_ok());
        assert!(old.view::<DefaultPublished<u32, u64>>().is_ok());
    }
}

/// Table type that reports the name of the default variant.
#[derive(Clone, Copy)]
struct Namesake;

type Base = Table<Packed, DoubleHash, 2, 4>;

// SAFETY: no kernel uses a view of this type.
unsafe impl Kind for Namesake {
    type Key = u32;
    type Value = u32;
    type Slot = Packed;
    type View = MapView<Self>;
    const TILE: u32 = Base::TILE;
    const REGISTERS: u32 = Base::REGISTERS;

    fn execute<O: Operation>(_: MapView<Self>, _: bool, _: O, _: u32, argument: u32) -> (Code, u32) {
        (Code::Absent, argument)
    }

    fn counters(_: MapView<Self>) -> Counters {
        // SAFETY: nothing is counted in them.
        unsafe { Counters::new(Global::new(std::ptr::dangling_mut())) }
    }

    fn scan_threads(_: MapView<Self>) -> usize {
        0
    }

    fn scan(_: MapView<Self>, _: usize, _: impl FnMut(Option<EntryRef<Self>>)) {}
}

// SAFETY: the layout is that of `Base`.
unsafe impl Config for Namesake {
    const SLOTS: u32 = Base::SLOTS;
    const FILTER_BITS: u32 = Base::FILTER_BITS;
    const BUCKET_BYTES: usize = Base::BUCKET_BYTES;
    const EXTRA_PROBES: u32 = Base::EXTRA_PROBES;
}

impl Instance for Namesake {
    const NAME: &'static str = "hinted8_64_2x4_u32_u32";
}

#[test]
fn a_kinds_name_is_not_enough_for_a_view() {
    // SAFETY: no kernel uses the view.
    let view = unsafe { map().view::<Namesake>() };
    refuses!(view, Error::OtherVariant { .. }, "hinted8_64_2x4_u32_u32");
}

/// Returns 12 keys whose probe sequences begin in the first of `buckets` buckets.
fn neighbours(buckets: usize) -> Vec<u32> {
    let first = |key: &u32| simt::hash::reduce(simt::hash::mix32(*key), buckets as u32) == 0;
    (0..u32::MAX - 2).filter(first).take(12).collect()
}

/// A key does not fit, and growth is impossible because many pairs are held at a tiny load factor. Only this
/// key is refused, and the outcomes of all other elements are reported.
#[test]
fn growth_that_fails_refuses_only_what_needs_it() {
    let map = builder().capacity(1).load_factor(1e-6).max_probes(1).build().unwrap();
    let (keys, others): (_, Vec<u32>) =
        (neighbours(map.slots() / 8), (1 << 24..(1 << 24) + 20_000).collect());
    assert_eq!(map.insert(&keys[..8], &keys[..8]).unwrap(), [Outcome::Inserted; 8]);
    assert_eq!(map.insert(&others, &others).unwrap(), [Outcome::Inserted; 20_000]);
    let batch: Vec<u32> = [keys[0], 5].into_iter().chain([keys[9]; 500]).collect();
    let error = map.upsert(Merge::Add, &batch, &vec![1; batch.len()]).unwrap_err();
    assert!(error.to_string().starts_with("500 of 502 elements do not fit"), "{error}");
    let outcomes = error.outcomes().expect("they are told");
    assert_eq!((outcomes.refused(), outcomes.asked(), outcomes.count(Outcome::Inserted)), (500, 502, 1));
    assert_eq!(outcomes[..2], [Outcome::Replaced, Outcome::Inserted]);
    assert_eq!(outcomes[2..], [Outcome::Refused; 500]);
    assert_eq!(map.get(&[keys[0], 5, keys[9]]).unwrap(), [Some(keys[0] + 1), Some(1), None]);
    assert_eq!(map.len().unwrap(), 20_009);
}

#[test]
fn a_refused_batch_says_so_for_each_element() {
    let map = builder().capacity(1).growth(Growth::Fixed).build().unwrap();
    let keys: Vec<u32> = (0..200).collect();
    let answers = map.execute(&keys.iter().map(|&key| Op::Insert(key, 1)).collect::<Vec<_>>()).unwrap();
    let refused = answers.iter().filter(|answer| answer.0 == Outcome::Refused).count();
    assert_eq!(refused, 200 - map.slots());
}

fn saved() -> Vec<u8> {
    let mut bytes = Vec::new();
    map().save(&mut bytes).unwrap();
    bytes
}

fn load(bytes: &[u8]) -> phalanx::Result<HashMap<u32, u32>> {
    HashMap::load(bytes, builder())
}

/// Replaces the last four bytes by the correct checksum.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 4;
    let checksum = crc32fast::hash(&bytes[..end]).to_le_bytes();
    bytes[end..].copy_from_slice(&checksum);
    bytes
}

#[test]
fn damaged_files_are_refused() {
    let good = saved();
    assert_eq!(load(&good).unwrap().len().unwrap(), 3);
    assert_eq!(sealed(good.clone()), good);
    for place in 0..good.len() {
        let mut bad = good.clone();
        bad[place] ^= 1 << (place % 8);
        refuses!(load(&bad), Error::Format(_), "stored data cannot be read");
    }
    for len in 0..good.len() {
        refuses!(load(&good[..len]), Error::Format(_), "it is truncated");
    }
}

#[test]
fn other_files_are_refused() {
    let good = saved();
    refuses!(load(b"PK\x03\x04 something else"), Error::Format(_), "does not begin with PHXMAP");
    let mut newer = good.clone();
    newer[6] = 9;
    refuses!(load(&sealed(newer)), Error::Format(_), "version is 9", "supported: 1");
    refuses!(
        HashMap::<u64, u32>::load(&good[..], HashMap::builder().device(&emulator())),
        Error::Format(_),
        "it has a map with keys of 32 bits and values of 32 bits",
        "expected a map with keys of 64 bits and values of 32 bits"
    );
    refuses!(
        HashMap::<u32, u64>::load(&good[..], HashMap::builder().device(&emulator())),
        Error::Format(_),
        "expected a map with keys of 32 bits and values of 64 bits"
    );
    // The header announces so many pairs that their memory cannot be allocated.
    let mut long = good.clone();
    long[16..24].copy_from_slice(&u64::MAX.to_le_bytes());
    refuses!(load(&sealed(long)), Error::Format(_), "it is truncated");
    // Contains the first key twice.
    let mut twice = good.clone();
    let keys = twice.len() - 4 - 3 * 8; // before three keys, three values and the checksum
    twice.copy_within(keys..keys + 4, keys + 4);
    refuses!(load(&sealed(twice)), Error::Format(_), "a key occurs twice");
}

/// Stream that fails.
struct Broken;

impl io::Write for Broken {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Broken {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(ErrorKind::ConnectionReset.into())
    }
}

#[test]
fn failing_streams_are_told() {
    refuses!(map().save(Broken), Error::Io { .. }, "writing a saved structure");
    refuses!(HashMap::<u32, u32>::load(Broken, builder()), Error::Io { .. }, "reading a saved structure");
}
