//! Operations on the whole graph: builds, flush, expiry, and vertices.
use super::DynamicGraph;
use super::algorithms::PartBuffers;
use super::data::{Data, Weight};
use super::kernels::{Launch, Whole};
use super::memory::Memory;
#[allow(unused_imports)] // for links in the documentation
use crate::Error;
use crate::map::batches::slice;
use crate::map::check;
use crate::map::counts::Counts;
use crate::map::launch::nothing;
use crate::{Outcome, Outcomes, Result};
use gpu::{AsSlice, OptionalSliceMut, Stream};
use phalanx_kernels::graph::algorithms::PartList;
use phalanx_kernels::graph::{BATCH_WORDS, Changes, EXACT, Growth, RECORD_SLOTS};
use simt::GlobalSlice;
use std::collections::HashSet;

/// Returns the vertices that have the code of `Removed`.
fn removed_of(vertices: &[u32], codes: &[u8]) -> Vec<u32> {
    let removed = vertices.iter().zip(codes).filter(|(_, code)| **code == Outcome::Removed as u8);
    removed.map(|(&vertex, _)| vertex).collect()
}

/// Allocates a list for the parts of all tables: a table has two buckets at least.
pub(super) fn parts_of_tables(memory: &Memory, stream: &Stream) -> Result<PartBuffers> {
    PartBuffers::new(stream.device(), memory.used_tables()? / 2)
}

impl<E: Data> DynamicGraph<E> {
    /// Drops the slots of removed edges, and gives each vertex the memory that its edges need: small vertices
    /// are compacted, tables get a load of at most 0.7. A vertex with a table keeps one, of two buckets at
    /// least. If there is no room for a new table, the vertex keeps its memory.
    ///
    /// ```
    /// use phalanx::DynamicGraph;
    ///
    /// let mut graph = DynamicGraph::<()>::builder().vertices(100).build()?;
    /// assert!(graph.insert(&[0; 20], &(1..21).collect::<Vec<_>>())?.all_placed());
    /// assert_eq!(graph.remove(&[0; 18], &(1..19).collect::<Vec<_>>())?.len(), 18);
    /// graph.flush()?;
    /// assert_eq!((graph.stats()?.slabs, graph.neighbors(&[0])?.of(0).len()), (0, 2));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: waits; reads all vertices, and moves the edges of tables of another size or with tombstones.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn flush(&mut self) -> Result<()> {
        self.handle.exclusive(|stream, memory| self.flush_in(stream, memory))?;
        self.order().workspace.trim()
    }

    /// [`Self::flush`] for a caller with exclusive access.
    pub(super) fn flush_in(&self, stream: &Stream, memory: &Memory) -> Result<()> {
        let growth = self.exact_growth(stream, memory, self.most_large(memory, 0)?)?;
        self.launch_on(stream, memory, Launch::Whole(Whole::Flush(growth)))?;
        self.grow_exactly(stream, memory, growth)
    }

    /// Returns the maximum number of records that have tables, or would have with `more` more edges.
    fn most_large(&self, memory: &Memory, more: usize) -> Result<usize> {
        memory.most_large(more, RECORD_SLOTS as usize + self.handle.kernels().shape().slab_slots)
    }

    /// Returns the workspace for the growth of at most `listed` vertices, whose counts are 0.
    pub(super) fn exact_growth(&self, stream: &Stream, memory: &Memory, listed: usize) -> Result<Growth> {
        let mut order = self.order();
        order.changes += 1;
        order.workspace.fit((0, listed), memory)?;
        let load = EXACT | order.workspace.load.exact;
        let growth = Growth { load, ..order.workspace.growth() };
        // SAFETY: the caller has exclusive access to the graph.
        unsafe { stream.fill(growth.words.part(0, BATCH_WORDS), 0)? };
        Ok(growth)
    }

    /// Runs the growth of the listed vertices.
    pub(super) fn grow_exactly(&self, stream: &Stream, memory: &Memory, growth: Growth) -> Result<()> {
        let threads = self.device().resident_threads() as usize;
        self.launch_on(stream, memory, Launch::Plan(growth, threads))?;
        self.launch_on(stream, memory, Launch::Move(growth, threads))?;
        self.launch_on(stream, memory, Launch::Install(growth, threads))
    }

    /// Launches a kernel for a caller that has the access to the graph that the kernel needs.
    pub(super) fn launch_on(&self, stream: &Stream, memory: &Memory, launch: Launch<E::Bits>) -> Result<()> {
        // SAFETY: callers have exclusive access to the graph, or submit in the order of batches. Dropping the
        // buffers of slices waits for the launches.
        unsafe { Ok(self.handle.kernels().launch(stream, memory, launch)?) }
    }

    /// Lets the vertices of a batch on the host grow to the size that they will have.
    pub(super) fn expect(&mut self, sources: &[u32], targets: &[u32]) -> Result<()> {
        check("targets", sources.len(), targets.len())?;
        let slices = [self.device().from_slice(sources)?, self.device().from_slice(targets)?];
        self.expect_edges(slices[0].global(), slices[1].global())
    }

    /// Lets the vertices of a batch grow to the size that they will have, and allocates the tables.
    pub(super) fn expect_edges(
        &mut self,
        sources: GlobalSlice<u32>,
        targets: GlobalSlice<u32>,
    ) -> Result<()> {
        let counts = self.device().zeroed::<u32>(self.handle.read().record_count())?;
        let (data, outcomes) = (nothing(), nothing());
        let edges = Changes { sources: sources.into(), targets, data, outcomes, each: 1 };
        self.handle.exclusive(|stream, memory| {
            self.launch_on(stream, memory, Launch::Whole(Whole::Count(edges, counts.global())))?;
            // At most twice: the second time the arena has room for all.
            for _ in 0..2 {
                let most = self.most_large(memory, targets.len())?;
                let growth = self.exact_growth(stream, memory, most)?;
                self.launch_on(stream, memory, Launch::Whole(Whole::Expect(counts.global(), growth)))?;
                self.grow_exactly(stream, memory, growth)?;
                stream.synchronize()?;
                let lacking = self.order().workspace.take_shortage()?.no_table;
                if lacking == 0 || self.is_fixed {
                    break;
                }
                memory.grow_arena(lacking)?;
            }
            Ok(())
        })
    }

    /// Removes all edges. Vertices stay, and removed ones stay removed. The memory stays with the graph.
    ///
    /// ```
    /// let mut graph = phalanx::DynamicGraph::<()>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0, 1], &[1, 2])?.all_placed());
    /// graph.clear()?;
    /// assert_eq!((graph.edge_count()?, graph.vertices()), (0, 3));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: waits; four launches, which read all records and write all slabs; 5 bytes per vertex and 8 per
    /// two slabs of the arena meanwhile.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory; then the graph is as before.
    pub fn clear(&mut self) -> Result<()> {
        self.handle.exclusive(|stream, memory| {
            self.order().changes += 1;
            let mut exists = vec![true; memory.vertices as usize];
            memory.free_ids.iter().for_each(|&vertex| exists[vertex as usize] = false);
            let vertices = (0..memory.vertices).filter(|&vertex| exists[vertex as usize]).collect::<Vec<_>>();
            let ids = stream.device().from_slice(&vertices)?;
            let codes = stream.device().filled::<u8>(vertices.len(), Outcome::Removed as u8)?;
            let (ids, codes) = (ids.global(), codes.global());
            let buffers = parts_of_tables(memory, stream)?;
            let parts = buffers.slices();
            // The last step that can fail on a device that is not lost.
            memory.counters.fill_bytes(0)?;
            self.launch_on(stream, memory, Launch::Whole(Whole::ListParts(Some((ids, codes)), parts)))?;
            self.free_vertices(stream, memory, (ids, codes), parts)?;
            self.launch_on(stream, memory, Launch::Whole(Whole::Restore(ids)))?;
            Ok(stream.synchronize()?)
        })
    }

    /// Removes vertices, and all their edges in both directions. Outcomes: `Removed`, `Absent`. Their ids are
    /// reused by [`Self::insert_vertices`]; until then edges of them are refused.
    ///
    /// ```
    /// use phalanx::{DynamicGraph, Outcome};
    ///
    /// let mut graph = DynamicGraph::<()>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0, 1], &[1, 2])?.all_placed());
    /// assert_eq!(graph.remove_vertices(&[1, 1, 7])?.count(Outcome::Removed), 1);
    /// assert_eq!((graph.edge_count()?, graph.vertex_count()), (0, 2));
    /// assert_eq!(graph.insert(&[0], &[1])?, [Outcome::Refused]);
    /// assert_eq!(graph.insert_vertices(2)?, [1, 3]);
    /// assert!(graph.insert(&[0, 3], &[1, 0])?.all_placed());
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: waits; five or six launches, in which a vertex with many edges is served by many warps; 8 bytes
    /// per two slabs of the arena meanwhile. In an undirected graph, and in a directed one with
    /// [`Builder::in_edges`](super::Builder::in_edges), the edges of the vertices are read, and removed at
    /// their other ends; in another directed graph all edges of the graph are read.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory. Unless it is lost, the graph is then as
    /// before, or, if only the outcomes cannot be copied, all these vertices are removed.
    pub fn remove_vertices(&mut self, vertices: &[u32]) -> Result<Outcomes> {
        let ids = self.device().from_slice(vertices)?;
        let codes = self.device().zeroed::<u8>(vertices.len())?;
        self.handle.exclusive(|stream, memory| {
            self.order().changes += 1;
            memory.mark_vertices()?;
            let (ids, codes) = (ids.global(), codes.global());
            let (buffers, is_stored_twice) = (parts_of_tables(memory, stream)?, memory.halves() == 2);
            let list = |vertices, parts| {
                self.launch_on(stream, memory, Launch::Whole(Whole::ListParts(vertices, parts)))
            };
            let (mut parts, removed) = (buffers.slices(), Some((ids, codes)));
            self.launch_on(stream, memory, Launch::Whole(Whole::MarkRemoved(ids, codes)))?;
            list(removed.filter(|_| is_stored_twice), parts)?;
            self.launch_on(stream, memory, Launch::Whole(Whole::Unlink(ids, codes, parts)))?;
            if !is_stored_twice {
                // Those of all vertices were listed.
                parts = buffers.other_slices();
                list(removed, parts)?;
            }
            self.free_vertices(stream, memory, (ids, codes), parts)
        })?;
        let codes = codes.read();
        let removed = match &codes {
            Ok(codes) => removed_of(vertices, codes),
            Err(_) => self.existing(vertices),
        };
        self.handle.get_mut().free_ids.extend(removed);
        let outcome = |code: u8| Outcome::from_code(code).unwrap_or(Outcome::Absent);
        let outcomes: Vec<Outcome> = codes?.into_iter().map(outcome).collect();
        Ok(outcomes.into())
    }

    /// Returns those of the vertices that exist by the host's list, each once.
    fn existing(&self, vertices: &[u32]) -> Vec<u32> {
        let memory = self.handle.read();
        let mut seen: HashSet<u32> = memory.free_ids.iter().copied().collect();
        vertices.iter().copied().filter(|&id| id < memory.vertices && seen.insert(id)).collect()
    }

    /// Blanks the vertices whose code is that of `Removed`, and frees their memory. `parts` lists those of
    /// their tables.
    fn free_vertices(
        &self,
        stream: &Stream,
        memory: &Memory,
        (ids, codes): (GlobalSlice<u32>, GlobalSlice<u8>),
        parts: PartList,
    ) -> Result<()> {
        self.launch_on(stream, memory, Launch::Whole(Whole::FreeParts(parts)))?;
        self.launch_on(stream, memory, Launch::Whole(Whole::FreeRemoved(ids, codes)))
    }

    /// Adds vertices without edges, and returns their ids: those of removed vertices first, then new ones.
    ///
    /// ```
    /// let mut graph = phalanx::DynamicGraph::<()>::builder().vertices(3).build()?;
    /// assert_eq!(graph.insert_vertices(2)?, [3, 4]);
    /// assert_eq!(graph.vertices(), 5);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: waits; a launch for ids that are reused; for new ids a larger array of records, into which the
    /// old one is copied.
    ///
    /// # Errors
    /// [`Error::TooLarge`] for more than 2^32 - 4 vertices; [`Error::Device`] if the device is lost or lacks
    /// the memory. The graph is then as before.
    pub fn insert_vertices(&mut self, count: usize) -> Result<Vec<u32>> {
        self.handle.exclusive(|stream, memory| {
            let before = memory.vertices;
            let reused = count.min(memory.free_ids.len());
            let rest = memory.free_ids.len() - reused;
            let ids = stream.device().from_slice(&memory.free_ids[rest..])?;
            if count > reused {
                memory.add_vertices(count - reused)?;
            }
            self.launch_on(stream, memory, Launch::Whole(Whole::Restore(ids.global())))?;
            stream.synchronize()?;
            self.order().changes += 1;
            let mut vertices = memory.free_ids.split_off(rest);
            vertices.reverse();
            vertices.extend(before..memory.vertices);
            Ok(vertices)
        })
    }

    /// Returns the number of vertices that exist.
    pub fn vertex_count(&self) -> usize {
        let memory = self.handle.read();
        memory.vertices as usize - memory.free_ids.len()
    }
}

impl DynamicGraph<()> {
    /// Inserts many edges, as [`Self::insert`] does, but lets each vertex first grow to the size that it will
    /// have, so that no edge is moved. For the first edges of a graph.
    ///
    /// ```
    /// let mut graph = phalanx::DynamicGraph::<()>::builder().vertices(100).build()?;
    /// assert!(graph.bulk_build(&[0; 99], &(1..100).collect::<Vec<_>>())?.all_placed());
    /// assert_eq!(graph.degree(&[0])?, [99]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: copies the edges to the device twice; two launches that count them, and three for growth, beside
    /// those of `insert`; 4 bytes per vertex meanwhile.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn bulk_build(&mut self, sources: &[u32], targets: &[u32]) -> Result<Outcomes> {
        self.expect(sources, targets)?;
        let outcomes = self.insert(sources, targets)?;
        self.order().workspace.trim()?;
        Ok(outcomes)
    }

    /// Inserts many edges that are on the device: see [`Self::bulk_build`]. As in all calls on device
    /// buffers, edges for which the pool has no slab are refused; vertices get their tables.
    ///
    /// ```
    /// let mut graph = phalanx::DynamicGraph::<()>::builder().vertices(100).edges(99).build()?;
    /// let device = graph.device().clone();
    /// let (sources, targets) = (device.zeroed(99)?, device.from_slice(&(1..100).collect::<Vec<u32>>())?);
    /// graph.bulk_build_on_device(&sources, &targets, None)?;
    /// assert_eq!(graph.degree(&[0])?, [99]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: as [`Self::bulk_build`], without the copies; waits.
    ///
    /// # Errors
    /// [`Error::Length`] if lengths differ; [`Error::TooLarge`] for 2^31 edges or more, or if the arena
    /// cannot have the tables; [`Error::OtherDevice`] if a buffer is of another device; [`Error::Device`] if
    /// the device is lost or lacks the memory.
    pub fn bulk_build_on_device(
        &mut self,
        sources: impl AsSlice<u32>,
        targets: impl AsSlice<u32>,
        outcomes: impl OptionalSliceMut<u8>,
    ) -> Result<()> {
        let (stream, sources, targets) = (self.device().stream()?, sources.view(), targets.view());
        let device = self.device().clone();
        let ids = slice(&device, "sources", sources, sources.len())?;
        let others = slice(&device, "targets", targets, sources.len())?;
        self.expect_edges(ids, others)?;
        let most = self.most_deferred(ids.len())?;
        self.on(&stream).with_most_listed(most).insert(sources, targets, outcomes)?;
        stream.synchronize()?;
        self.order().workspace.trim()
    }

    /// Returns the maximum number of records of which an insertion of so many edges defers some.
    fn most_deferred(&self, edges: usize) -> Result<usize> {
        let memory = self.handle.read();
        match Counts::read(&memory.counters)?.removed() {
            0 => self.most_large(&memory, edges),
            // A small record that is full of tombstones may also wait for growth.
            _ => Ok(usize::MAX),
        }
    }
}

impl<E: Weight> DynamicGraph<E> {
    /// Inserts many edges, as [`Self::insert`] does, but lets each vertex first grow to the size that it will
    /// have, so that no edge is moved. For the first edges of a graph.
    ///
    /// ```
    /// let mut graph = phalanx::DynamicGraph::<u32>::builder().vertices(3).build()?;
    /// assert!(graph.bulk_build(&[0, 1], &[1, 2], &[5, 6])?.all_placed());
    /// assert_eq!(graph.weight(&[1], &[2])?, [Some(6)]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: copies the edges to the device twice; two launches that count them, and three for growth, beside
    /// those of `insert`; 4 bytes per vertex meanwhile.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn bulk_build(&mut self, sources: &[u32], targets: &[u32], data: &[E]) -> Result<Outcomes> {
        self.expect(sources, targets)?;
        let outcomes = self.insert(sources, targets, data)?;
        self.order().workspace.trim()?;
        Ok(outcomes)
    }
}

impl DynamicGraph<u64> {
    /// Removes the edges with a timestamp below `before`, and returns their number.
    ///
    /// ```
    /// let graph = phalanx::DynamicGraph::<u64>::builder().vertices(3).build()?;
    /// assert!(graph.insert(&[0, 1], &[1, 2], &[100, 200])?.all_placed());
    /// assert_eq!(graph.expire(150)?, 1);
    /// assert_eq!(graph.has_edge(&[0, 1], &[1, 2])?, [false, true]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: one launch, which reads all slots, by four threads per vertex; waits.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost or lacks the memory.
    pub fn expire(&self, before: u64) -> Result<usize> {
        let stream = self.device().stream()?;
        let (before, removed) = (self.device().from_slice(&[before])?, self.device().zeroed::<u64>(1)?);
        {
            let memory = self.handle.read();
            self.order().change(&stream, |_| {
                self.launch_on(
                    &stream,
                    &memory,
                    Launch::Whole(Whole::Expire(before.global(), removed.global())),
                )
            })?;
        }
        Ok(removed.read()?[0] as usize)
    }
}
