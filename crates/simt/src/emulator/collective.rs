//! Collectives of a warp: their results, as the PTX ISA defines them, and the rendezvous of lanes.
//!
//! A collective is a rendezvous: each lane stores its operand. The last lane of the mask to arrive computes
//! the results of all lanes, makes the others runnable and continues without yielding. Lanes match when they
//! name the same instruction and the same mask, wherever the calls stand in the source, as in PTX.
use super::block::Warp;
use super::failure::{Absent, FailureKind, Whereabouts};
use super::lane::{Lane, Place};
use super::site::Site;
use simt_macros::device;
use std::cell::Cell;

/// Kind of a collective instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ballot,
    Any,
    ShuffleIdx,
    ShuffleXor,
    ShuffleUp,
    ShuffleDown,
    MatchAny,
    ReduceAdd,
    ReduceMin,
    ReduceMax,
    Sync,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ballot => "ballot",
            Self::Any => "any",
            Self::ShuffleIdx => "shuffle",
            Self::ShuffleXor => "shuffle_xor",
            Self::ShuffleUp => "shuffle_up",
            Self::ShuffleDown => "shuffle_down",
            Self::MatchAny => "match_any",
            Self::ReduceAdd => "reduce_add",
            Self::ReduceMin => "reduce_min",
            Self::ReduceMax => "reduce_max",
            Self::Sync => "sync",
        }
    }
}

/// Operand of a lane: the value and, for shuffles, the operands `b` and `c` of `shfl`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Operand {
    pub value: u32,
    pub select: u32,
    pub segment: u32,
}

/// Lanes that wait for the rest of their mask.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    pub kind: Kind,
    pub mask: u32,
    pub arrived: u32,
}

impl Group {
    pub const EMPTY: Self = Self { kind: Kind::Sync, mask: 0, arrived: 0 };
}

/// Iterates over the lanes of a mask, from the lowest.
pub fn lanes_of(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// Executes a collective with the lanes of `mask`; returns the calling lane's result.
#[inline(never)]
pub fn meet(kind: Kind, mask: u32, operand: Operand, site: Site) -> u32 {
    let lane = Lane::current();
    lane.step(site);
    let warp = lane.warp();
    warp.operands[lane.lane as usize].set(operand);
    let mask = mask & warp.exists;
    if mask & lane.bit() == 0 || mask & warp.ended.get() != 0 {
        check_mask(lane, kind, mask, site);
    }
    let slot = warp.join(kind, mask, lane.bit());
    if warp.is_complete(slot) {
        complete(lane, slot, site);
    } else {
        if warp.open.get().count_ones() > 1 {
            check_deadlock(lane, slot, site);
        }
        lane.wait(Place::Collective(kind, site));
    }
    warp.results[lane.lane as usize].get()
}

/// Fails if the mask omits the calling lane or names a lane that has ended.
#[cold]
fn check_mask(lane: &Lane, kind: Kind, mask: u32, site: Site) {
    let missing = if mask & lane.bit() == 0 {
        vec![Absent { thread: lane.thread, whereabouts: Whereabouts::Outside }]
    } else if lane.worker().detect().collectives {
        lane.block().absent(lane.warp(), mask & lane.warp().ended.get())
    } else {
        return;
    };
    lane.fail(FailureKind::MissingLane { collective: kind.name(), mask, missing }, site, None);
}

/// Fails if two groups each wait for a lane of the other.
#[cold]
fn check_deadlock(lane: &Lane, slot: usize, site: Site) {
    if !lane.worker().detect().collectives {
        return;
    }
    let warp = lane.warp();
    let mine = warp.groups[slot].get();
    for other in lanes_of(warp.open.get() & !(1 << slot)).map(|slot| warp.groups[slot].get()) {
        let missing = other.arrived & mine.mask;
        if missing != 0 && other.mask & lane.bit() != 0 {
            let party = lane.block().party_in(warp, missing.trailing_zeros());
            let missing = lane.block().absent(warp, missing);
            let kind = FailureKind::MissingLane { collective: mine.kind.name(), mask: mine.mask, missing };
            lane.fail(kind, site, party);
        }
    }
}

/// Completes the group after the last lane has arrived.
fn complete(lane: &Lane, slot: usize, site: Site) {
    let warp = lane.warp();
    let group = warp.close(slot);
    let read = evaluate(group.kind, group.arrived, &warp.operands, &warp.results);
    if let Some((reader, source)) = read.filter(|_| lane.worker().detect().collectives) {
        let absent = Absent { thread: lane.thread - lane.lane + source, whereabouts: Whereabouts::Outside };
        let kind = FailureKind::MissingLane {
            collective: group.kind.name(),
            mask: group.mask,
            missing: vec![absent],
        };
        let reader = lane.block().lane(lane.thread - lane.lane + reader);
        lane.fail_as(reader, kind, reader.place.get().site().unwrap_or(site), None);
    }
    if let Some(explorer) = lane.explorer() {
        let lanes = lanes_of(group.arrived).map(|l| lane.number - lane.lane + l as u32);
        match group.kind {
            Kind::Sync => explorer.synchronize(lanes),
            _ => explorer.exchange(lanes),
        }
    }
    lane.block().wake(warp, group.arrived & !lane.bit());
}

/// Completes groups that waited only for a lane that has now ended. Used when ended lanes are not waited for.
pub fn complete_without(lane: &Lane, site: Site) {
    let warp = lane.warp();
    for slot in lanes_of(warp.open.get()) {
        if warp.is_complete(slot) {
            complete(lane, slot, site);
        }
    }
}

/// Computes the results of the lanes in `mask`. Returns a lane that read from a lane outside the mask, and
/// that lane.
fn evaluate(
    kind: Kind,
    mask: u32,
    operands: &[Cell<Operand>; 32],
    results: &[Cell<u32>; 32],
) -> Option<(u32, u32)> {
    let value = |lane: usize| operands[lane].get().value;
    let same = match kind {
        Kind::Sync => return None,
        Kind::Ballot => lanes_of(mask).fold(0, |votes, lane| votes | value(lane) << lane),
        Kind::Any => lanes_of(mask).fold(0, |votes, lane| votes | value(lane)),
        Kind::ReduceAdd => lanes_of(mask).fold(0, |sum: u32, lane| sum.wrapping_add(value(lane))),
        Kind::ReduceMin => lanes_of(mask).fold(u32::MAX, |least, lane| least.min(value(lane))),
        Kind::ReduceMax => lanes_of(mask).fold(0, |most, lane| most.max(value(lane))),
        Kind::MatchAny => return match_any(mask, operands, results),
        _ => return shuffle(kind, mask, operands, results),
    };
    lanes_of(mask).for_each(|lane| results[lane].set(same));
    None
}

fn match_any(mask: u32, operands: &[Cell<Operand>; 32], results: &[Cell<u32>; 32]) -> Option<(u32, u32)> {
    let mut left = mask;
    while left != 0 {
        let value = operands[left.trailing_zeros() as usize].get().value;
        let equal = lanes_of(left)
            .filter(|&lane| operands[lane].get().value == value)
            .fold(0, |set, lane| set | 1 << lane);
        lanes_of(equal).for_each(|lane| results[lane].set(equal));
        left &= !equal;
    }
    None
}

fn shuffle(
    kind: Kind,
    mask: u32,
    operands: &[Cell<Operand>; 32],
    results: &[Cell<u32>; 32],
) -> Option<(u32, u32)> {
    let mut outside = None;
    for lane in lanes_of(mask) {
        let source = shuffle_source(kind, lane as u32, operands[lane].get());
        if mask & 1 << source == 0 {
            outside = Some((lane as u32, source));
        }
        results[lane].set(operands[source as usize].get().value);
    }
    outside
}

/// Returns the lane that `lane` reads from, by the table of `shfl.sync` in the PTX ISA.
fn shuffle_source(kind: Kind, lane: u32, operand: Operand) -> u32 {
    let (select, clamp, segment) = (operand.select & 31, operand.segment & 31, operand.segment >> 8 & 31);
    let least = lane & segment;
    let most = least | clamp & !segment;
    let (source, valid) = match kind {
        Kind::ShuffleUp => (lane.wrapping_sub(select), lane as i32 - select as i32 >= most as i32),
        Kind::ShuffleDown => (lane + select, lane + select <= most),
        Kind::ShuffleXor => (lane ^ select, lane ^ select <= most),
        _ => (least | select & !segment, least | select & !segment <= most),
    };
    if valid { source } else { lane }
}

impl Warp {
    /// Adds a lane to the group of its instruction and mask; returns the group's slot.
    #[device]
    fn join(&self, kind: Kind, mask: u32, bit: u32) -> usize {
        let first = mask.trailing_zeros() as usize % 32;
        let group = self.groups[first].get();
        let open = self.open.get();
        if open & 1 << first != 0 && group.kind == kind && group.mask == mask {
            self.groups[first].set(Group { arrived: group.arrived | bit, ..group });
            return first;
        }
        let slot = if open == 0 { first } else { self.find(kind, mask, first) };
        let arrived = if open & 1 << slot != 0 { self.groups[slot].get().arrived } else { 0 };
        self.groups[slot].set(Group { kind, mask, arrived: arrived | bit });
        self.open.set(open | 1 << slot);
        slot
    }

    /// Returns the slot of the open group of this instruction and mask, or else a free slot: `wished` if it
    /// is free.
    fn find(&self, kind: Kind, mask: u32, wished: usize) -> usize {
        let open = self.open.get();
        let mine = |&slot: &usize| {
            let group = self.groups[slot].get();
            group.kind == kind && group.mask == mask
        };
        let free = if open & 1 << wished == 0 { wished } else { open.trailing_ones() as usize };
        lanes_of(open).find(mine).unwrap_or(free)
    }

    #[device]
    fn is_complete(&self, slot: usize) -> bool {
        let group = self.groups[slot].get();
        group.arrived | self.ended.get() & group.mask == group.mask
    }

    fn close(&self, slot: usize) -> Group {
        self.open.set(self.open.get() & !(1 << slot));
        self.groups[slot].get()
    }
}
