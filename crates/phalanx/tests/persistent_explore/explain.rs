//! Serial orders that explain the results of a round.
use super::{Action, Answer, Element, Finding, KEYS, Model};
use phalanx_kernels::keyed::Outcome;
use std::collections::BTreeSet;

/// Requires that some order of the elements of each key explains their results and the table afterwards.
pub fn explain(before: &Model, after: &Model, answers: &[Answer]) -> Result<(), Finding> {
    for key in 0..KEYS {
        let of_key: Vec<_> = answers.iter().filter(|answer| answer.element.key == key).copied().collect();
        let (first, last) = (before.get(&key).copied(), after.get(&key).copied());
        let mut seen = BTreeSet::new();
        if !has_order(&of_key, 0, first, last, &mut seen) {
            let text = format!("key {key}: {first:?} becomes {last:?} by {of_key:?}");
            return Err(Finding::Wrong(text));
        }
    }
    Ok(())
}

/// Returns whether the elements that are not in the set `done` can follow in some order.
fn has_order(
    answers: &[Answer],
    done: u32,
    state: Option<u32>,
    last: Option<u32>,
    seen: &mut BTreeSet<(u32, Option<u32>)>,
) -> bool {
    if done.count_ones() as usize == answers.len() {
        return state == last;
    }
    if !seen.insert((done, state)) {
        return false;
    }
    // The second element of a thread follows its first one.
    let is_second = |index: usize| {
        let thread = |index: usize| (answers[index].element.action, answers[index].element.tag);
        let (action, _) = thread(index);
        action == Action::ThenGet
            || index > 0 && action == Action::Reread && thread(index - 1) == thread(index)
    };
    let result = |index: usize| {
        let Answer { element, outcome, tag } = answers[index];
        (element.action, element.tag, outcome, tag)
    };
    let is_equal = |index: usize| result(index) == result(index - 1);
    let open = (0..answers.len()).filter(|index| done >> index & 1 == 0);
    let open = open.filter(|&index| !is_second(index) || done >> (index - 1) & 1 == 1);
    // Equal answers follow each other: another order of them is no other one.
    let open = open.filter(|&index| index == 0 || done >> (index - 1) & 1 == 1 || !is_equal(index));
    let follows = |index: usize| {
        let next = apply(state, &answers[index])?;
        has_order(answers, done | 1 << index, next, last, seen).then_some(())
    };
    open.map(follows).any(|found| found.is_some())
}

/// Returns the state after an element, or `None` if it cannot have its result now.
fn apply(state: Option<u32>, answer: &Answer) -> Option<Option<u32>> {
    let Element { action, tag, .. } = answer.element;
    let (expected, next) = match (action, state) {
        // The table may be too full for any absent key.
        (Action::Insert | Action::ThenInsert | Action::InsertNew, None)
            if answer.outcome == Outcome::Refused =>
        {
            (Outcome::Refused, None)
        }
        (Action::Insert | Action::ThenInsert | Action::InsertNew, None) => (Outcome::Inserted, Some(tag)),
        (Action::Insert | Action::ThenInsert | Action::Update, Some(_)) => (Outcome::Replaced, Some(tag)),
        (Action::InsertNew | Action::Contains, Some(old)) => (Outcome::Found, Some(old)),
        (Action::Get | Action::Reread | Action::ThenGet, Some(old))
            if answer.tag.is_none_or(|found| found == old) =>
        {
            (Outcome::Found, Some(old))
        }
        (Action::Get | Action::Reread | Action::ThenGet, Some(_)) => return None,
        (Action::Get | Action::Reread | Action::ThenGet | Action::Contains, None) => (Outcome::Absent, None),
        (Action::Update | Action::Remove, None) => (Outcome::Absent, None),
        (Action::Remove, Some(_)) => (Outcome::Removed, None),
    };
    (expected == answer.outcome).then_some(next)
}
