//! Tests of the baseline that slab sets are compared with: many schedules of tiny batches on few keys, with
//! every detector enabled.
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::baseline::chains::{Chains, ChainsExecute};
use phalanx_kernels::keyed::{OpCode, Outcome};
use simt::emulator::{Options, Schedule};
use std::collections::{BTreeMap, BTreeSet};
use workloads::Key;

/// Operation and key of an element.
type BatchKey = (OpCode, u32);

/// Chains on a device, and the next free node.
struct Set {
    device: Device,
    heads: Buffer<u32>,
    nodes: Buffer<u64>,
    next: u32,
}

impl Set {
    fn new(device: Device, buckets: usize, nodes: usize) -> Self {
        let (heads, nodes) = (device.zeroed(buckets).unwrap(), device.zeroed(nodes + 1).unwrap());
        Self { device, heads, nodes, next: 1 }
    }

    /// Runs a batch in blocks of two threads.
    fn run(&mut self, asked: &[BatchKey]) -> Vec<Outcome> {
        let bytes: Vec<u8> = asked.iter().map(|(code, _)| code.code() as u8).collect();
        let words: Vec<u32> = asked.iter().map(|(_, key)| *key).collect();
        let (codes, keys) =
            (self.device.from_slice(&bytes).unwrap(), self.device.from_slice(&words).unwrap());
        let outcomes = self.device.filled(asked.len(), 0xffu8).unwrap();
        let launch = ChainsExecute {
            chains: Chains { heads: self.heads.slice(), nodes: self.nodes.slice() },
            first: self.next,
            all: 0,
            codes: codes.slice(),
            keys: keys.slice(),
            outcomes: outcomes.slice(),
        };
        self.next += asked.len() as u32;
        // SAFETY: the buffers outlive the kernel, which has ended when its outcomes are read.
        unsafe { self.device.default_stream().launch(Grid::for_items(asked.len(), 2), launch).unwrap() };
        let outcomes = outcomes.read().unwrap();
        outcomes.into_iter().map(|code| Outcome::from_code(code).expect("an outcome was written")).collect()
    }

    /// Returns the keys of all lists, and checks that each list is sorted.
    fn keys(&self) -> BTreeSet<u32> {
        let (heads, nodes) = (self.heads.read().unwrap(), self.nodes.read().unwrap());
        let mut keys = BTreeSet::new();
        for head in heads {
            let (mut at, mut last) = (head, None);
            while at >> 1 != 0 {
                let word = nodes[(at >> 1) as usize];
                let (key, link) = (word as u32, (word >> 32) as u32);
                if link & 1 == 0 {
                    assert!(last < Some(key), "{key} comes behind {last:?}");
                    assert!(keys.insert(key), "{key} is there twice");
                    last = Some(key);
                }
                at = link;
            }
        }
        keys
    }
}

/// Generates random operations on so few keys that operations collide.
fn asked(seed: u64, count: usize, keys: u64) -> Vec<BatchKey> {
    let random = |index: usize| (seed << 20 | index as u64).mix();
    let codes = [OpCode::INSERT_NEW, OpCode::REMOVE, OpCode::INSERT_NEW, OpCode::REMOVE, OpCode::GET];
    let pick = |index| {
        let random = random(index);
        (codes[(random >> 32) as usize % codes.len()], (random % keys) as u32)
    };
    (0..count).map(pick).collect()
}

/// Outcomes of the operations on one key.
#[derive(Debug, Default)]
struct Story {
    inserted: i32,
    removed: i32,
    seen: bool,
    missed: bool,
}

/// Checks whether concurrent operations can have these outcomes: insertions and removals of a key alternate,
/// and an operation that found the key present or absent needs a time at which that was so.
fn check(
    before: &BTreeSet<u32>,
    asked: &[BatchKey],
    outcomes: &[Outcome],
    after: &BTreeSet<u32>,
) -> Result<(), String> {
    let mut stories: BTreeMap<u32, Story> = before.union(after).map(|key| (*key, Story::default())).collect();
    for ((code, key), outcome) in asked.iter().zip(outcomes) {
        let story = stories.entry(*key).or_default();
        match (*code, *outcome) {
            (OpCode::INSERT_NEW, Outcome::Inserted) => story.inserted += 1,
            (OpCode::REMOVE, Outcome::Removed) => story.removed += 1,
            (OpCode::INSERT_NEW | OpCode::GET, Outcome::Found) => story.seen = true,
            (OpCode::REMOVE | OpCode::GET, Outcome::Absent) => story.missed = true,
            other => return Err(format!("{other:?} of key {key}")),
        }
    }
    for (key, story) in stories {
        let (was, is) = (before.contains(&key), after.contains(&key));
        let balance = i32::from(was) + story.inserted - story.removed;
        let ever = was || story.inserted > 0;
        let never = !was || story.removed > 0;
        if balance != i32::from(is) || (story.seen && !ever) || (story.missed && !never) {
            return Err(format!("key {key} was there: {was}, is there: {is}, {story:?}"));
        }
    }
    Ok(())
}

/// Runs two batches under an explored schedule on lists of a few keys.
fn explore(seed: u64) -> [usize; 2] {
    let schedule =
        if seed.is_multiple_of(2) { Schedule::Random { seed } } else { Schedule::Pct { seed, depth: 5 } };
    let device = Device::emulator(Options { stale_l1: true, ..Options::explore(schedule) });
    let mut set = Set::new(device, 1 + seed as usize % 2, 64);
    let mut counts = [0; 2];
    for round in 0..2 {
        let (before, asked) = (set.keys(), asked(seed * 2 + round, 8, 4));
        let outcomes = set.run(&asked);
        check(&before, &asked, &outcomes, &set.keys())
            .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}; {asked:?} came to {outcomes:?}"));
        counts[0] += outcomes.iter().filter(|outcome| **outcome == Outcome::Inserted).count();
        counts[1] += outcomes.iter().filter(|outcome| **outcome == Outcome::Removed).count();
    }
    counts
}

#[test]
fn operations_that_meet_are_right_under_many_schedules() {
    let counts: Vec<_> = (0..1500).map(explore).collect();
    let sum = |which: usize| counts.iter().map(|counts| counts[which]).sum::<usize>();
    assert!(sum(0) > 1500 && sum(1) > 500, "{} inserted, {} removed: too little happened", sum(0), sum(1));
}

#[test]
fn one_operation_at_a_time_agrees_with_a_set() {
    let mut set = Set::new(Device::emulator(Options::default()), 3, 600);
    let mut model = BTreeSet::new();
    for (code, key) in asked(7, 600, 20).into_iter().map(|(code, key)| (code, u32::MAX - key * 9)) {
        let expected = match code {
            OpCode::INSERT_NEW if model.insert(key) => Outcome::Inserted,
            OpCode::REMOVE if model.remove(&key) => Outcome::Removed,
            OpCode::REMOVE => Outcome::Absent,
            _ if model.contains(&key) => Outcome::Found,
            _ => Outcome::Absent,
        };
        assert_eq!(set.run(&[(code, key)]), [expected], "{code:?} of {key}");
    }
    assert_eq!(set.keys(), model);
}

/// Tests the checker itself: it rejects outcomes that no order of operations can produce.
#[test]
fn impossible_outcomes_are_refused() {
    let (none, one) = (BTreeSet::new(), BTreeSet::from([1]));
    let judge = |before: &BTreeSet<u32>, code, outcomes: &[Outcome], after: &BTreeSet<u32>| {
        check(before, &vec![(code, 1); outcomes.len()], outcomes, after).is_ok()
    };
    use Outcome::*;
    assert!(judge(&none, OpCode::INSERT_NEW, &[Inserted, Found], &one));
    assert!(!judge(&none, OpCode::INSERT_NEW, &[Inserted, Inserted], &one));
    assert!(!judge(&none, OpCode::INSERT_NEW, &[Inserted], &none));
    assert!(!judge(&none, OpCode::INSERT_NEW, &[Found], &none));
    assert!(judge(&one, OpCode::REMOVE, &[Removed, Absent], &none));
    assert!(!judge(&one, OpCode::REMOVE, &[Removed, Removed], &none));
    assert!(!judge(&one, OpCode::REMOVE, &[Absent], &one));
    assert!(!judge(&one, OpCode::GET, &[Removed], &one));
}
