//! Weak memory: the values that strong reads may return.
//!
//! Each write of a granule creates a version of it. A version holds the time of the write, the value of the
//! whole granule, and the releases of the write. Times count all writes of a run, so the versions of a
//! granule are in modification order. Each lane has a view (in its [`Clock`](super::clock::Clock)): per
//! granule, the newest version that it must observe. A strong read returns any version that is not older than
//! the view; the scheduler chooses which. The read raises the view to that version, and acquires its releases
//! as the order of the read demands. Weak reads are modelled by [`super::stale`].
//!
//! On the GPU, a plain write may be overtaken by an earlier write that its lane does not know. For memory
//! that is freed and allocated again this is an error, which [`Versions::is_unseen_of_before`] detects.
//!
//! # Limitations
//!
//! - A write takes effect at once, and last in its granule's modification order. The outcomes of the litmus
//!   tests S and 2+2W, in which a later write of another thread overtakes a write, do not occur.
//! - A read returns only values that have been written. Load buffering (LB), which needs promises, does not
//!   occur.
//! - Read-modify-writes read the newest version, even a compare-exchange that fails.
//! - A read of one half of a granule also raises the view of the other half.
//! - [`KEPT`] versions of a granule are kept; older ones are never read.
//! - Dependencies between reads are not tracked.
//!   [`WeakMemory::Hardware`](crate::emulator::WeakMemory::Hardware) assumes that each read of a lane depends
//!   on all earlier reads of the lane, and on all earlier reads of the lanes that it has met at a collective.
use super::order::{GranuleMap, Release, granules};

use std::collections::BTreeMap;

/// Number of versions kept per granule.
const KEPT: usize = 6;

/// Value of a granule after a write.
pub struct Version {
    /// Time of the write; 0 for the value before the run.
    pub time: u32,
    /// Value of the granule's eight bytes.
    pub value: u64,
    /// Releases published at the granule.
    pub releases: Vec<Release>,
}

/// The latest versions of all granules written in the run.
#[derive(Default)]
pub struct Versions {
    /// Index of each granule in `versions` and in views.
    places: GranuleMap<usize>,
    /// Versions by index, the oldest first; empty after the memory got a new owner.
    versions: Vec<Vec<Version>>,
    time: u32,
    /// Memory that was allocated again, by its start: its bytes, and the time of the allocation.
    reused: BTreeMap<usize, (usize, u32)>,
}

impl Versions {
    /// Returns the time of the next write.
    pub fn advance(&mut self) -> u32 {
        self.time += 1;
        self.time
    }

    /// Returns the index of a granule that has been written.
    fn place(&self, granule: usize) -> Option<usize> {
        self.places.get(&granule).copied()
    }

    /// Returns the index of a granule, whose first version is the value before the run's writes.
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

    /// Adds the newest version of a granule, which held `before`. Returns the granule's index.
    pub fn push(&mut self, granule: usize, before: u64, version: Version) -> usize {
        let place = self.place_to_write(granule, before);
        let versions = &mut self.versions[place];
        if versions.len() == KEPT {
            versions.remove(0);
        }
        versions.push(version);
        place
    }

    /// Returns the times at which a lane may read these granules together, the newest first.
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

    /// Returns the index of a granule, and its version at a time.
    pub fn at(&self, granule: usize, time: u32) -> Option<(usize, &Version)> {
        let place = self.place(granule)?;
        let version = self.versions[place].iter().rev().find(|version| version.time <= time)?;
        Some((place, version))
    }

    /// Returns the newest version of a granule that satisfies `is`.
    pub fn newest_that(&self, granule: usize, is: impl Fn(&Version) -> bool) -> Option<&Version> {
        self.versions[self.place(granule)?].iter().rev().find(|version| is(version))
    }

    /// Returns the index of a granule, and the time of its newest version.
    pub fn newest(&self, granule: usize) -> Option<(usize, u32)> {
        let place = self.place(granule)?;
        Some((place, self.versions[place].last()?.time))
    }

    /// Records that memory freed by kernels is allocated again now.
    pub fn reuse(&mut self, start: usize, bytes: usize) {
        self.reused.insert(start, (bytes, self.time));
    }

    /// Returns `true` if the newest version of a granule predates the reallocation of its memory and is newer
    /// than `floor` of its index.
    pub fn is_unseen_of_before(&self, granule: usize, floor: impl Fn(usize) -> u32) -> bool {
        let Some((start, (bytes, allocated))) = self.reused.range(..=8 * granule).next_back() else {
            return false;
        };
        let newest = self.newest(granule).filter(|_| 8 * granule < start + bytes);
        newest.is_some_and(|(place, time)| time <= *allocated && time > floor(place))
    }

    /// Forgets the values of memory that gets a new owner.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        for (granule, _) in granules(address, bytes) {
            if let Some(place) = self.place(granule) {
                self.versions[place].clear();
            }
        }
    }
}
