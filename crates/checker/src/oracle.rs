//! The definition of linearizability, by trying all orders: too slow for more than about eight events, but
//! too simple to be wrong.
use crate::{EventOf, Model};

/// Returns `true` if some order of the events that respects their times explains their outcomes on the
/// sequential object. Takes exponential time.
pub fn is_linearizable<M: Model>(model: &M, events: &[EventOf<M>]) -> bool {
    let mut parts: Vec<(M::Part, M::State)> = Vec::new();
    for event in events {
        let part = model.part(&event.op);
        if !parts.iter().any(|(known, _)| *known == part) {
            parts.push((part.clone(), model.initial(&part)));
        }
    }
    place_next(model, &events.iter().collect::<Vec<_>>(), &parts)
}

/// Tries each of the remaining events as the next one in the order.
fn place_next<M: Model>(model: &M, remaining: &[&EventOf<M>], parts: &[(M::Part, M::State)]) -> bool {
    remaining.is_empty()
        || (0..remaining.len()).any(|choice| {
            let event = remaining[choice];
            let mut rest = remaining.to_vec();
            rest.remove(choice);
            !rest.iter().any(|other| other.precedes(event))
                && take(model, event, parts).is_some_and(|parts| place_next(model, &rest, &parts))
        })
}

/// Returns the states of the parts after the event, if the event may have its outcome.
fn take<M: Model>(
    model: &M,
    event: &EventOf<M>,
    parts: &[(M::Part, M::State)],
) -> Option<Vec<(M::Part, M::State)>> {
    let part = model.part(&event.op);
    let mut parts = parts.to_vec();
    let (_, state) = parts.iter_mut().find(|(known, _)| *known == part)?;
    *state = model.step(state, &event.op, &event.outcome)?;
    Some(parts)
}
