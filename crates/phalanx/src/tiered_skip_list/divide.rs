//! Division of the keys among lists: lists are split before they are full, and merged when they are sparse.
//!
//! ```text
//! list      | 1 3 4 8 | 20 27 |              its nodes, listed by their lowest keys and sorted
//! pairs       1 3 4 8 20 27                  counted and read by many short ranges, into pinned memory
//! cuts            4      27                  quantiles of these pairs and of a sample of the batch
//! lists     | 1 3 | 4 8 20 | 27 |            each built from its part of the pairs
//! ```
use super::lists::{ListPart, ListSize, Lists};
use super::sample::{Sample, Weights, cuts};
use super::staging::put;
use crate::map::counts::{Counts, distinct};
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp};
use crate::map::parallel;
use crate::ordered::kernels::Search;
use crate::skiplist::kernels::{CompactStep, Nodes};
use crate::tiered_map::Costs;
use crate::tiered_map::chunk::{Request, reserve};
use crate::tiered_map::plan::Form;
use crate::tiered_map::shard::{Image, Shard};
use crate::tiered_map::shards::{ImageSize, Shards};
use crate::tiered_map::tiers::{SUM_WORDS, Tiers};
use crate::{Error, Outcome, Result};
use gpu::{Buffer, Tier};
use phalanx_kernels::keyed::Scalar;
use simt::GlobalSlice;
use std::collections::BTreeMap;
use std::ops::Range;

/// Memory of a map of lists.
pub type ListTiers<K, V> = Tiers<K, V, Lists<K, V>>;

/// Maximum number of ranges by which a list is read at once.
const RANGES: usize = 1 << 14;

/// Ratio of the time of a lookup in a large list to that in an empty one, which has two layers. Costs are
/// measured on an empty list.
const DEPTH_RATIO: f64 = 3.0;

/// Number of keys that are looked up to estimate how many of a batch are new.
const PROBED: usize = 1 << 10;

impl<K: Word, V: Word> ListTiers<K, V> {
    /// Reads the pairs of a list with keys from `low` to `high` into the staging area, in order, from index
    /// `at` on. There must be room for them, except if `at` is 0. Returns their number by ranges, as
    /// [`Self::count_list`] does.
    pub fn collect_list(&mut self, list: usize, range: (K, K), at: usize) -> Result<Vec<(K, usize)>> {
        let found = self.count_list(list, range)?;
        let counts: Vec<usize> = found.iter().map(|&(_, count)| count).collect();
        let (len, staging) = (counts.len(), &mut self.inner.staging);
        if len == 0 {
            return Ok(found);
        }
        let end = put_offsets(&mut staging.offsets, &counts, at)?;
        if at == 0 {
            staging.reserve_pairs(end)?;
        } else if end > staging.keys.len() {
            return Err(Error::Invalid(format!("list {list} has more pairs than were counted")));
        }
        let (lows, highs) = (staging.lows.global().part(0, len).into(), staging.highs.global().part(0, len));
        let (keys, values) = (staging.keys.global(), staging.values.global());
        let (offsets, counts) = (staging.offsets.global().part(0, len + 1), staging.counts.global());
        let counts = counts.part(0, len);
        self.search(list, Search::Range { lows, highs, offsets, room: 0, keys, values, counts })?;
        Ok(found)
    }

    /// Counts the pairs of a list with keys from `low` to `high`, by many ranges, whose ends are then in the
    /// staging area. Returns the lowest key of each, and its number of pairs.
    pub fn count_list(&mut self, list: usize, (low, high): (K, K)) -> Result<Vec<(K, usize)>> {
        if self.shards[list].counts.live == 0 || low > high {
            return Ok(Vec::new());
        }
        let starts = self.starts_of(list, (low, high))?;
        let (len, staging) = (starts.len(), &mut self.inner.staging);
        staging.reserve_ranges(len)?;
        let before = |next: &K| K::from_u64(next.to_u64() - 1);
        let ends: Vec<K> = starts.iter().skip(1).map(before).chain([high]).collect();
        put(&mut staging.lows, &starts)?;
        put(&mut staging.highs, &ends)?;
        let (lows, highs) = (staging.lows.global().part(0, len), staging.highs.global().part(0, len));
        let counts = staging.counts.global().part(0, len);
        self.search(list, Search::Count { lows: lows.into(), highs, counts })?;
        let counts = &self.inner.staging.counts.as_slice()?[..len];
        Ok(starts.into_iter().zip(counts.iter().map(|&count| count as usize)).collect())
    }

    /// Executes a search on a list in place, and waits.
    fn search(&mut self, list: usize, search: Search<K, V>) -> Result<()> {
        let (mut table, stream) = (self.raw_in_place(list, 0), &self.places[0].stream);
        // SAFETY: list and staging area live until the stream is waited for, and nothing else uses them.
        let launched = unsafe { self.inner.launch(stream, &mut table, ListPart::Search(search)) };
        stream.synchronize()?;
        launched
    }

    /// Returns the lowest keys of ranges of about as many nodes each, from `low` to `high`.
    fn starts_of(&mut self, list: usize, (low, high): (K, K)) -> Result<Vec<K>> {
        let (table, stream) = (self.raw_in_place(list, 0), self.places[0].stream.clone());
        let (units, staging) = (table.units(), &mut self.inner.staging);
        staging.reserve_ranges(units)?;
        reserve(&mut staging.handles, units)?;
        put(&mut staging.counts, &[0])?;
        let nodes = Nodes { lows: staging.lows.global(), handles: staging.handles.global() };
        let count = staging.counts.global().part(0, 1);
        // SAFETY: as in `search`.
        let launched = unsafe {
            let step = CompactStep::Gather { nodes, count };
            self.inner.kernels.launch_compaction(&stream, table.tree(), step)
        };
        stream.synchronize()?;
        launched?;
        let staging = &self.inner.staging;
        let many = staging.counts.as_slice()?[0] as usize;
        let mut lows: Vec<K> = staging.lows.as_slice()?[..many.min(units)]
            .iter()
            .copied()
            .filter(|&key| key > low && key <= high)
            .collect();
        parallel::sort_by_key(&mut lows, |&low| low);
        let step = lows.len().div_ceil(RANGES).max(1);
        Ok([low].into_iter().chain(lows.into_iter().step_by(step)).collect())
    }

    /// Reads all pairs of some lists into the staging area, in order.
    pub fn collect_lists(&mut self, lists: Range<usize>) -> Result<Vec<(K, usize)>> {
        let total = self.shards[lists.clone()].iter().map(|list| list.counts.live).sum();
        self.inner.staging.reserve_pairs(total)?;
        let (mut at, mut all) = (0, Vec::new());
        for list in lists {
            all.extend(self.collect_list(list, self.inner.range_of(list), at)?);
            at += self.shards[list].counts.live;
        }
        Ok(all)
    }

    /// Divides the pairs of some neighbouring lists among about `parts` lists. If there is a `sample` of keys
    /// to come, there is room for those as well. On error the lists are as before.
    fn redivide(&mut self, lists: Range<usize>, parts: usize, sample: Weights<K>) -> Result<()> {
        let (low, _) = self.inner.range_of(lists.start);
        let pairs: usize = self.shards[lists.clone()].iter().map(|list| list.counts.live).sum();
        let there = self.collect_lists(lists.clone())?;
        let there = there.into_iter().map(|(key, count)| (key, count as f64)).collect();
        let mut cuts = cuts(there, sample, parts, low);
        if parts > 1 {
            let keys = &self.inner.staging.keys.as_slice()?[..pairs];
            cuts = cut_long(keys, cuts, self.inner.size.most_built());
        }
        self.check_number(self.shards.len() - lists.len() + cuts.len() + 1)?;
        let keys = &self.inner.staging.keys.as_slice()?[..pairs];
        let inner = cuts.iter().map(|cut| keys.partition_point(|key| key < cut));
        let ends: Vec<usize> = [0].into_iter().chain(inner).chain([pairs]).collect();
        let mut new = Vec::new();
        for part in ends.windows(2) {
            match self.built(part[0]..part[1]) {
                Ok(list) => new.push(list),
                Err(error) => {
                    new.into_iter().for_each(|list: Shard<ListSize>| self.spares.put(list.image));
                    return Err(error);
                }
            }
        }
        self.replace(lists, &cuts, new)
    }

    /// Returns an error if there cannot be so many lists.
    fn check_number(&self, lists: usize) -> Result<()> {
        let (most, asked) = (self.inner.most(), self.ledger.budget());
        match lists > most {
            true => Err(Error::DeviceBudget { asked, needed: asked + (lists - most) * size_of::<K>() }),
            false => Ok(()),
        }
    }

    /// Returns a list with a part of the pairs in the staging area.
    fn built(&mut self, part: Range<usize>) -> Result<Shard<ListSize>> {
        let mut list = Shard::new(Image::Blank, self.inner.size);
        if part.is_empty() {
            return Ok(list);
        }
        let image = self.spares.take(&self.device, list.size.words())?;
        match self.build_in(&mut list, image.words(), part.clone()) {
            Ok(()) => {
                list.counts = Counts { live: part.len(), taken: part.len(), long: 0 };
                list.image = image;
                Ok(list)
            }
            Err(error) => {
                self.settle();
                self.spares.put(image);
                Err(error)
            }
        }
    }

    /// Builds a list in a slot, and copies it to an image; in the image itself if there is no slot. Waits.
    fn build_in(
        &mut self,
        list: &mut Shard<ListSize>,
        image: GlobalSlice<u64>,
        part: Range<usize>,
    ) -> Result<()> {
        let (place, staging) = (&self.places[0], &self.inner.staging);
        let (first, len) = (part.start, part.len());
        let (keys, values) =
            (staging.keys.global().part(first, len), staging.values.global().part(first, len));
        let last = staging.keys.as_slice()?[part.end - 1];
        let has_slot = self.slots.len() > 0 && self.slots.words() >= image.len();
        let memory: GlobalSlice<u64> = match has_slot {
            true => {
                self.slots.get_mut(0).holds = None;
                self.slots.get(0).memory.global().part(0, image.len())
            }
            false => image,
        };
        let table = self.inner.table(list, memory.as_ptr(), place.counters.pointer());
        let mut table = table.for_pairs(&list.size, len, self.inner.kernels.shape().slots)?;
        // SAFETY: image, slot and staging area live until the stream is waited for, and nothing else uses
        // them.
        let submitted = unsafe {
            self.inner.build(&place.stream, (&mut table, memory), (keys, values, Some(last))).and_then(|()| {
                if has_slot {
                    place.stream.copy(image, memory)?;
                }
                // The build has set them to the number of pairs.
                Ok(place.stream.fill(place.counters.global(), 0)?)
            })
        };
        place.stream.synchronize()?;
        submitted?;
        self.inner.launched(&mut list.size, &table);
        Ok(())
    }

    /// Replaces neighbouring lists by new ones, between which the keys are cut.
    fn replace(&mut self, lists: Range<usize>, cuts: &[K], new: Vec<Shard<ListSize>>) -> Result<()> {
        let (removed, added, end) = (lists.len(), new.len(), lists.end);
        let many = self.shards.len() - removed + added;
        if self.sums.len() < many * SUM_WORDS {
            let len = (many * SUM_WORDS).next_power_of_two();
            let mut sums = self.device.buffer_on(Tier::Pinned, len)?;
            sums.fill_bytes(0)?;
            self.sums = sums;
        }
        self.inner.replace_splitters(lists.clone(), cuts);
        let first = lists.start;
        let old: Vec<_> = self.shards.splice(lists, new).collect();
        old.into_iter().for_each(|list| self.spares.put(list.image));
        self.slots.renumber(|list| match list {
            list if list < first => Some(list),
            list if list >= end => Some(list - removed + added),
            _ => None,
        });
        Ok(())
    }

    /// Removes all pairs. One list is left, which keeps its memory only if it is a baseline.
    pub fn make_empty(&mut self) -> Result<()> {
        let (lists, blank) = (0..self.shards.len(), Shard::new(Image::Blank, self.inner.size));
        match self.plan.form {
            Form::Flat => self.create_whole(),
            _ => self.replace(lists, &[], vec![blank]),
        }
    }

    /// Makes the only list of a baseline an empty one with memory. Waits.
    pub fn create_whole(&mut self) -> Result<()> {
        let blank = Shard::new(Image::Blank, self.inner.size);
        let image = match std::mem::replace(&mut self.shards[0], blank).image {
            Image::Host(memory) => Image::Host(memory),
            _ => self.spares.take(&self.device, self.inner.size.words())?,
        };
        self.create_at(0, image.words(), 0)?;
        self.shards[0].image = image;
        Ok(())
    }

    /// Measures the costs, of which those that are `given` stay if there is nothing to measure.
    pub fn measured_costs(&mut self, given: Costs) -> Result<Costs> {
        let measured = self.measure()?;
        if measured == Costs::default() {
            return Ok(given);
        }
        self.make_empty()?;
        Ok(Costs { access_ns: DEPTH_RATIO * measured.access_ns, copy_rate: measured.copy_rate, ..given })
    }

    /// Splits lists for which a batch has many new keys, as estimated from a sample of the batch.
    pub fn split_before(&mut self, request: &Request<'_, K, V>) -> Result<()> {
        let target = self.inner.size.target;
        if !request.op.places() || request.len() < target.div_ceil(4) {
            return Ok(());
        }
        let lists = self.shards.len() + request.len() / target;
        let sample = Sample::of(&self.keys_of(request)?, lists);
        // From the last one on: so the numbers of those before do not change.
        for list in (0..self.shards.len()).rev() {
            let keys = sample.within(self.inner.range_of(list));
            let live = self.shards[list].counts.live;
            if live + sample.expected(keys) <= target {
                continue;
            }
            let share = self.share_of_new(list, keys)?;
            let new = (sample.expected(keys) as f64 * share) as usize;
            if live + new > target {
                let weight = new as f64 / keys.len().max(1) as f64;
                let weights = keys.iter().map(|&key| (key, weight)).collect();
                self.redivide(list..list + 1, (live + new).div_ceil(target), weights)?;
            }
        }
        Ok(())
    }

    /// Returns the share of keys that a list does not have, by lookups of some of them.
    fn share_of_new(&mut self, list: usize, keys: &[K]) -> Result<f64> {
        if self.shards[list].counts.live == 0 || keys.is_empty() {
            return Ok(1.0);
        }
        self.allocate()?;
        let step = keys.len().div_ceil(PROBED.min(self.plan.chunk));
        let probed: Vec<K> = keys.iter().copied().step_by(step).collect();
        let (mut table, buffer) = (self.raw_in_place(list, 0), &self.buffers[0]);
        let (given, mut outcomes) = (buffer.given(probed.len()), vec![0; probed.len()]);
        let batch = Batch { outcomes: given.outcomes, ..Batch::new(BatchOp::ContainsKey, given.keys) };
        // SAFETY: all memory lives until the stream is waited for, and nothing else uses it.
        let looked_up = unsafe {
            let uploaded = buffer.stream.upload(given.keys, &probed).map_err(Error::from);
            uploaded
                .and_then(|()| self.inner.launch(&buffer.stream, &mut table, batch.into()))
                .and_then(|()| Ok(buffer.stream.download(&mut outcomes, given.outcomes)?))
        };
        buffer.stream.synchronize()?;
        looked_up?;
        let absent = outcomes.iter().filter(|&&outcome| outcome != Outcome::Found as u8).count();
        Ok(absent as f64 / probed.len() as f64)
    }

    /// Builds the only list of a baseline again, if that frees nodes.
    pub fn rebuild_whole(&mut self, refused: usize) -> Result<()> {
        let counts = self.shards[0].counts;
        if counts.live == counts.taken && counts.long == 0 {
            return Err(Error::DoesNotFit { left_over: refused, pairs: counts.live + refused });
        }
        self.redivide(0..1, 1, Vec::new())
    }

    /// Splits the lists in which elements with these keys were refused, or builds them again if they have
    /// room for the keys but no free nodes.
    pub fn split_for(&mut self, refused: &[K]) -> Result<()> {
        let mut by_list = BTreeMap::<usize, Vec<K>>::new();
        for &key in refused {
            by_list.entry(self.inner.list_of(key)).or_default().push(key);
        }
        let target = self.inner.size.target;
        for (list, mut keys) in by_list.into_iter().rev() {
            let counts = self.shards[list].counts;
            let more = distinct(&keys);
            let is_packed = counts.live == counts.taken && counts.long == 0;
            let least = if is_packed || counts.live >= target { 2 } else { 1 };
            let parts = (counts.live + more).div_ceil(target).max(least);
            keys.sort_unstable();
            let weight = more as f64 / keys.len() as f64;
            let weights: Vec<_> = keys.into_iter().map(|key| (key, weight)).collect();
            let before = self.shards.len();
            self.redivide(list..list + 1, parts, weights)?;
            if least == 2 && self.shards.len() == before {
                return Err(Error::DoesNotFit { left_over: more, pairs: counts.live + more });
            }
        }
        Ok(())
    }

    /// Merges neighbouring lists that together have at most half as many pairs as a new list is planned for.
    pub fn merge_sparse(&mut self) -> Result<()> {
        let (most, mut list) = (self.inner.size.target / 2, 0);
        while list + 1 < self.shards.len() {
            let (mut total, mut end) = (self.shards[list].counts.live, list + 1);
            while end < self.shards.len() && total + self.shards[end].counts.live <= most {
                total += self.shards[end].counts.live;
                end += 1;
            }
            if end > list + 1 {
                self.redivide(list..end, 1, Vec::new())?;
            }
            list += 1;
        }
        Ok(())
    }
}

/// Adds cuts so that no part of sorted keys is longer than `most`.
fn cut_long<K: Scalar + Ord>(keys: &[K], cuts: Vec<K>, most: usize) -> Vec<K> {
    let (mut all, mut start) = (Vec::new(), 0);
    for cut in cuts.into_iter().map(Some).chain([None]) {
        let end = cut.map_or(keys.len(), |cut| keys.partition_point(|&key| key < cut));
        let (len, parts) = (end - start, (end - start).div_ceil(most));
        all.extend((1..parts).map(|part| keys[start + part * len / parts]));
        all.extend(cut);
        start = end;
    }
    all
}

/// Writes where the pairs of ranges go, from index `at` on. Returns the index behind the last.
pub fn put_offsets(offsets: &mut Buffer<u64>, counts: &[usize], at: usize) -> Result<usize> {
    let offsets = &mut offsets.as_mut_slice()?[..=counts.len()];
    offsets[0] = at as u64;
    for (index, &count) in counts.iter().enumerate() {
        offsets[index + 1] = offsets[index] + count as u64;
    }
    Ok(offsets[counts.len()] as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_part_is_too_long() {
        let keys: Vec<u32> = (0..100).collect();
        assert_eq!(cut_long(&keys, vec![90], 30), [30, 60, 90]);
        assert_eq!(cut_long(&keys, vec![10, 50, 200], 50), [10, 50, 200]);
        assert_eq!(cut_long(&keys, Vec::new(), 100), []);
        assert_eq!(cut_long::<u32>(&[], vec![7], 10), [7]);
    }
}
