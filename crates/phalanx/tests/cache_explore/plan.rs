//! Plans: batches generated from a seed and from the table before them.
use crate::common::Rng;
use crate::world::Table;
use phalanx_kernels::cache::{Digest, Hashed, Rule, SLOTS};
use std::collections::HashSet;

/// Kind of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    InsertEvict,
    Insert,
    GetOrInsert,
    Accumulate,
    /// Launches of [`Action::Assign`] and [`Action::GetAndTouch`], concurrently and with duplicate keys.
    Change,
    /// Removals with duplicate keys.
    Remove,
}

/// Batch of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Place(Kind),
    Assign,
    GetAndTouch,
    Remove,
    /// Lookups beside the other launches of the batch.
    LookUp,
}

/// Element of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    pub key: u64,
    /// Score that the caller passes.
    pub given: u64,
    /// Distinguishes the element's row from those of all others.
    pub tag: u64,
}

/// Launch of one block.
#[derive(Clone, Debug)]
pub struct Part {
    pub action: Action,
    pub elements: Vec<Element>,
    /// Time of the launch.
    pub now: u64,
}

/// Shape and policy of a table, and its contents in the beginning.
#[derive(Clone, Debug)]
pub struct Plan {
    pub buckets: u32,
    pub choices: u32,
    pub words: u32,
    pub seed: u64,
    pub rule: Rule,
    /// Whether a batch places keys while another tile looks for the key that they evict. All have the same
    /// digest.
    pub is_duel: bool,
    /// Whether each launch has many elements, which evict one after the other in a table of few buckets.
    pub is_crowded: bool,
    /// Number of keys that are placed, and then removed, before the first batch.
    pub fill: (usize, usize),
    /// Keys from which batches choose.
    pub keys: Vec<u64>,
}

/// Keys from which batches choose are below this; the others in a table are below twice this.
pub const KEYS: u64 = 6000;

/// Scores in the beginning: so few that there are ties.
const SCORES: u64 = 6;

impl Plan {
    /// Returns whether evictions find their victims by a summary of the scores: in half of the plans.
    pub fn has_summary(&self) -> bool {
        self.seed % 2 == 1
    }

    pub fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let (buckets, choices) = rng.pick(&[(1, 1), (1, 1), (2, 1), (2, 2)]);
        let slots = buckets as usize * 128;
        let free = rng.pick(&[0, 0, 1, 2, 5]);
        let removed = if rng.below(2) == 0 { 0 } else { rng.below(4) as usize };
        let words = rng.pick(&[1, 4, 5, 8]);
        let rule = rng.pick(&[Rule::Lru, Rule::Lfu, Rule::Lfu, Rule::Custom, Rule::Custom]);
        let fill = (slots - free, removed);
        let is_duel = choices == 1 && free + removed == 0 && rng.below(3) > 0;
        let mut plan =
            Self { buckets, choices, words, seed, rule, is_duel, is_crowded: false, fill, keys: Vec::new() };
        // The batches of half of the other plans have keys with few digests, too.
        let (first, digests) = match (is_duel, rng.below(2)) {
            (true, _) => (rng.below(200) as u32, 1),
            (false, 0) => (rng.below(200) as u32, 2),
            (false, _) => (0, 256),
        };
        plan.keys = (0..KEYS).filter(|&key| plan.digest(key).wrapping_sub(3 + first) < digests).collect();
        plan
    }

    /// Returns the number of slots of a bucket whose rows are in the table's first part.
    pub fn near_slots(&self) -> u32 {
        if self.seed.is_multiple_of(2) { SLOTS } else { 50 }
    }

    fn digest(&self, key: u64) -> u32 {
        Hashed::of(key, self.seed).digest().byte()
    }

    /// Returns the keys and scores in the beginning: first those from which batches choose.
    pub fn contents(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut rng = Rng::new(self.seed ^ 1);
        let shared: Vec<_> = self.keys.iter().copied().step_by(2).take(self.fill.0 / 2).collect();
        let lowest = rng.pick(&[1, 3]);
        let keys = shared.into_iter().chain(KEYS..2 * KEYS);
        keys.map(move |key| (key, lowest + u64::from(key >= KEYS) + rng.below(SCORES / 2)))
    }

    /// Returns a batch of this kind as launches to run concurrently.
    pub fn batch(&self, rng: &mut Rng, kind: Kind, table: &Table) -> Vec<Part> {
        let parts = 2 + rng.below(2);
        if self.is_duel && !self.is_crowded && !matches!(kind, Kind::Change | Kind::Remove) {
            return self.duel(rng, kind, table);
        }
        let pool = self.pool(rng, table, kind);
        let mut taken = HashSet::new();
        let mut tag = 0;
        (0..parts)
            .map(|part| {
                let many = if self.is_crowded || rng.below(6) == 0 { 12 } else { 1 + rng.below(3) };
                let elements = (0..many).filter_map(|_| {
                    tag += 1;
                    let key = rng.pick(&pool);
                    let given = if rng.below(12) == 0 { u64::MAX } else { 1 + rng.below(SCORES + 2) };
                    let may_repeat = matches!(kind, Kind::Change | Kind::Remove);
                    (may_repeat || taken.insert(key)).then_some(Element { key, given, tag })
                });
                let elements = elements.collect();
                Part { action: action(rng, kind), elements, now: 100 + table.time * 10 + part }
            })
            .collect()
    }

    /// Returns launches of lookups: of keys of a batch, of keys that it may evict, and of others.
    pub fn lookups(&self, rng: &mut Rng, parts: &[Part], table: &Table) -> Vec<Part> {
        let mut pool: Vec<_> =
            parts.iter().flat_map(|part| &part.elements).map(|element| element.key).collect();
        let mut by_score: Vec<_> = table.slots.iter().map(|(&key, slot)| (slot.score, key)).collect();
        by_score.sort_unstable();
        pool.extend(by_score.iter().take(3).map(|&(_, key)| key));
        pool.push(rng.below(2 * KEYS));
        let part = |_| {
            let elements = (0..1 + rng.below(4)).map(|_| Element { key: rng.pick(&pool), given: 0, tag: 0 });
            Part { action: Action::LookUp, elements: elements.collect(), now: 0 }
        };
        (0..2).map(part).collect()
    }

    /// Returns launches of which one places the key with the lowest score, and the other one or two keys that
    /// evict it.
    fn duel(&self, rng: &mut Rng, kind: Kind, table: &Table) -> Vec<Part> {
        let lowest = table.slots.iter().min_by_key(|(_, slot)| slot.score).map(|(&key, _)| key);
        let absent: Vec<_> = self.keys.iter().copied().filter(|key| !table.slots.contains_key(key)).collect();
        let first = rng.below(absent.len() as u64 - 1) as usize;
        let new = absent[first..][..1 + rng.below(2) as usize].to_vec();
        let sides = lowest.map(|key| vec![key]).into_iter().chain([new]).enumerate();
        let part = |(side, keys): (usize, Vec<u64>)| {
            let tag = |index: usize| (side * 2 + index + 1) as u64;
            let given = |index: usize| SCORES + index as u64;
            let elements = keys.iter().enumerate();
            let elements =
                elements.map(|(index, &key)| Element { key, given: given(index), tag: tag(index) }).collect();
            Part { action: action(rng, kind), elements, now: 100 + table.time * 10 + side as u64 }
        };
        sides.map(part).collect()
    }

    /// Returns the keys of a batch: some that are in the table, among them one with the lowest score, and
    /// some that are not.
    fn pool(&self, rng: &mut Rng, table: &Table, kind: Kind) -> Vec<u64> {
        let (present, absent): (Vec<u64>, Vec<u64>) =
            self.keys.iter().partition(|key| table.slots.contains_key(key));
        let mut pool = Vec::new();
        let changes = matches!(kind, Kind::Change | Kind::Remove);
        let (old, new) = if changes { (3, 1) } else { (3, 12) };
        (0..old).filter(|_| !present.is_empty()).for_each(|_| pool.push(rng.pick(&present)));
        (0..new).filter(|_| !absent.is_empty()).for_each(|_| pool.push(rng.pick(&absent)));
        pool.extend(table.slots.iter().min_by_key(|(_, slot)| slot.score).map(|(&key, _)| key));
        pool
    }
}

fn action(rng: &mut Rng, kind: Kind) -> Action {
    match kind {
        Kind::Change => rng.pick(&[Action::Assign, Action::Assign, Action::GetAndTouch]),
        Kind::Remove => Action::Remove,
        kind => Action::Place(kind),
    }
}

/// Returns the row of a key that the element with the tag brings; 0 is that of the beginning.
pub fn row(key: u64, tag: u64, words: u32) -> Vec<u32> {
    (0..u64::from(words)).map(|word| simt::hash::mix64(key << 20 | tag << 8 | word) as u32).collect()
}

/// Returns whether a search of the key by sectors reads the sector `other` before that of the slot.
pub fn is_read_before(key: u64, seed: u64, other: u32, slot: u32) -> bool {
    let place = |sector: u32| (sector + 4 - Hashed::of(key, seed).sector()) % 4;
    place(other) < place(slot / 32)
}

/// Returns the digest of a key.
pub fn digest(key: u64, seed: u64) -> Digest {
    Hashed::of(key, seed).digest()
}
