//! Tests of the program: each training ends with a comparison of all rows with the model.
use embedding_cache::cache;
use embedding_cache::clicks;
use embedding_cache::history::Stage;
use embedding_cache::training::{Options, Training};
use phalanx::cache_table::Rule;
use phalanx::gpu::Device;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn start(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_embedding-cache"));
    let command = command.current_dir(folder).env_remove("PHALANX_DEVICE").args(arguments.split_whitespace());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const SMALL: &str = "--device emulator --items 2000 --capacity 256 --dim 4 --batches 6 --batch 200 \
                     --serve 100 --drift-every 3 --drift 0.5 --window 2";

/// Parameters like those of `SMALL`.
fn small(rule: Rule) -> Options {
    Options {
        clicks: clicks::Options { items: 2000, theta: 0.9, drift_every: 3, drift: 0.5, seed: 5 },
        cache: cache::Options { capacity: 256, dim: 4, rule, two_buckets: true, on_device: 1.0, seed: 5 },
        batch: 200,
        serve: 100,
        admit_after: 1,
        epoch_every: 2,
        promote: 0,
        window: 2,
        verify: true,
    }
}

fn train(options: Options, batches: usize) -> embedding_cache::history::History {
    let mut training = Training::new(&Device::named("emulator").unwrap(), options).unwrap();
    for _ in 0..batches {
        training.step().unwrap();
    }
    training.finish().unwrap()
}

#[test]
fn trains_prints_and_writes_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let output = start(folder.path(), &format!("{SMALL} --verify --html page.html"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let lines = ["SIMT emulator", "no measurement of speed", "hit rate of serving", "are those of the model"];
    for expected in lines {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert_eq!((page.matches("<svg").count(), page.matches("</figure>").count()), (4, 4));
    for expected in ["Hit rate", "Admission", "Wrong evictions", "2000 items, 256", "write back"] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
}

#[test]
fn each_rule_trains_all_rows_right_and_evicts() {
    let rules = [Rule::Lru, Rule::Lfu, Rule::EpochLru, Rule::EpochLfu, Rule::Custom, Rule::LfuThenLru];
    for rule in rules {
        let total = train(small(rule), 6).total();
        assert_eq!((total.requests, total.served), (1200, 600), "{rule:?}");
        assert!(total.hits > 0 && total.served_hits > 0 && total.evicted > 0, "{rule:?}: {total:?}");
        let may_refuse = !matches!(rule, Rule::Lru | Rule::EpochLru | Rule::Custom);
        assert!(may_refuse || total.refused == 0, "{rule:?}: {total:?}");
    }
}

#[test]
fn admission_keeps_items_with_few_misses_out() {
    let (all, few) = (small(Rule::Lru), Options { admit_after: 3, ..small(Rule::Lru) });
    let (all, few) = (train(all, 6).total(), train(few, 6).total());
    assert_eq!(all.missed, all.admitted);
    assert!(few.admitted * 2 < few.missed && few.evicted < all.evicted, "{few:?}");
    assert!(few.work(Stage::StoreGradient).rows > 0);
    assert_eq!(all.work(Stage::Gradient).rows + all.work(Stage::StoreGradient).rows, all.requests);
}

#[test]
fn rows_in_host_memory_are_trained_and_promoted() {
    let options = small(Rule::Lfu);
    let cache = cache::Options { on_device: 0.25, ..options.cache };
    let total = train(Options { cache, promote: 8, ..options }, 8).total();
    assert!(total.promoted > 0 && total.work(Stage::Promote).rows == total.promoted, "{total:?}");
}

#[test]
fn a_larger_cache_has_more_hits_and_fewer_returns() {
    let options = small(Rule::Lru);
    let cache = cache::Options { capacity: 1024, ..options.cache };
    let (little, large) = (train(options, 8), train(Options { cache, ..options }, 8));
    assert!(large.total().hits > little.total().hits);
    assert!(little.return_rate().unwrap() > 0.0 && large.total().returned < little.total().returned);
}

#[test]
fn each_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("--device cuda:99", "--device emulator needs no GPU"),
        ("--device gpu", "auto, emulator, cuda or cuda:N"),
        ("--rule fifo", "lfu-then-lru"),
        ("--theta -1", "0 to 10"),
        ("--theta 11", "--theta 0 to 10"),
        ("--drift 2", "choose 0 to 1"),
        ("--items 0", "1.."),
        ("--admit-after 0", "1.."),
        ("--dim 1025", "1..=1024"),
        ("--buckets 3", "1..=2"),
        ("--on-device 1.5", "--on-device must fit"),
        ("--items 4000000000000000000", "fewer --items"),
        ("--capacity 4000000000000", "--capacity"),
        ("--html none/page.html", "check that its folder is there"),
    ];
    for (arguments, expected) in cases {
        let device = if arguments.starts_with("--device") { "" } else { "--device emulator " };
        let output = start(folder.path(), &format!("{device}{arguments}"));
        let errors = text(&output.stderr);
        assert!(!output.status.success() && errors.contains(expected), "{arguments}: {errors}");
    }
}
