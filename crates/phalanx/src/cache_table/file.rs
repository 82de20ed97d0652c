//! Saved tables: a header, blocks of keys with scores and rows, the time, and a checksum.
//!
//! ```text
//! "PHXCACHE" · version u16 · is incremental u16 · key bits u32 · score bits u32 · bytes of an element u32
//! · elements in a row u32 · rule u32
//! · blocks, each: keys in it u32, at least 1 · keys · scores · rows
//! · 0 u32 · batches u64, below 2^63 · epoch u32 · CRC-32 of all before
//! ```
//!
//! All numbers are little-endian. A block is a step of an export. Buckets, seed and variant of the table do
//! not matter. A key that occurs twice has its later row.
use super::host::Exported;
use super::since::{ExportSince, rows_of};
use super::{Builder, CacheTable, Rule, Time};
use crate::map::file::Checked;
use crate::number::Number;
use crate::{Error, Result};
use bytemuck::Pod;
use phalanx_kernels::keyed::Scalar;
use std::io::{Read, Write};

const MAGIC: &[u8; 8] = b"PHXCACHE";
const VERSION: u16 = 1;

/// Name of the number of the rule among those of the header.
const RULE: &str = "as its rule";

/// Lowest number of batches that no file has. So a table that was loaded has as many batches before its clock
/// ends: at its maximum the scores of all batches would be equal.
const TOO_MANY_BATCHES: u64 = 1 << 63;

/// Files.
impl<K: Number + Scalar, V: Pod, S: Number + Scalar> CacheTable<K, V, S> {
    /// Saves all keys with scores and rows. Other batches may run meanwhile;
    /// [`export_since`](Self::export_since) states what the file contains then. Returns the `since` of the
    /// [incremental](Self::save_since) file that continues this one.
    ///
    /// ```
    /// use phalanx::CacheTable;
    /// use phalanx::cache_table::Rule;
    ///
    /// let builder = || CacheTable::<u64, u32>::builder().rule(Rule::EpochLru);
    /// let table = builder().capacity(1000).build()?;
    /// assert!(table.insert(&[1, 2], &[10, 20])?.all_placed());
    /// table.set_epoch(1)?;
    /// let (mut full, mut changes) = (Vec::new(), Vec::new());
    /// let since = table.save(&mut full)?;
    /// assert!(table.insert(&[2], &[21])?.all_placed());
    /// let since = table.save_since(since, &mut changes)?; // `since` is that of the next file
    /// assert!(changes.len() < full.len() && since == 1);
    ///
    /// let loaded = CacheTable::load(&full[..], builder().capacity(500).seed(7))?;
    /// assert_eq!((loaded.len()?, loaded.get(&[2])?.of(0)), (2, Some(&[20][..])));
    /// assert_eq!(loaded.apply(&changes[..])?, 1);
    /// assert_eq!(loaded.get(&[2])?.of(0), Some(&[21][..]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: a step of an export and four writes for each 8 MiB. Flushes the writer at the end.
    ///
    /// # Errors
    /// [`Error::Io`] if the writer fails; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn save(&self, writer: impl Write) -> Result<u64> {
        self.write(self.export_since(0)?, false, writer)
    }

    /// Saves the keys that were used since a time, with scores and rows: see [`save`](Self::save) and
    /// [`export_since`](Self::export_since). Returns the `since` of the next incremental file. The file has
    /// 52 bytes besides the keys, scores and rows, and 4 for each 8 MiB.
    ///
    /// # Errors
    /// [`Error::NoTime`] for the rules `Lfu` and `LfuThenLru`, unless `since` is 0; otherwise as
    /// [`save`](Self::save).
    pub fn save_since(&self, since: u64, writer: impl Write) -> Result<u64> {
        self.write(self.export_since(since)?, true, writer)
    }

    /// Builds a table and fills it from the output of [`save`](Self::save). Capacity, number of buckets per
    /// key, seed, variant and device are those of the builder; its row size and rule must be those of the
    /// saved table. If the table is smaller than the saved one, keys are evicted or refused as by insertions
    /// with their scores. The clock of the table continues that of the saved one.
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved table, is incremental, has other types, rows or rule, a
    /// time of 2^63 batches or more, or is damaged; [`Error::Io`] if the reader fails; otherwise as
    /// [`Builder::build`].
    pub fn load(reader: impl Read, builder: Builder<K, V, S>) -> Result<Self> {
        let table = builder.build()?;
        let mut reader = Checked::new(reader);
        table.check_header(&mut reader, false)?;
        while let Some(block) = table.read_block(&mut reader)? {
            table.restore(&block)?;
        }
        table.clock.catch_up(read_end(reader)?);
        Ok(table)
    }

    /// Inserts the keys of a file with their scores and rows, those of an incremental or a whole one, and
    /// replaces scores and rows of keys that are present. Returns the number of keys of the file that were
    /// not refused.
    ///
    /// The file is read and checked as a whole before anything changes, so it must fit the host's memory.
    ///
    /// # Errors
    /// [`Error::Format`] if the data is not a saved table, has other types, rows or rule, a time of 2^63
    /// batches or more, or is damaged, and [`Error::Io`] if the reader fails: the table is then unchanged.
    /// [`Error::Device`] if the device is lost or lacks the memory: some keys of the file may then be in the
    /// table.
    pub fn apply(&self, reader: impl Read) -> Result<usize> {
        let (mut reader, mut blocks) = (Checked::new(reader), Vec::new());
        self.check_header(&mut reader, true)?;
        while let Some(block) = self.read_block(&mut reader)? {
            blocks.push(block);
        }
        let time = read_end(reader)?;
        let placed = blocks.iter().map(|block| self.restore(block)).sum::<Result<usize>>()?;
        self.clock.catch_up(time);
        Ok(placed)
    }

    /// Returns the numbers of the header that describe the table's types, with their names.
    fn traits(&self) -> [(&'static str, u32); 5] {
        [
            ("bits in a key", K::BITS),
            ("bits in a score", S::BITS),
            ("bytes in an element", size_of::<V>() as u32),
            ("elements in a row", self.dim as u32),
            (RULE, self.rule_number()),
        ]
    }

    /// Returns the number of the table's rule in a file. A policy of the caller's own has one that depends on
    /// its name, and those of rules are low.
    fn rule_number(&self) -> u32 {
        let own = || crc32fast::hash(self.kernels.own_policy().unwrap_or_default().as_bytes()) | 1 << 31;
        self.rule().map_or_else(own, |rule| rule as u32)
    }

    fn write(
        &self,
        mut export: ExportSince<'_, K, V, S>,
        is_incremental: bool,
        writer: impl Write,
    ) -> Result<u64> {
        let mut writer = Checked::new(writer);
        writer.put(MAGIC)?;
        writer.put(&VERSION.to_le_bytes())?;
        writer.put(&u16::from(is_incremental).to_le_bytes())?;
        self.traits().iter().try_for_each(|(_, number)| writer.put(&number.to_le_bytes()))?;
        for part in &mut export {
            let Exported { keys, scores, rows } = part?;
            writer.put(&(keys.len() as u32).to_le_bytes())?;
            writer.put(bytemuck::cast_slice(&keys))?;
            writer.put(bytemuck::cast_slice(&scores))?;
            writer.put(bytemuck::cast_slice(&rows))?;
        }
        // Scores in the file are of no later batch.
        let Time { now, epoch } = *self.clock.time();
        writer.put(&0u32.to_le_bytes())?;
        writer.put(&now.to_le_bytes())?;
        writer.put(&epoch.to_le_bytes())?;
        writer.finish()?;
        Ok(export.next_since())
    }

    /// Reads the header of a table with the same types.
    fn check_header<R: Read>(&self, reader: &mut Checked<R>, may_be_incremental: bool) -> Result<()> {
        let wrong = |what: String| Err(Error::Format(what));
        if reader.number::<8>()? != *MAGIC {
            return wrong("it does not begin with PHXCACHE".into());
        }
        let version = u16::from_le_bytes(reader.number()?);
        if version != VERSION {
            return wrong(format!("its format version is {version}; supported: {VERSION}"));
        }
        let is_incremental = u16::from_le_bytes(reader.number()?) != 0;
        for (name, expected) in self.traits() {
            let found = u32::from_le_bytes(reader.number()?);
            if found != expected && name == RULE {
                let [found, expected] = [found, expected].map(rule_name);
                return wrong(format!("its scores are those of {found}; expected {expected}"));
            }
            if found != expected {
                return wrong(format!("it has {found} {name}; expected {expected}"));
            }
        }
        if is_incremental && !may_be_incremental {
            return wrong("it has only changes: load the table that they continue, then `apply` it".into());
        }
        Ok(())
    }

    /// Reads a block, or `None` after the last.
    fn read_block<R: Read>(&self, reader: &mut Checked<R>) -> Result<Option<Exported<K, V, S>>> {
        let len = u32::from_le_bytes(reader.number()?) as usize;
        if len == 0 {
            return Ok(None);
        }
        let (keys, scores) = (reader.words(len)?, reader.words(len)?);
        let words = reader.words::<u32>(len * self.shape().words as usize)?;
        Ok(Some(Exported { keys, scores, rows: rows_of(&words) }))
    }
}

/// Returns the name of the rule that has a number in files.
fn rule_name(number: u32) -> String {
    let rules = [Rule::Lru, Rule::Lfu, Rule::EpochLru, Rule::EpochLfu, Rule::Custom, Rule::LfuThenLru];
    match rules.into_iter().find(|rule| *rule as u32 == number) {
        Some(rule) => format!("the rule `{rule:?}`"),
        None => "another policy".into(),
    }
}

/// Reads what follows the last block.
fn read_end(mut reader: Checked<impl Read>) -> Result<Time> {
    let now = u64::from_le_bytes(reader.number()?);
    let time = Time { now, epoch: u32::from_le_bytes(reader.number()?) };
    reader.check()?;
    if now >= TOO_MANY_BATCHES {
        return Err(Error::Format(format!("its time is batch {now}; expected one below 2^63")));
    }
    Ok(time)
}
