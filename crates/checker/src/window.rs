//! Reduces an inexplicable history to the few operations that show the violation.
use crate::search::{Budget, Cuts, Outcome, Search};
use crate::timeline::Point;
use crate::{Model, Violation};
use std::collections::HashSet;

/// Maximum number of cuts that are tried as the window's start, and whose states count as possible states
/// before it.
const CUTS: usize = 64;

/// Maximum number of states from which a window is checked.
const STATES: usize = 64;

/// Maximum number of configurations, per event and in addition, of a search that narrows a window.
const CONFIGURATIONS: (usize, usize) = (4, 5_000);

/// Returns the smallest window found whose operations contradict each other or the states before them, of a
/// history that no order explains; all operations if that search takes too long. `furthest` is the return
/// that no attempt got past.
pub fn narrow<M: Model>(search: &Search<'_, M>, part: &M::Part, furthest: usize) -> Violation<M> {
    let configurations =
        search.budget.configurations.min(CONFIGURATIONS.0 * search.events.len() + CONFIGURATIONS.1);
    let search = &Search { budget: Budget { configurations, ..search.budget }, ..*search };
    let (initial, last) = (search.model.initial(part), search.timeline.points.len() - 1);
    let Outcome::Stuck(stuck) = search.run(0, last, initial.clone(), None) else {
        return whole(search, part, furthest);
    };
    let mut cuts = Cuts::new();
    search.run(0, stuck, initial, Some(&mut cuts));
    let mut positions: Vec<_> = search.timeline.cuts(stuck);
    positions.drain(..positions.len().saturating_sub(CUTS));
    let states = states_at(&cuts, positions.iter());
    let contradiction =
        positions.iter().rev().find(|&&first| fails(search, first, stuck, &states, &HashSet::new()));
    let last_cut = positions.last().copied().unwrap_or(0);
    match contradiction {
        Some(&first) => report(search, part, first, stuck, states, true),
        None => report(search, part, last_cut, stuck, states_at(&cuts, [last_cut].iter()), false),
    }
}

/// Reports all operations of a part.
fn whole<M: Model>(search: &Search<'_, M>, part: &M::Part, furthest: usize) -> Violation<M> {
    let calls = search.timeline.points.iter();
    let calls = calls.filter_map(|point| if let Point::Call(event) = point { Some(*event) } else { None });
    let stuck = calls.clone().position(|event| search.timeline.points[furthest] == Point::Return(event));
    Violation {
        part: part.clone(),
        stuck: stuck.unwrap_or(0),
        events: calls.map(|event| search.events[event].clone()).collect(),
        states: vec![search.model.initial(part)],
        whatever_before: false,
    }
}

/// Returns the states reached at cuts, without duplicates.
fn states_at<'a, S: Clone + Eq + std::hash::Hash>(
    cuts: &Cuts<S>,
    positions: impl Iterator<Item = &'a usize>,
) -> Vec<S> {
    let mut seen = HashSet::new();
    let reached = positions.filter_map(|position| cuts.get(position)).flatten();
    reached.filter(|state| seen.insert(*state)).take(STATES).cloned().collect()
}

/// Returns `true` if no order explains the window from any of the states.
fn fails<M: Model>(
    search: &Search<'_, M>,
    first: usize,
    last: usize,
    states: &[M::State],
    ignored: &HashSet<usize>,
) -> bool {
    let search = Search { ignored, ..*search };
    states.iter().all(|state| matches!(search.run(first, last, state.clone(), None), Outcome::Stuck(_)))
}

fn report<M: Model>(
    search: &Search<'_, M>,
    part: &M::Part,
    first: usize,
    stuck: usize,
    states: Vec<M::State>,
    whatever_before: bool,
) -> Violation<M> {
    let Point::Return(culprit) = search.timeline.points[stuck] else { unreachable!("walks stop at returns") };
    let mut kept: Vec<usize> = search.timeline.points[first..=stuck]
        .iter()
        .filter_map(|point| if let Point::Call(event) = point { Some(*event) } else { None })
        .collect();
    let dropped = superfluous(search, (first, stuck), &kept, culprit, &states);
    kept.retain(|event| !dropped.contains(event));
    Violation {
        part: part.clone(),
        stuck: kept.iter().position(|&event| event == culprit).unwrap_or(0),
        events: kept.iter().map(|&event| search.events[event].clone()).collect(),
        states,
        whatever_before,
    }
}

/// Returns events without which the window still fails. Only observers are tried: leaving out a writer could
/// make an explicable window fail.
fn superfluous<M: Model>(
    search: &Search<'_, M>,
    (first, last): (usize, usize),
    events: &[usize],
    culprit: usize,
    states: &[M::State],
) -> HashSet<usize> {
    let mut dropped = HashSet::new();
    for &event in events.iter().filter(|&&event| event != culprit) {
        let asked = search.events[event];
        if !search.model.only_observes(&asked.op, &asked.outcome) {
            continue;
        }
        dropped.insert(event);
        if !fails(search, first, last, states, &dropped) {
            dropped.remove(&event);
        }
    }
    dropped
}
