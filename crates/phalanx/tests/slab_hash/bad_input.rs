//! Bad input is rejected at once with an error that explains the remedy, and the structure stays unchanged.
use crate::common::emulator;
use gpu::Device;
use phalanx::map::Word;
use phalanx::slab_hash::{Builder, Growth, set_variants, variants};
use phalanx::{Error, SlabHash, SlabMultiMap, SlabSet};
use phalanx_kernels::keyed::{Bare, Packed};
use phalanx_kernels::slab::list::{
    DefaultLists, DefaultPublished, DefaultSet32, DefaultSet64, DefaultWide, Lists,
};
use phalanx_kernels::slab::{Light, Spread};
use phalanx_testing::refuses;
use simt::emulator::Options;
use std::ops::RangeInclusive;

fn builder<T>() -> Builder<T> {
    Builder::default().device(&emulator().unwrap())
}

fn map() -> SlabHash<u32, u32> {
    let map = builder::<SlabHash<u32, u32>>().buckets(3).build().unwrap();
    assert!(map.insert(&[1, 2, 3], &[10, 20, u32::MAX]).unwrap().all_placed());
    map
}

fn set() -> SlabSet<u32> {
    let set = builder::<SlabSet<u32>>().buckets(3).build().unwrap();
    assert!(set.insert(&[1, 2, 3]).unwrap().all_placed());
    set
}

fn many() -> SlabMultiMap<u32, u32> {
    let many = builder::<SlabMultiMap<u32, u32>>().buckets(3).build().unwrap();
    assert!(many.insert(&[1, 1, 2], &[10, 20, 30]).unwrap().all_placed());
    many
}

/// Parameters that every builder rejects.
macro_rules! no_builder_takes_it {
    ($type:ty, $other:expr) => {
        refuses!(builder::<$type>().capacity(0).build(), Error::ZeroCapacity, "at least 1");
        refuses!(
            builder::<$type>().buckets(0).build(),
            Error::Zero { .. },
            "number of buckets",
            "at least 1"
        );
        refuses!(<$type>::with_capacity(0), Error::ZeroCapacity, "at least 1");
        for utilisation in [0.0, -0.5, 0.99, 1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let built = builder::<$type>().utilisation(utilisation).build();
            refuses!(built, Error::Utilisation { .. }, "above 0 and at most 0.9");
        }
        for slabs in [0, 1, 16, 33, 1 << 25, usize::MAX] {
            let built = builder::<$type>().super_block_slabs(slabs).build();
            refuses!(built, Error::SuperBlock(_), "power of two");
        }
        for slabs in [usize::MAX, usize::MAX / 2, 1 << 60] {
            refuses!(builder::<$type>().slabs(slabs).build(), Error::TooManySlabs { .. }, "at most");
        }
        refuses!(builder::<$type>().budget(4095).build(), Error::Budget { .. }, "4095", "raise the budget");
        for capacity in [usize::MAX, 1 << 60, 1 << 45] {
            let built = builder::<$type>().capacity(capacity).build();
            refuses!(built, Error::TooLarge { .. }, &capacity.to_string(), "`capacity`", "at most");
        }
        for pairs in [usize::MAX, 1 << 60] {
            let built = builder::<$type>().buckets(1).pool_for(pairs).build();
            refuses!(built, Error::TooLarge { .. }, &pairs.to_string(), "`pool_for`", "at most");
        }
        let built = builder::<$type>().buckets(1).capacity(usize::MAX).build();
        refuses!(built, Error::TooLarge { .. }, &usize::MAX.to_string(), "`capacity`", "at most");
        let built = builder::<$type>().buckets(u32::MAX).build();
        refuses!(built, Error::TooLarge { .. }, "4294967295 buckets", "at most 4294967293");
        let built = builder::<$type>().buckets(u32::MAX - 2).slabs(1).build();
        refuses!(built, Error::Device(gpu::Error::OutOfMemory { .. }), "bytes");
        for name in ["", "fastest", $other, "hinted8_64_2x4_u32_u32"] {
            let built = builder::<$type>().variant(name).build();
            refuses!(built, Error::UnknownVariant { .. }, name, "spread_128_4x");
        }
    };
}

#[test]
fn parameters_must_make_lists() {
    no_builder_takes_it!(SlabHash<u32, u32>, set_variants::<u32>()[0]);
    no_builder_takes_it!(SlabMultiMap<u32, u32>, variants::<u64, u64>()[0]);
    no_builder_takes_it!(SlabSet<u32>, variants::<u32, u32>()[0]);
}

#[test]
fn lists_of_all_names_can_be_made() {
    for name in variants::<u64, u64>() {
        assert_eq!(builder::<SlabHash<u64, u64>>().variant(name).build().unwrap().variant(), name);
    }
    for name in set_variants::<u32>() {
        assert_eq!(builder::<SlabSet<u32>>().variant(name).build().unwrap().variant(), name);
    }
}

#[test]
fn wide_swaps_must_be_supported() {
    let device = gpu::Device::emulator(Options { cas128: false, ..Options::default() });
    for name in variants::<u64, u64>() {
        let built = SlabHash::<u64, u64>::builder().device(&device).variant(name).build();
        if name.starts_with("published") {
            assert_eq!(built.unwrap().variant(), name);
        } else {
            refuses!(built, Error::NeedsWideSwap { .. }, name, "published", "omit the variant");
        }
    }
    let map = SlabHash::<u64, u64>::builder().device(&device).build().unwrap();
    assert!(map.variant().starts_with("published"), "the default runs: {}", map.variant());
    assert!(SlabSet::<u64>::builder().device(&device).build().is_ok(), "sets swap 8 bytes");
}

#[test]
fn slices_must_have_one_length() {
    refuses!(
        map().insert(&[1, 2], &[1]),
        Error::Length { expected: 2, found: 1, .. },
        "values",
        "2 elements"
    );
    let many = many();
    refuses!(many.insert(&[1, 2], &[1]), Error::Length { .. }, "values");
    refuses!(many.insert(&[], &[1]), Error::Length { .. }, "values");
    assert_eq!(many.len().unwrap(), 3);
}

#[test]
fn buffers_must_have_one_length() {
    let (set, many) = (set(), many());
    let (device, stream) = (set.device().clone(), set.device().default_stream());
    let two = device.from_slice(&[8u32, 9]).unwrap();
    let mut one_byte = device.zeroed::<u8>(1).unwrap();
    let on = set.on(&stream);
    refuses!(on.insert(&two, &mut one_byte), Error::Length { .. }, "outcomes");
    refuses!(on.contains_key(&two, &mut one_byte), Error::Length { .. }, "outcomes");
    refuses!(on.remove(&two, &mut one_byte), Error::Length { .. }, "outcomes");
    assert_eq!(set.contains_key(&[8, 9]).unwrap(), [false, false]);
    let (device, stream) = (many.device().clone(), many.device().default_stream());
    let (mut two, mut one) = (device.from_slice(&[8u32, 9]).unwrap(), device.from_slice(&[1u32]).unwrap());
    let keys = device.from_slice(&[8u32, 9]).unwrap();
    let (offsets, offset) = (device.zeroed::<u64>(2).unwrap(), device.zeroed::<u64>(1).unwrap());
    let mut counts = device.zeroed::<u32>(2).unwrap();
    let mut one_byte = device.zeroed::<u8>(1).unwrap();
    let on = many.on(&stream);
    refuses!(on.insert(&keys, &one, None), Error::Length { .. }, "values");
    refuses!(on.insert(&keys, &two, Some(&mut one_byte)), Error::Length { .. }, "outcomes");
    refuses!(on.count(&keys, &mut one), Error::Length { .. }, "counts");
    refuses!(on.remove_all(&keys, &mut one), Error::Length { .. }, "counts");
    refuses!(on.remove_one(&keys, &mut one_byte), Error::Length { .. }, "outcomes");
    refuses!(on.get_all(&keys, &offset, &mut two, &mut counts), Error::Length { .. }, "offsets");
    refuses!(on.get_all(&keys, &offsets, &mut two, &mut one), Error::Length { .. }, "counts");
    assert_eq!(many.len().unwrap(), 3);
}

#[test]
fn buffers_and_streams_must_be_of_the_same_device() {
    let (set, many, other) = (set(), many(), emulator().unwrap());
    let keys = other.from_slice(&[8u32]).unwrap();
    let (mut codes, mut counts) = (other.zeroed::<u8>(1).unwrap(), other.zeroed::<u32>(1).unwrap());
    let stream = set.device().default_stream();
    refuses!(set.on(&stream).insert(&keys, &mut codes), Error::OtherDevice { what: "keys", .. }, "device");
    let own = set.device().from_slice(&[8u32]).unwrap();
    refuses!(set.on(&stream).remove(&own, &mut codes), Error::OtherDevice { what: "outcomes", .. }, "device");
    let foreign = other.default_stream();
    let mut own_codes = set.device().zeroed::<u8>(1).unwrap();
    refuses!(
        set.on(&foreign).insert(&own, &mut own_codes),
        Error::OtherDevice { what: "stream", .. },
        "device"
    );
    let stream = many.device().default_stream();
    let mut own = many.device().from_slice(&[8u32]).unwrap();
    let offsets = other.zeroed::<u64>(1).unwrap();
    let on = many.on(&stream);
    refuses!(on.insert(&keys, &own, None), Error::OtherDevice { what: "keys", .. });
    refuses!(on.insert(&own, &keys, None), Error::OtherDevice { what: "values", .. });
    refuses!(on.insert(&own, &own, Some(&mut codes)), Error::OtherDevice { what: "outcomes", .. });
    refuses!(on.count(&own, &mut counts), Error::OtherDevice { what: "counts", .. });
    refuses!(on.remove_all(&keys, &mut counts), Error::OtherDevice { what: "keys", .. });
    refuses!(on.insert(&keys, &keys, Some(&mut codes)), Error::OtherDevice { what: "keys", .. });
    refuses!(on.count(&keys, &mut counts), Error::OtherDevice { what: "keys", .. });
    refuses!(on.remove_one(&own, &mut codes), Error::OtherDevice { what: "outcomes", .. });
    let mut own_counts = many.device().zeroed::<u32>(1).unwrap();
    let asked = many.device().from_slice(&[8u32]).unwrap();
    refuses!(
        on.get_all(&asked, &offsets, &mut own, &mut own_counts),
        Error::OtherDevice { what: "offsets", .. }
    );
    let on = many.on(&foreign);
    refuses!(on.insert(&asked, &own, None), Error::OtherDevice { what: "stream", .. });
    refuses!(on.count(&asked, &mut own_counts), Error::OtherDevice { what: "stream", .. });
    let mut own_codes = many.device().zeroed::<u8>(1).unwrap();
    refuses!(on.remove_one(&asked, &mut own_codes), Error::OtherDevice { what: "stream", .. });
    assert_eq!((set.len().unwrap(), many.len().unwrap()), (3, 3));
}

#[test]
fn buckets_must_be_there() {
    macro_rules! check {
        ($structure:expr) => {{
            let mut structure = $structure;
            for bucket in [3, 4, u32::MAX] {
                refuses!(structure.flush(&[0, bucket, 1]), Error::Bucket { count: 3, .. }, "has 3");
            }
            refuses!(structure.rehash(0), Error::Zero { .. }, "number of buckets", "at least 1");
            refuses!(structure.rehash(u32::MAX), Error::TooLarge { .. }, "4294967295 buckets");
            assert_eq!((structure.len().unwrap(), structure.buckets()), (3, 3));
            structure.validate().unwrap();
        }};
    }
    check!(map());
    check!(set());
    check!(many());
}

#[test]
fn ranges_must_not_be_swapped() {
    let (mut set, mut many) = (set(), many());
    refuses!(
        map().retain_keys(RangeInclusive::new(3, 1)),
        Error::Range { .. },
        "from 3 to 1 has its ends swapped"
    );
    refuses!(
        set.retain_keys(RangeInclusive::new(3, 1)),
        Error::Range { .. },
        "from 3 to 1 has its ends swapped"
    );
    refuses!(many.retain_keys(RangeInclusive::new(3, 1)), Error::Range { .. }, "swapped");
    refuses!(many.retain_values(RangeInclusive::new(1, 0)), Error::Range { .. }, "swapped");
    assert_eq!((set.len().unwrap(), many.len().unwrap()), (3, 3));
}

#[test]
fn views_must_be_of_the_maps_kind() {
    let map = map();
    assert_eq!(map.variant(), "spread_128_4x4_u32_u32");
    // SAFETY: no kernel uses the views.
    unsafe {
        assert!(map.view::<DefaultLists>().is_ok());
        let light = map.view::<Lists<Packed, Light<128>, 4, 4>>();
        refuses!(
            light,
            Error::OtherVariant { .. },
            "spread_128_4x4_u32_u32",
            ".variant(\"light_128_4x4_u32_u32\")"
        );
        refuses!(
            map.view::<Lists<Packed, Spread<128>, 8, 2>>(),
            Error::OtherVariant { .. },
            "spread_128_8x2"
        );
        let map = builder::<SlabHash<u64, u64>>().build().unwrap();
        assert!(map.view::<DefaultWide<u64, u64>>().is_ok());
        let published = map.view::<DefaultPublished<u64, u64>>();
        refuses!(published, Error::OtherVariant { .. }, "published_spread_128_4x2_u64_u64");
        let old = Device::emulator(Options { cas128: false, ..Options::default() });
        let many = builder::<SlabMultiMap<u64, u32>>().device(&old).build().unwrap();
        assert!(many.view::<DefaultPublished<u64, u32>>().is_ok());
        refuses!(many.view::<DefaultWide<u64, u32>>(), Error::OtherVariant { .. }, "spread_128_4x2_u64_u32");
        assert!(set().view::<DefaultSet32>().is_ok());
        assert!(builder::<SlabSet<u64>>().build().unwrap().view::<DefaultSet64>().is_ok());
        refuses!(
            set().view::<Lists<Bare<u32>, Spread<128>, 32, 1>>(),
            Error::OtherVariant { .. },
            "32x1_u32"
        );
    }
}

fn saved(write: impl FnOnce(&mut Vec<u8>) -> phalanx::Result<()>) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes).unwrap();
    bytes
}

#[test]
fn files_of_other_things_are_refused() {
    let (of_map, of_set) = (saved(|bytes| map().save(bytes)), saved(|bytes| set().save(bytes)));
    let of_many = saved(|bytes| many().save(bytes));
    let set_of_32 = "a set with keys of 32 bits";
    let map_of_32 = "a map with keys of 32 bits and values of 32 bits";
    let narrow_set = SlabSet::<u32>::load(&of_map[..], builder());
    refuses!(narrow_set, Error::Format(_), &format!("it has {map_of_32}; expected {set_of_32}"));
    let wide_set = SlabSet::<u64>::load(&of_set[..], builder());
    refuses!(wide_set, Error::Format(_), set_of_32, "expected a set with keys of 64 bits");
    let map = SlabHash::<u32, u32>::load(&of_set[..], builder());
    refuses!(map, Error::Format(_), &format!("it has {set_of_32}; expected {map_of_32}"));
    let wide = SlabMultiMap::<u32, u64>::load(&of_many[..], builder());
    refuses!(wide, Error::Format(_), map_of_32, "expected a map with keys of 32 bits and values of 64 bits");
    // A map has one value per key. A multimap can load it, but not vice versa.
    refuses!(SlabHash::<u32, u32>::load(&of_many[..], builder()), Error::Format(_), "a key occurs twice");
    assert_eq!(SlabMultiMap::<u32, u32>::load(&of_map[..], builder()).unwrap().len().unwrap(), 3);
    assert_eq!(SlabMultiMap::<u32, u32>::load(&of_many[..], builder()).unwrap().count(&[1]).unwrap(), [2]);
}

/// The error does not blame the file when the structure must not allocate the memory for it.
#[test]
fn what_is_larger_than_its_room_is_not_loaded() {
    let keys: Vec<u32> = (0..5000).collect();
    let (wide, set) = (builder::<SlabMultiMap<u32, u32>>(), builder::<SlabSet<u32>>());
    let (wide, set) = (wide.build().unwrap(), set.build().unwrap());
    assert!(wide.insert(&keys, &keys).unwrap().all_placed());
    assert!(set.insert(&keys).unwrap().all_placed());
    let (pairs, keys) = (saved(|bytes| wide.save(bytes)), saved(|bytes| set.save(bytes)));
    fn fixed<T>() -> Builder<T> {
        builder().buckets(1).slabs(1).growth(Growth::Fixed)
    }
    fn small<T>() -> Builder<T> {
        builder().buckets(1).slabs(1).budget(128 * 64)
    }
    refuses!(
        SlabHash::<u32, u32>::load(&pairs[..], fixed()),
        Error::DoesNotFit { pairs: 5000, .. },
        "of 5000",
        "budget"
    );
    refuses!(
        SlabHash::<u32, u32>::load(&pairs[..], small()),
        Error::DoesNotFit { pairs: 5000, .. },
        "of 5000",
        "budget"
    );
    refuses!(
        SlabMultiMap::<u32, u32>::load(&pairs[..], small()),
        Error::DoesNotFit { pairs: 5000, .. },
        "of 5000",
        "budget"
    );
    refuses!(
        SlabSet::<u32>::load(&keys[..], small()),
        Error::DoesNotFit { pairs: 5000, .. },
        "of 5000",
        "budget"
    );
}

/// Flips one bit of every byte, and truncates at every length.
fn damage<K: Word>(good: &[u8], load: impl Fn(&[u8]) -> phalanx::Result<SlabSet<K>>) {
    assert_eq!(load(good).unwrap().len().unwrap(), 3);
    for place in 0..good.len() {
        let mut bad = good.to_vec();
        bad[place] ^= 1 << (place % 8);
        refuses!(load(&bad), Error::Format(_), "stored data cannot be read");
        refuses!(load(&good[..place]), Error::Format(_), "it is truncated");
    }
}

#[test]
fn damaged_files_are_refused() {
    damage(&saved(|bytes| set().save(bytes)), |bytes| SlabSet::<u32>::load(bytes, builder()));
}
