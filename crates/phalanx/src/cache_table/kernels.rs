//! Launches on cache tables of the compiled kinds.
use super::memory::Memory;
use crate::map::launch::THREADS;
use crate::map::variant::{VariantTag, variants};
use gpu::{Grid, Stream};
use phalanx_kernels::cache::classify::{CacheClassify, CacheSample, CacheSetBounds};
use phalanx_kernels::cache::kernels::{
    CacheAccumulate, CacheAssign, CacheContains, CacheContainsConcurrent, CacheGet, CacheGetAndTouch,
    CacheGetConcurrent, CacheGetOrInsert, CacheGetRef, CacheInsert, CacheInsertEvict, CacheRemove,
};
use phalanx_kernels::cache::many::{CacheGetOfMany, LookupsOfMany};
use phalanx_kernels::cache::scan::{CacheCount, CacheExport, CachePromote, CacheRemoveIf};
use phalanx_kernels::cache::{
    self, BuiltIn, CLASSES, Changes, Chunk, Config, Element, Evicted, Filter, Lookups, RowSlice, SLOTS,
    ScorePolicy, Sections, Span, VIEW_WORDS,
};
use simt::{BoundedSlice, GlobalSlice, Instance, Word};
use std::any::TypeId;

/// A launch on a table.
#[derive(Clone, Copy, Debug)]
pub enum Launch<K, S> {
    /// Runs [`CacheGet`].
    Get(Lookups<K>),
    /// Runs [`CacheGetRef`], which writes positions, addresses and outcomes.
    GetRef(BoundedSlice<K>, GlobalSlice<u32>, GlobalSlice<u64>, GlobalSlice<u8>),
    /// Runs [`CacheContains`].
    Contains(BoundedSlice<K>, GlobalSlice<u8>),
    /// Runs [`CacheGetConcurrent`].
    GetConcurrent(Lookups<K>),
    /// Runs [`CacheContainsConcurrent`].
    ContainsConcurrent(BoundedSlice<K>, GlobalSlice<u8>),
    /// Runs [`CacheInsert`].
    Insert(Changes<K, S>),
    /// Runs [`CacheInsertEvict`].
    InsertEvict(Changes<K, S>, Evicted<K, S>),
    /// Runs [`CacheGetOrInsert`].
    GetOrInsert(Changes<K, S>, RowSlice),
    /// Runs [`CacheAccumulate`].
    Accumulate(Changes<K, S>, Element),
    /// Runs [`CacheAssign`].
    Assign(Changes<K, S>),
    /// Runs [`CacheGetAndTouch`].
    GetAndTouch(Changes<K, S>, RowSlice),
    /// Runs [`CacheRemove`].
    Remove(Changes<K, S>),
    /// Runs [`CacheCount`].
    Count(Filter<K, S>, GlobalSlice<u64>),
    /// Runs [`CacheExport`].
    Export(Filter<K, S>, Span, Evicted<K, S>, Chunk),
    /// Runs [`CacheRemoveIf`].
    RemoveIf(Filter<K, S>, GlobalSlice<u64>),
    /// Runs [`CachePromote`].
    Promote(u32, S, GlobalSlice<u64>),
    /// Runs [`CacheSample`].
    Sample(GlobalSlice<S>),
    /// Runs [`CacheSetBounds`].
    SetBounds(GlobalSlice<S>),
    /// Runs [`CacheClassify`].
    Classify,
}

impl<K: Word, S: Word> Launch<K, S> {
    /// Returns whether the launch may take slots from keys. These launches run alone.
    pub fn frees_slots(&self) -> bool {
        match self {
            Self::Get(_) | Self::Contains(..) | Self::Count(..) | Self::Export(..) => false,
            Self::GetConcurrent(_) | Self::ContainsConcurrent(..) | Self::GetRef(..) => false,
            Self::Assign(_) | Self::GetAndTouch(..) => false,
            Self::Sample(_) | Self::SetBounds(_) | Self::Classify => false,
            Self::Insert(_) | Self::InsertEvict(..) | Self::GetOrInsert(..) | Self::Accumulate(..) => true,
            Self::Remove(_) | Self::RemoveIf(..) | Self::Promote(..) => true,
        }
    }

    /// Returns the elements of a batch that changes scores or keys.
    pub fn changes_mut(&mut self) -> Option<&mut Changes<K, S>> {
        match self {
            Self::Insert(batch)
            | Self::InsertEvict(batch, _)
            | Self::GetOrInsert(batch, _)
            | Self::Accumulate(batch, _)
            | Self::Assign(batch)
            | Self::GetAndTouch(batch, _)
            | Self::Remove(batch) => Some(batch),
            _ => None,
        }
    }

    /// Returns the number of threads for a table of `buckets` buckets.
    fn threads(mut self, buckets: u32) -> usize {
        if let Some(batch) = self.changes_mut() {
            return batch.keys.max_len();
        }
        let buckets = match self {
            Self::Get(batch) | Self::GetConcurrent(batch) => return batch.keys.max_len(),
            Self::Contains(keys, _) | Self::ContainsConcurrent(keys, _) => return keys.max_len(),
            Self::GetRef(keys, ..) => return keys.max_len(),
            Self::Sample(samples) | Self::SetBounds(samples) => return samples.len().max(CLASSES),
            Self::Export(_, span, ..) => span.count.min(buckets),
            _ => buckets,
        };
        // A warp reads a bucket.
        buckets as usize * (SLOTS as usize / 4)
    }
}

/// Launches on tables of one kind.
pub trait Kernels<K, S>: Send + Sync {
    /// Returns an owned copy, which takes no memory.
    fn boxed(&self) -> Box<dyn Kernels<K, S>>;

    /// Returns the kind's name.
    fn name(&self) -> &'static str;

    /// Returns the kind as a type.
    fn kind(&self) -> TypeId;

    /// Returns the name of the kind's score policy, or `None` if it is that of the library's rules.
    fn own_policy(&self) -> Option<&'static str>;

    /// Submits a launch. `leased` has the bits of the leased slots, if there are leases.
    ///
    /// # Safety
    /// - The memory and the slices of the launch live until the stream has executed it. Each slice is as
    ///   long as the launch requires.
    /// - Launches of groups that exclude each other under the table's lock do not run at the same time. Those
    ///   that run beside others have `Concurrent` in their names, and the memory has versions.
    unsafe fn launch(
        &self,
        stream: &Stream,
        memory: &Memory<K, S>,
        leased: Option<GlobalSlice<u32>>,
        launch: Launch<K, S>,
    ) -> gpu::Result<()>;

    /// Returns the words of the memory's view for [`Self::get_of_many`].
    ///
    /// # Safety
    /// - The memory is not dropped while kernels use them.
    unsafe fn view_words(&self, memory: &Memory<K, S>) -> [u64; VIEW_WORDS];

    /// Submits [`CacheGetOfMany`] with the words of the tables' views.
    ///
    /// # Safety
    /// - As for [`Self::launch`], for each of the tables, which are of this kind.
    unsafe fn get_of_many(
        &self,
        stream: &Stream,
        views: GlobalSlice<u64>,
        sections: Sections,
        batch: LookupsOfMany<K>,
    ) -> gpu::Result<()>;
}

variants! {
    /// Returns the kernels of all kinds with these types of keys and scores, the defaults first.
    all: Kernels, cache, Config, Score
}

impl<C: Config + Instance> Kernels<C::Key, C::Score> for VariantTag<C> {
    fn boxed(&self) -> Box<dyn Kernels<C::Key, C::Score>> {
        Box::new(Self::NEW)
    }

    fn name(&self) -> &'static str {
        C::NAME
    }

    fn kind(&self) -> TypeId {
        TypeId::of::<C>()
    }

    fn own_policy(&self) -> Option<&'static str> {
        (TypeId::of::<C::Policy>() != TypeId::of::<BuiltIn>()).then_some(C::Policy::NAME)
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        memory: &Memory<C::Key, C::Score>,
        leased: Option<GlobalSlice<u32>>,
        launch: Launch<C::Key, C::Score>,
    ) -> gpu::Result<()> {
        let grid = Grid::for_items(launch.threads(memory.shape().buckets), THREADS);
        // SAFETY: the caller's obligations. The grid has a thread for every element, or whole warps.
        unsafe {
            let view = memory.view::<C>();
            let view = leased.map_or(view, |leased| view.with_leases(leased));
            match launch {
                Launch::Get(batch) => stream.launch(grid, CacheGet { view, batch }),
                Launch::Contains(keys, outcomes) => {
                    stream.launch(grid, CacheContains { view, keys, outcomes })
                }
                Launch::GetRef(keys, positions, addresses, outcomes) => {
                    stream.launch(grid, CacheGetRef { view, keys, positions, addresses, outcomes })
                }
                Launch::GetConcurrent(batch) => stream.launch(grid, CacheGetConcurrent { view, batch }),
                Launch::ContainsConcurrent(keys, outcomes) => {
                    stream.launch(grid, CacheContainsConcurrent { view, keys, outcomes })
                }
                Launch::Insert(batch) => stream.launch(grid, CacheInsert { view, batch }),
                Launch::InsertEvict(batch, evicted) => {
                    stream.launch(grid, CacheInsertEvict { view, batch, evicted })
                }
                Launch::GetOrInsert(batch, to) => stream.launch(grid, CacheGetOrInsert { view, batch, to }),
                Launch::Accumulate(batch, element) => {
                    stream.launch(grid, CacheAccumulate { view, batch, element })
                }
                Launch::Assign(batch) => stream.launch(grid, CacheAssign { view, batch }),
                Launch::GetAndTouch(batch, to) => stream.launch(grid, CacheGetAndTouch { view, batch, to }),
                Launch::Remove(batch) => stream.launch(grid, CacheRemove { view, batch }),
                Launch::Count(filter, count) => stream.launch(grid, CacheCount { view, filter, count }),
                Launch::Export(filter, span, output, chunk) => {
                    stream.launch(grid, CacheExport { view, span, filter, output, chunk })
                }
                Launch::RemoveIf(filter, count) => stream.launch(grid, CacheRemoveIf { view, filter, count }),
                Launch::Promote(most, least, count) => {
                    stream.launch(grid, CachePromote { view, most, least, count })
                }
                Launch::Sample(samples) => stream.launch(grid, CacheSample { view, samples }),
                Launch::SetBounds(samples) => stream.launch(grid, CacheSetBounds { view, samples }),
                Launch::Classify => stream.launch(grid, CacheClassify { view }),
            }
        }
    }

    unsafe fn view_words(&self, memory: &Memory<C::Key, C::Score>) -> [u64; VIEW_WORDS] {
        // SAFETY: the caller's obligation.
        unsafe { memory.view::<C>() }.to_words()
    }

    unsafe fn get_of_many(
        &self,
        stream: &Stream,
        views: GlobalSlice<u64>,
        sections: Sections,
        batch: LookupsOfMany<C::Key>,
    ) -> gpu::Result<()> {
        let grid = Grid::for_items(sections.threads(1), THREADS);
        // SAFETY: the caller's obligations. The grid has the sections' warps.
        unsafe { stream.launch(grid, CacheGetOfMany::<C> { views, sections, batch }) }
    }
}
