//! Elements of a warp with equal keys, of which one lane changes the table for all.
//!
//! A batch with a skewed distribution of keys brings a key many times, also within a warp. Changes of one key
//! run one after the other, and where the image is behind the bus, each of them waits for it.
//!
//! The changes of a group take effect together, in the order of the lanes, when that of its leader does.
use super::keys::{Keys, Wanted};
use super::kind::Config;
use crate::keyed::Outcome;
use simt::{Lockstep, Tile, device};

/// The lanes of a warp whose elements have the calling lane's key.
#[derive(Clone, Copy)]
pub(super) struct EqualKeys {
    /// Mask of the lanes, the calling one among them.
    lanes: u32,
}

#[device(caller)]
impl EqualKeys {
    /// Groups the lanes that pass `exists`. A lane whose hash is that of a lower lane with another key is alone.
    /// All lanes of the warp call it together.
    pub(super) fn of<C: Config>(
        warp: Tile<32, Lockstep>,
        keys: Keys,
        (exists, wanted): (bool, Wanted),
    ) -> Self {
        let alike = warp.match_any(wanted.hashed.first as u32);
        // Lanes without an element are the last ones, and the elements of a warp are neighbours.
        let leader = alike.trailing_zeros() % 32;
        let (first, index) =
            (warp.shuffle(wanted.first, leader), wanted.index.wrapping_add(leader).wrapping_sub(warp.rank()));
        let (mut is_same, mut word) = (exists && first == wanted.first, 1);
        while word < C::KEY_WORDS && is_same {
            is_same = keys.word::<C>(index, word) == keys.word::<C>(wanted.index, word);
            word += 1;
        }
        let members = alike & warp.ballot(is_same);
        Self { lanes: if is_same { members } else { 1 << warp.rank() } }
    }

    /// Returns the rank of the lane whose change takes effect: the last one's value replaces those before,
    /// and the first one's stays if values are kept.
    #[device]
    pub(super) fn leader(self, replaces: bool) -> u32 {
        if replaces { 31 - self.lanes.leading_zeros() } else { self.lanes.trailing_zeros() }
    }

    /// Returns the calling lane's outcome from that of the group's change, which the leader passes. All lanes
    /// of the warp call it together.
    pub(super) fn outcome(self, warp: Tile<32, Lockstep>, replaces: bool, outcome: Outcome) -> Outcome {
        let outcome = warp.shuffle(outcome, self.leader(replaces));
        if self.lanes.trailing_zeros() == warp.rank() {
            return outcome;
        }
        match outcome {
            Outcome::Inserted if replaces => Outcome::Replaced,
            Outcome::Inserted => Outcome::Found,
            Outcome::Removed => Outcome::Absent,
            Outcome::Found | Outcome::Replaced | Outcome::Absent | Outcome::Refused => outcome,
        }
    }
}
