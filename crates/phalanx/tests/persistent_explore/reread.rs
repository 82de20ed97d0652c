//! Threads with two operations, one after the other. What they read must not go back in time.
use crate::common::Rng;
use crate::world::{Action, Element, KEYS, Model, absent};
use phalanx_kernels::persistent::kernels::{
    persistent_get_cached, persistent_insert, persistent_remove, persistent_update,
};
use phalanx_kernels::persistent::{Changes, Lookups, PersistentView, Search};
use simt::{Instance, kernel};

/// Looks keys up, and then others.
#[kernel]
pub fn get_twice<C: Search + Instance>(view: PersistentView<C>, first: Lookups, second: Lookups) {
    persistent_get_cached(view, first);
    persistent_get_cached(view, second);
}

/// Removes or updates keys, and looks others up.
#[kernel]
pub fn change_and_get<C: Search + Instance>(
    view: PersistentView<C>,
    removes: u32,
    keys: Changes,
    then: Lookups,
) {
    if removes != 0 {
        persistent_remove(view, keys);
    } else {
        persistent_update(view, keys);
    }
    persistent_get_cached(view, then);
}

/// Removes or updates keys, and inserts others.
#[kernel]
pub fn change_and_insert<C: Search + Instance>(
    view: PersistentView<C>,
    removes: u32,
    keys: Changes,
    others: Changes,
) {
    if removes != 0 {
        persistent_remove(view, keys);
    } else {
        persistent_update(view, keys);
    }
    persistent_insert(view, others);
}

/// Returns the parts of a round: threads that read a present key twice, beside an update of it and, in half
/// of the rounds, another change.
pub fn reread(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let key = present(rng, model);
    let mut actions = vec![Action::Update];
    actions.extend([Action::Reread; 6]);
    let others = [Action::Remove, Action::Insert, Action::Update, Action::Contains];
    actions.extend(others.get(rng.below(8) as usize));
    let part = |action| {
        let elements = if action == Action::Reread { 2 } else { 1 };
        *tag += 1;
        vec![Element { action, key, tag: *tag }; elements]
    };
    actions.into_iter().map(part).collect()
}

/// Number of threads of a launch that read a key twice.
const LOOKUPS: u32 = 12;

/// Returns the parts of a round: threads of a warp that read a present key twice, beside an update of it.
pub fn reread_many(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let key = present(rng, model);
    let update = Element { action: Action::Update, key, tag: *tag + 1 };
    let reads = (2..2 + LOOKUPS).map(|lane| Element { action: Action::Reread, key, tag: *tag + lane });
    let reads = reads.collect::<Vec<_>>().repeat(2);
    *tag += 2 + LOOKUPS;
    vec![vec![update], reads]
}

/// Returns the parts of a round: updates of a present key, and a thread that removes it and then reads it.
pub fn remove_updated(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let key = present(rng, model);
    let mut element = |action| {
        *tag += 1;
        Element { action, key, tag: *tag }
    };
    let removal = vec![element(Action::Remove), element(Action::ThenGet)];
    let mut parts = vec![removal, vec![element(Action::Update)]];
    parts.extend((rng.below(2) == 0).then(|| vec![element(Action::Update)]));
    parts
}

/// Returns the parts of a round: threads that update a present key and then read it, beside another update.
/// Some of the values are equal.
pub fn read_own(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let key = present(rng, model);
    *tag += 1;
    let mut element = |action| {
        *tag += u32::from(rng.below(4) < 3);
        Element { action, key, tag: *tag }
    };
    let mut parts: Vec<_> = (0..3).map(|_| vec![element(Action::Update), element(Action::ThenGet)]).collect();
    parts.push(vec![element(Action::Update)]);
    parts
}

/// Returns the parts of a round: a thread that takes a present key from its slot and inserts an absent one,
/// which often gets the slot, beside other operations on the present key.
pub fn displace(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let (key, other) = (present(rng, model), absent(model));
    let mut element = |action, key| {
        *tag += 1;
        Element { action, key, tag: *tag }
    };
    let first = rng.pick(&[Action::Update, Action::Remove]);
    let mut parts = vec![vec![element(first, key), element(Action::ThenInsert, other)]];
    let actions = rng.pick(&[[Action::Get, Action::Contains], [Action::Update, Action::Update]]);
    for _ in 0..4 {
        let action = rng.pick(&actions);
        parts.push(vec![element(action, key)]);
    }
    parts
}

/// Returns the parts of a round: a thread that removes a present key and inserts an absent one, which often
/// gets the slot, beside changes of the first one.
pub fn supplant(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let key = present(rng, model);
    let absent: Vec<_> = (0..KEYS).filter(|key| !model.contains_key(key)).collect();
    let other = rng.pick(&absent);
    let mut element = |action, key| {
        *tag += 1;
        Element { action, key, tag: *tag }
    };
    let mut parts = vec![vec![element(Action::Remove, key), element(Action::ThenInsert, other)]];
    for _ in 0..3 {
        let action = rng.pick(&[Action::Update, Action::Update, Action::Remove]);
        parts.push(vec![element(action, key)]);
    }
    parts
}

/// Returns the parts of a round: a thread takes a present key from its slot, and another one, which updates
/// or inserts another key, often gets the slot, beside lookups of the first key.
pub fn exchange(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let key = present(rng, model);
    let other = if rng.below(2) == 0 { absent(model) } else { present(rng, model) };
    let first = rng.pick(&[Action::Update, Action::Remove]);
    let element = |action, key, tag| vec![Element { action, key, tag }];
    *tag += 2;
    let lookups = element(Action::Get, key, 0).repeat(2 * LOOKUPS as usize);
    vec![element(first, key, *tag - 1), element(Action::Insert, other, *tag), lookups]
}

/// Returns a present key, or 0 if there is none.
fn present(rng: &mut Rng, model: &Model) -> u64 {
    let nth = rng.below(model.len().max(1) as u64) as usize;
    model.keys().nth(nth).copied().unwrap_or(0)
}
