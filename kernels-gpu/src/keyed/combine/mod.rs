//! Equal operations of a warp on equal keys, which one lane executes for all.
//!
//! A batch with a skewed distribution of keys brings the same key many times, also within a warp. Updates of
//! one address run one after the other in the L2 cache, whereas lanes can exchange arguments by shuffles.
//!
//! ```text
//! group the lanes by operation and key      eight ballots on bits of a hash, then a comparison of the keys
//! merge the arguments of a group            in the order of its lanes, by pointer jumping
//! the lowest lane executes the operation    with the merged argument of all
//! every lane computes its own result        as if the lanes had executed one after the other
//! ```
//!
//! The operations of a group take effect together, in the order of the lanes, at the moment at which that of
//! the lowest lane does. No lane waits for another warp, so an operation ends if it ends without this.
pub(crate) mod block;

use super::bucket_probe::Request;
use super::kind::Kind;
use super::operation::{Change, Combination, Operation, Outcome};
use super::slot::{Scalar, Slot};
use simt::{Tile, device};

/// Bits of a key's hash by which the lanes of a warp are grouped. A lane whose hash is that of a lower lane
/// with another key executes its own operation. So a key of several lanes is split with the probability that
/// one of at most 31 other keys has the same hash.
const HASH_BITS: u32 = 8;

/// Returns whether a structure combines an operation in `place`, known at compile time. If not,
/// [`Kind::execute`] is called directly.
#[device]
pub(crate) const fn combines<M: Kind, O: Operation>(place: Combination) -> bool {
    M::COMBINES.includes(place) && O::COMBINES.includes(place) && (M::UNIQUE || !O::REMOVES)
}

/// Returns whether a lane's operation may join a group.
#[device]
fn joins<M: Kind, O: Operation>(pending: bool, operation: O) -> bool {
    pending && (M::UNIQUE || operation.change() != Change::Erase)
}

/// Returns the hash by which lanes are grouped, of [`HASH_BITS`] bits. Different operations on a key have
/// different hashes, so that each of them has a group in a warp: a mixed batch reads and updates its most
/// frequent key.
#[device]
fn short_hash(code: u32, key: impl Scalar) -> u32 {
    let word = key.to_u64().wrapping_add((code as u64) << (64 - HASH_BITS));
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS)) as u32
}

/// Returns the code of an operation: 0 if all operations of its type are the same.
#[device]
fn code(operation: impl Operation) -> u32 {
    let mut code = 0;
    operation.map_words(|word| {
        code = word;
        word
    });
    code
}

/// Executes the operation of every lane of the warp that passes `pending`, as [`Kind::execute`] does, each
/// group of equal operations on a key by one lane. All lanes call it together.
#[device(caller)]
pub(crate) fn execute<M: Kind, O: Operation>(
    map: M::View,
    pending: bool,
    operation: O,
    key: M::Key,
    argument: M::Value,
) -> (Outcome, M::Value) {
    let group = Group::of(joins::<M, O>(pending, operation), operation, key);
    let (total, before) = group.merge::<M::Slot, O>(operation, argument);
    let (outcome, value) = M::execute(map, pending && group.leads(), operation, key, total);
    group.result::<M::Slot, O>(operation, outcome, value, before)
}

/// The lanes of a warp that bring the same operation on the same key as the calling lane. A lane without an
/// operation is a group of its own.
#[derive(Clone, Copy)]
struct Group {
    warp: Tile<32>,
    /// Mask of the lanes, the calling one among them.
    lanes: u32,
    /// Whether the group is the one for its hash in the warp. If not, it has one lane.
    is_found: bool,
}

#[device(caller)]
impl Group {
    fn of<O: Operation, K: Scalar>(joins: bool, operation: O, key: K) -> Self {
        let warp = Tile::<32>::lockstep();
        let alike = warp.match_bits::<HASH_BITS>(short_hash(code(operation), key)) & warp.ballot(joins);
        let first = alike.trailing_zeros();
        let leader: (O, K) = (warp.shuffle(operation, first), warp.shuffle(key, first));
        let belongs = joins && leader.1 == key && leader.0.is_same(operation);
        let members = alike & warp.ballot(belongs);
        Self { warp, lanes: if belongs { members } else { 1 << warp.rank() }, is_found: belongs }
    }

    /// Returns the calling lane's group, whose lanes are known.
    fn with_lanes(lanes: u32) -> Self {
        Self { warp: Tile::<32>::lockstep(), lanes, is_found: true }
    }

    /// Returns whether the calling lane represents the one group of the warp for its hash.
    fn represents(self) -> bool {
        self.is_found && self.leads()
    }

    /// Returns whether the group has several lanes.
    fn has_others(self) -> bool {
        self.lanes & (self.lanes - 1) != 0
    }

    /// Returns whether the calling lane executes the operation of the group.
    fn leads(self) -> bool {
        self.first() == self.warp.rank()
    }

    fn first(self) -> u32 {
        self.lanes.trailing_zeros()
    }

    /// Returns the lane of the group before the calling one, or the calling one if it is the first.
    fn previous(self) -> u32 {
        let earlier = self.lanes & self.warp.lower_ranks();
        if earlier == 0 { self.warp.rank() } else { 31 - earlier.leading_zeros() }
    }

    /// Returns the argument that has the effect of those of all lanes of the group, and the one that has the
    /// effect of those of the lanes before the calling one; of the first lane, its own.
    fn merge<S: Slot, O: Operation>(self, operation: O, argument: S::Value) -> (S::Value, S::Value) {
        let (warp, change, previous) = (self.warp, operation.change(), self.previous());
        let (rank, mut merged) = (warp.rank(), argument);
        if O::MERGES {
            // In round i, `merged` covers the 2^i lanes up to the calling one, and `link` is the lane before,
            // or the calling one if there is none. No lane is named that the warp may lack.
            let mut link = if change.merges() { previous } else { rank };
            while warp.any(link != rank) {
                let (earlier, further) = (warp.shuffle(merged, link), warp.shuffle(link, link));
                let is_last = further == link;
                let both = Request::<S, O>::changed_value(operation, earlier, merged);
                merged = if link != rank { both } else { merged };
                link = if link == rank || is_last { rank } else { further };
            }
        }
        let earlier = if O::RETURNS { warp.shuffle(merged, previous) } else { argument };
        let before = if previous != rank && operation.places() { earlier } else { argument };
        if O::REMOVES || !(O::MERGES || O::RETURNS || change == Change::Set) {
            return (argument, before);
        }
        let last = 31 - self.lanes.leading_zeros();
        let total = warp.shuffle(merged, last);
        (if change == Change::Set || change.merges() { total } else { argument }, before)
    }

    /// Returns the calling lane's result from that of the group's operation, which its first lane passes.
    fn result<S: Slot, O: Operation>(
        self,
        operation: O,
        outcome: Outcome,
        value: S::Value,
        before: S::Value,
    ) -> (Outcome, S::Value) {
        let (warp, first, leads) = (self.warp, self.first(), self.leads());
        let outcome = warp.shuffle(outcome, first);
        let value = if O::RETURNS { warp.shuffle(value, first) } else { value };
        if !leads {
            return follow::<S, O>(operation, outcome, value, before);
        }
        match outcome {
            Outcome::Found | Outcome::Replaced | Outcome::Removed => (outcome, value),
            Outcome::Inserted | Outcome::Absent | Outcome::Refused => (outcome, before),
        }
    }
}

/// Returns the result of an operation that follows equal ones on the same key, of which the first had the
/// result `(outcome, value)` and all together the argument `before`.
#[device]
fn follow<S: Slot, O: Operation>(
    operation: O,
    outcome: Outcome,
    value: S::Value,
    before: S::Value,
) -> (Outcome, S::Value) {
    match outcome {
        Outcome::Inserted if operation.change() == Change::Keep => (operation.outcome(), value),
        Outcome::Inserted => (operation.outcome(), before),
        Outcome::Removed => (Outcome::Absent, before),
        Outcome::Found | Outcome::Replaced => {
            (outcome, Request::<S, O>::changed_value(operation, value, before))
        }
        Outcome::Absent | Outcome::Refused => (outcome, before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyed::{Insert, InsertNew, OpCode, Packed, Upsert};
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, kernel};

    /// Number of keys that a model of a map has: key `k` has the word `1 + value`, or 0 if it is absent.
    pub(super) const KEYS: usize = 64;
    /// Code of a lane without an operation.
    pub(super) const NOTHING: u32 = 99;

    /// Executes an operation on the model of a map.
    pub(super) fn execute_on(map: &mut u32, operation: impl Operation, argument: u32) -> (Outcome, u32) {
        let (old, change) = (map.checked_sub(1), operation.change());
        let outcome = match old {
            Some(_) => operation.outcome(),
            None if operation.places() => Outcome::Inserted,
            None => Outcome::Absent,
        };
        let change_of = Request::<Packed, _>::changed_value;
        let new = old.map_or(argument, |old| change_of(operation, old, argument));
        if outcome != Outcome::Absent {
            *map = if outcome == Outcome::Removed { 0 } else { 1 + new };
        }
        (outcome, old.filter(|_| change != Change::Erase).unwrap_or(argument))
    }

    /// A lane's step: code, key and argument; its result: outcome, value, and the lanes of its group.
    pub(super) type Step = [u32; 3];

    /// Lets the leader of each group execute on the model, in the order of the lanes.
    #[device(caller)]
    fn play<O: Operation>(map: GlobalSlice<u32>, lanes: GlobalSlice<u32>, decode: fn(OpCode) -> O) {
        let (warp, at) = (Tile::<32>::lockstep(), 3 * Tile::<32>::lockstep().rank() as usize);
        let [code, key, argument] = [0, 1, 2].map(|word| lanes.read(at + word));
        let (pending, operation) = (code != NOTHING, decode(OpCode::from_code(code)));
        let group = Group::of(pending, operation, key);
        let (total, before) = group.merge::<Packed, O>(operation, argument);
        let mut result = (Outcome::Absent, total);
        for lane in 0..32 {
            if pending && group.leads() && warp.rank() == lane {
                let mut state = map.read(key as usize);
                result = execute_on(&mut state, operation, total);
                map.write(key as usize, state);
            }
            warp.sync();
        }
        let (outcome, value) = group.result::<Packed, O>(operation, result.0, result.1, before);
        [outcome as u32, value, group.lanes]
            .into_iter()
            .zip(at..)
            .for_each(|(word, at)| lanes.write(at, word));
    }

    macro_rules! plays {
        ($($kernel:ident: $decode:expr;)*) => {$(
            #[kernel]
            fn $kernel(map: GlobalSlice<u32>, lanes: GlobalSlice<u32>) {
                play(map, lanes, $decode);
            }
        )*};
    }
    plays! {
        play_codes: |code| code;
        play_inserts: |_| Insert;
        play_new: |_| InsertNew;
        play_upserts: Upsert;
    }

    pub(super) fn on_device(device: &Emulator, words: &[u32]) -> GlobalSlice<u32> {
        let pointer = device.allocate(4 * words.len(), 4).cast::<u32>();
        // SAFETY: just allocated with this size.
        unsafe {
            pointer.copy_from(words.as_ptr(), words.len());
            device.mark_initialized(pointer.cast(), 4 * words.len());
            GlobalSlice::from_raw_parts(pointer, words.len())
        }
    }

    pub(super) fn read(slice: GlobalSlice<u32>) -> Vec<u32> {
        // SAFETY: no kernel is running, and all words were initialized.
        (0..slice.len()).map(|index| unsafe { slice.at(index).as_ptr().read() }).collect()
    }

    /// Requires that the lanes have the results of operations that ran group by group, each in lane order.
    fn check<O: Operation>(
        decode: fn(OpCode) -> O,
        steps: &[Step],
        start: &[u32],
        after: &[u32],
        results: &[Step],
    ) {
        let mut order: Vec<usize> = (0..32).filter(|&lane| steps[lane][0] != NOTHING).collect();
        order.sort_by_key(|&lane| (results[lane][2].trailing_zeros(), lane));
        let mut map = start.to_vec();
        for lane in order {
            let [code, key, argument] = steps[lane];
            let expected = execute_on(&mut map[key as usize], decode(OpCode::from_code(code)), argument);
            let [outcome, value, group] = results[lane];
            assert_eq!(outcome, expected.0 as u32, "lane {lane} of {steps:?}");
            assert!(!O::RETURNS || value == expected.1, "lane {lane} of {steps:?} returns {value}");
            for other in (0..32).filter(|other| group >> other & 1 != 0) {
                let [own, others] = [code, steps[other][0]].map(|code| decode(OpCode::from_code(code)));
                assert!(own.is_same(others) && steps[other][1] == key, "lanes {lane} and {other}");
            }
        }
        assert_eq!(map, after, "{steps:?}");
    }

    /// Returns the operation of a step.
    pub(super) fn decoded<O>(decode: fn(OpCode) -> O, step: Step) -> O {
        decode(OpCode::from_code(step[0]))
    }

    /// Returns steps of random operations on few keys: one key, two, or more, by `seed`.
    pub(super) fn steps(seed: u32) -> Vec<Step> {
        let random = |index: u32| simt::hash::mix32(simt::hash::mix32(seed).wrapping_add(index));
        let (keys, codes) = ([1, 2, 5, 60][seed as usize % 4], [1, 2, 10][seed as usize / 4 % 3]);
        let step = |lane: u32| {
            let is_idle = seed % 5 == 4 && random(lane + 400).is_multiple_of(3);
            let code = (seed + random(lane) % codes) % 10;
            [if is_idle { NOTHING } else { code }, random(lane + 100) % keys, random(lane + 200) % 1000]
        };
        (0..32).map(step).collect()
    }

    fn run<O: Operation, K: simt::Kernel + Send + Sync + 'static>(
        decode: fn(OpCode) -> O,
        kernel: fn(GlobalSlice<u32>, GlobalSlice<u32>) -> K,
    ) {
        let device = Emulator::new(Options::default());
        for seed in 0..200 {
            // A block may end within a warp.
            let (mut steps, threads) = (steps(seed), [32, 8][seed as usize % 7 / 6]);
            steps[threads as usize..].iter_mut().for_each(|step| step[0] = NOTHING);
            let start: Vec<u32> =
                (0..KEYS as u32).map(|key| if key % 3 == seed % 3 { 7 } else { 0 }).collect();
            let (map, lanes) = (on_device(&device, &start), on_device(&device, steps.as_flattened()));
            device.launch(Grid::new(1, threads), kernel(map, lanes)).unwrap();
            check(decode, &steps, &start, &read(map), read(lanes).as_chunks::<3>().0);
        }
    }

    #[test]
    fn groups_have_the_results_of_a_serial_order() {
        run(|code| code, |map, lanes| PlayCodes { map, lanes });
        run(|_| Insert, |map, lanes| PlayInserts { map, lanes });
        run(|_| InsertNew, |map, lanes| PlayNew { map, lanes });
        run(Upsert, |map, lanes| PlayUpserts { map, lanes });
    }

    #[test]
    fn lanes_with_one_key_are_one_group() {
        let device = Emulator::new(Options::default());
        for key in 0..KEYS as u32 {
            let pending = |lane: u32| lane % 5 != key % 5;
            let step = |lane: u32| [if pending(lane) { OpCode::ADD.code() } else { NOTHING }, key, lane];
            let steps: Vec<Step> = (0..32).map(step).collect();
            let (map, lanes) = (on_device(&device, &[0; KEYS]), on_device(&device, steps.as_flattened()));
            device.launch(Grid::new(1, 32), PlayUpserts { map, lanes }).unwrap();
            let all = (0..32).filter(|&lane| pending(lane)).map(|lane| 1 << lane).sum::<u32>();
            let results = read(lanes);
            for (lane, result) in (0..32).zip(results.as_chunks::<3>().0) {
                assert_eq!(result[2], if pending(lane) { all } else { 1 << lane }, "key {key}");
            }
        }
    }
}
