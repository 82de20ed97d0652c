//! Tests of the baseline that slab sets are compared with: many schedules of tiny batches on few keys, with
//! every detector enabled.
use checker::{BatchMap, MapOp, MapOutcome, compare_with_model};
use gpu::{Buffer, Device, Grid};
use phalanx_kernels::baseline::chains::{Chains, ChainsExecute};
use phalanx_kernels::keyed::{OpCode, Outcome};
use simt::emulator::{Fault, Options, Schedule, SiteId};
use std::collections::BTreeSet;
use std::panic::catch_unwind;
use workloads::Key;

type Op = MapOp<u32, u32>;

/// Chains on a device, the next free node, and all outcomes so far.
struct Set {
    device: Device,
    heads: Buffer<u32>,
    nodes: Buffer<u64>,
    next: u32,
    outcomes: Vec<Outcome>,
}

impl Set {
    fn new(device: Device, buckets: usize, nodes: usize) -> Self {
        let (heads, nodes) = (device.zeroed(buckets).unwrap(), device.zeroed(nodes + 1).unwrap());
        Self { device, heads, nodes, next: 1, outcomes: Vec::new() }
    }

    /// Runs a batch in blocks of two threads.
    fn run(&mut self, asked: &[Op]) -> Vec<Outcome> {
        if asked.is_empty() {
            return Vec::new();
        }
        let bytes: Vec<u8> = asked.iter().map(|op| code(op).code() as u8).collect();
        let words: Vec<u32> = asked.iter().map(|op| *op.key()).collect();
        let (codes, keys) =
            (self.device.from_slice(&bytes).unwrap(), self.device.from_slice(&words).unwrap());
        let outcomes = self.device.filled(asked.len(), 0xffu8).unwrap();
        let launch = ChainsExecute {
            chains: Chains { heads: self.heads.global(), nodes: self.nodes.global() },
            first: self.next,
            all: 0,
            codes: codes.global(),
            keys: keys.global(),
            outcomes: outcomes.global(),
        };
        self.next += asked.len() as u32;
        // SAFETY: the buffers outlive the kernel, which has ended when its outcomes are read.
        unsafe { self.device.default_stream().launch(Grid::for_items(asked.len(), 2), launch).unwrap() };
        let outcome = |code: &u8| Outcome::from_code(*code).expect("an outcome was written");
        let outcomes: Vec<_> = outcomes.read().unwrap().iter().map(outcome).collect();
        self.outcomes.extend(&outcomes);
        outcomes
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

impl BatchMap<u32, u32> for Set {
    fn apply(&mut self, batch: &[Op]) -> Vec<MapOutcome<u32>> {
        let outcomes = self.run(batch);
        batch.iter().zip(outcomes).map(|(op, outcome)| told(op, outcome)).collect()
    }

    fn contents(&mut self) -> Option<Vec<(u32, u32)>> {
        Some(self.keys().into_iter().map(|key| (key, 0)).collect())
    }

    fn reported_len(&mut self) -> Option<usize> {
        None
    }
}

fn code(op: &Op) -> OpCode {
    match op {
        MapOp::InsertNew(..) => OpCode::INSERT_NEW,
        MapOp::Remove(_) => OpCode::REMOVE,
        MapOp::Get(_) => OpCode::GET,
        other => panic!("sets have no {other:?}"),
    }
}

/// Returns the outcome for the model, which is a map whose values are all 0.
fn told(op: &Op, outcome: Outcome) -> MapOutcome<u32> {
    match outcome {
        Outcome::Inserted => MapOutcome::Inserted,
        Outcome::Removed => MapOutcome::Removed(None),
        Outcome::Absent => MapOutcome::Absent,
        Outcome::Found => MapOutcome::Found(0),
        other => panic!("{other:?} of {op:?}"),
    }
}

/// Generates random operations on so few keys that operations collide.
fn ops(seed: u64, count: usize, key: impl Fn(u64) -> u32) -> Vec<Op> {
    let pick = |index: usize| {
        let random = (seed << 20 | index as u64).mix();
        let key = key(random);
        match (random >> 32) % 5 {
            0 | 1 => MapOp::InsertNew(key, 0),
            2 | 3 => MapOp::Remove(key),
            _ => MapOp::Get(key),
        }
    };
    (0..count).map(pick).collect()
}

/// Runs two batches under an explored schedule on lists of a few keys. Returns the numbers of insertions and
/// of removals.
fn explore(seed: u64, faults: &[Fault]) -> [usize; 2] {
    let schedule =
        if seed.is_multiple_of(2) { Schedule::Random { seed } } else { Schedule::Pct { seed, depth: 5 } };
    let options = Options { stale_l1: true, faults: faults.to_vec(), ..Options::explore(schedule) };
    let device = Device::emulator(options);
    let mut set = Set::new(device, 1 + seed as usize % 2, 64);
    let batches = [0, 1].map(|round| ops(seed * 2 + round, 8, |random| (random % 4) as u32));
    compare_with_model(&mut set, &batches)
        .unwrap_or_else(|wrong| panic!("seed {seed}: {wrong}; {batches:?}"));
    [Outcome::Inserted, Outcome::Removed].map(|of| set.outcomes.iter().filter(|found| **found == of).count())
}

#[test]
fn operations_that_meet_are_right_under_many_schedules() {
    let counts: Vec<_> = (0..1500).map(|seed| explore(seed, &[])).collect();
    let sum = |which: usize| counts.iter().map(|counts| counts[which]).sum::<usize>();
    assert!(sum(0) > 1500 && sum(1) > 500, "{} inserted, {} removed: too little happened", sum(0), sum(1));
}

#[test]
fn one_operation_at_a_time_agrees_with_a_set() {
    let mut set = Set::new(Device::emulator(Options::default()), 3, 600);
    let key = |random| u32::MAX - (random % 20) as u32 * 9;
    let batches: Vec<_> = ops(7, 600, key).into_iter().map(|op| vec![op]).collect();
    compare_with_model(&mut set, &batches).unwrap();
}

/// The exploration finds exchanges that are not atomic.
#[test]
fn torn_exchanges_are_found() {
    for call in ["chains.insert", "chains.remove"] {
        let site = SiteId::find("kernels-gpu/src/baseline/chains.rs", "chains_execute", call).unwrap();
        let fault = Fault::tear(site);
        let fails = |seed| catch_unwind(|| explore(seed, std::slice::from_ref(&fault))).is_err();
        assert!((0..1500).any(fails), "{call}");
    }
}
