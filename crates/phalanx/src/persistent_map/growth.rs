//! Growth: new levels at the top; the items of as many levels at the bottom move to the others.
use super::builder::{file_options, fill, map_level, too_many_keys};
use super::kernels::Launch;
use super::memory::{Memory, Shape};
use super::rebuild::Scratch;
use super::scans::Pairs;
use super::{Backing, FileFault, PersistentMap, Plain};
use crate::{Error, Outcome, Result};
use gpu::{Buffer, Stream};
use phalanx_kernels::persistent::Changes;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

/// Slots that compaction leaves free beyond those of [`fill`], in hundredths.
const COMPACT_MARGIN: usize = 3;

/// Pages of a level.
type Level = Arc<Buffer<u32>>;

impl Backing {
    /// Extends the file, unless it has the pages of all levels of a table.
    fn extend(&mut self, shape: Shape) -> Result<()> {
        let missing = shape.file_page(shape.kind.levels).saturating_sub(self.file.pages());
        if missing > 0 { self.file.grow(missing) } else { Ok(()) }
    }
}

/// Returns whether the file takes no epoch because an earlier one may be on the disk or not.
fn is_uncertain<T>(begun: &Result<T>) -> bool {
    matches!(begun, Err(Error::PersistentFile { fault: FileFault::Uncertain, .. }))
}

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    /// Adds levels until the map's capacity is more than `capacity`. Does nothing if another thread has
    /// already done so.
    ///
    /// A map with a file syncs: the epoch has the levels of the grown map.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::DoesNotFit`] if the pairs of the levels that are left find no slots in
    /// the others; [`Error::PersistentFile`] if the file cannot grow or be written; [`Error::Durability`] if
    /// the driver does not register a mapping of the new levels; [`Error::Device`] if the device is lost or
    /// lacks the memory. The map is then as before. But if the epoch of a mapped file may be on the disk or
    /// not, batches that change the map are refused from then on.
    pub(super) fn grow(&self, capacity: usize) -> Result<()> {
        let mut backing = self.backing();
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut memory = self.memory_mut();
        if memory.shape.capacity() > capacity {
            return Ok(());
        }
        let shape = memory.shape.grown_beyond(capacity)?;
        if let Some(backing) = backing.as_mut() {
            // A file that takes no epoch is refused before anything changes.
            backing.file.begin()?;
        }
        self.device.synchronize()?;
        let mut scratch = Scratch::new(&self.device, shape, memory.levels[0].tier())?;
        let mut grown = self.grown_memory(&memory, shape, backing.as_mut())?;
        if let Err(error) = self.fill_grown(&mut grown, &memory, &mut scratch, backing.as_mut()) {
            drop(grown);
            self.roll_back(&mut memory, &mut scratch, backing.as_mut())?;
            return Err(error);
        }
        *memory = grown;
        Ok(())
    }

    /// Moves pairs to other buckets of their keys, so that some of the keys at `indices` find slots.
    pub(super) fn move_pairs(&self, keys: &[K], indices: &[usize]) -> Result<()> {
        // As in growth: no `sync` and no batch runs, since an item moves to another page.
        let _backing = self.backing();
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let memory = self.memory_mut();
        self.check_changeable(&memory)?;
        self.device.synchronize()?;
        let keys: Vec<u8> =
            indices.iter().flat_map(|&index| bytemuck::bytes_of(&keys[index])).copied().collect();
        let words: Vec<u64> = keys.chunks(8).map(bytemuck::pod_read_unaligned).collect();
        let (words, stream) = (self.device.from_slice(&words)?, self.device.stream()?);
        // SAFETY: nothing else uses the map, and the keys live until the stream has been waited for.
        unsafe { self.kernels.launch(&stream, &memory, Launch::MakeRoom(words.global()))? };
        Ok(stream.synchronize()?)
    }

    /// Makes room for `keys` more keys, at a load of 0.9. A map with a file syncs, unless it has the room.
    ///
    /// ```
    /// let map = phalanx::PersistentMap::<u64, u64>::with_capacity(100)?;
    /// map.reserve(10_000)?;
    /// assert!(map.capacity() > 11_000);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`]; [`Error::DoesNotFit`]; [`Error::PersistentFile`] if the file cannot grow or be
    /// written; [`Error::Durability`] if the driver does not register a mapping of the new part;
    /// [`Error::Device`] if the device is lost or lacks the memory. The map is then as before, but see
    /// [`FileFault::Uncertain`].
    pub fn reserve(&self, keys: usize) -> Result<()> {
        let all = self.len()?.saturating_add(keys);
        self.grow(all.saturating_mul(10) / 9).map_err(|error| match error {
            Error::TooLarge { most, .. } => too_many_keys(all, most / 10 * 9),
            error => error,
        })
    }

    /// Returns the memory of a larger table. The levels that both have are shared, the others are zeros.
    fn grown_memory(&self, old: &Memory, shape: Shape, backing: Option<&mut Backing>) -> Result<Memory> {
        let has_file = backing.is_some();
        let shared = old.levels.iter().skip(shape.levels_above(old.shape)).cloned();
        let levels = shared.chain(self.new_levels(old.shape, shape, backing)?).collect();
        let mut grown = Memory::new(&self.device, shape, levels, (has_file, self.cache))?;
        grown.copy_marks(old)?;
        Ok(grown)
    }

    /// Moves the items of the levels that the grown table lacks into it, and writes its epoch.
    ///
    /// The map is replaced after that: if the process dies or the epoch fails, the file and the map still
    /// have the same levels.
    fn fill_grown(
        &self,
        grown: &mut Memory,
        old: &Memory,
        scratch: &mut Scratch,
        backing: Option<&mut Backing>,
    ) -> Result<()> {
        grown.rebuild_with(scratch, self.kernels)?;
        let stream = self.device.stream()?;
        let left = grown.shape.levels_above(old.shape).min(old.levels.len());
        for above in 0..left as u32 {
            self.export_level(old, above, &mut |pairs| self.insert_pairs(grown, &stream, pairs))?;
        }
        backing.map_or(Ok(()), |backing| self.write_epoch(grown, backing, true).map(drop))
    }

    /// Restores the table after its growth has failed. Allocates nothing, since memory may be what it lacked.
    fn roll_back(
        &self,
        memory: &mut Memory,
        scratch: &mut Scratch,
        backing: Option<&mut Backing>,
    ) -> Result<()> {
        if let Some(backing) = backing {
            // The next process takes the levels of one epoch or the other for those with the newest items.
            memory.is_frozen = backing.is_mapped && is_uncertain(&backing.file.begin());
            // Items were copied to pages that both tables have, and the marks went to the other one.
            memory.dirty.fill_bytes(1)?;
            backing.pending.clear();
        }
        // The copies are duplicates: this removes those in the lower levels.
        memory.rebuild_with(scratch, self.kernels).map(drop)
    }

    /// Returns the levels of a grown table that the old one lacks, in memory or in the file.
    fn new_levels(&self, old: Shape, shape: Shape, backing: Option<&mut Backing>) -> Result<Vec<Level>> {
        let levels = shape.kind.levels;
        let new = levels.saturating_sub(shape.levels_above(old) as u32)..levels;
        let allocate = |above| Memory::new_level(&self.device, self.tier, shape.level_words(above));
        let Some(backing) = backing else { return new.map(|above| allocate(above).map(Arc::new)).collect() };
        if !backing.is_mapped {
            // First the memory: disk space that is not used stays allocated.
            let allocated: Result<Vec<_>> = new.map(|above| allocate(above).map(Arc::new)).collect();
            return allocated.and_then(|levels| backing.extend(shape).map(|()| levels));
        }
        backing.extend(shape)?;
        let map = |above| {
            let mut level = map_level(&self.device, &backing.file, shape, above)?;
            level.fill_bytes(0)?;
            Ok(Arc::new(level))
        };
        new.map(map).collect()
    }

    /// Rebuilds the map with as many slots as its pairs need at a load of 0.87, or 0.82 if values have
    /// another size than 8 bytes. The pages of levels that growth has left behind are freed. The map must fit
    /// the memory twice.
    ///
    /// The file of a map is replaced by a new one, whose epochs begin at 1. After loss of power meanwhile,
    /// the path names the old file or the new one, both with all pairs. A process that dies meanwhile may
    /// leave a file beside it whose name ends in `.new`; nobody needs it.
    ///
    /// ```
    /// let mut map = phalanx::PersistentMap::<u64, u64>::with_capacity(10_000)?;
    /// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
    /// map.compact()?;
    /// assert!(map.capacity() < 100 && map.get(&[2])? == [Some(20)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: reads and inserts all pairs, and writes each page of the new file once.
    ///
    /// # Errors
    /// [`Error::DoesNotFit`] if the pairs find no slots, although there were four times as many as pairs;
    /// [`Error::PersistentFile`] if the new file cannot be written or renamed; [`Error::Device`] if the
    /// device is lost or lacks the memory. The map is then as before. Only if the folder of the file cannot
    /// be synced, the map is the new one, although an error is returned.
    pub fn compact(&mut self) -> Result<()> {
        self.device.synchronize()?;
        let pairs = self.len()?.max(1);
        let kind = self.memory().shape.kind;
        // Pairs do not move to make room for others here, so fewer slots than usual are filled.
        let mut slots = pairs.saturating_mul(100).div_ceil(fill(kind) - COMPACT_MARGIN);
        loop {
            match self.rebuild_with(slots) {
                Err(Error::DoesNotFit { .. }) if slots < 4 * pairs => slots += slots.div_ceil(8),
                done => return done,
            }
        }
    }

    /// Replaces memory and file by new ones with this many slots.
    fn rebuild_with(&self, slots: usize) -> Result<()> {
        let mut backing = self.backing();
        let mut memory = self.memory_mut();
        let old = memory.shape;
        let shape = Shape::new(old.kind, size_of::<V>(), old.seed).with_slots(slots)?;
        let mut new = match backing.as_ref() {
            Some(backing) => Some(self.new_backing(shape, backing)?),
            None => None,
        };
        let filled = self.filled(&memory, shape, new.as_mut());
        let named = |new: &mut Option<Backing>| match (new, backing.as_ref()) {
            (Some(new), Some(old)) => new.file.take_path(&old.file),
            _ => Ok(()),
        };
        let rebuilt = match filled.and_then(|rebuilt| named(&mut new).map(|()| rebuilt)) {
            Ok(rebuilt) => rebuilt,
            Err(error) => {
                // This call has created the new file, and nothing uses it.
                let _ = new.map(|new| std::fs::remove_file(new.file.path()));
                return Err(error);
            }
        };
        // The old memory is unmapped before the old file is closed.
        *memory = rebuilt;
        let Some(new) = new else { return Ok(()) };
        let new = backing.insert(new);
        new.file.sync_path()
    }

    /// Creates a file beside a map's.
    fn new_backing(&self, shape: Shape, old: &Backing) -> Result<Backing> {
        // A file keeps its mapped part, also while it is not used.
        let has_working = !old.file.working().is_empty();
        let options = file_options::<K, V>(&self.device, shape, has_working);
        let file = old.file.create_beside(&options)?;
        Ok(Backing { file, is_mapped: old.is_mapped, pending: BTreeSet::new(), copier: None })
    }

    /// Returns memory of this shape with the pairs of `old`. If there is a new file, writes them as its first
    /// epoch.
    fn filled(&self, old: &Memory, shape: Shape, mut new: Option<&mut Backing>) -> Result<Memory> {
        let level = |above| match new.as_ref().filter(|new| new.is_mapped) {
            Some(new) => {
                let mut level = map_level(&self.device, &new.file, shape, above)?;
                level.fill_bytes(0)?;
                Ok(Arc::new(level))
            }
            None => Memory::new_level(&self.device, self.tier, shape.level_words(above)).map(Arc::new),
        };
        let levels = (0..shape.kind.levels).map(level).collect::<Result<Vec<_>>>()?;
        let memory = Memory::new(&self.device, shape, levels, (new.is_some(), self.cache))?;
        let stream = self.device.stream()?;
        for above in 0..shape.kind.levels {
            self.export_level(old, above, &mut |pairs| self.insert_pairs(&memory, &stream, pairs))?;
        }
        if let Some(new) = new.as_mut() {
            self.write_epoch(&memory, new, true)?;
            new.use_mapping()?;
        }
        Ok(memory)
    }

    /// Inserts pairs that are on the device. All must find slots.
    pub(super) fn insert_pairs(&self, memory: &Memory, stream: &Stream, pairs: &Pairs) -> Result<()> {
        let (keys, values) = pairs.words();
        let outcomes = self.device.zeroed::<u8>(pairs.len())?;
        let changes = Changes { keys: keys.into(), values, outcomes: outcomes.global() };
        // SAFETY: the slices are as long as the batch, and live until the outcomes have been read.
        unsafe { self.kernels.launch(stream, memory, Launch::InsertNew(changes))? };
        let refused = outcomes.read()?.into_iter().filter(|&code| code == Outcome::Refused as u8).count();
        if refused == 0 { Ok(()) } else { Err(Error::DoesNotFit { left_over: refused, pairs: pairs.len() }) }
    }
}
