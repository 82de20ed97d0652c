//! Data races: two accesses to a byte that nothing orders, one of them a write, and not both strong with
//! scopes that include each other.
//!
//! For each granule of eight bytes the latest accesses are kept, up to a bound, so a race with an access long
//! ago may go unnoticed in one schedule; another will show it. Accesses of different size that are all strong
//! are not taken for races.
use super::order::{Actor, GranuleMap, Moment, Orders, granules};
use crate::emulator::{Party, SourceLine};

/// Accesses kept for a granule.
const KEPT: usize = 16;

/// An access, as it is remembered.
#[derive(Clone, Debug)]
pub struct Mark {
    pub moment: Moment,
    pub actor: Actor,
    pub writes: bool,
    pub weak: bool,
    /// Of block scope: strong only towards lanes of the block.
    pub narrow: bool,
    pub site: super::super::lane::Site,
    pub block: u32,
    pub thread: u32,
}

impl Mark {
    /// What it is, in words.
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

    /// As the other party of a failure.
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

    /// Whether whatever races with `other` races with this as well, which comes after.
    fn replaces(&self, other: &Self) -> bool {
        (self.writes || !other.writes) && (self.weak || !other.weak && self.narrow == other.narrow)
    }
}

/// The accesses remembered.
#[derive(Default)]
pub struct Races {
    granules: GranuleMap<Vec<(u8, Mark)>>,
}

impl Races {
    /// Remembers an access; gives an earlier one that it races with.
    pub fn access(&mut self, orders: &Orders, address: usize, bytes: usize, mark: &Mark) -> Option<Mark> {
        granules(address, bytes)
            .find_map(|(granule, bytes)| self.access_granule(orders, granule, bytes, mark))
    }

    /// Memory that goes to somebody else, whom earlier accesses do not concern.
    pub fn forget(&mut self, address: usize, bytes: usize) {
        granules(address, bytes).for_each(|(granule, _)| drop(self.granules.remove(&granule)));
    }

    fn access_granule(&mut self, orders: &Orders, granule: usize, bytes: u8, mark: &Mark) -> Option<Mark> {
        let marks = self.granules.entry(granule).or_default();
        let lane = mark.actor.lane;
        let races = |(covered, earlier): &&(u8, Mark)| {
            covered & bytes != 0 && earlier.conflicts(mark) && !orders.knows(lane, earlier.moment)
        };
        let race = marks.iter().find(races).map(|(_, earlier)| earlier.clone());
        marks.retain(|(covered, earlier)| {
            covered & !bytes != 0 || !mark.replaces(earlier) || !orders.knows(lane, earlier.moment)
        });
        if marks.len() == KEPT {
            marks.remove(0);
        }
        marks.push((bytes, mark.clone()));
        race
    }
}
