//! Planted faults: the comparison with the model, or the exchange itself, finds each of them.
mod ranks;
use exchange::{Fault, Planted};
use ranks::*;

/// Plants a fault at each step of the script in turn. Returns at how many steps all ranks returned right
/// results nevertheless, and at how many a fault was found.
fn plant(kind: Kind, ranks: usize, fault: Fault) -> (usize, usize) {
    let (mut unnoticed, mut found) = (0, 0);
    for step in 0..40 {
        let planted = vec![Planted { rank: ranks - 1, step, fault }];
        let results = run_with((kind, ranks), small(), planted, script);
        match results.iter().all(|result| matches!(result, Ok(true))) {
            true => unnoticed += 1,
            false => found += 1,
        }
    }
    (unnoticed, found)
}

/// Steps of the script with data: an exchange of slots and its answers, then at least three rounds, and at
/// least six rounds of requests and answers.
const LEAST: usize = 8;

#[test]
fn a_dropped_round_is_caught() {
    for kind in KINDS {
        for ranks in [2, 3, 5] {
            let (_, found) = plant(kind, ranks, Fault::DropRound);
            assert!(found >= LEAST, "{kind:?}, {ranks}: {found}");
        }
    }
}

#[test]
fn answers_in_a_wrong_slot_are_caught() {
    for kind in KINDS {
        for ranks in [2, 3, 5] {
            let (_, found) = plant(kind, ranks, Fault::WrongSlot);
            assert!(found >= LEAST, "{kind:?}, {ranks}: {found}");
        }
    }
}

#[test]
fn a_count_that_is_off_by_one_is_caught() {
    for kind in KINDS {
        for ranks in [1, 2, 3, 5] {
            // The limits and two rows of counts.
            let (_, found) = plant(kind, ranks, Fault::CountOffByOne);
            assert!(found >= if ranks == 1 { 2 } else { 3 }, "{kind:?}, {ranks}: {found}");
        }
    }
}

#[test]
fn without_a_fault_all_results_are_right() {
    for kind in KINDS {
        for ranks in RANKS {
            assert_eq!(run((kind, ranks), small(), script), vec![true; ranks]);
        }
    }
}
