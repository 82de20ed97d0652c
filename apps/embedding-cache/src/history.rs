//! What happened in each batch.
use std::time::{Duration, Instant};

/// The stages of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The cache looks the batch up, and gathers the items that it does not have.
    Lookup,
    /// Rows of admitted items are copied from the store.
    Fetch,
    /// The cache places them, and evicts others.
    Insert,
    /// Evicted rows are copied to the store.
    WriteBack,
    /// Gradients are added to the rows in the cache.
    Gradient,
    /// Gradients are added to the rows in the store.
    StoreGradient,
    /// The cache answers requests.
    Serve,
    /// Rows of items with high scores move to device memory.
    Promote,
}

impl Stage {
    /// All stages, in their order in a batch.
    pub const ALL: [Self; 8] = [
        Self::Lookup,
        Self::Fetch,
        Self::Insert,
        Self::WriteBack,
        Self::Gradient,
        Self::StoreGradient,
        Self::Serve,
        Self::Promote,
    ];

    /// Returns its name in tables and figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Lookup => "lookup",
            Self::Fetch => "fetch from store",
            Self::Insert => "insert",
            Self::WriteBack => "write back",
            Self::Gradient => "gradients in cache",
            Self::StoreGradient => "gradients in store",
            Self::Serve => "serve",
            Self::Promote => "promote",
        }
    }
}

/// Rows and time of a stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Work {
    /// Number of rows that it handled.
    pub rows: u64,
    /// Its time, including copies to and from the device.
    pub time: Duration,
}

impl Work {
    /// Returns the throughput in millions of rows a second; 0 without time.
    pub fn rate(self) -> f64 {
        let seconds = self.time.as_secs_f64();
        if seconds > 0.0 { self.rows as f64 / seconds / 1e6 } else { 0.0 }
    }
}

/// Counts and times of a batch, or sums over batches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch {
    /// Training requests.
    pub requests: u64,
    /// Training requests whose item was in the cache.
    pub hits: u64,
    /// Distinct items that were not.
    pub missed: u64,
    /// Missed items that the cache was asked to place.
    pub admitted: u64,
    /// Admitted items that the cache refused, since all its items had higher scores.
    pub refused: u64,
    /// Evicted items.
    pub evicted: u64,
    /// Evicted items that were requested again within the window.
    pub returned: u64,
    /// Serving requests.
    pub served: u64,
    /// Serving requests whose item was in the cache.
    pub served_hits: u64,
    /// Items whose rows have moved to device memory.
    pub promoted: u64,
    /// Whether the hot set had moved.
    pub has_moved: bool,
    work: [Work; Stage::ALL.len()],
}

impl Batch {
    /// Returns a batch without requests. `has_moved` is whether the hot set moved before it.
    pub fn new(has_moved: bool) -> Self {
        Self { has_moved, ..Self::default() }
    }

    /// Returns the percentage of hits of the training.
    pub fn hit_rate(&self) -> f64 {
        percent(self.hits, self.requests)
    }

    /// Returns the percentage of hits of the serving.
    pub fn served_hit_rate(&self) -> f64 {
        percent(self.served_hits, self.served)
    }

    /// Returns the percentage of evicted items that were requested again within the window.
    pub fn return_rate(&self) -> f64 {
        percent(self.returned, self.evicted)
    }

    /// Returns the rows and the time of a stage.
    pub fn work(&self, stage: Stage) -> Work {
        self.work[stage as usize]
    }

    /// Runs a stage, and adds its time and the number of its rows.
    pub fn timed<T>(&mut self, stage: Stage, rows: usize, run: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = run();
        self.work[stage as usize].time += start.elapsed();
        self.add_rows(stage, rows);
        result
    }

    /// Adds to the number of rows of a stage.
    pub fn add_rows(&mut self, stage: Stage, rows: usize) {
        self.work[stage as usize].rows += rows as u64;
    }

    fn and(mut self, other: &Self) -> Self {
        self.requests += other.requests;
        self.hits += other.hits;
        self.missed += other.missed;
        self.admitted += other.admitted;
        self.refused += other.refused;
        self.evicted += other.evicted;
        self.returned += other.returned;
        self.served += other.served;
        self.served_hits += other.served_hits;
        self.promoted += other.promoted;
        for (work, other) in self.work.iter_mut().zip(&other.work) {
            work.rows += other.rows;
            work.time += other.time;
        }
        self
    }
}

/// All batches of a training.
#[derive(Clone, Debug)]
pub struct History {
    /// The batches, in order.
    pub batches: Vec<Batch>,
    /// Number of batches within which a request shows that an eviction was wrong.
    pub window: u64,
}

impl History {
    /// Returns the sum of all batches.
    pub fn total(&self) -> Batch {
        sum(&self.batches)
    }

    /// Returns the sum of the last quarter of the batches, at least one.
    pub fn last_quarter(&self) -> Batch {
        sum(&self.batches[self.batches.len() - self.batches.len().div_ceil(4)..])
    }

    /// Returns the batches whose window has passed, so that all returns of their evicted items are known.
    pub fn judged(&self) -> &[Batch] {
        &self.batches[..self.batches.len().saturating_sub(self.window as usize)]
    }

    /// Returns the percentage of evicted items that were requested again within the window, if any were
    /// evicted whose window has passed.
    pub fn return_rate(&self) -> Option<f64> {
        let judged = sum(self.judged());
        (judged.evicted > 0).then(|| judged.return_rate())
    }
}

fn sum(batches: &[Batch]) -> Batch {
    batches.iter().fold(Batch::default(), |sum, batch| sum.and(batch))
}

fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_evictions_whose_window_has_passed_are_judged() {
        let batch = |evicted, returned| Batch { evicted, returned, ..Batch::default() };
        let batches = vec![batch(10, 1), batch(10, 3), batch(10, 0), batch(10, 0)];
        let history = |window| History { batches: batches.clone(), window };
        assert_eq!(history(2).return_rate(), Some(20.0));
        assert_eq!(history(3).return_rate(), Some(10.0));
        assert_eq!(history(9).return_rate(), None);
    }

    #[test]
    fn sums_have_all_batches_and_the_last_quarter_the_last() {
        let batches = (0..8).map(|hits| Batch { requests: 10, hits, ..Batch::default() }).collect();
        let history = History { batches, window: 1 };
        assert_eq!((history.total().hits, history.last_quarter().hits), (28, 13));
        assert_eq!(history.last_quarter().hit_rate(), 65.0);
    }
}
