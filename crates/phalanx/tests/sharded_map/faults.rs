//! Planted faults, which the scripts must find.
use crate::ranks::{Kind, run_with, small};
use crate::scripts::finds;
use phalanx::exchange::{Fault, Planted};

#[test]
fn scripts_find_planted_faults() {
    if std::env::var("PHALANX_DEVICE").is_ok_and(|name| name.starts_with("cuda")) {
        return; // Needs three ranks, whatever the machine has.
    }
    for (kind, fault) in [
        (Kind::Emulated, Fault::DropRound),
        (Kind::Peer, Fault::DropRound),
        (Kind::Emulated, Fault::WrongSlot),
        (Kind::Peer, Fault::WrongSlot),
        (Kind::Emulated, Fault::CountOffByOne),
    ] {
        // Each step up to the first that moves data, and those after it.
        let found = (3..14).filter(|&step| {
            let planted = vec![Planted { rank: 1, step, fault }];
            finds((kind, 3), small(), planted, 7)
        });
        let found = found.count();
        println!("{kind:?}, {fault:?}: {found} of 11 steps");
        assert!(found > 0, "{kind:?}: {fault:?} is found at no step");
    }
}

#[test]
fn scripts_without_faults_find_none() {
    assert!(!finds((Kind::Emulated, 2), small(), Vec::new(), 7) || cfg!(feature = "cuda"));
    let lost = run_with((Kind::Peer, 1), small(), Vec::new(), |exchange| Ok(exchange.ranks()));
    assert_eq!(lost[0].as_ref().ok(), Some(&1));
}
