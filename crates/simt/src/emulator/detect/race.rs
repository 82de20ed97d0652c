//! Data races: two unordered accesses to a byte, of which at least one is a write, and which are not both
//! strong with scopes that include each other.
//!
//! Per granule of eight bytes, a bounded number of latest accesses is kept. A race with a much earlier access
//! may therefore be missed under one schedule; another schedule will show it. Strong accesses of different
//! sizes are not reported as races.
use super::super::failure::Party;
use super::super::site::SourceLine;
use super::order::{Actor, GranuleMap, Orders, Timestamp, granules};

/// Number of accesses kept per granule.
const KEPT: usize = 16;

/// A recorded access.
#[derive(Clone, Debug)]
pub struct Mark {
    pub timestamp: Timestamp,
    pub actor: Actor,
    pub writes: bool,
    pub weak: bool,
    /// Whether the scope is the block: strong only with respect to lanes of the block.
    pub narrow: bool,
    pub site: super::super::site::Site,
    pub block: u32,
    pub thread: u32,
}

impl Mark {
    /// Returns a description of the access.
    pub fn action(&self) -> &'static str {
        match (self.weak, self.writes, self.narrow) {
            (true, true, _) => "weak write",
            (true, false, _) => "weak read",
            (false, true, false) => "atomic write",
            (false, false, false) => "atomic read",
            (false, true, true) => "atomic write of block scope",
            (false, false, true) => "atomic read of block scope",
        }
    }

    /// Converts the access to the other party of a failure.
    pub fn party(&self) -> Party {
        Party {
            action: self.action().to_owned(),
            location: SourceLine::from(self.site),
            block: self.block,
            thread: self.thread,
        }
    }

    fn conflicts(&self, other: &Self) -> bool {
        let apart = (self.narrow || other.narrow) && self.actor.block != other.actor.block;
        (self.writes || other.writes) && (self.weak || other.weak || apart)
    }

    /// Returns `true` if every later access that races with `other` also races with `self`, the later of the
    /// two.
    fn replaces(&self, other: &Self) -> bool {
        (self.writes || !other.writes) && (self.weak || !other.weak && self.narrow == other.narrow)
    }
}

/// The recorded accesses.
#[derive(Default)]
pub struct Races {
    granules: GranuleMap<Vec<(u8, Mark)>>,
}

impl Races {
    /// Records an access; returns an earlier access that it races with.
    pub fn access(&mut self, orders: &Orders, address: usize, bytes: usize, mark: &Mark) -> Option<Mark> {
        granules(address, bytes)
            .find_map(|(granule, bytes)| self.access_granule(orders, granule, bytes, mark))
    }

    /// Forgets accesses to memory that gets a new owner.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        granules(address, bytes).for_each(|(granule, _)| drop(self.granules.remove(&granule)));
    }

    fn access_granule(&mut self, orders: &Orders, granule: usize, bytes: u8, mark: &Mark) -> Option<Mark> {
        let marks = self.granules.entry(granule).or_default();
        let lane = mark.actor.lane;
        let races = |(covered, earlier): &&(u8, Mark)| {
            covered & bytes != 0 && earlier.conflicts(mark) && !orders.knows(lane, earlier.timestamp)
        };
        let race = marks.iter().find(races).map(|(_, earlier)| earlier.clone());
        marks.retain(|(covered, earlier)| {
            covered & !bytes != 0 || !mark.replaces(earlier) || !orders.knows(lane, earlier.timestamp)
        });
        if marks.len() == KEPT {
            marks.remove(0);
        }
        marks.push((bytes, mark.clone()));
        race
    }
}
