//! Planted faults: each must be noticed by a comparison with the model. Those of kernels are changes of a
//! site; those of the host leave out one copy.
use crate::model::{Placement, least, small};
use gpu::Device;
use phalanx::{Merge, Result, TieredSkipList};
use simt::emulator::{Fault, Options, Schedule, SiteId};
use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

type List = TieredSkipList<u32, u64>;
type Model = BTreeMap<u32, u64>;

/// Returns a list whose inner lists have about 40 pairs.
fn new_list(device: &Device) -> List {
    least(small(device).list_capacity(40).placement(Placement::AlwaysCopy))
}

/// Returns whether a list has the pairs of the model, by all ways to read it.
fn is_exact(list: &List, model: &Model) -> Result<bool> {
    let pair = |pair: Option<(&u32, &u64)>| pair.map(|(&key, &value)| (key, value));
    let asked: Vec<u32> = (0..1000).step_by(15).collect();
    let values = asked.iter().map(|key| model.get(key).copied());
    let above = asked.iter().map(|&key| pair(model.range((Excluded(key), Unbounded)).next()));
    let below = asked.iter().map(|&key| pair(model.range(..key).next_back()));
    let ranges = [0..1000, 200..700, 333..334];
    let within = ranges.clone().map(|range| model.range(range).map(|(&key, &value)| (key, value)));
    let counts: Vec<u64> = within.clone().map(|pairs| pairs.count() as u64).into();
    let pairs: Vec<Vec<(u32, u64)>> = within.map(Iterator::collect).into();
    Ok(list.get(&asked)?.into_iter().eq(values)
        && list.successor(&asked)?.into_iter().eq(above)
        && list.predecessor(&asked)?.into_iter().eq(below)
        && list.count(&ranges)? == counts
        && list.range(&ranges)? == pairs
        && list.len() == model.len()
        && list.iter()?.eq(model.iter().map(|(&key, &value)| (key, value))))
}

/// Inserts pairs, in batches that are too short for splits before them.
fn insert(list: &List, model: &mut Model, keys: impl Iterator<Item = u32>) -> Result<bool> {
    let mut all_placed = true;
    for keys in keys.collect::<Vec<_>>().chunks(7) {
        let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 20 | 1).collect();
        all_placed &= list.insert(keys, &values)?.all_placed();
        model.extend(keys.iter().copied().zip(values));
    }
    Ok(all_placed)
}

/// Splits and merges inner lists. Returns whether all results were right.
fn splits_and_merges(device: &Device) -> Result<bool> {
    let (list, mut model) = (new_list(device), Model::new());
    let mut is_right = insert(&list, &mut model, (0..250).map(|number| 4 * (number * 37 % 250)))?;
    is_right = is_right && list.lists() > 3 && is_exact(&list, &model)?;
    let (first, lists) = ((0..700).step_by(4).collect::<Vec<u32>>(), list.lists());
    let sums = list.upsert(Merge::Add, &first, &[5; 175])?;
    first.iter().for_each(|key| *model.entry(*key).or_default() += 5);
    is_right = is_right && sums.all_placed() && is_exact(&list, &model)?;
    is_right = is_right && list.remove(&first)?.into_iter().all(|is_removed| is_removed);
    model.retain(|key, _| *key >= 700);
    Ok(is_right && list.lists() < lists && is_exact(&list, &model)?)
}

/// Runs a scenario on an emulator with faults. A failure of the emulator finds a fault, too.
fn explored(faults: Vec<Fault>, scenario: fn(&Device) -> Result<bool>) -> bool {
    let options = Options { faults, ..Options::explore(Schedule::Random { seed: 1 }) };
    scenario(&Device::emulator(options)).unwrap_or(false)
}

/// Requires that a scenario notices a fault at the only line with a text in a function.
#[track_caller]
fn is_found(file: &str, function: &str, text: &str, fault: impl Fn(SiteId) -> Fault) {
    let site = SiteId::find_nth(&format!("kernels-gpu/src/{file}"), function, text, 0);
    let fault = fault(site.unwrap_or_else(|error| panic!("{error}")));
    assert!(!explored(vec![fault.clone()], splits_and_merges), "not found: {fault}");
    assert!(fault.effects() > 0, "the fault has no effect: {fault}");
}

#[test]
fn without_faults_all_is_right() {
    assert!(explored(Vec::new(), splits_and_merges));
    assert!(splits_and_merges(&Device::emulator(Options::default())).unwrap());
}

/// Kernels divide the keys among inner lists by other splitters than the host does.
#[test]
fn keys_in_a_wrong_list_are_found() {
    let later = |site| Fault::replace(site, |_, splitter| splitter + 6);
    is_found("tiered/kernels.rs", "tiered_route_range", "not_above(splitters, key)", later);
}

/// Elements that a full list refuses are not counted, so nothing splits the list.
#[test]
fn refused_elements_that_are_not_counted_are_found() {
    is_found("tiered/kernels.rs", "tiered_scatter_outcomes", "add_up(refused", Fault::skip);
}

/// The host believes that lists have no pairs: queries pass over them, and lookups end without an access.
#[test]
fn pairs_that_are_not_counted_are_found() {
    is_found("tiered/kernels.rs", "tiered_fold", "sums.at(word).fetch_add", Fault::skip);
}

/// The counts of a list are added a second time after the next batch.
#[test]
fn counters_that_are_not_cleared_are_found() {
    is_found("tiered/kernels.rs", "tiered_fold", "counters.write", Fault::skip);
}

#[test]
fn outcomes_that_do_not_return_are_found() {
    is_found("tiered/kernels.rs", "tiered_scatter_outcomes", "to.write", Fault::skip);
}

#[test]
fn results_of_queries_that_are_not_written_are_found() {
    is_found("ordered/kernels.rs", "successor", "one::<M, Lowest>", Fault::skip);
    is_found("ordered/kernels.rs", "predecessor", "one::<M, Highest>", Fault::skip);
}

/// A division counts too few pairs of a part of a list, and so builds lists without some.
#[test]
fn pairs_that_a_division_does_not_count_are_found() {
    let fewer = |site| Fault::replace(site, |_, count| count.saturating_sub(1));
    is_found("ordered/kernels.rs", "count_range", "write_if(counts, index", fewer);
}

/// A division does not read some values.
#[test]
fn pairs_that_a_division_does_not_read_are_found() {
    is_found("ordered/range.rs", "take", "self.sink.put::<T::Slot>", Fault::skip);
}

/// Requires that leaving out copies of a size is noticed. `prepare` returns the list and that size. Each of
/// the copies of `act` is left out once. Returns their number.
fn every_omission_is_found(
    prepare: fn(&Device) -> (List, Model, usize),
    act: fn(&mut List, &mut Model) -> Result<bool>,
) -> u64 {
    let device = Device::emulator(Options::default());
    let handle = device.emulator_handle().unwrap();
    for copies in 0.. {
        let (mut list, mut model, bytes) = prepare(&device);
        handle.omit_copy(bytes, copies);
        let is_right = act(&mut list, &mut model);
        let has_happened = handle.omit_copy(0, u64::MAX) == u64::MAX;
        let is_right = is_right.and_then(|is_right| Ok(is_right && is_exact(&list, &model)?));
        match has_happened {
            true => assert!(!matches!(is_right, Ok(true)), "copy {copies} of {bytes} bytes is not missed"),
            false => {
                assert!(is_right.unwrap());
                return copies;
            }
        }
    }
    unreachable!("the calls end")
}

/// Returns a list of several inner lists, and the bytes of an image.
fn divided(device: &Device) -> (List, Model, usize) {
    let (list, mut model) = (new_list(device), Model::new());
    assert!(insert(&list, &mut model, (0..250).map(|number| 4 * (number * 37 % 250))).unwrap());
    // All lists pass through the slots, none of which then has a list as it was built there.
    let mut bytes = 0;
    for key in (0..1000).step_by(40).chain((0..1000).step_by(40)) {
        let before = list.traffic().copied_in;
        assert!(list.get(&[key]).unwrap()[0].is_some());
        bytes = bytes.max(list.traffic().copied_in - before);
    }
    assert!(bytes > 0, "more lists than slots");
    (list, model, bytes as usize)
}

/// Copies to a slot, which then has another list, and copies back from it.
#[test]
fn copies_of_lists_that_are_left_out_are_found() {
    let copies = every_omission_is_found(divided, |list, model| {
        let mut is_right = true;
        // One key of each list: another change of the list would write the whole image again.
        for key in (5..1000).step_by(300) {
            is_right &= list.insert(&[key], &[9])?.all_placed();
            model.insert(key, 9);
        }
        Ok(is_right)
    });
    assert!(copies >= 7, "{copies} copies");
}

/// A list changes in place. Then a slot that had it before is believed to have the new state.
#[test]
fn a_slot_with_an_old_state_is_found() {
    let prepare: fn(&Device) -> _ = |device| {
        let (mut list, mut model, bytes) = divided(device);
        list.set_placement(Placement::AlwaysInPlace);
        let keys: Vec<u32> = (0..1000).step_by(4).collect();
        assert!(list.upsert(Merge::Add, &keys, &[3; 250]).unwrap().all_placed());
        model.values_mut().for_each(|value| *value += 3);
        list.set_placement(Placement::AlwaysCopy);
        (list, model, bytes)
    };
    let lookups = |list: &mut List, model: &mut Model| {
        let keys: Vec<u32> = model.keys().copied().collect();
        Ok(list.get(&keys)?.into_iter().eq(model.values().map(|&value| Some(value))))
    };
    assert!(every_omission_is_found(prepare, lookups) > 2);
}

/// A batch after a split is routed by the splitters before it.
#[test]
fn splitters_that_are_not_copied_are_found() {
    let prepare: fn(&Device) -> _ = |device| {
        let (list, model, _) = divided(device);
        let lists = list.lists();
        (list, model, lists * size_of::<u32>())
    };
    // One list more, so as many splitters as there were lists.
    let copies = every_omission_is_found(prepare, |list, model| {
        let (lists, mut key, mut is_right) = (list.lists(), 401, true);
        while list.lists() == lists {
            is_right &= list.insert(&[key], &[9])?.all_placed();
            model.insert(key, 9);
            key += 1;
        }
        Ok(is_right)
    });
    assert!(copies > 0);
}
