//! The directory: the nodes of one level by their low keys, sorted, so that a traversal need not begin at the
//! root.
//!
//! Otherwise every traversal would read the root, which is one line in one slice of the L2 cache, and a slice
//! delivers no more than about a billion lines a second. Moreover, the upper levels are half of a traversal.
//! With the directory, each thread searches for its own key, all 32 threads of a warp at once, and its tile
//! goes on from the node that the search finds.
//!
//! ```text
//! keys 3     |8|                  the key of every 8^3-th entry
//! keys 2     |  64  |             of every 8^2-th
//! keys 1     |     512     |      of every 8th     a search reads 8 neighbours a step, 32 bytes of u32 keys
//! entries    |           4096          |     (low key, handle): a word each
//! ```
//!
//! The directory is a hint and may be out of date: each entry was one of an inner node's, and such entries
//! stay valid forever (see the page). So it is written and read at any time, by relaxed accesses. A search
//! may read a mixture of two directories: it accepts a word only if that word's own key is not above the
//! search key. Only an entry whose node was freed is forbidden, and not only among the current entries. A
//! search that sees the number of steps of a rebuild need not see its entries yet, because both are stored
//! relaxed: it may read any word that was there since the directory was last cleared. So code that frees
//! nodes has exclusive access and clears all words, not only the number of steps. A word that is still clear
//! leads to the root.
//!
//! One block at a time rebuilds it: a rebuild uses the entries as scratch space, level by level, so a second
//! rebuild at the same time would read entries of another level as its own. The rebuilding block holds a
//! lock; a block that does not get the lock leaves the rebuild to the block that has it.
use super::access::Access;
use super::fixed_nodes::ROOT;
use super::meta::handle_of;
use crate::keyed::{Chunk, Scalar, Slot};
use crate::slab::Handle;
use core::marker::PhantomData;
use simt::{Global, Order, Scope, Thread, device};

/// Number of keys that a step of a search reads.
pub(super) const ARITY: u32 = 8;
/// Largest useful number of steps of a search: 32768 entries.
const MOST_STEPS: u32 = 5;
/// Number of words before the entries. The first is the number of steps; 0 if there is no directory. The
/// second is the lock of the rebuilding block. Counters of structures that count begin at [`COUNTERS`].
pub const HEAD: usize = 32;

/// Index in [`HEAD`] of the lock of the rebuilding block: 1 while a block holds it.
const LOCK: usize = 1;

/// Index of the first counter among the words before the entries.
pub const COUNTERS: usize = 16;

/// Threads of the block that rebuilds a directory.
pub const THREADS: u32 = 512;

/// A directory in memory.
#[repr(C)]
#[derive(Debug)]
pub struct Directory<S> {
    base: Global<u64>,
    /// Capacity in entries: a power of [`ARITY`].
    pub(super) most: u32,
    of: PhantomData<S>,
}

impl<S> Clone for Directory<S> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Directory<S> {}

/// Returns the number of entries of a useful directory for a pool of `nodes` nodes: the smallest power of 8
/// that is at least a quarter of the nodes, and at most 32768.
pub const fn directory_entries(nodes: usize) -> u32 {
    let mut steps = 1;
    while steps < MOST_STEPS && (ARITY.pow(steps) as usize) < nodes / 4 {
        steps += 1;
    }
    ARITY.pow(steps)
}

/// Returns the number of 8-byte words of a directory with `entries` entries of slots `S`. The entries are
/// stored twice: a rebuild keeps the level above in the spare half.
pub const fn directory_words<S: Slot>(entries: u32) -> usize {
    let keys = (entries - 1) / (ARITY - 1);
    HEAD + (2 * entries as usize * size_of::<S::Word>() + keys as usize * size_of::<S::Stored>()).div_ceil(8)
}

#[device]
impl<S: Slot> Directory<S> {
    /// Returns the directory at `base`, with capacity for `most` entries.
    ///
    /// # Safety
    /// - `most` is a result of [`directory_entries`], and `base` points to [`directory_words`] words for that
    ///   number: device memory, aligned to 256 bytes, that lives as long as the directory is used. Before any
    ///   kernel accessed them, the first [`HEAD`] were 0, and each byte of the others was 0 or each was 0xFF:
    ///   see [`super::kernels::free_nodes`].
    pub unsafe fn at(base: Global<u64>, most: u32) -> Self {
        Self { base, most, of: PhantomData }
    }

    /// Returns a counter. The index wraps at the number of counters that fit in [`HEAD`].
    pub(crate) fn counter(self, index: usize) -> Global<u64> {
        // SAFETY: one of the words before the entries.
        unsafe { self.base.offset(COUNTERS + index % (HEAD - COUNTERS)) }
    }

    /// Returns the location of the number of steps of a search.
    pub(super) fn steps(self) -> Global<u32> {
        // SAFETY: half of the first word.
        unsafe { self.base.cast() }
    }

    /// Returns the lock of the rebuilding block.
    fn lock(self) -> Global<u32> {
        // SAFETY: half of a word before the entries.
        unsafe { self.base.offset(LOCK).cast() }
    }

    /// Tries to take the lock for the calling block, by one of its threads. Acquires: the previous rebuild is
    /// complete.
    #[device(caller)]
    pub(super) fn try_lock(self) -> bool {
        self.lock().compare_exchange(0, 1, Order::Acquire, Scope::Device).is_ok()
    }

    /// Releases the lock, by the thread that took it, after a barrier of its block. Releases the block's
    /// writes.
    #[device(caller)]
    pub(super) fn unlock(self) {
        self.lock().store(0, Order::Release, Scope::Device);
    }

    /// Returns entry `index`. Entries from `most` on lie in the spare half.
    pub(super) fn entry(self, index: u32) -> Global<S::Word> {
        // SAFETY: within the words that `at` was promised.
        unsafe { self.base.offset(HEAD).cast::<S::Word>().offset(index as usize) }
    }

    /// Returns the `index`-th of the keys of every `8^above`-th entry.
    pub(super) fn key(self, above: u32, index: u32) -> Global<S::Stored> {
        let before = (self.most - (self.most >> (3 * (above - 1)))) / (ARITY - 1);
        // SAFETY: within the words that `at` was promised: all levels of keys together are a seventh of the
        // number of entries.
        unsafe { self.entry(2 * self.most).cast::<S::Stored>().offset((before + index) as usize) }
    }

    /// Empties the directory: from now on traversals begin at the root.
    #[device(caller)]
    pub(crate) fn invalidate(self) {
        self.steps().store(0, Order::Relaxed, Scope::Device);
    }

    /// Empties the directory and clears all its entries and keys, but no counters, by all threads of a grid.
    /// Requires exclusive access.
    ///
    /// An entry of 0 leads to the root, from which every key is found. A key of 0 is not above the search
    /// key, so a search goes on to entries that its rebuild may not have written; they lead to the root, too.
    #[device(caller)]
    pub(crate) fn clear(self) {
        if Thread::index() == 0 {
            self.invalidate();
        }
        let (mut index, end) = (HEAD + Thread::index(), directory_words::<S>(self.most));
        while index < end {
            // SAFETY: one of the words that `at` was promised.
            unsafe { self.base.offset(index) }.store(0, Order::Relaxed, Scope::Device);
            index += Thread::count();
        }
    }

    /// Returns the node where a traversal for `key` may begin: the one that covers it, or one to the left of
    /// that.
    #[device(caller)]
    pub fn find<A: Access>(self, key: S::Stored) -> Handle {
        let steps = self.steps().load(A::READ, Scope::Device);
        if steps == 0 {
            return ROOT;
        }
        let (mut first, mut above) = (0, steps - 1);
        while above > 0 {
            first = ARITY * (first + self.step::<A>(above, first, key));
            above -= 1;
        }
        self.last::<A>(first, key)
    }

    /// Returns the index of the last of eight keys that is not above `key`.
    #[device(caller)]
    fn step<A: Access>(self, above: u32, first: u32, key: S::Stored) -> u32 {
        let (mut upto, mut index) = (0, 0);
        let keys = self.key(above, first);
        let each = 16 / size_of::<S::Stored>();
        while index < ARITY as usize {
            // SAFETY: eight keys; the index of the first is a multiple of eight.
            let chunk = unsafe { <S::Stored as Scalar>::Chunk::load_if(keys.offset(index), true, A::READ) };
            let mut i = 0;
            while i < each {
                upto += (chunk.word(i) <= key) as u32;
                i += 1;
            }
            index += each;
        }
        upto.saturating_sub(1)
    }

    /// Returns the node of the last of eight entries whose key is not above `key`.
    #[device(caller)]
    fn last<A: Access>(self, first: u32, key: S::Stored) -> Handle {
        let (mut found, mut index) = (ROOT, 0);
        while index < ARITY as usize {
            // SAFETY: eight entries; the index of the first is a multiple of eight.
            let chunk = unsafe { S::Chunk::load_if(self.entry(first + index as u32), true, A::READ) };
            let mut i = 0;
            while i < S::PER_CHUNK {
                let word = chunk.word(i);
                found = if S::key(word) <= key { handle_of(S::value(word)) } else { found };
                i += 1;
            }
            index += S::PER_CHUNK;
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_a_level_of_most_trees() {
        assert_eq!([3, 32, 40, 1 << 20, 1 << 30].map(directory_entries), [8, 8, 64, 32768, 32768]);
    }
}
