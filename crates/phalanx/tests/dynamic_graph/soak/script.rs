//! A script: a random graph, and random calls.
use super::verbs::Verbs;
use crate::common::Rng;
use crate::world::{World, ends, random_edges};
use gpu::Device;
use phalanx::graph::algorithms::{Components, Triangles};
use phalanx::graph::{Builder, Kind};
use phalanx::{DynamicGraph, Error, Outcome, Outcomes};
use phalanx_testing::fault::Injected;
use phalanx_testing::scripts::Counters;
use std::collections::{BTreeMap, BTreeSet};

/// Number of calls of a script.
const CALLS: u64 = 12;

/// Most vertices at first.
const VERTICES: u64 = 120;

/// A batch of edges with data.
type Batch<E> = Vec<(u32, u32, E)>;

/// The data of edges.
type Edges<E> = BTreeMap<(u32, u32), E>;

pub struct Script<'a, E: Verbs> {
    device: &'a Device,
    rng: Rng,
    world: World<E>,
    /// Vertices that were removed.
    gone: BTreeSet<u32>,
    /// Whether self-edges are allowed.
    self_edges: bool,
    /// Whether the graph may refuse edges without a fault.
    may_refuse: bool,
    /// The number of triangles, if it is kept.
    triangles: Option<Triangles>,
    counters: &'a mut Counters,
}

impl<'a, E: Verbs> Script<'a, E> {
    pub fn new(device: &'a Device, seed: u64, counters: &'a mut Counters) -> Self {
        let mut rng = Rng::new(seed);
        let (kind, self_edges) = (rng.pick(&[Kind::Directed, Kind::Undirected]), rng.below(3) == 0);
        let (builder, may_refuse) = memory(device, &mut rng);
        let builder = builder.kind(kind).self_edges(self_edges).vertices(1 + rng.below(VERTICES) as usize);
        let world = World::new(builder.in_edges(kind == Kind::Directed && rng.below(2) == 0));
        let is_kept = kind == Kind::Undirected && rng.below(2) == 0;
        let triangles = is_kept.then(|| Triangles::of(&world.graph).unwrap());
        Self { device, rng, world, gone: BTreeSet::new(), self_edges, may_refuse, triangles, counters }
    }

    pub fn run(&mut self) {
        for _ in 0..CALLS {
            self.counters.calls += 1;
            match self.rng.below(24) {
                0..=8 => self.insert(),
                9..=12 => self.remove(),
                13..=14 => self.look_up(),
                15 => self.expire(),
                16 => self.remove_vertices(),
                17 => self.insert_vertices(),
                18..=19 => self.save_and_load(),
                20 => self.clear(),
                _ => self.manage(),
            }
            self.check();
        }
    }

    /// Checks the graph, its vertices and its triangles.
    fn check(&mut self) {
        self.world.check();
        let graph = &self.world.graph;
        assert_eq!(graph.vertex_count(), graph.vertices() - self.gone.len());
        if let Some(triangles) = &self.triangles {
            assert_eq!(triangles.count(), Triangles::of(graph).unwrap().count());
        }
    }

    fn fault(&mut self) -> Injected<'a> {
        Injected::random(self.device, &mut self.rng)
    }

    /// Returns a number of edges.
    fn len(&mut self) -> usize {
        let most = self.rng.pick(&[0, 1, 2, 20, 20, 130, 400]);
        self.rng.below(most + 1) as usize
    }

    /// Returns random edges. Some of them have ends that do not exist, and some are self-edges.
    fn batch(&mut self) -> Batch<E> {
        let (len, vertices) = (self.len(), self.world.graph.vertices() as u64);
        if vertices < 2 {
            return (0..len).map(|_| (0, 1, E::random(&mut self.rng))).collect();
        }
        let hubs = self.rng.pick(&[0, 1, 3]).min(vertices);
        let mut edges = random_edges::<E>(&mut self.rng, len, vertices, hubs);
        for edge in &mut edges {
            match self.rng.below(40) {
                0 => edge.0 = vertices as u32 + self.rng.below(3) as u32,
                1 => edge.1 = u32::MAX - self.rng.below(4) as u32,
                2 => edge.1 = edge.0,
                _ => {}
            }
        }
        if self.rng.below(8) == 0 {
            edges.iter_mut().for_each(|edge| (edge.0, edge.1) = (0, 1));
        }
        edges
    }

    /// Returns whether the graph may have an edge.
    fn is_valid(&self, a: u32, b: u32) -> bool {
        let exists = |vertex| (vertex as usize) < self.world.graph.vertices() && !self.gone.contains(&vertex);
        exists(a) && exists(b) && (a != b || self.self_edges)
    }

    fn insert(&mut self) {
        let (batch, mut fault) = (self.batch(), self.fault());
        self.counters.elements += batch.len() as u64;
        let (verb, graph) = (self.rng.below(4), &mut self.world.graph);
        let said = match verb {
            0 => fault.during(|| E::build(graph, &batch)),
            1 => fault.during(|| E::add(graph, &batch).unwrap_or_else(|| E::insert(graph, &batch))),
            _ => fault.during(|| E::insert(graph, &batch)),
        };
        let adds = verb == 1 && size_of::<E>() > 0;
        let (outcomes, is_full) = match said {
            Err(Error::NoRoom { outcomes, .. }) => (Ok(outcomes), true),
            said => (said, false),
        };
        assert!(!is_full || self.may_refuse || fault.has_struck, "a graph that grows refuses");
        self.counters.refused += u64::from(is_full);
        self.counters.note_result(&fault, &outcomes);
        match outcomes {
            Ok(outcomes) => self.inserted(&batch, (&outcomes, adds), is_full),
            Err(_) => self.insertion_failed(&batch, adds),
        }
    }

    /// Checks the outcomes of an insertion.
    fn inserted(&mut self, batch: &[(u32, u32, E)], (outcomes, adds): (&Outcomes, bool), is_full: bool) {
        assert_eq!(outcomes.len(), batch.len());
        for (&(a, b, _), &outcome) in batch.iter().zip(outcomes.iter()) {
            let is_refused = outcome == Outcome::Refused;
            assert!(is_refused || self.is_valid(a, b), "{a} {b}: {outcome:?}");
            assert!(!is_refused || is_full || !self.is_valid(a, b), "{a} {b}: {outcome:?}");
        }
        match adds {
            true => self.added(batch, outcomes),
            false => self.world.inserted(batch, outcomes),
        }
        self.keep(batch, outcomes);
    }

    /// Checks an insertion that adds to the data of edges.
    fn added(&mut self, batch: &[(u32, u32, E)], outcomes: &[Outcome]) {
        for (&(a, b, data), &outcome) in batch.iter().zip(outcomes) {
            if outcome != Outcome::Refused {
                let sum = self.world.edges.entry(self.world.name(a, b));
                sum.and_modify(|sum| *sum = sum.sum(data)).or_insert(data);
            }
        }
    }

    /// Keeps the number of triangles, also if the first attempt fails.
    fn keep(&mut self, batch: &[(u32, u32, E)], outcomes: &[Outcome]) {
        let (mut fault, (sources, targets)) = (self.fault(), ends(batch));
        let Some(mut triangles) = self.triangles.take() else { return };
        let graph = &self.world.graph;
        let said = fault.during(|| triangles.inserted(graph, &sources, &targets, outcomes));
        self.counters.note_result(&fault, &said);
        if said.is_err() {
            triangles.inserted(&self.world.graph, &sources, &targets, outcomes).unwrap();
        }
        self.triangles = Some(triangles);
    }

    /// After an insertion that has failed, each edge of the batch is as before or as inserted.
    fn insertion_failed(&mut self, batch: &[(u32, u32, E)], adds: bool) {
        let mut given: BTreeMap<(u32, u32), Vec<E>> = BTreeMap::new();
        for &(a, b, data) in batch.iter().filter(|edge| self.is_valid(edge.0, edge.1)) {
            given.entry(self.world.name(a, b)).or_default().push(data);
        }
        self.settle(|name, before, now| {
            before == now
                || given.get(&name).is_some_and(|data| match now {
                    Some(now) => adds || data.contains(&now),
                    None => false,
                })
        });
    }

    /// Takes over the edges of the graph after a call that has failed. `may` says whether an edge may have
    /// changed from one state to another.
    fn settle(&mut self, may: impl Fn((u32, u32), Option<E>, Option<E>) -> bool) {
        let rows = self.world.graph.to_csr().unwrap().read().unwrap();
        let mut now: Edges<E> = BTreeMap::new();
        for source in 0..self.world.graph.vertices() as u32 {
            let first = rows.offsets[source as usize] as usize;
            for (place, &target) in (first..).zip(rows.of(source)) {
                now.insert(self.world.name(source, target), rows.data[place]);
            }
        }
        let before = std::mem::take(&mut self.world.edges);
        for &name in before.keys().chain(now.keys()) {
            let (before, now) = (before.get(&name).copied(), now.get(&name).copied());
            assert!(may(name, before, now), "{name:?} after a failure: {before:?}, then {now:?}");
        }
        self.world.edges = now;
        self.recount();
    }

    /// Counts the triangles anew, if they are kept.
    fn recount(&mut self) {
        if let Some(triangles) = &mut self.triangles {
            *triangles = Triangles::of(&self.world.graph).unwrap();
        }
    }

    /// Returns pairs of vertices, of which many are edges.
    fn known_ends(&mut self) -> Vec<(u32, u32)> {
        let known: Vec<(u32, u32)> = self.world.edges.keys().copied().collect();
        let mut pairs: Vec<(u32, u32)> = self.batch().iter().map(|edge| (edge.0, edge.1)).collect();
        for pair in &mut pairs {
            if !known.is_empty() && self.rng.below(3) > 0 {
                *pair = self.rng.pick(&known);
            }
            if self.rng.below(2) == 0 {
                *pair = (pair.1, pair.0);
            }
        }
        pairs
    }

    fn remove(&mut self) {
        let (pairs, mut fault) = (self.known_ends(), self.fault());
        self.counters.elements += pairs.len() as u64;
        let (sources, targets): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        if let Some(triangles) = &mut self.triangles {
            triangles.removing(&self.world.graph, &sources, &targets).unwrap();
        }
        let graph = &self.world.graph;
        let said = fault.during(|| graph.remove(&sources, &targets));
        self.counters.note_result(&fault, &said);
        match said {
            Ok(outcomes) => self.world.try_removed(&pairs, &outcomes).unwrap(),
            Err(_) => {
                let named: BTreeSet<(u32, u32)> = pairs.iter().map(|&(a, b)| self.world.name(a, b)).collect();
                self.settle(|name, before, now| before == now || now.is_none() && named.contains(&name));
            }
        }
    }

    fn look_up(&mut self) {
        let (pairs, mut fault) = (self.known_ends(), self.fault());
        let (sources, targets): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        let graph = &self.world.graph;
        let said = fault.during(|| graph.has_edge(&sources, &targets));
        self.counters.note_result(&fault, &said);
        if let Ok(found) = said {
            let has = |&(a, b): &(u32, u32)| self.world.edges.contains_key(&self.world.name(a, b));
            assert!(found.into_iter().eq(pairs.iter().map(has)));
        }
        self.world.look_up(&pairs);
        let components = Components::of(&self.world.graph).unwrap();
        let labels = components.read().unwrap();
        assert!(self.world.edges.keys().all(|&(a, b)| labels[a as usize] == labels[b as usize]));
    }

    fn expire(&mut self) {
        let (before, mut fault) = (self.rng.below(u64::MAX), self.fault());
        let graph = &self.world.graph;
        let Some(said) = fault.during(|| E::expire(graph, before)) else { return };
        self.counters.note_result(&fault, &said);
        match said {
            Ok(removed) => {
                let all = self.world.edges.len();
                self.world.edges.retain(|_, data| !data.is_below(before));
                assert_eq!(removed, all - self.world.edges.len());
                self.recount();
            }
            Err(_) => self.settle(|_, data, now| {
                data == now || now.is_none() && data.is_some_and(|data| data.is_below(before))
            }),
        }
    }

    /// Removes vertices. If the call fails, all of them are removed, or none.
    fn remove_vertices(&mut self) {
        let vertices = self.world.graph.vertices() as u64;
        let len = self.rng.pick(&[0, 1, 3, vertices / 4]);
        let ids: Vec<u32> = (0..len).map(|_| self.rng.below(vertices + 2) as u32).collect();
        let listed: BTreeSet<u32> = ids.iter().copied().filter(|&id| u64::from(id) < vertices).collect();
        let new = listed.difference(&self.gone).count();
        let (mut fault, graph) = (self.fault(), &mut self.world.graph);
        let before = graph.vertex_count();
        let said = fault.during(|| graph.remove_vertices(&ids));
        self.counters.note_result(&fault, &said);
        match said {
            Ok(outcomes) => assert_eq!(outcomes.count(Outcome::Removed), new),
            Err(_) if self.world.graph.vertex_count() == before => return,
            Err(_) => {}
        }
        self.gone.extend(&listed);
        self.world.edges.retain(|(a, b), _| !listed.contains(a) && !listed.contains(b));
        self.recount();
    }

    /// Adds vertices. If the call fails, the graph is as before.
    fn insert_vertices(&mut self) {
        let count = self.rng.below(6) as usize;
        let (mut fault, graph) = (self.fault(), &mut self.world.graph);
        let before = graph.vertices();
        let said = fault.during(|| graph.insert_vertices(count));
        self.counters.note_result(&fault, &said);
        match said {
            Ok(ids) => {
                assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), count);
                assert!(ids.iter().all(|&id| self.gone.remove(&id) || id as usize >= before));
                assert!(self.world.graph.vertices() <= before + count);
            }
            Err(_) => assert_eq!(self.world.graph.vertices(), before),
        }
    }

    /// Saves the graph, and goes on with another one that is loaded from the file.
    fn save_and_load(&mut self) {
        let (mut fault, mut file) = (self.fault(), Vec::new());
        let saved = fault.during(|| self.world.graph.save(&mut file));
        self.counters.note_result(&fault, &saved);
        if saved.is_err() {
            return;
        }
        let (builder, may_refuse) = memory(self.device, &mut self.rng);
        let mut fault = self.fault();
        let loaded = fault.during(|| DynamicGraph::load(&file[..], builder));
        match loaded {
            // The memory is fixed.
            Err(Error::NoRoom { .. }) if may_refuse || fault.has_struck => {}
            Ok(graph) => {
                (self.world.graph, self.may_refuse) = (graph, may_refuse);
                self.counters.loaded += 1;
                self.recount();
            }
            failed => self.counters.note_result(&fault, &failed.map(drop)),
        }
    }

    /// Removes all edges. If the call fails, the graph is as before.
    fn clear(&mut self) {
        let (mut fault, graph) = (self.fault(), &mut self.world.graph);
        let said = fault.during(|| graph.clear());
        self.counters.note_result(&fault, &said);
        if said.is_ok() {
            self.world.edges.clear();
            self.recount();
        }
    }

    /// Changes the memory of the graph, and not its edges.
    fn manage(&mut self) {
        let (verb, edges) = (self.rng.below(3), self.rng.below(500) as usize);
        let (mut fault, graph) = (self.fault(), &mut self.world.graph);
        let said = fault.during(|| match verb {
            0 => graph.flush(),
            1 => graph.rehash(1 + edges % 3).map(drop),
            _ => graph.reserve(edges),
        });
        self.counters.note_result(&fault, &said);
    }
}

/// Returns a builder with random memory, and whether that is fixed.
fn memory<E: Verbs>(device: &Device, rng: &mut Rng) -> (Builder<E>, bool) {
    let (slabs, tables, is_fixed) = (rng.pick(&[1, 32, 64]), rng.pick(&[0, 6, 40, 100]), rng.below(4) == 0);
    let builder = DynamicGraph::<E>::builder().device(device).slabs(slabs).table_slabs(tables);
    (builder.fixed(is_fixed).large_batch(rng.pick(&[1, 1000])), is_fixed)
}
