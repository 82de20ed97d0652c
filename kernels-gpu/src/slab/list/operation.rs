//! The operation that lists have beside those of all keyed structures.
use crate::keyed::{Change, Operation, Outcome};
use simt::Shuffle;

/// Places a pair behind all others, whether or not its key is there: the paper's INSERT.
#[derive(Clone, Copy, Debug)]
pub struct Append;

impl Shuffle for Append {
    #[inline(always)]
    fn map_words(self, _word: impl FnMut(u32) -> u32) -> Self {
        self
    }
}

impl Operation for Append {
    const WRITES: bool = true;
    const PLACES_ALWAYS: bool = true;
    const RETURNS: bool = false;
    const MATCHES: bool = false;

    #[inline(always)]
    fn places(self) -> bool {
        true
    }

    #[inline(always)]
    fn change(self) -> Change {
        Change::Keep
    }

    #[inline(always)]
    fn outcome(self) -> Outcome {
        Outcome::Inserted
    }
}
