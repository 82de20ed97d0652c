//! Filling, copying and gathering words.
use simt::{GlobalSlice, Instance, Thread, Word, kernel};

/// Writes zeros. A thread a word, or fewer.
#[kernel]
pub fn clear_words(words: GlobalSlice<u32>) {
    let mut place = Thread::index();
    while place < words.len() {
        words.write(place, 0);
        place += Thread::count();
    }
}

/// Writes `0, 1, 2, ...`. A thread a word, or fewer.
#[kernel]
pub fn count_up(words: GlobalSlice<u32>) {
    let mut place = Thread::index();
    while place < words.len() {
        words.write(place, place as u32);
        place += Thread::count();
    }
}

/// A word that kernels of this module are compiled for.
pub trait Moved: Copy + Send + Sync + 'static {
    /// The word.
    type Word: Word;
}

/// Words of a type.
#[derive(Clone, Copy, Debug)]
pub struct Words<T>(core::marker::PhantomData<fn() -> T>);

impl<T: Word> Moved for Words<T> {
    type Word = T;
}

/// Words of a type that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<T>(core::marker::PhantomData<fn() -> T>);

/// Copies as many words as `to` has. A thread a word, or fewer.
#[kernel]
pub fn copy_words<M: Moved + Instance>(from: GlobalSlice<M::Word>, to: GlobalSlice<M::Word>) {
    let mut place = Thread::index();
    while place < to.len() {
        to.write(place, from.read(place));
        place += Thread::count();
    }
}

/// Element `i` of `to` becomes element `order[i]` of `from`, or of `more` from its length on; where there is
/// no such element, it is left. An element has `words` words. A thread a word of `to`, or fewer.
#[kernel]
pub fn gather_words<M: Moved + Instance>(
    from: GlobalSlice<M::Word>,
    more: GlobalSlice<M::Word>,
    order: GlobalSlice<u32>,
    words: u32,
    to: GlobalSlice<M::Word>,
) {
    let (mut place, words) = (Thread::index(), words as usize);
    while place < to.len() {
        let source = order.read(place / words) as usize * words + place % words;
        if source < from.len() {
            to.write(place, from.read(source));
        } else if source - from.len() < more.len() {
            to.write(place, more.read(source - from.len()));
        }
        place += Thread::count();
    }
}
