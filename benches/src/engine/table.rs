//! Results as a table for the terminal.
use super::compare::Comparison;
use super::record::{Record, describe};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};
use itertools::Itertools;

/// Banner above results from the emulator.
pub const EMULATOR_BANNER: &str =
    "emulator: no measurement of speed (the times are those of a program that imitates a GPU)";

/// Column of a table of records.
pub(super) struct Column {
    pub heading: &'static str,
    /// Whether the text is a number.
    pub is_number: bool,
    /// Outputs that have the column.
    outputs: &'static [Output],
    pub text: fn(&Record) -> String,
}

/// Output for people.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Output {
    Terminal,
    Page,
}
use Output::{Page, Terminal};

const fn column(
    heading: &'static str,
    is_number: bool,
    outputs: &'static [Output],
    text: fn(&Record) -> String,
) -> Column {
    Column { heading, is_number, outputs, text }
}

const BOTH: &[Output] = &[Terminal, Page];
const COLUMNS: [Column; 14] = [
    column("suite", false, &[Terminal], |record| record.suite.clone()),
    column("structure", false, BOTH, |record| record.structure.clone()),
    column("variant", false, BOTH, |record| record.variant.clone()),
    column("op", false, BOTH, |record| record.op.clone()),
    column("bits", false, BOTH, |record| format!("{}/{}", record.key_bits, record.value_bits)),
    column("n", true, BOTH, |record| record.n.to_string()),
    column("params", false, BOTH, |record| describe(&record.params)),
    column("M ops/s", true, BOTH, |record| throughput(record.mops)),
    column("of limit", true, BOTH, of_limit),
    column("median ms", true, BOTH, |record| format!("{:.3}", record.median_ms)),
    column("spread", true, &[Terminal], spread),
    column("interval ms", true, &[Page], interval),
    column("reps", true, &[Page], |record| record.reps.to_string()),
    column("verified", false, BOTH, verified),
];

/// Returns the columns of an output.
pub(super) fn columns(output: Output) -> impl Iterator<Item = &'static Column> + Clone {
    const ALL: &[Column] = &COLUMNS;
    ALL.iter().filter(move |column| column.outputs.contains(&output))
}

fn of_limit(record: &Record) -> String {
    let ratio = record.ratio.zip(record.limit.as_ref());
    ratio.map_or_else(String::new, |(ratio, limit)| format!("{ratio:.2} {limit}"))
}

fn spread(record: &Record) -> String {
    format!("{:.1} %", (record.max_ms - record.min_ms) / record.median_ms * 100.0)
}

fn interval(record: &Record) -> String {
    let (low, high) = record.interval_ms();
    format!("{low:.3} to {high:.3}")
}

fn verified(record: &Record) -> String {
    record.fault.clone().unwrap_or_else(|| if record.verified { "yes" } else { "NO" }.to_owned())
}

/// Formats the records, one per row.
pub fn results(records: &[Record]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let mut header: Vec<_> = columns(Terminal).map(|column| column.heading).collect();
    let has_lines = records.iter().any(|record| record.lines.is_some());
    if has_lines {
        header.extend(["GB/s", "lines an operation, by level from the leaves up"]);
    }
    table.set_header(header);
    for record in records {
        let cell = |column: &Column| cell((column.text)(record), column.is_number);
        let lines = if has_lines { lines(record).to_vec() } else { Vec::new() };
        table.add_row(columns(Terminal).map(cell).chain(lines));
    }
    let banner = records.iter().any(Record::is_emulated).then(|| format!("{EMULATOR_BANNER}\n"));
    format!("{}{table}", banner.unwrap_or_default())
}

/// Formats a record as a line, for a reader who waits for the others.
pub fn line(record: &Record) -> String {
    let columns = columns(Terminal).filter(|column| !column.is_number);
    let texts = columns.map(|column| (column.text)(record)).filter(|text| !text.is_empty());
    format!("{:10.3} ms  {}", record.median_ms, texts.format("  "))
}

fn cell(text: String, is_number: bool) -> Cell {
    Cell::new(text).set_alignment(if is_number { CellAlignment::Right } else { CellAlignment::Left })
}

/// Returns the cells for bytes per second and for the lines read per level.
fn lines(record: &Record) -> [Cell; 2] {
    let bytes = record.gb_s.map_or_else(String::new, |rate| format!("{rate:.0}"));
    let lines = record.lines.iter().flatten().map(|lines| format!("{lines:.2}")).join(" ");
    [cell(bytes, true), cell(lines, false)]
}

/// Formats a throughput: large values as integers, small values with decimals.
fn throughput(mops: f64) -> String {
    if mops >= 100.0 { format!("{mops:.0}") } else { format!("{mops:.3}") }
}

/// Formats the comparisons, one per row.
pub fn comparisons(comparisons: &[Comparison]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    table.set_header(["record", "before ms", "now ms", "speedup", "verdict"]);
    let time = |time: Option<f64>| time.map_or_else(String::new, |time| format!("{time:.3}"));
    for comparison in comparisons {
        table.add_row([
            comparison.identity.clone(),
            time(comparison.before_ms),
            time(comparison.after_ms),
            comparison.speedup().map_or_else(String::new, |speedup| format!("{speedup:.2}")),
            comparison.verdict.to_string(),
        ]);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compare::tests::record;

    #[test]
    fn a_line_has_the_time_and_whether_it_is_verified() {
        let line = line(&Record { median_ms: 2.5, verified: false, ..record("insert", 1.0, 2.0) });
        assert!(line.trim_start().starts_with("2.500 ms") && line.ends_with("NO"), "{line}");
    }

    #[test]
    fn a_row_has_throughput_ratio_and_verification() {
        let text = results(&[record("insert", 1.0, 2.0)]);
        for part in ["1000", "0.50 line128", "1.500", "66.7 %", "yes", "load_factor=0.8"] {
            assert!(text.contains(part), "'{part}' is missing in\n{text}");
        }
        assert!(!text.contains("emulator") && !text.contains("GB/s"));
        let counted = Record { lines: Some(vec![1.0, 0.25]), gb_s: Some(99.6), ..record("insert", 1.0, 2.0) };
        let text = results(&[counted]);
        assert!(text.contains("100") && text.contains("1.00 0.25"), "{text}");
        let emulated = Record { driver: "emulator".to_owned(), ..record("insert", 1.0, 2.0) };
        assert!(results(&[emulated]).starts_with("emulator: no measurement of speed"));
    }
}
