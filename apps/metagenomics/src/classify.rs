//! Classification of reads.
//!
//! Each k-mer of a read that the database has votes for its taxon. The score of a taxon is the number of
//! votes for it and its ancestors; the read is assigned to the taxon with the highest score, or to the lowest
//! common ancestor of several. It remains unclassified if the score is below a share of the read's k-mers.
use crate::database::Database;
use crate::taxonomy::Taxonomy;
use anyhow::{Result, anyhow};
use genomes::blocks::{Block, Blocks, Pieces};
use genomes::feed::Column;
use genomes::kmers::{Length, Strand, kmers};
use genomes::read::{Input, Reader, Reading, read};
use indicatif::ProgressBar;
use phalanx::gpu::Device;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Options for [`classify`].
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Least share of a read's k-mers that must support its taxon, in `0..=1`.
    pub min_share: f64,
    /// Number of k-mers in a batch.
    pub batch: usize,
}

/// Taxon of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// Number of the taxon, `None` if the read is unclassified.
    pub taxon: Option<u32>,
    /// Number of k-mers that support the taxon: those of the taxon and its ancestors.
    pub support: usize,
    /// Number of k-mers of the read.
    pub kmers: usize,
}

/// Result of [`classify`].
#[derive(Clone, Debug, Default)]
pub struct Classified {
    /// Number of reads of each taxon.
    pub reads: Vec<u64>,
    /// Number of reads without a taxon.
    pub unclassified: u64,
    /// Totals and time of reading.
    pub reading: Reading,
    /// Time of the calls that look up k-mers, which overlap with reading.
    pub looking_up: Duration,
}

/// Classifies the reads of files. Writes a line per read to `out`, if there is one, in the order of the
/// reads: name, taxon or `unclassified`, supporting k-mers, k-mers; separated by tabs.
///
/// # Errors
/// Returns [`anyhow::Error`] when a file cannot be read or is neither FASTA nor FASTQ, `out` fails, or the
/// device fails.
pub fn classify<'a>(
    files: &[PathBuf],
    database: &'a Database,
    device: &Device,
    options: &Options,
    out: Option<&'a mut dyn Write>,
    progress: &ProgressBar,
) -> Result<Classified> {
    let mut classifier = Classifier::new(database, device, options, out)?;
    let (sender, receiver) = sync_channel(WAITING);
    let names = classifier.out.is_some();
    let length = database.length;
    let new = move || Extractor {
        length,
        names,
        sender: sender.clone(),
        input: Input::default(),
        waited: Duration::ZERO,
    };
    let blocks = Blocks::new(files, Pieces::Records, progress);
    let reading = thread::scope(|scope| {
        let reader = scope.spawn(move || read(blocks, new));
        let classified = classifier.run(receiver);
        let reading = reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        // If the classifier fails, the reader's error is only that it is gone.
        classified.and(reading)
    })?;
    Ok(Classified { reading, ..classifier.result })
}

/// Number of blocks that wait for the classifier before the readers do.
const WAITING: usize = 64;

/// The reads of a block.
#[derive(Clone, Debug, Default)]
struct Reads {
    number: u64,
    /// Names, if they are written.
    names: Vec<String>,
    /// Number of k-mers of each read.
    lens: Vec<usize>,
    kmers: Vec<u64>,
}

/// Extracts the k-mers of reads.
struct Extractor {
    length: Length,
    names: bool,
    sender: SyncSender<Reads>,
    input: Input,
    waited: Duration,
}

impl Reader for Extractor {
    fn take(&mut self, block: &Block) -> Result<()> {
        let mut reads = Reads { number: block.number, ..Reads::default() };
        block.for_each(|record| {
            let before = reads.kmers.len();
            reads.kmers.extend(kmers(record.letters, self.length, Strand::Canonical));
            let found = reads.kmers.len() - before;
            reads.lens.push(found);
            self.names.then(|| reads.names.push(record.name()));
            self.input.add(record, found as u64);
            Ok(())
        })?;
        let start = Instant::now();
        let sent = self.sender.send(reads);
        self.waited += start.elapsed();
        sent.map_err(|_| anyhow!("the classification has ended early"))
    }

    fn finish(self) -> Result<(Input, Duration)> {
        Ok((self.input, self.waited))
    }
}

/// Value for k-mers that the database lacks. There are never so many taxa.
const ABSENT: u32 = u32::MAX;

/// Looks up k-mers, and assigns reads.
struct Classifier<'a> {
    database: &'a Database,
    options: Options,
    kmers: Column<u64>,
    taxa: Column<u32>,
    found: Vec<bool>,
    result: Classified,
    out: Option<Ordered<'a>>,
}

impl<'a> Classifier<'a> {
    fn new(
        database: &'a Database,
        device: &Device,
        options: &Options,
        out: Option<&'a mut dyn Write>,
    ) -> Result<Self> {
        let size = options.batch.max(1);
        Ok(Self {
            database,
            options: Options { batch: size, ..*options },
            kmers: Column::new(device, size)?,
            taxa: Column::new(device, size)?,
            found: vec![false; size],
            result: Classified { reads: vec![0; database.taxonomy.len()], ..Classified::default() },
            out: out.map(|out| Ordered { out, waiting: BTreeMap::new(), next: 0 }),
        })
    }

    /// Classifies all reads, in batches of about the same number of k-mers.
    fn run(&mut self, receiver: Receiver<Reads>) -> Result<()> {
        let (mut waiting, mut len) = (Vec::new(), 0);
        for reads in receiver {
            len += reads.kmers.len();
            waiting.push(reads);
            if len >= self.options.batch {
                self.classify(&waiting)?;
                (waiting, len) = (Vec::new(), 0);
            }
        }
        self.classify(&waiting)
    }

    fn classify(&mut self, blocks: &[Reads]) -> Result<()> {
        let mut taxa = &self.look_up(blocks)?[..];
        let mut parts = Vec::with_capacity(blocks.len());
        for reads in blocks {
            let (part, rest) = taxa.split_at(reads.kmers.len());
            parts.push((reads, part));
            taxa = rest;
        }
        let (taxonomy, share) = (&self.database.taxonomy, self.options.min_share);
        let assign = |(reads, taxa): (&Reads, &[u32])| assign_all(taxonomy, &reads.lens, taxa, share);
        let assigned: Vec<_> = parts.into_par_iter().map(assign).collect();
        blocks.iter().zip(assigned).try_for_each(|(reads, assigned)| self.record(reads, &assigned))
    }

    /// Returns the taxa of all k-mers of some blocks, or [`ABSENT`].
    fn look_up(&mut self, blocks: &[Reads]) -> Result<Vec<u32>> {
        let size = self.options.batch;
        let mut all = Vec::with_capacity(blocks.iter().map(|reads| reads.kmers.len()).sum());
        let (mut batch, mut len) = (Vec::new(), 0);
        for part in blocks.iter().flat_map(|reads| reads.kmers.chunks(size)) {
            if len + part.len() > size {
                self.look_up_batch(&batch, &mut all)?;
                (batch, len) = (Vec::new(), 0);
            }
            len += part.len();
            batch.push(part);
        }
        self.look_up_batch(&batch, &mut all)?;
        Ok(all)
    }

    /// Appends the taxa of the k-mers of a batch.
    fn look_up_batch(&mut self, batch: &[&[u64]], all: &mut Vec<u32>) -> Result<()> {
        let kmers = self.kmers.fill(batch.iter().copied())?;
        let (taxa, found) = (self.taxa.first(kmers.len())?, &mut self.found[..kmers.len()]);
        let start = Instant::now();
        self.database.table.get_into(kmers, taxa, found)?;
        self.result.looking_up += start.elapsed();
        let values = (&*taxa, &*found).into_par_iter();
        all.par_extend(values.map(|(&taxon, &found)| if found { taxon } else { ABSENT }));
        Ok(())
    }

    /// Counts the reads of a block, and writes their lines when those of all blocks before are written.
    fn record(&mut self, reads: &Reads, assigned: &[Assignment]) -> Result<()> {
        for assignment in assigned {
            match assignment.taxon {
                Some(taxon) => self.result.reads[taxon as usize] += 1,
                None => self.result.unclassified += 1,
            }
        }
        let Some(out) = &mut self.out else { return Ok(()) };
        out.put(reads.number, lines(&self.database.taxonomy, reads, assigned)?)
    }
}

/// Writes the lines of blocks in the order of their numbers. Blocks come in any order.
struct Ordered<'a> {
    out: &'a mut dyn Write,
    /// Lines of blocks that come after the next one.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// Number of the next block.
    next: u64,
}

impl Ordered<'_> {
    fn put(&mut self, number: u64, lines: Vec<u8>) -> Result<()> {
        self.waiting.insert(number, lines);
        while let Some(lines) = self.waiting.remove(&self.next) {
            self.out.write_all(&lines)?;
            self.next += 1;
        }
        Ok(())
    }
}

fn lines(taxonomy: &Taxonomy, reads: &Reads, assigned: &[Assignment]) -> Result<Vec<u8>> {
    let mut lines = Vec::new();
    for (name, Assignment { taxon, support, kmers }) in reads.names.iter().zip(assigned) {
        let taxon = taxon.map_or("unclassified", |taxon| taxonomy.name(taxon));
        writeln!(lines, "{name}\t{taxon}\t{support}\t{kmers}")?;
    }
    Ok(lines)
}

/// Assigns the reads of a block. Their k-mers have these taxa, one read after the other.
fn assign_all(taxonomy: &Taxonomy, lens: &[usize], mut taxa: &[u32], share: f64) -> Vec<Assignment> {
    let assign = |&len: &usize| {
        let (own, rest) = taxa.split_at(len);
        taxa = rest;
        assign(taxonomy, own, share)
    };
    lens.iter().map(assign).collect()
}

/// Assigns a read whose k-mers have these taxa.
fn assign(taxonomy: &Taxonomy, taxa: &[u32], share: f64) -> Assignment {
    let votes = votes(taxa);
    let score = |taxon: u32| -> usize {
        let above = votes.iter().filter(|&&(other, _)| taxonomy.is_above(other, taxon));
        above.map(|&(_, count)| count).sum()
    };
    let scores: Vec<_> = votes.iter().map(|&(taxon, _)| (taxon, score(taxon))).collect();
    let support = scores.iter().map(|&(_, score)| score).max().unwrap_or(0);
    let best = scores.iter().filter(|&&(_, score)| score == support).map(|&(taxon, _)| taxon);
    let best = best.reduce(|left, right| taxonomy.common(left, right));
    let taxon = best.filter(|_| support as f64 >= share * taxa.len() as f64);
    Assignment { taxon, support, kmers: taxa.len() }
}

/// Returns the number of k-mers of each taxon.
fn votes(taxa: &[u32]) -> Vec<(u32, usize)> {
    let mut present: Vec<u32> = taxa.iter().copied().filter(|&taxon| taxon != ABSENT).collect();
    present.sort_unstable();
    present.chunk_by(|left, right| left == right).map(|group| (group[0], group.len())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a tree of a genus with species a and b, and a phage.
    fn tree() -> (Taxonomy, [u32; 4]) {
        let mut tree = Taxonomy::parse("a\tgenus\nb\tgenus\n").unwrap();
        tree.number_or_add("phage").unwrap();
        let numbers = ["genus", "a", "b", "phage"].map(|name| tree.number(name).unwrap());
        (tree, numbers)
    }

    #[test]
    fn votes_of_ancestors_count_for_all_below() {
        let (tree, [genus, a, b, phage]) = tree();
        let taxon = |taxa: &[u32]| {
            let Assignment { taxon, support, .. } = assign(&tree, taxa, 0.25);
            (taxon.map(|taxon| tree.name(taxon).to_owned()).unwrap_or_default(), support)
        };
        assert_eq!(taxon(&[genus, genus, a, ABSENT]), ("a".into(), 3));
        assert_eq!(taxon(&[genus, a, b]), ("genus".into(), 2), "a and b have the same score");
        assert_eq!(taxon(&[phage, a]), ("root".into(), 1));
        assert_eq!(taxon(&[phage, phage, a, b]), ("phage".into(), 2));
    }

    #[test]
    fn lines_are_written_in_order() {
        let mut text = Vec::new();
        let mut ordered = Ordered { out: &mut text, waiting: BTreeMap::new(), next: 0 };
        for number in [3, 1, 0, 2, 4] {
            ordered.put(number, number.to_string().into_bytes()).unwrap();
        }
        assert!(ordered.waiting.is_empty() && text == b"01234", "{text:?}");
    }

    #[test]
    fn too_few_votes_are_none() {
        let (tree, [_, a, ..]) = tree();
        let assignment = |taxa: &[u32]| assign(&tree, taxa, 0.25);
        assert_eq!(assignment(&[a, ABSENT, ABSENT, ABSENT]).taxon, Some(a));
        let four = assignment(&[a, ABSENT, ABSENT, ABSENT, ABSENT]);
        assert_eq!(four, Assignment { taxon: None, support: 1, kmers: 5 });
        assert_eq!(assignment(&[]), Assignment { taxon: None, support: 0, kmers: 0 });
        assert_eq!(assign(&tree, &[ABSENT], 0.0).taxon, None, "a share of 0 needs a vote, too");
    }
}
