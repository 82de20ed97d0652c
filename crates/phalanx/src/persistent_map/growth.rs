//! Growth: a new level at the top; the items of the lowest level move to the others.
use super::builder::{file_options, fill, map_level};
use super::kernels::Launch;
use super::memory::{Memory, Shape};
use super::scans::Pairs;
use super::{Backing, PersistentMap, Plain};
use crate::{Error, Outcome, Result};
use gpu::{Buffer, Stream};
use phalanx_kernels::persistent::Changes;
use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

/// Slots that compaction leaves free beyond those of [`fill`], in hundredths.
const COMPACT_MARGIN: usize = 3;

impl<K: Plain, V: Plain> PersistentMap<K, V> {
    /// Adds levels until the map's capacity is more than `capacity`. Does nothing if another thread has
    /// already done so.
    ///
    /// A map with a file syncs after each level: the epoch has the levels of the grown map.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there are too many slots; [`Error::DoesNotFit`] if pairs of the lowest level
    /// find no slots in the others; [`Error::PersistentFile`] if the file cannot grow or the epoch cannot be
    /// written; [`Error::Device`] if the device is lost or lacks the memory. Levels that were added before
    /// remain. So does the last one if only its epoch failed: the next sync writes it.
    pub(super) fn grow(&self, capacity: usize) -> Result<()> {
        let mut backing = self.backing();
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let mut memory = self.memory_mut();
        while memory.shape.capacity() <= capacity {
            self.device.synchronize()?;
            self.add_level(&mut memory, backing.as_mut())?;
            if let Some(backing) = backing.as_mut() {
                self.write_epoch(&memory, backing, true)?;
            }
        }
        Ok(())
    }

    /// Moves pairs to other buckets of their keys, so that some of the keys at `indices` find slots.
    pub(super) fn move_pairs(&self, keys: &[K], indices: &[usize]) -> Result<()> {
        // As in growth: no `sync` and no batch runs, since an item moves to another page.
        let _backing = self.backing();
        let _gate = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        let memory = self.memory_mut();
        self.device.synchronize()?;
        let keys: Vec<u8> =
            indices.iter().flat_map(|&index| bytemuck::bytes_of(&keys[index])).copied().collect();
        let words: Vec<u64> = keys.chunks(8).map(bytemuck::pod_read_unaligned).collect();
        let (words, stream) = (self.device.from_slice(&words)?, self.device.stream()?);
        // SAFETY: nothing else uses the map, and the keys live until the stream has been waited for.
        unsafe { self.kernels.launch(&stream, &memory, Launch::MakeRoom(words.global()))? };
        Ok(stream.synchronize()?)
    }

    /// Makes room for `keys` more keys: grows the map until its load with them is at most 0.9.
    ///
    /// ```
    /// let map = phalanx::PersistentMap::<u64, u64>::with_capacity(100)?;
    /// map.reserve(10_000)?;
    /// assert!(map.capacity() > 11_000);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLarge`] if there are too many slots; [`Error::DoesNotFit`] if pairs of the lowest level
    /// find no slots in the others; [`Error::PersistentFile`] if the file cannot grow or be written;
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn reserve(&self, keys: usize) -> Result<()> {
        let needed = self.len()?.saturating_add(keys).saturating_mul(10) / 9;
        self.grow(needed)
    }

    /// Replaces the memory by that of a table with a new level at the top and without the lowest one. If this
    /// fails, the memory is as before.
    fn add_level(&self, memory: &mut Memory, backing: Option<&mut Backing>) -> Result<()> {
        let (shape, has_file) = (memory.shape.grown()?, backing.is_some());
        let level = Arc::new(self.new_level(shape, backing)?);
        let levels = memory.levels[1..].iter().cloned().chain([level]).collect();
        let mut grown = Memory::new(&self.device, shape, levels, (has_file, self.cache))?;
        grown.copy_marks(memory)?;
        let moved = grown.rebuild(&self.device, self.kernels).and_then(|_| self.move_lowest(memory, &grown));
        if let Err(error) = moved {
            // Items of the lowest level may have copies in the others. Rebuilding keeps one of each.
            drop(grown);
            memory.rebuild(&self.device, self.kernels)?;
            return Err(error);
        }
        *memory = grown;
        Ok(())
    }

    /// Inserts the items of the lowest level into the grown table, which does not have this level.
    fn move_lowest(&self, old: &Memory, grown: &Memory) -> Result<()> {
        let stream = self.device.stream()?;
        self.export_level(old, 0, &mut |pairs| self.insert_pairs(grown, &stream, pairs))
    }

    /// Returns the new level, in memory or in the mapped part of the file. Grows a file that lacks its pages.
    fn new_level(&self, shape: Shape, backing: Option<&mut Backing>) -> Result<Buffer<u32>> {
        let top = shape.kind.levels - 1;
        let words = shape.level_words(top);
        let Some(backing) = backing else { return Memory::new_level(&self.device, self.tier, words) };
        let needed = shape.file_page(top) + u64::from(shape.geometry.pages(top));
        let missing = needed.saturating_sub(backing.file.pages());
        if missing > 0 {
            backing.file.grow(missing)?;
        }
        if !backing.is_mapped {
            return Memory::new_level(&self.device, self.tier, words);
        }
        let mut level = Memory::map_level(&self.device, &backing.file, shape, top)?;
        level.fill_bytes(0)?;
        Ok(level)
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
        let options = file_options::<K, V>(&self.device, shape, old.is_mapped);
        let file = old.file.create_beside(&options)?;
        Ok(Backing { file, is_mapped: old.is_mapped, pending: BTreeSet::new() })
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
        let changes = Changes { keys, values, outcomes: outcomes.global() };
        // SAFETY: the slices are as long as the batch, and live until the outcomes have been read.
        unsafe { self.kernels.launch(stream, memory, Launch::InsertNew(changes))? };
        let refused = outcomes.read()?.into_iter().filter(|&code| code == Outcome::Refused as u8).count();
        if refused == 0 { Ok(()) } else { Err(Error::DoesNotFit { left_over: refused, pairs: pairs.len() }) }
    }
}
