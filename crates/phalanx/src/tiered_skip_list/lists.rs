//! Inner lists: skip lists whose memory is one block that is copied as a whole.
//!
//! ```text
//! image   | nodes | directory | bitmap of the nodes in use |       no counters: they are the host's numbers
//! ```
//!
//! Nodes refer to each other by their numbers, and so does the directory. So an image is the same list at
//! any address.
use super::staging::Staging;
use crate::error::or_later;
use crate::map::encoding::Word;
use crate::map::launch::{Batch, nothing};
use crate::ordered::kernels::{Search, Task};
use crate::ordered::memory::{RawBitmaps, RawTree, TreeRef};
use crate::skiplist::kernels::Kernels;
use crate::skiplist::passes::{Pass, passes};
use crate::tiered_map::chunk::{Division, Request};
use crate::tiered_map::ledger::{Ledger, Metered};
use crate::tiered_map::plan::Form;
use crate::tiered_map::shard::Shard;
use crate::tiered_map::shards::{ImageSize, Part, Shards};
use crate::tiered_map::tiers::Tiers;
use crate::tiered_map::work::Work;
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream, Tier};
use phalanx_kernels::ordered::{EMPTY_TREE_NODES, HEAD, directory_entries, nodes};
use phalanx_kernels::skiplist::kernels::passing;
use phalanx_kernels::slab::{Bitmaps, MOST_SUPER_BLOCKS, Supers};
use simt::GlobalSlice;
use std::sync::Arc;

/// Words by which the parts of an image are aligned: 256 bytes, the largest node.
const ALIGNMENT: usize = 32;

/// Number of pairs up to which a list needs no directory.
const SMALL: usize = 256;

/// Layout of a list's image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListSize {
    /// Nodes.
    pub units: usize,
    /// Entries of the directory.
    entries: u32,
    /// First word of the directory.
    directory_at: usize,
    /// First word of the bitmap.
    bitmap_at: usize,
    words: usize,
    /// Number of pairs for which a new list is planned.
    pub target: usize,
    /// Number of pairs when the directory was built.
    indexed: usize,
}

impl ListSize {
    /// Returns the layout of a list of `units` nodes.
    pub fn of<K, V>(kernels: &dyn Kernels<K, V>, units: usize) -> Self {
        let (shape, units) = (kernels.shape(), units.max(EMPTY_TREE_NODES + 1));
        let entries = directory_entries(units);
        let directory_at = (units * shape.node_bytes / 8).next_multiple_of(ALIGNMENT);
        let bitmap_at = directory_at + kernels.directory_words(entries).next_multiple_of(ALIGNMENT);
        let words = bitmap_at + Bitmaps::words_for(units).div_ceil(2).next_multiple_of(ALIGNMENT);
        let mut target = units * per_twenty_nodes(shape.slots) / 20;
        while target > 1 && nodes(target as u64 * 5 / 4, usual_fill(shape.slots)) > units as u64 {
            target -= target.div_ceil(16);
        }
        Self { units, entries, directory_at, bitmap_at, words, target: target.max(1), indexed: 0 }
    }

    /// Returns the largest number of pairs with which lists are built, except if keys cannot be divided.
    pub fn most_built(&self) -> usize {
        (self.target * 5 / 4).max(1)
    }

    /// Returns the number of pairs in each node of a list that is built of `pairs` pairs.
    fn fill(&self, pairs: usize, slots: u32) -> Result<u32> {
        let fits = |&fill: &u32| nodes(pairs as u64, fill) <= self.units as u64;
        let doubt = Error::DoesNotFit { left_over: pairs, pairs };
        (usual_fill(slots)..=slots).find(fits).ok_or(doubt)
    }

    /// Returns the layout of a list for `pairs` pairs.
    pub fn for_pairs<K, V>(kernels: &dyn Kernels<K, V>, pairs: usize) -> Result<Self> {
        const MOST: usize = 1 << 31;
        let shape = kernels.shape();
        let (each, most) = (per_twenty_nodes(shape.slots), MOST / 20 * per_twenty_nodes(shape.slots));
        if pairs > most {
            return Err(Error::TooLarge { what: "pairs of a list", asked: pairs, most });
        }
        let mut units = (20 * pairs).div_ceil(each) + EMPTY_TREE_NODES;
        while Self::of(kernels, units).target < pairs {
            units += units.div_ceil(16);
        }
        Ok(Self::of(kernels, units))
    }

    /// Returns the layout of the largest list of at most `bytes` bytes, or the smallest list.
    pub fn within<K, V>(kernels: &dyn Kernels<K, V>, bytes: usize) -> Self {
        let mut units = bytes / kernels.shape().node_bytes;
        while units > EMPTY_TREE_NODES && Self::of(kernels, units).byte_len() > bytes {
            units -= units.div_ceil(64);
        }
        Self::of(kernels, units)
    }
}

/// Returns the number of pairs that 20 nodes, of which some are in the index, hold in any order of insertion.
/// Nodes are a bit more than half full if keys arrive in order, and 0.7 if they arrive in random order.
fn per_twenty_nodes(slots: u32) -> usize {
    9 * slots as usize
}

/// Returns the number of pairs in each node of a new list: slightly more than insertions in random order
/// leave.
fn usual_fill(slots: u32) -> u32 {
    (slots * 7 / 10).max(2)
}

impl ImageSize for ListSize {
    fn words(self) -> usize {
        self.words
    }
}

/// A list as kernels take it.
#[derive(Clone, Copy, Debug)]
pub struct ListTable {
    tree: RawTree,
    /// Upper bound of the number of pairs.
    pairs: usize,
    /// Number of pairs when the directory was built.
    indexed: usize,
    /// Words of the directory that are 0 in a new list. The bytes of its other words are 0xFF: their keys are
    /// above all keys that are searched for, so a search that reads such words begins at the root.
    head: (usize, usize),
    /// Number of pairs in each node, if the list is built.
    fill: u32,
}

impl ListTable {
    /// Returns the list as launches take it.
    pub fn tree(&self) -> TreeRef<'static> {
        TreeRef::raw(self.tree)
    }

    /// Returns the number of nodes.
    pub fn units(&self) -> usize {
        self.tree.bitmaps.units as usize
    }

    /// Sets the number of pairs from which the list will be built.
    pub fn for_pairs(self, size: &ListSize, pairs: usize, slots: u32) -> Result<Self> {
        Ok(Self { fill: size.fill(pairs, slots)?, ..self })
    }
}

/// Work on lists.
#[derive(Clone, Copy, Debug)]
pub enum ListPart<K, V> {
    /// A batch of operations by key.
    Batch(Batch<K, V>),
    /// A search by key order.
    Search(Search<K, V>),
}

impl<K, V> From<Batch<K, V>> for ListPart<K, V> {
    fn from(batch: Batch<K, V>) -> Self {
        Self::Batch(batch)
    }
}

impl<K: Word, V: Word> Part for ListPart<K, V> {
    fn part(self, first: usize, len: usize) -> Self {
        match self {
            Self::Batch(batch) => Self::Batch(batch.part(first, len)),
            Self::Search(search) => Self::Search(part_of(search, first, len)),
        }
    }

    fn outcomes(self) -> Option<GlobalSlice<u8>> {
        match self {
            Self::Batch(batch) => Some(batch.outcomes),
            Self::Search(_) => None,
        }
    }
}

/// Returns the elements of a search from `first` on, `len` of them.
fn part_of<K: Word, V: Word>(search: Search<K, V>, first: usize, len: usize) -> Search<K, V> {
    match search {
        Search::Next { up, inclusive, keys, found, values, outcomes } => Search::Next {
            up,
            inclusive,
            keys: keys.part(first, len),
            found: found.part(first, len),
            values: values.part(first, len),
            outcomes: outcomes.part(first, len),
        },
        Search::Count { lows, highs, counts } => Search::Count {
            lows: lows.part(first, len),
            highs: highs.part(first, len),
            counts: counts.part(first, len),
        },
        Search::Range { lows, highs, offsets, room, keys, values, counts } => Search::Range {
            lows: lows.part(first, len),
            highs: highs.part(first, len),
            offsets: offsets.part(first, len + 1),
            room,
            keys,
            values,
            counts: counts.part(first, len),
        },
    }
}

/// Memory that all views of lists need and no kernel changes.
struct Common {
    /// Table of super blocks, for handles of none.
    table: Metered<Buffer<u64>>,
    /// Bitmap of retired nodes, which skip lists do not have.
    retired: Buffer<u32>,
    faults: Buffer<u64>,
}

/// Words of the table of super blocks.
pub const TABLE_WORDS: usize = MOST_SUPER_BLOCKS + 1;

/// Skip lists as shards: each has a range of keys.
pub struct Lists<K, V> {
    pub kernels: Box<dyn Kernels<K, V>>,
    /// Layout of a new list.
    pub size: ListSize,
    /// Lowest key of each list but the first.
    pub splitters: Vec<K>,
    /// Copy of the splitters on the device. Its length limits their number.
    copied: Metered<Buffer<K>>,
    /// Whether the copy is that of the splitters.
    is_copied: bool,
    /// Number of times that the splitters have changed.
    generation: u64,
    common: Common,
    pub staging: Staging<K, V>,
}

impl<K: Word, V: Word> Lists<K, V> {
    /// Allocates the memory that all lists share, for up to `most` lists.
    pub fn new(
        kernels: Box<dyn Kernels<K, V>>,
        (device, ledger): (&Device, &Arc<Ledger>),
        (size, most): (ListSize, usize),
    ) -> Result<Self> {
        let mut table = ledger.buffer(device, TABLE_WORDS)?;
        table.fill_bytes(0)?;
        let mut retired = device.buffer_on(Tier::Pinned, Bitmaps::words_for(size.units))?;
        retired.fill_bytes(0)?;
        let common = Common { table, retired, faults: device.buffer_on(Tier::Pinned, 1)? };
        Ok(Self {
            kernels,
            size,
            splitters: Vec::new(),
            copied: ledger.buffer(device, most)?,
            is_copied: true,
            generation: 0,
            common,
            staging: Staging::new(device)?,
        })
    }

    /// Returns the number of lists that are possible.
    pub fn most(&self) -> usize {
        self.copied.len() + 1
    }

    /// Returns the lowest and the highest key of a list.
    pub fn range_of(&self, list: usize) -> (K, K) {
        let low = if list == 0 { K::from_u64(0) } else { self.splitters[list - 1] };
        let high = self.splitters.get(list).map_or(K::MAX, |next| K::from_u64(next.to_u64() - 1));
        (low, high)
    }

    /// Returns the list of a key.
    pub fn list_of(&self, key: K) -> usize {
        self.splitters.partition_point(|&splitter| splitter <= key)
    }

    /// Replaces the splitters between the lists of a range by `cuts`.
    pub fn replace_splitters(&mut self, lists: std::ops::Range<usize>, cuts: &[K]) {
        self.splitters.splice(lists.start..lists.end - 1, cuts.iter().copied());
        (self.is_copied, self.generation) = (false, self.generation + 1);
    }

    /// Copies the splitters to the device, unless they are there.
    pub fn copy_splitters(&mut self) -> Result<()> {
        if !self.is_copied {
            self.copied.write_at(0, &self.splitters)?;
            self.is_copied = true;
        }
        Ok(())
    }

    /// Submits insertions in passes, after some of which the directory is built again.
    unsafe fn insert(&self, stream: &Stream, table: &mut ListTable, batch: Batch<K, V>) -> Result<()> {
        let (len, tree) = (batch.keys.max_len(), table.tree());
        for pass in passes(len as u64, table.pairs as u64) {
            // SAFETY: the caller's obligations.
            unsafe {
                match pass == Pass::WHOLE {
                    true => self.kernels.launch_batch(stream, tree, batch)?,
                    false => self.kernels.launch_pass(stream, tree, batch, pass)?,
                }
            }
            table.pairs = table.pairs.saturating_add(passing(len, pass.step, pass.ratio));
            if table.pairs > SMALL.max(2 * table.indexed) {
                // SAFETY: as above.
                unsafe { self.kernels.launch_task(stream, tree, Task::RebuildDirectory)? };
                table.indexed = table.pairs;
            }
        }
        Ok(())
    }

    /// Submits the build of a list from sorted pairs, and of its directory.
    ///
    /// # Safety
    /// - As for [`Shards::create`]. The pairs live as long.
    pub unsafe fn build(
        &self,
        stream: &Stream,
        (table, memory): (&mut ListTable, GlobalSlice<u64>),
        (keys, values, last): (GlobalSlice<K>, GlobalSlice<V>, Option<K>),
    ) -> Result<()> {
        let (shape, tree) = (self.kernels.shape(), table.tree());
        let has_largest = shape.reserves_largest && last == Some(K::MAX);
        let (count, fill) = (keys.len() - usize::from(has_largest), table.fill);
        let count = count as u64;
        // SAFETY: the caller's obligations.
        unsafe {
            stream.fill(memory, 0xff)?;
            stream.fill(memory.part(table.head.0, table.head.1), 0)?;
            self.kernels.launch_task(stream, tree, Task::Build { keys, values, count, fill })?;
            if keys.len() > SMALL {
                self.kernels.launch_task(stream, tree, Task::RebuildDirectory)?;
                table.indexed = keys.len();
            }
        }
        Ok(())
    }
}

impl<K: Word, V: Word> Shards<K, V> for Lists<K, V> {
    type Size = ListSize;
    type Table = ListTable;
    type Part = ListPart<K, V>;

    fn table(&self, shard: &Shard<ListSize>, memory: *mut u64, counters: *mut u64) -> ListTable {
        let (size, common) = (shard.size, &self.common);
        let bitmaps = RawBitmaps {
            live: memory.wrapping_add(size.bitmap_at).cast(),
            retired: common.retired.pointer(),
            faults: common.faults.pointer(),
            units: size.units as u32,
        };
        let supers =
            Supers { first: memory, joined: MOST_SUPER_BLOCKS as u32, table: common.table.pointer() };
        let directory = memory.wrapping_add(size.directory_at);
        let tree = RawTree { counters, bitmaps, supers, directory, entries: size.entries };
        let head = (size.directory_at, HEAD);
        let fill = usual_fill(self.kernels.shape().slots);
        ListTable { tree, pairs: shard.counts.live, indexed: size.indexed, head, fill }
    }

    unsafe fn create(&self, stream: &Stream, table: &ListTable, memory: GlobalSlice<u64>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { self.build(stream, (&mut { *table }, memory), (nothing(), nothing(), None)) }
    }

    unsafe fn launch(&self, stream: &Stream, table: &mut ListTable, part: ListPart<K, V>) -> Result<()> {
        // SAFETY: the caller's obligations.
        unsafe {
            match part {
                ListPart::Batch(batch) if batch.op.places() => self.insert(stream, table, batch)?,
                ListPart::Batch(batch) => self.kernels.launch_batch(stream, table.tree(), batch)?,
                ListPart::Search(search) => self.kernels.launch_search(stream, table.tree(), search)?,
            }
        }
        Ok(())
    }

    /// A compare-and-swap of 16 bytes over the bus is not known to work on every machine.
    fn changes_in_place(&self) -> bool {
        !self.kernels.variant().needs_wide_swap()
    }

    /// Without splits, an empty list would have room for no more than one inner list.
    fn grows_on_streams(&self) -> bool {
        true
    }

    fn launched(&self, size: &mut ListSize, table: &ListTable) {
        size.indexed = table.indexed;
    }

    fn bits(&self, _: Form) -> u32 {
        (self.splitters.len() + 1).next_power_of_two().trailing_zeros()
    }

    fn shard_of(&self, _: Form, key: K) -> usize {
        self.list_of(key)
    }

    fn division(&self) -> Division<K> {
        Division::ByRange { splitters: self.copied.global().part(0, self.splitters.len()) }
    }

    fn generation(&self, _: Form) -> u64 {
        self.generation
    }

    fn before_batch(tiers: &mut Tiers<K, V, Self>, request: &Request<'_, K, V>) -> Result<()> {
        if !matches!(tiers.plan.form, Form::Sharded { .. }) {
            return Ok(());
        }
        let split = or_later(tiers.split_before(request));
        let copied = split.and_then(|()| tiers.inner.copy_splitters());
        copied.inspect_err(|_| tiers.settle())
    }

    fn before_shards(
        _: &mut Tiers<K, V, Self>,
        _: &Request<'_, K, V>,
        _: &Work<ListPart<K, V>>,
    ) -> Result<()> {
        Ok(())
    }

    fn grow_for(tiers: &mut Tiers<K, V, Self>, refused: &[K]) -> Result<()> {
        if !matches!(tiers.plan.form, Form::Sharded { .. }) {
            return tiers.rebuild_whole(refused.len());
        }
        tiers.split_for(refused)?;
        tiers.inner.copy_splitters()
    }

    fn maintain(tiers: &mut Tiers<K, V, Self>) -> Result<()> {
        match tiers.plan.form {
            Form::Sharded { .. } => tiers.merge_sparse(),
            Form::Resident | Form::Flat => Ok(()),
        }
    }

    fn clear(tiers: &mut Tiers<K, V, Self>) -> Result<()> {
        tiers.make_empty()
    }

    fn host_bytes(&self) -> usize {
        self.staging.byte_len()
    }

    fn release(&mut self) -> Result<()> {
        self.staging = Staging::new(self.copied.device())?;
        Ok(())
    }
}
