//! The state of a bucket: which slots have a pair, which pair is replaced next, and a lock.
use simt::device;

/// State of a bucket.
///
/// ```text
/// bits 0 to 44   a score of 3 bits per slot: 0 for an empty slot, otherwise 1 and the uses, up to 7 in all
/// bits 48 to 51  the hand: the slot at which the search for the next victim begins
/// bit 63         whether a tile has the lock
/// ```
///
/// Victims are chosen as by the clock algorithm with counters: the hand passes over the slots, takes 1 from
/// each score above 1, and stops at the first score of 1. So a pair that was used s times stays for s more
/// rounds of the hand, a round is the longer the more pairs are in use, and pairs that were hot lose their
/// scores when they are no longer used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct State(u64);

/// Bits of a score.
const BITS: u32 = 3;
/// A score of 1 for each of the slots that a bucket can have.
const ONES: u64 = 0o111_111_111_111_111;
/// First bit of the hand.
const HAND_AT: u32 = 48;
/// The hand's bits.
const HAND: u64 = 15 << HAND_AT;
const LOCK: u64 = 1 << 63;

#[device]
impl State {
    /// The highest score.
    pub const MOST: u32 = (1 << BITS) - 1;

    /// Returns the state with this word.
    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// Returns the word of the state.
    pub fn word(self) -> u64 {
        self.0
    }

    /// Returns the score of a slot.
    pub fn score(self, slot: u32) -> u32 {
        (self.0 >> (BITS * slot)) as u32 & Self::MOST
    }

    /// Returns whether a tile has the lock.
    pub fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    /// Returns the state with the lock taken.
    pub fn locked(self) -> Self {
        Self(self.0 | LOCK)
    }

    /// Returns the state with the score of a slot raised by one. It must not be the highest.
    pub fn raised(self, slot: u32) -> Self {
        Self(self.0 + (1 << (BITS * slot)))
    }

    /// Returns the bits of a slot's score.
    pub fn mask(slot: u32) -> u64 {
        (Self::MOST as u64) << (BITS * slot)
    }

    /// Returns the slot at which the next pair is placed, given the slots with the least score, at least one:
    /// the first of them from the hand on.
    pub fn victim(self, least: u32) -> u32 {
        let later = least >> self.hand() << self.hand();
        (if later != 0 { later } else { least }).trailing_zeros()
    }

    fn hand(self) -> u32 {
        ((self.0 & HAND) >> HAND_AT) as u32
    }

    /// Returns the state after a new pair has replaced the [`victim`](Self::victim), of `slots` slots. An
    /// empty slot has `least` 0, and changes no other scores.
    pub fn admit(self, victim: u32, least: u32, slots: u32) -> Self {
        if least == 0 {
            return self.raised(victim);
        }
        let (hand, before) = (self.hand(), |slot: u32| ONES & ((1 << (BITS * slot)) - 1));
        let all = before(slots);
        // The hand makes `least - 1` rounds, and then passes over the slots up to the victim. Their scores
        // exceed the least one, so no difference is negative.
        let passed = if hand <= victim {
            before(victim) & !before(hand)
        } else {
            before(victim) | all & !before(hand)
        };
        let scores = self.0 - all * (least as u64 - 1) - passed;
        let next = if victim + 1 < slots { victim + 1 } else { 0 };
        Self(scores & !HAND | (next as u64) << HAND_AT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The clock algorithm, step by step.
    fn by_steps(scores: &mut [u32], hand: &mut usize) -> usize {
        if let Some(empty) = scores.iter().position(|&score| score == 0) {
            scores[empty] = 1;
            return empty;
        }
        loop {
            let slot = *hand;
            *hand = (slot + 1) % scores.len();
            if scores[slot] == 1 {
                return slot;
            }
            scores[slot] -= 1;
        }
    }

    #[test]
    fn pairs_are_replaced_as_by_a_clock() {
        let mut rng = 1u32;
        for slots in [15u32, 10, 7] {
            let (mut state, mut scores, mut hand) = (State(0), vec![0; slots as usize], 0);
            for _ in 0..20_000 {
                rng = simt::hash::mix32(rng.wrapping_add(0x9e37_79b9));
                let used = rng % slots;
                let of_slot = scores[used as usize];
                if rng >> 30 > 0 && of_slot > 0 && of_slot < State::MOST {
                    (state, scores[used as usize]) = (state.raised(used), of_slot + 1);
                    continue;
                }
                let least = scores.iter().copied().min().unwrap();
                let votes = (0..slots).filter(|&slot| state.score(slot) == least);
                let empty = if least == 0 { State(state.0 & !HAND) } else { state };
                let victim = empty.victim(votes.map(|slot| 1 << slot).sum());
                assert_eq!(victim as usize, by_steps(&mut scores, &mut hand));
                state = state.locked().admit(victim, least, slots);
                assert!(state.is_locked());
                state = State(state.0 & !LOCK);
                assert_eq!(state.hand() as usize, hand);
                assert!((0..slots).all(|slot| state.score(slot) == scores[slot as usize]));
            }
        }
    }

    #[test]
    fn a_mask_covers_one_score() {
        let full = State(ONES * u64::from(State::MOST));
        for slot in 0..15 {
            let without = State(full.0 & !State::mask(slot));
            assert!((0..15).all(|other| (without.score(other) == 0) == (other == slot)));
        }
    }
}
