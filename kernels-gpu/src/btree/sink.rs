//! Where the pairs of ranges are written.
use crate::keyed::kernels::write_if;
use crate::keyed::{Scalar, Slot};
use simt::{Convergence, GlobalSlice, Order, Scope, Tile, opaque};

/// Words of 4 bytes that one store writes.
const FOUR: u32 = 4;

/// Where pairs are written.
#[derive(Debug)]
pub struct Sink<K, V> {
    /// Takes the keys.
    pub keys: GlobalSlice<K>,
    /// Takes the values.
    pub values: GlobalSlice<V>,
}

impl<K, V> Clone for Sink<K, V> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Sink<K, V> {}

impl<K: Scalar, V: Scalar> Sink<K, V> {
    /// How many pairs there is room for from `offset` on, if it is to be for `room` at most.
    #[inline(always)]
    pub(super) fn room(self, offset: u64, room: u32) -> u32 {
        let places = (self.keys.len().max(self.values.len()) as u64).saturating_sub(offset);
        places.min(room as u64) as u32
    }

    /// So many places from one on.
    #[inline(always)]
    fn part(self, first: u64, len: u32) -> Self {
        let (first, len) = (first as usize, len as usize);
        Self { keys: self.keys.part(first, len), values: self.values.part(first, len) }
    }

    /// Writes a stored pair, where there is such a place.
    #[inline(always)]
    #[track_caller]
    pub(super) fn put<S: Slot<Key = K, Value = V>>(self, place: u64, word: S::Word) {
        write_if(self.keys, place as usize, K::from_u64(S::key(word).to_u64()));
        write_if(self.values, place as usize, S::value(word));
    }

    /// Writes `many` stored pairs from place `first` on, where there are such places. Of four bytes each,
    /// four at once, where their places are aligned to that.
    #[inline(always)]
    #[track_caller]
    pub(super) fn put_all<S: Slot<Key = K, Value = V>, const W: u32, C: Convergence>(
        self,
        tile: Tile<W, C>,
        first: u64,
        many: u32,
        word: impl Fn(u32) -> S::Word,
    ) {
        let part = self.part(first, many);
        let before = part.before(many as usize);
        // Counted from a place that is aligned: of the first four some may not be there.
        let mut place = (FOUR * tile.rank()).wrapping_sub(before.unwrap_or(0));
        while place.cast_signed() < many.cast_signed() {
            if before.is_some() && place < many && many - place >= FOUR {
                // SAFETY: `before` says that keys and values have four bytes, and both slices `many` places;
                // this one is aligned.
                unsafe { part.put_four::<S>(place, |i| word(place + i)) };
            } else {
                part.put_some::<S>(place, many, &word);
            }
            place = place.wrapping_add(FOUR * W);
        }
    }

    /// Writes those stored pairs at the four places from `first` on that are below `many`. Rare: not
    /// unrolled, lest it take registers.
    #[inline(always)]
    #[track_caller]
    fn put_some<S: Slot<Key = K, Value = V>>(self, first: u32, many: u32, word: impl Fn(u32) -> S::Word) {
        let (mut i, four) = (0, opaque(FOUR));
        while i < four {
            let place = first.wrapping_add(i);
            if place < many {
                self.put::<S>(place as u64, word(place));
            }
            i += 1;
        }
    }

    /// How many places there are between the first one and an aligned one before it, where four words may be
    /// written at once: there are all `many`, of four bytes, and keys and values lie alike.
    #[inline(always)]
    fn before(self, many: usize) -> Option<u32> {
        let before = |address: usize| (address / 4) as u32 % FOUR;
        let (keys, values) = (before(self.keys.as_ptr().addr()), before(self.values.as_ptr().addr()));
        let whole = self.keys.len() == many && self.values.len() == many;
        let may = size_of::<K>() == 4 && size_of::<V>() == 4 && whole;
        (may && keys == values).then_some(keys)
    }

    /// Writes stored pairs at four places at once.
    ///
    /// # Safety
    /// - Keys and values have four bytes each; both slices have four places from `place` on, which is aligned
    ///   to 16 bytes.
    #[inline(always)]
    #[track_caller]
    unsafe fn put_four<S: Slot<Key = K, Value = V>>(self, place: u32, word: impl Fn(u32) -> S::Word) {
        let place = place as usize;
        // SAFETY: the caller's promise.
        unsafe {
            let (keys, values) = (self.keys.at(place).cast::<u32>(), self.values.at(place).cast::<u32>());
            keys.store_vec([0, 1, 2, 3].map(|i| S::key(word(i)).to_u64() as u32), Order::Weak, Scope::Device);
            values.store_vec(
                [0, 1, 2, 3].map(|i| S::value(word(i)).to_u64() as u32),
                Order::Weak,
                Scope::Device,
            );
        }
    }
}
