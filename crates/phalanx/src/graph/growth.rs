//! Memory for edges that did not fit.
use super::DynamicGraph;
use super::data::Data;
use super::host::Request;
use super::kernels::{Launch, Whole};
use super::memory::{Memory, Shortage};
use crate::map::counts::Counts;
use crate::slab_alloc::first_that_fits;
use crate::{Error, Outcome, Outcomes, Result};
use gpu::Stream;
use phalanx_kernels::graph::Growth;

/// Edges for which a rehash makes room, one size after the other: so many times those of a vertex, in
/// addition to them.
const PRESSURES: [u32; 4] = [0, 1, 3, 7];

/// Elements of a batch that are tried again.
struct Retry<E> {
    sources: Vec<u32>,
    targets: Vec<u32>,
    data: Vec<E>,
}

impl<E: Data> Retry<E> {
    /// Returns the elements with these indices.
    fn of(request: &Request<'_, E>, indices: &[usize]) -> Self {
        let part = |ids: &[u32]| indices.iter().map(|&index| ids[index]).collect();
        let data = if request.data.is_empty() { &[] } else { indices };
        Self {
            sources: part(request.sources),
            targets: part(request.targets),
            data: data.iter().map(|&index| request.data[index]).collect(),
        }
    }
}

/// Runs the elements of a request.
pub type Run<'a, E> = &'a dyn Fn(&Request<'_, E>) -> Result<Vec<Outcome>>;

impl<E: Data> DynamicGraph<E> {
    /// Runs an insertion by `run`. If memory is lacking, adds some and runs the refused elements again.
    pub(super) fn with_memory(&self, request: Request<'_, E>, run: Run<'_, E>) -> Result<Outcomes> {
        let mut generation = self.handle.read().generation;
        let mut outcomes = run(&request)?;
        loop {
            let refused: Vec<usize> =
                (0..outcomes.len()).filter(|&index| outcomes[index] == Outcome::Refused).collect();
            let grown = self.provide(refused.len(), generation);
            let is_grown = match grown {
                Ok(grown) => grown,
                Err(error) if error.is_lack_of_room() && refused.is_empty() => false,
                Err(error) if error.is_lack_of_room() => {
                    return Err(Error::NoRoom { outcomes: outcomes.into(), cause: Some(Box::new(error)) });
                }
                Err(error) => return Err(error),
            };
            if !is_grown || refused.is_empty() {
                return Ok(outcomes.into());
            }
            generation = self.handle.read().generation;
            let retry = Retry::of(&request, &refused);
            let (sources, targets, data) = (&retry.sources[..], &retry.targets[..], &retry.data[..]);
            let again = run(&Request { sources, targets, data, returns: false })?;
            refused.into_iter().zip(again).for_each(|(index, outcome)| outcomes[index] = outcome);
        }
    }

    /// Adds the memory that batches lacked, if any. Returns whether refused elements should be tried again:
    /// if memory was added since generation `seen`.
    fn provide(&self, refused: usize, seen: u64) -> Result<bool> {
        let is_fixed = self.is_fixed;
        self.handle.exclusive(|stream, memory| {
            let shortage = self.order().workspace.take_shortage()?;
            if !shortage.is_any() {
                return Ok(memory.generation != seen);
            }
            if is_fixed {
                return if refused == 0 { Ok(false) } else { Err(no_room(memory, shortage)) };
            }
            grow(memory, shortage, self.handle.kernels().shape().slab_slots)?;
            if shortage.no_table > 0 {
                // Vertices that had no table have long chains.
                self.flush_in(stream, memory)?;
            }
            Ok(true)
        })
    }

    /// Rebuilds the vertices of which a chain has more than `chain` slabs, at least 1: the bucket of a table
    /// and the slabs behind it, or the slabs behind the record of a small vertex. Chains become long where
    /// memory for tables was lacking, and where targets are spread unevenly over the buckets of a table.
    ///
    /// A vertex is rebuilt to the size that its edges need, as by [`Self::flush`]; then, if it still has long
    /// chains, with a table for 2, 4 and 8 times its edges. Returns the number of vertices that still have
    /// longer chains: those whose targets were chosen to lie in one bucket, or for which the memory is fixed.
    /// A later `flush` gives vertices the size that their edges need.
    ///
    /// ```
    /// let mut graph = phalanx::DynamicGraph::<()>::builder().vertices(400).table_slabs(0).build()?;
    /// let device = graph.device().clone();
    /// let (sources, targets) = (device.zeroed::<u32>(399)?, device.from_slice(&Vec::from_iter(1..400))?);
    /// graph.on(&device.stream()?).insert(&sources, &targets, None)?; // allocates no memory for tables
    /// assert!(graph.stats()?.slabs > 10);
    /// assert_eq!(graph.rehash(1)?, 0);
    /// assert_eq!((graph.stats()?.slabs, graph.degree(&[0])?), (0, vec![399]));
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: waits; a launch that reads the first line of each bucket and the lines behind it, by a warp per
    /// vertex, and moves the edges of the vertices with long chains; at most nine times.
    ///
    /// # Errors
    /// [`Error::Zero`] if `chain` is 0; [`Error::Budget`] or [`Error::TooManySlabs`] if the pool cannot have
    /// the slabs; [`Error::TooLarge`] if the arena cannot; [`Error::Device`] if the device is lost or lacks
    /// the memory. The graph then has the same edges.
    pub fn rehash(&mut self, chain: usize) -> Result<usize> {
        if chain == 0 {
            return Err(Error::Zero { what: "slabs of a chain" });
        }
        let most = u32::try_from(chain).unwrap_or(u32::MAX);
        let slots = self.handle.kernels().shape().slab_slots;
        self.handle.exclusive(|stream, memory| {
            // Each size may lack room once.
            let (mut sizes, mut attempts) = (PRESSURES.iter(), 2 * PRESSURES.len());
            let mut times = sizes.next();
            while let Some(&factor) = times.filter(|_| attempts > 0) {
                if self.rehash_once(stream, memory, (most, factor))? == 0 {
                    return Ok(0);
                }
                attempts -= 1;
                // Chains of the maximum length are what is remedied here.
                let shortage = Shortage { long_chain: 0, ..self.order().workspace.take_shortage()? };
                match shortage.is_any() && !self.is_fixed {
                    true => grow(memory, shortage, slots)?,
                    false => times = sizes.next(),
                }
            }
            self.list_long(stream, memory, (most, 0))?;
            self.order().workspace.listed()
        })
    }

    /// Rebuilds the vertices with long chains once, to the size of their edges and of `times` as many more.
    /// Returns their number.
    fn rehash_once(&self, stream: &Stream, memory: &Memory, (most, times): (u32, u32)) -> Result<usize> {
        let growth = self.list_long(stream, memory, (most, times))?;
        // Before the number is read: if that fails, no listed vertex still waits for its growth.
        self.grow_exactly(stream, memory, growth)?;
        self.order().workspace.listed()
    }

    /// Lists the vertices with long chains, with `times` times their edges as pressure.
    fn list_long(&self, stream: &Stream, memory: &Memory, (most, times): (u32, u32)) -> Result<Growth> {
        let growth = self.exact_growth(stream, memory, memory.record_count())?;
        self.launch_on(stream, memory, Launch::Whole(Whole::Rehash(growth, most, times)))?;
        Ok(growth)
    }

    /// Makes room for `edges` more edges: single slabs and tables for them, if they are spread over the
    /// vertices as those that are there, or over a few vertices.
    ///
    /// ```
    /// let mut graph = phalanx::DynamicGraph::<()>::builder().vertices(10).build()?;
    /// let before = graph.memory_usage();
    /// graph.reserve(10_000)?;
    /// assert!(graph.memory_usage() > before);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Budget`] or [`Error::TooManySlabs`] if the pool cannot have the slabs; [`Error::TooLarge`] if
    /// the arena cannot; [`Error::Device`] if the device is lost or lacks the memory.
    pub fn reserve(&mut self, edges: usize) -> Result<()> {
        let slots = self.handle.kernels().shape().slab_slots;
        let halves = edges.saturating_mul(self.handle.read().halves());
        self.handle.exclusive(|_, memory| {
            let present = Counts::read(&memory.counters)?.live * memory.halves();
            // Tables that grow are copied into others. Their share is at most about that of the new edges.
            let share = (halves as f64 / present.max(1) as f64).min(1.0);
            let replaced = (2.0 * share * memory.used_tables()? as f64) as usize;
            memory.grow_pool((halves / slots).max(1))?;
            memory.grow_arena(halves.saturating_mul(2) / slots + replaced + 1)
        })
    }
}

/// Adds pool and arena for a shortage.
fn grow(memory: &mut Memory, shortage: Shortage, slots: usize) -> Result<()> {
    let Shortage { no_slab, not_moved, no_table, long_chain } = shortage;
    if no_table > 0 {
        let wanted = no_table.max(memory.tables() / 2);
        first_that_fits(&[wanted, no_table], |slabs| memory.grow_arena(slabs))?;
    } else if no_slab == 0 && not_moved == 0 && long_chain > 0 {
        return Err(no_room(memory, shortage));
    }
    if no_slab > 0 || not_moved > 0 {
        let needed = no_slab.div_ceil(slots).max(1);
        let wanted = no_slab.max(memory.pool.capacity() / 2).max(1);
        first_that_fits(&[wanted, needed.max(memory.pool.capacity() / 8), needed], |slabs| {
            memory.grow_pool(slabs)
        })?;
    }
    Ok(())
}

/// Returns the reason why a graph lacks room.
fn no_room(memory: &Memory, shortage: Shortage) -> Error {
    if shortage.no_slab > 0 || shortage.not_moved > 0 {
        let asked = memory.pool.capacity() + shortage.no_slab;
        return Error::TooManySlabs { asked, most: memory.pool.capacity() };
    }
    let asked = memory.tables() + shortage.no_table.max(1);
    Error::TooLarge { what: "slabs of tables", asked, most: memory.tables() }
}
