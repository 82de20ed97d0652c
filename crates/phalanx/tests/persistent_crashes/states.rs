//! What crashes leave of a recorded script, and whether it may be.
use crate::common::Rng;
use crate::script::{Boundary, Model, Recording, Tagged, builder, contents, folder};
use crate::system::Access;
use phalanx::persistent_map::{Durability, check_file};
use simt::emulator::{Mode, Options};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::marker::PhantomData;

/// Number of seeded subsets of what may be lost, for each stop.
pub const SUBSETS: u64 = 64;

/// Bytes that a disk writes as a whole.
const SECTOR: usize = 512;

/// Name of the map's file.
const MAP: &str = "map";

/// A state that a crash has left.
pub struct State<'a> {
    /// The file, if there is one.
    pub bytes: Option<&'a [u8]>,
    /// Allowed contents: of two models, each key's tag in one of them.
    pub allowed: Vec<(&'a Model, &'a Model)>,
    /// Whether the file had been created.
    pub was_created: bool,
    /// Whether power was lost, or the process died.
    pub is_loss: bool,
    pub what: String,
}

impl Recording {
    /// Returns the contents that are allowed after a crash behind `happened` boundaries. `lasts` is whether
    /// acknowledged batches survive it.
    fn allowed(&self, happened: usize, lasts: bool) -> Vec<(&Model, &Model)> {
        let model = |boundary: usize| &self.boundaries[boundary.min(self.boundaries.len() - 1)].model;
        let Some(last) = happened.checked_sub(1) else { return vec![(model(0), model(0))] };
        let first = match lasts {
            true => last,
            false => (0..=last).rev().find(|&boundary| self.boundaries[boundary].is_durable).unwrap_or(0),
        };
        (first..=last).map(|boundary| (model(boundary), model(boundary + 1))).collect()
    }

    /// Shows what the death of the process may leave of a map with a durability, at each store after the step
    /// `first`.
    pub fn deaths(&self, durability: Durability, first: usize, visit: &mut dyn FnMut(State<'_>)) {
        let names = self.names();
        let begin = if first == 0 { 0 } else { self.boundaries[first].stores };
        self.log.crashes(begin..self.log.events() + 1, SUBSETS, |crash| {
            let stop = crash.stop();
            for (number, (stores, _, map)) in names.iter().enumerate() {
                // Calls before the next change of names.
                let calls = names.get(number + 1).map_or(usize::MAX, |next| next.1);
                let is_past = names.get(number + 1).is_some_and(|next| next.0 < stop);
                if *stores > stop || is_past {
                    continue;
                }
                let is_before = |boundary: &&Boundary| boundary.stores <= stop && boundary.calls <= calls;
                let happened = self.boundaries.iter().take_while(is_before).count();
                visit(State {
                    bytes: map.map(|file| crash.contents(file)),
                    allowed: self.allowed_or_none(happened, durability == Durability::Process),
                    was_created: happened > 0 || self.boundaries.is_empty(),
                    is_loss: false,
                    what: format!("death, {crash}"),
                });
            }
        });
    }

    /// Returns the files that have had the map's name: for each, the events of the emulator and the number of
    /// the call when it got the name.
    fn names(&self) -> Vec<(usize, usize, Option<usize>)> {
        let mut names = self.first_names();
        let mut found = vec![(0, 0, names.get(MAP).copied())];
        for (number, (stores, access)) in self.events.iter().enumerate() {
            let before = names.get(MAP).copied();
            if rename(&mut names, access) && names.get(MAP).copied() != before {
                found.push((*stores, number, names.get(MAP).copied()));
            }
        }
        found
    }

    /// Returns the names when the record began: those of a recovery's file.
    fn first_names(&self) -> BTreeMap<String, usize> {
        if self.boundaries.is_empty() { [(MAP.to_owned(), 0)].into() } else { BTreeMap::new() }
    }

    fn allowed_or_none(&self, happened: usize, lasts: bool) -> Vec<(&Model, &Model)> {
        if self.boundaries.is_empty() { Vec::new() } else { self.allowed(happened, lasts) }
    }

    /// Shows what loss of power may leave: each prefix of the calls, with a torn last write, and before each
    /// sync all but one and seeded subsets of the writes since the last one, half of them by sectors. Names
    /// last from a sync of the folder on.
    pub fn losses_of_power(&self, visit: &mut dyn FnMut(State<'_>)) {
        let mut disk = Disk {
            lasting: self.before.clone(),
            pending: vec![Vec::new(); self.before.len()],
            names: vec![self.first_names()],
        };
        for (number, (_, access)) in self.events.iter().enumerate() {
            let happened = self.boundaries.iter().take_while(|boundary| boundary.calls <= number).count();
            let mut show = |bytes: Option<&[u8]>, how: &str| {
                let allowed = self.allowed_or_none(happened, false);
                let was_created = happened > 0 || self.boundaries.is_empty();
                let what = format!("loss of power, call {number} {how}");
                visit(State { bytes, allowed, was_created, is_loss: true, what });
            };
            disk.show_prefix(access, &mut show);
            disk.execute(access, &mut show);
        }
        let happened = self.boundaries.len();
        let mut show = |bytes: Option<&[u8]>, how: &str| {
            let allowed = self.allowed_or_none(happened, false);
            let what = format!("loss of power, end {how}");
            visit(State { bytes, allowed, was_created: true, is_loss: true, what });
        };
        for file in disk.files() {
            show(file.map(|file| disk.part(file, |_, _| true)).as_deref(), "of the script");
            file.into_iter().for_each(|file| disk.show_parts(file, &mut show));
        }
    }
}

/// Changes names. Returns whether the access does that.
fn rename(names: &mut BTreeMap<String, usize>, access: &Access) -> bool {
    match access {
        Access::Link { name, file } => drop(names.insert(name.clone(), *file)),
        Access::Unlink { name } => drop(names.remove(name)),
        Access::Rename { from, to } => {
            if let Some(file) = names.remove(from) {
                names.insert(to.clone(), file);
            }
        }
        _ => return false,
    }
    true
}

/// Receives the contents of the map's file, and how they came about.
type Show<'a> = &'a mut dyn FnMut(Option<&[u8]>, &str);

/// Files as they are on the disk, and what may be missing.
struct Disk<'a> {
    lasting: Vec<Vec<u8>>,
    /// Writes since the last sync of each file.
    pending: Vec<Vec<(usize, &'a [u8])>>,
    /// Names since the last sync of the folder, the lasting ones first.
    names: Vec<BTreeMap<String, usize>>,
}

impl<'a> Disk<'a> {
    /// Returns the files that may have the map's name.
    fn files(&self) -> BTreeSet<Option<usize>> {
        self.names.iter().map(|names| names.get(MAP).copied()).collect()
    }

    /// Returns a file with those sectors of pending writes that `has` selects by the write and the sector.
    fn part(&self, file: usize, mut has: impl FnMut(usize, usize) -> bool) -> Vec<u8> {
        let mut bytes = self.lasting[file].clone();
        for (number, (offset, written)) in self.pending[file].iter().enumerate() {
            for (sector, part) in
                written.chunks(SECTOR).enumerate().filter(|&(sector, _)| has(number, sector))
            {
                bytes[offset + sector * SECTOR..][..part.len()].copy_from_slice(part);
            }
        }
        bytes
    }

    /// Shows the files after all calls so far, and with a part of the next one.
    fn show_prefix(&mut self, next: &'a Access, show: Show<'_>) {
        for file in self.files() {
            let Some(file) = file else {
                show(None, "before");
                continue;
            };
            show(Some(&self.part(file, |_, _| true)), "before");
            let Access::Write { file: of, offset, bytes } = next else { continue };
            if *of == file {
                self.pending[file].push((*offset, bytes));
                let (last, sectors) = (self.pending[file].len() - 1, bytes.len() / SECTOR);
                // All prefixes of superblocks, and a few of pages.
                for torn in (1..sectors).step_by((sectors / 8).max(1)) {
                    let bytes = self.part(file, |number, sector| number < last || sector < torn);
                    show(Some(&bytes), "torn");
                }
                self.pending[file].pop();
            }
        }
    }

    fn execute(&mut self, access: &'a Access, show: Show<'_>) {
        match access {
            Access::Write { file, offset, bytes } => self.pending[*file].push((*offset, bytes)),
            Access::Sync { file } => {
                self.show_parts(*file, show);
                self.lasting[*file] = self.part(*file, |_, _| true);
                self.pending[*file].clear();
            }
            Access::SyncFolder => drop(self.names.drain(..self.names.len() - 1)),
            access => {
                let mut names = self.names.last().expect("one").clone();
                rename(&mut names, access);
                self.names.push(names);
            }
        }
    }

    /// Shows a file without one of the pending writes, and with subsets of them.
    fn show_parts(&self, file: usize, show: Show<'_>) {
        if !self.files().contains(&Some(file)) {
            return;
        }
        let len = self.pending[file].len();
        for omitted in 0..len {
            show(Some(&self.part(file, |number, _| number != omitted)), "without a write");
        }
        for seed in 0..SUBSETS {
            let mut rng = Rng::new(seed);
            let has: Vec<bool> = (0..len).map(|_| rng.below(2) == 0).collect();
            match seed % 2 {
                0 => show(Some(&self.part(file, |number, _| has[number])), "with a subset"),
                _ => show(Some(&self.part(file, |_, _| rng.below(2) == 0)), "with some sectors"),
            }
        }
    }
}

/// Opens files as after crashes.
pub struct Checker<V> {
    folder: tempfile::TempDir,
    device: gpu::Device,
    durability: Durability,
    /// Whether the operating system has been started again.
    is_restarted: bool,
    seen: HashSet<([u32; 2], usize)>,
    of: PhantomData<V>,
}

impl<V: Tagged> Checker<V> {
    pub fn new(durability: Durability, is_restarted: bool) -> Self {
        let options = Options { mode: Mode::Fast { workers: 1 }, ..Options::default() };
        Self {
            folder: folder(),
            device: gpu::Device::emulator(options),
            durability,
            is_restarted,
            seen: HashSet::new(),
            of: PhantomData,
        }
    }

    /// Returns the number of different states that were opened.
    pub fn opened(&self) -> usize {
        self.seen.len()
    }

    /// Opens a state, unless one like it was opened before. Returns what is wrong with it.
    pub fn check(&mut self, state: &State<'_>) -> Result<(), String> {
        let Some(bytes) = state.bytes else {
            let is_wrong = state.was_created;
            return if is_wrong { Err(format!("{}: the file is gone", state.what)) } else { Ok(()) };
        };
        let models = state.allowed.last().map_or(0, |(before, _)| std::ptr::from_ref(*before) as usize);
        let hash = [0, 1].map(|half| crc32fast::hash(&bytes[half * bytes.len() / 2..][..bytes.len() / 2]));
        if !self.seen.insert((hash, models ^ state.allowed.len())) {
            return Ok(());
        }
        let found = self.open(bytes).map_err(|text| format!("{}: {text}", state.what))?;
        if state.allowed.iter().any(|&(before, after)| is_between(&found, before, after)) {
            return Ok(());
        }
        let allowed: Vec<_> = state.allowed.iter().take(3).collect();
        Err(format!("{}: {found:?} found, allowed {allowed:?}", state.what))
    }

    /// Returns the file as the next process finds it.
    pub fn found(&self, bytes: &[u8]) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        if self.is_restarted {
            restart(&mut bytes);
        }
        bytes
    }

    /// Returns the contents of the map that a file has.
    fn open(&self, bytes: &[u8]) -> Result<Model, String> {
        let path = self.folder.path().join(MAP);
        std::fs::write(&path, self.found(bytes)).unwrap();
        check_file(&path).map_err(|error| error.to_string())?;
        let map =
            builder::<V>(&self.device, self.durability).open(&path).map_err(|error| error.to_string())?;
        contents(&map)
    }
}

/// Returns whether each key's tag is that of one of the models.
fn is_between(found: &Model, before: &Model, after: &Model) -> bool {
    let keys: BTreeSet<&u64> = found.keys().chain(before.keys()).chain(after.keys()).collect();
    keys.into_iter().all(|key| [before.get(key), after.get(key)].contains(&found.get(key)))
}

/// Replaces the boot id in valid superblocks: the run of the operating system that wrote them has ended.
fn restart(bytes: &mut [u8]) {
    for block in bytes.chunks_mut(4096).take(2) {
        let crc = |block: &[u8]| {
            let mut block = block.to_vec();
            block[16..20].fill(0);
            crc32fast::hash(&block).to_le_bytes()
        };
        if block[16..20] == crc(block) && block[80..96].iter().any(|&byte| byte != 0) {
            block[80..96].fill(0xb0);
            let crc = crc(block);
            block[16..20].copy_from_slice(&crc);
        }
    }
}
