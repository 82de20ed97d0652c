//! Weak memory: the values that strong reads may return.
//!
//! Each write of a granule makes a version of it, which holds the time of the write, the whole granule, and
//! what the write published. Times count all writes of a run, so the versions of a granule are in their
//! modification order. Each lane has a view (in its [`Clock`](super::clock::Clock)): for each granule, the
//! newest version that it must have seen. A strong read returns any version that is not older than the view;
//! the scheduler chooses which. The read raises the view to that version, and learns what its write published
//! as the order of the read says. Weak reads are not concerned: [`super::stale`] is about those.
//!
//! A write that does not read may, on the GPU, be overtaken by one of before that its lane does not know.
//! Where memory is freed and allocated again that is an error, and is found: see
//! [`Versions::is_unseen_of_before`].
//!
//! # What is missing
//!
//! - A write takes effect at once, and last in its granule's modification order: the outcomes S and 2+2W, in
//!   which a write is overtaken by a later write of another thread, are not shown.
//! - A read returns only what has been written: load buffering (LB), which needs promises, is not shown.
//! - Read-modify-writes read the newest version, even a compare-exchange that fails.
//! - A read of one half of a granule raises the view of the other half too.
//! - [`KEPT`] versions are kept of a granule, and older ones are never read.
//! - Which reads depend on which is not known.
//!   [`WeakMemory::Hardware`](crate::emulator::WeakMemory::Hardware) takes each read of a lane to depend on
//!   all that the lane has read before, and on all that the lanes have read with which it met at a
//!   collective.
use super::order::{GranuleMap, Release, granules};

use std::collections::BTreeMap;

/// Versions kept of a granule.
const KEPT: usize = 6;

/// A granule as a write left it.
pub struct Version {
    /// The time of the write; 0: before the run.
    pub time: u32,
    /// The eight bytes of the granule.
    pub value: u64,
    /// What was published there.
    pub releases: Vec<Release>,
}

/// The latest versions of all granules that the run has written.
#[derive(Default)]
pub struct Versions {
    /// The place of each granule, its index in `versions` and in views.
    places: GranuleMap<usize>,
    /// By place, the oldest first; none where the memory has gone to somebody else.
    versions: Vec<Vec<Version>>,
    time: u32,
    /// Memory that was allocated again, by its start: its bytes, and when that was.
    reused: BTreeMap<usize, (usize, u32)>,
}

impl Versions {
    /// The time of the next write.
    pub fn tick(&mut self) -> u32 {
        self.time += 1;
        self.time
    }

    /// The place of a granule that has been written.
    fn place(&self, granule: usize) -> Option<usize> {
        self.places.get(&granule).copied()
    }

    /// The place of a granule, whose first version is what stood there before.
    fn place_to_write(&mut self, granule: usize, before: u64) -> usize {
        let place = *self.places.entry(granule).or_insert(self.versions.len());
        if place == self.versions.len() {
            self.versions.push(Vec::new());
        }
        if self.versions[place].is_empty() {
            self.versions[place].push(Version { time: 0, value: before, releases: Vec::new() });
        }
        place
    }

    /// Adds the newest version of a granule, which held `before`. Returns the granule's place.
    pub fn push(&mut self, granule: usize, before: u64, version: Version) -> usize {
        let place = self.place_to_write(granule, before);
        let versions = &mut self.versions[place];
        if versions.len() == KEPT {
            versions.remove(0);
        }
        versions.push(version);
        place
    }

    /// The times of the versions that a lane may read of these granules at once, the newest first.
    pub fn readable(&self, floor: impl Fn(usize) -> u32, granules: impl Iterator<Item = usize>) -> Vec<u32> {
        let (mut oldest, mut times) = (0, Vec::new());
        for place in granules.filter_map(|granule| self.place(granule)) {
            let versions = &self.versions[place];
            let first = versions.first().map_or(0, |version| version.time);
            oldest = oldest.max(first).max(floor(place));
            times.extend(versions.iter().map(|version| version.time));
        }
        times.retain(|&time| time >= oldest);
        times.sort_unstable_by(|a, b| b.cmp(a));
        times.dedup();
        times
    }

    /// The place of a granule, and the version that stood there at a time.
    pub fn at(&self, granule: usize, time: u32) -> Option<(usize, &Version)> {
        let place = self.place(granule)?;
        let version = self.versions[place].iter().rev().find(|version| version.time <= time)?;
        Some((place, version))
    }

    /// The newest version of a granule that `is` what is looked for.
    pub fn newest_that(&self, granule: usize, is: impl Fn(&Version) -> bool) -> Option<&Version> {
        self.versions[self.place(granule)?].iter().rev().find(|version| is(version))
    }

    /// The place of a granule, and the time of its newest version.
    pub fn newest(&self, granule: usize) -> Option<(usize, u32)> {
        let place = self.place(granule)?;
        Some((place, self.versions[place].last()?.time))
    }

    /// Memory that kernels have freed is allocated again now.
    pub fn reuse(&mut self, start: usize, bytes: usize) {
        self.reused.insert(start, (bytes, self.time));
    }

    /// Whether the newest version of a granule is from before its memory was allocated again, and newer than
    /// `floor` says of its place.
    pub fn is_unseen_of_before(&self, granule: usize, floor: impl Fn(usize) -> u32) -> bool {
        let Some((start, (bytes, allocated))) = self.reused.range(..=8 * granule).next_back() else {
            return false;
        };
        let newest = self.newest(granule).filter(|_| 8 * granule < start + bytes);
        newest.is_some_and(|(place, time)| time <= *allocated && time > floor(place))
    }

    /// Memory that goes to somebody else: its values are nobody's.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        for (granule, _) in granules(address, bytes) {
            if let Some(place) = self.place(granule) {
                self.versions[place].clear();
            }
        }
    }
}
