//! Times of the stages of batches.
use crate::Result;
use gpu::{Event, Stream};

/// Milliseconds that this rank's streams spent in each stage of the batches since the last call of
/// [`ShardedMap::stages`](super::ShardedMap::stages), if they are measured. Operations of the shard run
/// beside partitions and gathers, so that the sum exceeds the time of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stages {
    /// Counts by owner, and their scan.
    pub count: f64,
    /// Elements brought into the order of their owners.
    pub partition: f64,
    /// Waits for elements of other ranks that had not arrived when the stream came to them.
    pub arrival: f64,
    /// The shard's operations.
    pub probe: f64,
    /// Waits for answers of other ranks.
    pub answers: f64,
    /// Answers brought into the order of the batch.
    pub gather: f64,
}

/// A stage.
#[derive(Clone, Copy, Debug)]
pub enum Stage {
    Count,
    Partition,
    Arrival,
    Probe,
    Answers,
    Gather,
}

/// Points in the order of streams between which the stages lie.
#[derive(Debug, Default)]
pub struct Clock {
    pub is_on: bool,
    spans: Vec<(Stage, [Event; 2])>,
}

/// Begin of a stage, if it is measured.
#[must_use]
pub struct Begin<'a>(Option<(Event, &'a Stream)>);

impl Clock {
    /// Begins a stage of work that is submitted to a stream.
    pub fn begin<'a>(&self, stream: &'a Stream) -> Result<Begin<'a>> {
        Ok(Begin(if self.is_on { Some((stream.record()?, stream)) } else { None }))
    }

    /// Ends a stage, in the order of its stream.
    pub fn end(&mut self, stage: Stage, begin: Begin<'_>) -> Result<()> {
        if let Some((begin, stream)) = begin.0 {
            self.spans.push((stage, [begin, stream.record()?]));
        }
        Ok(())
    }

    /// Returns the sums of all spans, and forgets these. The stream has executed them.
    pub fn take(&mut self) -> Result<Stages> {
        let mut stages = Stages::default();
        for (stage, [begin, end]) in self.spans.drain(..) {
            let sum = match stage {
                Stage::Count => &mut stages.count,
                Stage::Partition => &mut stages.partition,
                Stage::Arrival => &mut stages.arrival,
                Stage::Probe => &mut stages.probe,
                Stage::Answers => &mut stages.answers,
                Stage::Gather => &mut stages.gather,
            };
            *sum += end.elapsed_ms(&begin)?;
        }
        Ok(stages)
    }
}
