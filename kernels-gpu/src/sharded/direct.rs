//! Messages that a kernel writes where their owners read them: into windows in the memory of all ranks, which
//! it can access.
//!
//! ```text
//! a part of a window   counters of the messages of one rank · keys · padding to 16 bytes · values
//! ```
//!
//! Part `r` of rank `d`'s window has the message of rank `r` for `d`. Each message has room for all elements
//! of its chunk, so that no count has to be known before. The counters of the messages of a rank are in its
//! own part of its own window, where the owners read them. The order of the elements in a message is that in
//! which blocks reserve places, and `places` keeps it for the answers, in two bytes per element.
//!
//! # Cost
//!
//! [`sharded_send`] reads and writes each key and value once. A block brings [`SENT_BY_BLOCK`] elements into
//! the order of their owners in shared memory, by three barriers, so that neighbouring threads write
//! neighbouring elements, and executes an atomic for each owner. [`sharded_receive`] reads and writes each
//! answer once.
use super::MOST_OWNERS;
use super::geometry::{UNIT, values_at};
use super::kernels::{Piece, Sharded};
use super::owner::owner_of;
use crate::keyed::Scalar;
use crate::primitives::lookback::scan_lanes;
use crate::primitives::operator::Sum;
use crate::primitives::unrolled;
use core::marker::PhantomData;
use simt::{
    Block, Global, GlobalSlice, Instance, Order, Scope, Shared, SharedShape, Thread, Word, device, kernel,
};

/// Words from a message's counter to that of the next owner: counters in different cache lines change faster.
pub const COUNTER_WORDS: usize = 32;

/// Returns the bytes of a part before its keys.
///
/// ```
/// assert_eq!(phalanx_kernels::sharded::direct::header(3), 3 * 128);
/// ```
pub const fn header(ranks: usize) -> usize {
    ranks * COUNTER_WORDS * size_of::<u32>()
}

/// Returns the most elements of a message in a part of `bytes` bytes, with keys of `key` bytes and arguments
/// of `value`, 0 if none move: a multiple of 16.
///
/// ```
/// use phalanx_kernels::sharded::direct::room;
///
/// assert_eq!(room(1024, 2, (8, 8)), 48); // of 768 bytes after the counters
/// assert_eq!(room(100, 2, (8, 8)), 0);
/// ```
pub const fn room(bytes: usize, ranks: usize, (key, value): (usize, usize)) -> usize {
    bytes.saturating_sub(header(ranks)) / (key + value) / UNIT * UNIT
}

/// The messages of a rank to all owners.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Windows {
    /// Number of ranks.
    pub owners: u32,
    /// Elements that a message has room for, a multiple of 16.
    pub room: u32,
    /// For each owner, the address of the first key of its message.
    pub messages: GlobalSlice<u64>,
    /// A counter for each message, 0 before: see [`COUNTER_WORDS`].
    pub counters: GlobalSlice<u32>,
}

/// Threads of a block that writes messages.
pub const SEND_THREADS: u32 = 256;

/// Warps of a block.
const WARPS: u32 = SEND_THREADS / 32;

/// Elements that a lane brings.
const SENT: usize = 4;

/// Elements of a tile: those that a block writes at a time.
pub const SENT_BY_BLOCK: usize = SEND_THREADS as usize * SENT;

/// Bits of an element's index among those of a tile with the same owner.
const INDEX_BITS: u32 = 10;

/// TilePlaces that a word has.
const IN_WORD: usize = 2;

/// Words of the places of a tile's elements.
const PLACE_WORDS: usize = SENT_BY_BLOCK / IN_WORD;

const _: () = assert!(SENT_BY_BLOCK == 1 << INDEX_BITS && INDEX_BITS + 5 <= u32::BITS / IN_WORD as u32);

/// Returns the words that the places of a tile take: an owner and an index for each element, and for each
/// owner the index of its first element in the message.
///
/// ```
/// assert_eq!(phalanx_kernels::sharded::direct::words_of_tile(2), 512 + 2);
/// ```
#[device]
pub const fn words_of_tile(owners: u32) -> usize {
    PLACE_WORDS + owners as usize
}

/// Returns the words that the places of `len` elements take.
///
/// ```
/// assert_eq!(phalanx_kernels::sharded::direct::words_of_places(1025, 2), 2 * 514);
/// ```
pub const fn words_of_places(len: usize, owners: usize) -> usize {
    len.div_ceil(SENT_BY_BLOCK) * words_of_tile(owners as u32)
}

/// Places of the elements of a tile. A lane has places of the elements that it brings.
#[derive(Clone, Copy)]
struct TilePlaces {
    words: GlobalSlice<u32>,
}

#[device(caller)]
impl TilePlaces {
    /// Returns those of the tile that begins at an element.
    fn of(places: GlobalSlice<u32>, owners: u32, first: usize) -> Self {
        let words = words_of_tile(owners);
        Self { words: places.part(first / SENT_BY_BLOCK * words, words) }
    }

    /// Returns the index of the word of two of a thread's elements.
    #[device]
    fn word(pair: usize) -> usize {
        let (warp, lane) = (Thread::index_in_block() / 32, Thread::index_in_block() % 32);
        (warp as usize * (SENT / IN_WORD) + pair) * 32 + lane as usize
    }

    /// Writes the owners and indices of a thread's elements.
    fn write(self, taken: [(u32, u32); SENT]) {
        unrolled::<{ SENT / IN_WORD }>(|pair| {
            let [low, high] = [taken[IN_WORD * pair], taken[IN_WORD * pair + 1]];
            let [low, high] = [low, high].map(|(owner, index)| owner << INDEX_BITS | index);
            // SAFETY: a tile has a word for two of each thread's elements.
            unsafe { set(self.words, Self::word(pair), high << 16 | low) };
        });
    }

    /// Returns what [`write`](Self::write) has written. A thread's elements may all lie beyond the end.
    fn read(self) -> [(u32, u32); SENT] {
        let mut taken = [(0, 0); SENT];
        unrolled::<{ SENT / IN_WORD }>(|pair| {
            // SAFETY: as above.
            let word = unsafe { get(self.words, Self::word(pair)) };
            let of = |word: u32| (word >> INDEX_BITS & 31, word & ((1 << INDEX_BITS) - 1));
            [taken[IN_WORD * pair], taken[IN_WORD * pair + 1]] = [of(word), of(word >> 16)];
        });
        taken
    }

    /// Returns where the index of an owner's first element is.
    #[device]
    fn first(owner: u32) -> usize {
        PLACE_WORDS + owner as usize
    }
}

/// A column of a block's elements in the order of their owners: keys (0) or values (1).
struct TileStage<T, const COLUMN: u8>(PhantomData<T>);

impl<T: Word, const COLUMN: u8> SharedShape for TileStage<T, COLUMN> {
    type Word = T;
    const LEN: usize = SENT_BY_BLOCK;
}

/// For each warp and owner the number of elements, and then of those of the owner in the warps before.
struct Counts;

impl SharedShape for Counts {
    type Word = u32;
    const LEN: usize = WARPS as usize * MOST_OWNERS;
}

/// For each owner, the index of its first element in the stage.
struct Begins;

impl SharedShape for Begins {
    type Word = u32;
    const LEN: usize = MOST_OWNERS;
}

/// For each owner, the address at which the first element of the stage would lie if all were the owner's:
/// keys (0) or values (1).
struct Addresses<const COLUMN: u8>;

impl<const COLUMN: u8> SharedShape for Addresses<COLUMN> {
    type Word = u64;
    const LEN: usize = MOST_OWNERS;
}

/// Reads an element.
///
/// # Safety
/// - The index is below the length.
#[device]
unsafe fn get<T: Word>(words: GlobalSlice<T>, index: usize) -> T {
    // SAFETY: the caller's obligation.
    unsafe { Global::new(words.as_ptr().wrapping_add(index)) }.load(Order::Weak, Scope::Device)
}

/// Writes an element.
///
/// # Safety
/// - The index is below the length.
#[device]
unsafe fn set<T: Word>(words: GlobalSlice<T>, index: usize, value: T) {
    // SAFETY: the caller's obligation.
    unsafe { Global::new(words.as_ptr().wrapping_add(index)) }.store(value, Order::Weak, Scope::Device);
}

/// Writes the elements of a chunk to the messages of their owners, and their places to `places`, which has
/// [`words_of_places`]. Without `values`, no values are written. Takes blocks of [`SEND_THREADS`], which
/// share the elements: [`SENT_BY_BLOCK`] at a time.
#[kernel]
pub fn sharded_send<P: Sharded + Instance>(
    keys: GlobalSlice<P::Key>,
    values: GlobalSlice<P::Value>,
    windows: Windows,
    places: GlobalSlice<u32>,
) {
    let mut first = Thread::block_index() as usize * SENT_BY_BLOCK;
    while first < keys.len() {
        let tile =
            Tile { keys, values, windows, places: TilePlaces::of(places, windows.owners, first), first };
        if first + SENT_BY_BLOCK <= keys.len() {
            tile.send::<true>();
        } else {
            tile.send::<false>();
        }
        Block::sync();
        first += Thread::count() / SEND_THREADS as usize * SENT_BY_BLOCK;
    }
}

/// Elements of a chunk that a block writes at a time.
#[derive(Clone, Copy)]
struct Tile<K, V> {
    keys: GlobalSlice<K>,
    values: GlobalSlice<V>,
    windows: Windows,
    places: TilePlaces,
    /// Index of the first element.
    first: usize,
}

#[device(caller)]
impl<K: Scalar, V: Scalar> Tile<K, V> {
    /// Writes the elements. `FULL` says that there are [`SENT_BY_BLOCK`].
    fn send<const FULL: bool>(self) {
        let warp = Thread::index_in_block() / 32 % WARPS;
        let piece =
            Piece::from_element(self.keys, self.windows.owners, self.first + warp as usize * 32 * SENT);
        let keys = self.load::<_, FULL>(piece, self.keys);
        let (mut count, mut taken) = (0, [(0, 0); SENT]);
        unrolled::<SENT>(|item| {
            let owner = owner_of(keys[item], self.windows.owners);
            let there = if FULL { u32::MAX } else { piece.there(piece.at(item)) };
            taken[item] = (owner, piece.take(&mut count, owner, there));
        });
        // SAFETY: each warp has as many counts as there can be owners, one for each lane.
        unsafe { Shared::of::<Counts>().store_unchecked(warp * 32 + piece.rank(), count) };
        Block::sync();
        if warp == 0 {
            self.reserve(piece.rank());
        }
        Block::sync();
        self.stage::<FULL>(piece, keys, taken);
        Block::sync();
        self.write_staged::<FULL>();
    }

    /// Reads a thread's elements of a column.
    fn load<T: Scalar, const FULL: bool>(self, piece: Piece<K>, column: GlobalSlice<T>) -> [T; SENT] {
        let mut items = [T::MAX; SENT];
        unrolled::<SENT>(|item| {
            let index = piece.at(item);
            if FULL || index < self.keys.len() {
                // SAFETY: columns that move have as many elements as there are keys.
                items[item] = unsafe { get(column, index) };
            }
        });
        items
    }

    /// Reserves the places of all elements in the messages. The first warp calls it, each lane for the owner
    /// with its number.
    fn reserve(self, lane: u32) {
        let (counts, windows, mut sum) = (Shared::of::<Counts>(), self.windows, 0);
        // SAFETY: each warp has a count for each lane.
        unrolled::<{ WARPS as usize }>(|warp| unsafe {
            let count = counts.load_unchecked(warp as u32 * 32 + lane);
            counts.store_unchecked(warp as u32 * 32 + lane, sum);
            sum += count;
        });
        // Lanes with numbers of no owner have counted elements of others.
        let is_owner = lane < windows.owners;
        let of_owner = if is_owner { sum } else { 0 };
        let begin = scan_lanes::<Sum<u32>>(simt::Tile::lockstep(), of_owner, 32) - of_owner;
        if is_owner {
            let counter = windows.counters.at(lane as usize * COUNTER_WORDS);
            let first = counter.fetch_add(sum, Order::Relaxed, Scope::Device);
            self.places.words.write(TilePlaces::first(lane), first);
            let (message, shift) = (windows.messages.read(lane as usize), first.wrapping_sub(begin) as i32);
            let address = |begin: usize, bytes: usize| {
                message.wrapping_add(begin as u64).wrapping_add_signed(i64::from(shift) * bytes as i64)
            };
            let values = address(values_at(windows.room as usize, size_of::<K>()), size_of::<V>());
            // SAFETY: as many words as lanes.
            unsafe {
                Shared::of::<Begins>().store_unchecked(lane, begin);
                Shared::of::<Addresses<0>>().store_unchecked(lane, address(0, size_of::<K>()));
                Shared::of::<Addresses<1>>().store_unchecked(lane, values);
            }
        }
    }

    /// Brings the elements into the order of their owners, and notes their places.
    fn stage<const FULL: bool>(self, piece: Piece<K>, keys: [K; SENT], mut taken: [(u32, u32); SENT]) {
        let (stage, values_stage) = (Shared::of::<TileStage<K, 0>>(), Shared::of::<TileStage<V, 1>>());
        let (counts, begins) = (Shared::of::<Counts>(), Shared::of::<Begins>());
        let (warp, has_values) = (Thread::index_in_block() / 32 % WARPS, !self.values.is_empty());
        let mut values = [V::MAX; SENT];
        if has_values {
            values = self.load::<_, FULL>(piece, self.values);
        }
        unrolled::<SENT>(|item| {
            let (owner, index) = taken[item];
            if FULL || piece.at(item) < self.keys.len() {
                // SAFETY: owners are below their number, and the stage has room for all elements.
                unsafe {
                    taken[item].1 = counts.load_unchecked(warp * 32 + owner) + index;
                    let slot = begins.load_unchecked(owner) + taken[item].1;
                    stage.store_unchecked(slot, keys[item]);
                    if has_values {
                        values_stage.store_unchecked(slot, values[item]);
                    }
                }
            }
        });
        self.places.write(taken);
    }

    /// Writes the elements in the order of their owners to the messages.
    fn write_staged<const FULL: bool>(self) {
        let (stage, values_stage) = (Shared::of::<TileStage<K, 0>>(), Shared::of::<TileStage<V, 1>>());
        let (thread, begins, mut owner) = (Thread::index_in_block(), Shared::of::<Begins>(), 0);
        unrolled::<SENT>(|item| {
            let slot = thread + item as u32 * SEND_THREADS;
            if FULL || self.first + (slot as usize) < self.keys.len() {
                // SAFETY: all slots up to the number of elements have been written, and what `reserve` has
                // written for all owners. A message has room for all elements of the chunk.
                unsafe {
                    while owner + 1 < self.windows.owners && begins.load_unchecked(owner + 1) <= slot {
                        owner += 1;
                    }
                    let keys = Shared::of::<Addresses<0>>().load_unchecked(owner) as *mut K;
                    let to = Global::new(keys.wrapping_add(slot as usize));
                    to.store(stage.load_unchecked(slot), Order::Weak, Scope::Device);
                    if !self.values.is_empty() {
                        let values = Shared::of::<Addresses<1>>().load_unchecked(owner) as *mut V;
                        let to = Global::new(values.wrapping_add(slot as usize));
                        to.store(values_stage.load_unchecked(slot), Order::Weak, Scope::Device);
                    }
                }
            }
        });
    }
}

/// Answers to a chunk in a rank's own window.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Received<V> {
    /// Number of ranks.
    pub owners: u32,
    /// Elements that an answer has room for, a multiple of 16. Outcomes follow the values of as many.
    pub room: u32,
    /// Bytes from the answers of an owner to those of the next.
    pub stride: usize,
    /// The window as values.
    pub values: GlobalSlice<V>,
    /// The same memory as bytes.
    pub outcomes: GlobalSlice<u8>,
}

/// Writes the answers to a chunk of `len` elements in their order. The answers have values if there are
/// `results`. Takes a block of [`SEND_THREADS`] for [`SENT_BY_BLOCK`] elements.
#[kernel]
pub fn sharded_receive<P: Sharded + Instance>(
    answers: Received<P::Value>,
    places: GlobalSlice<u32>,
    len: usize,
    results: GlobalSlice<P::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let (first, warp) = (Thread::block_index() as usize * SENT_BY_BLOCK, Thread::index_in_block() / 32);
    let places = TilePlaces::of(places, answers.owners, first);
    let first = first + warp as usize * 32 * SENT + Thread::index_in_block() as usize % 32;
    if Thread::block_index() as usize * SENT_BY_BLOCK + SENT_BY_BLOCK <= len {
        answers.collect::<true>(places, (first, len), (results, outcomes));
    } else {
        answers.collect::<false>(places, (first, len), (results, outcomes));
    }
}

#[device(caller)]
impl<V: Scalar> Received<V> {
    /// Writes the answers to a thread's elements. `FULL` says that all are there.
    fn collect<const FULL: bool>(
        self,
        places: TilePlaces,
        (first, len): (usize, usize),
        (results, outcomes): (GlobalSlice<V>, GlobalSlice<u8>),
    ) {
        let (has_values, mut taken) = (!results.is_empty(), [(0, 0); SENT]);
        let outcomes_at = if has_values { self.room as usize * size_of::<V>() } else { 0 };
        let mut found = [(V::MAX, 0u8); SENT];
        if FULL || first < len {
            taken = places.read();
        }
        unrolled::<SENT>(|item| {
            if FULL || first + 32 * item < len {
                let (owner, index) = taken[item];
                let begin = owner as usize * self.stride;
                // SAFETY: `sharded_send` has written the owner and the index of each element, and for each
                // owner the first index. A message, and so the answers to it, has room for all elements.
                unsafe {
                    let index = (get(places.words, TilePlaces::first(owner)) + index) as usize;
                    if has_values {
                        found[item].0 = get(self.values, begin / size_of::<V>() + index);
                    }
                    found[item].1 = get(self.outcomes, begin + outcomes_at + index);
                }
            }
        });
        unrolled::<SENT>(|item| {
            let index = first + 32 * item;
            if FULL || index < len {
                // SAFETY: results and outcomes have as many elements as the chunk.
                unsafe {
                    if has_values {
                        set(results, index, found[item].0);
                    }
                    set(outcomes, index, found[item].1);
                }
            }
        });
    }
}
