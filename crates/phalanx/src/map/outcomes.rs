//! The outcomes of a batch, in the order of its elements.
use super::Outcome;
use std::ops::Deref;

/// The outcome of each element of a batch, in the order of the elements.
///
/// ```
/// use phalanx::{Outcome, Outcomes};
///
/// let outcomes = Outcomes::from(vec![Outcome::Inserted, Outcome::Refused, Outcome::Inserted]);
/// assert_eq!(outcomes.count(Outcome::Inserted), 2);
/// assert_eq!((outcomes.refused(), outcomes.asked()), (1, 3));
/// assert_eq!(outcomes[1], Outcome::Refused);
/// ```
///
/// # Cost
///
/// `count` and `refused` read all n elements on the host, O(n).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes(Vec<Outcome>);

impl Outcomes {
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

impl IntoIterator for Outcomes {
    type Item = Outcome;
    type IntoIter = std::vec::IntoIter<Outcome>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Outcomes {
    type Item = &'a Outcome;
    type IntoIter = std::slice::Iter<'a, Outcome>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
