//! Calls by several threads, among them those of rayon's pool, and what they must not see or wait for.
use super::emulator;
use phalanx::{BTree, Error, HashMap, Map, MultiVersionBTree, SkipList, SlabHash, TieredSkipList};
use phalanx_testing::refuses;
use rayon::prelude::*;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// Fails if `run` does not end. Its threads then stay until the process ends.
#[track_caller]
fn ends(run: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    thread::spawn(move || {
        run();
        done.send(()).expect("the test waits");
    });
    assert!(is_done.recv_timeout(Duration::from_secs(300)).is_ok(), "the calls wait for each other");
}

/// A thread that exports a map holds its lock while it converts. The pool's threads wait for that lock.
#[test]
fn threads_export_while_the_pool_looks_up() {
    ends(|| {
        let map =
            Arc::new(HashMap::<u32, u32>::builder().device(&emulator()).capacity(40_000).build().unwrap());
        let keys: Vec<u32> = (0..40_000).collect();
        assert!(map.insert(&keys, &keys).unwrap().all_placed());
        let (stop, is_stopped) = channel::<()>();
        let shared = map.clone();
        let pool = thread::spawn(move || {
            while is_stopped.try_recv().is_err() {
                (0..200u32)
                    .into_par_iter()
                    .for_each(|key| assert_eq!(shared.get(&[key]).unwrap(), [Some(key)]));
            }
        });
        for _ in 0..20 {
            assert_eq!(map.export().unwrap().0.len(), 40_000);
        }
        stop.send(()).unwrap();
        pool.join().unwrap();
    });
}

/// A task of the pool sorts while it holds a lock: it must not run another task that wants the lock.
#[test]
fn tasks_of_the_pool_search_a_list() {
    ends(|| {
        let list = Arc::new(TieredSkipList::<u32, u32>::builder().device(&emulator()).build().unwrap());
        let asked: Arc<Vec<u32>> = Arc::new((0..50_000u32).map(|n| n.wrapping_mul(2_654_435_761)).collect());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        let (done, is_done) = channel();
        for _ in 0..40 {
            let (list, asked, done) = (list.clone(), asked.clone(), done.clone());
            pool.spawn(move || {
                assert_eq!(list.successor(&asked).unwrap().len(), asked.len());
                done.send(()).unwrap();
            });
        }
        (0..40).for_each(|_| is_done.recv().unwrap());
    });
}

/// Checks of a structure see it at one moment, also while others write.
#[test]
fn structures_are_valid_while_threads_write() {
    fn check<M: Map<Key = u32, Value = u32> + Sync>(map: &M, validate: impl Fn(&M)) {
        thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..50u32 {
                    let keys: Vec<u32> = (100 * round..100 * round + 100).collect();
                    assert!(map.insert(&keys, &keys).unwrap().all_placed());
                }
            });
            while !writer.is_finished() {
                validate(map);
            }
        });
    }
    let device = emulator();
    check(&BTree::builder().device(&device).build().unwrap(), |tree| {
        tree.validate().unwrap();
        tree.depth().unwrap();
    });
    check(&SkipList::builder().device(&device).build().unwrap(), |list| list.validate().unwrap());
    check(&MultiVersionBTree::builder().device(&device).build().unwrap(), |tree| {
        tree.versions().unwrap();
    });
    check(&SlabHash::builder().device(&device).build().unwrap(), |map: &SlabHash<u32, u32>| {
        map.validate().unwrap();
    });
}

/// Keys whose type has a name that no file has room for.
#[test]
fn names_of_types_that_no_file_holds() {
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Long(u32);

    impl phalanx::Key for Long {
        type Word = u32;
        const WIDTH: u32 = 32;

        fn name() -> String {
            "x".repeat(70_000)
        }

        fn encode(self) -> u32 {
            self.0
        }

        fn decode(word: u32) -> Option<Self> {
            Some(Self(word))
        }
    }
    let map = HashMap::<Long, u32>::builder().device(&emulator()).build().unwrap();
    assert!(map.insert(&[Long(1)], &[10]).unwrap().all_placed());
    refuses!(map.save(&mut Vec::new()), Error::Format(_), "70000 bytes");
}

/// An iteration that is over leaves a range that contains nothing.
#[test]
fn ranges_that_were_iterated_contain_nothing() {
    let device = emulator();
    let mut range = 5..=5u32;
    assert_eq!((range.next(), range.contains(&5)), (Some(5), false));
    macro_rules! check {
        ($($structure:ident)*) => {$({
            let mut map = $structure::<u32, u32>::builder().device(&device).build().unwrap();
            assert!(map.insert(&[0, 1, 5, 9], &[5; 4]).unwrap().all_placed());
            map.retain_keys(range.clone()).unwrap();
            assert!(map.is_empty().unwrap());
            assert!(map.insert(&[0, 1, 5, 9], &[0, 1, 5, 9]).unwrap().all_placed());
            map.retain_values(range.clone()).unwrap();
            assert!(map.is_empty().unwrap());
        })*};
    }
    check!(HashMap SlabHash BTree SkipList MultiVersionBTree);
}
