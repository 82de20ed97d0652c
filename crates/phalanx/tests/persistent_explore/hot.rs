//! Many updates of one key, and many lookups by a warp.
use super::{Action, Element, Finding, Model, Setting, World};
use crate::common::Rng;
use phalanx_kernels::keyed::Outcome;
use phalanx_kernels::persistent::Search;
use simt::Instance;

/// Returns the parts of a round: updates of a present key by several launches, of which some have the same
/// value, beside a removal and an insertion of it.
pub fn parts(rng: &mut Rng, tag: &mut u32, model: &Model) -> Vec<Vec<Element>> {
    let key = model.keys().last().copied().unwrap_or(0);
    let mut part = |action, lanes| {
        let elements = (0..lanes).map(|_| {
            *tag += u32::from(rng.below(4) > 0);
            Element { action, key, tag: *tag }
        });
        elements.collect::<Vec<_>>()
    };
    // A warp changes a key once.
    let mut parts = vec![part(Action::Update, 2), part(Action::Update, 1), part(Action::Update, 1)];
    parts.extend([part(Action::Insert, 2), part(Action::Get, 1)]);
    if model.len().is_multiple_of(2) {
        parts.extend([part(Action::Remove, 1), part(Action::Insert, 1)]);
    }
    parts
}

/// Returns the steps that updates of present keys take, each by a launch of its own.
pub fn steps_of_updates<C: Search + Instance>(keys: &[u64]) -> u64 {
    let world = World::<C>::new(&Setting::new(7, false));
    let elements = |action| move |(&key, tag): (&u64, u32)| Element { action, key, tag };
    for part in keys.iter().zip(1..).map(elements(Action::Insert)) {
        world.round(&[vec![part]], false).unwrap();
    }
    let updates: Vec<_> = keys.iter().zip(100..).map(elements(Action::Update)).collect();
    let buffers: Vec<_> = updates.iter().map(|update| world.buffers(&[*update])).collect();
    let emulator = world.device.emulator_handle().expect("an emulator");
    let launches = updates.iter().zip(&buffers).map(|(&update, buffers)| world.launch(&[update], buffers));
    let launches = launches.collect();
    let report = emulator.launch_all(launches).unwrap();
    let mut answers = Vec::new();
    for (update, buffers) in updates.iter().zip(&buffers) {
        world.answers(&[*update], buffers, &mut answers).unwrap();
    }
    assert!(answers.iter().all(|answer| answer.outcome == Outcome::Replaced), "{answers:?}");
    for (key, tag) in world.contents().unwrap() {
        assert!(updates.iter().any(|update| (update.key, update.tag) == (key, tag)), "{key}: {tag}");
    }
    report.steps
}

/// Looks keys up by all lanes of a warp: each reads the value of its key.
pub fn read_rows<C: Search + Instance>() -> Result<(), Finding> {
    let world = World::<C>::new(&Setting::new(0, false));
    let written = |key| key as u32 + 1;
    let insert = |key| Element { action: Action::Insert, key, tag: written(key) };
    world.round(&[(0..4).map(insert).collect()], false)?;
    // The output has values of another tag before.
    let lookups = (0..32).map(|lane| Element { action: Action::Get, key: lane % 4, tag: 0 }).collect();
    let (answers, _) = world.round(&[lookups], false)?;
    match answers.iter().find(|answer| answer.tag != Some(written(answer.element.key))) {
        Some(wrong) => Err(Finding::Wrong(format!("{wrong:?}"))),
        None => Ok(()),
    }
}
