//! Copies of graphs into rows by fewer blocks than there are tiles. Each block has several, and collects one
//! before it waits for the sum before another. (The host launches a block per tile if all are resident.)
use crate::batches::insert;
use crate::blocks::same_edges;
use crate::common::{Rng, replay, seeds};
use crate::phases::Words;
use crate::setting::Setting;
use crate::world::{Checked, World, random_edges};
use gpu::Grid;
use phalanx::DynamicGraph;
use phalanx_kernels::graph::algorithms::PartList;
use phalanx_kernels::graph::kernels::{GraphRowParts, GraphRows};
use phalanx_kernels::graph::{Config, Edges, ROW_THREADS, RowCopy};
use phalanx_kernels::keyed::{Bare, Packed};
use phalanx_kernels::slab::Spread;
use simt::Instance;
use simt::emulator::{Launch, WeakMemory};

/// Number of seeds per kind of edges.
const SEEDS: u64 = 40;

/// Number of vertices.
const VERTICES: u32 = 700;

/// Vertices with tables: many in the first tile, and some in others.
const LARGE: [u32; 10] = [1, 2, 3, 4, 5, 6, 200, 201, 450, 650];

/// A vertex whose table has several parts, which warps of two blocks copy.
const HUB: u32 = 300;

/// Copies a graph with tables, chains and a warp with more edges than shared memory has room for, `groups`
/// groups of vertices per warp.
fn run<E: Words, M>(setting: &Setting, groups: u32) -> Checked
where
    M: Config<Data = E::Bits> + Instance,
{
    let text = |error: gpu::Error| error.to_string();
    let (mut rng, device) = (Rng::new(setting.seed), setting.device());
    let builder = DynamicGraph::<E>::builder().device(&device).variant(M::NAME).vertices(VERTICES as usize);
    let mut world = World::new(builder.slabs(128).table_slabs(200));
    let mut edges = random_edges::<E>(&mut rng, 150, 380, 0);
    let mut star = |source: u32, many: u64| {
        let data = E::of(rng.below(100));
        edges.extend((20..20 + many as u32).filter(|&to| to != source).map(|to| (source, to, data)));
    };
    LARGE.iter().for_each(|&source| star(source, 45));
    star(HUB, 500);
    // The vertices of a warp, or a few chains.
    let full = if setting.seed.is_multiple_of(4) { 384..416 } else { 390..393 };
    full.for_each(|source| star(source, 22));
    insert(&mut world, &edges)?;
    let (tiles, len) = (VERTICES.div_ceil(ROW_THREADS * groups), world.edges.len());
    let offsets = device.from_slice(&vec![u64::MAX; VERTICES as usize + 1]).map_err(text)?;
    let targets = device.from_slice(&vec![u32::MAX; len]).map_err(text)?;
    let data = device.zeroed::<E::Bits>(if E::HAS_DATA { len } else { 0 }).map_err(text)?;
    // The hub has 32 or 64 buckets, eight in each part.
    let many = LARGE.len() + if E::HAS_DATA { 8 } else { 4 };
    let parts = device.zeroed::<u64>(many).map_err(text)?;
    let cursors = device.zeroed::<u32>(many).map_err(text)?;
    let status = device.zeroed::<u64>(2 * tiles as usize).map_err(text)?;
    let tickets = device.zeroed::<u32>(2).map_err(text)?;
    let copy = RowCopy {
        offsets: offsets.global(),
        targets: targets.global(),
        data: data.global(),
        parts: PartList { words: parts.global(), count: tickets.global().part(1, 1) },
        cursors: cursors.global(),
        status: status.global(),
        tickets: tickets.global().part(0, 1),
        groups,
    };
    // SAFETY: nothing else uses the graph until the launches have ended.
    let graph = unsafe { world.graph.view::<M>() }.map_err(|error| error.to_string())?;
    let emulator = device.emulator_handle().ok_or("no emulator")?;
    let grid = Grid::new(1 + setting.seed as u32 % 3, ROW_THREADS);
    let launches =
        [Launch::new(grid, GraphRows { graph, copy }), Launch::new(grid, GraphRowParts { graph, copy })];
    for launch in launches {
        emulator.launch_all(vec![launch]).map_err(|failure| failure.to_string())?;
    }
    let (offsets, targets) = (offsets.read().map_err(text)?, targets.read().map_err(text)?);
    let data = data.read().map_err(text)?;
    let data = |at: usize| data.get(at).map_or(E::of(0), |&bits| E::from_bits(bits));
    same_edges((&offsets, &targets), data, world)
}

fn all_are_sound<E: Words, M: Config<Data = E::Bits> + Instance>(groups: u32) {
    for seed in seeds(SEEDS) {
        let weak_memory = if seed % 4 == 3 { WeakMemory::Hardware } else { WeakMemory::Off };
        let found = run::<E, M>(&Setting { weak_memory, ..Setting::new(seed) }, groups);
        assert!(found.is_ok(), "{}: {}\n{}", M::NAME, found.unwrap_err(), replay(seed));
    }
}

#[test]
fn blocks_copy_several_tiles() {
    all_are_sound::<(), Edges<Bare<u32>, Spread<128>, 1, 8>>(1);
    all_are_sound::<u32, Edges<Packed, Spread<128>, 2, 4>>(1);
}

#[test]
fn blocks_copy_several_tiles_of_two_groups() {
    all_are_sound::<(), Edges<Bare<u32>, Spread<128>, 1, 8>>(2);
}
