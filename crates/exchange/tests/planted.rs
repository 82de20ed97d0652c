//! Planted faults: the comparison with the model, or the exchange itself, finds each of them.
mod ranks;
use exchange::{Fault, Planted};
use ranks::*;

/// Plants a fault at each step of the script in turn. Returns at how many steps it was found: not all ranks
/// returned right results.
fn count_found(kind: Kind, ranks: usize, fault: Fault) -> usize {
    let is_found = |step: &u64| {
        let planted = vec![Planted { rank: ranks - 1, step: *step, fault }];
        let results = run_with((kind, ranks), small(), planted, script);
        !results.iter().all(|result| matches!(result, Ok(true)))
    };
    (0..40).filter(is_found).count()
}

/// Steps of the script in which every rank of three or more receives data: an exchange of slots and its
/// answers; a direct exchange; and five rounds with answers.
const ALL: usize = 2 + 1 + 2 * 5;

#[test]
fn a_dropped_round_is_caught() {
    for kind in KINDS {
        assert!(count_found(kind, 2, Fault::DropRound) >= 9, "{kind:?}: some pieces are empty");
        for ranks in [3, 5] {
            assert_eq!(count_found(kind, ranks, Fault::DropRound), ALL, "{kind:?}, {ranks} ranks");
        }
    }
}

#[test]
fn answers_in_a_wrong_slot_are_caught() {
    for kind in KINDS {
        assert!(count_found(kind, 2, Fault::WrongSlot) >= 9, "{kind:?}: some pieces are empty");
        for ranks in [3, 5] {
            assert_eq!(count_found(kind, ranks, Fault::WrongSlot), ALL, "{kind:?}, {ranks} ranks");
        }
    }
}

#[test]
fn a_count_that_is_off_by_one_is_caught() {
    for kind in KINDS {
        for ranks in [1, 2, 3, 5] {
            // Two rows of counts; with two ranks, also the limits.
            let expected = 2 + usize::from(ranks == 2);
            assert_eq!(count_found(kind, ranks, Fault::CountOffByOne), expected, "{kind:?}, {ranks} ranks");
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
