//! Lookups in the tables of all ranks by kernels of this rank, through peer access.
//!
//! [`get_remote`](Engine::get_remote) is an operation of one rank, and its caller excludes changes. A `get`
//! of all ranks may also be executed so, if it is small. Then the ranks order their streams by an empty round
//! of the exchange, after which each stream waits for what all had before: lookups after changes, and changes
//! after lookups.
use super::engine::{Engine, Report};
use super::shape::{Call, Shape};
use super::small::batch_of;
use super::steps::Step;
use super::work::{answer_stride, bytes_of, words};
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp, nothing};
use crate::map::structure::{Readable, Structure};
use crate::{Error, Result};
use exchange::{Exchange, Lane};
use gpu::Stream;
use phalanx_kernels::sharded::kernels::Answers;
use phalanx_kernels::sharded::owned::Owned;
use phalanx_kernels::sharded::small::Fixed;
use simt::hash::mix64 as mix;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Work of the ranks that their streams are not ordered with yet; the same on all ranks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pending {
    /// A rank may have submitted changes of its table.
    changes: bool,
    /// A rank may have submitted lookups in the tables of others.
    pub lookups: bool,
    /// Such lookups were the last operation of all ranks, and none has changed its own shard since.
    pub are_last: bool,
}

/// Number by which the ranks know an empty round.
const EMPTY_ROUND: u64 = u64::MAX;

/// Most ranks of which each has a launch that reads all keys of a batch.
const MOST_IN_PLACE: usize = 8;

/// Least number of lookups of a batch that read buckets in steps: an estimate of when the link between the
/// devices is busy. Smaller batches are bound by latency, to which a second dependent load would add.
const LEAST_IN_STEPS: usize = 1 << 18;

/// Sizes of batches by which lookups with and without an exchange are compared.
const CALIBRATED: [usize; 8] = [1 << 8, 1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22];

/// Number of lookups of each size that are timed, after some that are not. The fastest counts: others are
/// disturbed.
const TIMED: usize = 16;

/// The measurement ends at the first size of batches whose exchange takes longer. Parts that are too small
/// for the batch make it so long, and then larger ones would take minutes, also without an exchange: unless
/// each table has a kernel that reads all keys, a message has as little room.
const LONGEST_EXCHANGE: Duration = Duration::from_millis(5);

/// If the exchange that ends the measurement takes more than this multiple of the time without one, all
/// larger sizes are assumed to be faster without one, too.
const FAR: u32 = 2;

/// The faster way to look up batches of some size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Faster {
    Exchange,
    /// Lookups without an exchange.
    Remote,
    /// Lookups without an exchange, and for larger batches, too, which are not timed.
    RemoteByFar,
    /// Lookups without an exchange. Larger batches are not timed, and use the exchange.
    RemoteSoFar,
}

impl Faster {
    /// Returns it for the times of lookups without an exchange, and with one.
    fn of([remote, exchange]: [Duration; 2]) -> Self {
        match remote <= exchange {
            false => Self::Exchange,
            true if exchange <= LONGEST_EXCHANGE => Self::Remote,
            true if exchange > FAR * remote => Self::RemoteByFar,
            true => Self::RemoteSoFar,
        }
    }
}

/// Returns the flags of lookups of a batch of `len` elements, in the table of another rank or the own one.
fn flags(is_remote: bool, len: usize) -> u32 {
    if is_remote && len >= LEAST_IN_STEPS { Owned::IN_STEPS } else { 0 }
}

/// A table that any rank of the process can read.
type Table<K, V> = Arc<dyn Readable<K, V>>;

/// The tables of all ranks.
pub struct Remote<K, V> {
    /// Number of this rank.
    rank: usize,
    tables: Vec<Table<K, V>>,
    stream: Stream,
    /// Memory that lookups of the stream may still read.
    held: Vec<Arc<dyn Send + Sync>>,
}

impl<K: Word, V: Word> Remote<K, V> {
    /// Shares the table of this rank with the others. Returns `None` if this rank cannot read all tables.
    pub fn connect(
        exchange: &mut Exchange,
        shard: &dyn Structure<Key = K, Value = V>,
    ) -> Result<Option<Self>> {
        let own: Option<Table<K, V>> = shard.readable();
        let Some(all) = exchange.share(Arc::new(own))? else { return Ok(None) };
        let table =
            |shared: exchange::Shared| shared.downcast_ref::<Option<Table<K, V>>>().cloned().flatten();
        let Some(tables) = all.into_iter().map(table).collect::<Option<Vec<_>>>() else { return Ok(None) };
        for table in &tables {
            if !exchange.device().enable_peer(&table.device())? {
                return Ok(None);
            }
        }
        let (rank, stream) = (exchange.rank(), exchange.stream().clone());
        Ok(Some(Self { rank, tables, stream, held: Vec::new() }))
    }

    /// Returns the number that names the table of a rank.
    pub fn id(&self, rank: usize) -> Option<usize> {
        self.tables.get(rank).map(|table| table.id())
    }

    /// Submits a lookup in the table of a rank.
    fn look_up(&mut self, owner: usize, batch: Batch<K, V>) -> Result<()> {
        let memory = self.tables[owner].look_up(&self.stream, batch)?;
        self.hold(memory);
        Ok(())
    }

    /// Submits lookups of all keys of a batch, those of each owner in its table. Returns `false` if a table
    /// has no kernel for it: then the answers are not complete.
    fn look_up_in_place(&mut self, batch: Batch<K, V>) -> Result<bool> {
        for own in 0..self.tables.len() {
            let flags = flags(own != self.rank, batch.keys.max_len());
            let owned = Owned { owners: self.tables.len() as u32, own: own as u32, flags };
            let submitted = self.tables[own].look_up_owned(&self.stream, batch, owned)?;
            let Some(memory) = submitted else { return Ok(false) };
            self.hold(memory);
        }
        Ok(true)
    }

    /// Keeps the memory of a lookup.
    fn hold(&mut self, memory: Arc<dyn Send + Sync>) {
        if !self.held.iter().any(|held| Arc::ptr_eq(held, &memory)) {
            self.held.push(memory);
        }
    }

    /// Forgets the memory of lookups that the stream has executed: all before a wait.
    pub fn forget(&mut self) {
        self.held.clear();
    }
}

impl<K, V> Drop for Remote<K, V> {
    /// Waits for the lookups. If their end is unknown, the tables are never freed.
    fn drop(&mut self) {
        if !self.held.is_empty() && self.stream.synchronize().is_err() {
            std::mem::forget(std::mem::take(&mut self.held));
        }
    }
}

/// Lookups of all ranks.
impl<K: Word, V: Word> Engine<K, V> {
    /// Orders the streams before an operation of all ranks that may change tables.
    pub fn changing(&mut self, op: BatchOp) -> Result<()> {
        match op {
            BatchOp::Get | BatchOp::ContainsKey => Ok(()),
            _ => self.order_changes(),
        }
    }

    /// As [`Self::changing`], for an operation of the ranks' own shards in other streams. Waits for what was
    /// submitted before: shards wait for the device without a deadline.
    pub fn changing_shards(&mut self) -> Result<()> {
        self.order_changes()?;
        Ok(self.exchange.wait()?)
    }

    /// Orders later changes after lookups.
    fn order_changes(&mut self) -> Result<()> {
        if self.pending.lookups {
            self.order_streams()?;
        }
        self.pending = Pending { changes: true, ..Pending::default() };
        Ok(())
    }

    /// Submits the lookups of this rank before the ranks have compared their operations, if it prefers
    /// lookups without an exchange, and such lookups were the last operation: else another rank may still
    /// change its table. Returns whether it has. If the ranks exchange all the same, the answers are written
    /// again, and the exchange orders the ranks' streams.
    pub fn look_up_early(&mut self, op: BatchOp, batch: &Batch<K, V>) -> Result<bool> {
        let len = batch.keys.max_len();
        let is_early = matches!(op, BatchOp::Get) && len > 0 && len <= self.most_remote;
        if !is_early || self.remote.is_none() || !self.pending.are_last {
            return Ok(false);
        }
        match self.get_remote(batch) {
            Ok(()) => Ok(true),
            Err(error) => {
                self.exchange.finish(); // lookups in the tables of some ranks may run
                Err(error)
            }
        }
    }

    /// Submits the lookups of this rank, while the others submit theirs, unless they have been submitted.
    pub fn get_in_order(&mut self, batch: &Batch<K, V>, is_early: bool) -> Result<()> {
        if self.pending.changes {
            self.order_streams()?;
        }
        self.pending = Pending { changes: false, lookups: true, are_last: true };
        self.report.remote = batch.keys.max_len();
        if is_early { Ok(()) } else { self.get_remote(batch) }
    }

    /// Makes the streams of all ranks wait for what each has now.
    fn order_streams(&mut self) -> Result<()> {
        let ranks = self.geometry.ranks;
        let nothing = bytes_of(&self.work.send[0])?.slice(0..0)?;
        let moving =
            self.exchange.move_pieces(Lane::Answer, EMPTY_ROUND, vec![nothing; ranks], vec![0; ranks])?;
        Ok(self.exchange.arrive(moving)?)
    }

    /// Measures up to which size of batches lookups without an exchange are faster, and prefers them for
    /// these. All ranks call it together. Emulated devices are not measured.
    pub fn calibrate(&mut self, shard: &dyn Structure<Key = K, Value = V>) -> Result<()> {
        let can_read =
            self.remote.is_some() && self.geometry.ranks > 1 && !self.exchange.device().is_emulator();
        if self.exchange_numbers(Step::Calibrate, [can_read.into()])?.contains(&[0]) {
            return Ok(());
        }
        let device = self.exchange.device().clone();
        for len in CALIBRATED {
            let keys: Vec<K> = (0..len as u64).map(|number| K::narrow(mix(number).into())).collect();
            let (keys, values) = (device.from_slice(&keys)?, device.buffer::<V>(len)?);
            let outcomes = device.buffer::<u8>(len)?;
            let (results, outcomes) = (values.global(), outcomes.global());
            let batch = Batch { results, outcomes, ..Batch::new(BatchOp::Get, keys.global()) };
            let [remote, exchanged] = [usize::MAX, 0].map(|most| self.time_get(shard, batch, most));
            let own = [remote?, exchanged?].map(|time| time.as_nanos() as u64);
            let all = self.exchange_numbers(Step::Calibrate, own)?;
            let slowest = |which: usize| all.iter().map(|times| times[which]).max().unwrap_or_default();
            match Faster::of([slowest(0), slowest(1)].map(Duration::from_nanos)) {
                Faster::Exchange => break,
                Faster::Remote => self.most_remote = len,
                Faster::RemoteByFar => {
                    self.most_remote = CALIBRATED[CALIBRATED.len() - 1];
                    break;
                }
                Faster::RemoteSoFar => {
                    self.most_remote = len;
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the time of lookups with a value of [`Engine::most_remote`].
    fn time_get(
        &mut self,
        shard: &dyn Structure<Key = K, Value = V>,
        batch: Batch<K, V>,
        most: usize,
    ) -> Result<Duration> {
        let before = std::mem::replace(&mut self.most_remote, most);
        let times = (0..TIMED + TIMED / 4).map(|_| self.time_one(shard, batch)).collect::<Result<Vec<_>>>();
        self.most_remote = before;
        times.map(|times| times[TIMED / 4..].iter().min().copied().unwrap_or_default())
    }

    /// Executes a lookup, and waits for it.
    fn time_one(
        &mut self,
        shard: &dyn Structure<Key = K, Value = V>,
        batch: Batch<K, V>,
    ) -> Result<Duration> {
        let start = Instant::now();
        self.run(shard, Call::on_device(BatchOp::Get, true), Ok((batch, ())))?;
        self.exchange.wait()?;
        Ok(start.elapsed())
    }
}

/// Lookups of this rank.
impl<K: Word, V: Word> Engine<K, V> {
    /// Submits lookups in which no other rank takes part.
    pub fn get_alone(&mut self, batch: &Batch<K, V>) -> Result<()> {
        self.report = Report { remote: batch.keys.max_len(), ..Report::default() };
        self.get_remote(batch)
    }

    /// Submits lookups: a launch for each owner, or, with many, messages for which there is room.
    fn get_remote(&mut self, batch: &Batch<K, V>) -> Result<()> {
        self.exchange.check()?;
        let remote = self.remote.as_mut().ok_or(Error::NotReadable)?;
        if self.geometry.ranks <= MOST_IN_PLACE && remote.look_up_in_place(*batch)? {
            return Ok(());
        }
        self.reserve_work()?;
        let shape = Shape::new::<K, V>(Call::on_device(BatchOp::Get, true));
        let most = self.most_remote(&shape);
        for first in (0..batch.keys.max_len()).step_by(most) {
            self.get_part(&shape, &batch.part(first, most))?;
        }
        Ok(())
    }

    /// Returns the most lookups whose messages fit this rank's memory.
    fn most_remote(&self, shape: &Shape) -> usize {
        let mut room = self.geometry.room();
        while room > 16 && !self.has_room(&Fixed::new(self.geometry.ranks, room, shape.sent)) {
            room /= 2;
        }
        room
    }

    fn get_part(&mut self, shape: &Shape, part: &Batch<K, V>) -> Result<()> {
        let ranks = self.geometry.ranks;
        let fixed = Fixed::new(ranks, part.keys.max_len().next_multiple_of(16), shape.sent);
        let stride = answer_stride(&self.geometry, size_of::<V>());
        self.route(part, &fixed)?;
        let (messages, answers) = (words::<u8>(&self.work.send[0]), words::<u8>(&self.work.answers[0]));
        let remote = self.remote.as_mut().ok_or(Error::NotReadable)?;
        for owner in 0..ranks {
            let message = messages.part(owner * fixed.stride, fixed.stride);
            let answers = answers.part(owner * stride, usize::MAX);
            remote.look_up(owner, batch_of(shape, &fixed, message, answers))?;
        }
        let answers = &self.work.answers[0];
        let (own_values, own_outcomes) = (nothing(), nothing());
        let answers =
            Answers { values: words(answers), outcomes: words(answers), stride, own_values, own_outcomes };
        self.collect(part, &fixed, (u32::MAX, answers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_batches_read_tables_of_other_ranks_in_steps() {
        assert_eq!(flags(true, LEAST_IN_STEPS), Owned::IN_STEPS);
        assert_eq!([flags(true, LEAST_IN_STEPS - 1), flags(false, LEAST_IN_STEPS)], [0, 0]);
    }

    #[test]
    fn long_exchanges_end_the_measurement() {
        let of = |micros: [u64; 2]| Faster::of(micros.map(Duration::from_micros));
        assert_eq!(of([40, 60]), Faster::Remote);
        assert_eq!(of([60, 40]), Faster::Exchange);
        assert_eq!(of([100, 4000]), Faster::Remote);
        assert_eq!(of([900, 8000]), Faster::RemoteByFar);
        assert_eq!(of([4100, 8000]), Faster::RemoteSoFar);
        assert_eq!(of([6000, 6000]), Faster::RemoteSoFar);
        assert_eq!(of([9000, 8000]), Faster::Exchange);
    }
}
