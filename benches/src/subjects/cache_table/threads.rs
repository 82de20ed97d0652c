//! Batches of several host threads on one table: each thread has a stream and a role.
use super::inputs::RowOf;
use super::loaded::{Loaded, UNWRITTEN, count};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::{Buffer, Stream};
use phalanx_kernels::keyed::Outcome;
use rayon::prelude::*;
use std::time::Instant;

/// Kind of the batches of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// `get`.
    Reader,
    /// `assign`.
    Updater,
    /// `insert` of keys that are present, so that the load stays as it is.
    Inserter,
}

/// A host thread's part.
struct Worker {
    role: Role,
    stream: Stream,
    numbers: Vec<u64>,
    keys: Buffer<u64>,
    /// Rows to write, or the output of a reader.
    rows: Buffer<f32>,
    outcomes: Buffer<u8>,
}

impl Worker {
    /// Submits the thread's batches, and waits for them.
    fn run(&mut self, loaded: &Loaded<'_>, batches: usize) -> Result<()> {
        for _ in 0..batches {
            let table = loaded.table.on(&self.stream).distinct();
            match self.role {
                Role::Reader => table.get(&self.keys, &mut self.rows, &mut self.outcomes)?,
                Role::Updater => table.assign(&self.keys, &self.rows, &mut self.outcomes)?,
                Role::Inserter => table.insert(&self.keys, &self.rows, &mut self.outcomes)?,
            }
        }
        Ok(self.stream.synchronize()?)
    }
}

/// Prepared case: `readers`, `updaters` and `inserters` are numbers of threads, each with `batches` batches
/// of `n` distinct keys that are present.
pub struct Threads<'a> {
    loaded: Loaded<'a>,
    workers: Vec<Worker>,
    batches: usize,
    ms: f64,
}

impl<'a> Threads<'a> {
    /// Fills a table, and chooses the keys of each thread. The rows that a thread writes are all equal, and
    /// differ from those of other threads.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when parameters are missing or the table does not fill.
    pub fn new(gpu: &'a Gpu, case: &Case) -> Result<Self> {
        let (loaded, n, batches) = (Loaded::new(gpu, case)?, case.n as usize, count(case, "batches")?);
        let roles = [(Role::Reader, "readers"), (Role::Updater, "updaters"), (Role::Inserter, "inserters")];
        let mut workers = Vec::new();
        for (role, name) in roles {
            for _ in 0..case.number(name)? as usize {
                let thread = workers.len() as u64;
                let numbers = loaded.present(n, case.seed.wrapping_add(thread))?;
                let rows = loaded.inputs.rows(n, |_| RowOf::Given(thread));
                workers.push(Worker {
                    role,
                    stream: gpu.device.stream()?,
                    keys: gpu.device.from_slice(&loaded.inputs.keys(&numbers))?,
                    numbers,
                    rows: gpu.device.from_slice(&rows)?,
                    outcomes: gpu.device.filled(n, UNWRITTEN)?,
                });
            }
        }
        ensure!(!workers.is_empty(), "no threads: `readers`, `updaters` and `inserters` are all 0");
        Ok(Self { loaded, workers, batches, ms: 0.0 })
    }

    /// Checks that a row is the first one of its key, or one that a thread has written, as a whole.
    fn is_row(&self, number: u64, row: &[f32]) -> bool {
        let is = |of| self.loaded.inputs.is_row(of, row);
        let writes = |(_, worker): &(usize, &Worker)| worker.role != Role::Reader;
        let mut writers = self.workers.iter().enumerate().filter(writes);
        is(RowOf::Loaded(number)) || writers.any(|(thread, _)| is(RowOf::Given(thread as u64)))
    }

    fn check(&self, thread: usize, rows: &[f32], codes: &[u8], expected: Outcome) -> Result<()> {
        let (dim, numbers) = (self.loaded.table.dim(), &self.workers[thread].numbers);
        let is_wrong = |index: &usize| {
            let row = &rows[index * dim..(index + 1) * dim];
            codes[*index] != expected as u8 || !self.is_row(numbers[*index], row)
        };
        let wrong = (0..numbers.len()).into_par_iter().find_first(is_wrong);
        ensure!(wrong.is_none(), "thread {thread}: the element {wrong:?} is wrong");
        Ok(())
    }
}

impl Benchmark for Threads<'_> {
    fn restore(&mut self) -> Result<()> {
        self.loaded.refill()?;
        for worker in &mut self.workers {
            if worker.role == Role::Reader {
                worker.rows.fill_bytes(0xff)?;
            }
            worker.outcomes.fill_bytes(UNWRITTEN)?;
        }
        Ok(self.loaded.gpu.device.synchronize()?)
    }

    fn launch(&mut self) -> Result<()> {
        let (loaded, batches, start) = (&self.loaded, self.batches, Instant::now());
        let results: Vec<Result<()>> = std::thread::scope(|scope| {
            let run = |worker| scope.spawn(move || Worker::run(worker, loaded, batches));
            let threads: Vec<_> = self.workers.iter_mut().map(run).collect();
            let join = |panic| std::panic::resume_unwind(panic);
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(join)).collect()
        });
        self.ms = start.elapsed().as_secs_f64() * 1e3;
        results.into_iter().collect()
    }

    fn own_ms(&self) -> Option<f64> {
        Some(self.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        for (thread, worker) in self.workers.iter().enumerate() {
            let codes = worker.outcomes.read()?;
            let expected = if worker.role == Role::Reader { Outcome::Found } else { Outcome::Replaced };
            self.check(thread, &worker.rows.read()?, &codes, expected)?;
            // Also the rows that are left in the table.
            let (table, stream) = (&self.loaded.table, &self.loaded.gpu.stream);
            let mut left = self.loaded.gpu.device.zeroed::<f32>(worker.rows.len())?;
            let mut outcomes = self.loaded.gpu.device.filled(codes.len(), UNWRITTEN)?;
            table.on(stream).get(&worker.keys, &mut left, &mut outcomes)?;
            self.check(thread, &left.read()?, &outcomes.read()?, Outcome::Found)?;
        }
        Ok(Verified::all(self.operations() as usize))
    }

    fn operations(&self) -> u64 {
        self.workers.iter().map(|worker| (worker.numbers.len() * self.batches) as u64).sum()
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::TableBytes(self.loaded.table.memory_usage() as u64)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::machine::DeviceChoice;

    #[test]
    fn batches_that_do_nothing_and_torn_rows_are_faults() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut threads = Threads::new(&gpu, &first_case("hkv/exp3e", 0)).unwrap();
        threads.restore().unwrap();
        assert!(threads.verify().unwrap_err().to_string().contains("thread 0"));
        threads.launch().unwrap();
        assert_eq!(threads.verify().unwrap().succeeded, threads.operations());
        let mut rows = threads.workers[0].rows.read().unwrap();
        rows[0] += 1.0;
        threads.workers[0].rows.write(&rows).unwrap();
        assert!(threads.verify().unwrap_err().to_string().contains("element Some(0) is wrong"));
    }
}
