//! Edges of graphs, as pairs of source and target.
use crate::random::{Source, tabulate, unit};
use crate::{Error, Permutation};

/// An edge: source and target.
pub type Edge = (u32, u32);

/// Returns the edges with the numbers from `first` to `first + len - 1` in a random order of all pairs of two
/// different vertices. So edges of different numbers differ.
///
/// ```
/// let edges = workloads::edges::uniform(100, (0, 9900), 7)?;
/// let distinct: std::collections::HashSet<_> = edges.iter().collect();
/// assert!(distinct.len() == 9900 && edges.iter().all(|(source, target)| source != target));
/// # Ok::<(), workloads::Error>(())
/// ```
///
/// # Errors
/// [`Error::TooMany`] if there are fewer pairs.
pub fn uniform(vertices: u32, (first, len): (usize, usize), seed: u64) -> Result<Vec<Edge>, Error> {
    let others = u64::from(vertices).saturating_sub(1);
    let (pairs, asked) = (u64::from(vertices) * others, (first + len) as u64);
    if asked > pairs {
        return Err(Error::TooMany { what: "edges", asked, available: pairs });
    }
    let order = Permutation::new(pairs, &Source::new(seed, "uniform edges"));
    Ok(tabulate(len, |number| {
        let pair = order.at(first as u64 + number);
        let (source, other) = ((pair / others) as u32, (pair % others) as u32);
        (source, other + u32::from(other >= source))
    }))
}

/// Probabilities, in this order, that an edge is in each quadrant of the adjacency matrix but the last.
const QUADRANTS: [f64; 3] = [0.57, 0.19, 0.19];

/// Returns edges of a recursive matrix (R-MAT) with 2^`scale` vertices: each bit of source and target is
/// drawn with the probabilities of Graph500, 0.57, 0.19, 0.19 and 0.05. Vertices with small ids have most
/// edges. Edges repeat, and may lead from a vertex to itself.
///
/// Source: Chakrabarti, Zhan and Faloutsos, "R-MAT: A Recursive Model for Graph Mining", SDM 2004.
///
/// ```
/// let edges = workloads::edges::rmat(10, 4000, 7);
/// let low = edges.iter().filter(|(source, _)| *source < 512).count();
/// assert!(low > 2900 && low < 3180 && edges.iter().all(|(source, target)| source.max(target) < &1024));
/// ```
pub fn rmat(scale: u32, len: usize, seed: u64) -> Vec<Edge> {
    Source::new(seed, "R-MAT edges").generate(len, |generator, _| {
        (0..scale).fold((0, 0), |(source, target), _| {
            let drawn = unit(generator);
            let [a, b, c] = QUADRANTS;
            let (down, right) = match drawn {
                _ if drawn < a => (0, 0),
                _ if drawn < a + b => (0, 1),
                _ if drawn < a + b + c => (1, 0),
                _ => (1, 1),
            };
            (source << 1 | down, target << 1 | right)
        })
    })
}

/// Gives each `every`-th edge one of the `hubs` first vertices as its source, in turn, and another target:
/// the edges of a hub differ.
///
/// ```
/// let mut edges = workloads::edges::uniform(100, (0, 90), 7)?;
/// workloads::edges::add_hubs(&mut edges, (3, 2));
/// assert_eq!((edges[2], edges[5], edges[8]), ((0, 2), (1, 2), (0, 3)));
/// # Ok::<(), workloads::Error>(())
/// ```
pub fn add_hubs(edges: &mut [Edge], (every, hubs): (usize, u32)) {
    let chosen = edges.iter_mut().skip(every.max(1) - 1).step_by(every.max(1));
    let hubs = hubs.max(1);
    chosen.zip(0..).for_each(|(edge, number): (_, u32)| *edge = (number % hubs, hubs + number / hubs));
}
