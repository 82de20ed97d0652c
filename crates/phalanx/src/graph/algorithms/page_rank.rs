//! PageRank.
use super::traversal::{Adjacent, PartBuffers, Step, Traversal};
use crate::graph::Kind;
use crate::map::launch::nothing;
use crate::{Error, Result};
use gpu::Buffer;
use phalanx_kernels::graph::algorithms::kernels::{RankBegin, RankUpdate};
use phalanx_kernels::graph::algorithms::{ONE, Ranking};
use simt::GlobalSlice;

/// Number of iterations between two looks of the host at the changes.
const ITERATIONS: usize = 8;

/// Parameters of PageRank.
///
/// ```
/// use phalanx::graph::algorithms::PageRank;
///
/// let parameters = PageRank { iterations: 20, ..PageRank::default() };
/// assert_eq!((parameters.damping, parameters.tolerance), (0.85, 1e-6));
/// ```
///
/// # Cost
///
/// None.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageRank {
    /// Share of a rank that comes from neighbours, from 0 to 1. Default: 0.85.
    pub damping: f32,
    /// Sum of the changes of all ranks up to which they have converged, at least 0. Ranks add up to 1.
    /// Floats of 32 bits may not reach less than about 3e-7. Default: 1e-6.
    pub tolerance: f32,
    /// Maximum number of iterations. Default: 100.
    pub iterations: u32,
}

impl Default for PageRank {
    fn default() -> Self {
        Self { damping: 0.85, tolerance: 1e-6, iterations: 100 }
    }
}

impl PageRank {
    /// Returns an error if a parameter is not in its range.
    fn check(&self) -> Result<()> {
        let is_valid = |value: f32, most: f32| value >= 0.0 && value <= most;
        let error = |what, value: f32| Err(Error::PageRank { what, value: f64::from(value) });
        match self {
            _ if !is_valid(self.damping, 1.0) => error("damping", self.damping),
            _ if !is_valid(self.tolerance, 1.0) => error("tolerance", self.tolerance),
            _ => Ok(()),
        }
    }
}

/// The ranks of a graph. Made by [`page_rank`].
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::algorithms::{PageRank, page_rank};
///
/// let graph = DynamicGraph::<()>::builder().vertices(3).build()?;
/// assert!(graph.insert(&[0, 1, 2], &[1, 2, 0])?.all_placed());
/// let ranks = page_rank(&graph, &PageRank::default())?;
/// assert_eq!((ranks.iterations(), ranks.has_converged(), ranks.ranks().len()), (1, true, 3));
/// assert!(ranks.read()?.into_iter().all(|rank| (rank - 1.0 / 3.0).abs() < 1e-6));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `read` copies the ranks to the host. The others are O(1).
#[derive(Debug)]
pub struct Ranks {
    ranks: Buffer<f32>,
    iterations: u32,
    has_converged: bool,
}

impl Ranks {
    /// Returns the rank of each vertex, on the device.
    pub fn ranks(&self) -> &Buffer<f32> {
        &self.ranks
    }

    /// Returns the number of iterations.
    pub fn iterations(&self) -> u32 {
        self.iterations
    }

    /// Returns whether the changes of the last iteration were at most the tolerance.
    pub fn has_converged(&self) -> bool {
        self.has_converged
    }

    /// Copies the rank of each vertex to the host.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn read(&self) -> Result<Vec<f32>> {
        Ok(self.ranks.read()?)
    }
}

/// Computes the PageRank of each vertex. The rank of vertices without edges is spread over all vertices.
/// Removed vertices have the rank 0. The result is the same, bit for bit, for a graph and for its CSR, if no
/// vertex was removed.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::algorithms::{PageRank, page_rank};
///
/// let graph = DynamicGraph::<()>::builder().vertices(4).build()?;
/// assert!(graph.insert(&[1, 2, 3], &[0, 0, 0])?.all_placed());
/// let ranks = page_rank(&graph, &PageRank::default())?.read()?;
/// assert_eq!(ranks[1], ranks[2]);
/// assert!(ranks[0] > 3.0 * ranks[1]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Cost: an iteration is a pass over the graph; per edge, in an undirected graph, a load of 4 bytes at a
/// random address, in a directed one an atomic addition of 8 bytes; 40 bytes per vertex; three launches.
/// Waits after each eight iterations. 20 bytes per vertex meanwhile, of which 4 stay.
///
/// # Errors
/// [`Error::PageRank`] if the damping or the tolerance is not from 0 to 1; [`Error::Device`] if the device is
/// lost or lacks the memory.
pub fn page_rank(graph: &impl Adjacent, parameters: &PageRank) -> Result<Ranks> {
    graph.traverse(|traversal| run(traversal, parameters, nothing()))
}

/// As [`page_rank`], but begins with the ranks of an earlier state of the graph, so that fewer iterations are
/// needed after small changes.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::algorithms::{PageRank, page_rank, page_rank_from};
///
/// let graph = DynamicGraph::<()>::builder().vertices(4).build()?;
/// assert!(graph.insert(&[1, 2, 3], &[0, 0, 0])?.all_placed());
/// let before = page_rank(&graph, &PageRank::default())?;
/// assert_eq!(page_rank_from(&graph, &PageRank::default(), &before)?.iterations(), 1);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Cost: as [`page_rank`].
///
/// # Errors
/// As [`page_rank`]; [`Error::OtherDevice`] if the ranks are on another device.
pub fn page_rank_from(graph: &impl Adjacent, parameters: &PageRank, previous: &Ranks) -> Result<Ranks> {
    crate::map::batches::check_same_device(graph.device_of(), "ranks", previous.ranks.device())?;
    graph.traverse(|traversal| run(traversal, parameters, words(&previous.ranks)))
}

/// Returns floats as their bits.
fn words(ranks: &Buffer<f32>) -> GlobalSlice<u32> {
    // SAFETY: plain bytes of the same size and alignment. Whoever launches a kernel keeps the buffer.
    unsafe { GlobalSlice::from_raw_parts(ranks.pointer().cast(), ranks.len()) }
}

/// Memory of a run.
struct Memory {
    ranks: Buffer<f32>,
    shares: Buffer<u32>,
    degrees: Buffer<u32>,
    sums: Buffer<u64>,
    totals: Buffer<u64>,
    parts: PartBuffers,
}

impl Memory {
    fn new(traversal: &Traversal) -> Result<Self> {
        let (device, vertices) = (traversal.stream.device(), traversal.vertices);
        Ok(Self {
            ranks: device.buffer(vertices)?,
            shares: device.buffer(vertices)?,
            degrees: device.buffer(vertices)?,
            sums: device.buffer(vertices)?,
            totals: device.zeroed(2 * ITERATIONS + 2)?,
            parts: traversal.parts()?,
        })
    }

    fn ranking(&self, traversal: &Traversal, parameters: &PageRank) -> Ranking {
        Ranking {
            ranks: words(&self.ranks),
            shares: self.shares.global(),
            degrees: self.degrees.global(),
            sums: self.sums.global(),
            totals: self.totals.global(),
            parts: self.parts.slices(),
            damping: parameters.damping,
            existing: traversal.existing.max(1) as u32,
            tolerance: (f64::from(parameters.tolerance) * ONE as f64) as u64,
            iteration: 0,
        }
    }
}

fn run(traversal: &Traversal, parameters: &PageRank, previous: GlobalSlice<u32>) -> Result<Ranks> {
    parameters.check()?;
    let mut memory = Memory::new(traversal)?;
    let ranking = memory.ranking(traversal, parameters);
    let (stream, grid) = (&traversal.stream, traversal.grid(traversal.vertices));
    traversal.launch(Step::Degrees(ranking.degrees, ranking.parts))?;
    // SAFETY: the memory outlives the launch.
    unsafe { stream.launch(grid, RankBegin { ranking, previous })? };
    let (mut done, mut has_converged) = (0, false);
    while done < parameters.iterations && !has_converged {
        let many = (parameters.iterations - done).min(ITERATIONS as u32);
        for iteration in 0..many {
            iterate(traversal, Ranking { iteration, ..ranking })?;
        }
        stream.synchronize()?;
        let mut totals = memory.totals.read()?;
        let changes = totals.iter().skip(1).step_by(2).take(many as usize);
        let before = changes.take_while(|&&change| change > ranking.tolerance).count() as u32;
        has_converged = before < many;
        done += (before + 1).min(many);
        // The next run begins with the rank of vertices with edges that this one has computed.
        totals[0] = totals[2 * many as usize];
        totals[1..].fill(0);
        memory.totals.write(&totals)?;
    }
    stream.synchronize()?;
    Ok(Ranks { ranks: memory.ranks, iterations: done, has_converged })
}

/// Submits an iteration.
fn iterate(traversal: &Traversal, ranking: Ranking) -> Result<()> {
    traversal.launch(match traversal.kind {
        Kind::Directed => Step::Scatter(ranking),
        Kind::Undirected => Step::Gather(ranking),
    })?;
    let grid = traversal.grid(traversal.vertices);
    // SAFETY: the caller keeps the memory.
    unsafe { Ok(traversal.stream.launch(grid, RankUpdate { ranking })?) }
}
