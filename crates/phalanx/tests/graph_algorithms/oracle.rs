//! The algorithms on the host, by definition rather than fast.
#![allow(dead_code)] // each program uses some of these
use std::collections::{BTreeSet, VecDeque};

/// The neighbours of each vertex.
pub type Lists = Vec<BTreeSet<u32>>;

/// Returns the lists of edges; of an undirected graph, at both ends.
pub fn lists(vertices: usize, edges: &[(u32, u32)], is_undirected: bool) -> Lists {
    let mut lists = vec![BTreeSet::new(); vertices];
    for &(a, b) in edges {
        lists[a as usize].insert(b);
        if is_undirected {
            lists[b as usize].insert(a);
        }
    }
    lists
}

/// Returns the distance of each vertex from the nearest source.
pub fn distances(lists: &Lists, sources: &[u32]) -> Vec<Option<u32>> {
    let mut distances = vec![None; lists.len()];
    let mut queue: VecDeque<u32> = sources.iter().copied().collect();
    sources.iter().for_each(|&source| distances[source as usize] = Some(0));
    while let Some(vertex) = queue.pop_front() {
        let next = distances[vertex as usize].map(|distance| distance + 1);
        for &target in &lists[vertex as usize] {
            if distances[target as usize].is_none() {
                distances[target as usize] = next;
                queue.push_back(target);
            }
        }
    }
    distances
}

/// Returns the smallest vertex of each component, whatever the direction of edges.
pub fn components(lists: &Lists) -> Vec<u32> {
    let mut both = lists.clone();
    for (vertex, targets) in (0..).zip(lists) {
        targets.iter().for_each(|&target| {
            both[target as usize].insert(vertex);
        });
    }
    let mut labels = vec![u32::MAX; lists.len()];
    for vertex in 0..lists.len() as u32 {
        if labels[vertex as usize] == u32::MAX {
            let reached = distances(&both, &[vertex]);
            let mut own = labels.iter_mut().zip(reached).filter(|(_, distance)| distance.is_some());
            own.by_ref().for_each(|(label, _)| *label = vertex);
        }
    }
    labels
}

/// Returns the number of triangles of an undirected graph.
pub fn triangles(lists: &Lists) -> u64 {
    let mut found = 0;
    for (a, targets) in (0u32..).zip(lists) {
        for &b in targets.iter().filter(|&&b| b > a) {
            found += lists[b as usize].iter().filter(|&&c| c > b && targets.contains(&c)).count() as u64;
        }
    }
    found
}

/// Returns the ranks after so many iterations. Vertices for which `exists` is false have none.
pub fn ranks(lists: &Lists, damping: f64, exists: &[bool], iterations: u32) -> Vec<f64> {
    let count = exists.iter().filter(|&&exists| exists).count() as f64;
    let first = |exists: &bool| if *exists { 1.0 / count } else { 0.0 };
    let mut ranks: Vec<f64> = exists.iter().map(first).collect();
    for _ in 0..iterations {
        let mut sums = vec![0.0; lists.len()];
        let mut without_edges = 0.0;
        for (targets, rank) in lists.iter().zip(&ranks) {
            if targets.is_empty() {
                without_edges += rank;
            }
            targets.iter().for_each(|&target| sums[target as usize] += rank / targets.len() as f64);
        }
        let rank = |(sum, exists): (&f64, &bool)| match exists {
            true => (1.0 - damping + damping * without_edges) / count + damping * sum,
            false => 0.0,
        };
        ranks = sums.iter().zip(exists).map(rank).collect();
    }
    ranks
}
