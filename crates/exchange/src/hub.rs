//! The meeting point of ranks that are threads of one process.
//!
//! Ranks meet in *steps*: each posts a value and takes the values of all. A step ends in the same way for all
//! ranks: with the same values, or with a loss. For once a rank is lost, no rank can post any more, so that a
//! step which is not complete then never will be; and a rank takes the values of a complete step also if
//! another rank is lost meanwhile.
use crate::error::Lost;
use crate::gate::{Gate, Lent};
use crate::plant::{Fault, Planted};
use crate::transport::{Arrival, BUSY, WINDOWS, check_equal};
use crate::{Error, Result};
use gpu::{Buffer, Event, Stream};
use std::any::Any;
use std::collections::BTreeMap;
use std::mem::discriminant;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Meeting point of ranks that are threads of one process. Cheap to clone: clones refer to the same one.
///
/// Each rank's thread makes its end of the exchange with it: see [`Exchange::emulated`] and
/// [`Exchange::peer`]. A meeting serves one exchange.
///
/// ```
/// use exchange::Meeting;
///
/// let meeting = Meeting::new(3)?;
/// assert_eq!(meeting.ranks(), 3);
/// assert!(Meeting::new(0).is_err());
/// # Ok::<(), exchange::Error>(())
/// ```
///
/// [`Exchange::emulated`]: crate::Exchange::emulated
/// [`Exchange::peer`]: crate::Exchange::peer
#[derive(Clone, Debug)]
pub struct Meeting(Arc<Hub>);

#[derive(Debug)]
pub struct Hub {
    ranks: usize,
    /// Time for which a rank keeps a core busy before it sleeps.
    busy: Duration,
    /// The gates of the ranks.
    gates: Vec<Gate>,
    planted: Vec<Planted>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    taken: Vec<usize>,
    steps: BTreeMap<u64, Step>,
    lost: Option<Lost>,
    /// Number of ranks that sleep until something changes.
    sleepers: usize,
}

/// A value that a rank shares with the others of its process.
pub type Shared = Arc<dyn Any + Send + Sync>;

/// The posts of a step, and the number of ranks that have taken them.
#[derive(Debug)]
struct Step {
    posts: Vec<Option<Arc<Post>>>,
    readers: usize,
}

/// A value that a rank tells the others in a step.
#[derive(Debug)]
pub enum Post {
    /// Numbers of the host, and points in the order of the rank's streams.
    Words(Vec<u64>, Vec<Arc<Event>>),
    /// A shape, and the bytes for each rank.
    #[cfg_attr(not(feature = "emulator"), expect(dead_code, reason = "only emulated ranks send it"))]
    Messages(u64, Vec<Vec<u8>>),
    /// The windows of a rank.
    Windows([Arc<Buffer<u8>>; WINDOWS]),
    /// A shape, the number of bytes for each rank, and the point from which on the rank's window may be
    /// written.
    Ready(u64, Vec<usize>, Event),
    /// The point at which the rank's copies to others have completed.
    Done(Arc<Event>),
    /// Memory that a rank lends to the others for a direct exchange.
    Direct(Lending),
    /// A value of the caller's.
    Shared(Shared),
}

/// Memory that a rank lends to the others, and their permission.
#[derive(Debug)]
pub struct Lending {
    /// Numbers of the host, which the ranks compare.
    pub words: Vec<u64>,
    /// The point from which on the memory may be written; `None`: at once, because the owner's stream is
    /// idle.
    pub ready: Option<Event>,
    pub memory: Lent,
}

impl Meeting {
    /// Creates a meeting point for `ranks` ranks.
    ///
    /// # Errors
    /// [`Error::Arguments`] for 0 ranks and for more than 1024.
    pub fn new(ranks: usize) -> Result<Self> {
        Self::with_faults(ranks, Vec::new())
    }

    /// As [`new`](Self::new), with faults, for tests.
    ///
    /// ```
    /// use exchange::{Fault, Meeting, Planted};
    ///
    /// let dies = Planted { rank: 1, step: 2, fault: Fault::Die };
    /// assert_eq!(Meeting::with_faults(2, vec![dies])?.ranks(), 2);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_faults(ranks: usize, planted: Vec<Planted>) -> Result<Self> {
        if !(1..=1024).contains(&ranks) {
            return Err(Error::arguments("the number of ranks", ranks, "it is from 1 to 1024"));
        }
        let (state, changed) = (Mutex::default(), Condvar::new());
        let gates = (0..ranks).map(|_| Gate::default()).collect();
        Ok(Self(Arc::new(Hub { ranks, busy: busy(ranks), gates, planted, state, changed })))
    }

    /// Returns the number of ranks.
    pub fn ranks(&self) -> usize {
        self.0.ranks
    }

    #[cfg(all(test, feature = "emulator"))]
    pub(crate) fn hub(&self) -> &Hub {
        &self.0
    }

    /// Takes the place of a rank.
    pub(crate) fn join(&self, rank: usize) -> Result<Seat> {
        let mut state = self.0.state();
        if rank >= self.0.ranks || state.taken.contains(&rank) {
            let expected = format!("it is below {}, and no other thread has it", self.0.ranks);
            return Err(Error::arguments("the rank", rank, expected));
        }
        state.taken.push(rank);
        Ok(Seat { hub: self.0.clone(), rank, step: 0, is_stalled: false, fault: None })
    }
}

/// Returns the time for which a rank keeps a core busy. The devices of several ranks end their parts of a
/// large batch within a millisecond; a rank without a core of its own must not keep the others from theirs.
fn busy(ranks: usize) -> Duration {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores > ranks { 20 * BUSY } else { BUSY }
}

/// Spins between two looks at a step: some tenths of a microsecond, so that ranks rarely meet at the lock,
/// where one would sleep.
const SPINS: usize = 10;

impl Hub {
    // Each change is complete, also if a thread panics.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`Self::state`]. The thread does not sleep if another has the lock.
    fn state_awake(&self) -> MutexGuard<'_, State> {
        loop {
            match self.state.try_lock() {
                Ok(state) => return state,
                Err(TryLockError::Poisoned(error)) => return error.into_inner(),
                Err(TryLockError::WouldBlock) => self.pause(),
            }
        }
    }

    /// Returns an error if a rank is lost.
    pub fn check(&self) -> Result<()> {
        self.state().check()
    }

    /// Passes some time before another look at a step.
    fn pause(&self) {
        match self.busy > BUSY {
            true => (0..SPINS).for_each(|_| std::hint::spin_loop()),
            false => std::thread::yield_now(),
        }
    }

    fn mark_lost(&self, state: &mut State, lost: Lost) {
        state.lost.get_or_insert(lost);
        self.changed.notify_all();
    }

    fn fault(&self, rank: usize, step: u64) -> Option<Fault> {
        let is_here = |planted: &&Planted| (planted.rank, planted.step) == (rank, step);
        self.planted.iter().find(is_here).map(|planted| planted.fault)
    }
}

impl State {
    /// Returns an error if a rank is lost.
    fn check(&self) -> Result<()> {
        self.lost.as_ref().map_or(Ok(()), |lost| Err(Error::PeerLost(lost.clone())))
    }

    fn post(&mut self, ranks: usize, rank: usize, step: u64, post: Post) {
        let step = self.steps.entry(step).or_insert_with(|| Step { posts: vec![None; ranks], readers: 0 });
        step.posts[rank] = Some(Arc::new(post));
    }

    /// Returns the posts of a step if all ranks have posted. The last rank to take them forgets the step.
    fn take(&mut self, number: u64) -> Option<Vec<Arc<Post>>> {
        let step = self.steps.get_mut(&number)?;
        let posts: Vec<_> = step.posts.iter().cloned().collect::<Option<_>>()?;
        step.readers += 1;
        if step.readers == posts.len() {
            self.steps.remove(&number);
        }
        Some(posts)
    }

    /// Returns the first rank that has not posted.
    fn missing(&self, step: u64) -> Option<usize> {
        self.steps.get(&step)?.posts.iter().position(Option::is_none)
    }
}

/// The place of a rank at a meeting. Dropping it tells the others that the rank is lost.
#[derive(Debug)]
pub struct Seat {
    hub: Arc<Hub>,
    rank: usize,
    /// Number of the next step.
    step: u64,
    is_stalled: bool,
    /// Fault that is planted in the last step, and changes data.
    fault: Option<Fault>,
}

impl Seat {
    pub fn rank(&self) -> usize {
        self.rank
    }

    pub fn ranks(&self) -> usize {
        self.hub.ranks
    }

    /// Returns the fault of the last step, which its owner applies to the data.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Tells the others that this rank is lost.
    pub fn leave(&mut self, cause: &str) {
        if !self.is_stalled {
            let lost = Lost { rank: Some(self.rank), cause: cause.to_owned() };
            self.hub.mark_lost(&mut self.hub.state(), lost);
        }
    }

    /// Submits copies to memory that was lent in the last step, and returns an event after them, unless a
    /// rank is lost.
    ///
    /// # Errors
    /// [`Error::PeerLost`] if a rank is lost; that of `copies`.
    pub fn submit(
        &self,
        stream: &Stream,
        copies: impl FnOnce() -> Result<()>,
        deadline: Instant,
    ) -> Result<Arc<Event>> {
        if self.fault == Some(Fault::Pause) {
            self.await_loss(deadline + Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(50)); // the others return
        }
        self.hub.gates[self.rank].submit(&self.hub, stream, copies)
    }

    /// Tells the others that this rank is lost, so that no rank begins to copy to memory that it has lent.
    /// Returns events after the copies that have begun.
    pub fn recall(&mut self, cause: &str, deadline: Instant) -> Vec<Arc<Event>> {
        if self.is_stalled {
            self.await_loss(deadline);
        }
        let lost = Lost { rank: Some(self.rank), cause: cause.to_owned() };
        self.hub.mark_lost(&mut self.hub.state(), lost);
        self.hub.gates.iter().filter_map(Gate::last).collect()
    }

    /// Waits until another rank has marked a loss; in tests.
    fn await_loss(&self, deadline: Instant) {
        while self.hub.check().is_ok() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Posts a value and returns those of all ranks.
    ///
    /// # Errors
    /// [`Error::PeerLost`] when a rank is lost, or has not posted before the deadline; [`Error::Mismatch`]
    /// when the posts are of different kinds.
    pub fn gather(&mut self, mut post: Post, deadline: Instant) -> Result<Vec<Arc<Post>>> {
        let step = self.step;
        self.step += 1;
        self.fault = self.hub.fault(self.rank, step);
        self.apply_fault(&mut post)?;
        let mut state = self.hub.state();
        state.check()?;
        state.post(self.hub.ranks, self.rank, step, post);
        if state.sleepers > 0 {
            // A call of the operating system, for which others would wait at the lock.
            self.hub.changed.notify_all();
        }
        let posts = self.await_posts(state, step, deadline)?;
        check_kinds(&posts)?;
        Ok(posts)
    }

    /// Returns the words of all ranks.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gather_words(&mut self, words: Vec<u64>, deadline: Instant) -> Result<Vec<Vec<u64>>> {
        Ok(self.gather_points(words, Vec::new(), deadline)?.0)
    }

    /// Returns the words of all ranks, and for each point of this rank those of all ranks: as many as the
    /// rank with the fewest has. Ranks that execute another operation may have another number.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gather_points(
        &mut self,
        words: Vec<u64>,
        points: Vec<Arc<Event>>,
        deadline: Instant,
    ) -> Result<(Vec<Vec<u64>>, Vec<Arrival>)> {
        let posts = self.gather(Post::Words(words, points), deadline)?;
        let told = || posts.iter().map(|post| told(post));
        let len = told().map(|(_, points)| points.len()).min().unwrap_or(0);
        let points = (0..len).map(|point| Arrival(told().map(|(_, points)| points[point].clone()).collect()));
        let points = points.collect();
        Ok((check_lengths(told().map(|(words, _)| words.to_vec()).collect())?, points))
    }

    /// Returns the shared values of all ranks.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn gather_shared(&mut self, value: Shared, deadline: Instant) -> Result<Vec<Shared>> {
        let posts = self.gather(Post::Shared(value), deadline)?;
        let value = |post: &Arc<Post>| match &**post {
            Post::Shared(value) => Some(value.clone()),
            _ => None,
        };
        Ok(posts.iter().filter_map(value).collect())
    }

    fn await_posts<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        step: u64,
        deadline: Instant,
    ) -> Result<Vec<Arc<Post>>> {
        let start = Instant::now();
        loop {
            if let Some(posts) = state.take(step) {
                return Ok(posts);
            }
            state.check()?;
            if start.elapsed() < self.hub.busy {
                // Ranks that are in step meet in some microseconds; to wake a thread takes longer.
                drop(state);
                self.hub.pause();
                state = self.hub.state_awake();
                continue;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let cause = "it did not answer before the deadline".to_owned();
                let rank = state.missing(step);
                self.hub.mark_lost(&mut state, Lost { rank, cause });
                continue;
            }
            state.sleepers += 1;
            let waited = self.hub.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.sleepers -= 1;
        }
    }

    fn apply_fault(&mut self, post: &mut Post) -> Result<()> {
        match (self.fault, post) {
            (Some(Fault::Die), _) => {
                self.leave("a test ended it");
                Err(Error::lost(self.rank, "a test ended it"))
            }
            (Some(Fault::Stall), _) => {
                self.is_stalled = true;
                Err(Error::lost(self.rank, "a test stopped it"))
            }
            (Some(Fault::CountOffByOne), Post::Words(words, _) | Post::Direct(Lending { words, .. })) => {
                // The last words are counts, one for each rank.
                let next = self.hub.ranks - (self.rank + 1) % self.hub.ranks;
                let index = words.len().checked_sub(next);
                index.into_iter().for_each(|index| words[index] += 1);
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave("its exchange was dropped");
    }
}

/// Returns an error unless all posts are of the kind of rank 0.
fn check_kinds(posts: &[Arc<Post>]) -> Result<()> {
    let kind = |post: &Post| u64::from(matches!(post, Post::Words(..) | Post::Direct(_)));
    let differs = |post: &Arc<Post>| discriminant(&**post) != discriminant(&*posts[0]);
    match posts.iter().position(differs) {
        None => Ok(()),
        Some(rank) => {
            let (found, expected) = (kind(&posts[rank]), kind(&posts[0]));
            Err(Error::Mismatch { what: "operation (1: with counts, 0: padded)", rank, found, expected })
        }
    }
}

/// Returns the words and points of a post; none of others.
fn told(post: &Post) -> (&[u64], &[Arc<Event>]) {
    match post {
        Post::Words(words, points) => (words, points),
        _ => (&[], &[]),
    }
}

/// Returns the words of all ranks if they are as many on each.
pub fn check_lengths(words: Vec<Vec<u64>>) -> Result<Vec<Vec<u64>>> {
    check_equal("number of words", words.iter().map(|words| words.len() as u64))?;
    Ok(words)
}

/// Returns the shape of a post of a round; 0 for others.
pub fn shape(post: &Post) -> u64 {
    match post {
        Post::Messages(shape, _) | Post::Ready(shape, ..) => *shape,
        _ => 0,
    }
}
