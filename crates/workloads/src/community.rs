//! Genomes of related species, and reads of all of them: input for metagenomic classifiers.
//!
//! Each genus has a random ancestor, of which each of its species is a relative ([`Genome::mutated`]). So two
//! species of a genus share k-mers: with a divergence d, two genomes have the k-mer at a place in common with
//! a probability of about (1 - d)^2k. Species of different genera share k-mers by chance only.
use crate::genome::{Genome, Read};
use crate::random::{Source, tabulate, unit};
use crate::{Error, Result};
use std::io::{self, Write};

/// Parameters of a [`Community`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommunityOptions {
    /// Number of genera, at least 1.
    pub genera: usize,
    /// Number of species in each genus, at least 1.
    pub species: usize,
    /// Length of each genome in bases.
    pub len: usize,
    /// Share of the bases in which a species differs from its genus's ancestor, in `0..=1`.
    pub divergence: f64,
}

/// A species of a [`Community`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Species {
    /// Name, such as `genus1-species2`.
    pub name: String,
    /// Name of its genus.
    pub genus: String,
    /// Its genome.
    pub genome: Genome,
}

/// Genomes of several species, in genera of related ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Community(Vec<Species>);

impl Community {
    /// Generates the genomes.
    ///
    /// # Errors
    /// [`Error::Empty`] when there are no genera or no species; [`Error::OutOfRange`] when the divergence is
    /// not in `0..=1`.
    pub fn random(options: CommunityOptions, seed: u64) -> Result<Self> {
        let CommunityOptions { genera, species, len, divergence } = options;
        if genera == 0 || species == 0 {
            return Err(Error::Empty { what: "the number of species" });
        }
        let seeds = Source::new(seed, "community").words::<2>();
        let mut all = Vec::with_capacity(genera * species);
        for genus in 0..genera {
            let ancestor = Genome::random(len, seeds[0].wrapping_add(genus as u64));
            for number in 0..species {
                let seed = seeds[1].wrapping_add((genus * species + number) as u64);
                let genome = ancestor.mutated(divergence, seed)?;
                let genus = format!("genus{}", genus + 1);
                all.push(Species { name: format!("{genus}-species{}", number + 1), genus, genome });
            }
        }
        Ok(Self(all))
    }

    /// Returns all species, by genus.
    pub fn species(&self) -> &[Species] {
        &self.0
    }

    /// Generates `count` reads of `len` bases, each with the index of its species. Of two species, the one
    /// with index i has (j + 1) / (i + 1) times as many reads as the one with index j, on average.
    ///
    /// # Errors
    /// As [`Genome::reads`].
    pub fn reads(&self, count: usize, len: usize, error_rate: f64, seed: u64) -> Result<Vec<(usize, Read)>> {
        self.0.iter().try_for_each(|species| species.genome.check_reads(len, error_rate))?;
        let mut sum = 0.0;
        let sums: Vec<f64> = (1..=self.0.len())
            .map(|place| {
                sum += 1.0 / place as f64;
                sum
            })
            .collect();
        let source = Source::new(seed, "community reads");
        Ok(tabulate(count, |index| {
            let mut generator = source.chunk(index);
            let choice = unit(&mut generator) * sum;
            let index = sums.partition_point(|&sum| sum <= choice).min(self.0.len() - 1);
            (index, self.0[index].genome.read(&mut generator, len, error_rate))
        }))
    }

    /// Writes reads as FASTQ. The name of each consists of its species and its number: `genus1-species2:17`.
    ///
    /// # Errors
    /// [`io::Error`] when the writer fails.
    pub fn write_fastq(
        &self,
        mut out: impl Write,
        reads: &[(usize, Read)],
        error_rate: f64,
    ) -> io::Result<()> {
        let mut numbered = reads.iter().enumerate();
        numbered.try_for_each(|(number, (index, read))| {
            let name = format!("{}:{number}", self.0[*index].name);
            read.write_fastq(&mut out, &name, error_rate)
        })
    }

    /// Writes the taxonomy: a line per species with its name, a tab, and its genus.
    ///
    /// # Errors
    /// [`io::Error`] when the writer fails.
    pub fn write_taxonomy(&self, mut out: impl Write) -> io::Result<()> {
        self.0.iter().try_for_each(|species| writeln!(out, "{}\t{}", species.name, species.genus))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: CommunityOptions =
        CommunityOptions { genera: 2, species: 3, len: 20_000, divergence: 0.02 };

    fn differing(left: &Genome, right: &Genome) -> usize {
        left.bases().iter().zip(right.bases()).filter(|(left, right)| left != right).count()
    }

    #[test]
    fn species_of_a_genus_are_related() {
        let community = Community::random(OPTIONS, 1).unwrap();
        let [first, second, .., last] = community.species() else { panic!("six species") };
        assert_eq!(
            (&first.name[..], &second.genus[..], &last.name[..]),
            ("genus1-species1", "genus1", "genus2-species3")
        );
        // Each differs in 400 bases from the ancestor, so two differ in about 795.
        let near = differing(&first.genome, &second.genome);
        assert!((680..910).contains(&near), "{near}");
        let far = differing(&first.genome, &last.genome);
        assert!((14_600..15_400).contains(&far), "{far}: three quarters by chance");
    }

    #[test]
    fn reads_come_from_their_species_by_their_shares() {
        let community = Community::random(OPTIONS, 1).unwrap();
        let reads = community.reads(4_900, 100, 0.0, 2).unwrap();
        let count = |wanted| reads.iter().filter(|(index, _)| *index == wanted).count();
        // The shares are 1, 1/2, ... 1/6 of 2.45.
        assert!((1_860..2_140).contains(&count(0)), "{}", count(0));
        assert!((280..390).contains(&count(5)), "{}", count(5));
        for (index, read) in &reads[..100] {
            let mut original =
                community.species()[*index].genome.bases()[read.start..read.start + 100].to_vec();
            if read.reverse {
                crate::genome::reverse_complement(&mut original);
            }
            assert_eq!(original, read.bases);
        }
    }

    #[test]
    fn texts_have_their_formats() {
        let community = Community::random(OPTIONS, 1).unwrap();
        let reads = community.reads(1, 50, 0.0, 2).unwrap();
        let (mut fastq, mut taxonomy) = (Vec::new(), Vec::new());
        community.write_fastq(&mut fastq, &reads, 0.0).unwrap();
        community.write_taxonomy(&mut taxonomy).unwrap();
        let name = format!("@{}:0 start=", community.species()[reads[0].0].name);
        assert!(String::from_utf8(fastq).unwrap().starts_with(&name));
        assert!(String::from_utf8(taxonomy).unwrap().starts_with("genus1-species1\tgenus1\n"));
    }

    #[test]
    fn bad_requests_are_errors() {
        assert!(matches!(
            Community::random(CommunityOptions { species: 0, ..OPTIONS }, 1),
            Err(Error::Empty { .. })
        ));
        let wrong = CommunityOptions { divergence: 2.0, ..OPTIONS };
        assert!(matches!(Community::random(wrong, 1), Err(Error::OutOfRange { .. })));
        let community = Community::random(OPTIONS, 1).unwrap();
        assert!(matches!(community.reads(1, 20_001, 0.0, 1), Err(Error::TooMany { .. })));
    }
}
