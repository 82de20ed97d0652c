//! Operations of the ranks' own shards, and those that differ from rank to rank.
use crate::ranks::{Case, Kind, cases, exchange_error, is_cuda, map as make, run, run_with, small};
use phalanx::exchange::Error::{Mismatch, Refused};
use phalanx::{Device, Error, HashMap, Result, ShardedMap};

/// Returns the cases with two or three ranks.
fn few_ranks() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| (2..=3).contains(&case.1))
}

/// Checks maps with two or three ranks, on each.
fn on_few_ranks(check: impl Fn(Case, ShardedMap<u64, u64>) -> Result<()> + Sync) {
    for case in few_ranks() {
        run(case, small(), |exchange| check(case, make(exchange, 500)?));
    }
}

/// A rank clears its shard when its own `get` has returned, although others look up keys in it.
#[test]
fn a_get_has_ended_on_all_ranks_when_it_returns() {
    for case in few_ranks() {
        for _ in 0..5 {
            let missing = run(case, small(), |exchange| {
                let mut map = make(exchange, 5000)?;
                map.set_most_remote(usize::MAX);
                let keys: Vec<u64> = (0..).filter(|&key| map.owner(key) == 1).take(1000).collect();
                assert!(map.insert(&keys, &keys)?.all_placed());
                map.len()?;
                let own = if map.rank() == 0 { &keys[..] } else { &[] };
                let missing = map.get(own)?.into_iter().filter(Option::is_none).count();
                map.shard_mut().clear()?;
                map.all_gather(0)?;
                Ok(missing)
            });
            assert!(missing.iter().all(|&missing| missing == 0), "{case:?}: {missing:?}");
        }
    }
}

/// Each rank changes its own pairs by calls of its shard, some of them in streams of its own, between lookups
/// of all ranks.
#[test]
fn lookups_see_what_shards_were_given() {
    on_few_ranks(|case, mut map| {
        let rank = map.rank();
        let keys: Vec<u64> = (0..).filter(|&key| map.owner(key) == rank).take(200).collect();
        let (device, stream) = (map.device().clone(), map.device().stream()?);
        let on_device = device.from_slice(&keys)?;
        assert!(map.insert(&keys, &keys)?.all_placed());
        for round in 0..6 {
            let values = vec![round; keys.len()];
            let on_device_too = device.from_slice(&values)?; // to drop it waits for the device
            match round % 3 {
                0 => assert!(map.shard().insert(&keys, &values)?.all_placed()),
                1 => map.shard().on(&stream).insert(&on_device, &on_device_too, None)?,
                _ => assert!(map.insert(&keys, &values)?.all_placed()),
            }
            let found = map.get(&keys)?;
            assert_eq!(found, vec![Some(round); keys.len()], "{case:?}, rank {rank}");
            assert_eq!(map.shard_mut().frozen()?.get(&keys[..9])?, [Some(round); 9], "{case:?}");
        }
        Ok(())
    });
}

/// Lookups, changes and lookups of a few hot keys follow each other without a wait of the host.
#[test]
fn lookups_follow_changes_in_the_stream() {
    const ROUNDS: u64 = 40;
    on_few_ranks(|case, mut map| {
        let device = map.device().clone();
        let keys = device.from_slice(&[1u64, 2, 3, 4].repeat(64))?;
        let values =
            (0..ROUNDS).map(|round| Ok(device.from_slice(&[round; 256])?)).collect::<Result<Vec<_>>>()?;
        let buffers = || (0..ROUNDS).map(|_| Ok(device.buffer::<u64>(256)?)).collect::<Result<Vec<_>>>();
        let (mut found, mut outcomes) = (buffers()?, device.buffer::<u8>(256)?);
        map.set_most_remote(0);
        for round in 0..ROUNDS as usize {
            map.batches().insert(&keys, &values[round], None)?;
            map.batches().get(&keys, &mut found[round], &mut outcomes)?;
        }
        map.wait()?;
        for (round, found) in (0..).zip(&found) {
            assert_eq!(found.read()?, [round; 256], "{case:?}");
        }
        Ok(())
    });
}

/// Two maps exchange their shards while lookups and changes run.
#[test]
fn maps_may_exchange_their_shards() {
    // No other test waits for the emulated device.
    let device = if is_cuda() { Device::cuda(0).unwrap() } else { Device::emulator(Default::default()) };
    let make = || {
        let meeting = phalanx::exchange::Meeting::new(1)?;
        let exchange = phalanx::exchange::Exchange::peer(&meeting, 0, &device, small())?;
        let shard = HashMap::<u64, u64>::builder().device(&device).capacity(5000).build()?;
        ShardedMap::new(exchange, shard)
    };
    let (mut a, mut b) = (make().unwrap(), make().unwrap());
    let keys = device.from_slice(&(0..4000u64).collect::<Vec<_>>()).unwrap();
    let mut found = device.buffer::<u64>(4000).unwrap();
    let mut outcomes = device.buffer::<u8>(4000).unwrap();
    for round in 1..10u64 {
        let values = device.from_slice(&vec![round; 4000]).unwrap();
        a.batches().insert(&keys, &values, None).unwrap();
        std::mem::swap(a.shard_mut(), b.shard_mut());
        let before = device.emulated_work().map(|work| work.waits);
        b.batches().get(&keys, &mut found, &mut outcomes).unwrap();
        let after = device.emulated_work().map(|work| work.waits);
        assert!(before.is_none() || after > before, "the other map's stream may still insert");
        b.wait().unwrap();
        assert_eq!(found.read().unwrap(), vec![round; 4000]);
        std::mem::swap(a.shard_mut(), b.shard_mut());
    }
}

/// Shards of several variants: one kernel cannot read the tables of two of them.
#[test]
fn shards_may_have_different_variants() {
    let names = phalanx::hash_map::variants::<u64, u64>();
    assert!(names.len() > 1, "{names:?}");
    for case in cases() {
        run(case, small(), |exchange| {
            let name = names[exchange.rank() % names.len()];
            let shard = HashMap::builder().device(exchange.device()).capacity(900).variant(name).build()?;
            let mut map = ShardedMap::<u64, u64>::new(exchange, shard)?;
            let keys: Vec<u64> = (0..600).map(|key| key * 7).collect();
            let own = if map.rank() == 0 { &keys[..] } else { &[] };
            assert!(map.insert(own, own)?.all_placed());
            let expected: Vec<_> = keys.iter().map(|&key| Some(key)).collect();
            for most_remote in [0, 1000] {
                map.set_most_remote(most_remote);
                assert_eq!(map.get(&keys)?, expected, "{case:?}, {most_remote}");
            }
            Ok(())
        });
    }
}

/// The table of another map takes the place of the shard's: both ways of `get` read it.
#[test]
fn a_shard_may_be_replaced() {
    for case in cases().into_iter().filter(|case| case.1 <= 3) {
        run(case, small(), |exchange| {
            let mut map = make::<u64, u64>(exchange, 500)?;
            assert!(map.insert(&[1, 2, 3, 4], &[1; 4])?.all_placed());
            map.len()?;
            let new = HashMap::builder().device(map.device()).capacity(100).build()?;
            drop(std::mem::replace(map.shard_mut(), new));
            for most_remote in [0, 100] {
                map.set_most_remote(most_remote);
                assert_eq!(map.get(&[1, 2, 3, 4])?, [None; 4], "{case:?}, {most_remote}");
            }
            assert!(matches!(map.get_remote(&[1]), Err(Error::NotReadable)), "{case:?}");
            Ok(())
        });
    }
}

#[test]
fn a_shard_on_another_device_is_refused() {
    on_few_ranks(|case, mut map| {
        let other = Device::emulator(Default::default());
        if map.rank() == 1 {
            *map.shard_mut() = HashMap::builder().device(&other).capacity(100).build()?;
        }
        let found = map.insert(&[1, 2], &[3, 4]);
        match map.rank() {
            1 => assert!(matches!(found, Err(Error::OtherDevice { .. })), "{case:?}: {found:?}"),
            _ => assert!(matches!(exchange_error(&found), Some(Refused { rank: 1 })), "{case:?}: {found:?}"),
        }
        Ok(())
    });
}

#[test]
fn ranges_that_are_invalid_or_differ_remove_nothing() {
    on_few_ranks(|case, mut map| {
        assert!(map.insert(&[1, 20], &[0; 2])?.all_placed());
        let is_first = map.rank() == 0;
        #[expect(clippy::reversed_empty_ranges, reason = "it is an error")]
        let found = if is_first { map.retain_keys(9..=3) } else { map.retain_keys(0..=5) };
        match is_first {
            true => assert!(matches!(found, Err(Error::Range { .. })), "{case:?}: {found:?}"),
            false => {
                assert!(matches!(exchange_error(&found), Some(Refused { rank: 0 })), "{case:?}: {found:?}")
            }
        }
        let found = if is_first { map.retain_keys(0..=9) } else { map.retain_keys(0..=5) };
        assert!(matches!(exchange_error(&found), Some(Mismatch { .. })), "{case:?}: {found:?}");
        assert_eq!(map.len()?, 2, "{case:?}");
        map.retain_keys(0..=5)?;
        assert_eq!(map.len()?, 1, "{case:?}");
        Ok(())
    });
}

/// The one on host slices would try refused elements again, together with the other ranks.
#[test]
fn changes_by_host_slices_and_by_device_buffers_do_not_meet() {
    on_few_ranks(|case, mut map| {
        let found = if map.rank() == 0 {
            map.insert(&[1, 2], &[1, 2]).map(drop)
        } else {
            let device = map.device().clone();
            let keys = device.from_slice(&[3u64, 4])?;
            let mut outcomes = device.zeroed::<u8>(2)?;
            map.batches().insert(&keys, &keys, &mut outcomes)
        };
        assert!(matches!(exchange_error(&found), Some(Mismatch { .. })), "{case:?}: {found:?}");
        assert_eq!(map.len()?, 0, "{case:?}");
        Ok(())
    });
}

#[test]
fn more_than_32_ranks_are_refused() {
    if is_cuda() {
        return; // no machine has as many GPUs
    }
    let found =
        run_with((Kind::Emulated, 33), small(), Vec::new(), |exchange| make::<u32, u32>(exchange, 10));
    for found in found {
        let error = found.err().unwrap().to_string();
        assert!(error.contains("ranks of a sharded map: 33, but at most 32 are possible"), "{error}");
    }
}
