//! Output for terminals and files.
use crate::count::Counts;
use genomes::kmers::letters;
use genomes::output::{grouped, print_stage};
use genomes::read::Reading;
use rayon::prelude::*;
use std::io::{self, Write};
use std::time::Duration;

/// Writes one line per k-mer, with the k-mer and its count separated by a tab, for the k-mers with a count of
/// at least `least`, most frequent first.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn write_counts(counts: &Counts, least: u64, mut out: impl Write) -> io::Result<()> {
    let lines = |part: &[(u64, u64)]| {
        let mut text = Vec::with_capacity(part.len() * (counts.length.get() as usize + 4));
        for &(kmer, count) in part {
            text.extend(letters(kmer, counts.length).map(|letter| letter as u8)); // all are ASCII
            writeln!(text, "\t{count}")?;
        }
        Ok(text)
    };
    for parts in counts.at_least(least).chunks(LINES * PARTS) {
        let texts: io::Result<Vec<_>> = parts.par_chunks(LINES).map(lines).collect();
        texts?.iter().try_for_each(|text| out.write_all(text))?;
    }
    out.flush()
}

/// Lines that one thread formats at a time: about 1 MiB.
const LINES: usize = 1 << 15;
/// Parts of so many lines that are formatted before they are written.
const PARTS: usize = 128;

/// Writes one line per multiplicity, with the multiplicity and its number of distinct k-mers separated by a
/// tab.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn write_spectrum(counts: &Counts, mut out: impl Write) -> io::Result<()> {
    for (multiplicity, kmers) in counts.spectrum() {
        writeln!(out, "{multiplicity}\t{kmers}")?;
    }
    out.flush()
}

/// Prints the totals of the input and of the counts, and the name of the device.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_totals(counts: &Counts, device: &str, out: &mut impl Write) -> io::Result<()> {
    let input = &counts.input;
    let once = (counts.pairs.len() - counts.at_least(2).len()) as u64;
    let k = counts.length.get();
    writeln!(out, "sequences        {:>16}", grouped(input.sequences))?;
    writeln!(out, "letters          {:>16}", grouped(input.letters))?;
    writeln!(out, "{:<16} {:>16}", format!("{k}-mers"), grouped(input.kmers))?;
    writeln!(out, "different        {:>16}", grouped(counts.pairs.len() as u64))?;
    writeln!(out, "occurring once   {:>16}", grouped(once))?;
    writeln!(out, "device           {device}, {}", counts.cost.memory)
}

/// Prints the times and rates of reading, of counting, and of both. On an emulator the last line says that it
/// is no measurement of speed.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_speed(counts: &Counts, is_emulator: bool, out: &mut impl Write) -> io::Result<()> {
    let (cost, input) = (&counts.cost, &counts.input);
    print_stage("reading", cost.reading, (input.letters, "letters"), out)?;
    print_stage("counting", cost.counting, (input.kmers, "k-mers"), out)?;
    let rate = input.kmers as f64 / 1e6 / cost.time.as_secs_f64().max(1e-9);
    write!(out, "time             {:.2} s, {rate:.1} million k-mers a second", cost.time.as_secs_f64())?;
    if cost.compiling > Duration::ZERO {
        write!(out, "; {:.2} s of it compiling kernels", cost.compiling.as_secs_f64())?;
    }
    writeln!(out, "{}", if is_emulator { " (on the emulator: no measurement of speed)" } else { "" })
}

/// Prints the totals and the speed of a run that only reads.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_reading(reading: &Reading, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "sequences        {:>16}", grouped(reading.input.sequences))?;
    writeln!(out, "letters          {:>16}", grouped(reading.input.letters))?;
    writeln!(out, "k-mers           {:>16}", grouped(reading.input.kmers))?;
    print_stage("reading", reading.time, (reading.input.letters, "letters"), out)
}

/// Prints the `top` most frequent k-mers among those with a count of at least `least`.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_top(counts: &Counts, top: usize, least: u64, out: &mut impl Write) -> io::Result<()> {
    let found = counts.at_least(least);
    let shown = &found[..top.min(found.len())];
    if shown.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nmost frequent k-mers")?;
    for &(kmer, count) in shown {
        let text: String = letters(kmer, counts.length).collect();
        writeln!(out, "{text}{:>16}", grouped(count))?;
    }
    Ok(())
}

/// Prints the spectrum as a bar chart over ranges of multiplicities, where each range ends at twice the end
/// of the previous one.
///
/// # Errors
/// Returns [`io::Error`] when writing to `out` fails.
pub fn print_spectrum(counts: &Counts, out: &mut impl Write) -> io::Result<()> {
    let ranges = ranges(&counts.spectrum());
    let Some(most) = ranges.iter().map(|range| range.kmers).max() else { return Ok(()) };
    writeln!(out, "\nnumber of k-mers by count")?;
    for Range { low, high, kmers } in ranges {
        let times = if low == high { low.to_string() } else { format!("{low}-{high}") };
        let bar = "#".repeat((kmers as f64 / most as f64 * 40.0).ceil() as usize);
        writeln!(out, "{}", format!("{times:>16}{:>16} {bar}", grouped(kmers)).trim_end())?;
    }
    Ok(())
}

/// Range of multiplicities and the number of distinct k-mers in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    low: u64,
    high: u64,
    kmers: u64,
}

/// Groups the spectrum into the ranges 1, 2, 3-4, 5-8 and so on, from the first to the last that is not
/// empty.
fn ranges(spectrum: &[(u64, u64)]) -> Vec<Range> {
    let Some(&(highest, _)) = spectrum.last() else { return Vec::new() };
    let mut ranges = vec![Range { low: 1, high: 1, kmers: 0 }];
    while let Some(&Range { high, .. }) = ranges.last().filter(|last| last.high < highest) {
        ranges.push(Range { low: high + 1, high: high.saturating_mul(2), kmers: 0 });
    }
    for &(multiplicity, kmers) in spectrum {
        let index = ranges.partition_point(|range| range.high < multiplicity);
        ranges[index].kmers += kmers;
    }
    let empty = ranges.iter().take_while(|range| range.kmers == 0).count();
    ranges.split_off(empty)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::count::{Cost, Input};
    use genomes::kmers::Length;

    fn printed(print: impl Fn(&mut Vec<u8>) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        print(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    /// Returns counts in which AC occurs 9 times, AA 3 times, AG and TT once.
    fn counts() -> Counts {
        let pairs = vec![(1, 9), (0, 3), (2, 1), (15, 1)];
        let input = Input { sequences: 1, letters: 1515, kmers: 14 };
        let cost = Cost { time: Duration::from_secs(2), ..Cost::default() };
        Counts { length: Length::new(2).unwrap(), input, pairs, cost }
    }

    #[test]
    fn tables() {
        assert_eq!(printed(|out| write_counts(&counts(), 1, out)), "AC\t9\nAA\t3\nAG\t1\nTT\t1\n");
        assert_eq!(printed(|out| write_counts(&counts(), 4, out)), "AC\t9\n");
        assert_eq!(printed(|out| write_spectrum(&counts(), out)), "1\t2\n3\t1\n9\t1\n");
    }

    #[test]
    fn totals() {
        let text = printed(|out| print_totals(&counts(), "a device", out));
        let words: Vec<_> = text.split_whitespace().collect();
        let expected =
            "sequences 1 letters 1,515 2-mers 14 different 4 occurring once 2 device a device, 0 B of table";
        assert_eq!(words.join(" "), expected);
    }

    #[test]
    fn top_keeps_to_both_limits() {
        let top = |top, least| printed(|out| print_top(&counts(), top, least, out)).lines().skip(2).count();
        assert_eq!([top(10, 1), top(3, 1), top(3, 3), top(0, 1), top(3, 10)], [4, 3, 2, 0, 0]);
    }

    #[test]
    fn only_a_gpu_has_a_speed() {
        let [emulator, gpu] = [true, false].map(|is| printed(|out| print_speed(&counts(), is, out)));
        assert!(emulator.contains("no measurement of speed"), "{emulator}");
        assert!(!gpu.contains("no measurement"), "{gpu}");
    }

    #[test]
    fn ranges_double() {
        let range = |low, high, kmers| Range { low, high, kmers };
        assert_eq!(
            ranges(&[(2, 5), (3, 1), (4, 1), (9, 7)]),
            [range(2, 2, 5), range(3, 4, 2), range(5, 8, 0), range(9, 16, 7)]
        );
        assert_eq!(ranges(&[(u64::MAX, 1)]).len(), 1);
        assert_eq!(ranges(&[]), []);
    }
}
