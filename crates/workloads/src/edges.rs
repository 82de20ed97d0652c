//! Edges of graphs, as pairs of source and target.
use crate::random::{Source, tabulate, unit};
use crate::{Error, Permutation};
use rayon::prelude::*;

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

/// Returns the edges of a grid of `width` times `height` vertices, each to its right and its lower neighbour,
/// of which a share of `kept` (0 to 1), chosen at random, is there: a stand-in for networks of roads, whose
/// average degree is about 2.6 at 0.65. Vertex `x + y * width` is at column `x` of row `y`. The source of an
/// edge is smaller than its target.
///
/// ```
/// let edges = workloads::edges::grid((3, 2), 1.0, 7);
/// assert_eq!(edges, [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]);
/// let some = workloads::edges::grid((100, 100), 0.65, 7).len() as f64;
/// assert!((some / 19_800.0 - 0.65).abs() < 0.02);
/// ```
pub fn grid((width, height): (u32, u32), kept: f64, seed: u64) -> Vec<Edge> {
    let vertices = width as usize * height as usize;
    let drawn = Source::new(seed, "grid edges")
        .generate(vertices, |generator, _| [unit(generator) < kept, unit(generator) < kept]);
    let edges = (0..).zip(drawn).flat_map(|(vertex, [has_right, has_lower]): (u32, _)| {
        let right = (has_right && vertex % width + 1 < width).then_some((vertex, vertex + 1));
        let lower = (has_lower && vertex / width + 1 < height).then_some((vertex, vertex + width));
        right.into_iter().chain(lower)
    });
    edges.collect()
}

/// Returns the edges of a random geometric graph: `vertices` points at random places of a square, and an edge
/// for each pair of points whose distance is below a radius, which is chosen such that vertices have about
/// `degree` neighbours. Ids are in the order of rows of small squares, so neighbours are often near in
/// memory. The source of an edge is smaller than its target.
///
/// ```
/// let edges = workloads::edges::geometric(10_000, 6.0, 7);
/// let degree = 2.0 * edges.len() as f64 / 10_000.0;
/// assert!(degree > 5.5 && degree < 6.2 && edges.iter().all(|(source, target)| source < target));
/// ```
pub fn geometric(vertices: u32, degree: f64, seed: u64) -> Vec<Edge> {
    let radius = (degree / (std::f64::consts::PI * f64::from(vertices.max(1)))).sqrt().min(1.0);
    // Squares that are not narrower than the radius: neighbours are in the nine squares around a point.
    let side = ((1.0 / radius) as usize).clamp(1, vertices.isqrt() as usize + 1);
    let mut points = Source::new(seed, "geometric points")
        .generate(vertices as usize, |generator, _| (unit(generator), unit(generator)));
    let square = |&(x, y): &(f64, f64)| (y * side as f64) as usize * side + (x * side as f64) as usize;
    points.par_sort_by(|a, b| square(a).cmp(&square(b)).then(a.0.total_cmp(&b.0)));
    let mut begins = vec![0u32; side * side + 1];
    points.iter().for_each(|point| begins[square(point) + 1] += 1);
    (1..begins.len()).for_each(|index| begins[index] += begins[index - 1]);
    let neighbours = |index: usize| {
        let (x, y) = points[index];
        let (column, row) = (square(&points[index]) % side, square(&points[index]) / side);
        let rows = row..(row + 2).min(side);
        let squares = rows.flat_map(move |row| {
            (column.saturating_sub(1)..(column + 2).min(side)).map(move |column| row * side + column)
        });
        let others = squares.flat_map(|square| begins[square]..begins[square + 1]);
        let is_near = |&other: &u32| {
            let (dx, dy) = (points[other as usize].0 - x, points[other as usize].1 - y);
            other as usize > index && dx * dx + dy * dy < radius * radius
        };
        others.filter(is_near).map(|other| (index as u32, other)).collect::<Vec<_>>()
    };
    (0..points.len()).into_par_iter().flat_map_iter(neighbours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn grids_have_each_edge_once() {
        let edges = grid((7, 5), 0.7, 3);
        assert_eq!(edges.iter().collect::<BTreeSet<_>>().len(), edges.len());
        assert!(edges.iter().all(|&(a, b)| b < 35 && (b == a + 7 || b == a + 1 && b % 7 != 0)));
        assert!(grid((1, 1), 1.0, 3).is_empty() && grid((0, 5), 1.0, 3).is_empty());
    }

    #[test]
    fn geometric_edges_are_distinct_and_need_no_squares() {
        for (vertices, degree) in [(0, 6.0), (1, 6.0), (40, 1000.0), (500, 6.0)] {
            let edges = geometric(vertices, degree, 5);
            let distinct: BTreeSet<_> = edges.iter().copied().collect();
            assert_eq!(distinct.len(), edges.len());
            assert!(edges.iter().all(|&(a, b)| a < b && b < vertices));
        }
        // Within a radius of the side, about all pairs are near.
        assert!(geometric(40, 1000.0, 5).len() > 40 * 39 / 2 * 9 / 10);
    }
}
