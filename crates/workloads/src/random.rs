//! The pinned generator: ChaCha8, with one seed per purpose and one stream per chunk of the output.
//!
//! A long output is split into chunks of [`CHUNK`] items. Chunk `c` draws from stream `c` of the cipher, so
//! its items depend only on the seed, the purpose and `c`, and threads may generate the chunks in any order.
use crate::parallel;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;

/// Number of items that share a stream of the generator. Part of every input's definition: another value
/// changes the inputs.
pub const CHUNK: usize = 1 << 14;

/// Source of randomness for one purpose. Different purposes under one seed are independent.
#[derive(Clone, Debug)]
pub struct Source {
    key: [u8; 32],
}

impl Source {
    /// Creates the source for `purpose` under `seed`. The cipher's key is the seed's 8 bytes (little endian)
    /// followed by the first 24 bytes of the purpose, padded with zeros.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        for (place, byte) in key[8..].iter_mut().zip(purpose.bytes()) {
            *place = byte;
        }
        Self { key }
    }

    /// Returns the generator of chunk `index`.
    pub fn chunk(&self, index: u64) -> ChaCha8Rng {
        let mut generator = ChaCha8Rng::from_seed(self.key);
        generator.set_stream(index);
        generator
    }

    /// Returns the first words of chunk 0, for example as parameters of a bijection.
    pub fn words<const N: usize>(&self) -> [u64; N] {
        let mut generator = self.chunk(0);
        std::array::from_fn(|_| generator.next_u64())
    }

    /// Generates `len` items in parallel; item `i` is `make(generator, i)`.
    pub fn generate<T>(&self, len: usize, make: impl Fn(&mut ChaCha8Rng, usize) -> T + Sync) -> Vec<T>
    where
        T: Copy + Default + Send,
    {
        let mut items = vec![T::default(); len];
        items.par_chunks_mut(CHUNK).enumerate().for_each(|(chunk, items)| {
            let mut generator = self.chunk(chunk as u64);
            for (place, item) in items.iter_mut().enumerate() {
                *item = make(&mut generator, chunk * CHUNK + place);
            }
        });
        items
    }
}

/// Generates `len` items in parallel; item `i` is `make(i)`.
pub fn tabulate<T: Send>(len: usize, make: impl Fn(u64) -> T + Sync) -> Vec<T> {
    parallel::tabulate(len, |index| make(index as u64))
}

/// Returns a number in `0..1` with 53 random bits.
pub fn unit(generator: &mut impl Rng) -> f64 {
    (generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// Returns a number in `0..range`, by the high half of a product. The bias is below `range / 2^64`.
pub fn below(generator: &mut impl Rng, range: u64) -> u64 {
    ((generator.next_u64() as u128 * range as u128) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made_by(threads: usize) -> Vec<u64> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| Source::new(7, "test").generate(100_000, |generator, _| generator.next_u64()))
    }

    #[test]
    fn the_number_of_threads_does_not_matter() {
        assert_eq!(made_by(1), made_by(3));
    }

    #[test]
    fn a_prefix_of_a_longer_output_is_the_shorter_output() {
        let long = Source::new(7, "test").generate(3 * CHUNK, |generator, _| generator.next_u64());
        let short = Source::new(7, "test").generate(CHUNK + 5, |generator, _| generator.next_u64());
        assert_eq!(short, long[..CHUNK + 5]);
    }

    #[test]
    fn seeds_and_purposes_differ() {
        let words = |seed, purpose| Source::new(seed, purpose).words::<2>();
        assert_ne!(words(1, "a"), words(2, "a"));
        assert_ne!(words(1, "a"), words(1, "b"));
    }

    #[test]
    fn unit_and_below_stay_in_range_and_spread() {
        let mut generator = Source::new(1, "spread").chunk(0);
        let mean = (0..100_000).map(|_| unit(&mut generator)).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
        let mut counts = [0; 10];
        (0..100_000).for_each(|_| counts[below(&mut generator, 10) as usize] += 1);
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }
}
