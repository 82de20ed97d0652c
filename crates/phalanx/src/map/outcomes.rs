//! The outcomes of a batch, in the order of its elements.
use super::Outcome;
use crate::{Error, Result};
use std::ops::Deref;

/// Returns the outcome with a code. Kernels write no other codes.
pub(crate) fn outcome_of(code: u8) -> Outcome {
    Outcome::from_code(code).unwrap_or(Outcome::Refused)
}

/// The outcome of each element of a batch, in the order of the elements.
///
/// The batches that insert return it. It derefs to a slice, and is comparable to arrays, slices and vectors
/// of [`Outcome`].
///
/// ```
/// use phalanx::{HashMap, Outcome};
///
/// let map = HashMap::<u32, u32>::with_capacity(100)?;
/// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
/// let outcomes = map.insert(&[2, 3], &[21, 30])?;
/// assert_eq!(outcomes, [Outcome::Replaced, Outcome::Inserted]);
/// assert_eq!((outcomes.count(Outcome::Inserted), outcomes.refused(), outcomes.asked()), (1, 0, 2));
/// assert_eq!(outcomes.iter().position(|&outcome| outcome == Outcome::Inserted), Some(1));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `all_placed`, `count` and `refused` read the n elements on the host, O(n).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "some elements may be refused: check `all_placed`"]
pub struct Outcomes(Vec<Outcome>);

impl Outcomes {
    /// Returns whether no element was refused: every element of the batch is done.
    pub fn all_placed(&self) -> bool {
        self.refused() == 0
    }

    /// Returns an error with the outcomes if an element was refused.
    pub(crate) fn or_no_room(self) -> Result<()> {
        if self.all_placed() { Ok(()) } else { Err(Error::NoRoom { outcomes: self, cause: None }) }
    }

    /// Returns the number of elements with this outcome.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.iter().filter(|&&found| found == outcome).count()
    }

    /// Returns the number of elements that did not fit, or that the call did not attempt.
    pub fn refused(&self) -> usize {
        self.count(Outcome::Refused)
    }

    /// Returns the number of elements in the batch.
    pub fn asked(&self) -> usize {
        self.len()
    }
}

impl Deref for Outcomes {
    type Target = [Outcome];

    fn deref(&self) -> &[Outcome] {
        &self.0
    }
}

impl From<Vec<Outcome>> for Outcomes {
    fn from(outcomes: Vec<Outcome>) -> Self {
        Self(outcomes)
    }
}

impl From<Outcomes> for Vec<Outcome> {
    fn from(outcomes: Outcomes) -> Self {
        outcomes.0
    }
}

impl FromIterator<Outcome> for Outcomes {
    fn from_iter<I: IntoIterator<Item = Outcome>>(outcomes: I) -> Self {
        Self(outcomes.into_iter().collect())
    }
}

impl PartialEq<[Outcome]> for Outcomes {
    fn eq(&self, other: &[Outcome]) -> bool {
        self.0 == other
    }
}

impl PartialEq<&[Outcome]> for Outcomes {
    fn eq(&self, other: &&[Outcome]) -> bool {
        self.0 == *other
    }
}

impl<const N: usize> PartialEq<[Outcome; N]> for Outcomes {
    fn eq(&self, other: &[Outcome; N]) -> bool {
        self.0 == other
    }
}

impl PartialEq<Vec<Outcome>> for Outcomes {
    fn eq(&self, other: &Vec<Outcome>) -> bool {
        self.0 == *other
    }
}

impl IntoIterator for Outcomes {
    type Item = Outcome;
    type IntoIter = std::vec::IntoIter<Outcome>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The value that each key of a batch had before, in the order of the elements, and the outcomes.
///
/// [`Map::take`](super::Map::take) and [`Map::replace`](super::Map::replace) return it. It derefs to a slice
/// of the values: `None` for a key that was absent, or whose element was refused. It is comparable to arrays
/// and vectors of them.
///
/// ```
/// use phalanx::{HashMap, Outcome};
///
/// let map = HashMap::<u32, u32>::from_pairs(&[1, 2], &[10, 20])?;
/// let old = map.replace(&[2, 3], &[21, 30])?;
/// assert_eq!(old, [Some(20), None]);
/// assert_eq!(*old.outcomes(), [Outcome::Replaced, Outcome::Inserted]);
/// assert!(old.all_placed()); // no element was refused
/// let (values, outcomes) = map.take(&[3, 4])?.into_parts();
/// assert_eq!((values, outcomes.count(Outcome::Removed)), (vec![Some(30), None], 1));
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// `all_placed` reads the n elements on the host, O(n); the others O(1).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "the values are no longer in the map, and some elements may be refused: check `all_placed`"]
pub struct OldValues<V> {
    values: Vec<Option<V>>,
    outcomes: Outcomes,
}

impl<V> OldValues<V> {
    pub(crate) fn new(outcomes: Outcomes, values: Vec<Option<V>>) -> Self {
        Self { values, outcomes }
    }

    /// Returns the outcome of each element.
    pub fn outcomes(&self) -> &Outcomes {
        &self.outcomes
    }

    /// Returns whether no element was refused: every element of the batch is done.
    pub fn all_placed(&self) -> bool {
        self.outcomes.all_placed()
    }

    /// Returns the values and the outcomes.
    pub fn into_parts(self) -> (Vec<Option<V>>, Outcomes) {
        (self.values, self.outcomes)
    }
}

impl<V> Deref for OldValues<V> {
    type Target = [Option<V>];

    fn deref(&self) -> &[Option<V>] {
        &self.values
    }
}

impl<V: PartialEq, const N: usize> PartialEq<[Option<V>; N]> for OldValues<V> {
    fn eq(&self, other: &[Option<V>; N]) -> bool {
        self.values == other
    }
}

impl<V: PartialEq> PartialEq<Vec<Option<V>>> for OldValues<V> {
    fn eq(&self, other: &Vec<Option<V>>) -> bool {
        self.values == *other
    }
}

impl<V> IntoIterator for OldValues<V> {
    type Item = Option<V>;
    type IntoIter = std::vec::IntoIter<Option<V>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter()
    }
}

impl<'a> IntoIterator for &'a Outcomes {
    type Item = &'a Outcome;
    type IntoIter = std::slice::Iter<'a, Outcome>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
