//! The pairs of a node in key order, computed by the tile that has read the node.
use super::fixed_nodes::largest;
use super::node::Node;
use crate::keyed::{Lane, Scalar, Slot};
use crate::primitives::unrolled;
use simt::{Convergence, Tile, black_box, device};

#[device(caller)]
impl<S: Slot, const L: usize> Lane<S, L> {
    /// Whether an inner node is full. Its pairs are sorted, and blank words follow them.
    pub fn is_full<const W: u32>(&self, tile: Tile<W, impl Convergence>) -> bool {
        let last = Node::<S, W, L>::SLOTS - 1;
        let word = self.words[last as usize % L];
        tile.any(tile.rank() == last / L as u32 && !S::is_empty(word))
    }

    /// Returns the lane's pairs for which `is(key)` holds; the others are replaced by words with the blank
    /// key.
    #[device]
    fn chosen<const W: u32>(&self, rank: u32, is: impl Fn(S::Stored) -> bool) -> Self {
        let mut chosen = *self;
        unrolled::<L>(|j| {
            let key = S::key(self.words[j]);
            let is_chosen = Node::<S, W, L>::is_slot(rank, j) && is(key);
            let key = if is_chosen { key } else { S::key(S::EMPTY) };
            chosen.words[j] = S::pack(key, S::value(self.words[j]));
        });
        chosen
    }

    /// Returns the pairs for which `is(key)` holds, sorted by key and followed by words with the blank key:
    /// lane `r` has the `L` words from index `r * L` on.
    ///
    /// The algorithm is Batcher's sorting networks, whose steps are the same for all tiles: sorted runs are
    /// merged two by two. The bitonic merge compares each word first with its mirror image, then with the
    /// word half as far away in each further step. Two runs of two words in one lane are merged by the
    /// odd-even network, which needs one comparison less.
    pub fn sorted<const W: u32>(
        &self,
        tile: Tile<W, impl Convergence>,
        is: impl Fn(S::Stored) -> bool,
    ) -> Self {
        let mut sorted = self.chosen::<W>(tile.rank(), is);
        unrolled::<5>(|merge| {
            let run = 2 << merge;
            if run == 4 && L >= 4 {
                sorted.exchange_within(|j| j ^ 2);
                sorted.exchange_within(|j| if j % 4 == 1 || j % 4 == 2 { j ^ 3 } else { j });
                return;
            }
            if run <= W as usize * L {
                sorted.exchange(tile, run - 1);
            }
            unrolled::<4>(|step| {
                let apart = run >> (step + 2);
                if run <= W as usize * L && apart > 0 {
                    sorted.exchange(tile, apart);
                }
            });
        });
        sorted
    }

    /// Compares each of the lane's words with the one at index `place(j)`, and puts the lower key at the
    /// lower index.
    #[device]
    fn exchange_within(&mut self, place: impl Fn(usize) -> usize) {
        let before = self.words;
        unrolled::<L>(|j| {
            let (one, other) = (before[j], before[place(j) % L]);
            let stays =
                if place(j) >= j { S::key(one) <= S::key(other) } else { S::key(other) <= S::key(one) };
            self.words[j] = if stays { one } else { other };
        });
    }

    /// Compares each word with the one at its index xor `mask`, and puts the lower key at the lower index.
    fn exchange<const W: u32>(&mut self, tile: Tile<W, impl Convergence>, mask: usize) {
        let (lanes, within) = ((mask / L) as u32, mask % L);
        if lanes == 0 {
            return self.exchange_within(|j| j ^ within);
        }
        let before = self.words;
        let is_upper = tile.rank() & (1 << lanes.ilog2()) != 0;
        unrolled::<L>(|j| {
            let (one, other) = (before[j], tile.shuffle_xor(before[(j ^ within) % L], lanes));
            // If both keys are equal, both lanes hold the lower lane's word afterwards.
            let moves = (S::key(other) < S::key(one)) != is_upper;
            self.words[j] = if moves { other } else { one };
        });
    }

    /// Returns the pairs for which `is(key)` holds, and the index of each in key order. Lanes with four words
    /// or more use [`Self::sorted`]. Others compare each key with all others: this exchanges fewer words
    /// between lanes, and none waits for another. Measured: either way is a tenth to a fifth slower for the
    /// other layouts.
    pub fn ordered<const W: u32>(
        &self,
        tile: Tile<W, impl Convergence>,
        is: impl Fn(S::Stored) -> bool,
    ) -> Ordered<S, W, L> {
        let (last, mut places) = (largest::<S>(), [0; L]);
        if Ordered::<S, W, L>::SORTS {
            unrolled::<L>(|j| places[j] = j as u32);
            return Ordered { pairs: self.sorted(tile, is), first: tile.rank() * L as u32, places, last };
        }
        let pairs = self.chosen::<W>(tile.rank(), is);
        let mut flip = (L == 1) as u32;
        // Not unrolled: all shuffles at once would take a register each.
        let flips = black_box(W);
        while flip < flips {
            unrolled::<L>(|theirs| {
                let other = tile.shuffle_xor(S::key(pairs.words[theirs]), flip);
                unrolled::<L>(|j| places[j] += (other < S::key(pairs.words[j])) as u32);
            });
            flip += 1;
        }
        Ordered { pairs, first: 0, places, last }
    }

    /// Returns the pair with the lowest key for which `is(key)` holds, or with the highest key, for the whole
    /// tile. If there is none, the result is arbitrary.
    pub fn outermost<const W: u32>(
        &self,
        tile: Tile<W, impl Convergence>,
        highest: bool,
        is: impl Fn(S::Stored) -> bool,
    ) -> (S::Stored, S::Value) {
        let turned = |key: S::Stored| if highest { S::Stored::from_u64(!key.to_u64()) } else { key };
        let mut best = S::key(S::EMPTY);
        let mine = self.last(tile.rank(), |position, word| {
            let key = turned(S::key(word));
            let leads = position < Node::<S, W, L>::SLOTS && is(S::key(word)) && key <= best;
            best = if leads { key } else { best };
            leads
        });
        let (own, mut flip) = (best, 1);
        while flip < W {
            best = best.min(tile.shuffle_xor(best, flip));
            flip *= 2;
        }
        let owner = tile.ballot(mine.exists && own == best).trailing_zeros();
        (turned(best), tile.shuffle(S::value(mine.word), owner))
    }
}

/// Pairs of a node and words with the blank key, with the index of each pair in key order.
#[derive(Clone, Copy, Debug)]
pub struct Ordered<S: Slot, const W: u32, const L: usize> {
    pairs: Lane<S, L>,
    /// Index from which the lane's indices are counted.
    first: u32,
    places: [u32; L],
    /// Highest key that counts: words with keys above it are no pairs.
    last: S::Stored,
}

#[device]
impl<S: Slot, const W: u32, const L: usize> Ordered<S, W, L> {
    /// Whether the words themselves are sorted. Otherwise each has its rank as its index.
    const SORTS: bool = L >= 4;

    /// Restricts the pairs to keys up to `last`. These come first, so they keep their indices.
    pub fn up_to(self, last: S::Stored) -> Self {
        Self { last: self.last.min(last), ..self }
    }

    fn is_pair(&self, j: usize) -> bool {
        S::key(self.pairs.words[j]) <= self.last
    }

    /// Returns the index from which those that [`Self::each`] passes are counted.
    pub fn first(&self) -> u32 {
        self.first
    }

    /// Calls `see` with the lane's pairs and their indices, counted from [`Self::first`].
    pub fn each(&self, mut see: impl FnMut(u32, S::Word)) {
        unrolled::<L>(|j| {
            if self.is_pair(j) {
                see(self.places[j], self.pairs.words[j]);
            }
        });
    }

    /// Returns the number of pairs in the whole tile.
    #[device(caller)]
    pub fn count(&self, tile: Tile<W, impl Convergence>) -> u32 {
        let mut count = 0;
        unrolled::<L>(|j| count += self.is_pair(j) as u32);
        tile.reduce_add(count)
    }

    /// Returns [`Self::count`], and whether a key occurs twice.
    #[device(caller)]
    pub fn count_twice(&self, tile: Tile<W, impl Convergence>) -> (u32, bool) {
        if Self::SORTS {
            return (self.count(tile), self.has_twins(tile));
        }
        // The upper half sums the number of pairs, the lower half their ranks. The sum of ranks is too small
        // if two keys are equal.
        let mut sums = 0;
        unrolled::<L>(|j| sums += if self.is_pair(j) { 1 << 16 | self.places[j] } else { 0 });
        let sums = tile.reduce_add(sums);
        let (count, ranks) = (sums >> 16, sums & 0xffff);
        (count, 2 * ranks != count * count.wrapping_sub(1))
    }

    /// Whether two neighbours in key order have the same key.
    #[device(caller)]
    fn has_twins(&self, tile: Tile<W, impl Convergence>) -> bool {
        let words = self.pairs.words;
        let first = if W > 1 { tile.shuffle_down(S::key(words[0]), 1) } else { S::key(S::EMPTY) };
        let mut has_twins = false;
        unrolled::<L>(|j| {
            let is_last = tile.rank() == W - 1 && j == L - 1;
            let next = if j + 1 < L { S::key(words[(j + 1) % L]) } else { first };
            has_twins |= !is_last && self.is_pair(j) && S::key(words[j]) == next;
        });
        tile.any(has_twins)
    }
}
