//! Replays the accesses of a script up to each point at which power may be lost.
use super::disk::{Access, Crash, Disk, crashes};
use super::script::{PAGE, Run, SCRIPT, Step, Version, options};
use crate::persistent_map::file::check::check;
use crate::persistent_map::file::geometry::BLOCK;
use crate::persistent_map::file::*;

/// Says what is wrong with what a crash has left: it must have the last version whose call had returned, or
/// the one whose call had begun.
fn wrong(crash: &Crash, versions: &[Version]) -> Option<String> {
    let disk = Disk::of(crash.bytes.clone());
    let say = |what: String| Some(format!("{}: {what}", crash.what));
    if let Err(fault) = check(disk.clone()) {
        return say(format!("check refuses it: {fault}"));
    }
    match Version::read(disk) {
        Err(fault) => say(format!("open refuses it: {fault}")),
        Ok(found) if versions[crash.returned..=crash.begun].contains(&found) => None,
        Ok(found) => {
            let (header, image) = (found.header[0], found.image.len());
            let mixed = found.header.iter().any(|&byte| byte != header);
            let Crash { returned, begun, .. } = crash;
            say(format!(
                "versions {returned} to {begun} expected, found {:?} with header {header} (mixed: {mixed}), \
                 {image} bytes, {:?}",
                found.epoch, found.source
            ))
        }
    }
}

/// Returns the number of crashes of a recorded run, and what is wrong with the first wrong one.
pub fn explore<D>(run: &Run<D>, repair: impl Fn(&mut Vec<u8>)) -> (usize, Option<String>) {
    let (mut count, mut first) = (0, None);
    let log = run.disk.log();
    let begin = log.iter().position(|access| *access == Access::Return(0)).unwrap() + 1;
    let mut start = Vec::new();
    log[..begin].iter().for_each(|access| super::disk::apply(&mut start, access));
    crashes(&start, &log[begin..], |mut crash| {
        count += 1;
        repair(&mut crash.bytes);
        first = first.take().or_else(|| wrong(&crash, &run.versions));
    });
    (count, first)
}

/// Executes the script on a disk.
fn recorded() -> Run<Disk> {
    let disk = Disk::default();
    let mut run = Run::new(disk.clone(), disk).unwrap();
    run.all(&SCRIPT).unwrap();
    run
}

#[test]
fn every_crash_leaves_the_last_epoch() {
    let (count, wrong) = explore(&recorded(), |_| {});
    assert_eq!(wrong, None);
    assert!(count > 1500, "only {count} crashes");
}

/// Power is lost again while the file is repaired, or in the first sync after that.
#[test]
fn crashes_after_a_crash_leave_the_last_epoch() {
    let run = recorded();
    let (mut number, mut count) = (0, 0);
    crashes(&[], &run.disk.log(), |crash| {
        number += 1;
        // Before that, the file is not complete. All crashes of an interval would take a minute.
        if crash.returned == 0 || number % 97 != 0 {
            return;
        }
        let found = Version::read(Disk::of(crash.bytes.clone())).unwrap();
        let disk = Disk::of(crash.bytes.clone());
        let mut second = Run::reopened(disk.clone(), found).unwrap();
        second.all(&[Step::Sync(&[1, 2]), Step::Sync(&[0])]).unwrap();
        crashes(&crash.bytes, &disk.log(), |again| {
            count += 1;
            assert_eq!(wrong(&again, &second.versions), None, "after {}", crash.what);
        });
    });
    assert!(count > 2000, "only {count} crashes");
}

/// `format` is complete when it returns. Until then the file has no name.
#[test]
fn a_new_file_survives() {
    let disk = Disk::default();
    let run = Run::new(disk.clone(), disk).unwrap();
    let mut complete = 0;
    crashes(&[], &run.disk.log(), |crash| {
        if crash.what.starts_with("interval 1") {
            complete += 1;
            assert_eq!(wrong(&crash, &run.versions), None);
        }
    });
    assert!(complete > 0);
}

/// After an error of any access, the call can be repeated, or the file says that it must be opened again.
/// Then it has the version before or the one that failed.
#[test]
fn a_sync_that_failed_changes_nothing_or_everything() {
    use std::io::ErrorKind::{Other, StorageFull};
    for kind in [StorageFull, Other] {
        for after in 0.. {
            let disk = Disk::default();
            let mut run = Run::new(disk.clone(), disk.clone()).unwrap();
            disk.fail(Some(super::disk::Failure { after, kind }));
            let mut failures = 0;
            for step in &SCRIPT {
                while let Err(fault) = run.step(step) {
                    failures += 1;
                    assert!(failures < 5, "{fault}");
                    disk.fail(None);
                    if run.recover(fault, step) {
                        break;
                    }
                }
            }
            let last = run.versions.last().unwrap();
            assert_eq!(Version::read(disk.clone()).unwrap(), *last);
            check(disk.clone()).unwrap();
            if failures == 0 {
                assert!(after > 50, "the script has {after} accesses");
                break;
            }
        }
    }
}

impl Run<Disk> {
    /// Opens a disk that has a version.
    fn reopened(disk: Disk, found: Version) -> Result<Self, FileFault> {
        disk.note(Access::Return(0));
        let volume = Some(Volume::open(disk.clone(), &options())?.0);
        let image = found.image.clone();
        Ok(Self { volume, device: disk.clone(), disk, versions: vec![found], image })
    }

    /// Goes on after a failed step: says whether it turned out to be done.
    fn recover(&mut self, fault: FileFault, step: &Step) -> bool {
        let is_full = matches!(fault, FileFault::Full { .. });
        assert!(is_full || matches!(fault, FileFault::Io { .. }), "{fault}");
        if matches!(step, Step::Grow(_) | Step::Abandon(_) | Step::Reopen) {
            return false;
        }
        let tried = self.versions.pop().unwrap();
        // After a failed sync, the system may take lost writes for done; and a superblock may be there.
        let is_late = match self.disk.failed().unwrap() {
            Access::Write(offset, _) => offset <= BLOCK,
            access => access == Access::Sync,
        };
        match self.volume().begin().map(drop) {
            Ok(()) if !is_late => return false,
            Err(FileFault::Uncertain) if is_late => {}
            begun => panic!("{begun:?} after {:?}", self.disk.failed()),
        }
        self.volume = None;
        let found = Version::read(self.disk.clone()).unwrap();
        self.volume = Some(Volume::open(self.disk.clone(), &options()).unwrap().0);
        if found == tried {
            self.image = found.image.clone();
            self.versions.push(tried);
            return true;
        }
        assert_eq!(found, *self.versions.last().unwrap());
        let (pages, grown) = (self.image.len() / PAGE, found.image.len() / PAGE);
        if grown < pages {
            self.volume().grow((pages - grown) as u64).unwrap(); // no sync has returned since it grew
        }
        false
    }
}
