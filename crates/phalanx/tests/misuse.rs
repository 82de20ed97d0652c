//! Programs that misuse the library by safe code: each gets the documented error, and the structure stays
//! unchanged. Each test is a program, with all families for which the misuse exists.
//!
//! | class of misuse | programs |
//! |---|---|
//! | lengths that differ | `slices_of_other_lengths`, `buffers_of_..` |
//! | empty input | `empty_batches`, `batches_of_empty_slices`, `questions_to_empty_structures` |
//! | zero and `usize::MAX` | `.._that_no_.._has`, `lists_that_no_memory_holds`, `emulators_without_..` |
//! | parameters | `fills_and_keys_..`, `slabs_that_are_not_the_callers`, `codes_of_no_operation` |
//! | swapped ranges | `swapped_ranges*`, `ranges_that_exclude_every_key` |
//! | foreign device, stream, buffer, tree | `.._of_another_device`, `snapshots_of_another_tree` |
//! | foreign memory | `foreign_memory_that_is_none` |
//! | slices out of range, overlapping | `places_outside_of_a_buffer`; `wrong_overlap.rs` of `compile-errors` |
//! | wrong types | `files_of_other_types`, the tests of `types` |
//! | truncated and damaged files | the tests of `files` |
//! | full disk, read-only path | `files_that_cannot_..`, `streams_..`, `paths_that_hold_no_file` |
//! | no memory | the tests of `memory` |
//! | dropped while batches run | `what_a_batch_uses_..`, `.._that_a_batch_uses`, `devices_that_are_..` |
//! | threads, cloned handles | `threads_..`, `maps_that_..`, `clones_of_handles_in_other_threads`, `tasks_..`, `structures_are_valid_..` |
//! | types and ranges at their limits | `names_of_types_that_no_file_holds`, `ranges_that_were_iterated_..` |
//! | calls and panics within calls | `calls_within_calls`, `panics_of_the_callers_code` |
//! | iterators that lie, insert or panic | the tests of `iterators` |
//! | no numbers, ends of types, special bits | the tests of `numbers` |
//! | parts, counts, columns of something else | the tests of `parts` |
//! | environment | `environment.rs` |
//! | drivers, PTX, kernels | `suite.rs` of the package `phalanx-gpu`, over a driver in C |
//!
//! More cases of one structure: `bad_input.rs`, and the files of this name in folders.
use phalanx::gpu::Device;
use phalanx::{
    BTree, Error, HashMap, Map, Merge, MultiVersionBTree, Op, Outcome, Result, SkipList, SlabHash,
    SlabMultiMap, SlabSet,
};
use phalanx_testing::refuses;
use simt::emulator::Options;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use std::thread;

fn emulator() -> Device {
    Device::emulator(Options { cas128: true, ..Options::default() })
}

/// A family of maps.
trait Family: Map<Key = u32, Value = u32> + Sized {
    /// Returns a map on the device that has the pairs (1, 10) and (2, 20).
    fn filled(device: &Device) -> Self;

    /// Loads a map to the device.
    fn load_on(reader: impl Read, device: &Device) -> Result<Self>;
}

macro_rules! families {
    ($($family:ident)*) => {$(
        impl Family for $family<u32, u32> {
            fn filled(device: &Device) -> Self {
                let map = Self::builder().device(device).build().unwrap();
                map.try_extend([(1, 10), (2, 20)]).unwrap();
                map
            }

            fn load_on(reader: impl Read, device: &Device) -> Result<Self> {
                Self::load(reader, Self::builder().device(device))
            }
        }
    )*};
}
families!(HashMap SlabHash BTree MultiVersionBTree SkipList);

/// Calls `$check` with a map of each family that has the pairs (1, 10) and (2, 20).
macro_rules! each_map {
    ($check:ident) => {
        each_map!($check: HashMap SlabHash BTree MultiVersionBTree SkipList);
    };
    ($check:ident: $($family:ident)*) => {$(
        $check(<$family<u32, u32> as Family>::filled(&emulator()));
    )*};
}

#[path = "misuse/files.rs"]
mod files;
#[path = "misuse/handles.rs"]
mod handles;
#[path = "misuse/iterators.rs"]
mod iterators;
#[path = "misuse/memory.rs"]
mod memory;
#[path = "misuse/numbers.rs"]
mod numbers;
#[path = "misuse/parts.rs"]
mod parts;
#[path = "misuse/queries.rs"]
mod queries;
#[path = "misuse/sizes.rs"]
mod sizes;
#[path = "misuse/threads.rs"]
mod threads;
#[path = "misuse/types.rs"]
mod types;

/// Asserts that the map is as [`each_map`] made it.
#[track_caller]
fn is_unchanged(map: &impl Map<Key = u32, Value = u32>) {
    assert_eq!(map.len().unwrap(), 2);
    assert_eq!(map.get(&[1, 2, 3]).unwrap(), [Some(10), Some(20), None]);
}

#[test]
fn slices_of_other_lengths() {
    fn check(map: impl Map<Key = u32, Value = u32>) {
        refuses!(map.insert(&[3], &[]), Error::Length { expected: 1, found: 0, .. }, "values");
        refuses!(map.insert_new(&[], &[3]), Error::Length { .. }, "values");
        refuses!(map.upsert(Merge::Add, &[3, 4], &[3]), Error::Length { .. }, "values");
        refuses!(map.get_or_insert(&[3], &[3, 4]), Error::Length { .. }, "values");
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn empty_batches() {
    fn check(mut map: impl Map<Key = u32, Value = u32>) {
        assert_eq!(map.insert(&[], &[]).unwrap(), []);
        assert_eq!(map.insert_new(&[], &[]).unwrap(), []);
        assert_eq!(map.upsert(Merge::Add, &[], &[]).unwrap(), []);
        assert!(map.get_or_insert(&[], &[]).unwrap().is_empty() && map.get(&[]).unwrap().is_empty());
        assert_eq!(map.contains_key(&[]).unwrap(), [false; 0]);
        assert_eq!(map.remove(&[]).unwrap(), [false; 0]);
        assert!(map.execute(&[]).unwrap().is_empty());
        map.try_extend([]).unwrap();
        map.retain(|_, _| true).unwrap();
        is_unchanged(&map);
        map.clear().unwrap();
        assert_eq!((map.iter().unwrap().count(), map.export().unwrap()), (0, (vec![], vec![])));
    }
    each_map!(check);
    let many = SlabMultiMap::<u32, u32>::builder().device(&emulator()).build().unwrap();
    assert!(many.insert(&[], &[]).unwrap().all_placed() && many.get_all(&[]).unwrap().is_empty());
    assert_eq!((many.count(&[]).unwrap(), many.remove_all(&[]).unwrap()), (vec![], vec![]));
    let set = SlabSet::<u32>::builder().device(&emulator()).build().unwrap();
    assert!(set.insert(&[]).unwrap().all_placed() && set.execute(&[]).unwrap().is_empty());
}

#[test]
fn sizes_that_no_machine_has() {
    fn check<M: Map<Key = u32, Value = u32>>(map: M) {
        refuses!(M::with_capacity(0), Error::ZeroCapacity, "capacity is 0");
        refuses!(M::with_capacity(usize::MAX), Error::TooLarge { .. }, "at most");
        is_unchanged(&map);
    }
    each_map!(check);
    refuses!(SlabSet::<u32>::with_capacity(usize::MAX), Error::TooLarge { .. }, "`capacity`");
    refuses!(SlabMultiMap::<u32, u32>::with_capacity(usize::MAX), Error::TooLarge { .. }, "`capacity`");
    macro_rules! reserve {
        ($($family:ident: $error:pat),*) => {$(
            let mut map = $family::filled(&emulator());
            for more in [usize::MAX, usize::MAX / 2, 1 << 60] {
                refuses!(map.reserve(more), $error, "at most");
            }
            is_unchanged(&map);
        )*};
    }
    reserve!(HashMap: Error::TooLarge { .. });
    reserve!(BTree: Error::TooManySlabs { .. }, SkipList: Error::TooManySlabs { .. });
}

#[test]
fn fills_and_keys_that_make_no_tree() {
    macro_rules! check {
        ($($family:ident)*) => {$(
            let mut map = $family::filled(&emulator());
            for fill in [0.0, -1.0, 1.01, f64::NAN, f64::INFINITY] {
                refuses!(map.bulk_build(&[3], &[30], fill), Error::Fill(_), "above 0 and at most 1");
                refuses!(map.compact(fill), Error::Fill(_), "above 0 and at most 1");
            }
            refuses!(map.bulk_build(&[3], &[], 0.7), Error::Length { .. }, "values");
            let equal = map.device().from_slice(&[3, 3]).unwrap();
            let built = map.bulk_build_sorted(&equal, &equal, 0.7);
            refuses!(built, Error::Unsorted { many: 1 }, "sort");
            let foreign = emulator().from_slice(&[3, 4]).unwrap();
            refuses!(map.bulk_build_sorted(&foreign, &foreign, 0.7), Error::OtherDevice { what: "keys", .. });
            is_unchanged(&map);
        )*};
    }
    check!(BTree MultiVersionBTree SkipList);
}

#[test]
fn swapped_ranges() {
    fn check(mut map: impl Map<Key = u32, Value = u32>) {
        #[allow(clippy::reversed_empty_ranges)] // the misuse
        let range = 2..=1;
        refuses!(map.retain_keys(range.clone()), Error::Range { .. }, "from 2 to 1 has its ends swapped");
        refuses!(map.retain_values(range), Error::Range { .. }, "from 2 to 1 has its ends swapped");
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn streams_and_buffers_of_another_device() {
    fn check(map: impl Map<Key = u32, Value = u32>) {
        let other = emulator();
        let mut outcomes = other.zeroed::<u8>(1).unwrap();
        let (foreign, mut values) = (other.from_slice(&[3u32]).unwrap(), other.zeroed::<u32>(1).unwrap());
        let own = map.device().from_slice(&[3u32]).unwrap();
        let (stream, foreign_stream) = (map.device().default_stream(), other.default_stream());
        let on = map.on(&stream);
        refuses!(on.insert(&foreign, &foreign, None), Error::OtherDevice { what: "keys", .. });
        refuses!(on.insert(&own, &foreign, None), Error::OtherDevice { what: "values", .. });
        refuses!(on.get(&foreign, &mut values, &mut outcomes), Error::OtherDevice { what: "keys", .. });
        refuses!(on.remove(&own, &mut outcomes), Error::OtherDevice { what: "outcomes", .. });
        let on = map.on(&foreign_stream);
        refuses!(on.insert(&own, &own, None), Error::OtherDevice { what: "stream", .. });
        is_unchanged(&map);
    }
    each_map!(check);
}

#[test]
fn files_of_other_types() {
    fn check(map: impl Map<Key = u32, Value = u32>) {
        let mut file = Vec::new();
        map.save(&mut file).unwrap();
        let wide_keys = "it has a map with keys of 32 bits and values of 32 bits; \
                         expected a map with keys of 64 bits and values of 32 bits";
        refuses!(HashMap::<u64, u32>::load(&file[..], HashMap::builder()), Error::Format(_), wide_keys);
        let wide_values = "expected a map with keys of 32 bits and values of 64 bits";
        refuses!(BTree::<u32, u64>::load(&file[..], BTree::builder()), Error::Format(_), wide_values);
        let a_set = "expected a set with keys of 32 bits";
        refuses!(SlabSet::<u32>::load(&file[..], SlabSet::builder()), Error::Format(_), a_set);
        refuses!(SkipList::<u32, u32>::load(&b""[..], SkipList::builder()), Error::Format(_), "truncated");
        let half = &file[..file.len() / 2];
        refuses!(SlabHash::<u32, u32>::load(half, SlabHash::builder()), Error::Format(_), "truncated");
        let last_value = file.len() - 8; // before the checksum of four bytes
        file[last_value] ^= 1;
        let damaged = MultiVersionBTree::<u32, u32>::load(&file[..], MultiVersionBTree::builder());
        refuses!(damaged, Error::Format(_), "checksum");
    }
    each_map!(check);
    let mut file = Vec::new();
    SlabSet::<u32>::from_keys(&[1, 2]).unwrap().save(&mut file).unwrap();
    let no_map =
        "it has a set with keys of 32 bits; expected a map with keys of 32 bits and values of 32 bits";
    refuses!(HashMap::<u32, u32>::load(&file[..], HashMap::builder()), Error::Format(_), no_map);
}

#[test]
fn files_that_cannot_be_written_or_read() {
    fn check(map: impl Map<Key = u32, Value = u32>) {
        let path = tempfile::NamedTempFile::new().unwrap();
        let read_only = File::open(path.path()).unwrap();
        refuses!(map.save(read_only), Error::Io { .. }, "writing a saved structure failed");
        let write_only = File::create(path.path()).unwrap();
        let loaded = HashMap::<u32, u32>::load(write_only, HashMap::builder());
        refuses!(loaded, Error::Io { .. }, "reading a saved structure failed");
        if cfg!(target_os = "linux") {
            let full = File::create("/dev/full").unwrap();
            refuses!(map.save(full), Error::Io { .. }, "writing a saved structure failed");
        }
        let mut short = [0u8; 30];
        refuses!(map.save(&mut short[..]), Error::Io { .. }, "writing");
        refuses!(map.save(FullAtFlush), Error::Io { .. }, "writing");
        is_unchanged(&map);
    }
    each_map!(check);
}

/// Writer that fails only when it is flushed.
struct FullAtFlush;

impl Write for FullAtFlush {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Err(std::io::ErrorKind::StorageFull.into())
    }
}

/// Streams, buffers and the map itself may be dropped as soon as a batch is submitted.
#[test]
fn what_a_batch_uses_is_dropped() {
    fn check(map: impl Map<Key = u32, Value = u32>) {
        let device = map.device().clone();
        let stream = device.stream().unwrap();
        let keys = device.from_slice(&[3u32, 4]).unwrap();
        let mut outcomes = device.zeroed::<u8>(2).unwrap();
        map.on(&stream).insert(&keys, &keys, Some(&mut outcomes)).unwrap();
        drop((stream, keys));
        assert_eq!(map.get(&[3, 4]).unwrap(), [Some(3), Some(4)]);
        let stream = device.stream().unwrap();
        let keys = device.from_slice(&[3u32, 4]).unwrap();
        map.on(&stream).remove(&keys, &mut outcomes).unwrap();
        drop(map);
        assert_eq!(outcomes.read().unwrap(), [Outcome::Removed as u8; 2]);
    }
    each_map!(check);
}

#[test]
fn threads_that_share_a_map() {
    fn check(map: impl Map<Key = u32, Value = u32> + Send + Sync + 'static) {
        let map = Arc::new(map);
        let threads: Vec<_> = (0..4)
            .map(|thread| {
                let map = Arc::clone(&map);
                thread::spawn(move || {
                    let keys: Vec<u32> = (0..500).map(|n| 100 + n * 4 + thread).collect();
                    assert_eq!(map.insert(&keys, &keys).unwrap(), vec![Outcome::Inserted; 500]);
                    let adds: Vec<_> = (0..50).map(|_| Op::Upsert(Merge::Add, 1, 1)).collect();
                    assert_eq!(map.execute(&adds).unwrap().len(), 50);
                    assert_eq!(map.remove(&keys[..250]).unwrap(), [true; 250]);
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!((map.get(&[1]).unwrap(), map.len().unwrap()), (vec![Some(210)], 2 + 4 * 250));
    }
    each_map!(check);
}

/// Two maps on one device, whose handle other threads have cloned: dropping one does not affect the other.
#[test]
fn maps_that_share_a_device_across_threads() {
    fn check(map: impl Map<Key = u32, Value = u32>) {
        let device = map.device().clone();
        let other = thread::spawn(move || HashMap::<u32, u32>::builder().device(&device).build().unwrap());
        let other = other.join().unwrap();
        assert!(other.insert(&[1], &[11]).unwrap().all_placed());
        drop(other);
        is_unchanged(&map);
    }
    each_map!(check);
}
