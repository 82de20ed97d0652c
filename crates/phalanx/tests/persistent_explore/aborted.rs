//! Changes beside aborted claims of the same key, whose owners have not yet freed them.
use super::{Action, Element, Finding, SEED, Setting, World};
use phalanx_kernels::persistent::{Fingerprint, Hashed, Search};
use simt::Instance;
use simt::emulator::FailureKind;

/// Executes changes of a key one after the other. Before the last one, all free slots whose positions
/// `is_aborted` accepts get aborted claims of the key. Returns whether the last one ends.
pub fn ends_beside_aborted_claims<C: Search + Instance>(
    changes: &[Action],
    is_aborted: impl Fn(u32) -> bool,
) -> bool {
    let mut world = World::<C>::new(&Setting::new(0, false));
    let change = |(tag, &action)| vec![Element { action, key: 0, tag }];
    let mut parts: Vec<_> = (1..).zip(changes).map(change).collect();
    let last = parts.pop().unwrap_or_default();
    parts.iter().for_each(|part| drop(world.round(std::slice::from_ref(part), false).unwrap()));
    let claim = Fingerprint::claimed(Hashed::of(&world.keys[0], SEED).fingerprint()).aborted();
    let mut words = world.fingerprints.read().unwrap();
    for position in (C::SLOTS..C::SLOTS << C::LEVELS).filter(|&position| is_aborted(position)) {
        let (word, half) = (&mut words[position as usize / 2], position % 2);
        if Fingerprint::in_word(*word, half) == Fingerprint::FREE {
            *word = claim.put_in(*word, half);
        }
    }
    world.fingerprints.write(&words).unwrap();
    match world.round(&[last], false) {
        Ok(_) => true,
        Err(Finding::Machine(failure)) if matches!(failure.kind, FailureKind::Hang { .. }) => false,
        Err(finding) => panic!("{finding}"),
    }
}
