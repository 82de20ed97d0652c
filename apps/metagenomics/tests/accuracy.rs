//! Accuracy on simulated reads, on the emulator.
use genomes::kmers::Length;
use genomes::table::TableOptions;
use indicatif::ProgressBar;
use metagenomics::classify::{Classified, Options, classify};
use metagenomics::database::{Database, TaxonOf};
use metagenomics::taxonomy::Taxonomy;
use phalanx::gpu::Device;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use tempfile::TempDir;
use workloads::{Community, CommunityOptions, Genome};

/// Two genera of two species, which differ from their ancestors in 2 % of the bases.
const SPECIES: CommunityOptions = CommunityOptions { genera: 2, species: 2, len: 3000, divergence: 0.02 };
const READS: usize = 300;
/// Share of the bases of reads that are wrong.
const ERRORS: f64 = 0.02;

/// A community on disk.
struct Sample {
    folder: TempDir,
    genomes: Vec<PathBuf>,
    taxonomy: Taxonomy,
}

impl Sample {
    fn new() -> Self {
        Self::of(SPECIES, READS)
    }

    fn of(species: CommunityOptions, reads: usize) -> Self {
        let community = Community::random(species, 1).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let write = |species: &workloads::community::Species| {
            let path = folder.path().join(format!("{}.fa", species.name));
            species.genome.write_fasta(File::create(&path).unwrap(), &species.name, 60).unwrap();
            path
        };
        let genomes = community.species().iter().map(write).collect();
        let mut taxonomy = Vec::new();
        community.write_taxonomy(&mut taxonomy).unwrap();
        let reads = community.reads(reads, 100, ERRORS, 2).unwrap();
        community.write_fastq(File::create(folder.path().join("reads.fq")).unwrap(), &reads, ERRORS).unwrap();
        let taxonomy = Taxonomy::parse(std::str::from_utf8(&taxonomy).unwrap()).unwrap();
        Self { folder, genomes, taxonomy }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn database(&self, taxon_of: TaxonOf, bases: u32, table: &TableOptions) -> Database {
        let (source, length) = ((self.taxonomy.clone(), taxon_of), Length::new(bases).unwrap());
        let hidden = ProgressBar::hidden();
        Database::build(&self.genomes, source, &emulator(), (length, table), &hidden).unwrap()
    }
}

fn emulator() -> Device {
    Device::named("emulator").unwrap()
}

const WHOLE: TableOptions = TableOptions { capacity: 10_000, budget: None, baseline: None, batch: 2000 };

/// Returns the result, and the name and taxon of each read.
fn classified(database: &Database, reads: &Path, batch: usize) -> (Classified, Vec<(String, String)>) {
    let (options, mut lines) = (Options { min_share: 0.1, batch }, Vec::new());
    let files = [reads.to_owned()];
    let hidden = ProgressBar::hidden();
    let classified = classify(&files, database, &emulator(), &options, Some(&mut lines), &hidden).unwrap();
    let columns = |line: &str| -> (String, String) {
        let mut columns = line.split('\t').map(str::to_owned);
        (columns.next().unwrap(), columns.next().unwrap())
    };
    (classified, String::from_utf8(lines).unwrap().lines().map(columns).collect())
}

/// Sorted k-mers and their taxa by name.
fn contents(database: &Database) -> Vec<(u64, String)> {
    let (kmers, taxa) = database.table.export().unwrap();
    let named = taxa.iter().map(|&taxon| database.taxonomy.name(taxon).to_owned());
    let mut pairs: Vec<_> = kmers.into_iter().zip(named).collect();
    pairs.sort_unstable();
    pairs
}

/// The bar: at least 95 % of the reads are assigned to their species, and at least 98 % to it or its genus.
/// At most 1 % are assigned to another species or genus. The shares of the species differ from the true ones
/// by at most 3 points.
#[test]
fn reads_are_assigned_to_their_species() {
    let sample = Sample::new();
    let database = sample.database(TaxonOf::File, 16, &WHOLE);
    let (result, lines) = classified(&database, &sample.path("reads.fq"), 7000);
    assert_eq!((lines.len(), result.reading.input.letters), (READS, 100 * READS as u64));
    let truth = |name: &str| name.split(':').next().unwrap().to_owned();
    let share = |is: &dyn Fn(&str, &str) -> bool| {
        let matching = lines.iter().filter(|(name, taxon)| is(&truth(name), taxon));
        matching.count() as f64 / READS as f64
    };
    let right = share(&|species, taxon| species == taxon);
    let near = share(&|species, taxon| species.starts_with(taxon));
    let none = share(&|_, taxon| taxon == "unclassified" || taxon == "root");
    println!("right species {right}, species or genus {near}, neither {none}");
    assert!(right >= 0.95 && near >= 0.98 && 1.0 - near - none <= 0.01, "{right} {near} {none}");
    for species in sample.genomes.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()) {
        let (truly, found) = (share(&|name, _| name == species), share(&|_, taxon| taxon == species));
        assert!((truly - found).abs() <= 0.03, "{species}: {found} instead of {truly}");
    }
}

/// The bar: at least 98 % of the reads of a genome without relatives among the references are unclassified.
#[test]
fn strangers_are_unclassified() {
    let sample = Sample::new();
    let database = sample.database(TaxonOf::File, 16, &WHOLE);
    let stranger = Genome::random(3000, 99).reads(100, 100, ERRORS, 3).unwrap();
    let path = sample.path("stranger.fq");
    workloads::genome::write_fastq(File::create(&path).unwrap(), &stranger, ERRORS).unwrap();
    let (result, _) = classified(&database, &path, 1 << 14);
    assert!(result.unclassified >= 98, "{} of 100", result.unclassified);
}

#[test]
fn kmers_have_the_lowest_common_ancestor_of_their_taxa() {
    let sample = Sample::new();
    let pairs = contents(&sample.database(TaxonOf::File, 16, &WHOLE));
    assert_eq!(pairs, expected(&sample, 16));
    let count = |end: &str| pairs.iter().filter(|(_, taxon)| taxon.starts_with(end)).count();
    let genera = pairs.iter().filter(|(_, taxon)| taxon.starts_with("genus") && !taxon.contains('-')).count();
    assert!(genera > 300 && count("genus1-") > 2000, "{genera} k-mers of genera");
    // The names of records are those of files.
    assert_eq!(contents(&sample.database(TaxonOf::Header, 16, &WHOLE)), pairs);
}

/// Returns the contents of the database by the definition.
fn expected(sample: &Sample, bases: u32) -> Vec<(u64, String)> {
    let mut taxa = std::collections::BTreeMap::<u64, u32>::new();
    for path in &sample.genomes {
        let text = fs::read_to_string(path).unwrap();
        let taxon = sample.taxonomy.number(path.file_stem().unwrap().to_str().unwrap()).unwrap();
        let letters: String = text.lines().skip(1).collect();
        let strand = genomes::kmers::Strand::Canonical;
        for kmer in genomes::kmers::kmers(letters.as_bytes(), Length::new(bases).unwrap(), strand) {
            let stored = taxa.entry(kmer).or_insert(taxon);
            *stored = sample.taxonomy.common(*stored, taxon);
        }
    }
    taxa.into_iter().map(|(kmer, taxon)| (kmer, sample.taxonomy.name(taxon).to_owned())).collect()
}

#[test]
fn a_budget_changes_no_result() {
    // The emulator takes some 30 ms for each chunk of 128 k-mers.
    let sample = Sample::of(CommunityOptions { len: 150, ..SPECIES }, 4);
    let whole = sample.database(TaxonOf::File, 31, &WHOLE);
    let expected = classified(&whole, &sample.path("reads.fq"), 1 << 20).1;
    let budget = 128 << 10;
    for (capacity, baseline) in [(16_000, None), (16_000, Some(genomes::table::Baseline::Remote))] {
        let table = TableOptions { capacity, baseline, budget: Some(budget), batch: 300 };
        let database = sample.database(TaxonOf::File, 31, &table);
        assert!(contents(&database) == contents(&whole), "{table:?}");
        assert!(classified(&database, &sample.path("reads.fq"), 300).1 == expected, "{table:?}");
        let memory = database.table.memory();
        assert!(memory.device <= budget && memory.host > 2 * budget, "{memory}");
    }
}

#[test]
fn short_low_and_empty_input() {
    let sample = Sample::new();
    let database = sample.database(TaxonOf::File, 1, &WHOLE);
    assert_eq!(contents(&database).len(), 2, "A and C stand for T and G");
    let path = sample.path("odd.fa");
    fs::write(&path, ">none\nNNNN\n>one\nA\n").unwrap();
    let (result, lines) = classified(&database, &path, 1);
    let expected = [("none", "unclassified"), ("one", "root")];
    let expected = expected.map(|(name, taxon)| (name.to_owned(), taxon.to_owned()));
    assert_eq!((lines, result.unclassified), (expected.to_vec(), 1));
}
