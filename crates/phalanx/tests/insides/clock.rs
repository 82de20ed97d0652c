//! End of the clock: operations on a tree whose timestamps are nearly used up, which no test could reach by
//! taking snapshots.
use gpu::Device;
use phalanx::mvbtree::variants;
use phalanx::private::begin_at;
use phalanx::{Error, MultiVersionBTree};
use phalanx_kernels::btree::LATEST;

type Tree = MultiVersionBTree<u32, u32>;

/// Creates a tree of each variant with only `left` snapshots left, and with the pairs (n, n).
fn old(left: u32) -> Vec<Tree> {
    let device = Device::emulator(Default::default());
    let tree = |name: &str| {
        let tree = Tree::builder().device(&device).variant(name).build().unwrap();
        begin_at(&tree, LATEST - left).unwrap();
        let keys: Vec<u32> = (0..40).collect();
        assert!(tree.insert(&keys, &keys).unwrap().all_placed());
        tree
    };
    variants::<u32, u32>().into_iter().map(tree).collect()
}

#[test]
fn the_last_snapshot_is_refused_and_not_the_first_wrong_one() {
    for tree in old(1) {
        let name = tree.variant();
        let last = tree.snapshot().unwrap();
        assert!(tree.insert(&[7, 50], &[70, 500]).unwrap().all_placed());
        assert!(matches!(tree.snapshot(), Err(Error::Moments)), "{name}");
        assert!(tree.insert(&[8], &[80]).unwrap().all_placed());
        tree.remove(&[9]).unwrap();
        assert_eq!(tree.at(&last).unwrap().get(&[7, 8, 9, 50]).unwrap(), [Some(7), Some(8), Some(9), None]);
        assert_eq!(tree.at(&last).unwrap().count(&[..]).unwrap(), [40], "{name}");
        assert_eq!(tree.get(&[7, 8, 9, 50]).unwrap(), [Some(70), Some(80), None, Some(500)], "{name}");
        tree.validate().unwrap();
    }
}

#[test]
fn streams_and_questions_go_on_at_the_end() {
    for tree in old(2) {
        let (name, stream) = (tree.variant(), tree.device().stream().unwrap());
        let last = tree.snapshot().unwrap();
        for round in 0..6 {
            if let Ok(taken) = tree.snapshot_on(&stream) {
                assert_eq!(tree.at(&taken).unwrap().count(&[..3]).unwrap(), [3], "{name}, round {round}");
                assert_eq!(tree.count(&[..3]).unwrap(), [3], "{name}, round {round}");
            }
            assert!(tree.insert(&[1, 2], &[round, round]).unwrap().all_placed());
            assert_eq!(tree.get(&[1, 2]).unwrap(), [Some(round), Some(round)], "{name}");
        }
        assert_eq!(tree.at(&last).unwrap().get(&[1, 2]).unwrap(), [Some(1), Some(2)], "{name}");
        tree.validate().unwrap();
    }
}

#[test]
fn time_begins_anew_where_no_snapshot_lives() {
    for tree in old(3) {
        let name = tree.variant();
        for round in 0..8 {
            let then = tree.snapshot().unwrap_or_else(|error| panic!("{name}, round {round}: {error}"));
            assert!(tree.insert(&[1], &[100 + round]).unwrap().all_placed());
            let before = if round == 0 { 1 } else { 99 + round };
            assert_eq!(tree.at(&then).unwrap().get(&[1]).unwrap(), [Some(before)], "{name}, round {round}");
            assert_eq!(tree.at(&then).unwrap().count(&[..]).unwrap(), [40], "{name}, round {round}");
        }
        tree.validate().unwrap();
        tree.drain().unwrap();
        assert_eq!(tree.versions().unwrap(), 0, "{name}");
    }
}
