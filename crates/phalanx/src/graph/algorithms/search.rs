//! Breadth-first search.
use super::traversal::{Adjacent, Step, Traversal};
use crate::{Error, Result};
use gpu::Buffer;
use phalanx_kernels::graph::algorithms::{PartList, SearchStep, UNREACHED};

/// Number of levels between two looks of the host at the queue.
const LEVELS: usize = 16;

/// Number of edges on a shortest path from a source to each vertex. Made by [`bfs`].
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::algorithms::bfs;
///
/// let graph = DynamicGraph::<()>::builder().vertices(4).build()?;
/// assert!(graph.insert(&[0, 1, 3], &[1, 2, 0])?.all_placed());
/// let found = bfs(&graph, &[0])?;
/// assert_eq!((found.reached(), found.depth()), (3, 2));
/// assert_eq!(found.distances().read()?, [0, 1, 2, u32::MAX]);
/// assert_eq!(found.read()?, [Some(0), Some(1), Some(2), None]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `read` copies the distances to the host. The others are O(1).
#[derive(Debug)]
pub struct Distances {
    distances: Buffer<u32>,
    reached: usize,
    depth: u32,
}

impl Distances {
    /// Returns the distance of each vertex on the device; `u32::MAX` for those that were not reached.
    pub fn distances(&self) -> &Buffer<u32> {
        &self.distances
    }

    /// Returns the number of reached vertices, the sources included.
    pub fn reached(&self) -> usize {
        self.reached
    }

    /// Returns the largest distance; 0 without sources.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Copies the distances to the host.
    ///
    /// # Errors
    /// [`Error::Device`] if the device is lost.
    pub fn read(&self) -> Result<Vec<Option<u32>>> {
        let distances = self.distances.read()?;
        Ok(distances.into_iter().map(|distance| (distance != UNREACHED).then_some(distance)).collect())
    }
}

/// Searches a graph breadth first from `sources`, along the edges. A source that was removed reaches itself.
///
/// ```
/// use phalanx::DynamicGraph;
/// use phalanx::graph::algorithms::bfs;
///
/// let graph = DynamicGraph::<()>::builder().vertices(4).build()?;
/// assert!(graph.insert(&[0, 3], &[1, 2])?.all_placed());
/// assert_eq!(bfs(&graph, &[0, 2])?.read()?, [Some(0), Some(1), Some(0), None]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// Cost: each edge of a reached vertex is read once, with a load of the distance of its target; two launches
/// per level, and a wait for each 16 levels. 12 bytes per vertex meanwhile, of which 4 stay.
///
/// # Errors
/// [`Error::NoVertex`] if a source is not below the number of vertices; [`Error::Device`] if the device is
/// lost or lacks the memory.
pub fn bfs(graph: &impl Adjacent, sources: &[u32]) -> Result<Distances> {
    graph.traverse(|traversal| {
        let mut search = Search::new(traversal, sources)?;
        while search.frontier > 0 {
            search.run_levels(traversal)?;
        }
        Ok(search.found)
    })
}

/// A search under way.
struct Search {
    found: Distances,
    /// Vertices of the current level, and of the next one.
    queues: [Buffer<u32>; 2],
    parts: Buffer<u64>,
    /// Two words per level: number of its vertices, and of their parts.
    counts: Buffer<u32>,
    /// Number of vertices of the current level.
    frontier: u32,
}

impl Search {
    fn new(traversal: &Traversal, sources: &[u32]) -> Result<Self> {
        let (device, vertices) = (traversal.stream.device(), traversal.vertices);
        if let Some(&vertex) = sources.iter().find(|&&source| source as usize >= vertices) {
            return Err(Error::NoVertex { vertex, vertices });
        }
        let mut sources = sources.to_vec();
        sources.sort_unstable();
        sources.dedup();
        let mut distances = device.filled::<u32>(vertices, 0xff)?;
        for &source in &sources {
            distances.write_at(source as usize, &[0])?;
        }
        let mut queues = [device.buffer(vertices)?, device.buffer(vertices)?];
        queues[0].write_at(0, &sources)?;
        Ok(Self {
            found: Distances { distances, reached: sources.len(), depth: 0 },
            queues,
            parts: traversal.parts()?.words,
            counts: device.buffer(2 * LEVELS + 2)?,
            frontier: sources.len() as u32,
        })
    }

    /// Runs a number of levels, and reads how many vertices they have reached.
    fn run_levels(&mut self, traversal: &Traversal) -> Result<()> {
        let mut counts = [0; 2 * LEVELS + 2];
        counts[0] = self.frontier;
        self.counts.write(&counts)?;
        for level in 0..LEVELS {
            traversal.launch(Step::Search(self.step(level)))?;
        }
        traversal.stream.synchronize()?;
        self.counts.read_into(0, &mut counts)?;
        let reached = counts[2..].iter().step_by(2);
        self.found.reached += reached.clone().map(|&many| many as usize).sum::<usize>();
        self.found.depth += reached.clone().take_while(|&&many| many > 0).count() as u32;
        self.frontier = counts[2 * LEVELS];
        Ok(())
    }

    /// Returns the step from a level of this run to the next one.
    fn step(&self, level: usize) -> SearchStep {
        let count = |index: usize| self.counts.global().part(index, 1);
        SearchStep {
            distances: self.found.distances.global(),
            from: self.queues[level % 2].global(),
            from_count: count(2 * level),
            to: self.queues[(level + 1) % 2].global(),
            to_count: count(2 * level + 2),
            parts: PartList { words: self.parts.global(), count: count(2 * level + 1) },
            distance: self.found.depth + level as u32 + 1,
        }
    }
}
