//! Reads files that were changed at random: each is refused, or has the contents of an epoch.
use super::disk::{Disk, SECTOR};
use super::script::{Run, SCRIPT, Version};
use crate::persistent_map::file::check::check;
use crate::persistent_map::file::geometry::BLOCK;
use crate::persistent_map::file::superblock::seal;
use phalanx_testing::common::{Rng, seeds};

/// Valid files after each step of the script, and the versions that they have or had.
fn files() -> (Vec<Vec<u8>>, Vec<Version>) {
    let (mut files, mut versions) = (Vec::new(), Vec::new());
    // Two files with different ids, so that splices mix them.
    for _ in 0..2 {
        let disk = Disk::default();
        let mut run = Run::new(disk.clone(), disk.clone()).unwrap();
        for step in &SCRIPT {
            files.push(disk.contents());
            run.step(step).unwrap();
        }
        files.push(disk.contents());
        versions.extend(run.versions);
    }
    (files, versions)
}

/// Returns a range of at most `most` bytes, aligned to `align`.
fn range(rng: &mut Rng, len: usize, align: usize, most: u64) -> std::ops::Range<usize> {
    let start = rng.below((len / align) as u64) as usize * align;
    let bytes = align * (1 + rng.below(most.div_ceil(align as u64)) as usize);
    start..len.min(start + bytes)
}

/// Changes a file once.
fn mutate(bytes: &mut Vec<u8>, other: &[u8], rng: &mut Rng) {
    let len = bytes.len().max(1);
    let align = rng.pick(&[1, 8, SECTOR, BLOCK as usize]);
    // Half of the changes are in the superblocks and the first table.
    let area = if rng.below(2) == 0 { len.min(5 * BLOCK as usize) } else { len };
    let most = rng.pick(&[8, 512, 4096, 20_000]);
    let part = range(rng, area, align.min(area), most);
    match rng.below(8) {
        0 | 1 => bytes[part.start] ^= 1 << rng.below(8),
        2 => bytes[part].fill(rng.pick(&[0, 1, 0xff])),
        3 => bytes.truncate(part.start),
        4 => bytes.extend_from_slice(&other[..part.len().min(other.len())]),
        5 => {
            let to = rng.below((len - part.len() + 1) as u64) as usize / align * align;
            bytes.copy_within(part, to);
        }
        6 => swap(bytes, part, align, rng),
        _ => {
            let part = part.start.min(other.len())..part.end.min(other.len());
            bytes[part.clone()].copy_from_slice(&other[part]);
        }
    }
}

/// Exchanges two parts of equal size, unless they overlap.
fn swap(bytes: &mut [u8], part: std::ops::Range<usize>, align: usize, rng: &mut Rng) {
    let to = rng.below((bytes.len() - part.len() + 1) as u64) as usize / align * align;
    if to >= part.end {
        let (low, high) = bytes.split_at_mut(to);
        let len = part.len().min(high.len());
        low[part][..len].swap_with_slice(&mut high[..len]);
    }
}

/// Gives both superblocks right checksums.
fn reseal(bytes: &mut [u8]) {
    for block in bytes.chunks_exact_mut(BLOCK as usize).take(2) {
        seal(block.try_into().expect("chunks have the size of a block"));
    }
}

#[test]
fn changed_files_are_refused_or_correct() {
    let (files, versions) = files();
    let (mut refused, mut correct) = (0u64, 0u64);
    for seed in seeds(100_000) {
        let mut rng = Rng::new(seed);
        let file = |rng: &mut Rng| &files[rng.below(files.len() as u64) as usize];
        let (mut bytes, other) = (file(&mut rng).clone(), file(&mut rng));
        for _ in 0..=rng.below(3) {
            if !bytes.is_empty() {
                mutate(&mut bytes, other, &mut rng);
            }
        }
        let is_resealed = rng.below(4) == 0;
        if is_resealed {
            reseal(&mut bytes);
        }
        let checked = check(Disk::of(bytes.clone()));
        match Version::read(Disk::of(bytes)) {
            Err(_) => refused += 1,
            Ok(found) => {
                correct += 1;
                // A superblock with a right checksum may say anything that is possible.
                assert!(is_resealed || versions.contains(&found), "seed {seed} is misread");
                assert!(checked.is_ok(), "seed {seed}: {}", checked.unwrap_err());
            }
        }
    }
    println!("changed files: {refused} refused, {correct} correct");
    assert!(refused > 0 && correct > 0);
}

/// The checksums of pages and table are all that protects their contents: with both made right, a changed
/// page is read as it is.
#[test]
fn a_reader_that_ignored_checksums_would_misread() {
    use crate::persistent_map::file::table::Entry;
    use crate::persistent_map::file::{FileFault, Volume};
    let (files, versions) = files();
    let file = &files[1];
    let (volume, _) = Volume::read(Disk::of(file.clone())).unwrap();
    let (page, mut table) = (2, volume.table.clone());
    let at = volume.geometry.copy_at(page, table.get(page).unwrap().copy) as usize;
    let mut bytes = file.clone();
    bytes[at] ^= 1;
    let fault = Version::read(Disk::of(bytes.clone())).unwrap_err();
    assert!(matches!(fault, FileFault::Page { index: 2, .. }), "{fault}");
    let crc = crc32fast::hash(&bytes[at..at + volume.geometry.page_bytes as usize]);
    table.set(page, Some(Entry { crc, ..table.get(page).unwrap() }));
    let table_at = volume.geometry.table_at(0, volume.current.table) as usize;
    bytes[table_at..table_at + BLOCK as usize].copy_from_slice(&table.block(&volume.geometry, (0, 0)));
    let fault = Version::read(Disk::of(bytes.clone())).unwrap_err();
    assert!(matches!(fault, FileFault::Table { .. }), "{fault}");
    let mut superblock = volume.current.clone();
    superblock.table_crc = table.crc();
    bytes[..BLOCK as usize].copy_from_slice(&superblock.encode()[..]);
    bytes[BLOCK as usize..2 * BLOCK as usize].copy_from_slice(&superblock.encode()[..]);
    let found = Version::read(Disk::of(bytes)).unwrap();
    assert!(!versions.contains(&found), "the changed page is read");
}
