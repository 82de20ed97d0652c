//! Happens-before, as the PTX memory model makes it.
//!
//! - A release (`.release`, or a fence followed by a strong write) and an acquire (`.acquire`, or a strong
//!   read followed by a fence) order what precedes with what follows when the read sees the write or a later
//!   read-modify-write of its chain.
//! - A sequentially consistent fence is a fence, and synchronizes with each earlier one of a scope that
//!   overlaps: the order in which the lanes come by is their order.
//! - The barrier of a block and `Tile::sync` order everything before in the lanes that meet with everything
//!   after.
//! - Votes, shuffles and the rest order nothing.
//! - An operation of block scope orders only lanes of its block.
//!
//! Where memory is weak, what a lane learns also tells which [versions](super::versions) it may still read.
use super::clock::{Clock, View, join};
use crate::{Order, Scope};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Maps keyed by eight-byte granules of memory.
pub type GranuleMap<V> = HashMap<usize, V, BuildHasherDefault<GranuleHasher>>;

/// One multiplication: granules are numbers.
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

/// The part of an access that lies in one granule: the granule, and which of its bytes.
pub fn granules(address: usize, bytes: usize) -> impl Iterator<Item = (usize, u8)> {
    let mask = if bytes >= 8 { u8::MAX } else { (1u8 << bytes) - 1 };
    (0..bytes.div_ceil(8)).map(move |i| (address / 8 + i, mask << (address % 8)))
}

/// Who makes an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Actor {
    /// The lane's number.
    pub lane: u32,
    /// Its block, unique in the run.
    pub block: u64,
}

/// A moment in a lane's life: epochs are counted from 1 and end when the lane publishes what it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub lane: u32,
    pub epoch: u32,
}

#[derive(Clone, Debug, Default)]
struct LaneOrder {
    epoch: u32,
    /// What the lane knows of others.
    past: Clock,
    /// What it knew at its last fence, of any scope and of device scope.
    fence_near: Option<Clock>,
    fence_far: Option<Clock>,
    /// What it has read relaxed: known from the next fence on, from lanes of its block, and from others.
    unfenced_near: Option<Clock>,
    unfenced_far: Option<Clock>,
    /// Where dependencies order: what its reads have shown. Its later reads return nothing older.
    read: View,
}

/// What a write published at a place.
#[derive(Clone, Debug)]
pub struct Release {
    bytes: u8,
    block: u64,
    /// For lanes of the same block, and for others.
    near: Option<Clock>,
    far: Option<Clock>,
}

/// What sequentially consistent fences have published to later ones.
#[derive(Default)]
struct FenceOrder {
    /// By fences of any scope, to lanes of the same block.
    blocks: HashMap<u64, Clock>,
    /// By fences of device scope or wider, to one another.
    device: Clock,
}

impl FenceOrder {
    /// What the lane's fence learns from earlier ones.
    fn seen_by(&self, actor: Actor, scope: Scope) -> Clock {
        let mut clock = self.blocks.get(&actor.block).cloned().unwrap_or_default();
        if scope != Scope::Block {
            clock.join(&self.device);
        }
        clock
    }

    /// The lane's fence publishes what it knows.
    fn publish(&mut self, actor: Actor, scope: Scope, now: &Clock) {
        self.blocks.entry(actor.block).or_default().join(now);
        if scope != Scope::Block {
            self.device.join(now);
        }
    }
}

/// What is ordered before what, in one run.
#[derive(Default)]
pub struct Orders {
    lanes: Vec<LaneOrder>,
    places: GranuleMap<Vec<Release>>,
    sc_fences: FenceOrder,
    /// Whether a read is ordered before the lane's later reads, as far as views tell.
    dependencies: bool,
    /// What was known when a lane last read the device's clock.
    time: View,
}

/// What of the releases a read of bytes of a granule sees: from lanes of its block, and from others.
fn seen(releases: &[Release], actor: Actor, bytes: u8, scope: Scope) -> (Option<Clock>, Option<Clock>) {
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

impl Orders {
    /// `dependencies`: reads are ordered, as if the address of each depended on those before it.
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

    /// Now.
    pub fn moment(&mut self, lane: u32) -> Moment {
        Moment { lane, epoch: self.lane(lane).epoch }
    }

    /// Whether the moment is ordered before what the lane does now.
    pub fn knows(&self, lane: u32, moment: Moment) -> bool {
        let known = || self.lanes.get(lane as usize).is_some_and(|l| l.past.get(moment.lane) >= moment.epoch);
        lane == moment.lane || known()
    }

    /// Everything ordered before now, the lane's own doings included.
    fn present(&mut self, lane: u32) -> Clock {
        let order = self.lane(lane);
        let mut clock = order.past.clone();
        clock.set(lane, order.epoch);
        clock
    }

    /// A strong read of bytes of a granule.
    pub fn read(&mut self, actor: Actor, granule: usize, bytes: u8, order: Order, scope: Scope) {
        let Some(releases) = self.places.get(&granule) else { return };
        let seen = seen(releases, actor, bytes, scope);
        self.learn(actor.lane, seen, order);
    }

    /// As [`Self::read`], of a version that published `releases`.
    pub fn read_version(
        &mut self,
        actor: Actor,
        releases: &[Release],
        bytes: u8,
        order: Order,
        scope: Scope,
    ) {
        self.learn(actor.lane, seen(releases, actor, bytes, scope), order);
    }

    /// The lane learns what a read of this order has seen: at once, or at its next fence.
    fn learn(&mut self, lane: u32, (near, far): (Option<Clock>, Option<Clock>), order: Order) {
        let dependencies = self.dependencies;
        let lane = self.lane(lane);
        if dependencies {
            near.iter().chain(&far).for_each(|clock| lane.read.join(&clock.view));
        }
        if matches!(order, Order::Acquire | Order::AcqRel) {
            near.iter().chain(&far).for_each(|clock| lane.past.join(clock));
        } else {
            near.iter().for_each(|clock| join(&mut lane.unfenced_near, clock));
            far.iter().for_each(|clock| join(&mut lane.unfenced_far, clock));
        }
    }

    /// Whether reads are ordered after those before.
    pub fn has_dependencies(&self) -> bool {
        self.dependencies
    }

    /// Later reads of the lane depend on its weak read of a version that published `releases`.
    pub fn depend(&mut self, actor: Actor, releases: &[Release], bytes: u8) {
        let (near, far) = seen(releases, actor, bytes, Scope::Device);
        let lane = self.lane(actor.lane);
        near.iter().chain(&far).for_each(|clock| lane.read.join(&clock.view));
    }

    /// The time of the oldest version of a place that a lane may read.
    pub fn floor(&self, lane: u32, place: usize) -> u32 {
        let of_lane = |order: &LaneOrder| order.past.view.get(place).max(order.read.get(place));
        self.lanes.get(lane as usize).map_or(0, of_lane)
    }

    /// The lane has read the version of a place that was written at `time`.
    pub fn observe_read(&mut self, lane: u32, place: usize, time: u32) {
        let dependencies = self.dependencies;
        let lane = self.lane(lane);
        lane.past.view.raise(place, time);
        if dependencies {
            lane.read.raise(place, time);
        }
    }

    /// The lane has written the version of a place that has this time.
    pub fn observe_write(&mut self, lane: u32, place: usize, time: u32) {
        self.lane(lane).past.view.raise(place, time);
    }

    /// What is published at a granule now.
    pub fn published_at(&self, granule: usize) -> Vec<Release> {
        self.places.get(&granule).cloned().unwrap_or_default()
    }

    /// The lanes exchange registers, and so addresses that they have read.
    pub fn exchange(&mut self, lanes: &[u32]) {
        if !self.dependencies {
            return;
        }
        let mut all = View::default();
        lanes.iter().for_each(|&lane| all.join(&self.lane(lane).read));
        lanes.iter().for_each(|&lane| self.lane(lane).read = all.clone());
    }

    /// The lanes read the device's clock together: they see what was there at its earlier readings.
    pub fn read_clock(&mut self, lanes: &[u32]) {
        let mut time = std::mem::take(&mut self.time);
        lanes.iter().for_each(|&lane| time.join(&self.lane(lane).past.view));
        lanes.iter().for_each(|&lane| self.lane(lane).past.view.join(&time));
        self.time = time;
    }

    /// A write of bytes of a granule. `update`: it continues the chain of what it replaced.
    pub fn write(&mut self, actor: Actor, granule: usize, bytes: u8, how: (Order, Scope), update: bool) {
        let (near, far) = self.published(actor, how);
        let releases = self.places.entry(granule).or_default();
        if !update {
            releases.retain_mut(|release| {
                release.bytes &= !bytes;
                release.bytes != 0
            });
        }
        if near.is_none() && far.is_none() {
            return;
        }
        match releases.iter_mut().find(|release| release.bytes == bytes && release.block == actor.block) {
            Some(release) => {
                near.iter().for_each(|clock| join(&mut release.near, clock));
                far.iter().for_each(|clock| join(&mut release.far, clock));
            }
            None => releases.push(Release { bytes, block: actor.block, near, far }),
        }
    }

    /// What a write publishes to lanes of its block and to others.
    fn published(&mut self, actor: Actor, (order, scope): (Order, Scope)) -> (Option<Clock>, Option<Clock>) {
        let wide = scope != Scope::Block;
        match order {
            Order::Weak => (None, None),
            Order::Release | Order::AcqRel => {
                let now = self.present(actor.lane);
                (Some(now.clone()), wide.then_some(now))
            }
            Order::Relaxed | Order::Acquire => {
                let lane = self.lane(actor.lane);
                (lane.fence_near.clone(), lane.fence_far.clone().filter(|_| wide))
            }
        }
    }

    /// Memory that goes to somebody else: what was published there is gone.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        granules(address, bytes).for_each(|(granule, _)| drop(self.places.remove(&granule)));
    }

    /// Begins the lane's next epoch, after a write that published this one.
    pub fn advance(&mut self, lane: u32) {
        self.lane(lane).epoch += 1;
    }

    pub fn fence(&mut self, lane: u32, scope: Scope) {
        self.acquire_read(lane, scope);
        let now = self.present(lane);
        self.release(lane, scope, now);
    }

    /// A fence that is in one order with all others of its kind.
    pub fn fence_sc(&mut self, actor: Actor, scope: Scope) {
        self.acquire_read(actor.lane, scope);
        let seen = self.sc_fences.seen_by(actor, scope);
        self.lane(actor.lane).past.join(&seen);
        let now = self.present(actor.lane);
        self.sc_fences.publish(actor, scope, &now);
        self.release(actor.lane, scope, now);
    }

    /// The acquiring half of a fence: what relaxed reads saw is known from now on.
    fn acquire_read(&mut self, lane: u32, scope: Scope) {
        let order = self.lane(lane);
        let near = order.unfenced_near.take();
        let far = if scope == Scope::Block { None } else { order.unfenced_far.take() };
        near.iter().chain(&far).for_each(|clock| order.past.join(clock));
    }

    /// The releasing half of a fence: later relaxed writes publish what is known now.
    fn release(&mut self, lane: u32, scope: Scope, now: Clock) {
        let order = self.lane(lane);
        if scope != Scope::Block {
            order.fence_far = Some(now.clone());
        }
        order.fence_near = Some(now);
        order.epoch += 1;
    }

    /// The lanes meet at a barrier.
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
