//! Plans to run: concurrent launches generated from a seed.
use crate::common::Rng;
use crate::script::{CONTAINS_KEY, EXCHANGES, GET, INSERT, INSERT_NEW, KINDS, MIXED, NOTHING, REMOVE};
use crate::world::{Fixture, HasFixture};

/// Operation: its code (see `OpCode`), its key and its argument.
pub type Step = (u8, u64, u64);

/// Launch of one block: `kinds` of the rounds, and for each row its step in each round.
#[derive(Clone, Debug)]
pub struct Part {
    pub kinds: Vec<u8>,
    pub rows: Vec<Vec<Step>>,
}

/// Concurrent launches on a structure that initially contains `fill` pairs: key n with value n.
#[derive(Clone, Debug)]
pub struct Plan {
    pub buckets: u32,
    pub fill: u64,
    pub parts: Vec<Part>,
}

/// Operations that a plan chooses from.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Kinds of rounds. All rounds of half of the launches are of the first kind.
    kinds: &'static [u8],
    /// Codes of operations in rounds where each row has its own.
    codes: &'static [u8],
}

impl Choice {
    /// All operations but those that return what they remove or replace.
    pub const USUAL: Self = Self { kinds: &KINDS, codes: &[0, 1, 2, 3, 4, 5, 6, 7] };
    /// Operations that return what they remove or replace, and others except changes of values.
    pub const EXCHANGES: Self = Self {
        kinds: &[EXCHANGES, EXCHANGES, GET, CONTAINS_KEY, INSERT_NEW, REMOVE],
        codes: &[0, 1, 1, 2, 3, 3, 3, 4],
    };
    /// The same, and changes of values.
    pub const EXCHANGES_AND_CHANGES: Self =
        Self { kinds: &[EXCHANGES, MIXED, INSERT, GET], codes: &[0, 1, 1, 2, 3, 3, 5, 6] };
}

/// First key that is not initially present.
pub const NEW: u64 = 1000;

impl Plan {
    /// Generates a plan for a structure, with `rows` rows per launch. It uses few keys, so that operations
    /// collide: some new, some initially present, one from the top of the range.
    pub fn new<M: HasFixture>(seed: u64, rows: u32, choice: Choice) -> Self {
        let mut rng = Rng::new(seed);
        let Fixture { buckets, fill, news } = M::crowd(&mut rng);
        let keys = Self::keys(&mut rng, fill, news);
        let parts = (0..2 + rng.below(2)).map(|_| Part::new(&mut rng, &keys, rows, choice)).collect();
        Self { buckets, fill, parts }
    }

    fn keys(rng: &mut Rng, fill: u64, news: u64) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..1 + rng.below(news)).map(|_| NEW + rng.below(20)).collect();
        if fill > 0 {
            keys.push(rng.below(fill));
        }
        if rng.below(3) == 0 {
            keys.push(u64::MAX - rng.below(3));
        }
        keys
    }

    /// Returns the keys that the plan uses.
    pub fn named(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(|part| &part.rows).flatten().map(|step| step.1)
    }
}

impl Part {
    fn new(rng: &mut Rng, keys: &[u64], rows: u32, choice: Choice) -> Self {
        let rounds = 1 + rng.below(3);
        let mut kinds: Vec<u8> = (0..rounds).map(|_| rng.pick(choice.kinds)).collect();
        if rng.below(2) == 0 {
            kinds.fill(choice.kinds[0]);
        }
        let wide = rows > 4;
        let step = |rng: &mut Rng| {
            let idle = wide && rng.below(u64::from(rows)) > 3;
            let code = if idle { NOTHING } else { rng.pick(choice.codes) };
            (code, rng.pick(keys), rng.below(100))
        };
        let rows = (0..rows).map(|_| (0..rounds).map(|_| step(rng)).collect()).collect();
        Self { kinds, rows }
    }

    /// Returns a launch of `rows` rows, the first of which inserts the keys, each with itself as its value.
    pub fn insert_new(keys: std::ops::Range<u64>, rows: u32) -> Self {
        let row = |code| keys.clone().map(move |key| (code, key, key)).collect();
        let rows = (0..rows).map(|place| row(if place == 0 { 2 } else { NOTHING })).collect();
        Self { kinds: vec![MIXED; keys.end as usize], rows }
    }

    /// Returns whether the round returns values.
    pub fn tells_values(kind: u8) -> bool {
        matches!(kind, MIXED | EXCHANGES | GET)
    }
}
