//! List of cells, and how to run one.
use super::STREAMS;
use super::batch::{Batch, Owned};
use super::subject::{STRUCTURES, Shown, Situation, Structure, Subject, meet};
use super::universe::{Element, HOST, OWNERS, Universe};
use super::verb::{Model, Verb};
use anyhow::{Context, Result, ensure};
use gpu::{Device, Stream};
use phalanx::Outcome;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::{Duration, Instant};

/// Batches per stream and round. The first of them fills the structure.
const BATCHES: usize = 16;

/// Activity concurrent with the batches of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// A blocking call that makes the structure grow.
    Growth,
    /// A [`Situation`].
    Situation(Situation),
    /// Two host threads submit the batches and also make blocking calls.
    Threads,
    /// A structure, streams and buffers are dropped while their batches are pending.
    Drops,
}

/// Structure, size, two verbs and a concurrent activity.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Structure.
    pub structure: Structure,
    /// Approximate number of keys.
    pub n: usize,
    /// Verbs.
    pub verbs: (Verb, Verb),
    /// Concurrent activity.
    pub beside: Beside,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, second) = (self.verbs.0.name(), self.verbs.1.name());
        write!(f, "{}/{}/{first}+{second}", self.structure.name, self.n)?;
        match self.beside {
            Beside::Growth => Ok(()),
            Beside::Situation(situation) => write!(f, "/{}", format!("{situation:?}").to_lowercase()),
            Beside::Threads => write!(f, "/threads"),
            Beside::Drops => write!(f, "/drops"),
        }
    }
}

impl Cell {
    /// Returns the number of slots that a key may use up before a structure is cleared. Some structures reuse
    /// the slots of removed pairs only when they are rebuilt.
    fn slots_a_key(self) -> usize {
        let removes = |verb| matches!(verb, Verb::Remove | Verb::Execute | Verb::RemoveOne | Verb::RemoveAll);
        let is_hashed = matches!(self.structure.verbs.len(), 4 | 8);
        let churns = removes(self.verbs.0) || removes(self.verbs.1);
        if is_hashed && churns { 6 } else { 1 + usize::from(self.beside == Beside::Threads) }
    }
}

/// Returns all cells of these sizes whose names contain `filter`.
pub fn all(sizes: &[usize], filter: &str) -> Vec<Cell> {
    let mut cells = Vec::new();
    for &structure in &STRUCTURES {
        for &n in sizes {
            let of = |verbs, beside| Cell { structure, n, verbs, beside };
            for (index, &first) in structure.verbs.iter().enumerate() {
                let pair = |&second: &Verb| of((first, second), Beside::Growth);
                cells.extend(structure.verbs[index..].iter().map(pair));
            }
            let mix = (structure.verbs[0], structure.verbs[structure.verbs.len().min(8) - 1]);
            let situation = |&situation: &Situation| of(mix, Beside::Situation(situation));
            cells.extend(structure.situations.iter().map(situation));
            cells.extend([Beside::Threads, Beside::Drops].map(|beside| of(mix, beside)));
        }
    }
    cells.retain(|cell| cell.to_string().contains(filter));
    cells
}

/// Totals of a cell.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Done {
    /// Rounds.
    pub rounds: u64,
    /// Batches.
    pub batches: u64,
    /// Operations whose outcomes were checked.
    pub operations: u64,
    /// Updates refused because no memory was left for a version.
    pub refused: u64,
}

/// Runs a cell for `seconds`, at least two rounds. Calls `progress` at every step.
///
/// # Errors
/// Returns [`gpu::Error`] when the device fails, and [`anyhow::Error`] that describes the first wrong result.
pub fn run(device: &Device, cell: Cell, seconds: f64, progress: &(dyn Fn(&str) + Sync)) -> Result<Done> {
    if cell.structure.is_wide {
        Run::<u64>::new(device, cell, progress)?.run(seconds)
    } else {
        Run::<u32>::new(device, cell, progress)?.run(seconds)
    }
}

/// Running cell.
struct Run<'a, T: Element> {
    device: &'a Device,
    cell: Cell,
    progress: &'a (dyn Fn(&str) + Sync),
    universe: Universe<T>,
    subject: Box<dyn Subject<T>>,
    streams: Vec<Stream>,
    /// Batches of each stream.
    batches: Vec<Vec<Batch<T>>>,
    /// Model of each owner's keys.
    owned: Vec<Owned>,
    done: Done,
}

impl<'a, T: Element> Run<'a, T> {
    fn new(device: &'a Device, cell: Cell, progress: &'a (dyn Fn(&str) + Sync)) -> Result<Self> {
        progress("prepares");
        let universe = Universe::new(cell.n, 7)?;
        let room = universe.keys().len() / OWNERS * STREAMS * cell.slots_a_key();
        let batches = |stream| Self::batches(device, &universe, cell.verbs, stream);
        Ok(Self {
            device,
            cell,
            progress,
            subject: cell.structure.build(device, room)?,
            streams: (0..STREAMS).map(|_| device.stream()).collect::<Result<_, _>>()?,
            batches: (0..STREAMS).map(batches).collect::<Result<_>>()?,
            owned: (0..OWNERS).map(|owner| Owned::new(owner, universe.keys().len())).collect(),
            universe,
            done: Done::default(),
        })
    }

    /// Returns the batches of a stream: one that fills the structure with half of its keys, then both verbs
    /// on each part of the keys.
    fn batches(
        device: &Device,
        universe: &Universe<T>,
        verbs: (Verb, Verb),
        stream: usize,
    ) -> Result<Vec<Batch<T>>> {
        let own = universe.of(stream);
        let (fill, part) = (&own[..own.len() / 2], own.len().div_ceil((BATCHES - 1).div_ceil(2)).max(1));
        let batch = |index: usize| {
            if index == 0 {
                return Batch::new(device, universe, stream, Verb::Insert, (fill, 0));
            }
            let first = (index - 1) / 2 * part;
            let numbers = &own[first.min(own.len())..(first + part).min(own.len())];
            let verb = if (index + stream).is_multiple_of(2) { verbs.0 } else { verbs.1 };
            Batch::new(device, universe, stream, verb, (numbers, index as u64))
        };
        (0..BATCHES).map(batch).collect()
    }

    fn run(mut self, seconds: f64) -> Result<Done> {
        let mut spent = Duration::ZERO;
        while self.done.rounds < 2 || spent.as_secs_f64() < seconds {
            self.restore()?;
            let start = Instant::now();
            self.round()?;
            spent += start.elapsed();
            self.done.rounds += 1;
        }
        (self.progress)("ends");
        Ok(self.done)
    }

    /// Prepares a round. Every other round begins with an empty structure.
    fn restore(&mut self) -> Result<()> {
        (self.progress)("restores");
        if self.done.rounds.is_multiple_of(2) {
            self.subject.clear()?;
            self.owned.iter_mut().for_each(Owned::clear);
        }
        self.batches.iter_mut().flatten().try_for_each(Batch::poison)?;
        Ok(self.device.synchronize()?)
    }

    /// Returns the index of the first batch of a round. The filling batch runs only if the structure is
    /// empty.
    fn first(&self) -> usize {
        (self.done.rounds % 2) as usize
    }

    fn round(&mut self) -> Result<()> {
        match self.cell.beside {
            Beside::Growth => self.round_with_growth()?,
            Beside::Situation(situation) => self.round_with(situation)?,
            Beside::Threads => self.round_by_threads()?,
            Beside::Drops => self.round_with_drops()?,
        }
        (self.progress)("waits");
        self.device.synchronize()?;
        self.check()
    }

    /// Checks the structure and its contents.
    fn check(&mut self) -> Result<()> {
        (self.progress)("checks contents");
        self.subject.validate()?;
        let contents = self.subject.contents()?;
        self.compare(&contents)
    }

    /// Runs a round with a blocking call at the end. The call comes last so that no batch finds the structure
    /// full because of its keys.
    fn round_with_growth(&mut self) -> Result<()> {
        let first = self.first();
        self.submit(first..BATCHES)?;
        if first == 0 {
            self.grow()?;
        }
        self.wait()?;
        self.verify(first..BATCHES)
    }

    fn round_with(&mut self, situation: Situation) -> Result<()> {
        let (first, middle) = (self.first(), BATCHES / 2);
        self.submit(first..middle)?;
        (self.progress)("meets");
        let Self { subject, streams, batches, progress, .. } = self;
        let rest = |subject: &dyn Subject<T>| submit(subject, streams, batches, middle..BATCHES, *progress);
        let shown = meet(&mut **subject, situation, rest)?;
        self.wait()?;
        self.verify(first..middle)?;
        match shown {
            Shown::Nothing => {}
            Shown::Contents(contents) => {
                self.compare(&contents).with_context(|| format!("what {situation:?} has shown"))?;
            }
            Shown::Cleared => self.owned.iter_mut().for_each(Owned::clear),
        }
        self.verify(middle..BATCHES)
    }

    /// Runs a round from two host threads, each with half of the streams and of the host's keys.
    fn round_by_threads(&mut self) -> Result<()> {
        let first = self.first();
        let own: Vec<u32> = if first == 0 { self.universe.of(HOST).to_vec() } else { Vec::new() };
        let half = own.len() / 2;
        let Self { subject, streams, batches, progress, universe, .. } = self;
        let subject = &**subject;
        let (lower, upper) = batches.split_at_mut(STREAMS / 2);
        let (lower_streams, upper_streams) = streams.split_at(STREAMS / 2);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                submit(subject, upper_streams, upper, first..BATCHES, &|_| {})?;
                insert(subject, universe, &own[half..])
            });
            submit(subject, lower_streams, lower, first..BATCHES / 2, *progress)?;
            insert(subject, universe, &own[..half])?;
            submit(subject, lower_streams, lower, BATCHES / 2..BATCHES, *progress)?;
            thread.join().map_err(|_| anyhow::anyhow!("a host thread panicked"))?
        })?;
        self.note_host(&own);
        self.wait()?;
        self.verify(first..BATCHES)
    }

    /// Runs a round in which a structure, streams and buffers are dropped while batches are pending.
    fn round_with_drops(&mut self) -> Result<()> {
        let first = self.first();
        self.submit(first..BATCHES)?;
        let other = self.cell.structure.build::<T>(self.device, self.cell.n)?;
        let verbs = self.cell.verbs;
        for stream in 0..STREAMS {
            let mut batches = Self::batches(self.device, &self.universe, verbs, stream)?;
            let passing = self.device.stream()?;
            batches.iter_mut().try_for_each(|batch| other.submit(&passing, batch))?;
            drop(passing);
            if stream % 2 == 1 {
                drop(batches);
            }
        }
        drop(other);
        self.wait()?;
        self.verify(first..BATCHES)
    }

    fn submit(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        submit(&*self.subject, &self.streams, &mut self.batches, range, self.progress)
    }

    fn wait(&self) -> Result<()> {
        (self.progress)("waits");
        Ok(self.device.synchronize()?)
    }

    /// Inserts the host's keys while batches are pending.
    fn grow(&mut self) -> Result<()> {
        (self.progress)("grows");
        let own = self.universe.of(HOST).to_vec();
        insert(&*self.subject, &self.universe, &own)?;
        self.note_host(&own);
        Ok(())
    }

    /// Records in the model that the host's keys are present.
    fn note_host(&mut self, numbers: &[u32]) {
        let is_multi = self.subject.model() == Model::Multi;
        for &number in numbers {
            let value = if is_multi { 1 } else { u64::from(number) };
            *self.owned[HOST].state(number as usize) = Some(value);
        }
    }

    /// Checks the results of these batches of all streams.
    fn verify(&mut self, range: std::ops::Range<usize>) -> Result<()> {
        (self.progress)("verifies");
        let (model, refuses) = (self.subject.model(), self.subject.refuses());
        let Self { batches, owned, universe, done, .. } = self;
        let of = |(batches, owned): (&Vec<Batch<T>>, &mut Owned)| -> Result<u64> {
            let check = |(index, batch): (usize, &Batch<T>)| {
                let refused = batch.verify(model, universe, owned, refuses);
                refused.with_context(|| format!("batch {} ({})", range.start + index, batch.verb.name()))
            };
            batches[range.clone()].iter().enumerate().map(check).sum()
        };
        done.refused += batches.par_iter().zip(owned.par_iter_mut()).map(of).sum::<Result<u64>>()?;
        let checked = || batches.iter().flat_map(|batches| &batches[range.clone()]);
        done.batches += checked().count() as u64;
        done.operations += checked().map(|batch| batch.len() as u64).sum::<u64>();
        Ok(())
    }

    /// Compares all pairs with the model.
    fn compare(&self, (keys, values): &(Vec<T>, Vec<T>)) -> Result<()> {
        let mut found = vec![None::<u64>; self.universe.keys().len()];
        let numbers: Option<Vec<usize>> = keys.par_iter().map(|&key| self.universe.number(key)).collect();
        let model = self.subject.model();
        for (index, number) in
            numbers.context("a key is there that nobody has inserted")?.into_iter().enumerate()
        {
            let entry = &mut found[number];
            ensure!(model == Model::Multi || entry.is_none(), "key number {number} is there twice");
            *entry = match model {
                Model::Map => Some(values[index].to_u64()),
                Model::Set => Some(0),
                Model::Multi => Some(entry.unwrap_or(0) + 1),
            };
        }
        let mut expected = 0;
        for (number, state) in self.owned.iter().flat_map(Owned::present) {
            let state = if model == Model::Set { 0 } else { state };
            ensure!(found[number] == Some(state), "key number {number}: {:?}, not {state}", found[number]);
            expected += 1;
        }
        let there = found.iter().flatten().count();
        ensure!(there == expected, "{there} keys are there, and {expected} should be");
        Ok(())
    }
}

/// Submits the batches in this range, alternating between the streams.
fn submit<T: Element>(
    subject: &dyn Subject<T>,
    streams: &[Stream],
    batches: &mut [Vec<Batch<T>>],
    range: std::ops::Range<usize>,
    progress: &(dyn Fn(&str) + Sync),
) -> Result<()> {
    for index in range {
        for (stream, batches) in streams.iter().zip(&mut *batches) {
            subject.submit(stream, &mut batches[index])?;
        }
        progress("submits");
    }
    Ok(())
}

/// Inserts absent keys of the host with a blocking call.
fn insert<T: Element>(subject: &dyn Subject<T>, universe: &Universe<T>, numbers: &[u32]) -> Result<()> {
    let keys: Vec<T> = numbers.iter().map(|&number| universe.keys()[number as usize]).collect();
    let values: Vec<T> = numbers.iter().map(|&number| T::from_u64(u64::from(number))).collect();
    let outcomes = subject.insert(&keys, &values)?;
    let inserted = outcomes.count(Outcome::Inserted);
    ensure!(inserted == keys.len(), "a blocking call inserted {inserted} of {} pairs", keys.len());
    Ok(())
}
