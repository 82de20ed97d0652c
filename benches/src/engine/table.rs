//! Results as a table for the terminal.
use super::compare::Comparison;
use super::record::{Record, describe};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};

/// Banner above results from the emulator.
pub const EMULATOR_BANNER: &str =
    "emulator: no measurement of speed (the times are those of a program that imitates a GPU)";

/// Formats the records, one per row.
pub fn results(records: &[Record]) -> String {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY);
    let mut header = vec![
        "suite",
        "structure",
        "variant",
        "op",
        "bits",
        "n",
        "params",
        "M ops/s",
        "of limit",
        "median ms",
        "spread",
        "verified",
    ];
    let has_lines = records.iter().any(|record| record.lines.is_some());
    if has_lines {
        header.extend(["GB/s", "lines an operation, by level from the leaves up"]);
    }
    table.set_header(header);
    for record in records {
        let mut row = row(record);
        if has_lines {
            row.extend(lines(record));
        }
        table.add_row(row);
    }
    let banner = records.iter().any(Record::is_emulated).then(|| format!("{EMULATOR_BANNER}\n"));
    format!("{}{table}", banner.unwrap_or_default())
}

fn row(record: &Record) -> Vec<Cell> {
    let ratio = match (record.ratio, &record.limit) {
        (Some(ratio), Some(limit)) => format!("{ratio:.2} {limit}"),
        _ => String::new(),
    };
    let spread = (record.max_ms - record.min_ms) / record.median_ms * 100.0;
    let verified =
        record.fault.clone().unwrap_or_else(|| if record.verified { "yes" } else { "NO" }.to_owned());
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    vec![
        Cell::new(&record.suite),
        Cell::new(&record.structure),
        Cell::new(&record.variant),
        Cell::new(&record.op),
        Cell::new(format!("{}/{}", record.key_bits, record.value_bits)),
        right(record.n.to_string()),
        Cell::new(describe(&record.params)),
        right(throughput(record.mops)),
        right(ratio),
        right(format!("{:.3}", record.median_ms)),
        right(format!("{spread:.1} %")),
        Cell::new(verified),
    ]
}

/// Returns the cells for bytes per second and for the lines read per level.
fn lines(record: &Record) -> [Cell; 2] {
    let bytes = record.gb_s.map_or_else(String::new, |rate| format!("{rate:.0}"));
    let lines = record.lines.iter().flatten().map(|lines| format!("{lines:.2}"));
    [Cell::new(bytes).set_alignment(CellAlignment::Right), Cell::new(lines.collect::<Vec<_>>().join(" "))]
}

/// Formats a throughput: large values as integers, small values with decimals.
pub fn throughput(mops: f64) -> String {
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
