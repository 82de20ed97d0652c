//! Processes that are killed in the middle of a batch: what they had acknowledged is in the mapped file.
//!
//! The test starts itself as a child process, which inserts, updates and removes pairs in rounds, and writes
//! the number of each completed round to a pipe. `PHALANX_KILLS` is the number of processes, by default a
//! few, and 40 on a GPU. Where the driver refuses to map the file, a round is acknowledged after a `sync`.
use crate::{device, folder};
use phalanx::persistent_map::Durability;
use phalanx::{Error, Outcome, PersistentMap};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Name of the variable with the path of the file, by which a process knows that it is the child.
const CHILD: &str = "PHALANX_TEST_KILLED_MAP";

/// Number of keys of a round.
const KEYS: u64 = 96;

/// Rounds after which a key of an earlier round is removed.
const REMOVED_AFTER: u64 = 3;

type Value = [u64; 4];

/// Returns the map, and the level of durability of its batches.
fn open(path: &Path) -> (PersistentMap<u64, Value>, Durability) {
    let device = device();
    let open = |durability| {
        let builder = PersistentMap::<u64, Value>::builder().durability(durability);
        builder.capacity(20_000).device(&device).open_or_create(path)
    };
    match open(Durability::Process) {
        Err(Error::Durability { offered, .. }) => (open(offered).unwrap(), offered),
        opened => (opened.unwrap(), Durability::Process),
    }
}

fn keys(round: u64) -> Vec<u64> {
    (round * KEYS..(round + 1) * KEYS).collect()
}

fn values(round: u64, version: u64) -> Vec<Value> {
    keys(round).into_iter().map(|key| [key, version, key ^ version, !key]).collect()
}

/// Executes round after round, from the last one on of which the map has a key: it may be incomplete.
fn child(path: &Path) {
    let (map, durability) = open(path);
    let mut output = std::io::stdout();
    let mut round = last_round(&map);
    loop {
        assert!(map.insert(&keys(round), &values(round, 0)).unwrap().all_placed());
        if round > 0 {
            let updated = map.update(&keys(round - 1), &values(round - 1, 1)).unwrap();
            assert_eq!(updated.count(Outcome::Replaced) as u64, KEYS);
        }
        if round >= REMOVED_AFTER {
            map.remove(&keys(round - REMOVED_AFTER)).unwrap();
        }
        if durability == Durability::Machine {
            map.sync().unwrap();
        }
        // The batches of the round have completed.
        output.write_all(format!("round {round}\n").as_bytes()).unwrap();
        output.flush().unwrap();
        round += 1;
    }
}

/// Returns the last round of which the map has a key, or the first one.
fn last_round(map: &PersistentMap<u64, Value>) -> u64 {
    map.export().unwrap().0.into_iter().map(|key| key / KEYS).max().unwrap_or(0)
}

/// Kills a child after `rounds` of its rounds. Returns the last acknowledged round.
fn run_child(path: &Path, rounds: usize, delay: Duration) -> u64 {
    let mut child = start(path);
    let mut output = child.stdout.take().unwrap();
    let (mut text, mut part) = (Vec::new(), [0; 256]);
    let lines = |text: &[u8]| text.windows(6).filter(|window| window == b"round ").count();
    while lines(&text) < rounds {
        let len = output.read(&mut part).unwrap();
        assert!(len > 0, "the child ended: {}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&part[..len]);
    }
    std::thread::sleep(delay);
    child.kill().unwrap();
    child.wait().unwrap();
    // Acknowledged before its death, too.
    output.read_to_end(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let complete = text.rsplit_once('\n').map_or("", |(complete, _)| complete);
    let last = complete.lines().rev().find_map(|line| line.strip_prefix("round "));
    last.expect("a round").parse().unwrap()
}

fn start(path: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(program);
    command.args(["--exact", "kill::child_of_the_kills", "--nocapture"]);
    command.env(CHILD, path).stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap()
}

/// Requires that the map has the rounds up to `last` as they were acknowledged, and whole pairs of later
/// ones.
fn check(map: &PersistentMap<u64, Value>, last: u64) {
    map.check().unwrap();
    let (found, values) = map.export().unwrap();
    for (&key, &[first, version, mixed, inverse]) in found.iter().zip(&values) {
        assert_eq!((first, mixed, inverse), (key, key ^ version, !key), "a torn value");
        assert!(version <= 1 && key / KEYS <= last + 1, "key {key} of version {version}");
    }
    for round in (last + 1).saturating_sub(REMOVED_AFTER)..=last {
        // The next round, which was not acknowledged, may have updated or removed these.
        let may_be_removed = round + REMOVED_AFTER <= last + 1;
        for (key, found) in keys(round).into_iter().zip(map.get(&keys(round)).unwrap()) {
            assert!(found.is_some() || may_be_removed, "key {key} of round {round} of {last} is lost");
            let version = found.map(|[_, version, ..]| version);
            assert!(round == last || version.is_none_or(|version| version == 1), "key {key}: {found:?}");
        }
    }
    for round in 0..(last + 1).saturating_sub(REMOVED_AFTER) {
        assert!(map.contains_key(&keys(round)).unwrap().iter().all(|&present| !present), "round {round}");
    }
}

#[test]
fn child_of_the_kills() {
    if let Some(path) = std::env::var_os(CHILD) {
        child(&PathBuf::from(path));
    }
}

#[test]
fn acknowledged_batches_survive_kills() {
    let kills = if device().is_emulator() { 12 } else { 40 };
    let kills = std::env::var("PHALANX_KILLS").map_or(kills, |text| text.parse().expect("a number"));
    // In memory, if the system has such a folder: GPUs access no other files.
    let folder = tempfile::tempdir_in("/dev/shm").unwrap_or_else(|_| folder());
    let mut path = folder.path().join("map");
    for kill in 0..kills {
        let last = run_child(&path, 1 + kill % 7, Duration::from_micros(kill as u64 * 7919 % 9000));
        check(&open(&path).0, last);
        if kill % 10 == 9 {
            // A new file, before the map has grown large.
            path = folder.path().join(format!("map {kill}"));
        }
    }
}
