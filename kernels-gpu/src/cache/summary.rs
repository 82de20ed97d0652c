//! The summary of the scores: a byte per slot that tells the class of the slot's score, in one line of 128
//! bytes per bucket. An eviction reads the line of the classes and the scores of the lowest class, instead of
//! all scores.
//!
//! The classes of a table are 256 ranges of scores, whose bounds are quantiles of the table's scores at some
//! time:
//!
//! ```text
//! class of a score   number of bounds that are at most the score
//! bounds             b1 <= b2 <= .. <= b255
//! class c            scores from b(c) to b(c+1) - 1
//! ```
//!
//! Classes are ordered as scores are, whatever the bounds are, so the key with the lowest score is in the
//! lowest class that occurs. Bounds that no longer fit the scores make classes large, and evictions slow: the
//! table's owner sets them anew from time to time, by the kernels of [`classify`](super::classify).
use crate::keyed::Scalar;
use simt::{Global, GlobalSlice, Order, Scope, device};

/// Number of classes.
pub const CLASSES: usize = 256;

/// The summary of a table's scores, or none.
///
/// ```
/// use phalanx_kernels::cache::Summary;
/// use simt::GlobalSlice;
///
/// fn is_used(classes: GlobalSlice<u8>, bounds: GlobalSlice<u64>) -> bool {
///     Summary::new(classes, bounds).exists()
/// }
/// ```
#[repr(C)]
#[derive(Debug)]
pub struct Summary<S> {
    /// The class of each slot's score.
    classes: GlobalSlice<u8>,
    /// Lowest score of each class but the first, ascending.
    pub(super) bounds: GlobalSlice<S>,
}

impl<S> Clone for Summary<S> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Summary<S> {}

#[device]
impl<S: Scalar> Summary<S> {
    /// Describes a summary with a class for each slot, aligned to 128 bytes, and 255 ascending bounds.
    /// Without bounds, the table has no summary.
    pub fn new(classes: GlobalSlice<u8>, bounds: GlobalSlice<S>) -> Self {
        Self { classes, bounds }
    }

    /// Returns whether the table has a summary.
    pub fn exists(self) -> bool {
        !self.bounds.is_empty()
    }

    /// Returns the class of a score.
    pub(super) fn class(self, score: S) -> u32 {
        let (mut class, mut step) = (0, CLASSES / 2);
        while step > 0 {
            if self.bounds.read(class + step - 1) <= score {
                class += step;
            }
            step /= 2;
        }
        class as u32
    }

    /// Returns the only score that a class can contain, if there is one.
    pub(super) fn only_score(self, class: u32) -> Option<S> {
        let class = class as usize;
        if class == 0 || class >= CLASSES - 1 {
            return None;
        }
        let (lowest, next) = (self.bounds.read(class - 1), self.bounds.read(class));
        (next.to_u64() - lowest.to_u64() == 1).then_some(lowest)
    }

    /// Returns whether a score is above a class.
    pub(super) fn is_above(self, class: u32, score: S) -> bool {
        (class as usize) < CLASSES - 1 && score >= self.bounds.read(class as usize)
    }

    /// Writes the classes of the four slots from the position `first` on.
    ///
    /// # Safety
    /// - There is a summary, and the position is that of a slot of the table, a multiple of four.
    pub(super) unsafe fn note_four(self, first: u32, scores: [S; 4]) {
        // Without a loop, which would place the array in local memory.
        let [a, b, c, d] = scores;
        let word = self.class(a) | self.class(b) << 8 | self.class(c) << 16 | self.class(d) << 24;
        // SAFETY: four classes lie in an aligned word, since the line of a bucket is aligned.
        let place = unsafe { self.classes.at(first as usize).cast::<u32>() };
        place.store(word, Order::Relaxed, Scope::Device);
    }

    /// Writes the class of a slot's new score, if there is a summary.
    #[device(caller)]
    pub(super) fn note(self, position: u32, score: S) {
        if self.exists() {
            // Evictions read it beside this; they compare the score after they have locked the slot.
            self.classes.at(position as usize).store(self.class(score) as u8, Order::Relaxed, Scope::Device);
        }
    }

    /// Reads the classes of the 16 slots from the position `first` on, four in a word, if `wanted`; otherwise
    /// they are arbitrary.
    ///
    /// # Safety
    /// - There is a summary, and the position is that of a slot of the table, a multiple of 16.
    #[device(caller)]
    pub(super) unsafe fn read(self, first: u32, wanted: bool) -> [u32; 4] {
        // SAFETY: the caller's obligation. The classes of a bucket are aligned to 128 bytes.
        unsafe {
            let place = Global::new(self.classes.as_ptr()).offset(first as usize);
            place.cast::<u32>().load_vec_if(wanted, Order::Relaxed, Scope::Device)
        }
    }
}
