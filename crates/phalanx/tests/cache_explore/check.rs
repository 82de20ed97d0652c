//! Comparison of a batch's results with the table before and after it.
use crate::plan::{Action, Kind, Plan, row};
use crate::world::{Answer, Finding, Lost, Slot, Table};
use phalanx_kernels::cache::{Config, Digest, Hashed, Rule, SLOTS, ScorePolicy, Time};
use phalanx_kernels::keyed::{Outcome, Scalar};
use std::collections::{BTreeMap, BTreeSet};

/// Score and row that a key has or had.
type Version = (u64, Vec<u32>);

/// A batch that has run.
pub struct Batch<'a> {
    pub plan: &'a Plan,
    pub kind: Kind,
    pub before: &'a Table,
    pub answers: &'a [Answer],
    pub after: &'a Table,
}

fn wrong<T>(text: String) -> Result<T, Finding> {
    Err(Finding::Wrong(text))
}

fn version(slot: &Slot) -> Version {
    (slot.score, slot.row.clone())
}

impl Batch<'_> {
    /// Checks the batch, which put `kept` out as evicted. Returns the number of evicted keys.
    pub fn check<C: Config>(&self, kept: &[Lost]) -> Result<usize, Finding> {
        self.check_digests()?;
        match self.kind {
            Kind::Change => self.check_changes::<C>().map(|()| 0),
            Kind::Remove => self.check_removals().map(|()| 0),
            _ => self.check_placements::<C>(kept),
        }
    }

    /// Checks that no slot has become EMPTY again.
    fn check_digests(&self) -> Result<(), Finding> {
        let slots = self.before.digests.iter().zip(&self.after.digests).enumerate();
        let again = |&(_, (&before, &after)): &(usize, (&Digest, &Digest))| {
            before != Digest::EMPTY && after == Digest::EMPTY
        };
        slots
            .into_iter()
            .find(again)
            .map_or(Ok(()), |(slot, _)| Err(Finding::Layout(format!("slot {slot} is EMPTY again"))))
    }

    fn policy<C: Config>(&self, answer: &Answer) -> C::Policy {
        C::Policy::new(Time { now: answer.now, epoch: 0 }, self.plan.rule as u32)
    }

    fn placed<C: Config>(&self, answer: &Answer) -> u64 {
        self.policy::<C>(answer).placed(C::Score::from_u64(answer.element.given)).to_u64()
    }

    fn used<C: Config>(&self, answer: &Answer, old: u64) -> u64 {
        let given = C::Score::from_u64(answer.element.given);
        self.policy::<C>(answer).used(C::Score::from_u64(old), given).to_u64()
    }

    fn row(&self, answer: &Answer) -> Vec<u32> {
        row(answer.element.key, answer.element.tag, self.plan.words)
    }

    /// Returns the keys that compete for the same slots as a number: the bucket, or 0 if all do.
    fn part(&self, key: u64) -> u32 {
        let hashed = Hashed::of(key, self.plan.seed);
        if self.plan.choices == 1 { hashed.bucket(0, self.plan.buckets) } else { 0 }
    }

    /// Returns whether no slot is free in a part.
    fn is_full(&self, part: u32) -> bool {
        let is_in = |slot: usize| self.plan.choices > 1 || slot as u32 / SLOTS == part;
        !self.after.digests.iter().enumerate().any(|(slot, digest)| is_in(slot) && digest.is_free())
    }

    /// Returns what an element of a placement made of its key: its old version, if that was overwritten,
    /// and its new one.
    fn made<C: Config>(&self, answer: &Answer) -> Result<(Option<Version>, Option<Version>), Finding> {
        let old = self.before.slots.get(&answer.element.key).map(version);
        let new = self.row(answer);
        match (answer.outcome, old) {
            (Outcome::Refused, _) => Ok((None, None)),
            (Outcome::Inserted, _) => Ok((None, Some((self.placed::<C>(answer), new)))),
            (Outcome::Replaced | Outcome::Found, Some((score, row))) => {
                let row_now = match self.kind {
                    Kind::GetOrInsert => row.clone(),
                    Kind::Accumulate => row.iter().zip(&new).map(|(a, b)| a.wrapping_add(*b)).collect(),
                    _ => new,
                };
                let now = (self.used::<C>(answer, score), row_now);
                Ok((Some((score, row)), Some(now)))
            }
            (outcome, _) => wrong(format!("{outcome:?} for key {}", answer.element.key)),
        }
    }

    /// Checks that each version of a key is in the table or was evicted, once. `kept` are the evicted ones
    /// if the batch puts them out.
    fn check_placements<C: Config>(&self, kept: &[Lost]) -> Result<usize, Finding> {
        let mut live: BTreeMap<u64, Vec<Version>> =
            self.before.slots.iter().map(|(&key, slot)| (key, vec![version(slot)])).collect();
        for answer in self.answers {
            let (gone, new) = self.made::<C>(answer)?;
            let versions = live.entry(answer.element.key).or_default();
            versions.retain(|version| Some(version) != gone.as_ref());
            versions.extend(new.clone());
            let returned = answer.row.as_ref();
            if returned.is_some_and(|row| new.is_none_or(|new| new.1 != *row)) {
                return wrong(format!("{answer:?} returns another row"));
            }
        }
        for (&key, slot) in &self.after.slots {
            let versions = live.entry(key).or_default();
            let Some(place) = versions.iter().position(|found| *found == version(slot)) else {
                return wrong(format!("key {key} has {slot:x?}, and not one of {versions:x?}"));
            };
            versions.remove(place);
        }
        let lost = live.into_iter().flat_map(|(key, all)| all.into_iter().map(move |(s, row)| (key, s, row)));
        let mut lost: Vec<Lost> = lost.collect();
        let mut kept = kept.to_vec();
        lost.sort();
        kept.sort();
        if self.kind == Kind::InsertEvict && lost != kept {
            return wrong(format!("evicted are {lost:x?}, and returned {kept:x?}"));
        }
        self.check_victims::<C>(&lost)?;
        Ok(lost.len())
    }

    /// Checks that the evicted keys had the lowest scores, as far as one can tell: those that stay in the
    /// table unchanged have none below.
    fn check_victims<C: Config>(&self, lost: &[Lost]) -> Result<(), Finding> {
        let changed: BTreeSet<u64> = self.answers.iter().map(|answer| answer.element.key).collect();
        let stay = |part| {
            let keys = self.before.slots.iter().filter(|(key, _)| {
                self.part(**key) == part && !changed.contains(key) && self.after.slots.contains_key(key)
            });
            keys.map(|(_, slot)| slot.score).min().unwrap_or(u64::MAX)
        };
        let inserted = self.answers.iter().filter(|answer| answer.outcome == Outcome::Inserted);
        for (key, score, _) in lost {
            let part = self.part(*key);
            let for_whom = inserted.clone().filter(|answer| self.part(answer.element.key) == part);
            let highest = for_whom.map(|answer| self.placed::<C>(answer)).max();
            if *score > stay(part) || highest.is_none_or(|highest| highest < *score) || !self.is_full(part) {
                return wrong(format!("key {key} with score {score} was evicted for no reason"));
            }
        }
        if lost.len() > inserted.count() {
            return wrong(format!("{} keys were evicted for fewer", lost.len()));
        }
        for answer in self.answers.iter().filter(|answer| answer.outcome == Outcome::Refused) {
            let part = self.part(answer.element.key);
            if self.placed::<C>(answer) >= stay(part) || !self.is_full(part) {
                return wrong(format!("{answer:?} was refused for no reason"));
            }
        }
        Ok(())
    }

    /// Checks that the keys stay where they are, and that those without an element are unchanged.
    fn check_changes<C: Config>(&self) -> Result<(), Finding> {
        if !self.before.slots.keys().eq(self.after.slots.keys()) {
            return wrong("the table has other keys after changes of present ones".to_owned());
        }
        for (key, old) in &self.before.slots {
            let new = &self.after.slots[key];
            let mine: Vec<_> = self.answers.iter().filter(|answer| answer.element.key == *key).collect();
            if new.position != old.position || mine.is_empty() && new != old {
                return wrong(format!("key {key} had {old:x?} and has {new:x?}"));
            }
            self.check_score::<C>(&mine, old, new)?;
            self.check_row(&mine, old, new)?;
            self.check_pair::<C>(&mine, new)?;
        }
        for answer in self.answers {
            let expected = match (self.before.slots.contains_key(&answer.element.key), answer.action) {
                (false, _) => Outcome::Absent,
                (true, Action::GetAndTouch) => Outcome::Found,
                (true, _) => Outcome::Replaced,
            };
            if answer.outcome != expected {
                return wrong(format!("{answer:?} instead of {expected:?}"));
            }
        }
        Ok(())
    }

    /// Checks that a score counts each use, or is that of the last one.
    fn check_score<C: Config>(&self, mine: &[&Answer], old: &Slot, new: &Slot) -> Result<(), Finding> {
        let counts = self.plan.rule == Rule::Lfu;
        let all = mine.iter().fold(old.score, |score, answer| self.used::<C>(answer, score));
        let is_last = mine.iter().any(|answer| self.used::<C>(answer, old.score) == new.score);
        if if counts { new.score == all } else { is_last || mine.is_empty() } {
            return Ok(());
        }
        wrong(format!("{mine:x?} change the score {} to {}", old.score, new.score))
    }

    /// Checks that a row is that of an assignment, and that rows which were returned are.
    fn check_row(&self, mine: &[&Answer], old: &Slot, new: &Slot) -> Result<(), Finding> {
        let assigned: Vec<_> = mine.iter().filter(|answer| answer.action == Action::Assign).collect();
        let rows: Vec<_> = assigned.iter().map(|answer| self.row(answer)).collect();
        let mut returned = mine.iter().filter_map(|answer| answer.row.as_ref());
        let is_new = rows.contains(&new.row) || rows.is_empty() && new.row == old.row;
        if is_new && returned.all(|row| rows.contains(row) || *row == old.row) {
            return Ok(());
        }
        wrong(format!("{mine:x?} change {old:x?} to {new:x?}"))
    }

    /// Checks that score and row are those that the last of the answers leaves: an assignment its own row,
    /// any other use the row that it returns. A score that counts uses does not tell which was the last one.
    fn check_pair<C: Config>(&self, mine: &[&Answer], new: &Slot) -> Result<(), Finding> {
        let leaves_row = |answer: &Answer| match answer.action {
            Action::Assign => self.row(answer) == new.row,
            _ => answer.row.as_ref() == Some(&new.row),
        };
        let may_be_last = |answer: &&Answer| self.used::<C>(answer, 0) == new.score && leaves_row(answer);
        if self.plan.rule == Rule::Lfu || mine.is_empty() || mine.iter().any(may_be_last) {
            return Ok(());
        }
        wrong(format!("{mine:x?} leave {new:x?}"))
    }

    /// Checks a lookup beside the batch: it returns a row that the key had before, during or after the batch,
    /// and finds nothing only if the key was absent at one of these moments. Returns 0 if the row is that
    /// from before the batch, 1 for another one, 2 for none.
    pub fn check_lookup<C: Config>(&self, answer: &Answer) -> Result<usize, Finding> {
        let key = answer.element.key;
        let before = self.before.slots.get(&key).map(|slot| &slot.row);
        let mine = || self.answers.iter().filter(|change| change.element.key == key);
        let Some(row) = &answer.row else {
            let stays = before.is_some() && mine().all(|change| change.outcome != Outcome::Removed);
            let moves = self.after.slots.get(&key).map(|slot| slot.position);
            return match self.before.slots.get(&key) {
                Some(slot) if stays && moves == Some(slot.position) && !self.was_replaced(key) => {
                    wrong(format!("a lookup misses key {key}, which stays in slot {}", slot.position))
                }
                _ => Ok(2),
            };
        };
        if Some(row) == before {
            return Ok(0);
        }
        for change in mine() {
            let made = match (self.kind, change.action) {
                (Kind::Change, Action::Assign) => Some(self.row(change)),
                (Kind::Change | Kind::Remove, _) => None,
                _ => self.made::<C>(change)?.1.map(|(_, row)| row),
            };
            if made.as_ref() == Some(row) {
                return Ok(1);
            }
        }
        wrong(format!("a lookup of key {key} returns {row:x?}, which it never had"))
    }

    /// Returns whether the key was evicted and placed again.
    fn was_replaced(&self, key: u64) -> bool {
        self.answers.iter().any(|change| change.element.key == key && change.outcome == Outcome::Inserted)
    }

    /// Checks that each present key is removed once.
    fn check_removals(&self) -> Result<(), Finding> {
        for answer in self.answers {
            let key = answer.element.key;
            let same = self.answers.iter().filter(|other| other.element.key == key);
            let removed = same.clone().filter(|other| other.outcome == Outcome::Removed).count();
            let absent = same.clone().filter(|other| other.outcome == Outcome::Absent).count();
            let expected = usize::from(self.before.slots.contains_key(&key));
            if (removed, absent) != (expected, same.count() - expected) {
                return wrong(format!("key {key} was removed {removed} times and absent {absent} times"));
            }
        }
        let mut expected = self.before.slots.clone();
        expected.retain(|key, _| !self.answers.iter().any(|answer| answer.element.key == *key));
        if expected != self.after.slots {
            return wrong("a removal changed other keys".to_owned());
        }
        Ok(())
    }
}
