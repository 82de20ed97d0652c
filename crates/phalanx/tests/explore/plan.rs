//! What is played: launches side by side, made from a seed.
use crate::common::Dice;
use crate::script::{GET, KINDS, MIXED, NOTHING};
use crate::world::{Crowd, Crowded};

/// An operation: its code (see `Coded`), its key and its argument.
pub type Step = (u8, u64, u64);

/// A launch of one block: `kinds` of the rounds, and for each row its step in each round.
#[derive(Clone, Debug)]
pub struct Part {
    pub kinds: Vec<u8>,
    pub rows: Vec<Vec<Step>>,
}

/// Launches side by side on a structure that holds `fill` pairs before: key n with value n.
#[derive(Clone, Debug)]
pub struct Plan {
    pub buckets: u32,
    pub fill: u64,
    pub parts: Vec<Part>,
}

/// The first key that is not there from the start.
pub const NEW: u64 = 1000;

impl Plan {
    /// A plan for a kind of structure, with as many rows a launch as `rows`. Few keys, so that they meet:
    /// some new, some there before, one from the top of the range.
    pub fn new<M: Crowded>(seed: u64, rows: u32) -> Self {
        let mut dice = Dice::new(seed);
        let Crowd { buckets, fill, news } = M::crowd(&mut dice);
        let keys = Self::keys(&mut dice, fill, news);
        let parts = (0..2 + dice.below(2)).map(|_| Part::new(&mut dice, &keys, rows)).collect();
        Self { buckets, fill, parts }
    }

    fn keys(dice: &mut Dice, fill: u64, news: u64) -> Vec<u64> {
        let mut keys: Vec<u64> = (0..1 + dice.below(news)).map(|_| NEW + dice.below(20)).collect();
        if fill > 0 {
            keys.push(dice.below(fill));
        }
        if dice.below(3) == 0 {
            keys.push(u64::MAX - dice.below(3));
        }
        keys
    }

    /// The keys that the plan names.
    pub fn named(&self) -> impl Iterator<Item = u64> {
        self.parts.iter().flat_map(|part| &part.rows).flatten().map(|step| step.1)
    }
}

impl Part {
    fn new(dice: &mut Dice, keys: &[u64], rows: u32) -> Self {
        let rounds = 1 + dice.below(3);
        let mut kinds: Vec<u8> = (0..rounds).map(|_| dice.pick(&KINDS)).collect();
        if dice.below(2) == 0 {
            kinds.fill(MIXED);
        }
        let wide = rows > 4;
        let step = |dice: &mut Dice| {
            let idle = wide && dice.below(u64::from(rows)) > 3;
            let code = if idle { NOTHING } else { dice.below(8) as u8 };
            (code, dice.pick(keys), dice.below(100))
        };
        let rows = (0..rows).map(|_| (0..rounds).map(|_| step(dice)).collect()).collect();
        Self { kinds, rows }
    }

    /// A launch of `rows` rows whose first inserts the keys, each its own value.
    pub fn insert_new(keys: std::ops::Range<u64>, rows: u32) -> Self {
        let row = |code| keys.clone().map(move |key| (code, key, key)).collect();
        let rows = (0..rows).map(|place| row(if place == 0 { 2 } else { NOTHING })).collect();
        Self { kinds: vec![MIXED; keys.end as usize], rows }
    }

    /// Whether the round asks for values.
    pub fn tells_values(kind: u8) -> bool {
        kind == MIXED || kind == GET
    }
}
