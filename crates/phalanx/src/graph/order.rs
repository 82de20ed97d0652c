//! The order of the batches of a graph in several streams.
use super::memory::{RowSpace, Workspace};
use crate::Result;
use gpu::{Event, Stream};

/// Number of events above which those that have completed are dropped.
const MANY_EVENTS: usize = 64;

/// Orders the batches of a graph by events; the host never waits. Batches that change the graph run one after
/// the other. Readers of a whole graph wait for changes, and changes for them. Lookups run beside changes,
/// except beside moves: the steps of an insertion that change the place of edges.
///
/// The owner holds a mutex while it submits a batch, so batches of host threads do not mix.
#[derive(Debug)]
pub struct Order {
    /// End of the last batch that changes the graph.
    changed: Option<Event>,
    /// End of the last move.
    moved: Option<Event>,
    /// Ends of lookups since the last move.
    lookups: Vec<Event>,
    /// Ends of readers since the last change.
    readers: Vec<Event>,
    /// Number of changes so far.
    pub changes: u64,
    /// Memory of batches that insert.
    pub workspace: Workspace,
    /// Memory of copies into rows, since the first one.
    pub rows: Option<Box<RowSpace>>,
}

impl Order {
    pub fn new(workspace: Workspace) -> Self {
        let (lookups, readers) = (Vec::new(), Vec::new());
        Self { changed: None, moved: None, lookups, readers, changes: 0, workspace, rows: None }
    }

    /// Makes a stream wait for all that a lookup may not run beside, before `submit`.
    pub fn look_up(&mut self, stream: &Stream, submit: impl FnOnce() -> Result<()>) -> Result<()> {
        wait(stream, &self.moved)?;
        let submitted = submit();
        push(&mut self.lookups, stream)?;
        submitted
    }

    /// As [`Self::look_up`], for a batch that reads the whole graph.
    pub fn read(&mut self, stream: &Stream, submit: impl FnOnce() -> Result<()>) -> Result<()> {
        wait(stream, &self.changed)?;
        let submitted = submit();
        push(&mut self.readers, stream)?;
        submitted
    }

    /// As [`Self::read`], for a batch in several streams that waits for its end, also if it fails.
    pub fn read_to_end(&mut self, streams: &[Stream], run: impl FnOnce() -> Result<()>) -> Result<()> {
        if self.changed.as_ref().is_some_and(|event| event.is_complete().unwrap_or(false)) {
            self.changed = None;
        }
        streams.iter().try_for_each(|stream| wait(stream, &self.changed))?;
        run()
    }

    /// Makes a stream wait for all that a change may not run beside, before `submit`, which may call
    /// [`Self::begin_move`] and [`Self::end_move`].
    pub fn change(&mut self, stream: &Stream, submit: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        wait(stream, &self.changed)?;
        self.readers.iter().try_for_each(|event| stream.wait(event))?;
        self.changes += 1;
        let submitted = submit(self);
        // Also after an error: a part of the batch may have been submitted.
        self.changed = Some(stream.point()?);
        self.readers.clear();
        submitted
    }

    /// Makes the stream of a change wait for lookups.
    pub fn begin_move(&self, stream: &Stream) -> Result<()> {
        Ok(self.lookups.iter().try_for_each(|event| stream.wait(event))?)
    }

    /// Notes the end of a move. Later lookups wait for it.
    pub fn end_move(&mut self, stream: &Stream) -> Result<()> {
        self.moved = Some(stream.point()?);
        self.lookups.clear();
        Ok(())
    }
}

fn wait(stream: &Stream, event: &Option<Event>) -> Result<()> {
    Ok(event.iter().try_for_each(|event| stream.wait(event))?)
}

/// Adds the end of a stream's work to a list.
fn push(events: &mut Vec<Event>, stream: &Stream) -> Result<()> {
    if events.len() >= MANY_EVENTS {
        // An event whose device is lost stays.
        events.retain(|event| !event.is_complete().unwrap_or(false));
    }
    events.push(stream.point()?);
    Ok(())
}
