//! Keys of batches.
use crate::engine::record::Param;
use crate::engine::suite::Case;
use anyhow::{Result, bail, ensure};
use rayon::prelude::*;
use workloads::random::{Source, tabulate};
use workloads::sequences::{PAPER_BLOCK, Sequence};
use workloads::{Genome, Key as Word, Permutation, Read, UniqueKeys, Zipf};

/// Returns a size that a case gives, or `default`.
pub fn size(case: &Case, name: &str, default: usize) -> Result<usize> {
    Ok(case.number_if_given(name)?.map_or(default, |size| size as usize))
}

/// Source of batches of lookups of present keys.
pub struct Lookups<K> {
    unique: UniqueKeys<K>,
    pairs: u64,
    seed: u64,
    /// Frequencies of ranks, if they differ.
    pub zipf: Option<Zipf>,
    /// Keys of the ranks that move, and of all others.
    places: [Permutation; 2],
    pub moved: u64,
    /// Number of the last batch that was drawn, and of moves.
    drawn: u64,
    moves: u64,
}

impl<K: Word> Lookups<K> {
    /// Returns a source whose batches have numbers above `drawn`.
    pub fn new(case: &Case, pairs: u64, drawn: u64) -> Result<Self> {
        let is_zipf = case.params.get("keys").is_some_and(|keys| keys.to_string() == "zipf");
        let place = || Permutation::new(pairs, &Source::new(case.seed, "places of ranks"));
        Ok(Self {
            unique: UniqueKeys::new(case.seed),
            pairs,
            seed: case.seed,
            zipf: if is_zipf { Some(Zipf::new(pairs, case.number("theta")?)?) } else { None },
            places: [place(), place()],
            moved: size(case, "moved", 0)? as u64,
            drawn,
            moves: 0,
        })
    }

    /// Gives the most frequent ranks other keys.
    pub fn move_hot_keys(&mut self) {
        self.moves += 1;
        let source = Source::new(self.seed, &format!("move {}", self.moves));
        self.places[0] = Permutation::new(self.pairs, &source);
    }

    /// Draws the next batch.
    pub fn next(&mut self, n: usize) -> Vec<K> {
        self.drawn += 1;
        let source = Source::new(self.seed, &format!("batch {}", self.drawn));
        match &self.zipf {
            Some(zipf) => source.generate(n, |generator, _| {
                let rank = zipf.rank(generator);
                self.unique.at(self.places[usize::from(rank >= self.moved)].at(rank))
            }),
            None => {
                let order = Permutation::new(self.pairs, &source);
                tabulate(n, |index| self.unique.at(order.at(index % self.pairs)))
            }
        }
    }
}

/// Returns the `n` keys of a batch. Those of a lookup are in a map with the first `pairs` keys, or absent.
pub fn keys<K: Word>(case: &Case, pairs: u64) -> Result<Vec<K>> {
    let (n, unique) = (case.n as usize, UniqueKeys::<K>::new(case.seed));
    let named = case.params.get("keys").map_or_else(|| "random".to_owned(), Param::to_string);
    Ok(match (named.as_str(), case.op.as_str()) {
        ("random", "get_missed") => unique.absent(n)?,
        ("random" | "zipf", "get") => Lookups::new(case, pairs, 0)?.next(n),
        ("random", _) => unique.present(n)?,
        ("zipf", op) => bail!("`{op}` has no keys by Zipf's law: only `get` has"),
        ("kmers", _) => kmers(n, case.seed)?,
        (sequence, _) => {
            ensure!(K::BITS == 32, "the paper's sequences have keys of 32 bits");
            let block = case.number_if_given("block")?.map_or(PAPER_BLOCK, |block| block as u64);
            let sequence: Sequence = sequence.parse()?;
            sequence
                .keys_in_blocks(n, block, case.seed)?
                .into_iter()
                .map(|key| K::truncate(key.into()))
                .collect()
        }
    })
}

/// Letters of a read, and reads that contain a position of the genome.
const READ: usize = 150;
const COVERAGE: usize = 8;

/// Returns `n` k-mers of reads of a random genome, one bit pair a letter; k is half the bits of a key. One
/// letter of 100 is read wrong.
fn kmers<K: Word>(n: usize, seed: u64) -> Result<Vec<K>> {
    let (k, len) = (K::BITS as usize / 2, (n / COVERAGE).max(READ));
    let reads = Genome::random(len, seed).reads(n.div_ceil(READ + 1 - k), READ, 0.01, seed)?;
    let letter = |base: u8| u64::from(base >> 1 & 3);
    let kmer = |window: &[u8]| K::truncate(window.iter().fold(0, |kmer, &base| kmer << 2 | letter(base)));
    let of_read = |read: &Read| read.bases.windows(k).map(kmer).collect::<Vec<_>>();
    let mut all: Vec<K> = reads.par_iter().flat_map_iter(of_read).collect();
    all.truncate(n);
    Ok(all)
}

/// Replaces each `every`-th of the keys, which are those of the map, by one that is not among them.
///
/// # Errors
/// Returns [`anyhow::Error`] when too few other keys are found.
pub fn replace_by_absent<K: Word>(keys: &mut [K], every: usize, seed: u64) -> Result<()> {
    let mut sorted = keys.to_vec();
    sorted.par_sort_unstable();
    let others = UniqueKeys::<K>::new(seed ^ OTHERS);
    let asked = keys.len() / every;
    // Half of all keys of 32 bits may be present.
    let drawn = tabulate(3 * asked + 100, |index| others.at(index));
    let mut absent = drawn.into_iter().filter(|key| sorted.binary_search(key).is_err());
    for key in keys.iter_mut().skip(every - 1).step_by(every) {
        match absent.next() {
            Some(other) => *key = other,
            None => bail!("too few keys are absent: {asked} were asked for beside {}", sorted.len()),
        }
    }
    Ok(())
}

/// Makes the seed of absent keys another one than that of present keys.
const OTHERS: u64 = 0x5851_f42d_4c95_7f2d;

/// Returns the distinct keys, and how often each occurs.
pub fn counts<K: Word>(keys: &[K]) -> (Vec<K>, Vec<u64>) {
    let mut sorted = keys.to_vec();
    sorted.par_sort_unstable();
    sorted.chunk_by(|left, right| left == right).map(|equal| (equal[0], equal.len() as u64)).unzip()
}

/// Returns the number of distinct keys.
pub fn distinct<K: Word>(keys: &[K]) -> u64 {
    let mut sorted = keys.to_vec();
    sorted.par_sort_unstable();
    let repeats = sorted.par_windows(2).filter(|pair| pair[0] == pair[1]).count();
    (sorted.len() - repeats) as u64
}
