//! Frozen maps return the same results as other maps.

/// Defines the cases of the map `$map`, whose read-only kinds are in the list `$list`, and whose variants
/// `$variants` names.
macro_rules! frozen_cases {
    ($map:ident, $list:path, $variants:path) => {
        use crate::kinds::Kind;
        use checker::MapValue;
        use phalanx::map::Word;
        use phalanx::{Error, Outcome, $map};
        use phalanx_testing::counts::each_count;
        use $list as list;
        use $variants as names;

        /// The default variants have read-only kernels.
        pub fn frozen_maps_are_read_by_kernels_of_their_own<K: Word, V: Word + MapValue>(
            kind: &Kind<$map<K, V>>,
        ) {
            let mut map = kind.map(1);
            let read_only = format!("phased_{}", kind.name);
            let has_own = list::NAMES.contains(&read_only.as_str());
            assert!(has_own || kind.name != names::<K, V>()[0], "{}", kind.name);
            assert_eq!(map.frozen().unwrap().variant(), if has_own { &read_only } else { kind.name });
        }

        /// The keys are so many that some overflow from their buckets; the topmost lie in overflow buckets.
        pub fn frozen_maps_answer_as_others_do<K: Word, V: Word + MapValue>(kind: &Kind<$map<K, V>>) {
            let mut map = kind.map(1);
            assert_eq!(map.frozen().unwrap().get(&[]).unwrap(), vec![], "{}", kind.name);
            let (keys, values) =
                kind.columns((0..600).map(|n| (n * 3, n)).chain((0..3).map(|n| (u64::MAX - n, n))));
            assert!(map.insert(&keys, &values).unwrap().all_placed());
            map.remove(&keys[100..200]).unwrap();
            let absent = (0..2000).step_by(21).map(|n| n + 1);
            let asked = kind.keys((0..600).map(|n| n * 3).chain(absent).chain((0..8).map(|n| u64::MAX - n)));
            let (found, there) = (map.get(&asked).unwrap(), map.contains_key(&asked).unwrap());
            let pairs = map.len().unwrap();
            assert_eq!(there.iter().filter(|&&there| there).count(), pairs, "{}", kind.name);

            let frozen = map.frozen().unwrap();
            assert_eq!(frozen.get(&asked).unwrap(), found, "{}", kind.name);
            assert_eq!(frozen.contains_key(&asked).unwrap(), there, "{}", kind.name);
            let (mut into, mut are_there) = (vec![V::from_u64(0); asked.len()], vec![false; asked.len()]);
            frozen.get_into(&asked, &mut into, &mut are_there).unwrap();
            let into: Vec<_> =
                into.into_iter().zip(&are_there).map(|(value, &is)| is.then_some(value)).collect();
            assert_eq!((into, &are_there), (found, &there), "{}", kind.name);
            are_there.fill(false);
            frozen.contains_into(&asked, &mut are_there).unwrap();
            assert_eq!(are_there, there, "{}", kind.name);
            let short = frozen.contains_into(&asked, &mut are_there[1..]);
            assert!(matches!(short, Err(Error::Length { .. })), "{}", kind.name);
            assert_eq!((frozen.len().unwrap(), frozen.is_empty().unwrap()), (pairs, false), "{}", kind.name);
            assert_eq!(frozen.iter().unwrap().count(), pairs, "{}", kind.name);
            assert_eq!(frozen.export().unwrap().0.len(), pairs, "{}", kind.name);
            assert!(map.is_frozen(), "{}: what reads keeps it so", kind.name);
        }

        pub fn lookups_in_frozen_maps_are_bounded_by_counts<K: Word, V: Word + MapValue>(
            kind: &Kind<$map<K, V>>,
        ) {
            let mut map = kind.map(1);
            let (keys, values) = kind.columns((0..40).map(|n| (n * 3, n)));
            assert!(map.insert(&keys, &values).unwrap().all_placed());
            let frozen = map.frozen().unwrap();
            let stream = kind.device.stream().unwrap();
            each_count(&kind.device, 40, |counted| {
                let (buffer, on) = (counted.buffer(&keys), frozen.on(&stream));
                let asked = counted.bounded(&buffer);
                let (mut found, mut outcomes) = (counted.results::<V>(), counted.results::<u8>());
                on.get(asked, &mut found, &mut outcomes).unwrap();
                counted.check(kind.name, &mut found, |index| values[index]);
                counted.check(kind.name, &mut outcomes, |_| Outcome::Found as u8);
                on.contains_key(asked, &mut outcomes).unwrap();
                counted.check(kind.name, &mut outcomes, |_| Outcome::Found as u8);
            });
        }

        /// Reads on a frozen map do not affect later writes. A map that is frozen again shows those writes.
        pub fn what_was_frozen_is_written_again<K: Word, V: Word + MapValue>(kind: &Kind<$map<K, V>>) {
            let mut map = kind.map(1);
            let stream = kind.device.stream().unwrap();
            for round in 0..4u64 {
                let (keys, values) = kind.columns((0..200).map(|n| (n * 4 + round, n + round)));
                assert!(map.insert(&keys, &values).unwrap().all_placed());
                let asked = kind.device.from_slice(&keys).unwrap();
                let mut found = kind.device.buffer::<V>(keys.len()).unwrap();
                let mut outcomes = kind.device.buffer::<u8>(keys.len()).unwrap();
                map.frozen().unwrap().on(&stream).get(&asked, &mut found, &mut outcomes).unwrap();
                let others = kind.device.from_slice(&kind.columns((0..200).map(|n| (n, 7))).1).unwrap();
                map.on(&kind.device.default_stream()).insert(&asked, &others, None).unwrap();
                assert!(!map.is_frozen(), "{}", kind.name);
                assert_eq!(found.read().unwrap(), values, "{}, round {round}", kind.name);
                let now = map.frozen().unwrap().get(&keys[..3]).unwrap();
                assert_eq!(now, [Some(V::from_u64(7)); 3], "{}, round {round}", kind.name);
            }
        }
    };
}
pub(crate) use frozen_cases;

frozen_cases!(HashMap, phalanx_kernels::hash_map::phased, phalanx::hash_map::variants);
