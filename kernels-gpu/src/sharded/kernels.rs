//! Kernels that bring the elements of a batch into the order of their owners, and answers back.
//!
//! Each takes a warp for each piece; its lanes work in lockstep. Lane `l` has the elements `32 i + l` of the
//! piece, so that a warp reads neighbouring elements, and it keeps the numbers of owner `l`.
//!
//! A warp that writes elements brings 256 of them into the order of their owners in shared memory first. So
//! neighbouring lanes write neighbouring elements of a message, however many owners there are.
use super::geometry::{Message, UNIT, message_units, values_at};
use super::owner::owner_of;
use super::{MESSAGE_WORDS, PIECE};
use crate::keyed::Scalar;
use crate::primitives::lookback::scan_lanes;
use crate::primitives::operator::Sum;
use crate::primitives::unrolled;
use core::marker::PhantomData;
use simt::{GlobalSlice, Instance, Lockstep, Name, Shared, SharedShape, Thread, Tile, Word, device, kernel};

/// Types of keys and values that are moved.
pub trait Sharded: Copy + Send + Sync + 'static {
    /// Type of the keys.
    type Key: Scalar;
    /// Type of the values.
    type Value: Scalar;
}

/// Pairs of a key `K` and a value `V`.
#[derive(Clone, Copy, Debug)]
pub struct Pair<K, V>(PhantomData<fn() -> (K, V)>);

impl<K: Scalar, V: Scalar> Sharded for Pair<K, V> {
    type Key = K;
    type Value = V;
}

impl<K: Scalar, V: Scalar> Instance for Pair<K, V> {
    const NAME: &'static str = const { &Name::of("").unsigned::<K>().unsigned::<V>() }.as_str();
}

/// How a batch is divided.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Division {
    /// Number of ranks.
    pub owners: u32,
    /// This rank. Its own elements form one part, however many they are.
    pub own: u32,
    /// Elements of a part, as a power of two; at least 4.
    pub room_bits: u32,
    /// Pieces of a chunk.
    pub pieces: u32,
}

#[device]
impl Division {
    /// Returns the elements of a part for an owner, as a power of two.
    fn bits(self, owner: u32) -> u32 {
        if owner == self.own { 31 } else { self.room_bits }
    }
}

/// A place in a message.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub part: u32,
    /// Elements of the part.
    pub count: u32,
    /// Index in the part.
    pub index: u32,
}

#[device]
impl Place {
    fn new(place: u32, count: u32, bits: u32) -> Self {
        let (part, mask) = (place >> bits, (1 << bits) - 1);
        let is_full = part < count >> bits;
        Self { part, count: if is_full { mask + 1 } else { count & mask }, index: place & mask }
    }
}

/// Elements that a lane has in registers at a time.
const GROUP: usize = 4;

/// Groups of a piece.
const GROUPS: usize = super::ITEMS / GROUP;

/// A piece of a batch, as one lane sees it.
#[derive(Clone, Copy)]
pub(super) struct Piece<K> {
    keys: GlobalSlice<K>,
    warp: Tile<32, Lockstep>,
    owners: u32,
    /// Index of the lane's first element.
    first: usize,
}

#[device(caller)]
impl<K: Scalar> Piece<K> {
    /// Returns a piece by its number.
    pub fn new(keys: GlobalSlice<K>, owners: u32, number: usize) -> Self {
        Self::from_element(keys, owners, number * PIECE)
    }

    /// Returns a piece of any length that begins at an element.
    pub fn from_element(keys: GlobalSlice<K>, owners: u32, first: usize) -> Self {
        let warp = Tile::lockstep();
        Self { keys, warp, owners, first: first + warp.rank() as usize }
    }

    /// Returns the lane's rank in the warp.
    #[device]
    pub fn rank(self) -> u32 {
        self.warp.rank()
    }

    /// Returns a word of another lane. All lanes call it.
    pub fn from(self, word: u32, lane: u32) -> u32 {
        self.warp.shuffle(word, lane)
    }

    /// Returns the index of an element of the lane.
    #[device]
    pub fn at(self, item: usize) -> usize {
        self.first + 32 * item
    }

    /// Reads `N` elements of a column from `first` on, as far as they are there.
    pub fn load<const N: usize, T: Scalar>(self, column: GlobalSlice<T>, first: usize) -> [T; N] {
        let mut items = [T::MAX; N];
        unrolled::<N>(|item| {
            let at = self.at(first + item);
            if at < column.len() {
                items[item] = column.read(at);
            }
        });
        items
    }

    /// Returns the lanes that have elements. All lanes call it, each with the index of its element.
    pub fn there(self, at: usize) -> u32 {
        self.warp.ballot(at < self.keys.len())
    }

    /// Returns the lanes whose elements have the same owner as the caller's, and those whose elements have
    /// the caller's rank as their owner. Elements beyond the end of the batch belong to neither.
    pub fn votes(self, owner: u32, at: usize) -> (u32, u32) {
        self.votes_of(owner, self.there(at))
    }

    /// As [`Self::votes`], of the lanes in `there`, which have elements.
    pub fn votes_of(self, owner: u32, there: u32) -> (u32, u32) {
        let (mut same, mut own) = self.votes_of_bit(owner, 0, (there, there));
        let mut bit = 1;
        while (1 << bit) < self.owners {
            (same, own) = self.votes_of_bit(owner, bit, (same, own));
            bit += 1;
        }
        (same, own)
    }

    /// Returns the index of the lane's element among those of its owner, of which each lane counts in `next`
    /// those of the owner with its number. The lanes in `there` have elements. All lanes call it.
    pub fn take(self, next: &mut u32, owner: u32, there: u32) -> u32 {
        let (same, own) = self.votes_of(owner, there);
        let before = (same & ((1 << self.rank()) - 1)).count_ones();
        let index = self.from(*next, owner) + before;
        *next += own.count_ones();
        index
    }

    /// Leaves out the lanes whose owner has another bit than the caller's, and than its rank.
    fn votes_of_bit(self, owner: u32, bit: u32, (same, own): (u32, u32)) -> (u32, u32) {
        let votes = self.warp.ballot(owner >> bit & 1 != 0);
        let differs = |number: u32| if number >> bit & 1 != 0 { !votes } else { votes };
        (same & !differs(owner), own & !differs(self.warp.rank()))
    }
}

/// Writes for each piece of the batch and each owner the number of elements, in the order of the module's
/// picture. Takes a warp for each piece of all chunks; those behind the end of the batch count nothing.
#[kernel]
pub fn sharded_count<P: Sharded + Instance>(
    keys: GlobalSlice<P::Key>,
    division: Division,
    counts: GlobalSlice<u32>,
) {
    let (number, lane) = (Thread::index() / 32, Tile::<32>::lockstep().rank());
    let (owners, pieces) = (division.owners as usize, division.pieces.max(1) as usize);
    if number * owners >= counts.len() {
        return;
    }
    let (piece, mut count) = (Piece::new(keys, division.owners, number), 0);
    unrolled::<GROUPS>(|group| {
        let keys = piece.load::<GROUP, _>(keys, group * GROUP);
        unrolled::<GROUP>(|item| {
            let owner = owner_of(keys[item], division.owners);
            count += piece.votes(owner, piece.at(group * GROUP + item)).1.count_ones();
        });
    });
    if lane < division.owners {
        let place = (number / pieces * owners + lane as usize) * pieces + number % pieces;
        counts.write(place, count);
    }
}

/// Writes the [`Message`] of each chunk and owner, from the offsets of their pieces, and the counts again for
/// the host. A key has `key` bytes, and a value `value`, 0 if none move. Takes a warp for each chunk.
#[kernel]
pub fn sharded_bounds(
    offsets: GlobalSlice<u32>,
    division: Division,
    key: u32,
    value: u32,
    len: usize,
    messages: GlobalSlice<u32>,
    counts: GlobalSlice<u32>,
) {
    let (chunk, warp) = (Thread::index() / 32, Tile::<32>::lockstep());
    let (owners, pieces, lane) = (division.owners as usize, division.pieces as usize, warp.rank());
    if chunk * owners >= counts.len() {
        return;
    }
    let is_owner = lane < division.owners;
    let full = (chunk + 1) * pieces * PIECE;
    let end = if full < len { full } else { len } as u32;
    let first = if is_owner { offsets.read((chunk * owners + lane as usize) * pieces) } else { end };
    let next = warp.shuffle_down(first, 1);
    let next = if lane + 1 < division.owners { next } else { end };
    let count = if is_owner { next - first } else { 0 };
    let sizes = (key as usize, value as usize);
    let units = message_units(count as usize, division.bits(lane), sizes) as u32;
    let (mut sum, mut by) = (units, 1);
    while by < 32 {
        let below = warp.shuffle_up(sum, by);
        sum += if lane >= by { below } else { 0 };
        by *= 2;
    }
    if is_owner {
        let place = chunk * owners + lane as usize;
        Message { first, count, begin: sum - units }.write(messages, place);
        counts.write(place, count);
    }
}

#[device(caller)]
impl Message {
    fn write(self, messages: GlobalSlice<u32>, place: usize) {
        messages.write(place * MESSAGE_WORDS, self.first);
        messages.write(place * MESSAGE_WORDS + 1, self.count);
        messages.write(place * MESSAGE_WORDS + 2, self.begin);
    }

    fn read(messages: GlobalSlice<u32>, place: usize) -> Self {
        let word = |word| messages.read(place * MESSAGE_WORDS + word);
        Self { first: word(0), count: word(1), begin: word(2) }
    }
}

/// A lane's copy of the message of the owner with its number, and its counter.
#[derive(Clone, Copy)]
struct Places<K> {
    piece: Piece<K>,
    division: Division,
    message: Message,
    /// Index of the next element in the message.
    next: u32,
}

#[device(caller)]
impl<K: Scalar> Places<K> {
    /// Returns those of a piece of a chunk, whose offsets and messages are passed.
    fn new(
        piece: Piece<K>,
        division: Division,
        number: usize,
        offsets: GlobalSlice<u32>,
        messages: GlobalSlice<u32>,
    ) -> Self {
        let lane = piece.warp.rank();
        let (mut message, mut next) = (Message { first: 0, count: 0, begin: 0 }, 0);
        if lane < division.owners {
            message = Message::read(messages, lane as usize);
            next = offsets.read(lane as usize * division.pieces as usize + number) - message.first;
        }
        Self { piece, division, message, next }
    }

    /// Returns the owner of the lane's next element, and the element's index in its message. All lanes call
    /// it.
    fn take(&mut self, key: K, at: usize) -> (u32, u32) {
        let owner = owner_of(key, self.division.owners);
        (owner, self.piece.take(&mut self.next, owner, self.piece.there(at)))
    }

    /// Returns the begin of an owner's message, and the place of the element with this index. All lanes call
    /// it.
    fn place(&self, owner: u32, index: u32) -> (usize, Place) {
        let [begin, count] =
            [self.message.begin, self.message.count].map(|word| self.piece.from(word, owner));
        (begin as usize * UNIT, Place::new(index, count, self.division.bits(owner)))
    }
}

/// Elements of a lane that are brought into order at a time.
const SORTED: usize = 8;

/// Threads of a block that writes elements.
pub const SCATTER_THREADS: u32 = 128;

/// A column of the elements that the warps of a block bring into order: keys (0) or values (1).
struct Staged<T, const COLUMN: u8>(PhantomData<T>);

impl<T: Word, const COLUMN: u8> SharedShape for Staged<T, COLUMN> {
    type Word = T;
    const LEN: usize = SCATTER_THREADS as usize * SORTED;
}

#[device]
impl<T: Scalar, const COLUMN: u8> Staged<T, COLUMN> {
    /// Returns the calling warp's part.
    fn of_warp() -> Shared<T> {
        let first = Thread::index_in_block() / 32 % (SCATTER_THREADS / 32) * 32 * SORTED as u32;
        // SAFETY: each of the block's warps has a part.
        unsafe { Shared::of::<Self>().part(first, 32 * SORTED) }
    }
}

/// Writes the elements of a chunk to their places in the messages, which `keys_to` and `values_to` cover
/// both: the same memory as words of keys and of values. Without `values`, no values are written. Takes a
/// warp for each piece, in blocks of [`SCATTER_THREADS`]. `offsets` and `messages` are those of the chunk.
#[kernel]
pub fn sharded_scatter<P: Sharded + Instance>(
    keys: GlobalSlice<P::Key>,
    values: GlobalSlice<P::Value>,
    division: Division,
    offsets: GlobalSlice<u32>,
    messages: GlobalSlice<u32>,
    keys_to: GlobalSlice<P::Key>,
    values_to: GlobalSlice<P::Value>,
) {
    let number = Thread::index() / 32;
    if number * PIECE >= keys.len() {
        return;
    }
    let piece = Piece::new(keys, division.owners, number);
    let mut places = Places::new(piece, division, number, offsets, messages);
    let mut first = 0;
    while first < super::ITEMS {
        scatter_sorted::<P>(&mut places, first, values, (keys_to, values_to));
        first += SORTED;
    }
}

/// Writes 32 times [`SORTED`] elements to their places. A function, not a closure: the compiler would not
/// inline it.
#[device(caller)]
fn scatter_sorted<P: Sharded>(
    places: &mut Places<P::Key>,
    first: usize,
    values: GlobalSlice<P::Value>,
    (keys_to, values_to): (GlobalSlice<P::Key>, GlobalSlice<P::Value>),
) {
    let (piece, lane, has_values) = (places.piece, places.piece.rank(), !values.is_empty());
    let (stage, values_stage) = (Staged::<P::Key, 0>::of_warp(), Staged::<P::Value, 1>::of_warp());
    let keys = piece.load::<SORTED, _>(piece.keys, first);
    let values = piece.load::<SORTED, _>(values, first);
    let before = places.next;
    let mut taken = [(0, 0); SORTED];
    unrolled::<SORTED>(|item| taken[item] = places.take(keys[item], piece.at(first + item)));
    // Lanes with numbers of no owner have counted elements of others.
    let count = if lane < places.division.owners { places.next - before } else { 0 };
    let upto = scan_lanes::<Sum<u32>>(piece.warp, count, 32);
    // What leads from an index in the owner's message to one in shared memory.
    let shift = (upto - count).wrapping_sub(before);
    unrolled::<SORTED>(|item| {
        let (owner, index) = taken[item];
        let to = index.wrapping_add(piece.from(shift, owner));
        if piece.at(first + item) < piece.keys.len() {
            // SAFETY: the warp has as many elements as its part of shared memory.
            unsafe {
                stage.store_unchecked(to, keys[item]);
                if has_values {
                    values_stage.store_unchecked(to, values[item]);
                }
            }
        }
    });
    piece.warp.sync();
    let total = piece.from(upto, 31);
    unrolled::<SORTED>(|item| {
        let from = lane + 32 * item as u32;
        // SAFETY: the index is below the length; elements up to `total` have been stored.
        let key = if from < total { unsafe { stage.load_unchecked(from) } } else { P::Key::MAX };
        let owner = owner_of(key, places.division.owners);
        let (begin, place) = places.place(owner, from.wrapping_sub(piece.from(shift, owner)));
        if from < total {
            let bytes = size_of::<P::Key>() + if has_values { size_of::<P::Value>() } else { 0 };
            let begin = begin + ((place.part as usize * bytes) << places.division.bits(owner));
            keys_to.write(begin / size_of::<P::Key>() + place.index as usize, key);
            if has_values {
                let begin = begin + values_at(place.count as usize, size_of::<P::Key>());
                // SAFETY: as above.
                let value = unsafe { values_stage.load_unchecked(from) };
                values_to.write(begin / size_of::<P::Value>() + place.index as usize, value);
            }
        }
    });
    piece.warp.sync();
}

/// Answers to a chunk, in device memory.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Answers<V> {
    /// Values in the parts that have arrived.
    pub values: GlobalSlice<V>,
    /// The same memory as bytes, which has the outcomes, too.
    pub outcomes: GlobalSlice<u8>,
    /// Bytes from the begin of a part to that of the next.
    pub stride: usize,
    /// Values of this rank's own elements.
    pub own_values: GlobalSlice<V>,
    /// The same memory as bytes.
    pub own_outcomes: GlobalSlice<u8>,
}

#[device(caller)]
impl<V: Scalar> Answers<V> {
    /// Reads the answer to an element: the outcome, and the value if there are any (`bytes` is not 0).
    pub(super) fn read(self, owner: u32, division: Division, place: Place, bytes: usize) -> (V, u8) {
        let (index, count) = (place.index as usize, place.count as usize);
        let mut value = V::MAX;
        // Two loads rather than one from a slice that is chosen: the compiler would put both slices in local
        // memory.
        if owner == division.own {
            if bytes > 0 {
                value = self.own_values.read(index);
            }
            return (value, self.own_outcomes.read(count * bytes + index));
        }
        let begin = owner as usize * self.stride;
        if bytes > 0 {
            value = self.values.read(begin / size_of::<V>() + index);
        }
        (value, self.outcomes.read(begin + count * bytes + index))
    }
}

/// Writes the answers to a chunk in the order of the batch: those that have arrived in round `round` of the
/// chunk, and in round 0 those to this rank's own elements. Empty `results` or `outcomes` are not written;
/// the answers have values if there are `results`. Otherwise as [`sharded_scatter`].
#[kernel]
pub fn sharded_gather<P: Sharded + Instance>(
    keys: GlobalSlice<P::Key>,
    division: Division,
    round: u32,
    offsets: GlobalSlice<u32>,
    messages: GlobalSlice<u32>,
    answers: Answers<P::Value>,
    results: GlobalSlice<P::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let number = Thread::index() / 32;
    if number * PIECE >= keys.len() {
        return;
    }
    let piece = Piece::new(keys, division.owners, number);
    let mut places = Places::new(piece, division, number, offsets, messages);
    let mut first = 0;
    while first < super::ITEMS {
        gather_group::<P>(&mut places, first, round, answers, (results, outcomes));
        first += GATHERED;
    }
}

/// Elements of a lane of which the answers are read at a time.
const GATHERED: usize = 8;

/// Writes the answers to 32 times [`GATHERED`] elements: reads all of them first.
#[device(caller)]
fn gather_group<P: Sharded>(
    places: &mut Places<P::Key>,
    first: usize,
    round: u32,
    answers: Answers<P::Value>,
    (results, outcomes): (GlobalSlice<P::Value>, GlobalSlice<u8>),
) {
    let (piece, division) = (places.piece, places.division);
    let bytes = if results.is_empty() { 0 } else { size_of::<P::Value>() };
    let keys = piece.load::<GATHERED, _>(piece.keys, first);
    let (mut found, mut is_due) = ([(P::Value::MAX, 0u8); GATHERED], [false; GATHERED]);
    unrolled::<GATHERED>(|item| {
        let at = piece.at(first + item);
        let (owner, index) = places.take(keys[item], at);
        let (_, place) = places.place(owner, index);
        is_due[item] = at < piece.keys.len() && place.part == round;
        if is_due[item] {
            found[item] = answers.read(owner, division, place, bytes);
        }
    });
    unrolled::<GATHERED>(|item| {
        let (at, (value, outcome)) = (piece.at(first + item), found[item]);
        if is_due[item] && bytes > 0 {
            results.write(at, value);
        }
        if is_due[item] && !outcomes.is_empty() {
            outcomes.write(at, outcome);
        }
    });
}
