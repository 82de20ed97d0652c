//! Batches on host slices. Elements that a full shard refuses are tried again after it has grown.
use super::shape::Call;
use super::steps::Step;
use super::{Outcomes, ShardedMap};
use crate::error::or_later;
use crate::map::launch::{Batch, BatchOp};
use crate::map::run::Results;
use crate::map::structure::Room;
use crate::map::{Key, Map, Merge, Outcome, Value, check};
use crate::{Error, Result};
use std::borrow::Cow;

/// The elements of a batch that are tried.
struct Tried<'a, K: Copy, V: Copy> {
    keys: Cow<'a, [K]>,
    values: Cow<'a, [V]>,
}

impl<'a, K: Copy, V: Copy> Tried<'a, K, V> {
    fn of(keys: &'a [K], values: &'a [V]) -> Self {
        Self { keys: keys.into(), values: values.into() }
    }

    fn pick(&self, places: &[usize]) -> Self {
        let keys = places.iter().map(|&place| self.keys[place]).collect();
        let values = places.iter().filter_map(|&place| self.values.get(place).copied()).collect();
        Self { keys, values }
    }
}

/// The results of elements, and the elements.
type Attempt<'a, W, K, V> = (Results<W>, Tried<'a, K, V>);

/// Number of operation of the exchange that brings refused keys to their owners.
const REFUSED_KEYS: u32 = 1;

/// Batches on host slices.
impl<K: Key, V: Value, M: Map<Key = K, Value = V>> ShardedMap<K, V, M> {
    /// Inserts pairs, replacing the values of existing keys, as [`Map::insert`]. If several ranks or elements
    /// have the same key, any of their values remains. Returns the outcomes of this rank's elements.
    ///
    /// # Errors
    /// - [`Error::NoRoom`] if some of this rank's pairs do not fit and there is no memory for them. The other
    ///   pairs are inserted; the error holds the outcome of each.
    /// - [`Error::Length`] if the slices differ in length; [`Error::Device`] if the device fails or lacks the
    ///   memory for the batch.
    /// - [`Error::Exchange`] if another rank has such an error before anything is inserted
    ///   ([`Refused`](exchange::Error::Refused)), executes another operation
    ///   ([`Mismatch`](exchange::Error::Mismatch)), or is lost ([`PeerLost`](exchange::Error::PeerLost)).
    pub fn insert(&mut self, keys: &[K], values: &[V]) -> Result<Outcomes> {
        self.with_values(BatchOp::Insert, keys, values)
    }

    /// Inserts the pairs whose keys are absent, as [`Map::insert_new`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn insert_new(&mut self, keys: &[K], values: &[V]) -> Result<Outcomes> {
        self.with_values(BatchOp::InsertNew, keys, values)
    }

    /// Inserts pairs, merging their values with those of existing keys, as [`Map::upsert`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn upsert(&mut self, merge: Merge<V>, keys: &[K], values: &[V]) -> Result<Outcomes> {
        self.with_values(BatchOp::Upsert(merge.operation()), keys, values)
    }

    /// Returns the values of the keys, `None` for an absent key.
    ///
    /// # Errors
    /// [`Error::Format`] if a stored word is no value of the map's type; otherwise as [`Self::insert`],
    /// without [`Error::NoRoom`].
    pub fn get(&mut self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let results = self.of_keys(BatchOp::Get, keys)?;
        self.end_lookups()?;
        results.values_where(|outcome| outcome == Outcome::Found)
    }

    /// Ends lookups in the tables of other ranks on all ranks together: a rank may change its shard by itself
    /// when its call has returned.
    fn end_lookups(&mut self) -> Result<()> {
        if self.engine.pending.lookups {
            // Each rank has waited for its own.
            self.engine.exchange_numbers(Step::End, [])?;
            self.engine.pending.lookups = false;
        }
        Ok(())
    }

    /// Returns the values of the keys, as [`get`](Self::get), by kernels of this rank that read the tables of
    /// all ranks. No other rank takes part, so this is no collective operation.
    ///
    /// No rank may change the map from before this call until it has ended: the call may then miss pairs, or
    /// return a value that is half an old one. If the tables have grown since, it reads the new ones.
    ///
    /// ```
    /// use phalanx::exchange::Limits;
    /// use phalanx::sharded_map::on_devices;
    /// use phalanx::{Device, HashMap, ShardedMap};
    ///
    /// let devices = [(); 2].map(|()| Device::emulator(Default::default()));
    /// let limits = Limits { part_bytes: 1 << 12, slot_bytes: 256, ..Limits::default() };
    /// on_devices(&devices, limits, |exchange| {
    ///     let shard = HashMap::<u32, u32>::builder().device(exchange.device()).capacity(100).build()?;
    ///     let mut map = ShardedMap::new(exchange, shard)?;
    ///     let rank = map.rank() as u32;
    ///     assert!(map.insert(&[rank], &[10 * rank])?.all_placed());
    ///     assert_eq!(map.len()?, 2); // now the pairs of both ranks are there
    ///     if map.is_readable() && rank == 0 {
    ///         assert_eq!(map.get_remote(&[0, 1, 2])?, [Some(0), Some(10), None]);
    ///     }
    ///     Ok(())
    /// })?;
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ShardedBatches::get_remote`](super::ShardedBatches::get_remote); [`Error::Format`] if a stored
    /// word is no value of the map's type.
    pub fn get_remote(&mut self, keys: &[K]) -> Result<Vec<Option<V>>> {
        let batch = self.upload(BatchOp::Get, keys, &[] as &[V])?;
        self.check_shard()?;
        self.is_running = true;
        self.engine.get_alone(&batch)?;
        self.wait()?;
        let results = self.columns.results(BatchOp::Get, keys.len())?;
        results.values_where(|outcome| outcome == Outcome::Found)
    }

    /// Returns for each key whether it is in the map.
    ///
    /// # Errors
    /// As [`Self::get`].
    pub fn contains_key(&mut self, keys: &[K]) -> Result<Vec<bool>> {
        let results = self.of_keys(BatchOp::ContainsKey, keys)?;
        Ok(results.outcomes.into_iter().map(|outcome| outcome == Outcome::Found).collect())
    }

    /// Removes keys. Returns for each whether it was removed; of several equal keys in the batches of all
    /// ranks, only one returns `true`.
    ///
    /// # Errors
    /// As [`Self::insert`].
    pub fn remove(&mut self, keys: &[K]) -> Result<Vec<bool>> {
        let results = self.of_keys(BatchOp::Remove, keys)?.or_no_room()?;
        Ok(results.outcomes.into_iter().map(|outcome| outcome == Outcome::Removed).collect())
    }

    /// Returns the number of pairs of all shards.
    ///
    /// # Errors
    /// [`Error::Device`] if this rank's device is lost; [`Error::Exchange`] if a rank is lost
    /// ([`PeerLost`](exchange::Error::PeerLost)).
    pub fn len(&mut self) -> Result<usize> {
        self.wait()?; // with a deadline, which the shard's own wait for the device has not
        let len = self.shard.inner().len();
        let len = len.inspect_err(|error| self.engine.exchange.give_up(&error.to_string()))?;
        self.sum(Step::Len, len)
    }

    /// Returns whether no shard has a pair.
    ///
    /// # Errors
    /// As [`Self::len`].
    pub fn is_empty(&mut self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Tells all ranks a number. Returns those of all, in the order of the ranks.
    ///
    /// Ranks whose input ends at different times learn by it whether any has more. One step of the exchange.
    ///
    /// ```
    /// use phalanx::exchange::Limits;
    /// use phalanx::sharded_map::on_devices;
    /// use phalanx::{Device, HashMap, ShardedMap};
    ///
    /// let devices = [(); 2].map(|()| Device::emulator(Default::default()));
    /// let limits = Limits { part_bytes: 1 << 12, slot_bytes: 256, ..Limits::default() };
    /// let told = on_devices(&devices, limits, |exchange| {
    ///     let shard = HashMap::<u32, u32>::builder().device(exchange.device()).capacity(10).build()?;
    ///     let mut map = ShardedMap::new(exchange, shard)?;
    ///     map.all_gather(10 + map.rank() as u64)
    /// })?;
    /// assert_eq!(told, [[10, 11], [10, 11]]);
    /// # Ok::<(), phalanx::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Exchange`] if a rank is lost ([`PeerLost`](exchange::Error::PeerLost)), or calls another
    /// operation.
    pub fn all_gather(&mut self, number: u64) -> Result<Vec<u64>> {
        let all = self.engine.exchange_numbers(Step::AllGather, [number])?;
        Ok(all.into_iter().map(|[number]| number).collect())
    }

    fn with_values(&mut self, op: BatchOp, keys: &[K], values: &[V]) -> Result<Outcomes> {
        let tried = check("values", keys.len(), values.len()).map(|()| Tried::of(keys, values));
        let results = self.until_no_growth(op, tried)?;
        let results = if self.shard.inner().grows() { results.or_no_room()? } else { results };
        Ok(results.into_outcomes())
    }

    fn of_keys(&mut self, op: BatchOp, keys: &[K]) -> Result<Results<V::Word>> {
        self.until_no_growth(op, Ok(Tried::of(keys, &[] as &[V])))
    }

    /// Runs a batch of words, and tries refused elements again.
    pub(super) fn of_words(
        &mut self,
        op: BatchOp,
        (keys, values): (&[K::Word], &[V::Word]),
    ) -> Result<Results<V::Word>> {
        self.until_no_growth(op, Ok(Tried::of(keys, values)))
    }

    /// Runs a batch, and tries refused elements of all ranks again as long as a shard grows.
    fn until_no_growth<A: Key<Word = K::Word>, B: Value<Word = V::Word>>(
        &mut self,
        op: BatchOp,
        tried: Result<Tried<'_, A, B>>,
    ) -> Result<Results<V::Word>> {
        let mut seen = Some(self.shard.inner().generation());
        let (mut results, tried) = self.attempt(op, tried)?;
        if !op.writes() {
            return Ok(results);
        }
        let mut before = usize::MAX;
        loop {
            let refused = results.refused();
            let all = self.sum(Step::Refused, refused.len())?;
            if all == 0 {
                or_later(self.shard.inner().grow())?;
                return Ok(results);
            }
            let again = tried.pick(&refused);
            let has_grown = self.grow(&A::encode_all(&again.keys), seen)?;
            if !has_grown || all == before && seen.is_none() {
                return Ok(results);
            }
            seen = (all < before).then(|| self.shard.inner().generation());
            before = all;
            match self.attempt(op, Ok(again)) {
                Ok((of_again, _)) => results.put(&refused, of_again),
                // Nothing of the second attempt was done, on no rank.
                Err(error) if lacks_memory(&error) => return Ok(results),
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns the sum of a number of all ranks.
    fn sum(&mut self, step: Step, number: usize) -> Result<usize> {
        Ok(self
            .engine
            .exchange_numbers(step, [number as u64])?
            .into_iter()
            .map(|[number]| number as usize)
            .sum())
    }

    /// Grows each shard that has refused elements. `keys` are this rank's refused ones. Returns whether any
    /// shard has got memory.
    fn grow(&mut self, keys: &[K::Word], seen: Option<u64>) -> Result<bool> {
        let Some(refused) = self.bring_to_owners(keys)? else { return Ok(false) };
        let room = match refused.is_empty() {
            true => Ok(Room::None),
            // The next attempt allocates the columns again, with what growth leaves.
            false => self.columns.release().and_then(|()| self.shard.inner().grow_for(&refused, seen)),
        };
        let room = room.inspect_err(|error| self.engine.exchange.give_up(&error.to_string()))?;
        Ok(self.sum(Step::Grow, usize::from(room != Room::None))? > 0)
    }

    /// Exchanges keys, and returns those that this rank owns, or `None` if a rank lacks the memory.
    fn bring_to_owners(&mut self, keys: &[K::Word]) -> Result<Option<Vec<K::Word>>> {
        let (rank, ranks) = (self.rank(), self.ranks());
        let mut parts = vec![Vec::new(); ranks];
        keys.iter().for_each(|&key| parts[super::owner_of(key, ranks as u32) as usize].push(key));
        let counts: Vec<_> = parts.iter().map(Vec::len).collect();
        let all =
            self.engine.exchange.agree(&counts.iter().map(|&count| count as u64).collect::<Vec<_>>())?;
        let len = all.iter().map(|counts| counts[rank] as usize).sum();
        let device = self.device().clone();
        let send = device.from_slice(&parts.concat());
        let buffers = send.and_then(|send| Ok((send, device.buffer(len)?))).map_err(Error::from);
        let lacking = self.sum(Step::Grow, usize::from(buffers.is_err()))?;
        let (send, mut into) = match buffers {
            Ok(buffers) if lacking == 0 => buffers,
            Err(error) if !error.is_lack_of_room() => return Err(error),
            _ => return Ok(None),
        };
        let exchange = &mut self.engine.exchange;
        exchange.all_to_all(REFUSED_KEYS, send.slice(..)?, &counts, into.slice_mut(..)?)?;
        exchange.wait()?;
        Ok(Some(into.read()?))
    }

    /// Runs a batch once. Returns it with its results.
    fn attempt<'a, A: Key<Word = K::Word>, B: Value<Word = V::Word>>(
        &mut self,
        op: BatchOp,
        tried: Result<Tried<'a, A, B>>,
    ) -> Result<Attempt<'a, V::Word, A, B>> {
        let prepared = tried.and_then(|tried| Ok((self.upload(op, &tried.keys, &tried.values)?, tried)));
        let tried = self.run(Call::on_host(op), prepared)?;
        self.wait()?;
        Ok((self.columns.results(op, tried.keys.len())?, tried))
    }

    /// Copies elements to the device. Returns them as a batch, which is valid until the next call.
    fn upload<A: Key<Word = K::Word>, B: Value<Word = V::Word>>(
        &mut self,
        op: BatchOp,
        keys: &[A],
        values: &[B],
    ) -> Result<Batch<K::Word, V::Word>> {
        if self.is_running {
            self.wait()?; // with a deadline, which the columns' own wait for the device has not
        }
        self.columns.fill(op, keys, values)
    }
}

/// Returns whether a batch was not begun because this or another rank lacks the memory for it.
fn lacks_memory(error: &Error) -> bool {
    match error {
        Error::Exchange(error) => matches!(**error, exchange::Error::Refused { .. }),
        error => error.is_lack_of_room(),
    }
}
