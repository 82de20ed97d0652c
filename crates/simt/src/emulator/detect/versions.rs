//! Weak memory: the values that strong reads may return.
//!
//! Each write of a granule creates a version of it. A version holds the time of the write, the value of the
//! whole granule, and the releases of the write. A time is a position in the modification orders of all
//! granules that the write covers, not a moment of the run. Each lane has a view (in its
//! [`Clock`](super::clock::Clock)): per granule, the newest version that it must observe. A strong read
//! returns any version that is not older than the view; the scheduler chooses which. The read raises the view
//! to that version, and acquires its releases as the order of the read demands. Weak reads are modelled by
//! [`super::stale`].
//!
//! A strong write gets the newest time, or an older one that its lane's view does not exclude: later writes
//! of other lanes have then *overtaken* it, and it leaves the memory unchanged. The version of a
//! read-modify-write directly follows the version that it read; no write comes between them. A
//! read-modify-write may be overtaken, too: it then reads an older version.
//!
//! On the GPU, a plain write may be overtaken by an earlier write that its lane does not know. For memory
//! that is freed and allocated again this is an error, which [`Versions::is_unseen_of_before`] detects.
//!
//! # Limitations
//!
//! - A write is overtaken only by writes of other words of its granule if these cover its bytes.
//! - A read of one half of a granule also raises the view of the other half.
//! - [`KEPT`] versions of a granule are kept; older ones are never read.
//! - Dependencies between reads are not tracked.
//!   [`WeakMemory::Hardware`](crate::emulator::WeakMemory::Hardware) assumes that each read of a lane depends
//!   on all earlier reads of the lane, and on all earlier reads of the lanes that it has met at a collective.
use super::clock::Time;
use super::order::{GranuleMap, Release, granules};

use std::collections::BTreeMap;

/// Number of versions kept per granule.
const KEPT: usize = 6;

/// Times between those of two writes that are executed one after the other, for writes that they overtake.
const GAP: Time = 1 << 24;

/// Value of a granule after a write.
pub struct Version {
    /// Time of the write; 0 for the value before the run.
    pub time: Time,
    /// Mask of the bytes that the write covers.
    pub bytes: u8,
    /// Whether a read-modify-write created it, from the previous version of its bytes.
    pub updates: bool,
    /// Whether its value may derive from a promise (see the explorer's early writes).
    pub tainted: bool,
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
    time: Time,
    /// Memory that was allocated again, by its start: its bytes, and the time of the allocation.
    reused: BTreeMap<usize, (usize, Time)>,
}

impl Versions {
    /// Returns the time of the next write that is the newest.
    pub fn advance(&mut self) -> Time {
        self.time += GAP;
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
            let (bytes, updates, tainted, releases) = (u8::MAX, false, false, Vec::new());
            self.versions[place].push(Version { time: 0, bytes, updates, tainted, value: before, releases });
        }
        place
    }

    /// Adds a version of a granule, which holds `before` if this is the first. Returns the granule's index.
    pub fn push(&mut self, granule: usize, before: u64, version: Version) -> usize {
        let place = self.place_to_write(granule, before);
        let versions = &mut self.versions[place];
        if versions.len() == KEPT {
            versions.remove(0);
        }
        let at = versions.partition_point(|other| other.time < version.time);
        versions.insert(at, version);
        place
    }

    /// Returns the pairs of neighbouring times between which a write of these bytes of granules may be placed
    /// by a lane, the newest first: the versions from the later time on cover its bytes, and the lane knows
    /// none of them.
    pub fn gaps(
        &self,
        floor: impl Fn(usize) -> Time,
        mut granules: impl Iterator<Item = (usize, u8)>,
    ) -> Vec<(Time, Time)> {
        let mut gaps = granules.next().map_or(Vec::new(), |granule| self.gaps_of(&floor, granule));
        for granule in granules {
            let others = self.gaps_of(&floor, granule);
            let common = |&(low, high): &(Time, Time)| {
                let both = others.iter().map(move |&(from, to)| (low.max(from), high.min(to)));
                both.filter(|(low, high)| low < high).collect::<Vec<_>>()
            };
            gaps = gaps.iter().flat_map(common).collect();
        }
        gaps.retain(|(low, high)| high - low > 1);
        gaps
    }

    fn gaps_of(&self, floor: &impl Fn(usize) -> Time, (granule, bytes): (usize, u8)) -> Vec<(Time, Time)> {
        let Some(place) = self.place(granule) else { return Vec::new() };
        let oldest = floor(place);
        let overtakes = |version: &Version| version.bytes & bytes == bytes && version.time > oldest;
        let mut gaps = Vec::new();
        for pair in self.versions[place].windows(2).rev().take_while(|pair| overtakes(&pair[1])) {
            if !pair[1].updates {
                gaps.push((pair[0].time, pair[1].time));
            }
        }
        gaps
    }

    /// Returns the times at which a lane may read these granules together, the newest first.
    pub fn readable(
        &self,
        floor: impl Fn(usize) -> Time,
        granules: impl Iterator<Item = usize>,
    ) -> Vec<Time> {
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
    pub fn at(&self, granule: usize, time: Time) -> Option<(usize, &Version)> {
        let place = self.place(granule)?;
        let version = self.versions[place].iter().rev().find(|version| version.time <= time)?;
        Some((place, version))
    }

    /// Adds a release to the version of a granule at a time.
    pub fn release_at(&mut self, granule: usize, time: Time, release: &Release) {
        let Some(place) = self.place(granule) else { return };
        let version = self.versions[place].iter_mut().find(|version| version.time == time);
        version.into_iter().for_each(|version| version.releases.push(release.clone()));
    }

    /// Returns the newest version of a granule that satisfies `is`.
    pub fn newest_that(&self, granule: usize, is: impl Fn(&Version) -> bool) -> Option<&Version> {
        self.versions[self.place(granule)?].iter().rev().find(|version| is(version))
    }

    /// Returns the index of a granule, and the time of its newest version.
    pub fn newest(&self, granule: usize) -> Option<(usize, Time)> {
        let place = self.place(granule)?;
        Some((place, self.versions[place].last()?.time))
    }

    /// Records that memory freed by kernels is allocated again now.
    pub fn reuse(&mut self, start: usize, bytes: usize) {
        self.reused.insert(start, (bytes, self.time));
    }

    /// Returns `true` if the newest version of a granule predates the reallocation of its memory and is newer
    /// than `floor` of its index.
    pub fn is_unseen_of_before(&self, granule: usize, floor: impl Fn(usize) -> Time) -> bool {
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
