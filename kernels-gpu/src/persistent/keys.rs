//! Keys of a batch, and their comparison with those of items.
use super::hashed::Hashed;
use super::kind::Config;
use super::mode::Mode;
use super::view::PersistentView;
use simt::{BoundedSlice, Global, GlobalSlice, Order, Scope, Thread, bound, device};

/// Keys of a batch, and how its searches read them.
#[derive(Clone, Copy, Debug)]
pub struct Keys {
    /// Words of 8 bytes, `KEY_WORDS` for each key.
    pub(super) words: GlobalSlice<u64>,
}

#[device(caller)]
impl Keys {
    /// Returns the keys of a batch, whose count may be in device memory.
    pub(super) fn of<C: Config>(keys: BoundedSlice<u64>) -> Self {
        Self { words: keys.resolve_groups(C::KEY_WORDS as usize) }
    }

    /// Returns whether the calling thread has an element, and its key; `None` if no thread has one. A thread
    /// without an element gets the last key: no branch divides a warp before it calls collectives.
    pub(super) fn element<C: Config>(self, seed: u64) -> Option<(bool, Wanted)> {
        let (index, len) = (Thread::index(), self.len::<C>());
        if len == 0 {
            return None;
        }
        Some((index < len, self.wanted::<C>(index.min(len - 1) as u32, seed)))
    }

    /// Returns the number of whole keys.
    #[device]
    pub(super) fn len<C: Config>(self) -> usize {
        self.words.len() / C::KEY_WORDS as usize
    }

    /// Returns word `word` of key `index`.
    pub(super) fn word<C: Config>(self, index: u32, word: u32) -> u64 {
        self.words.read(index as usize * C::KEY_WORDS as usize + word as usize)
    }

    /// Returns key `index` as searches take it.
    pub(super) fn wanted<C: Config>(self, index: u32, seed: u64) -> Wanted {
        let first = self.word::<C>(index, 0);
        let (mut hash, mut word) = (Hashed::mix(seed, first), 1);
        while word < C::KEY_WORDS {
            hash = Hashed::mix(hash, self.word::<C>(index, word));
            word += 1;
        }
        Wanted { hashed: Hashed::finish(hash), first, index }
    }
}

/// A key that is searched: its hash, its first word, and its number in the batch.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub(super) hashed: Hashed,
    pub(super) first: u64,
    pub(super) index: u32,
}

/// Returns whether the item of a slot has the key, and its value if it is a constant of the kind.
#[device]
pub(super) fn has_key<C: Config>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, position): (Wanted, u32),
    order: Order,
) -> (bool, u64) {
    // SAFETY: the position is that of a slot.
    unsafe { has_key_at::<C>(view.item(view.place(position)), keys, wanted, order) }
}

/// Returns whether an item has the key, and its value if it is a constant of the kind.
///
/// # Safety
/// - The address is that of an item of the table, or of a copy.
#[device]
pub(super) unsafe fn has_key_at<C: Config>(
    item: Global<u32>,
    keys: Keys,
    wanted: Wanted,
    order: Order,
) -> (bool, u64) {
    // SAFETY: an item begins with its key, aligned to 8 bytes, and small items are aligned to 16 bytes.
    unsafe {
        let item = item.cast::<u64>();
        if C::IS_SMALL {
            // mutation: weak block load Relaxed equivalent, because the lane has acquired the lock of the
            // slot, whose item does not change until it is unlocked.
            let [key, value] = item.load_vec::<2>(order, Scope::Device);
            return (key == wanted.first, value);
        }
        // mutation: weak block load Relaxed equivalent, because the lane has acquired the lock of the slot,
        // whose item does not change until it is unlocked.
        // mutation: relaxed load Acquire unreached, because another key of the same fingerprint must take the
        // slot that the key has left by an update, and be read here: the lookup then misses its key, if it
        // has missed the key's new slot and reads the version as it was before, twice.
        let mut is_same = item.load(order, Scope::Device) == wanted.first;
        let mut word = 1;
        while word < bound(C::KEY_WORDS) && is_same {
            let key = keys.word::<C>(wanted.index, word);
            // mutation: weak block load Relaxed equivalent, because the lane has acquired the lock of the
            // slot.
            // mutation: relaxed load Acquire unreached, because the slot's next item must have the same first
            // word, which is read before that item is written, and this word after: the lookup then misses
            // its key, if it has missed the key's new slot and reads the version as it was before, twice.
            is_same = item.offset(word as usize).load(order, Scope::Device) == key;
            word += 1;
        }
        (is_same, 0)
    }
}

/// Returns whether the item of a slot has the key, and its value if it is a constant of the kind. Reads the
/// copy if there is one: an item of another key in the copy decides nothing, since the line may be that of
/// another slot by now.
#[device]
pub(super) fn find_key<C: Config, M: Mode>(
    view: PersistentView<C>,
    keys: Keys,
    (wanted, position): (Wanted, u32),
) -> (bool, u64) {
    if !M::USES_CACHE || !view.has_cache() {
        return has_key(view, keys, (wanted, position), Order::Acquire);
    }
    // SAFETY: the position is that of a slot, and a copy is a whole item. One load for lanes with copies and
    // lanes without.
    unsafe {
        let copy = view.copy_of(position, Order::Acquire);
        let item = match copy {
            Some(copy) => copy,
            None => view.item(view.place(position)),
        };
        let found = has_key_at::<C>(item, keys, wanted, Order::Acquire);
        if found.0 {
            if M::IS_FINAL {
                view.cache().count(copy.is_some());
            }
        } else if copy.is_some() {
            return has_key(view, keys, (wanted, position), Order::Acquire);
        }
        found
    }
}
