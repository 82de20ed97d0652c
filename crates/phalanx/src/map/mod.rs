//! What all maps of this crate can do: batches of operations by key, and passes over the whole.
pub(crate) mod batches;
pub(crate) mod counts;
pub(crate) mod export;
pub(crate) mod file;
pub(crate) mod launch;
pub(crate) mod launcher;
mod outcomes;
pub(crate) mod owner;
pub(crate) mod run;
pub(crate) mod structure;

use crate::primitives::Number;
use crate::{Error, Result};
pub use batches::Batches;
use gpu::{Device, Stream};
use launch::Ask;
pub use outcomes::Outcomes;
pub use phalanx_kernels::keyed::Coded;
use phalanx_kernels::keyed::Scalar;
pub use phalanx_kernels::keyed::{Merge, Outcome};
use run::Results;
use std::io::Write;
use std::ops::RangeInclusive;
use structure::Structure;

/// What a key may be: `u32` and `u64`. Other plain types of these sizes go by their bits (`i32 as u32`,
/// `f32::to_bits`).
pub trait Key: Scalar + Number {}
impl Key for u32 {}
impl Key for u64 {}

/// What a value may be: `u32` and `u64`. Other plain types of these sizes go by their bits; [`Merge`] then
/// still takes them for unsigned numbers.
pub trait Value: Scalar + Number {}
impl Value for u32 {}
impl Value for u64 {}

/// Keys and, at the same places, their values.
pub type Pairs<K, V> = (Vec<K>, Vec<V>);

/// The pairs of a map, on the host.
pub type IntoIter<K, V> = std::iter::Zip<std::vec::IntoIter<K>, std::vec::IntoIter<V>>;

/// One operation of a mixed batch (see [`Map::execute`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<K, V> {
    /// Looks the value up.
    Get(K),
    /// Inserts, or replaces the value.
    Insert(K, V),
    /// Inserts where the key is not there.
    InsertNew(K, V),
    /// Inserts, or merges the values.
    Upsert(Merge, K, V),
    /// Inserts where the key is not there, and looks the value up.
    GetOrInsert(K, V),
    /// Removes.
    Remove(K),
}

impl<K: Key, V: Value> Op<K, V> {
    /// The operation's code, its key, and its argument, as [`Batches::execute`] takes them.
    pub fn parts(self) -> (Coded, K, V) {
        let none = V::from_u64(0);
        match self {
            Self::Get(key) => (Coded::GET, key, none),
            Self::Insert(key, value) => (Coded::INSERT, key, value),
            Self::InsertNew(key, value) => (Coded::INSERT_NEW, key, value),
            Self::Upsert(merge, key, value) => (merge.operation(), key, value),
            Self::GetOrInsert(key, value) => (Coded::GET_OR_INSERT, key, value),
            Self::Remove(key) => (Coded::REMOVE, key, none),
        }
    }
}

/// What all maps can do. The batches on host slices block until the results are there; [`Map::on`] gives
/// those that do not.
///
/// No key is reserved. A batch may name a key many times. The operations of one batch run in no order.
///
/// ```
/// use phalanx::{HashMap, Map, Merge, Op, Outcome};
///
/// let map = HashMap::<u64, u64>::with_capacity(100)?;
/// assert_eq!(map.insert(&[7, 8], &[70, 80])?, [Outcome::Inserted, Outcome::Inserted]);
/// assert_eq!(map.upsert(Merge::Add, &[7, 7, 9], &[1, 1, 1])?[2], Outcome::Inserted);
/// assert_eq!(map.get(&[7, 8, 10])?, [Some(72), Some(80), None]);
/// assert_eq!(map.remove(&[8, 11])?, [true, false]);
/// let results = map.execute(&[Op::Get(7), Op::GetOrInsert(12, 5)])?;
/// assert_eq!(results, [(Outcome::Found, 72), (Outcome::Inserted, 5)]);
/// assert_eq!(map.len()?, 3);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Concurrency
///
/// Every operation that takes `&self` may run beside every other: from several threads by blocking calls, and
/// in several streams by [`Map::on`]. Each operation on a key is linearizable: it takes effect at one write
/// or one read. What changes the structure as a whole takes `&mut self`, or waits by itself until no launch
/// runs (growth, and reading all pairs).
///
/// # Lack of memory
///
/// A blocking call that finds no room for some elements asks for memory, where that is the map's policy, and
/// tries them again. Where there is none, the call is [`Error::NoRoom`], which holds the outcome of every
/// element. A map of fixed capacity returns `Ok`, and says [`Outcome::Refused`] of such elements.
///
/// Maintenance that follows a call (a rehash of a table that is too full, freeing what nobody reads) is no
/// part of the answer. Where it finds no memory the call succeeds all the same, and the next blocking call
/// that inserts or removes does the maintenance. Calls that only read do none.
pub trait Map: Structure {
    /// Inserts pairs, replacing the values of keys that are there. Of several pairs with one key in the
    /// batch, any one stays.
    ///
    /// Says of each pair [`Outcome::Inserted`], [`Outcome::Replaced`] or, where a map of fixed capacity has
    /// no room, [`Outcome::Refused`]; the value that was replaced is not told.
    ///
    /// # Errors
    /// - [`Error::NoRoom`] when a map that grows has no room for some pairs and finds no memory for more. The
    ///   other pairs are inserted; the error holds the outcome of each.
    /// - [`Error::Length`] when the slices differ in length.
    /// - [`Error::Device`] when the device fails, or has no memory for the batch itself: nothing is inserted
    ///   then.
    #[doc(alias = "insert_or_assign")]
    fn insert(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Vec<Outcome>> {
        run::pairs(self, Ask::Insert, keys, values).map(|results| results.outcomes)
    }

    /// Inserts the pairs whose keys are not there. Says [`Outcome::Inserted`], [`Outcome::Found`] or, where a
    /// map of fixed capacity has no room, [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`].
    #[doc(alias = "insert_if_absent")]
    fn insert_new(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Vec<Outcome>> {
        run::pairs(self, Ask::InsertNew, keys, values).map(|results| results.outcomes)
    }

    /// Inserts pairs, merging with the values of keys that are there. Every pair of a key that comes several
    /// times counts. Says [`Outcome::Inserted`], [`Outcome::Replaced`] for a merge or, where a map of fixed
    /// capacity has no room, [`Outcome::Refused`].
    ///
    /// # Errors
    /// As [`Self::insert`]. After [`Error::NoRoom`], merge again only the pairs that were refused: the others
    /// are merged.
    #[doc(alias = "insert_or_apply")]
    #[doc(alias = "entry")]
    fn upsert(&self, merge: Merge, keys: &[Self::Key], values: &[Self::Value]) -> Result<Vec<Outcome>> {
        run::pairs(self, Ask::Apply(merge.operation()), keys, values).map(|results| results.outcomes)
    }

    /// The values of the keys, which are inserted with the given values where they are not there. `None`
    /// where a map of fixed capacity has no room.
    ///
    /// # Errors
    /// As [`Self::insert`]. [`Error::NoRoom`] tells outcomes and no values: ask for those by [`Self::get`].
    #[doc(alias = "insert_and_find")]
    fn get_or_insert(&self, keys: &[Self::Key], values: &[Self::Value]) -> Result<Vec<Option<Self::Value>>> {
        let results = run::pairs(self, Ask::Apply(Coded::GET_OR_INSERT), keys, values)?;
        Ok(results.values_where(|outcome| outcome != Outcome::Refused))
    }

    /// The values of the keys, or nothing where a key is not there.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "find")]
    fn get(&self, keys: &[Self::Key]) -> Result<Vec<Option<Self::Value>>> {
        Ok(run::keys(self, Ask::Get, keys, true)?.values_where(|outcome| outcome == Outcome::Found))
    }

    /// Whether the keys are there.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "contains")]
    fn contains_key(&self, keys: &[Self::Key]) -> Result<Vec<bool>> {
        run::whether(self, Ask::ContainsKey, keys, Outcome::Found)
    }

    /// Removes keys. Says of each whether it was there; of several that are equal, one. What the value was is
    /// not told: ask before.
    ///
    /// # Errors
    /// - [`Error::NoRoom`] when the map keeps what was there for its snapshots and has no room for that,
    ///   whether it grows or not. Keys whose outcome is [`Outcome::Refused`] are still there; the others are
    ///   removed or were not there.
    /// - [`Error::Device`] when the device fails, or has no memory for the batch itself: nothing is removed
    ///   then.
    #[doc(alias = "erase")]
    fn remove(&self, keys: &[Self::Key]) -> Result<Vec<bool>> {
        run::removed(self, keys)
    }

    /// A mixed batch: every element an operation of its own, all in one launch, in no order. Gives for each
    /// what became of it and a value: the one that was there, or the argument where the key was not. A
    /// removal does not tell what it took away: it gives 0, and so does a look-up of a key that is not there.
    /// An operation that finds no room in a map of fixed capacity is [`Outcome::Refused`], and changes
    /// nothing.
    ///
    /// # Errors
    /// - [`Error::NoRoom`] when a map that grows has no room for some operations and finds no memory for
    ///   more. The others are done; the error holds the outcome of each, and no values.
    /// - [`Error::Device`] when the device fails, or has no memory for the batch itself: nothing is done
    ///   then.
    fn execute(&self, operations: &[Op<Self::Key, Self::Value>]) -> Result<Vec<(Outcome, Self::Value)>> {
        let parts = operations.iter().map(|operation| operation.parts());
        let coded = parts.map(|(code, key, argument)| (code, key, Some(argument)));
        let Results { outcomes, values } = run::coded(self, coded)?;
        Ok(outcomes.into_iter().zip(values).collect())
    }

    /// Batches on device buffers, asked of a stream; see [`Batches`] for an example.
    fn on<'a>(&'a self, stream: &'a Stream) -> Batches<'a, Self> {
        Batches::new(self, stream)
    }

    /// The device that holds the map.
    fn device(&self) -> &Device {
        self.home()
    }

    /// Pairs in the map: exact, once the launches that were asked for before have ended; this waits for them.
    /// Reads 8 KiB.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "size")]
    fn len(&self) -> Result<usize> {
        self.pairs()
    }

    /// Whether there are no pairs. As [`Self::len`].
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Bytes of device memory that the map holds between calls.
    fn memory_usage(&self) -> usize {
        self.bytes()
    }

    /// Removes all pairs. The map keeps its size.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    fn clear(&mut self) -> Result<()> {
        self.home().synchronize()?;
        self.empty()
    }

    /// Keeps the pairs of which `keep` is true. The pairs travel to the host and the rejected keys back; for
    /// a range of keys or values use [`Self::retain_keys`] or [`Self::retain_values`], which stay on the
    /// device.
    ///
    /// # Errors
    /// As [`Self::remove`] for the rejected keys: some of them may be gone then. The outcomes in
    /// [`Error::NoRoom`] are those of the rejected keys, in the order in which `keep` saw them.
    fn retain(&mut self, mut keep: impl FnMut(Self::Key, Self::Value) -> bool) -> Result<()>
    where
        Self: Sized,
    {
        let rejected: Vec<_> =
            self.iter()?.filter(|&(key, value)| !keep(key, value)).map(|(key, _)| key).collect();
        self.remove(&rejected).map(drop)
    }

    /// Keeps the pairs whose keys lie in the range.
    ///
    /// # Errors
    /// [`Error::Range`] when the ends are swapped; [`Error::Device`] when the device is lost or lacks the
    /// memory.
    fn retain_keys(&mut self, range: RangeInclusive<Self::Key>) -> Result<()> {
        run::retain_between(self, false, range.start().to_u64(), range.end().to_u64())
    }

    /// Keeps the pairs whose values lie in the range.
    ///
    /// # Errors
    /// [`Error::Range`] when the ends are swapped; [`Error::Device`] when the device is lost or lacks the
    /// memory.
    fn retain_values(&mut self, range: RangeInclusive<Self::Value>) -> Result<()> {
        run::retain_between(self, true, range.start().to_u64(), range.end().to_u64())
    }

    /// All pairs as they are now, copied to the host before the first is given, in no order. Waits for all
    /// launches. Ordered maps have an `iter` of their own, which gives them in order; generic code gets this
    /// one.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    fn iter(&self) -> Result<IntoIter<Self::Key, Self::Value>> {
        let (keys, values) = self.export()?;
        Ok(keys.into_iter().zip(values))
    }

    /// All keys and, at the same places, their values, in no order. Needs some 64 MiB of device memory at
    /// most.
    ///
    /// # Errors
    /// [`Error::Device`] when the device is lost or lacks the memory.
    #[doc(alias = "retrieve_all")]
    fn export(&self) -> Result<Pairs<Self::Key, Self::Value>> {
        export::all(self)
    }

    /// Writes the map: version, checksum and all pairs, whatever the kind of map and the device. Writes in
    /// few and large parts, and flushes: a file needs no buffer around it.
    ///
    /// # Errors
    /// [`Error::Io`] when the writer fails; [`Error::Device`] when the device is lost or lacks the memory.
    fn save(&self, writer: impl Write) -> Result<()>
    where
        Self: Sized,
    {
        let (keys, values) = self.export()?;
        file::save(&keys, &values, writer)
    }
}

pub(crate) fn check(what: &'static str, expected: usize, found: usize) -> Result<()> {
    if expected == found { Ok(()) } else { Err(Error::Length { what, expected, found }) }
}
