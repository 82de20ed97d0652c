//! Examination of a whole graph.
use super::DynamicGraph;
use super::data::Data;
use super::kernels::{Launch, Whole};
use crate::map::counts::Counts;
use crate::{Error, Result};
use phalanx_kernels::graph::REPORT_WORDS;

impl<E: Data> DynamicGraph<E> {
    /// Checks the whole graph: that every live slab of the pool is in exactly one chain, and every table in
    /// use at one vertex, that chains have only live slabs, that slots are filled in order, that an edge
    /// occurs once and leads to a vertex, that both halves of an edge of an undirected graph agree, and that
    /// counts are right. For tests, and for authors of kernels.
    ///
    /// ```
    /// let graph = phalanx::DynamicGraph::<()>::builder().vertices(10).build()?;
    /// graph.validate()?;
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// Cost: reads the whole graph, by a thread per vertex, and compares the edges of each chain with each
    /// other.
    ///
    /// # Errors
    /// [`Error::Invalid`] with the violated invariant; [`Error::Device`] if the device is lost or lacks the
    /// memory.
    pub fn validate(&self) -> Result<()> {
        let report = self.device().zeroed::<u64>(REPORT_WORDS)?;
        let (live, edges, tables) = self.handle.exclusive(|stream, memory| {
            // SAFETY: the lock excludes other launches, and all earlier ones have ended. The report is alive.
            unsafe {
                self.handle.kernels().launch(
                    stream,
                    memory,
                    Launch::Whole(Whole::Inspect(report.global())),
                )?
            };
            stream.synchronize()?;
            let tables = (memory.used_tables()? as u64).wrapping_sub(memory.free_tables()? as u64);
            let edges = Counts::read(&memory.counters)?.live as u64;
            Ok((memory.pool.stats()?.live as u64, edges, tables))
        })?;
        let found = report.read()?;
        let problems = [
            (found[0] != live, format!("{live} slabs are live, but {} are in chains", found[0])),
            (found[1] != tables, format!("{tables} slabs are in tables, but vertices have {}", found[1])),
            (found[2] != edges, format!("{edges} edges are counted, but {} are stored", found[2])),
            (found[3] != 0, format!("{} slots are taken behind an empty one", found[3])),
            (found[4] != 0, format!("{} links lead to slabs that are not live", found[4])),
            (found[5] != 0, format!("{} tables have wrong counts", found[5])),
            (found[6] != 0, format!("{} edges lead to no vertex, or occur twice", found[6])),
            (found[7] != 0, format!("{} halves lack an equal other half", found[7])),
            (found[8] != 0, format!("{} vertices wait for growth", found[8])),
        ];
        match problems.into_iter().find(|(is, _)| *is) {
            Some((_, problem)) => Err(Error::Invalid(problem)),
            None => Ok(()),
        }
    }
}
