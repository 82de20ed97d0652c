//! Groups of a warp's elements with equal keys. One lane of each, its leader, changes the table.
//!
//! A batch with a skewed distribution of keys brings a key many times, also within a warp. Changes of one key
//! run one after the other, and where the image is behind the bus, each of them waits for it.
//!
//! All changes of the group take effect when the leader's does, in the order of the lanes.
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
    /// Groups the lanes that pass `exists`. A lane whose key differs from that of the lowest lane with the
    /// same 32 bits of the hash is alone. All lanes of the warp call it together.
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

#[cfg(test)]
mod tests {
    use super::super::hashed::Hashed;
    use super::super::kind::Levels;
    use super::*;
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, Word, kernel};

    type TwoWords = Levels<2, 0, 2, 2, 8, 1>;

    /// Outcomes of leaders, by lanes.
    const OUTCOMES: [Outcome; 6] = [
        Outcome::Inserted,
        Outcome::Found,
        Outcome::Replaced,
        Outcome::Removed,
        Outcome::Absent,
        Outcome::Refused,
    ];

    /// Groups the lanes of a warp, and writes each lane's leader and outcome.
    #[kernel]
    fn group(keys: GlobalSlice<u64>, hashes: GlobalSlice<u32>, replaces: u32, out: GlobalSlice<u32>) {
        let (warp, keys) = (Tile::<32>::lockstep(), Keys { words: keys });
        let (rank, replaces) = (warp.rank(), replaces != 0);
        let exists = (rank as usize) < hashes.len();
        let mut wanted = Wanted { hashed: Hashed { first: 0, second: 0 }, first: 0, index: 0 };
        if exists {
            let hashed = Hashed { first: hashes.read(rank as usize) as u64, second: 0 };
            wanted = Wanted { hashed, first: keys.word::<TwoWords>(rank, 0), index: rank };
        }
        let equal = EqualKeys::of::<TwoWords>(warp, keys, (exists, wanted));
        let own = OUTCOMES[(rank % 6) as usize];
        let outcome = equal.outcome(warp, replaces, own);
        if exists {
            out.write(2 * rank as usize, equal.leader(replaces));
            out.write(2 * rank as usize + 1, outcome as u32);
        }
    }

    fn on_device<T: Word>(device: &Emulator, values: &[T]) -> GlobalSlice<T> {
        let pointer = device.allocate(size_of_val(values), 8).cast::<T>();
        // SAFETY: just allocated with this size.
        unsafe {
            pointer.copy_from(values.as_ptr(), values.len());
            device.mark_initialized(pointer.cast(), size_of_val(values));
            GlobalSlice::from_raw_parts(pointer, values.len())
        }
    }

    /// Keys that differ in the first word, in the second one, or only in the hash's group.
    #[test]
    fn lanes_have_the_outcomes_of_a_serial_order() {
        for seed in 0..300u32 {
            let random = |index: u32| simt::hash::mix32(simt::hash::mix32(seed).wrapping_add(index));
            let len = [32, 31, 1, 17][seed as usize % 4];
            let keys: Vec<[u64; 2]> =
                (0..len).map(|lane| [random(lane) % 2, random(lane + 100) % 3].map(u64::from)).collect();
            // Keys with the same hash: all, those with the same first word, or none.
            let hash = |key: &[u64; 2]| [0, key[0] as u32, (3 * key[0] + key[1]) as u32][seed as usize % 3];
            let hashes: Vec<u32> = keys.iter().map(hash).collect();
            let device = Emulator::new(Options::default());
            let out = on_device(&device, &vec![0u32; 2 * len as usize]);
            let replaces = seed / 12 % 2;
            let words = on_device(&device, keys.as_flattened());
            let hashes_there = on_device(&device, &hashes);
            let kernel = Group { keys: words, hashes: hashes_there, replaces, out };
            device.launch(Grid::new(1, 32), kernel).unwrap();
            for lane in 0..len as usize {
                // SAFETY: no kernel is running, and all words were initialized.
                let [leader, outcome] = [0, 1].map(|word| unsafe { out.at(2 * lane + word).as_ptr().read() });
                // The lanes with the key of the first lane of their hash are together, others alone.
                let first = hashes.iter().position(|hash| *hash == hashes[lane]).unwrap();
                let group: Vec<usize> = match keys[first] == keys[lane] {
                    true => (0..len as usize)
                        .filter(|&other| hashes[other] == hashes[lane] && keys[other] == keys[lane])
                        .collect(),
                    false => vec![lane],
                };
                let expected = if replaces != 0 { group[group.len() - 1] } else { group[0] };
                let reached = OUTCOMES[expected % 6];
                let follows = lane != group[0];
                let then = match reached {
                    Outcome::Inserted if follows && replaces != 0 => Outcome::Replaced,
                    Outcome::Inserted if follows => Outcome::Found,
                    Outcome::Removed if follows => Outcome::Absent,
                    other => other,
                };
                assert_eq!((leader as usize, outcome), (expected, then as u32), "seed {seed}, lane {lane}");
            }
        }
    }
}
