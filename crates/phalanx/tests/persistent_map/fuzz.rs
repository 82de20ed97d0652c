//! Opens files that were changed at random: each is refused, or has the pairs of an epoch.
use crate::common::{self, Rng};
use crate::{device, folder};
use phalanx::PersistentMap;
use phalanx::persistent_map::{Builder, Durability};
use std::collections::BTreeMap;
use std::path::Path;

/// Number of changed files of each durability.
const FILES: u64 = 2000;

type Pairs = BTreeMap<u64, [u64; 2]>;

fn builder(durability: Durability) -> Builder<u64, [u64; 2]> {
    PersistentMap::builder().capacity(1).durability(durability).device(&device())
}

/// Returns files after each of some calls, and the pairs that they have.
fn files(folder: &Path, durability: Durability) -> (Vec<Vec<u8>>, Vec<Pairs>) {
    let path = folder.join("original");
    let map = builder(durability).create(&path).unwrap();
    let (mut files, mut all, mut pairs) = (Vec::new(), vec![Pairs::new()], Pairs::new());
    for round in 0..3u64 {
        let keys: Vec<u64> = (round * 12..round * 12 + 20).collect();
        let values: Vec<[u64; 2]> = keys.iter().map(|&key| [round, key]).collect();
        assert!(map.insert(&keys, &values).unwrap().all_placed());
        pairs.extend(keys.into_iter().zip(values));
        map.sync().unwrap();
        files.push(std::fs::read(&path).unwrap());
        all.push(pairs.clone());
    }
    (files, all)
}

/// Changes a few bytes, bits or blocks. Half of the changes are in the superblocks and the first table.
fn change(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let area = if rng.below(2) == 0 { bytes.len().min(5 * 4096) } else { bytes.len() };
    let start = rng.below(area.max(1) as u64) as usize;
    let start = start - start % rng.pick(&[1, 8, 512, 4096]);
    let end = bytes.len().min(start + rng.pick(&[1, 8, 100, 512, 4096]));
    match rng.below(6) {
        0 => bytes.truncate(start),
        1 => bytes[start..end].fill(rng.pick(&[0, 1, 0xff])),
        2 if end <= other.len() => bytes[start..end].copy_from_slice(&other[start..end]),
        3 => bytes.copy_within(start..end, 0),
        _ if start < bytes.len() => bytes[start] ^= 1 << rng.below(8),
        _ => {}
    }
}

/// Gives superblocks right checksums.
fn reseal(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(4096).take(2) {
        block[16..20].fill(0);
        let crc = crc32fast::hash(block);
        block[16..20].copy_from_slice(&crc.to_le_bytes());
    }
}

fn changed_files_are_refused_or_correct(durability: Durability) {
    let folder = folder();
    let (files, all) = files(folder.path(), durability);
    let (path, mut refused, mut correct) = (folder.path().join("changed"), 0, 0);
    for seed in common::seeds(FILES) {
        let mut rng = Rng::new(seed);
        let pick = |rng: &mut Rng| &files[rng.below(files.len() as u64) as usize];
        let (original, other) = (pick(&mut rng), pick(&mut rng));
        let mut bytes = original.clone();
        (0..=rng.below(3)).for_each(|_| change(&mut bytes, other, &mut rng));
        let is_resealed = rng.below(3) == 0;
        if is_resealed {
            reseal(&mut bytes);
        }
        std::fs::write(&path, &bytes).unwrap();
        let Ok(map) = builder(durability).open(&path) else {
            refused += 1;
            continue;
        };
        correct += 1;
        map.check().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let (keys, values) = map.export().unwrap();
        let found: Pairs = keys.into_iter().zip(values).collect();
        // A superblock with a right checksum may say anything that is possible.
        let is_known = all.contains(&found) || durability == Durability::Process || is_resealed;
        assert!(is_known, "seed {seed} is misread: {found:?}");
    }
    println!("changed files of {durability:?}: {refused} refused, {correct} correct");
    assert!(refused > 0 && correct > 0);
}

#[test]
fn changed_files_are_refused_or_have_an_epoch() {
    changed_files_are_refused_or_correct(Durability::Machine);
}

/// The mapped part has no checksums. A file whose items are misplaced is refused all the same.
#[test]
fn changed_files_with_a_mapped_part_are_refused_or_sound() {
    changed_files_are_refused_or_correct(Durability::Process);
}
