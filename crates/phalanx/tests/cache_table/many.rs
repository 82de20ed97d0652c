//! One call over several tables, and the two ways of merging.
use crate::batches::random;
use crate::model::Table;
use gpu::{Device, emulator};
use phalanx::cache_table::{CacheTables, Lock, MergeBy, MissedBuffers, Rule};
use phalanx::{CacheTable, Error, Outcome};
use std::collections::{BTreeMap, BTreeSet};

/// Returns a table whose rows differ from those of other tables.
fn table(number: u64, dim: usize) -> Table {
    let table = Table::builder().capacity(1000).dim(dim).seed(number).two_buckets(number % 2 == 1);
    let table = if number == 2 { table.lock(Lock::Concurrent) } else { table };
    let table = table.rule(Rule::Lfu).build().unwrap();
    let keys: Vec<_> = (0..100).map(|key| key * (number + 1)).collect();
    let rows: Vec<_> = keys.iter().flat_map(|key| row(number, *key, dim)).collect();
    assert!(table.insert(&keys, &rows).unwrap().all_placed());
    table
}

fn row(number: u64, key: u64, dim: usize) -> Vec<u32> {
    (0..dim as u64).map(|at| (number * 1_000_000 + key * 100 + at) as u32).collect()
}

/// Draws keys for each table. Some tables have none, and some keys are absent.
fn draw(tables: usize, most: u64, random: &mut impl FnMut(u64) -> u64) -> Vec<Vec<u64>> {
    let mut keys = |_| {
        let len = if random(4) == 0 { 0 } else { random(most) };
        (0..len).map(|_| random(1 + most * 3)).collect()
    };
    (0..tables).map(&mut keys).collect()
}

fn slices<T>(parts: &[Vec<T>]) -> Vec<&[T]> {
    parts.iter().map(|part| &part[..]).collect()
}

#[test]
fn a_call_finds_the_rows_of_each_table() {
    for (tables, dim, seed) in [(1, 1, 1), (3, 4, 2), (16, 3, 3), (35, 4, 4)] {
        let members: Vec<_> = (0..tables).map(|number| table(number as u64, dim)).collect();
        let members = CacheTables::new(members).unwrap();
        assert!(members.len() == tables && !members.is_empty());
        let mut random = random(seed);
        for _ in 0..3 {
            let keys = draw(tables, 90, &mut random);
            let found = members.get(&slices(&keys)).unwrap();
            for (number, found) in found.iter().enumerate() {
                assert!(*found == members[number].get(&keys[number]).unwrap());
            }
        }
        let none = vec![Vec::new(); tables];
        assert!(members.get(&slices(&none)).unwrap().iter().all(|rows| rows.is_empty()));
    }
}

#[test]
fn absent_keys_are_gathered_once_and_get_default_rows() {
    for (tables, dim) in [(3, 4), (20, 1)] {
        let members: Vec<_> = (0..tables).map(|number| table(number as u64, dim)).collect();
        let members = CacheTables::new(members).unwrap();
        let (device, mut random) = (members[0].device(), random(5));
        let defaults: Vec<_> = (0..tables as u32 * dim as u32).map(|word| word + 70_000_000).collect();
        let defaults = device.from_slice(&defaults).unwrap();
        for _ in 0..3 {
            let keys = draw(tables, 70, &mut random);
            let (lens, keys): (Vec<_>, Vec<_>) = (keys.iter().map(Vec::len).collect(), keys.concat());
            let numbers: Vec<_> = lens.iter().enumerate().flat_map(|(t, len)| vec![t; *len]).collect();
            let (stream, n) = (device.stream().unwrap(), keys.len());
            let mut rows = device.zeroed::<u32>(n * dim).unwrap();
            let mut outcomes = device.filled::<u8>(n, 0xff).unwrap();
            let (mut missed, mut of) = (device.zeroed(n).unwrap(), device.zeroed(n).unwrap());
            let (mut indices, mut count) = (device.zeroed(n).unwrap(), device.zeroed(1).unwrap());
            let buffers = MissedBuffers {
                keys: (&mut missed).into(),
                tables: (&mut of).into(),
                indices: (&mut indices).into(),
                count: (&mut count).into(),
            };
            let asked = device.from_slice(&keys).unwrap();
            let batches = members.on(&stream).defaults(&defaults);
            batches.get_missed(&asked, &lens, &mut rows, &mut outcomes, buffers).unwrap();
            let (rows, outcomes) = (rows.read().unwrap(), outcomes.read().unwrap());
            let mut absent = BTreeSet::new();
            for (index, (key, number)) in keys.iter().zip(&numbers).enumerate() {
                let expected = match members[*number].get(&[*key]).unwrap().of(0) {
                    Some(row) => row.to_vec(),
                    None => (0..dim).map(|at| (number * dim + at) as u32 + 70_000_000).collect(),
                };
                let found = Outcome::from_code(outcomes[index]) == Some(Outcome::Found);
                assert_eq!((&rows[index * dim..][..dim], found), (&expected[..], expected[0] < 70_000_000));
                if !found {
                    absent.insert((*number as u32, *key));
                }
            }
            let (missed, of) = (missed.read().unwrap(), of.read().unwrap());
            let (indices, count) = (indices.read().unwrap(), count.read().unwrap()[0] as usize);
            let gathered: BTreeSet<_> = (0..count).map(|place| (of[place], missed[place])).collect();
            assert_eq!((&gathered, gathered.len()), (&absent, count));
            let is_its_own = |place: usize| {
                let index = indices[place] as usize;
                (keys[index], numbers[index] as u32) == (missed[place], of[place])
            };
            assert!((0..count).all(is_its_own));
        }
    }
}

/// One call does the same as one for each table.
#[test]
fn a_call_places_the_absent_keys_of_each_table() {
    for (tables, dim, seed) in [(1, 4, 1), (5, 1, 2), (18, 4, 3)] {
        let of_each = || (0..tables).map(|number| table(number as u64, dim)).collect::<Vec<_>>();
        let (members, others) = (of_each(), of_each());
        let members = CacheTables::new(members).unwrap();
        let mut random = random(seed);
        for round in 0..4 {
            let keys = draw(tables, 60, &mut random);
            let mut given = |keys: &Vec<u64>| (0..keys.len() * dim).map(|_| random(1 << 30) as u32).collect();
            let rows: Vec<Vec<u32>> = keys.iter().map(&mut given).collect();
            let found = members.get_or_insert(&slices(&keys), &slices(&rows)).unwrap();
            for number in 0..tables {
                // No bucket is full, so no result depends on the order of the elements.
                let other = others[number].get_or_insert(&keys[number], &rows[number]).unwrap();
                assert!(found[number] == other, "round {round}, table {number}");
                let contents = |table: &Table| {
                    let all = table.export(..).unwrap();
                    let rows = all.rows.chunks(dim).map(<[u32]>::to_vec);
                    all.keys.into_iter().zip(all.scores.into_iter().zip(rows)).collect::<BTreeMap<_, _>>()
                };
                assert_eq!(contents(&members[number]), contents(&others[number]), "table {number}");
            }
        }
    }
}

#[test]
fn tables_grow_and_leases_hold_in_a_call() {
    let builder = || Table::builder().capacity(128).two_buckets(true);
    let (growing, leased) = (builder().max_capacity(1024).build().unwrap(), builder().build().unwrap());
    let (device, stream) = (growing.device().clone(), growing.device().stream().unwrap());
    let keys: Vec<u64> = (0..128).collect();
    let rows: Vec<u32> = (0..128).collect();
    assert!(leased.insert(&keys, &rows).unwrap().all_placed());
    let asked = device.from_slice(&keys).unwrap();
    let (mut addresses, mut outcomes) = (device.zeroed(128).unwrap(), device.zeroed(128).unwrap());
    let both = CacheTables::new(vec![leased, growing]).unwrap();
    let lease = both[0].on(&stream).get_ref(&asked, &mut addresses, &mut outcomes).unwrap();
    let (many, new): (Vec<u64>, Vec<u32>) = ((0..500).map(|key| key / 2).collect(), (0..500).collect());
    let found = both.get_or_insert(&[&[1000, 5, 1000], &many], &[&[1, 2, 3], &new]).unwrap();
    assert_eq!(*found[0].outcomes(), [Outcome::Refused, Outcome::Found, Outcome::Refused]);
    assert_eq!(found[1].outcomes().count(Outcome::Inserted), 250);
    assert!(found[1].of(6) == Some(&[7]) && both[1].capacity() == 512 && both[1].len().unwrap() == 250);
    drop(lease);
    let found = both.get_or_insert(&[&[1000], &[1000]], &[&[1], &[2]]).unwrap();
    assert!(found.iter().all(|rows| *rows.outcomes() == [Outcome::Inserted]));
}

#[test]
fn tables_that_do_not_fit_each_other_are_errors() {
    let unlike = |other: Table| match CacheTables::new(vec![table(0, 4), table(1, 4), other]) {
        Err(Error::Unlike { index, what }) => (index, what),
        result => panic!("{result:?}"),
    };
    assert!(matches!(CacheTables::<u64, u32>::new(Vec::new()), Err(Error::Zero { what: "tables" })));
    assert_eq!(unlike(table(0, 3)), (2, "length of rows"));
    let elsewhere = Device::emulator(emulator::Options::default());
    assert_eq!(unlike(Table::builder().dim(4).device(&elsewhere).build().unwrap()), (2, "device"));
    if let Some(variant) = Table::variants().get(1) {
        assert_eq!(unlike(Table::builder().dim(4).variant(variant).build().unwrap()), (2, "variant"));
    }
}

#[test]
fn buffers_that_do_not_fit_a_call_are_errors() {
    let both = CacheTables::new(vec![table(0, 1), table(1, 1)]).unwrap();
    let (device, stream) = (both[0].device(), both[0].device().stream().unwrap());
    let (keys, mut rows) = (device.zeroed::<u64>(4).unwrap(), device.zeroed::<u32>(4).unwrap());
    let mut outcomes = device.zeroed::<u8>(4).unwrap();
    for lens in [&[4][..], &[1, 2], &[3, 2], &[usize::MAX, 5], &[1, 1, 2]] {
        let result = both.on(&stream).get(&keys, lens, &mut rows, &mut outcomes);
        assert!(matches!(result, Err(Error::Length { .. })), "{lens:?}: {result:?}");
    }
    let few = device.zeroed::<u32>(1).unwrap();
    let result = both.on(&stream).defaults(&few).get(&keys, &[2, 2], &mut rows, &mut outcomes);
    assert!(matches!(result, Err(Error::Length { what: "default rows", expected: 2, found: 1 })));
    let foreign = Device::emulator(emulator::Options::default()).stream().unwrap();
    let result = both.on(&foreign).get(&keys, &[2, 2], &mut rows, &mut outcomes);
    assert!(matches!(result, Err(Error::OtherDevice { what: "stream", .. })));
    assert!(matches!(both.get(&[&[1]]), Err(Error::Length { .. })));
    assert!(matches!(both.get_or_insert(&[&[1], &[]], &[&[], &[]]), Err(Error::Length { what: "rows", .. })));
    both.on(&stream).get(&keys, &[0, 4], &mut rows, &mut outcomes).unwrap();
    assert_eq!(rows.read().unwrap(), [1_000_000; 4]);
}

/// Calls of several threads, and batches of one of the tables.
#[test]
fn calls_of_several_threads_do_not_block_each_other() {
    let both = CacheTables::new(vec![table(0, 2), table(2, 2)]).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let both = &both;
            scope.spawn(move || {
                for key in 0..20 {
                    let keys: [&[u64]; 2] = [&[key, 1000 + thread], &[2 * key]];
                    let found = both.get_or_insert(&keys, &[&[1; 4], &[1; 2]]).unwrap();
                    assert_eq!(found[0].found() + found[1].found(), 3);
                    assert_eq!(both.get(&keys).unwrap()[0].found(), 2);
                }
            });
        }
        scope.spawn(|| (0..20).for_each(|key| assert_eq!(both[1].assign(&[key], &[1; 2]).unwrap().len(), 1)));
    });
}

/// Both ways leave the same rows and scores, and return the same outcomes.
#[test]
fn both_ways_of_merging_do_the_same() {
    for (len, range, seed) in [(2, 1, 1), (33, 7, 2), (700, 60, 3), (900, 100_000, 4), (500, 1, 5)] {
        let build = |way| {
            let builder = CacheTable::<u32, u32>::builder().capacity(4096).two_buckets(true).dim(3);
            builder.merge_by(way).rule(Rule::Lfu).build().unwrap()
        };
        let (sorting, hashing) = (build(MergeBy::Sort), build(MergeBy::Hash));
        let mut random = random(seed);
        for round in 0..3 {
            let keys: Vec<_> = (0..len).map(|_| random(range) as u32).collect();
            let rows: Vec<_> = (0..3 * len).map(|_| random(1 << 30) as u32).collect();
            let uses: Vec<_> = (0..len).map(|_| random(9)).collect();
            let run = |table: &CacheTable<u32, u32>| match round {
                0 => table.insert(&keys, &rows).unwrap(),
                1 => table.insert_scored(&keys, &rows, &uses).unwrap(),
                _ => table.accumulate(&keys, &rows).unwrap(),
            };
            assert_eq!(run(&sorting), run(&hashing));
            assert!(
                sorting.get_or_insert(&keys, &rows).unwrap() == hashing.get_or_insert(&keys, &rows).unwrap()
            );
            let contents = |table: &CacheTable<u32, u32>| {
                let all = table.export(..).unwrap();
                let rows = all.rows.chunks(3).map(<[u32]>::to_vec);
                all.keys.into_iter().zip(all.scores.into_iter().zip(rows)).collect::<BTreeMap<_, _>>()
            };
            assert_eq!(contents(&sorting), contents(&hashing), "round {round} of {len} keys");
        }
    }
}

/// A call enters each of its tables. With a stack frame for each, this stack would be too small.
#[test]
fn thousands_of_tables_need_no_large_stack() {
    let device = Device::emulator(emulator::Options::default());
    let build = |_| CacheTable::<u64, u32>::builder().capacity(128).device(&device).build().unwrap();
    let all = CacheTables::new((0..2000).map(build).collect()).unwrap();
    let look_up = || {
        let (keys, stream) = (device.from_slice::<u64>(&[]).unwrap(), device.stream().unwrap());
        let (mut rows, mut outcomes) = (device.zeroed::<u32>(0).unwrap(), device.zeroed::<u8>(0).unwrap());
        all.on(&stream).get(&keys, &[0; 2000], &mut rows, &mut outcomes).unwrap();
    };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(512 << 10).spawn_scoped(scope, look_up);
        thread.unwrap().join().unwrap();
    });
    assert_eq!(all[1999].insert(&[7], &[70]).unwrap(), [Outcome::Inserted]);
}
