//! Queries by key order, which cross from one list to the next.
use super::divide::{ListTiers, put_offsets};
use super::lists::ListPart;
use super::staging::put;
use crate::map::Pairs;
use crate::map::encoding::Word;
use crate::map::parallel;
use crate::ordered::kernels::Search;
use crate::tiered_map::chunk::reserve;
use crate::tiered_map::work::Work;
use crate::{Outcome, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of queries that are served together.
const TOGETHER: usize = 1 << 20;
/// Number of pairs that short ranges read together.
const PAIRS_TOGETHER: usize = 1 << 22;
/// Number of pairs from which the part of a range in a list may be read by many short ranges.
const LONG: usize = 1 << 10;
/// Share of the pairs of a list, one in this number, from which that costs less: it reads all of its nodes.
const OF_LIST: usize = 64;

/// The part of a range in one list.
#[derive(Clone, Copy, Debug)]
struct Piece<K> {
    list: usize,
    low: K,
    high: K,
    /// Number of the range.
    range: usize,
}

/// Neighbours of lists: the next list with pairs in each direction.
struct NonEmpty {
    before: Vec<Option<usize>>,
    after: Vec<Option<usize>>,
}

impl NonEmpty {
    fn of(pairs: &[usize]) -> Self {
        let last = |seen: &mut Option<usize>, (list, &pairs): (usize, &usize)| {
            let before = *seen;
            *seen = if pairs > 0 { Some(list) } else { before };
            Some(before)
        };
        let before = pairs.iter().enumerate().scan(None, last).collect();
        let mut after: Vec<_> = pairs.iter().enumerate().rev().scan(None, last).collect();
        after.reverse();
        Self { before, after }
    }
}

impl<K: Word, V: Word> ListTiers<K, V> {
    /// Returns the number of pairs of each list.
    fn pairs_of_lists(&self) -> Vec<usize> {
        self.shards.iter().map(|list| list.counts.live).collect()
    }

    /// Serves searches whose elements are sorted by list; `list_of` returns the list of an element.
    fn serve_search(
        &mut self,
        search: Search<K, V>,
        len: usize,
        list_of: impl Fn(usize) -> usize,
    ) -> Result<()> {
        let mut bounds = vec![0u32; self.shards.len() + 1];
        (0..len).for_each(|index| bounds[list_of(index) + 1] += 1);
        let mut end = 0;
        for bound in &mut bounds {
            end += *bound;
            *bound = end;
        }
        let work = Work::of_chunk(ListPart::Search(search), bounds, false);
        let served = self.serve(&work, &mut vec![false; self.shards.len()]);
        served.inspect_err(|_| self.settle())
    }

    /// Returns the next pair of each key in a direction or, if `inclusive`, the key's own pair.
    pub fn next(&mut self, keys: &[K], (up, inclusive): (bool, bool)) -> Result<Vec<Option<(K, V)>>> {
        let pairs = self.pairs_of_lists();
        let mut found = vec![None; keys.len()];
        let mut asked: Vec<(usize, usize)> =
            keys.iter().enumerate().map(|(index, &key)| (self.inner.list_of(key), index)).collect();
        parallel::sort_by_key(&mut asked, |&(_, index)| keys[index]);
        let there: Vec<_> = asked.iter().copied().filter(|&(list, _)| pairs[list] > 0).collect();
        for part in there.chunks(TOGETHER) {
            let elements: Vec<_> = part.iter().map(|&(list, index)| (list, keys[index])).collect();
            let some = self.next_in(&elements, (up, inclusive))?;
            part.iter().zip(some).for_each(|(&(_, index), pair)| found[index] = pair);
        }
        // The others have no such pair in their own list.
        asked.retain(|&(_, index)| found[index].is_none());
        let NonEmpty { before, after } = NonEmpty::of(&pairs);
        let neighbours = if up { after } else { before };
        let beyond = asked.iter().filter_map(|&(list, index)| Some((index, neighbours[list]?)));
        let beyond: Vec<(usize, usize)> = beyond.collect();
        let ends = self.ends_of(beyond.iter().map(|&(_, list)| list), up)?;
        beyond.into_iter().for_each(|(index, list)| found[index] = ends.get(&list).copied());
        Ok(found)
    }

    /// Returns the first or last pairs of lists.
    fn ends_of(
        &mut self,
        lists: impl Iterator<Item = usize>,
        first: bool,
    ) -> Result<BTreeMap<usize, (K, V)>> {
        let lists: std::collections::BTreeSet<usize> = lists.collect();
        let end = |&list: &usize| {
            let (low, high) = self.inner.range_of(list);
            (list, if first { low } else { high })
        };
        let elements: Vec<_> = lists.iter().map(end).collect();
        let pairs = self.next_in(&elements, (first, true))?;
        Ok(lists.into_iter().zip(pairs).filter_map(|(list, pair)| Some((list, pair?))).collect())
    }

    /// Returns the pair with the lowest or highest key.
    pub fn outermost(&mut self, lowest: bool) -> Result<Option<(K, V)>> {
        let pairs = self.pairs_of_lists();
        let mut lists = (0..pairs.len()).filter(|&list| pairs[list] > 0);
        let list = if lowest { lists.next() } else { lists.next_back() };
        Ok(self.ends_of(list.into_iter(), lowest)?.into_values().next())
    }

    /// Returns the next pair of each key within its list. The elements are sorted by list.
    fn next_in(
        &mut self,
        elements: &[(usize, K)],
        (up, inclusive): (bool, bool),
    ) -> Result<Vec<Option<(K, V)>>> {
        let len = elements.len();
        if len == 0 {
            return Ok(Vec::new());
        }
        let staging = &mut self.inner.staging;
        staging.reserve_pairs(len)?;
        reserve(&mut staging.lows, len)?;
        reserve(&mut staging.outcomes, len)?;
        put(&mut staging.lows, &elements.iter().map(|&(_, key)| key).collect::<Vec<_>>())?;
        let search = Search::Next {
            up,
            inclusive,
            keys: staging.lows.global().part(0, len).into(),
            found: staging.keys.global().part(0, len),
            values: staging.values.global().part(0, len),
            outcomes: staging.outcomes.global().part(0, len),
        };
        self.serve_search(search, len, |index| elements[index].0)?;
        let staging = &self.inner.staging;
        let (keys, values) = (staging.keys.as_slice()?, staging.values.as_slice()?);
        let pair = |(index, &outcome): (usize, &u8)| {
            (outcome == Outcome::Found as u8).then(|| (keys[index], values[index]))
        };
        Ok(staging.outcomes.as_slice()?[..len].iter().enumerate().map(pair).collect())
    }

    /// Returns the parts of ranges in lists of which they have not all keys, and for each range the lists of
    /// which it has all.
    fn pieces(&self, ranges: &[[K; 2]]) -> (Vec<Piece<K>>, Vec<Range<usize>>) {
        let (mut pieces, mut whole) = (Vec::new(), Vec::new());
        for (range, &[low, high]) in ranges.iter().enumerate() {
            if low > high {
                whole.push(0..0);
                continue;
            }
            let (first, last) = (self.inner.list_of(low), self.inner.list_of(high));
            let ends = (self.inner.range_of(first).0, self.inner.range_of(last).1);
            let (from, to) = (first + usize::from(low > ends.0), last + usize::from(high == ends.1));
            let mut add = |list: usize| {
                let (lowest, highest) = self.inner.range_of(list);
                if self.shards[list].counts.live > 0 {
                    pieces.push(Piece { list, low: low.max(lowest), high: high.min(highest), range });
                }
            };
            if from > first {
                add(first);
            }
            if to == last && (last > first || from == first) {
                add(last);
            }
            whole.push(from..to.max(from));
        }
        (pieces, whole)
    }

    /// Returns the number of keys in each range, both ends included.
    pub fn count_ranges(&mut self, ranges: &[[K; 2]]) -> Result<Vec<u64>> {
        let (mut pieces, whole) = self.pieces(ranges);
        let pairs = self.pairs_of_lists();
        let upto: Vec<usize> = std::iter::once(0)
            .chain(pairs.iter().scan(0, |sum, pairs| {
                *sum += pairs;
                Some(*sum)
            }))
            .collect();
        let mut counts: Vec<u64> =
            whole.iter().map(|lists| (upto[lists.end] - upto[lists.start]) as u64).collect();
        pieces.sort_by_key(|piece| piece.list);
        let (long, short): (Vec<_>, Vec<_>) =
            pieces.into_iter().partition(|piece| self.is_long(piece.list, self.expected(piece)));
        for piece in long {
            let found = self.count_list(piece.list, (piece.low, piece.high))?;
            counts[piece.range] += found.iter().map(|&(_, count)| count as u64).sum::<u64>();
        }
        let counted = self.count_pieces(&short)?;
        short.iter().zip(counted).for_each(|(piece, count)| counts[piece.range] += count as u64);
        Ok(counts)
    }

    /// Returns the number of pairs that a piece has if the keys of its list are spread evenly.
    fn expected(&self, piece: &Piece<K>) -> usize {
        let (lowest, highest) = self.inner.range_of(piece.list);
        let width = |(low, high): (K, K)| (high.to_u64() - low.to_u64()) as f64 + 1.0;
        let share = width((piece.low, piece.high)) / width((lowest, highest));
        (share * self.shards[piece.list].counts.live as f64) as usize
    }

    /// Returns whether so many pairs of a list are read by many short ranges.
    fn is_long(&self, list: usize, count: usize) -> bool {
        count >= LONG && count >= self.shards[list].counts.live / OF_LIST
    }

    /// Returns the number of keys in each piece. They are sorted by list.
    fn count_pieces(&mut self, pieces: &[Piece<K>]) -> Result<Vec<usize>> {
        let mut all = Vec::with_capacity(pieces.len());
        for part in pieces.chunks(TOGETHER) {
            let len = part.len();
            self.put_pieces(part)?;
            let staging = &self.inner.staging;
            let (lows, highs) = (staging.lows.global().part(0, len), staging.highs.global().part(0, len));
            let counts = staging.counts.global().part(0, len);
            self.serve_search(Search::Count { lows: lows.into(), highs, counts }, len, |index| {
                part[index].list
            })?;
            let counts = &self.inner.staging.counts.as_slice()?[..len];
            all.extend(counts.iter().map(|&count| count as usize));
        }
        Ok(all)
    }

    /// Writes the ends of pieces to the staging area.
    fn put_pieces(&mut self, pieces: &[Piece<K>]) -> Result<()> {
        let staging = &mut self.inner.staging;
        staging.reserve_ranges(pieces.len())?;
        put(&mut staging.lows, &pieces.iter().map(|piece| piece.low).collect::<Vec<_>>())?;
        put(&mut staging.highs, &pieces.iter().map(|piece| piece.high).collect::<Vec<_>>())
    }

    /// Returns the pairs in each range, in key order, both ends included.
    pub fn ranges(&mut self, ranges: &[[K; 2]]) -> Result<Vec<Vec<(K, V)>>> {
        let (mut pieces, whole) = self.pieces(ranges);
        pieces.sort_by_key(|piece| piece.list);
        let (mut long, short): (Vec<_>, Vec<_>) =
            pieces.into_iter().partition(|piece| self.is_long(piece.list, self.expected(piece)));
        let counts = self.count_pieces(&short)?;
        let (more, short): (Vec<_>, Vec<_>) =
            short.into_iter().zip(counts).partition(|&(piece, count)| self.is_long(piece.list, count));
        long.extend(more.into_iter().map(|(piece, _)| piece));
        let mut parts: BTreeMap<(usize, usize), Vec<(K, V)>> = BTreeMap::new();
        let mut rest = &short[..];
        while !rest.is_empty() {
            let (now, later) = rest.split_at(together(rest));
            self.read_short(now, &mut parts)?;
            rest = later;
        }
        for Piece { list, low, high, range } in long {
            parts.insert((range, list), self.read_list(list, (low, high))?);
        }
        for (range, lists) in whole.into_iter().enumerate() {
            for list in lists {
                parts.insert((range, list), self.read_list(list, self.inner.range_of(list))?);
            }
        }
        let mut all = vec![Vec::new(); ranges.len()];
        parts.into_iter().for_each(|((range, _), mut pairs)| all[range].append(&mut pairs));
        Ok(all)
    }

    /// Reads short pieces, which are sorted by list, with their numbers of pairs.
    fn read_short(
        &mut self,
        pieces: &[(Piece<K>, usize)],
        parts: &mut BTreeMap<(usize, usize), Vec<(K, V)>>,
    ) -> Result<()> {
        let (only, counted): (Vec<Piece<K>>, Vec<usize>) = pieces.iter().copied().unzip();
        let (len, total) = (only.len(), counted.iter().sum());
        self.put_pieces(&only)?;
        let staging = &mut self.inner.staging;
        staging.reserve_pairs(total)?;
        put_offsets(&mut staging.offsets, &counted, 0)?;
        let search = Search::Range {
            lows: staging.lows.global().part(0, len).into(),
            highs: staging.highs.global().part(0, len),
            offsets: staging.offsets.global().part(0, len + 1),
            room: 0,
            keys: staging.keys.global(),
            values: staging.values.global(),
            counts: staging.counts.global().part(0, len),
        };
        self.serve_search(search, len, |index| only[index].list)?;
        let mut at = 0;
        for (piece, count) in pieces {
            parts.insert((piece.range, piece.list), self.staged(at..at + count)?);
            at += count;
        }
        Ok(())
    }

    /// Returns a part of the pairs in the staging area.
    fn staged(&self, part: Range<usize>) -> Result<Vec<(K, V)>> {
        let staging = &self.inner.staging;
        let (keys, values) = (&staging.keys.as_slice()?[part.clone()], &staging.values.as_slice()?[part]);
        Ok(keys.iter().copied().zip(values.iter().copied()).collect())
    }

    /// Returns the pairs of a list with keys in a range.
    fn read_list(&mut self, list: usize, range: (K, K)) -> Result<Vec<(K, V)>> {
        let read: usize = self.collect_list(list, range, 0)?.into_iter().map(|(_, count)| count).sum();
        self.staged(0..read)
    }

    /// Returns the pairs of a list, in key order.
    pub fn export_list(&mut self, list: usize) -> Result<Pairs<K, V>> {
        Ok(self.read_list(list, self.inner.range_of(list))?.into_iter().unzip())
    }

    /// Returns all pairs, in key order.
    pub fn export_all(&mut self) -> Result<Pairs<K, V>> {
        let (mut keys, mut values) = (Vec::with_capacity(self.len()), Vec::with_capacity(self.len()));
        for list in 0..self.shards.len() {
            let (some_keys, some_values) = self.export_list(list)?;
            keys.extend(some_keys);
            values.extend(some_values);
        }
        Ok((keys, values))
    }
}

/// Returns the number of pieces from the first on that are read together.
fn together<K>(pieces: &[(Piece<K>, usize)]) -> usize {
    let mut pairs = 0;
    let mut fits = |&(_, count): &(Piece<K>, usize)| {
        pairs += count;
        pairs <= PAIRS_TOGETHER
    };
    pieces.iter().take(TOGETHER).take_while(|piece| fits(piece)).count().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_have_pairs() {
        let NonEmpty { before, after } = NonEmpty::of(&[0, 5, 0, 0, 7, 0]);
        assert_eq!(before, [None, None, Some(1), Some(1), Some(1), Some(4)]);
        assert_eq!(after, [Some(1), Some(4), Some(4), Some(4), None, None]);
    }
}
