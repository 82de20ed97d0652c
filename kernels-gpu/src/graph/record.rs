//! The record of a vertex: the first piece of its memory.
//!
//! ```text
//! small vertex, no data       | t0 t1 t2 t3 | t4 t5 t6 link |                     32 bytes
//! small vertex, weights       | t0 w0 | t1 w1 | ... | t6 w6 | - link |            64 bytes
//! vertex with a table         | base buckets live taken | pressure - ... - TABLE |
//! ```
//!
//! The record is a [`Bucket`] of eight slots, which `W` lanes read, `L` slots each. The control slot, whose
//! last four bytes are the link, is the last slot of the last lane.
use super::link::Link;
use crate::keyed::{Bucket, Lane, Slot};
use simt::{Convergence, Global, Order, Tile, Word, device};

/// Number of slots of a record that hold edges.
pub const RECORD_SLOTS: u32 = 7;

/// Index of the word of a record that counts the deferred insertions of a vertex with a table.
const PRESSURE: usize = 4;

/// A record in memory.
#[derive(Clone, Copy, Debug)]
pub struct Record<S, const W: u32, const L: usize>(Bucket<S, W, L>);

/// The part of a record that a lane has read.
#[derive(Clone, Copy, Debug)]
pub struct RecordRead<S: Slot, const L: usize> {
    /// The lane's slots. The control slot appears as a tombstone.
    pub lane: Lane<S, L>,
    /// Word of the link, in the tile's last lane; arbitrary in the others.
    pub link: u32,
}

/// The table of a vertex, as its record describes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Index of the first bucket among the slabs of the arena.
    pub base: u32,
    /// Number of buckets.
    pub buckets: u32,
    /// Number of taken slots.
    pub taken: u32,
}

#[device]
impl Table {
    /// Returns the buckets of a part, if parts have `each` buckets, as indices of slabs of the arena: from
    /// the first one to before the second one.
    pub(in crate::graph) fn slabs_of_part(self, part: u32, each: u32) -> (u32, u32) {
        let first = (part * each).min(self.buckets);
        let end = (first + each).min(self.buckets);
        (self.base + first, self.base + end)
    }
}

#[device]
impl<S: Slot, const W: u32, const L: usize> Record<S, W, L> {
    /// Number of bytes of a record.
    pub const BYTES: usize = Bucket::<S, W, L>::BYTES;

    /// Returns the record at `base`.
    ///
    /// # Safety
    /// - The [`Self::BYTES`] bytes from `base` on are a record of a graph of this kind, aligned to
    ///   [`Self::BYTES`], for as long as the record is used.
    pub unsafe fn at(base: Global<u64>) -> Self {
        const { assert!(W as usize * L == RECORD_SLOTS as usize + 1, "a record has eight slots") };
        // SAFETY: the caller's obligation.
        Self(unsafe { Bucket::at(base) })
    }

    /// Returns the record as a bucket, whose last slot is the control slot.
    pub fn bucket(self) -> Bucket<S, W, L> {
        self.0
    }

    /// Returns the location of the link.
    pub fn link(self) -> Global<u32> {
        self.word(Self::BYTES / 4 - 1)
    }

    /// Returns the location of a word, whose index is below a fourth of [`Self::BYTES`].
    fn word(self, index: usize) -> Global<u32> {
        // SAFETY: a word of the record.
        unsafe { self.0.base().cast::<u32>().offset(index) }
    }

    /// Returns the location of the number of deferred insertions of a vertex with a table, minus one.
    pub fn pressure(self) -> Global<u32> {
        self.word(PRESSURE)
    }

    /// Returns the location of the counts of a vertex with a table: live edges in the low half, taken slots
    /// in the high half.
    pub fn counts(self) -> Global<u64> {
        // SAFETY: the second eight bytes of the record.
        unsafe { self.0.base().offset(1) }
    }

    /// Reads the part of the record that belongs to lane `rank`, below `W`, if `wanted`; otherwise the result
    /// is arbitrary. `order` is relaxed, or weak if nothing writes to the record meanwhile.
    #[device(caller)]
    pub fn read(self, rank: u32, wanted: bool, order: Order) -> RecordRead<S, L> {
        let lane = self.0.load(rank, wanted, order);
        let link = Self::link_in(lane.words()[L - 1]).to_word();
        RecordRead { lane: lane.with(removed::<S>(), |j| rank == W - 1 && j == L - 1), link }
    }

    /// Returns the link in the control slot.
    pub fn link_in(control: S::Word) -> Link {
        Link::from_word((control.widen() >> (size_of::<S::Word>() * 8 - 32)) as u32)
    }

    /// Returns the slot at `position`, below [`RECORD_SLOTS`], in the order in which slots are filled.
    ///
    /// # Panics
    /// Ends the launch if there is no such slot.
    #[device(caller)]
    pub fn slot(self, position: u32) -> Global<S::Word> {
        if position >= RECORD_SLOTS {
            simt::trap();
        }
        // SAFETY: the position is that of a slot of the bucket.
        unsafe { self.0.slot(position / L as u32, position as usize % L) }
    }

    /// Returns the table that the record describes, of which the tile's first lane has read the words.
    /// Requires the link [`Link::TABLE`]; otherwise the result is arbitrary. The lanes of the tile call it
    /// together.
    #[device(caller)]
    pub fn table(tile: Tile<W, impl Convergence>, read: &RecordRead<S, L>) -> Table {
        let each = size_of::<S::Word>() / 4;
        let word = |index: usize| {
            let word = read.lane.words()[index / each].widen() >> (32 * (index % each));
            tile.shuffle(word as u32, 0)
        };
        Table { base: word(0), buckets: word(1), taken: word(3) }
    }

    /// Returns the table that slots of a record describe, and the number of live edges.
    pub fn described(slots: &[S::Word; RECORD_SLOTS as usize + 1]) -> (Table, u32) {
        let each = size_of::<S::Word>() / 4;
        let word = |index: usize| (slots[index / each].widen() >> (32 * (index % each))) as u32;
        (Table { base: word(0), buckets: word(1), taken: word(3) }, word(2))
    }

    /// Reads the description of the table by the calling lane alone, and the number of live edges.
    #[device(caller)]
    pub fn load_table(self) -> (Table, u32) {
        let load = |index| self.word(index).load(Order::Relaxed, simt::Scope::Device);
        (Table { base: load(0), buckets: load(1), taken: load(3) }, load(2))
    }

    /// Describes a table with `live` edges and no tombstones, by the calling lane alone. Requires exclusive
    /// access to the vertex.
    pub fn describe(self, base: u32, buckets: u32, live: u32) {
        let words = [base, buckets, live, live, u32::MAX];
        let mut index = 0;
        while index < words.len() {
            // mutation: block weak late equivalent, because only later launches read the record again.
            self.word(index).store(words[index], Order::Relaxed, simt::Scope::Device);
            index += 1;
        }
        // mutation: block weak late equivalent, because only later launches read the record again.
        self.link().store(Link::TABLE.to_word(), Order::Relaxed, simt::Scope::Device);
    }

    /// Empties all slots, by the calling lane alone, and sets the link. Requires exclusive access to the
    /// vertex.
    pub fn blank(self, link: Link) {
        let mut index = 0;
        while index < Self::BYTES / 8 {
            // SAFETY: eight bytes of the record.
            let word = unsafe { self.0.base().offset(index) };
            // mutation: block weak equivalent, because only later launches read the record again.
            word.store(u64::MAX, Order::Relaxed, simt::Scope::Device);
            index += 1;
        }
        // mutation: block weak late equivalent, because only later launches read the record again.
        self.link().store(link.to_word(), Order::Relaxed, simt::Scope::Device);
    }
}

/// Returns the word of a tombstone.
#[device]
pub fn removed<S: Slot>() -> S::Word {
    S::pack(S::tombstone(), S::value(S::EMPTY))
}
