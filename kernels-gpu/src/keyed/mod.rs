//! Code that all structures with lookup by key share, however they locate a key: the layout of pairs in slots
//! and of slots in buckets, the operations on a bucket, sessions, and the kernel entry points.
//!
//! Each family (`probing`, `slab`) adds its [`Kind`]s: a view, and a search that leads from a key to the
//! bucket that contains it or may receive it.
//!
//! A slot is one word or a chunk; the two highest keys look like its states:
//!
//! ```
//! use phalanx_kernels::keyed::{Change, Combination, Encoded, Get, Insert, Merge, OpCode, Operation};
//! use phalanx_kernels::keyed::{GetOrInsert, Outcome, Packed, Remove, Replace, Reserved, Scalar, Slot};
//! use phalanx_kernels::keyed::{Take, Upsert, hash};
//!
//! let word = Packed::pack(7, 70);
//! assert_eq!((Packed::key(word), Packed::value(word)), (7, 70));
//! assert!(Packed::is_live(word) && !Packed::is_busy(word) && Packed::is_empty(Packed::EMPTY));
//! assert_eq!((Packed::reserved(Packed::EMPTY), Packed::reserved(word)), (Some(Reserved::EMPTY), None));
//! assert_eq!(Packed::tombstone(), Reserved::REMOVED.pattern::<u32>());
//! let alias = Packed::alias(u32::MAX).unwrap(); // stored under this key in an overflow bucket
//! assert_eq!((Packed::unalias(alias, true), Packed::alias(7)), (u32::MAX, None));
//! assert_eq!((7u32.to_u64(), u32::from_u64(1 << 32 | 7), Scalar::wrapping_add(u32::MAX, 8)), (7, 7, 7));
//! let (two, three) = (2i32.encode(), 3i32.encode());
//! assert_eq!((two.add_signed(three), two + three.signed_addend()), (5i32.encode(), 5i32.encode()));
//! assert_eq!(0.5f32.to_bits().float_to_word(), 0.5f32.encode());
//! assert_eq!(0.5f32.encode().word_to_float(), 0.5f32.to_bits());
//! assert_eq!(0.5f32.encode().add_float(0.25f32.encode()), 0.75f32.encode());
//! assert_eq!((hash(7u32, 0).second, hash(7u32, 1).second), (7, 6));
//!
//! assert!(Insert.matches() && Insert.places() && !Get.places());
//! assert_eq!((Insert.change(), Insert.outcome()), (Change::Set, Outcome::Replaced));
//! assert_eq!((Take.change(), Replace.change()), (Remove.change(), Insert.change()));
//! assert!(Take::EXCHANGES && Replace::EXCHANGES && !Remove::EXCHANGES); // they return the old value
//! assert_eq!(OpCode::from_code(OpCode::ADD.code()), Merge::Add.operation());
//! assert_eq!(Outcome::from_code(Outcome::Found as u8), Some(Outcome::Found));
//! assert_eq!((GetOrInsert.change(), Upsert(Merge::Max.operation()).change()), (Change::Keep, Change::Max));
//! let (add, max) = (Upsert(OpCode::ADD), Upsert(OpCode::MAX));
//! assert!(add.is_same(add) && !add.is_same(max)); // equal ones are combined if their keys are equal
//! assert!(Insert::COMBINES.includes(Combination::InBatches)); // and in sessions of a warp
//! assert_eq!((OpCode::COMBINES, Get::COMBINES), (Combination::InBatches, Combination::Never));
//! ```
//!
//! Its transitions, and operations on any kind of structure:
//!
//! ```
//! use phalanx_kernels::keyed::{Chunk, Cooperation, CounterDelta, Counters, EntryRef, Insert, Kind, Outcome};
//! use phalanx_kernels::keyed::{Slot, TileKind};
//! use simt::{Global, Order, Scope, Thread, Tile};
//!
//! /// Takes an empty slot for a pair, or changes the value of the key that has it.
//! fn put_pair<S: Slot>(slot: Global<S::Word>, key: S::Stored, value: S::Value) -> bool {
//!     if S::claim(slot, S::pack(key, value)) {
//!         return true;
//!     }
//!     let is_same = S::key_part(slot).load(Order::Relaxed, Scope::Device) == key;
//!     if is_same {
//!         S::acquire_pair(slot); // the first value was written before
//!         S::value_part(slot).store(value, Order::Relaxed, Scope::Device);
//!     }
//!     is_same
//! }
//!
//! /// Removes a pair and returns its value.
//! ///
//! /// # Safety
//! /// - The slot begins a chunk of 16 bytes.
//! unsafe fn take_pair<S: Slot>(slot: Global<S::Word>, key: S::Stored) -> Option<S::Value> {
//!     // SAFETY: the caller's obligation.
//!     let word = unsafe { S::Chunk::load_if(slot, true, Order::Relaxed) }.word(0);
//!     if S::key(word) == key { S::take(slot, word) } else { None }
//! }
//!
//! /// Replaces a value unless it has changed since the pair was read as `word`, and then removes the pair.
//! /// Returns the value before.
//! fn replace_and_remove<S: Slot>(slot: Global<S::Word>, word: S::Word, new: S::Value) -> Option<S::Value> {
//!     let old = S::replace(slot, word, new).unwrap_or(S::read_value(slot, word));
//!     S::erase(slot, S::key(word)).then_some(old)
//! }
//!
//! /// Inserts a pair as a session does.
//! fn insert_key<M: Kind<Value = u32>, T: Cooperation<M>>(team: T, map: M::View, key: M::Key) -> Outcome {
//!     team.sync();
//!     let (outcome, _) = team.execute(map, true, Insert, key, 7);
//!     team.sync();
//!     let mut delta = CounterDelta::default();
//!     if team.counts() {
//!         delta.count(outcome);
//!     }
//!     team.record(map, delta); // by `Counters::record` or `Counters::record_alone`
//!     outcome
//! }
//!
//! /// Removes the pairs with odd values from a structure that nothing else uses; a thread per part.
//! fn drop_odd<M: Kind<Value = u32>>(map: M::View) {
//!     M::enter(map);
//!     let (mut delta, share) = (CounterDelta::default(), Thread::index());
//!     if share / 32 * 32 < M::scan_threads(map) {
//!         M::scan(map, share, |entry| {
//!             delta.remove(entry.is_some_and(|entry| entry.value % 2 == 1 && entry.erase()) as u32);
//!         });
//!     }
//!     M::counters(map).record(delta);
//!     M::leave(map);
//! }
//!
//! /// Executes an operation of each lane of a warp, by tiles of the kind's width or of another one.
//! fn insert_both<M: TileKind<8>>(map: M::View, key: M::Key, value: M::Value) -> [Outcome; 2] {
//!     let by_kind = M::execute(map, true, Insert, key, value).0;
//!     [by_kind, M::share(map, Tile::<8>::lockstep(), true, Insert, key, value).0]
//! }
//!
//! /// Removes the pair of a slot that has another key than expected, while nothing else uses the
//! /// structure, and counts it as a long probe sequence, so that the host rehashes.
//! ///
//! /// # Safety
//! /// - `words` are the words of the structure's counters.
//! unsafe fn drop_other<M: Kind>(words: Global<u64>, slot: Global<<M::Slot as Slot>::Word>, key: M::Key) {
//!     let entry = EntryRef::<M>::read(slot, false);
//!     if let Some(found) = entry.filter(|found| found.key != key) {
//!         EntryRef::<M>::new(slot, found.key, found.value).erase();
//!         // SAFETY: the caller's obligation.
//!         unsafe { Counters::new(words) }.record_long();
//!     }
//! }
//! ```
//!
//! # Cost
//!
//! | function | cost |
//! |---|---|
//! | methods of [`Slot`] and [`Scalar`] on words | arithmetic in registers |
//! | [`Slot::claim`] | one compare-and-swap; pairs that are published in steps, two stores more, the second a release |
//! | [`Slot::erase`] | one compare-and-swap |
//! | [`Slot::take`], [`Slot::replace`] | one compare-and-swap; of pairs that are published in steps, an acquiring load, a compare-and-swap and an atomic, or one atomic |
//! | [`Slot::acquire_pair`], [`Slot::read_value`] | nothing where a pair appears by one swap; otherwise an acquiring load, and a load of the value |
//! | [`Chunk::load_if`] | one load of 16 bytes, or two of 8 |
//! | operations of a [`Session`] | those of the structure: see its page; a barrier of the cooperating lanes before, and one more after a write |
//! | the same with [`PerBlock`] | a load of one lane and two barriers more; after equal keys, another one and about 20 accesses to shared memory per lane |
//! | [`Session::finish`] | two reductions per warp and two atomics of one lane; a session that is dropped instead, two atomics per lane |
//! | [`Counters::record`] | two reductions per warp, and two atomics of one lane if any lane counts |
//! | [`Counters::record_alone`], [`Counters::record_long`] | two atomics, one atomic |
//! | [`EntryRef::read`] | one load; [`EntryRef::erase`] a load and a compare-and-swap |
//! | [`hash()`] | one mixing: two or three multiplications |
//! | [`Kind::enter`], [`Kind::leave`] | nothing, or those of [`crate::reclaim`] |
//! | [`Kind::scan`] | reads the thread's share of the structure once |
//!
//! The methods of [`Operation`], [`OpCode`], [`Merge`] and [`Outcome`] are constants or a comparison.
mod bucket;
mod bucket_probe;
pub(crate) mod combine;
mod counters;
mod encoding;
mod hash;
pub mod kernels;
mod kind;
mod operation;
mod session;
mod sketch;
mod slot;

pub(crate) use bucket::{Bucket, Lane, SlotMatch};
pub(crate) use bucket_probe::{BucketProbe, Request, still_has};
pub use counters::{COUNTER_SHARDS, CounterDelta, Counters, SHARD_WORDS};
pub use encoding::Encoded;
pub use hash::{Hashed, hash};
pub(crate) use kind::kind_name;
pub use kind::{EntryRef, Kind, TileKind, View};
pub use operation::{
    Append, Change, Combination, ContainsKey, Get, GetOrInsert, Insert, InsertNew, Merge, MultiOpCode,
    OfMany, OpCode, Operation, Outcome, Remove, Replace, Take, Upsert,
};
pub use session::{Cooperation, PerBlock, PerLane, Session};
pub use sketch::{SKETCH_REGISTERS, sketched};
pub use slot::{
    Appearance, AtOnce, Bare, Chunk, InSteps, Packed, Published, Reserved, Scalar, Slot, SplitWord, Wide,
};
