//! Operations on all shards: each rank executes them on its own.
use super::ShardedMap;
use super::steps::Step;
use crate::map::file::{self, Checked};
use crate::map::launch::BatchOp;
use crate::map::run::words_within;
use crate::map::{Key, Map, Outcome, Pairs, Value};
use crate::{Error, Result};
use exchange::check_equal;
use phalanx_kernels::sharded::MOST_OWNERS;
use std::io::{Read, Write};
use std::ops::RangeInclusive;
use std::time::{SystemTime, UNIX_EPOCH};

const MAGIC: &[u8; 8] = b"PHXSHARD";
const VERSION: u32 = 1;

/// Pairs that a rank inserts at a time when it loads.
const BATCH: usize = 1 << 22;

/// The beginning of a saved part, before the shard's own file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartHeader {
    rank: u32,
    ranks: u32,
    /// Number of the save, which all parts of it have.
    save: u64,
}

impl PartHeader {
    fn put(self, writer: &mut impl Write) -> Result<()> {
        let mut bytes = MAGIC.to_vec();
        for word in [VERSION, self.rank, self.ranks] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(self.save.to_le_bytes());
        bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
        writer.write_all(&bytes).map_err(|source| Error::Io { doing: "writing", source })
    }

    fn take(reader: &mut impl Read) -> Result<Self> {
        let mut checked = Checked::new(reader);
        let wrong = |what: String| Err(Error::Format(what));
        if checked.number::<8>()? != *MAGIC {
            return wrong("it does not begin with PHXSHARD, as a part of a sharded map does".into());
        }
        let [version, rank, ranks] =
            [checked.number()?, checked.number()?, checked.number()?].map(u32::from_le_bytes);
        let save = u64::from_le_bytes(checked.number()?);
        checked.check()?;
        match (version, ranks as usize) {
            (VERSION, 1..=MOST_OWNERS) if rank < ranks => Ok(Self { rank, ranks, save }),
            (VERSION, _) => wrong(format!("it is part {rank} of {ranks}")),
            _ => wrong(format!("its format version is {version}; supported: {VERSION}")),
        }
    }
}

/// The parts that a rank has read: which they are, and their pairs.
struct SavedParts<K: Key, V: Value> {
    /// A bit for each part.
    which: u64,
    /// Header of one of them.
    header: Option<PartHeader>,
    keys: Vec<K::Word>,
    values: Vec<V::Word>,
}

impl<K: Key, V: Value> SavedParts<K, V> {
    fn read<R: Read>(readers: impl IntoIterator<Item = R>) -> Result<Self> {
        let mut parts = Self { which: 0, header: None, keys: Vec::new(), values: Vec::new() };
        for mut reader in readers {
            let header = PartHeader::take(&mut reader)?;
            let first = *parts.header.get_or_insert(header);
            if (first.ranks, first.save) != (header.ranks, header.save) {
                return Err(Error::Format("the parts are not of the same save".into()));
            }
            if parts.which >> header.rank & 1 != 0 {
                return Err(twice(header.rank));
            }
            parts.which |= 1 << header.rank;
            let (keys, values) = file::read_pairs::<K, V>(reader)?;
            parts.keys.extend(keys);
            parts.values.extend(values);
        }
        Ok(parts)
    }

    /// Returns the words by which the ranks check that they have all parts.
    fn words(&self) -> [u64; 3] {
        let header = self.header.unwrap_or(PartHeader { rank: 0, ranks: 0, save: 0 });
        [self.which, header.ranks.into(), header.save]
    }
}

fn twice(rank: u32) -> Error {
    Error::Format(format!("part {rank} is passed twice"))
}

/// Returns an error unless the parts of all ranks are those of one save.
fn check_parts(all: &[[u64; 3]]) -> Result<()> {
    let has_parts = || all.iter().filter(|words| words[1] != 0);
    let Some(first) = has_parts().next() else {
        return Err(Error::Format("no rank has a part".into()));
    };
    if has_parts().any(|words| words[1..] != first[1..]) {
        return Err(Error::Format("the parts are not of the same save".into()));
    }
    let mut seen = 0;
    for words in has_parts() {
        if seen & words[0] != 0 {
            return Err(twice((seen & words[0]).trailing_zeros()));
        }
        seen |= words[0];
    }
    match (!seen).trailing_zeros() {
        missing if u64::from(missing) < first[1] => Err(Error::Format(format!(
            "part {missing} of {} is missing: pass each part on one rank",
            first[1]
        ))),
        _ => Ok(()),
    }
}

/// Operations on all pairs.
impl<K: Key, V: Value, M: Map<Key = K, Value = V>> ShardedMap<K, V, M> {
    /// Tells all ranks whether this rank's part of an operation has succeeded. Returns its result, or an
    /// error if another rank's has failed.
    pub(super) fn together<R>(&mut self, own: Result<R>) -> Result<R> {
        let all = self.engine.exchange_numbers(Step::End, [u64::from(own.is_err())])?;
        match (own, all.iter().position(|&has_failed| has_failed != [0])) {
            (Ok(_), Some(rank)) => Err(exchange::Error::Refused { rank }.into()),
            (own, _) => own,
        }
    }

    /// Runs an operation that changes this rank's shard, while the others run theirs: after their lookups.
    fn change_shard<R>(&mut self, step: Step, run: impl FnOnce(&mut M) -> Result<R>) -> Result<R> {
        self.engine.exchange_numbers(step, [])?;
        self.change_agreed(run)
    }

    /// As [`Self::change_shard`], when all ranks have told each other that they call the operation.
    fn change_agreed<R>(&mut self, run: impl FnOnce(&mut M) -> Result<R>) -> Result<R> {
        self.engine.changing_shards()?;
        let own = run(&mut self.shard);
        self.together(own)
    }

    /// Keeps the pairs for which `keep` returns true, as [`Map::retain`] of each shard. `keep` gets the pairs
    /// of this rank.
    ///
    /// # Errors
    /// As [`Map::retain`] for this rank's shard; [`Error::Exchange`] if another rank's shard has failed
    /// ([`Refused`](exchange::Error::Refused)) or a rank is lost ([`PeerLost`](exchange::Error::PeerLost)).
    /// The other shards are changed also then.
    pub fn retain(&mut self, keep: impl FnMut(K, V) -> bool) -> Result<()> {
        self.change_shard(Step::Retain, |shard| shard.retain(keep))
    }

    /// Keeps the pairs whose keys are in the range, which is the same on all ranks.
    ///
    /// # Errors
    /// As [`Map::retain_keys`]; [`Error::Exchange`] as for [`Self::retain`]. If a rank's range is invalid
    /// ([`Refused`](exchange::Error::Refused) on the others) or differs from that of rank 0
    /// ([`Mismatch`](exchange::Error::Mismatch)), nothing is removed.
    pub fn retain_keys(&mut self, range: RangeInclusive<K>) -> Result<()> {
        let ends = words_within(&range, K::encode);
        let (first, last) = *ends.as_ref().unwrap_or(&(0, 0));
        let words = [ends.is_err().into(), first, last];
        let all = self.engine.exchange_numbers(Step::RetainKeys, words)?;
        ends?;
        if let Some(rank) = all.iter().position(|words| words[0] != 0) {
            return Err(exchange::Error::Refused { rank }.into());
        }
        for word in 1..words.len() {
            check_equal("range of keys", all.iter().map(|words| words[word]))?;
        }
        self.change_agreed(|shard| shard.retain_keys(range))
    }

    /// Removes all pairs. The shards keep their memory.
    ///
    /// # Errors
    /// As [`Map::clear`]; [`Error::Exchange`] as for [`Self::retain`].
    pub fn clear(&mut self) -> Result<()> {
        self.change_shard(Step::Clear, |shard| shard.clear())
    }

    /// Returns the keys and values of this rank's shard. Those of all ranks are the whole map.
    ///
    /// # Errors
    /// As [`Map::export`]; [`Error::Exchange`] as for [`Self::retain`].
    pub fn export(&mut self) -> Result<Pairs<K, V>> {
        self.engine.exchange_numbers(Step::Export, [])?;
        self.wait()?;
        let own = self.shard.export();
        self.together(own)
    }

    /// Saves this rank's part of the map: a header that tells which part it is, and then the shard as
    /// [`Map::save`] does. Any number of ranks can [load](Self::load) the parts.
    ///
    /// ```
    /// use phalanx::exchange::Limits;
    /// use phalanx::sharded_map::on_devices;
    /// use phalanx::{Device, HashMap, ShardedMap};
    ///
    /// let devices = [(); 3].map(|()| Device::emulator(Default::default()));
    /// let limits = Limits { part_bytes: 1 << 12, slot_bytes: 256, ..Limits::default() };
    /// let make = |exchange: phalanx::exchange::Exchange| {
    ///     let shard = HashMap::<u32, u32>::builder().device(exchange.device()).capacity(100).build()?;
    ///     ShardedMap::new(exchange, shard)
    /// };
    /// let parts = on_devices(&devices, limits, |exchange| {
    ///     let (mut map, mut part) = (make(exchange)?, Vec::new());
    ///     let rank = map.rank() as u32;
    ///     assert!(map.insert(&[rank, 10 + rank], &[1, 2])?.all_placed());
    ///     map.save(&mut part)?;
    ///     Ok(part)
    /// })?;
    /// on_devices(&devices[..2], limits, |exchange| {
    ///     let mut map = make(exchange)?;
    ///     // Each rank reads some of the parts.
    ///     map.load(parts.iter().map(|part| &part[..]).skip(map.rank()).step_by(2))?;
    ///     assert_eq!(map.get(&[2, 10, 3])?, [Some(1), Some(2), None]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::save`]; [`Error::Exchange`] as for [`Self::retain`].
    pub fn save(&mut self, mut writer: impl Write) -> Result<()> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64);
        let [save] = self.engine.exchange_numbers(Step::Save, [time])?[0];
        let header = PartHeader { rank: self.rank() as u32, ranks: self.ranks() as u32, save };
        self.wait()?;
        let own = header.put(&mut writer).and_then(|()| self.shard.save(writer));
        self.together(own)
    }

    /// Inserts the pairs of a saved map. Each of its parts is passed on exactly one rank; their number need
    /// not be that of the ranks. All keys must be new.
    ///
    /// # Errors
    /// [`Error::Format`] if a part is no part of a saved map, is damaged or of other types, or if the parts
    /// of all ranks are not exactly those of one save, or a key is there already; [`Error::DoesNotFit`] if
    /// some pairs do not fit; [`Error::Io`] if a reader fails; [`Error::Exchange`] as for [`Self::retain`],
    /// and if the parts of another rank are damaged. Before the parts of all ranks are read, nothing is
    /// inserted.
    pub fn load<R: Read>(&mut self, parts: impl IntoIterator<Item = R>) -> Result<()> {
        self.engine.exchange_numbers(Step::Load, [])?;
        let parts = self.together(SavedParts::<K, V>::read(parts))?;
        check_parts(&self.engine.exchange_numbers(Step::Load, parts.words())?)?;
        let (len, mut left_over, mut is_twice) = (parts.keys.len(), 0, false);
        let all = self.engine.exchange_numbers(Step::Load, [len as u64])?;
        let most = all.iter().map(|&[len]| len as usize).max().unwrap_or(0);
        for first in (0..most).step_by(BATCH) {
            let range = first.min(len)..(first + BATCH).min(len);
            let words = (&parts.keys[range.clone()], &parts.values[range]);
            let outcomes = self.of_words(BatchOp::InsertNew, words)?.into_outcomes();
            left_over += outcomes.refused();
            is_twice |= outcomes.count(Outcome::Found) > 0;
        }
        let loaded = match (left_over, is_twice) {
            (0, false) => Ok(()),
            (0, true) => Err(Error::Format("a key occurs twice, or is in the map already".into())),
            _ => Err(Error::DoesNotFit { left_over, pairs: len }),
        };
        self.together(loaded)
    }
}
