//! Iterations and degrees beside kernels that insert and remove edges.
use crate::common::{Rng, replay, seeds};
use crate::phases::{Part, VERTICES, Words, filled, steps};
use crate::setting::Setting;
use crate::world::Checked;
use gpu::Grid;
use phalanx::graph::Kind;
use phalanx_kernels::graph::kernels::{GraphDegree, GraphNeighbors};
use phalanx_kernels::graph::{Config, Edges};
use phalanx_kernels::keyed::{Bare, Packed, Wide};
use phalanx_kernels::slab::Spread;
use simt::Instance;
use simt::emulator::{Launch, WeakMemory};
use std::collections::BTreeSet;

/// Number of seeds per kind of edges.
const SEEDS: u64 = 60;

/// Room for the neighbours of a vertex.
const ROOM: usize = 128;

/// Vertices that are visited: a hub with a table, a small vertex that grows, one without edges, and none.
const VISITED: [u32; 4] = [0, 1, 63, VERTICES];

/// In place of a neighbour: none was written.
const NOTHING: u32 = u32::MAX;

/// Visits vertices, twice each, while others insert and remove edges of them.
fn run<E: Words, M>(setting: &Setting) -> Checked
where
    M: Config<Data = E::Bits> + Instance,
{
    let text = |error: gpu::Error| error.to_string();
    let mut rng = Rng::new(setting.seed);
    let world = filled::<E>(setting, &mut rng, M::NAME)?;
    assert_eq!(world.graph.kind(), Kind::Directed);
    let (device, first) = (world.graph.device().clone(), 50 + rng.below(6) as u32);
    let mut pairs: Vec<(u32, u32)> = (first..first + 4).map(|target| (1, target)).collect();
    pairs.extend([(0, 10), (0, 60), (0, 61), (1, 10), (63, 5), (63, 6)]);
    let part = |rng: &mut Rng| Part::new(&device, steps(rng, 32, 2, &pairs), 2);
    let parts = [part(&mut rng).map_err(text)?, part(&mut rng).map_err(text)?];
    // SAFETY: nothing else uses the graph until the launches have ended.
    let graph = unsafe { world.graph.view::<M>() }.map_err(|error| error.to_string())?;
    let mut launches: Vec<Launch> =
        parts.iter().map(|part| Launch::new(Grid::new(1, 32), part.script(graph))).collect();
    let vertices = device.from_slice(&[VISITED, VISITED].concat()).map_err(text)?;
    let visits = vertices.len();
    let offsets: Vec<u64> = (0..=visits).map(|visit| (ROOM * visit) as u64).collect();
    let offsets = device.from_slice(&offsets).map_err(text)?;
    let targets = device.from_slice(&vec![NOTHING; ROOM * visits]).map_err(text)?;
    let data = device.zeroed::<E::Bits>(ROOM * visits).map_err(text)?;
    let degrees = device.zeroed::<u32>(visits).map_err(text)?;
    let neighbors = GraphNeighbors::<M> {
        graph,
        base: 0,
        vertices: vertices.global(),
        offsets: offsets.global(),
        targets: targets.global(),
        data: data.global(),
    };
    launches.push(Launch::new(Grid::new(1, 32 * visits as u32), neighbors));
    let counted =
        GraphDegree::<M> { graph, base: 0, vertices: vertices.global().into(), degrees: degrees.global() };
    launches.push(Launch::new(Grid::new(1, 32), counted));
    let emulator = device.emulator_handle().ok_or("no emulator")?;
    emulator.launch_all(launches).map_err(|failure| failure.to_string())?;
    let (targets, degrees) = (targets.read().map_err(text)?, degrees.read().map_err(text)?);
    for (visit, vertex) in [VISITED, VISITED].concat().into_iter().enumerate() {
        let seen: Vec<u32> = targets[ROOM * visit..ROOM * (visit + 1)]
            .iter()
            .copied()
            .take_while(|&target| target != NOTHING)
            .collect();
        // Steps change no other edges than those of `pairs`.
        let changed: BTreeSet<u32> =
            pairs.iter().filter(|pair| pair.0 == vertex).map(|pair| pair.1).collect();
        let before: BTreeSet<u32> =
            world.edges.keys().filter(|edge| edge.0 == vertex).map(|edge| edge.1).collect();
        let kept: Vec<u32> = before.difference(&changed).copied().collect();
        let shown = |target: &u32| seen.iter().filter(|&seen| seen == target).count();
        if let Some(target) = kept.iter().find(|&target| shown(target) != 1) {
            return Err(format!("({vertex}, {target}) is shown {} times", shown(target)));
        }
        if let Some(other) = seen.iter().find(|&target| !before.contains(target) && !changed.contains(target))
        {
            return Err(format!("({vertex}, {other}) is shown"));
        }
        let (least, most) = (kept.len() as u32, before.union(&changed).count() as u32);
        // The count of a table is exact only when nothing changes it; nor is that of edges removed meanwhile.
        if vertex != VISITED[0] && !(least..=most).contains(&degrees[visit]) {
            return Err(format!("{} is the degree of {vertex}, not {least} to {most}", degrees[visit]));
        }
    }
    Ok(())
}

fn all_are_sound<E: Words, M: Config<Data = E::Bits> + Instance>() {
    for seed in seeds(SEEDS) {
        let weak_memory = if seed % 4 == 3 { WeakMemory::Hardware } else { WeakMemory::Off };
        let found = run::<E, M>(&Setting { weak_memory, ..Setting::new(seed) });
        assert!(found.is_ok(), "{}: {}\n{}", M::NAME, found.unwrap_err(), replay(seed));
    }
}

#[test]
fn iterations_beside_changes_show_each_edge_that_stays() {
    all_are_sound::<(), Edges<Bare<u32>, Spread<128>, 1, 8>>();
    all_are_sound::<u32, Edges<Packed, Spread<128>, 2, 4>>();
    all_are_sound::<u64, Edges<Wide<u32, u64>, Spread<128>, 4, 2>>();
}
