//! The order in which a removal changes the fingerprints of its group.
use super::{Action, Element, Setting, World};
use phalanx_kernels::persistent::{Fingerprint, Search};
use simt::Instance;
use simt::emulator::{Fault, Schedule};

/// Executes a removal, and looks at the fingerprints after each store. Returns an error if a slot still has
/// the item when the version has advanced: a lookup that begins then would take the words of the slot's next
/// item for its own.
pub fn removal_in_order<C: Search + Instance>(faults: &[Fault]) -> Result<(), String> {
    let schedule = Schedule::Random { seed: 1 };
    let setting = Setting { schedule, faults: faults.to_vec(), ..Setting::new(0, false) };
    let world = World::<C>::new(&setting);
    let element = |action| vec![vec![Element { action, key: 3, tag: 1 }]];
    world.round(&element(Action::Insert), false).map_err(|finding| finding.to_string())?;
    let before = world.fingerprints.read().unwrap()[0];
    let emulator = world.device.emulator_handle().expect("an emulator");
    let fingerprints = &world.fingerprints;
    // SAFETY: the fingerprints live until the record has ended.
    unsafe { emulator.record_stores(fingerprints.pointer().cast_const().cast(), fingerprints.byte_len()) };
    let removed = world.round(&element(Action::Remove), false);
    let log = emulator.take_stores().expect("a record");
    removed.map_err(|finding| finding.to_string())?;
    let (mut advances, mut result) = (0, Ok(()));
    log.crashes(0..log.events() + 1, 1, |state| {
        if state.lost() > 0 {
            return;
        }
        let words: Vec<u32> = state.contents(0).chunks(4).map(bytemuck::pod_read_unaligned).collect();
        let first = (C::SLOTS / 2) as usize;
        let has_item = |&word: &u32| [0, 1].iter().any(|&half| Fingerprint::in_word(word, half).has_item());
        if words[0] != before {
            advances += 1;
            if words[first..].iter().any(has_item) {
                result = Err(format!("the version has advanced, and a slot still has its item: {state}"));
            }
        }
    });
    assert!(advances > 0, "the version advances");
    result
}
