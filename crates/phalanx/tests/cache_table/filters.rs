//! Scans by predicates, against a model.
use crate::batches::random;
use crate::model::Table;
use gpu::Grid;
use phalanx::CacheTable;
use phalanx::cache_table::{Filter, Rule};
use phalanx_kernels::cache::scan::{count_selected, export_selected, remove_selected};
use phalanx_kernels::cache::{
    BuiltIn, Cache, CacheView, Chunk, Digest, Evicted, Hashed, RowSlice, Rows, SLOTS, Select, Span,
};
use simt::{GlobalSlice, kernel};
use std::collections::BTreeMap;

/// Returns a table of random keys with scores below 100, and its contents.
fn filled(seed: u64) -> (Table, BTreeMap<u64, u64>) {
    let table = Table::builder().capacity(1000).dim(3).rule(Rule::Custom).seed(seed).build().unwrap();
    let mut random = random(seed);
    let keys: Vec<u64> = (0..500).map(|_| random(2000) << (8 * random(7))).collect();
    let scores: Vec<u64> = keys.iter().map(|key| key % 97).collect();
    let rows: Vec<u32> = keys.iter().flat_map(|key| [*key as u32; 3]).collect();
    let _ = table.insert_scored(&keys, &rows, &scores).unwrap();
    let found = table.export(..).unwrap();
    assert!(found.keys.len() > 250);
    (table, found.keys.into_iter().zip(found.scores).collect())
}

/// A filter, with the predicate that it stands for.
type Case = (Filter<u64, u64>, fn(u64, u64) -> bool);

/// Returns filters of all kinds.
fn filters() -> Vec<Case> {
    let all = Filter::all();
    vec![
        (all, |_, _| true),
        (all.keys(1000..=1 << 40), |key, _| (1000..=1 << 40).contains(&key)),
        (all.keys(5..5), |_, _| false),
        (all.key_bits(0xff00, 0x0100), |key, _| key & 0xff00 == 0x0100),
        (all.key_bits(7, 8), |_, _| false),
        (all.scores(50..), |_, score| score >= 50),
        (all.scores(..0), |_, _| false),
        (all.keys(..1 << 30).key_bits(1, 1).scores(10..20), |key, score| {
            key < 1 << 30 && key & 1 == 1 && (10..20).contains(&score)
        }),
    ]
}

#[test]
fn filters_select_what_their_predicates_select() {
    for (index, (filter, selects)) in filters().into_iter().enumerate() {
        let (table, entries) = filled(index as u64);
        let (chosen, others): (BTreeMap<u64, u64>, BTreeMap<_, _>) =
            entries.into_iter().partition(|(key, score)| selects(*key, *score));
        assert_eq!(table.len_if(filter).unwrap(), chosen.len(), "{filter:?}");
        let found = table.export_if(filter).unwrap();
        assert!(found.rows.chunks(3).zip(&found.keys).all(|(row, key)| row == [*key as u32; 3]));
        assert_eq!(found.keys.into_iter().zip(found.scores).collect::<BTreeMap<_, _>>(), chosen);
        assert_eq!(table.remove_if(filter).unwrap(), chosen.len());
        let left = table.export(..).unwrap();
        assert_eq!(left.keys.into_iter().zip(left.scores).collect::<BTreeMap<_, _>>(), others);
    }
}

#[test]
fn removed_slots_are_used_again() {
    let table = CacheTable::<u32, u32, u32>::builder().capacity(128).rule(Rule::Custom).build().unwrap();
    let keys: Vec<u32> = (0..128).collect();
    assert!(table.insert_scored(&keys, &keys, &keys).unwrap().all_placed());
    assert_eq!(table.remove_if(Filter::all().key_bits(3, 2)).unwrap(), 32);
    let others: Vec<u32> = (1000..1032).collect();
    // With the lowest scores: they find free slots.
    assert!(table.insert_scored(&others, &others, &[0; 32]).unwrap().all_placed());
    assert_eq!((table.len().unwrap(), table.len_if(Filter::all().keys(..128)).unwrap()), (128, 96));
}

#[test]
fn leased_rows_stay() {
    let table = Table::builder().capacity(128).build().unwrap();
    let keys: Vec<u64> = (0..128).collect();
    assert!(table.insert(&keys, &[7; 128]).unwrap().all_placed());
    let (device, stream) = (table.device(), table.device().stream().unwrap());
    let (leased, mut addresses) = (device.from_slice(&keys[..10]).unwrap(), device.zeroed(10).unwrap());
    let mut outcomes = device.zeroed::<u8>(10).unwrap();
    let lease = table.on(&stream).get_ref(&leased, &mut addresses, &mut outcomes).unwrap();
    assert_eq!(table.remove_if(Filter::all().keys(5..20)).unwrap(), 10);
    drop(lease);
    assert_eq!(table.remove_if(Filter::all().keys(5..20)).unwrap(), 5);
}

/// An export is not disturbed by insertions of other threads: it is complete as of one point in time.
#[test]
fn exports_beside_insertions_are_complete() {
    let table = Table::builder().capacity(1 << 13).rule(Rule::Custom).build().unwrap();
    let keys: Vec<u64> = (0..300).collect();
    assert!(table.insert_scored(&keys, &[1; 300], &[9; 300]).unwrap().all_placed());
    std::thread::scope(|scope| {
        // Two threads, so that one of them inserts whenever the other has ended: also between the count and
        // the copies of an export.
        let writers = [0, 1].map(|thread| {
            let table = &table;
            scope.spawn(move || {
                for round in 1..=40u64 {
                    let more: Vec<u64> = (0..20).map(|key| 1000 * (2 * round + thread) + key).collect();
                    let _ = table.insert_scored(&more, &[2; 20], &[9; 20]).unwrap();
                }
            })
        });
        while !writers.iter().all(|writer| writer.is_finished()) {
            let found = table.export_if(Filter::all().scores(9..)).unwrap();
            let old = found.keys.iter().zip(&found.rows).filter(|(key, row)| **key < 1000 && **row == 1);
            assert_eq!(old.count(), 300);
            // Each insertion is there with all of its keys or none.
            assert_eq!(found.keys.len() % 20, 0);
        }
    });
}

type Kind = Cache<u64, u64, BuiltIn, 8, 4>;

/// Selects keys whose score is a multiple of a number.
#[derive(Clone, Copy, Debug)]
struct Multiples(u64);

impl Select<u64, u64> for Multiples {
    fn selects(self, _: u64, score: u64) -> bool {
        score.is_multiple_of(self.0)
    }
}

/// Counts and copies the multiples of 3, and removes those of 2. One warp.
#[kernel]
fn use_own_predicates(view: CacheView<Kind>, output: Evicted<u64, u64>, counts: GlobalSlice<u64>) {
    count_selected(view, Multiples(3), counts.part(0, 1));
    export_selected(view, Span { first: 0, count: u32::MAX }, Multiples(3), output, Chunk::One);
    simt::Tile::<32>::lockstep().sync();
    remove_selected(view, Multiples(2), counts.part(1, 1));
}

#[test]
fn a_kernel_of_ones_own_brings_its_predicate() {
    let device = phalanx::Device::emulator(phalanx::emulator::Options::default());
    let scores: Vec<u64> = (0..128).collect();
    let bytes: Vec<u8> = scores.iter().map(|key| Hashed::of(*key, 0).digest().byte() as u8).collect();
    let mut digests = device.zeroed::<u32>(32).unwrap();
    digests.write(bytemuck::cast_slice(&bytes)).unwrap();
    let (keys, table_scores) = (device.from_slice(&scores).unwrap(), device.from_slice(&scores).unwrap());
    let rows = device.zeroed::<u32>(128).unwrap();
    // Room for 40 of the 43 keys.
    let (found, found_scores) = (device.zeroed::<u64>(40).unwrap(), device.zeroed::<u64>(40).unwrap());
    let (found_rows, count) = (device.zeroed::<u32>(40).unwrap(), device.zeroed::<u32>(1).unwrap());
    let counts = device.zeroed::<u64>(2).unwrap();
    let output = Evicted {
        keys: found.global(),
        scores: found_scores.global(),
        rows: RowSlice::new(found_rows.global()),
        count: count.global(),
    };
    // SAFETY: the buffers have an element for each slot, and outlive the launch.
    unsafe {
        let rows = Rows::new(rows.pointer(), rows.pointer(), SLOTS, 1);
        let view =
            CacheView::new(digests.pointer(), (keys.pointer(), table_scores.pointer()), rows, (1, 1), 0);
        let kernel = UseOwnPredicates { view, output, counts: counts.global() };
        device.default_stream().launch(Grid::new(1, 32), kernel).unwrap();
    }
    assert_eq!((counts.read().unwrap(), count.read().unwrap()), (vec![43, 64], vec![43]));
    assert!(found.read().unwrap().iter().all(|key| key % 3 == 0));
    assert_eq!(found.read().unwrap(), found_scores.read().unwrap());
    let words = digests.read().unwrap();
    let digest = |slot: usize| Digest::in_word(words[slot / 4], slot as u32 % 4);
    assert!((0..128).all(|slot| (digest(slot) == Digest::ERASED) == slot.is_multiple_of(2)));
}
