//! Abundances, for files and terminals.
use crate::classify::Classified;
use crate::database::Database;
use crate::taxonomy::{ROOT, Taxonomy};
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use genomes::output::{grouped, print_stage};
use std::cmp::Reverse;
use std::io::{self, Write};

/// Abundance of a taxon.
#[derive(Clone, Debug, PartialEq)]
pub struct Abundance {
    /// Number of the taxon.
    pub taxon: u32,
    /// Number of reads that are assigned to the taxon itself.
    pub reads: u64,
    /// Number of reads that are assigned to the taxon or one below it.
    pub clade: u64,
    /// Share of the clade in all reads that are classified.
    pub share: f64,
}

/// Returns the abundances of all taxa whose clades have reads: the largest first, equal ones from the root
/// down and then by name.
pub fn abundances(taxonomy: &Taxonomy, classified: &Classified) -> Vec<Abundance> {
    let mut clades = classified.reads.clone();
    // A parent has a smaller number than its children.
    for taxon in (ROOT + 1..taxonomy.len() as u32).rev() {
        clades[taxonomy.parent(taxon) as usize] += clades[taxon as usize];
    }
    let all = clades[ROOT as usize].max(1) as f64;
    let rows = classified.reads.iter().zip(&clades).zip(0..).filter(|((_, clade), _)| **clade > 0);
    let mut rows: Vec<_> = rows
        .map(|((&reads, &clade), taxon)| Abundance { taxon, reads, clade, share: clade as f64 / all })
        .collect();
    let depth = |taxon: u32| {
        std::iter::successors(Some(taxon), |&taxon| (taxon != ROOT).then(|| taxonomy.parent(taxon))).count()
    };
    rows.sort_by_cached_key(|row| {
        (Reverse(row.clade), depth(row.taxon), taxonomy.name(row.taxon).to_owned())
    });
    rows
}

/// Writes a header and a line per taxon with reads: name, parent, reads, reads of the clade and their share
/// of the classified ones, separated by tabs. The last line has the unclassified reads.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn write_abundances(taxonomy: &Taxonomy, classified: &Classified, mut out: impl Write) -> io::Result<()> {
    writeln!(out, "taxon\tparent\treads\tclade_reads\tclade_share")?;
    for Abundance { taxon, reads, clade, share } in abundances(taxonomy, classified) {
        let parent = if taxon == ROOT { "" } else { taxonomy.name(taxonomy.parent(taxon)) };
        writeln!(out, "{}\t{parent}\t{reads}\t{clade}\t{share:.6}", taxonomy.name(taxon))?;
    }
    writeln!(out, "unclassified\t\t{0}\t{0}\t", classified.unclassified)?;
    out.flush()
}

/// Prints the totals of the database and of the reads, and the device.
///
/// # Errors
/// Returns [`anyhow::Error`] when writing to `out` fails, or the device does.
pub fn print_totals(
    database: &Database,
    classified: &Classified,
    device: &str,
    out: &mut impl Write,
) -> Result<()> {
    let (references, reads) = (database.reading.input, classified.reading.input);
    let k = database.length.get();
    writeln!(out, "references       {:>16} letters", grouped(references.letters))?;
    writeln!(out, "taxa             {:>16}", grouped(database.taxonomy.len() as u64))?;
    writeln!(out, "{:<16} {:>16}", format!("{k}-mers"), grouped(database.table.len()? as u64))?;
    writeln!(out, "reads            {:>16}", grouped(reads.sequences))?;
    writeln!(out, "classified       {:>16}", grouped(reads.sequences - classified.unclassified))?;
    Ok(writeln!(out, "device           {device}, {}", database.table.memory())?)
}

/// Prints the times and rates of the stages. On an emulator the last line says that they are no measurement
/// of speed.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_speed(
    database: &Database,
    classified: &Classified,
    is_emulator: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let (references, reads) = (&database.reading, &classified.reading);
    print_stage("reading genomes", references.time, (references.input.letters, "letters"), out)?;
    print_stage("building", database.building, (references.input.kmers, "k-mers"), out)?;
    print_stage("reading reads", reads.time, (reads.input.letters, "letters"), out)?;
    print_stage("looking up", classified.looking_up, (reads.input.kmers, "k-mers"), out)?;
    if is_emulator {
        writeln!(out, "                 (on the emulator: no measurement of speed)")?;
    }
    Ok(())
}

/// Prints a table of the `top` most abundant taxa.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_top(
    taxonomy: &Taxonomy,
    classified: &Classified,
    top: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["taxon", "reads", "with descendants", "share"]);
    for Abundance { taxon, reads, clade, share } in abundances(taxonomy, classified).into_iter().take(top) {
        let share = format!("{:.2} %", 100.0 * share);
        table.add_row([taxonomy.name(taxon).to_owned(), grouped(reads), grouped(clade), share]);
    }
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let lines = table.to_string();
    writeln!(out)?;
    lines.lines().try_for_each(|line| writeln!(out, "{}", line.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted() -> (Taxonomy, Classified) {
        let mut tree = Taxonomy::parse("a\tgenus\nb\tgenus\n").unwrap();
        tree.number_or_add("phage").unwrap();
        let mut reads = vec![0; tree.len()];
        for (name, count) in [("root", 1), ("genus", 2), ("a", 5)] {
            reads[tree.number(name).unwrap() as usize] = count;
        }
        (tree, Classified { reads, unclassified: 3, ..Classified::default() })
    }

    #[test]
    fn clades_have_the_reads_below() {
        let (tree, classified) = counted();
        let mut out = Vec::new();
        write_abundances(&tree, &classified, &mut out).unwrap();
        let expected = "taxon\tparent\treads\tclade_reads\tclade_share\n\
            root\t\t1\t8\t1.000000\n\
            genus\troot\t2\t7\t0.875000\n\
            a\tgenus\t5\t5\t0.625000\n\
            unclassified\t\t3\t3\t\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn the_terminal_has_the_first() {
        let (tree, classified) = counted();
        let mut out = Vec::new();
        print_top(&tree, &classified, 2, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let last: Vec<_> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!((text.lines().count(), last), (4, vec!["genus", "2", "7", "87.50", "%"]));
    }
}
