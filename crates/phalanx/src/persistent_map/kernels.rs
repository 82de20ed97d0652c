//! Launches on tables of the compiled kinds.
use super::memory::Memory;
use crate::map::launch::THREADS;
use crate::map::variant::VariantTag;
use crate::{Error, Result};
use gpu::{Grid, Stream};
use phalanx_kernels::persistent::kernels::{
    PersistentContains, PersistentContainsCached, PersistentGet, PersistentGetCached, PersistentInsert,
    PersistentInsertNew, PersistentRemove, PersistentUpdate,
};
use phalanx_kernels::persistent::make_room::PersistentMakeRoom;
use phalanx_kernels::persistent::recover::{
    PersistentCheck, PersistentCount, PersistentExport, PersistentRebuild, PersistentResolve,
};
use phalanx_kernels::persistent::refresh::PersistentRefresh;
use phalanx_kernels::persistent::{self, Changes, Lookups, PersistentView, Search};
use simt::{BoundedSlice, GlobalSlice, Instance};

/// A launch on a table.
#[derive(Clone, Copy, Debug)]
pub enum Launch {
    /// Runs [`PersistentGet`], or [`PersistentGetCached`] if there is a cache.
    Get(Lookups),
    /// Runs [`PersistentContains`], or [`PersistentContainsCached`] if there is a cache.
    Contains(Lookups),
    /// Runs [`PersistentInsert`].
    Insert(Changes),
    /// Runs [`PersistentInsertNew`].
    InsertNew(Changes),
    /// Runs [`PersistentUpdate`].
    Update(Changes),
    /// Runs [`PersistentRemove`].
    Remove(Changes),
    /// Runs [`PersistentRebuild`] for pages, which writes findings.
    Rebuild(RebuildPages, GlobalSlice<u32>),
    /// Runs [`PersistentResolve`], which writes findings.
    Resolve(GlobalSlice<u32>),
    /// Runs [`PersistentCheck`], which writes findings.
    Check(GlobalSlice<u32>),
    /// Runs [`PersistentCount`].
    Count(GlobalSlice<u64>),
    /// Runs [`PersistentExport`].
    Export(Export),
    /// Runs [`PersistentMakeRoom`] for keys.
    MakeRoom(GlobalSlice<u64>),
    /// Runs [`PersistentRefresh`].
    Refresh,
}

/// Pages that [`PersistentRebuild`] reads.
#[derive(Clone, Copy, Debug)]
pub struct RebuildPages {
    /// Number of the level above the lowest one.
    pub above: u32,
    /// Number of the first page in its level.
    pub first: u32,
    /// The words of the pages.
    pub pages: GlobalSlice<u32>,
}

/// Arguments of [`PersistentExport`].
#[derive(Clone, Copy, Debug)]
pub struct Export {
    /// Number of the level above the lowest one.
    pub above: u32,
    /// First bucket, and number of buckets.
    pub span: (u32, u32),
    /// Output: words of keys.
    pub keys: GlobalSlice<u64>,
    /// Output: words of values.
    pub values: GlobalSlice<u32>,
    /// Output: number of items, 0 before.
    pub count: GlobalSlice<u32>,
}

/// Constants of a kind of table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Words of 8 bytes in a key.
    pub key_words: u32,
    /// Bytes in a value, or 0 for any number.
    pub value_bytes: u32,
    /// Number of levels.
    pub levels: u32,
    /// Number of hash locations.
    pub hashes: u32,
    /// Slots in a bucket.
    pub slots: u32,
    /// Slots in a bucket that items may take.
    pub usable: u32,
    /// Words of the fingerprints of a group.
    pub group_words: u32,
    /// Whether buckets have counters of reserved slots.
    pub reserves: bool,
    /// Whether tables may have a cache.
    pub caches: bool,
}

/// Launches on tables of one kind.
pub trait Kernels: Send + Sync + std::fmt::Debug {
    /// Returns the kind's name.
    fn name(&self) -> &'static str;

    /// Returns the kind's constants.
    fn kind(&self) -> Kind;

    /// Submits a launch.
    ///
    /// # Safety
    /// - The memory and the slices of the launch live until the stream has executed it. Each slice is as
    ///   long as the launch requires.
    /// - Scans do not run at the same time as batches that change the table, and one refresh runs at a time.
    unsafe fn launch(&self, stream: &Stream, memory: &Memory, launch: Launch) -> gpu::Result<()>;
}

impl<C: Search + Instance> std::fmt::Debug for VariantTag<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(C::NAME)
    }
}

impl<C: Search + Instance> Kernels for VariantTag<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn kind(&self) -> Kind {
        Kind {
            key_words: C::KEY_WORDS,
            value_bytes: C::VALUE_BYTES,
            levels: C::LEVELS,
            hashes: C::HASHES,
            slots: C::SLOTS,
            usable: C::USABLE,
            group_words: PersistentView::<C>::group_words(),
            reserves: !C::IS_SMALL,
            caches: C::CACHES,
        }
    }

    unsafe fn launch(&self, stream: &Stream, memory: &Memory, launch: Launch) -> gpu::Result<()> {
        let batch =
            |keys: BoundedSlice<u64>| Grid::for_items(keys.max_len() / C::KEY_WORDS as usize, THREADS);
        let scan = || Grid::for_items(memory.slots().min(SCAN), THREADS);
        // SAFETY: the caller's obligations. The grids have a thread for every element, or whole warps.
        unsafe {
            let view = memory.view::<C>();
            match launch {
                Launch::Get(elements) if memory.cache.is_some() => {
                    stream.launch(batch(elements.keys), PersistentGetCached { view, batch: elements })
                }
                Launch::Contains(elements) if memory.cache.is_some() => {
                    let grid = batch(elements.keys);
                    stream.launch(grid, PersistentContainsCached { view, batch: elements })
                }
                Launch::Get(elements) => {
                    stream.launch(batch(elements.keys), PersistentGet { view, batch: elements })
                }
                Launch::Contains(elements) => {
                    stream.launch(batch(elements.keys), PersistentContains { view, batch: elements })
                }
                Launch::Insert(changes) => {
                    stream.launch(batch(changes.keys), PersistentInsert { view, batch: changes })
                }
                Launch::InsertNew(changes) => {
                    stream.launch(batch(changes.keys), PersistentInsertNew { view, batch: changes })
                }
                Launch::Update(changes) => {
                    stream.launch(batch(changes.keys), PersistentUpdate { view, batch: changes })
                }
                Launch::Remove(changes) => {
                    stream.launch(batch(changes.keys), PersistentRemove { view, batch: changes })
                }
                Launch::Rebuild(RebuildPages { above, first, pages }, findings) => {
                    let blocks = pages.len() / memory.shape.geometry.page_words() as usize;
                    let rebuild = PersistentRebuild { view, above, first, pages, findings };
                    stream.launch(Grid::new(blocks as u32, THREADS), rebuild)
                }
                Launch::Resolve(findings) => stream.launch(scan(), PersistentResolve { view, findings }),
                Launch::Check(findings) => stream.launch(scan(), PersistentCheck { view, findings }),
                Launch::Count(count) => stream.launch(scan(), PersistentCount { view, count }),
                Launch::MakeRoom(keys) => stream.launch(Grid::new(1, 32), PersistentMakeRoom { view, keys }),
                Launch::Refresh => {
                    let groups = memory.shape.geometry.groups() as usize;
                    stream.launch(Grid::for_items(groups.min(REFRESH), THREADS), PersistentRefresh { view })
                }
                Launch::Export(Export { above, span, keys, values, count }) => {
                    stream.launch(scan(), PersistentExport { view, above, span, keys, values, count })
                }
            }
        }
    }
}

/// Maximum number of threads of a scan.
const SCAN: usize = 1 << 21;

/// Maximum number of threads of a refresh, which leaves most of the device to batches.
const REFRESH: usize = 1 << 15;

/// Returns the kernels of all kinds, the defaults first.
fn all() -> Vec<&'static dyn Kernels> {
    struct Collect(Vec<&'static dyn Kernels>);

    impl persistent::Visitor for Collect {
        type Output = std::convert::Infallible;

        fn visit<C: Search + Instance>(&mut self) -> Option<Self::Output> {
            self.0.push(const { &VariantTag::<C>::NEW });
            None
        }
    }

    #[cfg_attr(test, allow(unused_mut))]
    let mut kernels = Collect(Vec::new());
    // This crate's unit tests, which build no table, compile no kernels.
    #[cfg(not(test))]
    persistent::visit(&mut kernels);
    kernels.0
}

/// Returns the kernels of all kinds for keys and values of these sizes, the default first.
pub fn fitting(key_bytes: usize, value_bytes: usize) -> impl Iterator<Item = &'static dyn Kernels> {
    all().into_iter().filter(move |kernels| {
        let kind = kernels.kind();
        let fits_value = kind.value_bytes == 0 || kind.value_bytes as usize == value_bytes;
        8 * kind.key_words as usize == key_bytes && fits_value
    })
}

/// Returns the kernels called `name`, or the default ones.
pub fn select(name: Option<&str>, key_bytes: usize, value_bytes: usize) -> Result<&'static dyn Kernels> {
    let mut kernels = fitting(key_bytes, value_bytes);
    kernels.find(|kernels| name.is_none_or(|name| kernels.name() == name)).ok_or_else(|| {
        let known: Vec<_> = fitting(key_bytes, value_bytes).map(Kernels::name).collect();
        Error::UnknownVariant { name: name.unwrap_or_default().to_owned(), known: known.join(", ") }
    })
}
