//! Output of the pairs of ranges.
use crate::keyed::kernels::write_if;
use crate::keyed::{Scalar, Slot};
use simt::{Convergence, GlobalSlice, Order, Scope, Tile, black_box, device};

/// Number of 4-byte words that one store writes.
const FOUR: u32 = 4;

/// Destination of pairs.
#[derive(Debug)]
pub struct Sink<K, V> {
    /// Receives the keys.
    pub keys: GlobalSlice<K>,
    /// Receives the values.
    pub values: GlobalSlice<V>,
}

impl<K, V> Clone for Sink<K, V> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K, V> Copy for Sink<K, V> {}

#[device(caller)]
impl<K: Scalar, V: Scalar> Sink<K, V> {
    /// Returns the number of pairs that fit from `offset` on, `room` at most.
    #[device]
    pub(super) fn room(self, offset: u64, room: u32) -> u32 {
        let places = (self.keys.len().max(self.values.len()) as u64).saturating_sub(offset);
        places.min(room as u64) as u32
    }

    /// Returns the `len` pairs from `first` on.
    #[device]
    fn part(self, first: u64, len: u32) -> Self {
        let (first, len) = (first as usize, len as usize);
        Self { keys: self.keys.part(first, len), values: self.values.part(first, len) }
    }

    /// Writes a stored pair at index `place`, if there is such an index.
    pub(super) fn put<S: Slot<Key = K, Value = V>>(self, place: u64, word: S::Word) {
        write_if(self.keys, place as usize, K::from_u64(S::key(word).to_u64()));
        write_if(self.values, place as usize, S::value(word));
    }

    /// Writes `many` stored pairs from index `first` on, as far as there are such indices. Keys and values of
    /// four bytes are written four at once, where their addresses are aligned for it.
    pub(super) fn put_all<S: Slot<Key = K, Value = V>, const W: u32>(
        self,
        tile: Tile<W, impl Convergence>,
        first: u64,
        many: u32,
        word: impl Fn(u32) -> S::Word,
    ) {
        let part = self.part(first, many);
        let before = part.before(many as usize);
        // Counted from an aligned index, so some of the first four may not exist.
        let mut place = (FOUR * tile.rank()).wrapping_sub(before.unwrap_or(0));
        while place.cast_signed() < many.cast_signed() {
            if before.is_some() && place < many && many - place >= FOUR {
                // SAFETY: `before` is `Some` only if keys and values have four bytes and both slices have
                // length `many`; this index is aligned.
                unsafe { part.put_four::<S>(place, |i| word(place + i)) };
            } else {
                part.put_some::<S>(place, many, &word);
            }
            place = place.wrapping_add(FOUR * W);
        }
    }

    /// Writes the stored pairs at the four indices from `first` on that are below `many`. Rare, so it is not
    /// unrolled, which would take registers.
    fn put_some<S: Slot<Key = K, Value = V>>(self, first: u32, many: u32, word: impl Fn(u32) -> S::Word) {
        let (mut i, four) = (0, black_box(FOUR));
        while i < four {
            let place = first.wrapping_add(i);
            if place < many {
                self.put::<S>(place as u64, word(place));
            }
            i += 1;
        }
    }

    /// Returns the number of words between an aligned address and the first word, if four words may be
    /// written at once: all `many` words exist, have four bytes each, and keys and values are equally
    /// aligned.
    #[device]
    fn before(self, many: usize) -> Option<u32> {
        let before = |address: usize| (address / 4) as u32 % FOUR;
        let (keys, values) = (before(self.keys.as_ptr().addr()), before(self.values.as_ptr().addr()));
        let whole = self.keys.len() == many && self.values.len() == many;
        let may = size_of::<K>() == 4 && size_of::<V>() == 4 && whole;
        (may && keys == values).then_some(keys)
    }

    /// Writes stored pairs at four indices at once.
    ///
    /// # Safety
    /// - Keys and values have four bytes each; both slices have four words from `place` on, which is aligned
    ///   to 16 bytes.
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
