//! Merge of two sorted arrays, by merge paths (Odeh, Green, Mwassi, Shmueli and Birk, 2012): the source of
//! output element `d` is found by a binary search over the ways to split `d` elements between both arrays, so
//! every thread can begin anywhere.
//!
//! # Cost
//!
//! A binary search per block in device memory and one per thread in shared memory, of log2 n reads each; one
//! read and one write of each element.
use core::marker::PhantomData;
use simt::{Block, GlobalSlice, Instance, Shared, SharedShape, Thread, Word, device, kernel, shared};

/// Number of threads per block.
pub const THREADS: u32 = 256;

/// Number of elements per thread.
pub const ITEMS: usize = 8;

const TILE: usize = THREADS as usize * ITEMS;

/// A word type by which arrays are sorted.
pub trait Merged: Copy + Send + Sync + 'static {
    /// Type of the keys.
    type Key: Word + Ord;
}

impl<K: Word + Ord> Merged for super::words::Ordered<K> {
    type Key = K;
}

/// A tile's keys: those of the first array, then those of the second.
struct Staged<K>(PhantomData<K>);

impl<K: Word> SharedShape for Staged<K> {
    type Word = K;
    const LEN: usize = TILE;
}

/// Returns how many of the first `count` elements of the merged array come from the first array, which has
/// `near` elements; the second has `far`. Equal elements of the first array come first. `takes(i, j)` returns
/// whether element `i` of the first array comes before element `j` of the second.
#[device(caller)]
fn split(count: usize, near: usize, far: usize, takes: impl Fn(usize, usize) -> bool) -> usize {
    let (mut low, mut high) = (count.saturating_sub(far), count.min(near));
    while low < high {
        let middle = (low + high) / 2;
        if takes(middle, count - 1 - middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// Merges the sorted arrays `first` and `second` into `to`. If `order` is not empty, writes to `order[i]` the
/// source of `to[i]`: an index in `first`, or `first`'s length plus an index in `second`. The grid has one
/// block for each [`THREADS`]` * `[`ITEMS`] elements of `to`.
#[kernel]
pub fn merge<M: Merged + Instance>(
    first: GlobalSlice<M::Key>,
    second: GlobalSlice<M::Key>,
    to: GlobalSlice<M::Key>,
    order: GlobalSlice<u32>,
) {
    let (ends, thread) = (shared!([u32; 2]), Thread::index_in_block() as usize);
    let begin = Thread::block_index() as usize * TILE;
    let end = to.len().min(begin + TILE);
    if thread < 2 {
        let count = if thread == 0 { begin } else { end };
        let from = split(count, first.len(), second.len(), |i, j| first.read(i) <= second.read(j));
        ends.store(thread, from as u32);
    }
    Block::sync();
    let (near, near_end) = (ends.load(0) as usize, ends.load(1) as usize);
    let piece = Piece { far: begin - near, near_len: near_end - near, len: end - begin };
    let keys = Shared::of::<Staged<M::Key>>();
    strided(piece.len, |place| {
        let key = match place < piece.near_len {
            true => first.read(near + place),
            false => second.read(piece.far + place - piece.near_len),
        };
        keys.store(place, key);
    });
    Block::sync();
    let sources = shared!([u32; TILE]);
    piece.merge(keys, |place, source| sources.store(place, source));
    Block::sync();
    strided(piece.len, |place| {
        let source = sources.load(place) as usize;
        to.write(begin + place, keys.load(source));
        if !order.is_empty() {
            let is_near = source < piece.near_len;
            let from =
                if is_near { near + source } else { first.len() + piece.far + source - piece.near_len };
            order.write(begin + place, from as u32);
        }
    });
}

/// Calls `body` with the thread's share of 0 to `len - 1`.
#[device(caller)]
fn strided(len: usize, mut body: impl FnMut(usize)) {
    let mut place = Thread::index_in_block() as usize;
    while place < len {
        body(place);
        place += THREADS as usize;
    }
}

/// A block's part of the merge: its start in the second array, its number of elements of the first, and its
/// total number of elements.
#[derive(Clone, Copy)]
struct Piece {
    far: usize,
    near_len: usize,
    len: usize,
}

impl Piece {
    /// Calls `tell` with the index of each of the thread's elements and its index among the staged keys.
    #[device(caller)]
    fn merge<K: Word + Ord>(self, keys: Shared<K>, mut tell: impl FnMut(usize, u32)) {
        let begin = (Thread::index_in_block() as usize * ITEMS).min(self.len);
        let far_len = self.len - self.near_len;
        let takes = |i: usize, j: usize| keys.load(i) <= keys.load(self.near_len + j);
        let mut near = split(begin, self.near_len, far_len, takes);
        let mut far = begin - near;
        for place in begin..self.len.min(begin + ITEMS) {
            let is_near = far == far_len || near < self.near_len && takes(near, far);
            tell(place, if is_near { near } else { self.near_len + far } as u32);
            near += is_near as usize;
            far += !is_near as usize;
        }
    }
}
