//! Happens-before, as the PTX memory model defines it.
//!
//! - A release (`.release`, or a fence followed by a strong write) and an acquire (`.acquire`, or a strong
//!   read followed by a fence) order what precedes with what follows if the read observes the write or a
//!   later read-modify-write of its chain.
//! - A lane's strong write to a word continues the lane's earlier release at this word, and its acquire at a
//!   word also acquires what its earlier strong reads of this word observed (the second patterns of PTX).
//! - A sequentially consistent fence is a fence, and synchronizes with each earlier one whose scope overlaps.
//!   The total order of these fences is their execution order.
//! - The barrier of a block and `Tile::sync` order everything before them, in the participating lanes, with
//!   everything after.
//! - Votes, shuffles and the other collectives order nothing.
//! - An operation of block scope orders only lanes of its block.
//!
//! With weak memory, the order also determines which [versions](super::versions) a lane may still read.
use super::clock::{Clock, Time, View, join};
use crate::{Order, Scope};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;

/// Map keyed by eight-byte granules of memory.
pub type GranuleMap<V> = HashMap<usize, V, BuildHasherDefault<GranuleHasher>>;

/// Hasher of granules: one multiplication.
#[derive(Default)]
pub struct GranuleHasher(u64);

impl Hasher for GranuleHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_usize(byte.into()));
    }

    fn write_usize(&mut self, number: usize) {
        self.0 = crate::hash::mix64(self.0 ^ number as u64);
    }
}

/// Returns the granules of an access.
fn granules_of(address: usize, bytes: usize) -> Range<usize> {
    address / 8..address / 8 + bytes.div_ceil(8)
}

/// Splits an access into granules; yields each granule and the mask of its bytes.
pub fn granules(address: usize, bytes: usize) -> impl Iterator<Item = (usize, u8)> {
    let mask = if bytes >= 8 { u8::MAX } else { (1u8 << bytes) - 1 };
    granules_of(address, bytes).map(move |granule| (granule, mask << (address % 8)))
}

/// Lane that makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// Number of the lane.
    pub lane: u32,
    /// Block of the lane, unique in the run.
    pub block: u64,
}

/// Timestamp of an access. Epochs count from 1; an epoch ends when the lane publishes its accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timestamp {
    pub lane: u32,
    pub epoch: u32,
}

#[derive(Clone, Debug, Default)]
struct LaneOrder {
    epoch: u32,
    /// Knowledge of other lanes.
    past: Clock,
    /// Knowledge at the lane's last fence, of any scope (`near`) and of device scope or wider (`far`).
    fence_near: Option<Clock>,
    fence_far: Option<Clock>,
    /// Releases observed by relaxed reads, acquired at the next fence: from lanes of its block (`near`) and
    /// from others (`far`).
    unfenced_near: Option<Clock>,
    unfenced_far: Option<Clock>,
    /// With dependencies: the writes that its reads have observed. Its later reads return nothing older.
    read: View,
    /// Releases of the lane at a granule, which its later strong writes there publish, too.
    released: GranuleMap<Release>,
    /// Releases that strong reads of a granule have observed, which a later acquire there acquires.
    observed: GranuleMap<Pair>,
}

/// Clocks for lanes of the same block (`near`) and for others (`far`).
type Pair = (Option<Clock>, Option<Clock>);

/// Adds the clocks of `other`.
fn join_pair(into: &mut Pair, other: &Pair) {
    other.0.iter().for_each(|clock| join(&mut into.0, clock));
    other.1.iter().for_each(|clock| join(&mut into.1, clock));
}

/// Clocks that a write published at a granule.
#[derive(Clone, Debug)]
pub struct Release {
    bytes: u8,
    block: u64,
    /// Clock for lanes of the same block (`near`) and for others (`far`).
    near: Option<Clock>,
    far: Option<Clock>,
}

/// Clocks that sequentially consistent fences have published to later ones.
#[derive(Default)]
struct FenceOrder {
    /// Published by fences of any scope, to lanes of the same block.
    blocks: HashMap<u64, Clock>,
    /// Published by fences of device scope or wider, to one another.
    device: Clock,
}

impl FenceOrder {
    /// Returns the clock that the lane's fence acquires from earlier fences.
    fn seen_by(&self, actor: Actor, scope: Scope) -> Clock {
        let mut clock = self.blocks.get(&actor.block).cloned().unwrap_or_default();
        if scope != Scope::Block {
            clock.join(&self.device);
        }
        clock
    }

    /// Publishes the lane's knowledge at its fence.
    fn publish(&mut self, actor: Actor, scope: Scope, now: &Clock) {
        self.blocks.entry(actor.block).or_default().join(now);
        if scope != Scope::Block {
            self.device.join(now);
        }
    }
}

/// Happens-before order of one run.
#[derive(Default)]
pub struct Orders {
    lanes: Vec<LaneOrder>,
    places: GranuleMap<Vec<Release>>,
    sc_fences: FenceOrder,
    /// Whether a read is ordered before the lane's later reads, for views.
    dependencies: bool,
    /// View at the latest read of the device's clock.
    time: View,
}

/// Returns the clocks that a read of bytes of a granule observes: from lanes of its block, and from others.
fn seen(releases: &[Release], actor: Actor, bytes: u8, scope: Scope) -> Pair {
    let (mut near, mut far) = (None, None);
    for release in releases.iter().filter(|release| release.bytes & bytes != 0) {
        if release.block == actor.block {
            release.near.iter().for_each(|clock| join(&mut near, clock));
        }
        if scope != Scope::Block {
            release.far.iter().for_each(|clock| join(&mut far, clock));
        }
    }
    (near, far)
}

/// Returns `true` if a read of bytes of a granule observes one of the releases.
pub fn sees(releases: &[Release], actor: Actor, bytes: u8, scope: Scope) -> bool {
    let (near, far) = seen(releases, actor, bytes, scope);
    near.is_some() || far.is_some()
}

impl Orders {
    /// Creates an empty order. With `dependencies`, reads are ordered as if the address of each depended on
    /// all reads before it.
    pub fn new(dependencies: bool) -> Self {
        Self { dependencies, ..Self::default() }
    }

    fn lane(&mut self, lane: u32) -> &mut LaneOrder {
        let lane = lane as usize;
        if self.lanes.len() <= lane {
            self.lanes.resize_with(lane + 1, || LaneOrder { epoch: 1, ..LaneOrder::default() });
        }
        &mut self.lanes[lane]
    }

    /// Returns the lane's current epoch.
    pub fn timestamp(&mut self, lane: u32) -> Timestamp {
        Timestamp { lane, epoch: self.lane(lane).epoch }
    }

    /// Returns `true` if `timestamp` happens before the lane's next access.
    pub fn knows(&self, lane: u32, timestamp: Timestamp) -> bool {
        let known =
            || self.lanes.get(lane as usize).is_some_and(|l| l.past.get(timestamp.lane) >= timestamp.epoch);
        lane == timestamp.lane || known()
    }

    /// Returns the clock of everything ordered before now, including the lane's own accesses.
    fn present(&mut self, lane: u32) -> Clock {
        let order = self.lane(lane);
        let mut clock = order.past.clone();
        clock.set(lane, order.epoch);
        clock
    }

    /// Records a strong read of bytes of a granule.
    pub fn read(&mut self, actor: Actor, granule: usize, bytes: u8, how: (Order, Scope)) {
        let seen = self.places.get(&granule).map(|releases| seen(releases, actor, bytes, how.1));
        self.learn(actor.lane, granule, seen.unwrap_or_default(), how);
    }

    /// As [`Self::read`], for a version that published `releases`.
    pub fn read_version(
        &mut self,
        actor: Actor,
        granule: usize,
        releases: &[Release],
        bytes: u8,
        how: (Order, Scope),
    ) {
        self.learn(actor.lane, granule, seen(releases, actor, bytes, how.1), how);
    }

    /// Acquires the clocks that a read has observed: at once, or at the lane's next fence, depending on its
    /// order.
    fn learn(&mut self, lane: u32, granule: usize, seen: Pair, (order, scope): (Order, Scope)) {
        let dependencies = self.dependencies;
        let lane = self.lane(lane);
        if dependencies {
            seen.0.iter().chain(&seen.1).for_each(|clock| lane.read.join(&clock.view));
        }
        if matches!(order, Order::Acquire | Order::AcqRel) {
            let (near, far) = lane.observed.get(&granule).cloned().unwrap_or_default();
            let far = far.filter(|_| scope != Scope::Block);
            let earlier = near.iter().chain(&far);
            seen.0.iter().chain(&seen.1).chain(earlier).for_each(|clock| lane.past.join(clock));
        } else if seen.0.is_some() || seen.1.is_some() {
            join_pair(lane.observed.entry(granule).or_default(), &seen);
            seen.0.iter().for_each(|clock| join(&mut lane.unfenced_near, clock));
            seen.1.iter().for_each(|clock| join(&mut lane.unfenced_far, clock));
        }
    }

    /// Returns `true` if reads are ordered after earlier reads.
    pub fn has_dependencies(&self) -> bool {
        self.dependencies
    }

    /// Records that later reads of the lane depend on its weak read of a version that published `releases`.
    pub fn depend(&mut self, actor: Actor, releases: &[Release], bytes: u8) {
        let (near, far) = seen(releases, actor, bytes, Scope::Device);
        let lane = self.lane(actor.lane);
        near.iter().chain(&far).for_each(|clock| lane.read.join(&clock.view));
    }

    /// Returns the time of the oldest version of a granule that a lane may read.
    pub fn floor(&self, lane: u32, place: usize) -> Time {
        let of_lane = |order: &LaneOrder| order.past.view.get(place).max(order.read.get(place));
        self.lanes.get(lane as usize).map_or(0, of_lane)
    }

    /// Records that the lane has read the version of a granule written at `time`.
    pub fn observe_read(&mut self, lane: u32, place: usize, time: Time) {
        let dependencies = self.dependencies;
        let lane = self.lane(lane);
        lane.past.view.set_at_least(place, time);
        if dependencies {
            lane.read.set_at_least(place, time);
        }
    }

    /// Records that the lane has written the version of a granule with this time.
    pub fn observe_write(&mut self, lane: u32, place: usize, time: Time) {
        self.lane(lane).past.view.set_at_least(place, time);
    }

    /// Returns the releases currently published at a granule.
    pub fn published_at(&self, granule: usize) -> Vec<Release> {
        self.places.get(&granule).cloned().unwrap_or_default()
    }

    /// Records that the lanes exchange registers, and thereby addresses that they have read.
    pub fn exchange(&mut self, lanes: &[u32]) {
        if !self.dependencies {
            return;
        }
        let mut all = View::default();
        lanes.iter().for_each(|&lane| all.join(&self.lane(lane).read));
        lanes.iter().for_each(|&lane| self.lane(lane).read = all.clone());
    }

    /// Records that the lanes read the device's clock together: they observe all writes visible at its
    /// earlier reads.
    pub fn read_clock(&mut self, lanes: &[u32]) {
        let mut time = std::mem::take(&mut self.time);
        lanes.iter().for_each(|&lane| time.join(&self.lane(lane).past.view));
        lanes.iter().for_each(|&lane| self.lane(lane).past.view.join(&time));
        self.time = time;
    }

    /// Records a write of bytes of a granule. With `update`, it continues the release chain of the replaced
    /// value.
    pub fn write(&mut self, actor: Actor, granule: usize, bytes: u8, how: (Order, Scope), update: bool) {
        let mut releases = self.places.remove(&granule).unwrap_or_default();
        self.write_over(&mut releases, actor, (granule, bytes), how, update);
        if !releases.is_empty() {
            self.places.insert(granule, releases);
        }
    }

    /// Adds a release to those published at a granule.
    pub fn publish(&mut self, granule: usize, release: &Release) {
        self.places.entry(granule).or_default().push(release.clone());
    }

    /// Replaces the releases that are published at a granule, before a write of its bytes, by those after it.
    pub fn write_over(
        &mut self,
        releases: &mut Vec<Release>,
        actor: Actor,
        (granule, bytes): (usize, u8),
        how: (Order, Scope),
        update: bool,
    ) {
        if !update {
            releases.retain_mut(|release| {
                release.bytes &= !bytes;
                release.bytes != 0
            });
        }
        let (near, far) = self.published(actor, granule, bytes, how);
        if near.is_none() && far.is_none() {
            return;
        }
        let own = |release: &&mut Release| release.bytes == bytes && release.block == actor.block;
        match releases.iter_mut().find(own) {
            Some(release) => {
                near.iter().for_each(|clock| join(&mut release.near, clock));
                far.iter().for_each(|clock| join(&mut release.far, clock));
            }
            None => releases.push(Release { bytes, block: actor.block, near, far }),
        }
    }

    /// Returns the clocks that a write publishes to lanes of its block and to others.
    fn published(&mut self, actor: Actor, granule: usize, bytes: u8, (order, scope): (Order, Scope)) -> Pair {
        let wide = scope != Scope::Block;
        match order {
            Order::Weak => (None, None),
            Order::Release | Order::AcqRel => {
                let now = self.present(actor.lane);
                self.release_at(actor, granule, bytes, (now, wide))
            }
            Order::Relaxed | Order::Acquire => {
                let lane = self.lane(actor.lane);
                let mut pair = (lane.fence_near.clone(), lane.fence_far.clone());
                if let Some(earlier) = lane.released.get(&granule).filter(|earlier| earlier.bytes == bytes) {
                    join_pair(&mut pair, &(earlier.near.clone(), earlier.far.clone()));
                }
                (pair.0, pair.1.filter(|_| wide))
            }
        }
    }

    /// Records that the lane releases `now` at bytes of a granule. Returns the clocks that it has released
    /// there.
    fn release_at(&mut self, actor: Actor, granule: usize, bytes: u8, (now, wide): (Clock, bool)) -> Pair {
        let released = &mut self.lane(actor.lane).released;
        let earlier = released.remove(&granule).filter(|earlier| earlier.bytes == bytes);
        let far = if wide { Some(now.clone()) } else { earlier.and_then(|earlier| earlier.far) };
        let near = Some(now);
        let release = Release { bytes, block: actor.block, near: near.clone(), far: far.clone() };
        released.insert(granule, release);
        (near, far.filter(|_| wide))
    }

    /// Forgets the releases of memory that gets a new owner.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        let forgotten = granules_of(address, bytes);
        forgotten.clone().for_each(|granule| drop(self.places.remove(&granule)));
        // Not a removal per granule: most lanes know no release, or a few elsewhere.
        let is_elsewhere = |granule: &usize| !forgotten.contains(granule);
        for lane in &mut self.lanes {
            lane.released.retain(|granule, _| is_elsewhere(granule));
            lane.observed.retain(|granule, _| is_elsewhere(granule));
        }
    }

    /// Starts the lane's next epoch, after a write that published the current one.
    pub fn advance(&mut self, lane: u32) {
        self.lane(lane).epoch += 1;
    }

    pub fn fence(&mut self, lane: u32, scope: Scope) {
        self.acquire_read(lane, scope);
        let now = self.present(lane);
        self.release(lane, scope, now);
    }

    /// Executes a sequentially consistent fence.
    pub fn fence_sc(&mut self, actor: Actor, scope: Scope) {
        self.acquire_read(actor.lane, scope);
        let seen = self.sc_fences.seen_by(actor, scope);
        self.lane(actor.lane).past.join(&seen);
        let now = self.present(actor.lane);
        self.sc_fences.publish(actor, scope, &now);
        self.release(actor.lane, scope, now);
    }

    /// Executes the acquire half of a fence: acquires the releases that relaxed reads have observed.
    fn acquire_read(&mut self, lane: u32, scope: Scope) {
        let order = self.lane(lane);
        let near = order.unfenced_near.take();
        let far = if scope == Scope::Block { None } else { order.unfenced_far.take() };
        near.iter().chain(&far).for_each(|clock| order.past.join(clock));
        if scope != Scope::Block {
            order.observed.clear();
        }
    }

    /// Executes the release half of a fence: later relaxed writes publish the lane's present knowledge.
    fn release(&mut self, lane: u32, scope: Scope, now: Clock) {
        let order = self.lane(lane);
        if scope != Scope::Block {
            order.fence_far = Some(now.clone());
        }
        order.fence_near = Some(now);
        order.epoch += 1;
    }

    /// Synchronizes the lanes at a barrier.
    pub fn meet(&mut self, lanes: &[u32]) {
        let mut all = Clock::default();
        for &lane in lanes {
            self.lane(lane);
            all.join(&self.lanes[lane as usize].past);
        }
        for &lane in lanes {
            all.set(lane, self.lanes[lane as usize].epoch);
        }
        for &lane in lanes {
            let order = self.lane(lane);
            order.past = all.clone();
            order.epoch += 1;
        }
        self.exchange(lanes);
    }
}
