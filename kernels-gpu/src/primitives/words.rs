//! Kernels that fill, copy, reverse and gather words.
//!
//! # Cost
//!
//! Each kernel reads and writes each word once; a gather reads at random addresses.
use simt::{GlobalSlice, Instance, Name, Thread, Word, kernel};

/// Writes zeros. At most one thread per word.
#[kernel]
pub fn clear_words(words: GlobalSlice<u32>) {
    let mut place = Thread::index();
    while place < words.len() {
        words.write(place, 0);
        place += Thread::count();
    }
}

/// Writes `0, 1, 2, ...`. At most one thread per word.
#[kernel]
pub fn count_up(words: GlobalSlice<u32>) {
    let mut place = Thread::index();
    while place < words.len() {
        words.write(place, place as u32);
        place += Thread::count();
    }
}

/// A word type that the kernels of this module are compiled for.
pub trait Moved: Copy + Send + Sync + 'static {
    /// Type of the words.
    type Word: Word;
}

/// Words of type `T`.
#[derive(Clone, Copy, Debug)]
pub struct Words<T>(core::marker::PhantomData<fn() -> T>);

impl<T: Word> Moved for Words<T> {
    type Word = T;
}

impl<T: Word> Instance for Words<T> {
    const NAME: &'static str = const { &Name::of("").unsigned::<T>() }.as_str();
}

/// Words of type `T` that are compared.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<T>(core::marker::PhantomData<fn() -> T>);

impl<T: Word> Instance for Ordered<T> {
    const NAME: &'static str = const { &Name::of("").unsigned::<T>() }.as_str();
}

/// Copies the words of `from` in reverse order to `to`, which has as many. At most one thread per word.
#[kernel]
pub fn reverse_words<E: super::compact::Element + Instance>(
    from: GlobalSlice<E::Word>,
    to: GlobalSlice<E::Word>,
) {
    let mut place = Thread::index();
    while place < from.len() {
        to.write(from.len() - 1 - place, from.read(place));
        place += Thread::count();
    }
}

/// Copies as many words as `to` has. At most one thread per word.
#[kernel]
pub fn copy_words<M: Moved + Instance>(from: GlobalSlice<M::Word>, to: GlobalSlice<M::Word>) {
    let mut place = Thread::index();
    while place < to.len() {
        to.write(place, from.read(place));
        place += Thread::count();
    }
}

/// Sets element `i` of `to` to element `order[i]` of `from`, or of `more` for indices beyond `from`'s length;
/// leaves it unchanged if there is no such element. An element has `words` words. At most one thread per word
/// of `to`.
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
