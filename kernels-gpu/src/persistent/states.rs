//! Sets of slots: the fingerprints of eight slots are compared at once.
use super::kind::Config;
use super::view::PersistentView;
use simt::{Order, Scope, device};

/// The fingerprints of eight slots, or of four. A set of slots is a word: bit `w + 16 h` stands for the half
/// `h` of word `w`.
#[derive(Clone, Copy)]
pub(super) struct States {
    words: [u32; 4],
}

/// Returns a word with bit 15 of each half that equals `half`, and no other bits.
#[device]
fn equal_halves(word: u32, half: u32) -> u32 {
    const LOW: u32 = 0x7fff_7fff;
    let differences = word ^ half.wrapping_mul(0x0001_0001);
    // The sum sets the top bit of each half with another bit set below. Halves do not carry into each other.
    !(((differences & LOW) + LOW) | differences | LOW)
}

/// Returns the number of a set's first slot, which is not that of an empty set.
#[device]
pub(super) fn slot_of(set: u32) -> u32 {
    let bit = set.trailing_zeros();
    bit % 16 * 2 + bit / 16
}

/// Returns a set without slot `slot`, if it has such a slot.
#[device]
pub(super) fn without(set: u32, slot: u32) -> u32 {
    if slot < 8 { set & !(1 << (slot / 2 + slot % 2 * 16)) } else { set }
}

#[device]
impl States {
    /// Reads the fingerprints of a bucket from slot `first` on.
    pub(super) fn read<C: Config>(view: PersistentView<C>, bucket: u32, first: u32) -> Self {
        // SAFETY: the bucket is one of the table, and its fingerprints are aligned to their size.
        unsafe {
            let place = view.bucket(bucket).offset((first / 2) as usize);
            if C::SLOTS >= 8 {
                return Self { words: place.load_vec::<4>(Order::Acquire, Scope::Device) };
            }
            let [low, high] = place.load_vec::<2>(Order::Acquire, Scope::Device);
            // Items with a hash that no key has.
            Self { words: [low, high, 0x8000_8000, 0x8000_8000] }
        }
    }

    /// Returns the slots for which `bits` sets bit 15 of their halves, given a word of them.
    fn set_of(&self, bits: impl Fn(u32) -> u32) -> u32 {
        let (mut set, mut word) = (0, 0);
        while word < 4 {
            set |= (bits(self.words[word]) >> 15) << word;
            word += 1;
        }
        set
    }

    /// Returns the live and the locked slots whose items may have this hash.
    pub(super) fn items(&self, hash: u32) -> u32 {
        self.set_of(|word| equal_halves(word & !0x4000_4000, 0x8000 | hash))
    }

    /// Returns the locked slots.
    pub(super) fn locked(&self) -> u32 {
        self.set_of(|word| word & word << 1 & 0x8000_8000)
    }

    /// Returns the free slots.
    pub(super) fn free(&self) -> u32 {
        self.set_of(|word| equal_halves(word, 0))
    }

    /// Returns the slots that insertions of keys with this hash have claimed.
    pub(super) fn claims(&self, hash: u32) -> u32 {
        self.set_of(|word| equal_halves(word, 0x4000 | hash))
    }

    /// Returns the slots that insertions of keys with this hash had claimed when other ones aborted them.
    pub(super) fn aborted(&self, hash: u32) -> u32 {
        self.set_of(|word| equal_halves(word, hash))
    }

    /// Returns the slots without an item that an operation has claimed.
    pub(super) fn in_progress(&self) -> u32 {
        self.set_of(|word| !word & 0x8000_8000 & !equal_halves(word, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::Fingerprint;
    use super::*;

    #[test]
    fn sets_agree_with_the_states_of_single_slots() {
        let mut state = 1u32;
        for _ in 0..20_000 {
            let words = [0; 4].map(|_: u32| {
                state = state.wrapping_mul(0x9e37_79b1).wrapping_add(0x7f4a_7c15);
                // Few distinct halves, among them those whose neighbours could carry.
                let half = |bits: u32| {
                    [0, 1, 0x4000, 0x4001, 0x7fff, 0x8001, 0xc001, 0xffff, 0x8000][bits as usize % 9]
                };
                half(state >> 8) << 16 | half(state >> 20)
            });
            let states = States { words };
            let of = |slot: u32| Fingerprint::in_word(words[slot as usize / 2], slot % 2);
            let expect = |set: u32, is_in: &dyn Fn(Fingerprint) -> bool| {
                let (mut set, mut slots) = (set, Vec::new());
                while set != 0 {
                    slots.push(slot_of(set));
                    set &= set - 1;
                }
                slots.sort_unstable();
                assert!(slots.into_iter().eq((0..8).filter(|&slot| is_in(of(slot)))), "{words:x?}");
            };
            expect(states.free(), &|slot| slot == Fingerprint::FREE);
            expect(states.locked(), &Fingerprint::is_locked);
            expect(states.in_progress(), &Fingerprint::is_in_progress);
            for hash in [1, 0x3fff] {
                expect(states.items(hash), &|slot| slot.has_item() && slot.hash() == hash);
                expect(states.items(hash), &|slot| slot.may_have(hash));
                expect(states.claims(hash), &|slot| slot == Fingerprint::claimed(hash));
                expect(states.aborted(hash), &|slot| slot == Fingerprint::claimed(hash).aborted());
            }
        }
    }

    #[test]
    fn a_slot_is_left_out_of_a_set() {
        let all = 0x000f_000f;
        for slot in 0..8 {
            let rest = without(all, slot);
            assert_eq!((rest.count_ones(), slot_of(all & !rest)), (7, slot));
        }
        assert_eq!((without(all, 8), without(all, u32::MAX)), (all, all));
    }
}
