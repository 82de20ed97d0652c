//! The order in which a removal, and an update by a new item, change the fingerprints of their group.
use super::{Action, Element, Setting, World};
use phalanx_kernels::persistent::{Fingerprint, Search};
use simt::Instance;
use simt::emulator::{Fault, Schedule};

/// Executes a change of an item, and looks at the fingerprints after each store. Returns an error if fewer
/// than `left` slots have an item, or if more have one when the version has advanced for the `last` time: a
/// lookup that begins then would take the words of the old slot's next item for its own.
fn change_in_order<C: Search + Instance>(
    faults: &[Fault],
    action: Action,
    (last, left): (u32, usize),
) -> Result<(), String> {
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
    let changed = world.round(&element(action), false);
    let log = emulator.take_stores().expect("a record");
    changed.map_err(|finding| finding.to_string())?;
    let (mut advances, mut result) = (0u32, Ok(()));
    log.crashes(0..log.events() + 1, 1, |state| {
        if state.lost() > 0 {
            return;
        }
        let words: Vec<u32> = state.contents(0).chunks(4).map(bytemuck::pod_read_unaligned).collect();
        let first = (C::SLOTS / 2) as usize;
        let has_item = |word: u32, half: u32| usize::from(Fingerprint::in_word(word, half).has_item());
        let has_items = |&word: &u32| has_item(word, 0) + has_item(word, 1);
        let items = words[first..].iter().map(has_items).sum::<usize>();
        let advance = words[0].wrapping_sub(before);
        advances = advances.max(advance);
        if advance >= last && items > left {
            result = Err(format!("the version has advanced, and a slot still has its item: {state}"));
        }
        if items < left {
            result = Err(format!("lookups miss the key: {state}"));
        }
    });
    assert_eq!(advances, last, "the version advances");
    result
}

/// Executes a removal: see [`change_in_order`].
pub fn removal_in_order<C: Search + Instance>(faults: &[Fault]) -> Result<(), String> {
    change_in_order::<C>(faults, Action::Remove, (1, 0))
}

/// Executes an update by a new item: see [`change_in_order`].
pub fn update_in_order<C: Search + Instance>(faults: &[Fault]) -> Result<(), String> {
    change_in_order::<C>(faults, Action::Update, (2, 1))
}
