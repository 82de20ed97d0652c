//! Benchmarks of the partition of `phalanx::ShardedMap`: a rank brings a batch of `n` pairs into the order of
//! their owners, on one device and without an exchange.
//!
//! All chunks of the batch are timed, from the counts to the messages, by the clock of the stream. The host
//! does not wait for the counts, for which a sharded map waits once per batch. `keys` is `uniform`, or
//! `one_owner`: then one owner, which is not the batch's own rank, has all keys.
use super::sharded_map::limits;
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::Gpu;
use anyhow::{Context, Result, bail, ensure};
use gpu::Buffer;
use phalanx::map::Word as MapWord;
use phalanx::private::Partition;
use phalanx_kernels::sharded::{MOST_OWNERS, owner_of, values_at};
use rayon::prelude::*;
use workloads::random::{Source, below};
use workloads::{Key as Word, UniqueKeys, parallel};

/// Partitions as a structure.
#[derive(Debug)]
pub struct ShardedPartitions<'a>(pub &'a Gpu);

/// Owner of all keys of `one_owner`. The batch is that of rank 0.
const ONE_OWNER: u32 = 1;

impl Structure for ShardedPartitions<'_> {
    fn name(&self) -> &'static str {
        "ShardedPartition"
    }

    fn variants(&self) -> Vec<String> {
        vec!["default".to_owned()]
    }

    fn ops(&self) -> Vec<&'static str> {
        vec!["partition"]
    }

    fn prepare(&self, case: &Case) -> Result<Box<dyn Benchmark + '_>> {
        ensure!(case.op == "partition", "no operation of a partition is called '{}'", case.op);
        match (case.key_bits, case.value_bits) {
            (32, 32) => Ok(Box::new(Prepared::<u32, u32>::new(self.0, case)?)),
            (64, 64) => Ok(Box::new(Prepared::<u64, u64>::new(self.0, case)?)),
            (key, value) => bail!("there are no pairs of {key}-bit keys and {value}-bit values here"),
        }
    }
}

/// Prepared case.
struct Prepared<K: MapWord, V: MapWord> {
    partition: Partition<K, V>,
    /// Pairs of the batch, on the host and on the device.
    pairs: (Vec<K>, Vec<V>),
    buffers: (Buffer<K>, Buffer<V>),
    owners: usize,
    /// Pairs of each owner in each chunk.
    counts: Vec<u32>,
}

/// Counts and messages that a partition has written.
struct Found {
    counts: Vec<u32>,
    /// Messages of each chunk.
    messages: Vec<Vec<u128>>,
}

impl<K: MapWord + Word, V: MapWord + Word> Prepared<K, V> {
    fn new(gpu: &Gpu, case: &Case) -> Result<Self> {
        let (n, owners) = (case.n as usize, case.number("owners")? as usize);
        ensure!((1..=MOST_OWNERS).contains(&owners), "there are 1 to {MOST_OWNERS} owners, not {owners}");
        let partition = Partition::new(&gpu.stream, &limits(case)?, owners, n)?;
        let keys = keys::<K>(case, owners as u32)?;
        // Values that all differ tell which element each pair was.
        let values: Vec<V> = parallel::tabulate(n, |index| V::truncate(index as u64));
        let buffers = (gpu.device.from_slice(&keys)?, gpu.device.from_slice(&values)?);
        let counts = keys.par_chunks(partition.chunk_len()).flat_map_iter(|chunk| counts(chunk, owners));
        let counts = counts.collect();
        Ok(Self { partition, pairs: (keys, values), buffers, owners, counts })
    }

    fn read(&self) -> Result<Found> {
        Ok(Found { counts: self.partition.counts()?, messages: self.partition.messages()? })
    }

    /// Checks that the messages have exactly the pairs of each chunk and owner, in the order of the batch.
    fn check(&self, found: &Found) -> Result<Verified> {
        let wrong = (0..self.counts.len()).find(|&place| found.counts[place] != self.counts[place]);
        if let Some(place) = wrong {
            let (chunk, owner, found) = (place / self.owners, place % self.owners, found.counts[place]);
            bail!("chunk {chunk}: owner {owner} has {found} pairs, not {}", self.counts[place]);
        }
        let message = |place: usize| {
            let (chunk, owner) = (place / self.owners, place % self.owners);
            let checked = self.check_message(&found.messages[chunk], chunk, owner);
            checked.with_context(|| format!("chunk {chunk}, owner {owner}"))
        };
        let pairs = (0..self.counts.len()).into_par_iter().map(message).sum::<Result<usize>>()?;
        Ok(Verified::all(pairs))
    }

    /// Checks the message of a chunk for an owner, whose counts are right. Returns its number of pairs.
    fn check_message(&self, messages: &[u128], chunk: usize, owner: usize) -> Result<usize> {
        let counts = &self.counts[chunk * self.owners..(chunk + 1) * self.owners];
        let parts = self.partition.parts(counts, owner).into_iter();
        let found = parts.flat_map(|part| pairs_of::<K, V>(messages, part));
        let expected =
            self.chunk(chunk).filter(|(key, _)| owner_of(*key, self.owners as u32) == owner as u32);
        let mut checked = 0;
        for (found, expected) in found.zip(expected) {
            ensure!(found == expected, "pair {checked} is {found:x?}, not {expected:x?}");
            checked += 1;
        }
        ensure!(checked == counts[owner] as usize, "the parts have {checked} pairs, not {}", counts[owner]);
        Ok(checked)
    }

    /// Returns the pairs of a chunk of the batch.
    fn chunk(&self, chunk: usize) -> impl Iterator<Item = (K, V)> {
        let (len, (keys, values)) = (self.partition.chunk_len(), &self.pairs);
        let range = chunk * len..keys.len().min((chunk + 1) * len);
        keys[range.clone()].iter().copied().zip(values[range].iter().copied())
    }
}

/// Returns the keys of the batch.
fn keys<K: MapWord + Word>(case: &Case, owners: u32) -> Result<Vec<K>> {
    let is_one_owner = case.choice("keys", &[("uniform", false), ("one_owner", true)])?;
    ensure!(!is_one_owner || owners > ONE_OWNER, "the owner of all keys is another one than rank 0");
    let (unique, source) = (UniqueKeys::<K>::new(case.seed), Source::new(case.seed, "sharded partition"));
    Ok(source.generate(case.n as usize, |generator, _| {
        loop {
            let key = unique.at(below(generator, 1 << 32));
            if !is_one_owner || owner_of(key, owners) == ONE_OWNER {
                return key;
            }
        }
    }))
}

/// Returns the number of keys of each owner.
fn counts<K: MapWord>(keys: &[K], owners: usize) -> Vec<u32> {
    let mut counts = vec![0; owners];
    keys.iter().for_each(|&key| counts[owner_of(key, owners as u32) as usize] += 1);
    counts
}

/// Returns the pairs of a part of messages: its first byte, and its number of pairs. The values follow the
/// keys.
fn pairs_of<K: MapWord, V: MapWord>(
    messages: &[u128],
    (begin, count): (usize, usize),
) -> impl Iterator<Item = (K, V)> {
    let (keys, values) = (bytemuck::cast_slice::<_, K>(messages), bytemuck::cast_slice::<_, V>(messages));
    let first_value = (begin + values_at(count, size_of::<K>())) / size_of::<V>();
    let keys = keys[begin / size_of::<K>()..].iter().copied();
    keys.zip(values[first_value..].iter().copied()).take(count)
}

impl<K: MapWord + Word, V: MapWord + Word> Benchmark for Prepared<K, V> {
    fn restore(&mut self) -> Result<()> {
        Ok(self.partition.forget()?)
    }

    fn launch(&mut self) -> Result<()> {
        Ok(self.partition.run(&self.buffers.0, &self.buffers.1)?)
    }

    fn verify(&mut self) -> Result<Verified> {
        self.check(&self.read()?)
    }

    fn operations(&self) -> u64 {
        self.pairs.0.len() as u64
    }

    fn metrics(&self) -> Vec<Metric> {
        // Counts read each key; the partition reads and writes each pair.
        let bytes = (3 * size_of::<K>() + 2 * size_of::<V>()) * self.pairs.0.len();
        let chunks = ("chunks".to_owned(), self.partition.chunks() as f64);
        vec![Metric::BytesMoved(bytes as u64), Metric::Counted([chunks].into())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;
    use crate::engine::record::Param;
    use crate::machine::DeviceChoice;

    fn case(owners: i64, keys: &str) -> Case {
        let mut case = first_case("sharded/partition", 0);
        case.params.insert("owners".to_owned(), Param::Integer(owners));
        case.params.insert("keys".to_owned(), Param::Text(keys.to_owned()));
        case
    }

    /// Returns a partition that has run, and what it has written.
    fn ran<K: MapWord + Word>(gpu: &Gpu, case: &Case) -> (Prepared<K, K>, Found) {
        let mut prepared = Prepared::<K, K>::new(gpu, case).unwrap();
        prepared.restore().unwrap();
        assert!(prepared.verify().unwrap_err().to_string().contains("chunk 0: owner 0 has"));
        prepared.launch().unwrap();
        let found = prepared.read().unwrap();
        assert_eq!(prepared.check(&found).unwrap(), Verified::all(case.n as usize));
        (prepared, found)
    }

    /// Change of a part of a message. Its arguments are the words of the chunk's messages, and the indices of
    /// the part's first key and first value.
    type Change<K> = fn(&mut [K], usize, usize);

    /// Checks that a change of the second part for owner 1 in chunk 1 is reported.
    fn check_fault<K: MapWord + Word>(prepared: &Prepared<K, K>, found: &mut Found, change: Change<K>) {
        let parts = prepared.partition.parts(&prepared.counts[3..6], 1);
        let ((_, before), (begin, count)) = (parts[0], parts[1]);
        let (key, value) =
            (begin / size_of::<K>(), (begin + values_at(count, size_of::<K>())) / size_of::<K>());
        let messages = found.messages[1].clone();
        change(bytemuck::cast_slice_mut(&mut found.messages[1]), key, value);
        let error = format!("{:#}", prepared.check(found).unwrap_err());
        assert!(error.contains(&format!("chunk 1, owner 1: pair {before} is")), "{error}");
        found.messages[1] = messages;
    }

    fn check_faults<K: MapWord + Word>() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let (prepared, mut found) = ran::<K>(&gpu, &case(3, "uniform"));
        let swap_pairs: Change<K> = |words, key, value| {
            words.swap(key, key + 1);
            words.swap(value, value + 1);
        };
        let lose_pair: Change<K> = |words, key, value| {
            words[key] = words[key + 1];
            words[value] = words[value + 1];
        };
        let swap_values: Change<K> = |words, _, value| words.swap(value, value + 1);
        for change in [swap_pairs, lose_pair, swap_values] {
            check_fault(&prepared, &mut found, change);
        }
        prepared.check(&found).unwrap();
        found.counts[4] += 1;
        assert!(prepared.check(&found).unwrap_err().to_string().contains("chunk 1: owner 1 has"));
    }

    #[test]
    fn swapped_and_lost_pairs_and_wrong_counts_are_faults() {
        check_faults::<u32>();
        check_faults::<u64>();
    }

    #[test]
    fn one_owner_may_have_all_pairs() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let (prepared, _) = ran::<u64>(&gpu, &case(4, "one_owner"));
        assert!(prepared.counts.chunks(4).all(|counts| [counts[0], counts[2], counts[3]] == [0; 3]));
        assert!(prepared.partition.parts(&prepared.counts[..4], 1).len() > 3, "several rounds");
        let error = Prepared::<u64, u64>::new(&gpu, &case(1, "one_owner")).err().unwrap();
        assert!(error.to_string().contains("another one than rank 0"));
    }
}
