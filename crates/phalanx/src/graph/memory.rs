//! The device memory of a graph.
use super::kernels::Shape;
use crate::map::counts::Counts;
use crate::map::host::pinned_words;
use crate::slab_alloc::SlabAlloc;
use crate::{Error, Result};
use gpu::{Buffer, Device, Stream, Tier};
use phalanx_kernels::graph::algorithms::PartList;
use phalanx_kernels::graph::{
    ARENA_COUNTS, ARENA_FIRSTS, ARENA_HEAD, Arena, BATCH_WORDS, CLASSES, Config, EXACT_LOAD, Flags,
    GROWTH_LOAD, GROWTH_WORDS, GraphParts, GraphView, Growth, GrowthWord, MOST_ARENA, PLAN_WORDS, SLAB_BYTES,
    buckets_of, places_of,
};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS};
use simt::GlobalSlice;

/// Number of words of the counters.
const COUNTER_WORDS: usize = COUNTER_SHARDS * SHARD_WORDS;

/// Words of 8 bytes in a slab.
const SLAB_WORDS: usize = SLAB_BYTES / 8;

/// Maximum number of vertices: the ids above are patterns of slots without an edge.
pub const MOST_VERTICES: usize = u32::MAX as usize - 3;

/// Records, slabs and tables of a graph.
#[derive(Debug)]
pub struct Memory {
    pub vertices: u32,
    records: Buffer<u64>,
    arena: Buffer<u64>,
    arena_state: Buffer<u32>,
    pub counters: Buffer<u64>,
    pub pool: SlabAlloc,
    pub flags: Flags,
    /// A bit for each vertex that was removed; empty if none ever was.
    removed: Buffer<u32>,
    /// Ids of removed vertices.
    pub free_ids: Vec<u32>,
    /// Number of times that pool or arena have grown.
    pub generation: u64,
}

impl Memory {
    /// Allocates the memory of a graph without edges, with an arena of `tables` slabs.
    pub fn new(
        device: &Device,
        (shape, flags): (Shape, Flags),
        vertices: usize,
        tables: usize,
        pool: SlabAlloc,
    ) -> Result<Self> {
        check_arena(tables)?;
        let has_in = usize::from(flags.has_in_edges());
        Ok(Self {
            vertices: vertices as u32,
            records: device.filled((vertices << has_in) * shape.record_bytes / 8, 0xff)?,
            arena: device.filled(tables * SLAB_WORDS, 0xff)?,
            arena_state: arena_state(device, tables)?,
            counters: device.zeroed(COUNTER_WORDS)?,
            pool,
            flags,
            removed: device.buffer(0)?,
            free_ids: Vec::new(),
            generation: 0,
        })
    }

    /// Returns the graph as kernels of the kind `M` take it.
    ///
    /// # Safety
    /// - The graph is of this kind. Its memory is neither dropped, replaced nor grown while the view is used.
    pub unsafe fn view<M: Config>(&self) -> GraphView<M> {
        let tables = self.tables() as u32;
        // SAFETY: the caller's obligations; the buffers have these sizes.
        unsafe {
            let arena = Arena::new(self.arena.pointer(), self.arena_state.pointer(), tables);
            let (records, counters) = (self.records.pointer(), self.counters.pointer());
            let (pool, removed) = (self.pool.as_view(), self.removed.global());
            let parts = GraphParts { records, arena, counters, pool, removed };
            GraphView::new(parts, self.vertices, self.flags)
        }
    }

    /// Returns the number of halves as which an edge is stored.
    pub fn halves(&self) -> usize {
        1 + usize::from(self.flags.is_undirected() || self.flags.has_in_edges())
    }

    /// Returns the number of records.
    pub fn record_count(&self) -> usize {
        (self.vertices as usize) << usize::from(self.flags.has_in_edges())
    }

    /// Returns the maximum number of records that have tables, or would have with `more` more edges, if a
    /// small one has room for `room` of them. Waits for the device.
    pub fn most_large(&self, more: usize, room: usize) -> Result<usize> {
        if self.halves() > 1 {
            // Kernels of one's own may leave single halves, which are not counted.
            return Ok(self.record_count());
        }
        let edges = Counts::read(&self.counters)?.live.saturating_add(more);
        Ok(self.record_count().min(self.used_tables()? / 2 + edges / (room + 1)))
    }

    /// Returns the maximum number of vertices of a graph with these properties.
    pub fn most_vertices(flags: Flags) -> usize {
        MOST_VERTICES >> usize::from(flags.has_in_edges())
    }

    /// Returns the number of slabs of the arena.
    pub fn tables(&self) -> usize {
        self.arena.len() / SLAB_WORDS
    }

    /// Returns the number of slabs of the arena that have been in tables. Waits for the device.
    pub fn used_tables(&self) -> Result<usize> {
        let mut used = [0];
        self.arena_state.read_into(0, &mut used)?;
        Ok(used[0] as usize)
    }

    /// Returns the number of free tables of each class. Waits for the device.
    fn free_of_classes(&self) -> Result<[u32; CLASSES as usize]> {
        let mut free = [0; CLASSES as usize];
        self.arena_state.read_into(ARENA_COUNTS, &mut free)?;
        Ok(free)
    }

    /// Returns the number of slabs of the arena in free tables. Waits for the device.
    pub fn free_tables(&self) -> Result<usize> {
        let slabs = |(many, class)| many as usize * buckets_of(class) as usize;
        Ok(self.free_of_classes()?.into_iter().zip(0..).map(slabs).sum())
    }

    pub fn memory_usage(&self) -> usize {
        self.records.byte_len()
            + self.arena.byte_len()
            + self.arena_state.byte_len()
            + self.counters.byte_len()
            + self.removed.byte_len()
            + self.pool.memory_usage()
    }

    /// Adds `slabs` slabs to the arena: a larger block, and a copy. Nothing else may run.
    pub fn grow_arena(&mut self, slabs: usize) -> Result<()> {
        let tables = self.tables().saturating_add(slabs);
        check_arena(tables)?;
        let mut arena = self.arena.device().filled(tables * SLAB_WORDS, 0xff)?;
        arena.copy_at(0, &self.arena)?;
        let mut state = arena_state(arena.device(), tables)?;
        state.copy_at(0, self.arena_state.slice(..ARENA_FIRSTS)?)?;
        let (before, now) = (places_of(self.tables() as u32).0, places_of(tables as u32).0);
        for (class, many) in self.free_of_classes()?.into_iter().enumerate() {
            let (from, to) = (ARENA_HEAD + before[class] as usize, ARENA_HEAD + now[class] as usize);
            if many > 0 {
                state.copy_at(to, self.arena_state.slice(from..from + many as usize)?)?;
            }
        }
        (self.arena, self.arena_state) = (arena, state);
        self.generation += 1;
        Ok(())
    }

    /// Allocates the bits of removed vertices, unless they are there. Nothing else may run.
    pub fn mark_vertices(&mut self) -> Result<()> {
        if self.removed.is_empty() {
            self.removed = self.arena.device().zeroed((self.vertices as usize).div_ceil(32))?;
        }
        Ok(())
    }

    /// Adds vertices with new ids: a larger array of records, and a copy. Nothing else may run.
    pub fn add_vertices(&mut self, more: usize) -> Result<()> {
        let (before, device) = (self.vertices as usize, self.arena.device().clone());
        let vertices = before.saturating_add(more);
        let most = Self::most_vertices(self.flags);
        if vertices > most {
            return Err(Error::TooLarge { what: "vertices", asked: vertices, most });
        }
        let (sides, each) = (self.record_count() / before, self.records.len() / self.record_count());
        let mut records = device.filled(sides * vertices * each, 0xff)?;
        for side in 0..sides {
            let old = self.records.slice(side * before * each..(side + 1) * before * each)?;
            records.copy_at(side * vertices * each, old)?;
        }
        if !self.removed.is_empty() {
            let mut removed = device.zeroed(vertices.div_ceil(32))?;
            removed.copy_at(0, &self.removed)?;
            self.removed = removed;
        }
        (self.records, self.vertices) = (records, vertices as u32);
        Ok(())
    }

    /// Adds slabs to the pool. Nothing else may run.
    pub fn grow_pool(&mut self, slabs: usize) -> Result<()> {
        self.pool.grow(slabs)?;
        self.generation += 1;
        Ok(())
    }
}

/// Allocates the state of an arena without tables.
fn arena_state(device: &Device, tables: usize) -> Result<Buffer<u32>> {
    let (firsts, places) = places_of(tables as u32);
    let mut state = device.zeroed::<u32>(ARENA_HEAD + places as usize)?;
    state.write_at(ARENA_FIRSTS, &firsts)?;
    Ok(state)
}

/// Returns an error if an arena cannot have this number of slabs.
fn check_arena(tables: usize) -> Result<()> {
    let most = MOST_ARENA as usize;
    if tables <= most {
        return Ok(());
    }
    Err(Error::TooLarge { what: "slabs of tables", asked: tables, most })
}

/// Memory of batches that insert, which the graph keeps.
#[derive(Debug)]
pub struct Workspace {
    words: Buffer<u32>,
    deferred: Buffer<u32>,
    listed: Buffer<u32>,
    plans: Buffer<u32>,
    groups: Buffer<u64>,
    pub load: Load,
}

/// Load of new tables, in tenths.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// That of vertices that grow in a batch.
    pub growth: u32,
    /// That of vertices whose number of edges is known.
    pub exact: u32,
}

impl Load {
    /// Returns this load for all tables, or the default ones.
    pub fn of(load: Option<f64>) -> Result<Self> {
        match load {
            None => Ok(Self { growth: GROWTH_LOAD, exact: EXACT_LOAD }),
            Some(load) if (0.1..=MOST_LOAD).contains(&load) => {
                let tenths = (load * 10.0).round() as u32;
                Ok(Self { growth: tenths, exact: tenths })
            }
            Some(asked) => Err(Error::TableLoad { asked, most: MOST_LOAD }),
        }
    }

    /// Returns the larger one.
    pub fn most(self) -> f64 {
        f64::from(self.growth.max(self.exact)) / 10.0
    }
}

/// Maximum load of tables: chains of this many slabs on average, of at most 64.
const MOST_LOAD: f64 = 8.0;

impl Workspace {
    pub fn new(device: &Device, load: Load) -> Result<Self> {
        Ok(Self {
            load,
            words: device.zeroed(GROWTH_WORDS)?,
            deferred: device.buffer(0)?,
            listed: device.buffer(0)?,
            plans: device.buffer(0)?,
            groups: device.buffer(0)?,
        })
    }

    /// Makes room for so many deferred halves and listed vertices. If memory is replaced, waits for the
    /// batches that use it.
    pub fn fit(&mut self, (deferred, listed): (usize, usize), memory: &Memory) -> Result<()> {
        let device = self.words.device().clone();
        let listed = listed.min(memory.record_count());
        if self.deferred.len() < deferred {
            self.deferred = device.buffer(deferred)?;
        }
        if self.listed.len() < listed {
            self.plans = device.buffer(listed * PLAN_WORDS)?;
            self.listed = device.buffer(listed)?;
        }
        // A table has two buckets or more, and one group for each eight of them.
        let groups = memory.tables() / 2;
        if self.groups.len() < groups {
            self.groups = device.buffer(groups)?;
        }
        Ok(())
    }

    /// Frees the memory of lists, after a batch of an unusual size. Waits for the batches that use it.
    pub fn trim(&mut self) -> Result<()> {
        let device = self.words.device().clone();
        (self.deferred, self.listed) = (device.buffer(0)?, device.buffer(0)?);
        (self.plans, self.groups) = (device.buffer(0)?, device.buffer(0)?);
        Ok(())
    }

    /// Returns the memory as kernels take it.
    pub fn growth(&self) -> Growth {
        Growth {
            words: self.words.global(),
            deferred: self.deferred.global(),
            listed: self.listed.global(),
            plans: self.plans.global(),
            groups: self.groups.global(),
            load: self.load.growth,
        }
    }

    /// Returns the number of vertices that were listed since the counts were last 0. Waits for all earlier
    /// launches.
    pub fn listed(&self) -> Result<usize> {
        let mut listed = [0];
        self.words.read_into(GrowthWord::Listed as usize, &mut listed)?;
        Ok(listed[0] as usize)
    }

    /// Reads what batches lacked since the last call. Nothing may run.
    pub fn take_shortage(&mut self) -> Result<Shortage> {
        let words = self.words.read()?;
        let word = |word: GrowthWord| words[word as usize] as usize;
        let shortage = Shortage {
            no_slab: word(GrowthWord::NoSlab),
            not_moved: word(GrowthWord::NotMoved),
            no_table: word(GrowthWord::NoTable),
            long_chain: word(GrowthWord::LongChain),
        };
        self.words.write_at(BATCH_WORDS, &[0; GROWTH_WORDS - BATCH_WORDS])?;
        Ok(shortage)
    }

    pub fn memory_usage(&self) -> usize {
        let lists = self.deferred.byte_len() + self.listed.byte_len() + self.plans.byte_len();
        self.words.byte_len() + lists + self.groups.byte_len()
    }
}

/// Memory of copies into rows, which the graph keeps: 16 bytes per 128 vertices, and 12 per two slabs of
/// tables.
#[derive(Debug)]
pub struct RowSpace {
    stream: Stream,
    /// Stream in which counters are read beside a copy.
    beside: Stream,
    /// Two words for each tile, and one with the number of tiles that have been taken and that of parts.
    words: Buffer<u64>,
    parts: Buffer<u64>,
    cursors: Buffer<u32>,
    /// Memory of the host for the graph's counters and the state of its arena.
    told: (Buffer<u64>, Buffer<u32>),
}

/// The memory of a copy into rows: see `RowCopy`.
pub struct ClearedRows {
    pub parts: PartList,
    pub cursors: GlobalSlice<u32>,
    pub status: GlobalSlice<u64>,
    pub tickets: GlobalSlice<u32>,
}

impl RowSpace {
    /// Returns space without room.
    pub fn new(device: &Device) -> Result<Self> {
        let told = (device.buffer_on(Tier::Pinned, COUNTER_WORDS)?, device.buffer_on(Tier::Pinned, 1)?);
        let (words, parts, cursors) = (device.buffer(1)?, device.buffer(0)?, device.buffer(0)?);
        Ok(Self { stream: device.stream()?, beside: device.stream()?, words, parts, cursors, told })
    }

    /// Makes room for so many tiles of vertices.
    pub fn fit_vertices(&mut self, tiles: usize) -> Result<()> {
        if self.words.len() <= 2 * tiles {
            self.words = self.stream.device().buffer(2 * tiles + 1)?;
        }
        Ok(())
    }

    /// Makes room for so many parts.
    pub fn fit_parts(&mut self, parts: usize) -> Result<()> {
        if !self.has_parts(parts) {
            let device = self.stream.device().clone();
            (self.parts, self.cursors) = (device.buffer(parts)?, device.buffer(parts)?);
        }
        Ok(())
    }

    /// Returns whether there is room for so many parts.
    pub fn has_parts(&self, parts: usize) -> bool {
        self.parts.len() >= parts
    }

    /// Returns the number of edges of the graph, and of slabs of the arena that have been in tables. Waits
    /// for these, but not for a copy.
    pub fn counted(&mut self, memory: &Memory) -> Result<(usize, usize)> {
        let (counters, state) = &mut self.told;
        // SAFETY: only these reads access the memory, and they are waited for, also after an error.
        let (counters, state) = unsafe { (pinned_words(counters), pinned_words(state)) };
        // SAFETY: the slices are borrowed until the stream has executed the reads. It is of this device.
        let submitted = unsafe {
            let first = memory.counters.read_on(&self.beside, 0, counters);
            first.and_then(|()| memory.arena_state.read_on(&self.beside, 0, state))
        };
        self.beside.synchronize()?;
        submitted?;
        Ok((Counts::of(counters).live, state[0] as usize))
    }

    /// Returns the stream of copies.
    pub fn stream(&self) -> Stream {
        self.stream.clone()
    }

    /// Returns the streams of copies and of counters.
    pub fn streams(&self) -> [Stream; 2] {
        [self.stream.clone(), self.beside.clone()]
    }

    /// Submits the fill before a copy, and returns the memory as the kernel takes it.
    ///
    /// # Safety
    /// - Nothing else uses the memory until the copy has ended.
    pub unsafe fn cleared(&self) -> Result<ClearedRows> {
        let (words, tiles) = (self.words.global(), self.words.len() - 1);
        // SAFETY: the caller's obligation.
        unsafe { self.stream.fill(words, 0)? };
        let (status, last) = (words.part(0, tiles), words.part(tiles, 1));
        // SAFETY: the last word as two of four bytes.
        let counts = unsafe { GlobalSlice::from_raw_parts(last.as_ptr().cast(), 2) };
        let parts = PartList { words: self.parts.global(), count: counts.part(1, 1) };
        let (cursors, tickets) = (self.cursors.global(), counts.part(0, 1));
        Ok(ClearedRows { parts, cursors, status, tickets })
    }

    pub fn memory_usage(&self) -> usize {
        self.words.byte_len() + self.parts.byte_len() + self.cursors.byte_len()
    }
}

/// Memory that batches lacked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shortage {
    /// Halves for which the pool had no slab.
    pub no_slab: usize,
    /// Tables that were not filled, because the pool had no slab.
    pub not_moved: usize,
    /// Slabs of tables for which the arena had no room.
    pub no_table: usize,
    /// Halves whose chain had its maximum length.
    pub long_chain: usize,
}

impl Shortage {
    /// Returns whether memory was lacking.
    pub fn is_any(self) -> bool {
        self != Self::default()
    }
}
