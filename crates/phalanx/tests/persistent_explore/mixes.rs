//! Concurrent launches of a round, by the kind of mix.
use super::{Action, Element, KEYS, Model};
use crate::common::Rng;

/// Maximum number of elements of a launch.
const ELEMENTS: usize = 4;

/// Returns the parts of a round: launches with elements of one action each, mostly on two keys.
pub fn parts(rng: &mut Rng, tag: &mut u32) -> Vec<Vec<Element>> {
    let actions = [
        Action::Insert,
        Action::Insert,
        Action::InsertNew,
        Action::Update,
        Action::Remove,
        Action::Get,
        Action::Contains,
    ];
    let hot = [rng.below(KEYS), rng.below(KEYS)];
    let part = |rng: &mut Rng, tag: &mut u32| {
        let action = actions[rng.below(actions.len() as u64) as usize];
        let element = |rng: &mut Rng, tag: &mut u32| {
            let key = if rng.below(4) > 0 { hot[rng.below(2) as usize] } else { rng.below(KEYS) };
            *tag += 1;
            Element { action, key, tag: *tag }
        };
        (0..1 + rng.below(ELEMENTS as u64)).map(|_| element(rng, tag)).collect()
    };
    (0..2 + rng.below(3)).map(|_| part(rng, tag)).collect()
}

/// Returns an absent key, or the last one if all are present.
pub fn absent(model: &Model) -> u64 {
    (0..KEYS).find(|key| !model.contains_key(key)).unwrap_or(KEYS - 1)
}

/// Returns the parts of a round: two insertions of an absent key, and removals of single keys.
pub fn duel(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let absent = absent(model);
    let mut element = |action, key| {
        *tag += 1;
        vec![Element { action, key, tag: *tag }]
    };
    let mut parts = vec![element(Action::Insert, absent), element(Action::InsertNew, absent)];
    for _ in 0..3 {
        parts.push(element(Action::Remove, rng.below(KEYS)));
    }
    parts
}

/// Returns the parts of a round: launches of one element, on few keys.
pub fn churn(rng: &mut Rng, tag: &mut u32) -> Vec<Vec<Element>> {
    let hot = rng.below(KEYS);
    let other = rng.below(KEYS);
    let actions = [Action::Get, Action::Get, Action::Update, Action::Update, Action::Remove, Action::Insert];
    let elements = (0..6).map(|_| {
        *tag += 1;
        let key = if rng.below(3) == 0 { other } else { hot };
        Element { action: actions[rng.below(6) as usize], key, tag: *tag }
    });
    elements.map(|element| vec![element]).collect()
}

/// Returns the parts of a round: three launches that change keys of their own, so that nothing but the marks
/// of pages orders their changes.
pub fn apart(rng: &mut Rng, tag: &mut u32) -> Vec<Vec<Element>> {
    let part = |first: u64| {
        let action = rng.pick(&[Action::Insert, Action::Insert, Action::Remove]);
        *tag += KEYS as u32;
        (first..KEYS).step_by(3).map(|key| Element { action, key, tag: *tag + key as u32 }).collect()
    };
    (0..3).map(part).collect()
}

/// Number of readers in a crowd.
pub const READERS: usize = 8;

/// Returns the parts of a round: a removal and an insertion of a present key beside lookups of it.
pub fn reuse(tag: &mut u32, model: &Model, readers: usize) -> Vec<Vec<Element>> {
    let key = model.keys().last().copied().unwrap_or(0);
    let mut actions = vec![Action::Remove, Action::Insert];
    actions.resize(2 + readers, Action::Get);
    let element = |action| {
        *tag += 1;
        vec![Element { action, key, tag: *tag }]
    };
    actions.into_iter().map(element).collect()
}
