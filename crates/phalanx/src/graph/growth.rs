//! Memory for edges that did not fit.
use super::DynamicGraph;
use super::data::Data;
use super::host::Request;
use super::memory::{Memory, Shortage};
use crate::slab_alloc::first_that_fits;
use crate::{Error, Outcome, Outcomes, Result};

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
            memory.grow_pool((halves / slots).max(1))?;
            memory.grow_arena(halves.saturating_mul(2) / slots + 1)
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
