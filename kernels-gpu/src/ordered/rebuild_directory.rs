//! Rebuilds of the directory, by one block.
use super::directory::{ARITY, Directory};
use super::fixed_nodes::ROOT;
use super::meta::{Meta, entry, handle_of};
use super::node::Node;
use super::nodes::Nodes;
use super::types::{Stored, Types, WordOf};
use crate::keyed::{Scalar, Slot};
use crate::primitives::lookback::scan_lanes;
use crate::primitives::operator::Sum;
use crate::primitives::unrolled;
use simt::{Block, Order, Scope, Thread, Tile, device, shared};

/// Returns the sum of `value` over the threads of the block before the calling one, and over all of them. All
/// threads of the block call it together.
#[device(caller)]
fn scan_block(value: u32) -> (u32, u32) {
    let totals = shared!([u32; 32]);
    let (warp, mine) = (Tile::<32>::lockstep(), Thread::index_in_block() / 32);
    let upto = scan_lanes::<Sum<u32>>(warp, value, 32);
    Block::sync();
    if warp.rank() == 31 {
        totals.store(mine as usize, upto);
    }
    Block::sync();
    let (mut before, mut all, mut other) = (upto - value, 0, 0);
    while other < Thread::block_size() / 32 {
        let total = totals.load(other as usize);
        before += if other < mine { total } else { 0 };
        all += total;
        other += 1;
    }
    (before, all)
}

/// Broadcasts thread 0's value to the block.
#[device(caller)]
fn from_first(value: u32) -> u32 {
    let told = shared!([u32; 1]);
    // Threads of the block may still read what a previous call has stored.
    Block::sync();
    if Thread::index_in_block() == 0 {
        told.store(0, value);
    }
    Block::sync();
    told.load(0)
}

/// Returns the number of steps of a search among `entries` entries.
#[device]
fn steps_for(entries: u32) -> u32 {
    let (mut steps, mut reach) = (1, ARITY);
    while reach < entries {
        (steps, reach) = (steps + 1, reach * ARITY);
    }
    steps
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Rebuilds the directory from the lowest level of inner nodes that fits, unless another block is
    /// rebuilding it. One block of [`THREADS`] threads calls it. It may run concurrently with everything that
    /// frees no nodes, other rebuilds included.
    pub(crate) fn rebuild_directory(self) {
        let directory = self.directory;
        let (order, scope) = (Order::Relaxed, Scope::Device);
        let is_first = Thread::index_in_block() == 0;
        let mut level = 0;
        if is_first && directory.try_lock() {
            let root = self.node(ROOT).header().load(order, scope);
            level = Meta::read(T::Slot::value(root)).level();
            directory.entry(0).store(entry::<T::Slot>(Stored::<T>::from_u64(0), ROOT), order, scope);
        }
        // The root is an inner node: its level is at least 1. So 0 means that another block holds the lock.
        let level = from_first(level);
        if level == 0 {
            return;
        }
        let count = self.list_lowest(level);
        directory.index(count);
        Block::sync();
        if is_first {
            directory.unlock();
        }
    }

    /// Lists the nodes of the lowest level that fits, from the front. Returns their number.
    fn list_lowest(self, mut level: u32) -> u32 {
        let directory = self.directory;
        let most = directory.most;
        // Position of the current list: the entries, or the spare half behind them.
        let (mut count, mut at) = (1, 0);
        while level > 1
            && let Some(more) = self.expand(level, (at, count), most - at)
        {
            (level, count, at) = (level - 1, more, most - at);
            Block::sync();
        }
        if at > 0 {
            directory.copy(at, count);
            Block::sync();
        }
        count
    }

    /// Lists the children of the `count` nodes of a level. The nodes are the entries from `at` on, the
    /// children are stored from entry `into` on. Returns the number of children, or `None` if they do not
    /// fit.
    fn expand(self, level: u32, (at, count): (u32, u32), into: u32) -> Option<u32> {
        let directory = self.directory;
        let (order, scope) = (Order::Relaxed, Scope::Device);
        let (mut first, mut listed) = (0, 0);
        while first < count {
            let index = first + Thread::index_in_block();
            let exists = index < count;
            let own = directory.entry(at + if exists { index } else { 0 }).load(order, scope);
            let words = self.children(own, level, exists);
            let mut children = 0;
            unrolled::<32>(|place| children += !T::Slot::is_empty(words[place]) as u32);
            let (before, all) = scan_block(children);
            if listed + all > directory.most {
                return None;
            }
            let mut next = into + listed + before;
            unrolled::<32>(|place| {
                if !T::Slot::is_empty(words[place]) {
                    directory.entry(next).store(words[place], order, scope);
                    next += 1;
                }
            });
            listed += all;
            first += Thread::block_size();
        }
        Some(listed)
    }

    /// Returns the entries of the node of entry `own`, if `wanted`; otherwise blank words. All words of the
    /// node are loaded at once.
    ///
    /// For a node below `level` it returns `own` itself: writers may have raised the root since its level was
    /// read, and pairs of a leaf are no entries.
    fn children(self, own: WordOf<T>, level: u32, wanted: bool) -> [WordOf<T>; 32] {
        let (order, scope, mut words) = (Order::Relaxed, Scope::Device, [T::Slot::EMPTY; 32]);
        if !wanted {
            return words;
        }
        let node = self.node(handle_of(T::Slot::value(own)));
        let meta = Meta::read(T::Slot::value(node.header().load(order, scope)));
        let has_entries = meta.is_node() && meta.level() >= level;
        unrolled::<32>(|place| {
            if (place as u32) < Node::<T::Slot, W, L>::SLOTS {
                // mutation: early performance, because older entries are valid, and lead further left.
                let word = node.word(place as u32).load(order, scope);
                let kept = if place == 0 { own } else { T::Slot::EMPTY };
                words[place] = if has_entries { word } else { kept };
            }
        });
        words
    }
}

#[device(caller)]
impl<S: Slot> Directory<S> {
    /// Calls `body` with the numbers below `count`, each in one thread of the block.
    fn each(self, count: u32, mut body: impl FnMut(u32)) {
        let mut index = Thread::index_in_block();
        while index < count {
            body(index);
            index += Thread::block_size();
        }
    }

    /// Copies `count` entries from entry `from` on, in the spare half, to the front. Each thread loads eight
    /// at once.
    fn copy(self, from: u32, count: u32) {
        let (order, scope, apart) = (Order::Relaxed, Scope::Device, Thread::block_size());
        let mut first = Thread::index_in_block();
        while first < count {
            let mut words = [S::EMPTY; 8];
            let place = |i: usize| first + i as u32 * apart;
            unrolled::<8>(|i| {
                if place(i) < count {
                    // mutation: block weak equivalent, because this block has written the entry before a
                    // barrier.
                    words[i] = self.entry(from + place(i)).load(order, scope);
                }
            });
            unrolled::<8>(|i| {
                if place(i) < count {
                    self.entry(place(i)).store(words[i], order, scope);
                }
            });
            first += 8 * apart;
        }
    }

    /// Builds the keys above `count` entries, and pads each level to a multiple of eight.
    fn index(self, count: u32) {
        let (order, scope) = (Order::Relaxed, Scope::Device);
        let steps = steps_for(count);
        self.each(count.next_multiple_of(ARITY) - count, |behind| {
            self.entry(count + behind).store(S::EMPTY, order, scope);
        });
        let mut above = 1;
        while above < steps {
            let keys = count.div_ceil(1 << (3 * above));
            self.each(keys.next_multiple_of(ARITY), |index| {
                let exists = index < keys;
                let place = self.entry(if exists { index << (3 * above) } else { 0 });
                // mutation: block weak equivalent, because this block has written the entry before a barrier.
                let key = S::key(if exists { place.load(order, scope) } else { S::EMPTY });
                // mutation: late skip performance, because a search compares the key of the entry to which
                // such a key leads, and begins at the root instead.
                self.key(above, index).store(key, order, scope);
            });
            above += 1;
        }
        Block::sync();
        if Thread::index_in_block() == 0 {
            self.steps().store(if count > 1 { steps } else { 0 }, order, scope);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::access::Concurrent;
    use super::super::directory::{directory_entries, directory_words};
    use super::*;
    use crate::keyed::{Packed, Wide};
    use crate::slab::Handle;
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, Instance, kernel};

    impl Instance for Packed {
        const NAME: &'static str = "packed";
    }

    impl Instance for Wide<u64, u64> {
        const NAME: &'static str = "wide";
    }

    /// Builds a directory of entries, and looks up all keys below `found.len()`.
    #[kernel]
    fn look_up<S: Slot + Instance>(
        base: GlobalSlice<u64>,
        most: u32,
        entries: GlobalSlice<S::Word>,
        found: GlobalSlice<u32>,
    ) {
        let count = entries.len() as u32;
        // SAFETY: the test's memory, which was allocated for this number of entries.
        let directory = unsafe { Directory::<S>::at(base.at(0), most) };
        directory.each(count, |index| {
            let word = entries.read(index as usize);
            directory.entry(index).store(word, Order::Relaxed, Scope::Device);
        });
        Block::sync();
        directory.index(count);
        Block::sync();
        directory.each(found.len() as u32, |key| {
            let node = directory.find::<Concurrent>(S::Stored::from_u64(key as u64));
            found.write(key as usize, node.to_word());
        });
    }

    /// Returns the result for each key below `keys`, where nodes 1, 2, ... cover the keys from 0, 10, 20, ...
    /// on.
    fn found<S: Slot + Instance>(count: u32, keys: usize) -> Vec<u32> {
        let device = Emulator::new(Options::default());
        let most = directory_entries(4 * count as usize);
        let zeroed = |bytes: usize| {
            let pointer = device.allocate(bytes, 256);
            // SAFETY: just allocated with this size.
            unsafe {
                pointer.write_bytes(0, bytes);
                device.mark_initialized(pointer, bytes);
            }
            pointer
        };
        let words = directory_words::<S>(most);
        // SAFETY: memory of these sizes.
        let (base, found) = unsafe {
            let base = GlobalSlice::from_raw_parts(zeroed(8 * words).cast(), words);
            (base, GlobalSlice::<u32>::from_raw_parts(zeroed(4 * keys).cast(), keys))
        };
        let node =
            |index: u32| entry::<S>(S::Stored::from_u64(10 * u64::from(index)), Handle::from_word(index + 1));
        let words: Vec<S::Word> = (0..count).map(node).collect();
        let bytes = size_of_val(&words[..]);
        let place = zeroed(bytes).cast::<S::Word>();
        // SAFETY: just allocated with this size.
        let entries = unsafe {
            place.copy_from_nonoverlapping(words.as_ptr(), words.len());
            GlobalSlice::from_raw_parts(place, words.len())
        };
        device.launch(Grid::new(1, 64), LookUp::<S> { base, most, entries, found }).unwrap();
        // SAFETY: nothing runs, and the kernel has written all of it.
        (0..keys).map(|key| unsafe { found.at(key).as_ptr().read() }).collect()
    }

    #[test]
    fn the_last_entry_that_is_not_above_the_key_is_found() {
        for count in [1, 2, 7, 8, 9, 64, 65, 512, 513, 4095, 4097] {
            let keys = 10 * count as usize + 25;
            let last = |key: usize| (key as u32 / 10 + 1).min(count);
            let expected: Vec<u32> = (0..keys).map(|key| if count == 1 { 0 } else { last(key) }).collect();
            assert_eq!(found::<Packed>(count, keys), expected, "{count} entries of 8 bytes");
            assert_eq!(found::<Wide<u64, u64>>(count, keys), expected, "{count} entries of 16 bytes");
        }
    }
}
