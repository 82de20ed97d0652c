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
    let open = |&index: &usize| done >> index & 1 == 0 && is_done(done, first_of(answers, index));
    // An element that changes nothing can follow at once: no later one depends on it but its thread's second.
    let reads = |&index: &usize| reads(&answers[index]) && apply(state, &answers[index]).is_some();
    if let Some(index) = (0..answers.len()).filter(open).find(reads) {
        return has_order(answers, done | 1 << index, state, last, seen);
    }
    let follows = |index: usize| {
        let next = apply(state, &answers[index])?;
        has_order(answers, done | 1 << index, next, last, seen).then_some(())
    };
    (0..answers.len()).filter(open).map(follows).any(|found| found.is_some())
}

/// Returns the first element of a thread if `index` is its second one.
fn first_of(answers: &[Answer], index: usize) -> Option<usize> {
    let Element { action, tag, .. } = answers[index].element;
    let is_same = |answer: &Answer| (answer.element.action, answer.element.tag) == (action, tag);
    match action {
        Action::ThenGet => index.checked_sub(1),
        Action::Reread => answers[..index].iter().position(is_same),
        _ => None,
    }
}

fn is_done(done: u32, index: Option<usize>) -> bool {
    index.is_none_or(|index| done >> index & 1 == 1)
}

/// Returns whether an element has left its key as it was.
fn reads(answer: &Answer) -> bool {
    matches!(answer.outcome, Outcome::Found | Outcome::Absent | Outcome::Refused)
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
