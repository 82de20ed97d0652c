//! Batches of several host threads on one table: each thread has a stream and a role.
use super::inputs::RowOf;
use super::loaded::{Loaded, UNWRITTEN, count};
use crate::engine::benchmark::{Benchmark, Metric, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::{Buffer, Stream};
use phalanx_kernels::keyed::Outcome;
use std::time::Instant;
use workloads::parallel;

/// Kind of the batches of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// `get`.
    Reader,
    /// `assign`.
    Updater,
    /// `insert` of keys that are present, so that the load stays as it is.
    Inserter,
    /// `insert` of new keys, each batch others. Keys of readers may be evicted.
    Newcomer,
}

impl Role {
    /// Roles by the parameters with their numbers of threads. Of a role that is left out there are none.
    const ALL: [(Self, &str); 4] = [
        (Self::Reader, "readers"),
        (Self::Updater, "updaters"),
        (Self::Inserter, "inserters"),
        (Self::Newcomer, "newcomers"),
    ];
}

/// A host thread's part.
struct Worker {
    role: Role,
    stream: Stream,
    /// Numbers of the keys of a batch; of a newcomer, of its last batch.
    numbers: Vec<u64>,
    /// Keys of a batch; of a newcomer, those of all batches.
    keys: Buffer<u64>,
    /// Rows to write, or the output of a reader.
    rows: Buffer<f32>,
    outcomes: Buffer<u8>,
}

impl Worker {
    /// Submits the thread's batches, and waits for them.
    fn run(&mut self, loaded: &Loaded<'_>, batches: usize) -> Result<()> {
        let len = self.numbers.len();
        for batch in 0..batches {
            let table = loaded.table.on(&self.stream).distinct();
            match self.role {
                Role::Reader => table.get(&self.keys, &mut self.rows, &mut self.outcomes)?,
                Role::Updater => table.assign(&self.keys, &self.rows, &mut self.outcomes)?,
                Role::Inserter => table.insert(&self.keys, &self.rows, &mut self.outcomes)?,
                Role::Newcomer => {
                    let keys = self.keys.slice(batch * len..(batch + 1) * len)?;
                    table.insert(keys, &self.rows, &mut self.outcomes)?;
                }
            }
        }
        Ok(self.stream.synchronize()?)
    }
}

/// Prepared case: `readers`, `updaters`, `inserters` and `newcomers` are numbers of threads, each with
/// `batches` batches of `n` distinct keys, which are present unless newcomers bring them.
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
        let (loaded, batches) = (Loaded::new(gpu, case)?, count(case, "batches")?);
        let mut workers = Vec::new();
        for (role, name) in Role::ALL {
            for _ in 0..case.number_if_given(name)?.unwrap_or(0.0) as usize {
                workers.push(Self::worker(&loaded, (role, workers.len() as u64), batches, case.seed)?);
            }
        }
        ensure!(
            !workers.is_empty(),
            "no threads: `readers`, `updaters`, `inserters` and `newcomers` are all 0"
        );
        Ok(Self { loaded, workers, batches, ms: 0.0 })
    }

    fn worker(loaded: &Loaded<'_>, (role, thread): (Role, u64), batches: usize, seed: u64) -> Result<Worker> {
        let (device, n) = (&loaded.gpu.device, loaded.batch());
        // Each newcomer has keys of its own, behind those that filled the table.
        let len = (n * batches) as u64;
        let first = loaded.numbers + thread * len;
        let (numbers, all) = match role {
            Role::Newcomer => {
                ((first + len - n as u64..first + len).collect(), (first..first + len).collect())
            }
            _ => (loaded.present(n, seed.wrapping_add(thread))?, Vec::new()),
        };
        let keys = loaded.inputs.keys(if all.is_empty() { &numbers } else { &all });
        Ok(Worker {
            role,
            stream: device.stream()?,
            keys: device.from_slice(&keys)?,
            numbers,
            rows: device.from_slice(&loaded.inputs.rows(n, |_| RowOf::Given(thread)))?,
            outcomes: device.filled(n, UNWRITTEN)?,
        })
    }

    /// Checks that a row is the first one of its key, or one that a thread has written, as a whole.
    fn is_row(&self, number: u64, row: &[f32]) -> bool {
        let is = |of| self.loaded.inputs.is_row(of, row);
        let writes = |(_, worker): &(usize, &Worker)| worker.role != Role::Reader;
        let mut writers = self.workers.iter().enumerate().filter(writes);
        is(RowOf::Loaded(number)) || writers.any(|(thread, _)| is(RowOf::Given(thread as u64)))
    }

    /// Checks the last results of a thread. Only if there are newcomers may keys be absent: `left` are then
    /// the outcomes of lookups after all batches, and a key that was evicted is not there again.
    fn check(
        &self,
        thread: usize,
        (rows, codes): (&[f32], &[u8]),
        expected: Outcome,
        left: &[u8],
    ) -> Result<()> {
        let (dim, numbers) = (self.loaded.table.dim(), &self.workers[thread].numbers);
        let is_right = |index: usize| {
            if codes[index] == Outcome::Absent as u8 && self.evicts() {
                return left[index] == Outcome::Absent as u8;
            }
            codes[index] == expected as u8
                && self.is_row(numbers[index], &rows[index * dim..(index + 1) * dim])
        };
        let wrong = parallel::first(numbers.len(), |index| !is_right(index));
        ensure!(wrong.is_none(), "thread {thread}: the element {wrong:?} is wrong");
        Ok(())
    }

    /// Returns whether a batch may evict keys of another thread.
    fn evicts(&self) -> bool {
        self.workers.iter().any(|worker| worker.role == Role::Newcomer)
    }

    /// Looks up the keys of a thread's last batch. Returns rows and outcomes.
    fn left(&self, worker: &Worker) -> Result<(Vec<f32>, Vec<u8>)> {
        let (table, device) = (&self.loaded.table, &self.loaded.gpu.device);
        let mut rows = device.zeroed::<f32>(worker.rows.len())?;
        let mut outcomes = device.filled(worker.numbers.len(), UNWRITTEN)?;
        let keys = worker.keys.slice(worker.keys.len() - worker.numbers.len()..)?;
        table.on(&self.loaded.gpu.stream).get(keys, &mut rows, &mut outcomes)?;
        Ok((rows.read()?, outcomes.read()?))
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
            let expected = match worker.role {
                Role::Reader => Outcome::Found,
                Role::Newcomer => Outcome::Inserted,
                Role::Updater | Role::Inserter => Outcome::Replaced,
            };
            // Also the rows that are left in the table.
            let (left, codes) = self.left(worker)?;
            self.check(thread, (&worker.rows.read()?, &worker.outcomes.read()?), expected, &codes)?;
            self.check(thread, (&left, &codes), Outcome::Found, &codes)?;
            let is_new = worker.role == Role::Newcomer;
            let is_gone = |code: &u8| *code == Outcome::Absent as u8;
            ensure!(!is_new || !codes.iter().any(is_gone), "thread {thread}: a key that is new was evicted");
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
    fn newcomers_evict_keys_of_readers() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let mut threads = Threads::new(&gpu, &first_case("hkv/concurrent", 0)).unwrap();
        threads.restore().unwrap();
        threads.launch().unwrap();
        assert_eq!(threads.verify().unwrap().succeeded, threads.operations());
        threads.workers[0].outcomes.fill_bytes(Outcome::Absent as u8).unwrap();
        assert!(threads.verify().unwrap_err().to_string().contains("thread 0"));
    }

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
