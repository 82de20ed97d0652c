//! Training and serving, batch by batch.
use crate::cache::{self, Cache, Looked};
use crate::clicks::{self, Clicks};
use crate::history::{Batch, History, Stage};
use crate::store::{Model, Store, gradient};
use anyhow::{Result, ensure};
use phalanx::Outcome;
use phalanx::gpu::Device;

/// Parameters of a training.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The stream.
    pub clicks: clicks::Options,
    /// The cache.
    pub cache: cache::Options,
    /// Number of requests in a training batch.
    pub batch: usize,
    /// Number of serving requests after each batch.
    pub serve: usize,
    /// Number of batches with misses of an item before the cache is asked to place it, at least 1.
    pub admit_after: u32,
    /// Number of batches in an epoch, at least 1.
    pub epoch_every: u64,
    /// Maximum number of rows that each bucket moves to device memory after a batch.
    pub promote: u32,
    /// Number of batches within which a request shows that an eviction was wrong.
    pub window: u64,
    /// Whether each row that the cache returns is compared with the model.
    pub verify: bool,
}

/// A store, a cache of it, and the model of their training.
///
/// The state of an item is its row in the cache if the cache has the item, else its row in the store.
#[derive(Debug)]
pub struct Training {
    options: Options,
    clicks: Clicks,
    store: Store,
    model: Model,
    cache: Cache,
    /// Whether each item is in the cache, by the outcomes of insertions and the evicted items.
    cached: Vec<bool>,
    /// Number of batches in which each item was missed since it was last placed.
    misses: Vec<u32>,
    /// The batch that evicted each item, plus 1; 0 if none did or the item was requested since.
    evictions: Vec<u32>,
    batches: Vec<Batch>,
}

impl Training {
    /// Prepares a training: an empty cache, and the first rows of all items in the store.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when an option lies outside its range, or host or device lack the memory.
    pub fn new(device: &Device, options: Options) -> Result<Self> {
        let (items, dim) = (options.clicks.items, options.cache.dim);
        let clicks = Clicks::new(options.clicks)?;
        let cache = Cache::new(device, &options.cache)?;
        let (store, model) = (Store::new(items, dim)?, Model::new(items, dim)?);
        let len = items as usize;
        Ok(Self {
            options,
            clicks,
            store,
            model,
            cache,
            cached: vec![false; len],
            misses: vec![0; len],
            evictions: vec![0; len],
            batches: Vec::new(),
        })
    }

    /// Trains a batch and serves requests. Returns what happened.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails, and when an outcome or a row is wrong.
    pub fn step(&mut self) -> Result<&Batch> {
        let now = self.batches.len() as u64;
        self.cache.begin(now, (now / self.options.epoch_every) as u32)?;
        let mut batch = Batch::new(self.clicks.moves_at(now));
        self.train(now, &mut batch)?;
        self.serve(now, &mut batch)?;
        if self.options.promote > 0 {
            let (cache, most) = (&self.cache, self.options.promote);
            let moved = batch.timed(Stage::Promote, 0, || cache.table().promote(most))?;
            batch.promoted = moved as u64;
            batch.add_rows(Stage::Promote, moved);
        }
        self.batches.push(batch);
        Ok(&self.batches[now as usize])
    }

    fn train(&mut self, now: u64, batch: &mut Batch) -> Result<()> {
        let items = self.clicks.training(now, self.options.batch);
        self.note_returns(now, batch, &items);
        let looked = batch.timed(Stage::Lookup, items.len(), || self.cache.get_missed(&items))?;
        self.check("training", &items, &looked)?;
        batch.requests = items.len() as u64;
        batch.hits = batch.requests - looked.missed.len() as u64;
        let missed = distinct(looked.missed);
        batch.missed = missed.len() as u64;
        let admitted = self.admit(missed);
        self.place(now, batch, &admitted)?;
        self.learn(now, batch, &items)
    }

    /// Counts the misses. Returns the items that have reached the number for admission.
    fn admit(&mut self, mut missed: Vec<u64>) -> Vec<u64> {
        missed.retain(|item| {
            let misses = &mut self.misses[*item as usize];
            *misses += 1;
            *misses >= self.options.admit_after
        });
        missed
    }

    /// Copies the rows of items from the store to the cache, and evicted rows back.
    fn place(&mut self, now: u64, batch: &mut Batch, items: &[u64]) -> Result<()> {
        batch.admitted = items.len() as u64;
        let rows = batch.timed(Stage::Fetch, items.len(), || self.store.fetch(items));
        let inserted = batch.timed(Stage::Insert, items.len(), || self.cache.insert_evict(items, &rows));
        let (outcomes, evicted) = inserted?;
        for (item, outcome) in items.iter().zip(outcomes) {
            match outcome {
                Some(Outcome::Inserted) => {
                    self.cached[*item as usize] = true;
                    self.misses[*item as usize] = 0;
                }
                Some(Outcome::Refused) => batch.refused += 1,
                other => anyhow::bail!("batch {now}: item {item} was absent, and its insertion is {other:?}"),
            }
        }
        batch.evicted = evicted.keys.len() as u64;
        for (item, row) in evicted.keys.iter().zip(evicted.rows.chunks_exact(self.options.cache.dim)) {
            let is_cached = std::mem::replace(&mut self.cached[*item as usize], false);
            ensure!(is_cached, "batch {now}: item {item} was evicted, but not in the cache");
            self.model.check("evicted", *item, row)?;
            self.evictions[*item as usize] = now as u32 + 1;
        }
        let rows = evicted.keys.len();
        batch.timed(Stage::WriteBack, rows, || self.store.write_back(&evicted.keys, &evicted.rows));
        Ok(())
    }

    /// Adds a gradient for each request: to the rows in the cache on the device, to the others in the store.
    fn learn(&mut self, now: u64, batch: &mut Batch, items: &[u64]) -> Result<()> {
        let dim = self.options.cache.dim;
        let gradients =
            |items: &[u64]| -> Vec<f32> { items.iter().flat_map(|item| gradient(*item, now, dim)).collect() };
        let (near, far): (Vec<u64>, Vec<u64>) = items.iter().partition(|item| self.cached[**item as usize]);
        let (near_rows, far_rows) = (gradients(&near), gradients(&far));
        let outcomes =
            batch.timed(Stage::Gradient, near.len(), || self.cache.accumulate(&near, &near_rows))?;
        let wrong = outcomes.iter().position(|outcome| *outcome != Some(Outcome::Replaced));
        ensure!(wrong.is_none(), "batch {now}: gradient {wrong:?} of an item in the cache was not added");
        batch.timed(Stage::StoreGradient, far.len(), || {
            let rows = far.iter().zip(far_rows.chunks_exact(dim));
            rows.for_each(|(item, row)| self.store.add(*item, row));
        });
        let all =
            near.iter().zip(near_rows.chunks_exact(dim)).chain(far.iter().zip(far_rows.chunks_exact(dim)));
        for (item, row) in all {
            self.model.add(*item, row)?;
        }
        Ok(())
    }

    fn serve(&mut self, now: u64, batch: &mut Batch) -> Result<()> {
        let items = self.clicks.serving(now, self.options.serve);
        self.note_returns(now, batch, &items);
        let looked = batch.timed(Stage::Serve, items.len(), || self.cache.get_and_touch(&items))?;
        batch.served = items.len() as u64;
        batch.served_hits = batch.served - looked.missed.len() as u64;
        self.check("serving", &items, &looked)
    }

    /// Counts the items that were evicted, and are requested within the window.
    fn note_returns(&mut self, now: u64, batch: &mut Batch, items: &[u64]) {
        for item in items {
            let evicted_at = std::mem::take(&mut self.evictions[*item as usize]);
            if let Some(at) = u64::from(evicted_at).checked_sub(1)
                && now - at <= self.options.window
            {
                // The current batch is not yet in the list.
                self.batches.get_mut(at as usize).unwrap_or(batch).returned += 1;
            }
        }
    }

    /// Checks that the cache found the items that it has and no others, and, if asked, each row.
    fn check(&self, what: &str, items: &[u64], looked: &Looked) -> Result<()> {
        let rows = looked.rows.chunks_exact(self.options.cache.dim);
        for ((item, outcome), row) in items.iter().zip(&looked.outcomes).zip(rows) {
            let is_cached = self.cached[*item as usize];
            let expected = if is_cached { Outcome::Found } else { Outcome::Absent };
            ensure!(*outcome == Some(expected), "{what}: item {item} is {outcome:?}, not {expected:?}");
            if self.options.verify {
                self.model.check(what, *item, if is_cached { row } else { self.store.row(*item) })?;
            }
        }
        Ok(())
    }

    /// Copies the rows in the cache to the store, and compares all rows with the model.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device fails, an item is lost or there twice, or a row is wrong.
    pub fn finish(mut self) -> Result<History> {
        let rest = self.cache.table().export(..)?;
        for item in &rest.keys {
            let is_cached = std::mem::replace(&mut self.cached[*item as usize], false);
            ensure!(is_cached, "after the training: the cache has item {item} twice, or should not have it");
        }
        let lost = self.cached.iter().position(|is_cached| *is_cached);
        ensure!(lost.is_none(), "after the training: the cache has lost item {lost:?}");
        self.store.write_back(&rest.keys, &rest.rows);
        self.model.check_all(&self.store)?;
        Ok(History { batches: self.batches, window: self.options.window })
    }
}

fn distinct(mut items: Vec<u64>) -> Vec<u64> {
    items.sort_unstable();
    items.dedup();
    items
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx::cache_table::Rule;

    /// Returns a training after two batches. All its items fit the cache.
    fn begun(verify: bool) -> Training {
        let options = Options {
            clicks: clicks::Options { items: 50, theta: 0.5, drift_every: 0, drift: 0.0, seed: 3 },
            cache: cache::Options {
                capacity: 128,
                dim: 2,
                rule: Rule::Lru,
                two_buckets: false,
                on_device: 1.0,
                seed: 3,
            },
            batch: 200,
            serve: 200,
            admit_after: 1,
            epoch_every: 1,
            promote: 0,
            window: 1,
            verify,
        };
        let mut training = Training::new(&Device::named("emulator").unwrap(), options).unwrap();
        for _ in 0..2 {
            training.step().unwrap();
        }
        training
    }

    /// Returns an item in the cache that the next batch requests.
    fn next_item(training: &Training) -> u64 {
        let next = training.clicks.training(2, 200);
        next.into_iter().find(|item| training.cached[*item as usize]).unwrap()
    }

    fn fault(result: Result<impl Sized>) -> String {
        format!("{:#}", result.err().unwrap())
    }

    #[test]
    fn lost_and_additional_items_are_faults() {
        let spoilt = || {
            let training = begun(false);
            let item = next_item(&training);
            assert_eq!(training.cache.table().remove(&[item]).unwrap(), [true]);
            (training, item)
        };
        let (mut training, item) = spoilt();
        assert!(fault(training.step()).contains(&format!("item {item} is Some(Absent)")));
        assert!(fault(spoilt().0.finish()).contains("lost item"));
        let (mut training, item) = (begun(false), 0);
        training.cached[item] = !training.cached[item];
        assert!(fault(training.finish()).contains("after the training"));
    }

    #[test]
    fn wrong_rows_are_faults_at_once_only_if_asked() {
        for verify in [false, true] {
            let mut training = begun(verify);
            let item = next_item(&training);
            assert!(training.cache.table().assign(&[item], &[0.25, 0.5]).unwrap().all_placed());
            let step = training.step().map(drop);
            assert_eq!(step.is_err(), verify);
            let error = if verify { fault(step) } else { fault(training.finish()) };
            assert!(error.contains(&format!("the row of item {item} is [")), "{error}");
        }
    }

    #[test]
    fn rows_that_were_not_written_back_are_faults() {
        let mut training = begun(false);
        training.store.add(7, &[1.0, 0.0]);
        training.cache.table().remove(&[7]).unwrap();
        training.cached[7] = false;
        assert!(fault(training.finish()).contains("the row of item 7"));
    }
}
