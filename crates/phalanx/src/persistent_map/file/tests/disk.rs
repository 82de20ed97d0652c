//! A disk in memory that records its accesses, and from the record builds what a crash leaves.
use crate::persistent_map::file::BlockDevice;
use phalanx_testing::common::Rng;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// Bytes that a disk writes as a whole.
pub const SECTOR: usize = 512;

/// A recorded access, or a note of the test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Write(u64, Vec<u8>),
    /// The disk ends here from now on.
    Extend(u64),
    Sync,
    /// A call begins that makes this version current.
    Begin(usize),
    /// The call has returned.
    Return(usize),
}

/// An access that fails.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// Number of accesses that change the disk, syncs among them, before the one that fails.
    pub after: usize,
    pub kind: io::ErrorKind,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    log: Vec<Access>,
    changes: usize,
    failure: Option<Failure>,
    /// The access that has failed.
    failed: Option<Access>,
}

impl State {
    /// Returns an error if this change is to fail, and counts it.
    fn change(&mut self, access: Access) -> io::Result<()> {
        self.changes += 1;
        if let Some(failure) = self.failure.filter(|failure| failure.after + 1 == self.changes) {
            self.failed = Some(access);
            return Err(failure.kind.into());
        }
        apply(&mut self.bytes, &access);
        self.log.push(access);
        Ok(())
    }
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub fn of(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(State { bytes, ..State::default() })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    pub fn contents(&self) -> Vec<u8> {
        self.state().bytes.clone()
    }

    pub fn log(&self) -> Vec<Access> {
        self.state().log.clone()
    }

    /// Records a note.
    pub fn note(&self, note: Access) {
        self.state().log.push(note);
    }

    /// Lets an access fail from now on.
    pub fn fail(&self, failure: Option<Failure>) {
        let mut state = self.state();
        state.failure = failure;
        state.changes = 0;
    }

    /// Returns the last access that has failed.
    pub fn failed(&self) -> Option<Access> {
        self.state().failed.clone()
    }

    /// Cuts the disk off after `len` bytes.
    pub fn truncate(&self, len: u64) {
        self.state().bytes.truncate(len as usize);
    }
}

impl BlockDevice for Disk {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
        let (state, start) = (self.state(), offset as usize);
        let found = state.bytes.get(start..start + bytes.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        bytes.copy_from_slice(found);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.state().change(Access::Write(offset, bytes.to_vec()))
    }

    fn sync(&self) -> io::Result<()> {
        self.state().change(Access::Sync)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn allocate(&self, _: u64, end: u64) -> io::Result<()> {
        self.state().change(Access::Extend(end))
    }

    fn fill(&self, _: u64, _: u64) -> io::Result<bool> {
        Ok(true)
    }

    fn allocated(&self) -> io::Result<u64> {
        self.len()
    }
}

/// Executes an access.
pub fn apply(bytes: &mut Vec<u8>, access: &Access) {
    match access {
        Access::Write(offset, written) => {
            let (start, end) = (*offset as usize, *offset as usize + written.len());
            if bytes.len() < end {
                bytes.resize(end, 0);
            }
            bytes[start..end].copy_from_slice(written);
        }
        Access::Extend(end) if bytes.len() < *end as usize => bytes.resize(*end as usize, 0),
        _ => {}
    }
}

/// Executes a part of an access: of a write, the sectors that `has` selects.
fn tear(bytes: &mut Vec<u8>, access: &Access, mut has: impl FnMut(usize) -> bool) {
    let Access::Write(offset, written) = access else {
        if has(0) {
            apply(bytes, access);
        }
        return;
    };
    for (sector, part) in written.chunks(SECTOR).enumerate().filter(|(sector, _)| has(*sector)) {
        apply(bytes, &Access::Write(offset + (sector * SECTOR) as u64, part.to_vec()));
    }
}

/// Contents of a disk after a crash.
pub struct Crash {
    pub bytes: Vec<u8>,
    /// Last version whose call had returned.
    pub returned: usize,
    /// Version whose call had begun, or the last that had returned.
    pub begun: usize,
    /// Where and how it crashed.
    pub what: String,
}

/// Passes to `visit` what each crash may leave of the record of a disk that began with `start`.
///
/// Accesses before the last sync are complete. Of those after it, the parts are: every prefix, every prefix
/// whose last write is torn after each sector; and before each sync, all but one, and 64 seeded subsets, of
/// which half are of sectors.
pub fn crashes(start: &[u8], log: &[Access], mut visit: impl FnMut(Crash)) {
    let (mut lasting, mut notes) = (start.to_vec(), (0, 0));
    let intervals = log.split_inclusive(|access| *access == Access::Sync);
    for (number, interval) in intervals.enumerate() {
        prefixes(&lasting, interval, notes, &mut |crash| visit(named(crash, number)));
        for access in interval {
            note(&mut notes, access);
        }
        parts(&lasting, interval, notes, &mut |crash| visit(named(crash, number)));
        interval.iter().for_each(|access| apply(&mut lasting, access));
    }
}

fn named(crash: Crash, interval: usize) -> Crash {
    Crash { what: format!("interval {interval}: {}", crash.what), ..crash }
}

/// Version of the last call that has returned, and of the last that has begun.
type Notes = (usize, usize);

fn note(notes: &mut Notes, access: &Access) {
    match *access {
        Access::Begin(version) => notes.1 = version,
        Access::Return(version) => *notes = (version, version),
        _ => {}
    }
}

fn prefixes(lasting: &[u8], interval: &[Access], mut notes: Notes, visit: &mut impl FnMut(Crash)) {
    let mut bytes = lasting.to_vec();
    for (number, access) in interval.iter().enumerate() {
        let (returned, begun) = notes;
        if let Access::Write(_, written) = access {
            for sectors in 1..written.len() / SECTOR {
                let mut torn = bytes.clone();
                tear(&mut torn, access, |sector| sector < sectors);
                let what = format!("access {number} after {sectors} sectors");
                visit(Crash { bytes: torn, returned, begun, what });
            }
        }
        apply(&mut bytes, access);
        note(&mut notes, access);
        let (returned, begun) = notes;
        visit(Crash { bytes: bytes.clone(), returned, begun, what: format!("after access {number}") });
    }
}

fn parts(lasting: &[u8], interval: &[Access], (returned, begun): Notes, visit: &mut impl FnMut(Crash)) {
    let mut show = |what, has: &mut dyn FnMut(usize, usize) -> bool| {
        let mut bytes = lasting.to_vec();
        for (number, access) in interval.iter().enumerate() {
            tear(&mut bytes, access, |sector| has(number, sector));
        }
        visit(Crash { bytes, returned, begun, what });
    };
    for omitted in 0..interval.len() {
        show(format!("without access {omitted}"), &mut |number, _| number != omitted);
    }
    for seed in 0..64 {
        let mut rng = Rng::new(seed);
        match seed % 2 {
            0 => {
                let has: Vec<bool> = interval.iter().map(|_| rng.below(2) == 0).collect();
                show(format!("subset {seed}"), &mut |number, _| has[number]);
            }
            _ => show(format!("sectors {seed}"), &mut |_, _| rng.below(2) == 0),
        }
    }
}
