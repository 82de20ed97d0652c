//! Self-contained HTML report: one figure per group of records, followed by a table of all numbers.
use super::compare::Comparison;
use super::record::{Record, describe};
use super::suite::{Figure, Suite};
use super::table::{EMULATOR_BANNER, throughput};
use anyhow::{Result, anyhow};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

mod figure;

use figure::{Chart, Series};

const STYLE: &str = "\
    body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}\
    table{border-collapse:collapse;font-size:13px}\
    td,th{padding:2px 8px;border-bottom:1px solid #ddd;text-align:left}\
    td.n{text-align:right;font-variant-numeric:tabular-nums}\
    .banner{background:#fff3cd;border:1px solid #e0c060;padding:.6em 1em}\
    .fault{background:#fbdcdc}figure{margin:1em 0}svg{max-width:100%;height:auto}figcaption{color:#555}";

const COLUMNS: &str = "<p>bits: of a key and of a value. M ops/s: million operations a second, from the \
    median. of limit: that, divided by the throughput of bare memory accesses of one kind on the same \
    device, measured before the run; the number in a limit's name is bytes an access. interval: 95 % for the \
    median; with fewer than six repetitions the fastest and the slowest. verified: whether every result was \
    right.</p>";

/// Returns the complete page.
///
/// # Errors
/// Returns [`anyhow::Error`] when a figure cannot be drawn.
pub fn page(records: &[Record], suites: &[Suite], comparisons: &[Comparison]) -> Result<String> {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Phalanx benchmarks</title>\
         <style>{STYLE}</style>\n<h1>Phalanx benchmarks</h1>\n{}",
        preamble(records)
    );
    let names: BTreeSet<&str> = records.iter().map(|record| record.suite.as_str()).collect();
    for name in names {
        let of_suite: Vec<_> = records.iter().filter(|record| record.suite == name).collect();
        page += &section(name, &of_suite, suites.iter().find(|suite| suite.name == name))?;
    }
    if !comparisons.is_empty() {
        page += &comparison_table(comparisons);
    }
    page += "</html>\n";
    Ok(page)
}

fn preamble(records: &[Record]) -> String {
    let mut text = String::new();
    if records.iter().any(Record::is_emulated) {
        let _ = writeln!(text, "<p class=\"banner\"><strong>{}</strong></p>", escape(EMULATOR_BANNER));
    }
    let runs: BTreeSet<_> = records
        .iter()
        .map(|record| {
            let dirty = if record.dirty { ", with uncommitted changes" } else { "" };
            format!("{} (driver {}), commit {}{dirty}", record.device, record.driver, record.commit)
        })
        .collect();
    let _ = writeln!(text, "<p>{}</p>", runs.iter().map(|run| escape(run)).collect::<Vec<_>>().join("<br>"));
    text
}

fn section(name: &str, records: &[&Record], suite: Option<&Suite>) -> Result<String> {
    let mut text = format!("<h2>{}</h2>\n", escape(suite.map_or(name, |suite| suite.title.as_str())));
    let about = suite.map_or("", |suite| suite.about.as_str());
    let _ = writeln!(text, "<p>Suite <code>{}</code>. {}</p>", escape(name), escape(about));
    let spec = suite.map_or_else(|| guess(records), |suite| suite.figure.clone());
    for (caption, group) in groups(records, &spec) {
        let chart = chart(&caption, &group, &spec);
        let svg = figure::draw(&chart).map_err(|error| anyhow!("the figure of {name}: {error}"))?;
        let _ = writeln!(text, "<figure>{svg}<figcaption>{}</figcaption></figure>", escape(&caption));
    }
    text += &table(records);
    Ok(text)
}

/// Returns a figure for records of an unknown suite: the first numeric parameter with several values is the
/// axis.
fn guess(records: &[&Record]) -> Figure {
    let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for record in records {
        for (name, value) in record.params.iter().filter(|(_, value)| value.number().is_some()) {
            values.entry(name).or_default().insert(value.to_string());
        }
    }
    let x = values.into_iter().find(|(_, values)| values.len() > 1).map(|(name, _)| name.to_owned());
    Figure { x, log_x: false }
}

fn axis_value(record: &Record, axis: &str) -> Option<f64> {
    if axis == "n" { Some(record.n as f64) } else { record.params.get(axis)?.number() }
}

/// Returns the names of the structures, joined by "and".
fn structures(records: &[&Record]) -> String {
    let names: BTreeSet<&str> = records.iter().map(|record| record.structure.as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(" and ")
}

/// Groups the records that differ only in the axis and in the lines of the figure.
fn groups<'a>(records: &[&'a Record], spec: &Figure) -> BTreeMap<String, Vec<&'a Record>> {
    let structures = structures(records);
    let mut groups: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for record in records {
        let mut fixed = record.params.clone();
        spec.x.as_ref().map(|axis| fixed.remove(axis));
        let size = if spec.x.as_deref() == Some("n") { String::new() } else { format!(", n = {}", record.n) };
        let params = if fixed.is_empty() { String::new() } else { format!(", {}", describe(&fixed)) };
        let caption = format!(
            "{structures}, {}-bit keys, {}-bit values{size}{params}; {}",
            record.key_bits, record.value_bits, record.device
        );
        groups.entry(caption).or_default().push(record);
    }
    groups
}

fn chart(caption: &str, records: &[&Record], spec: &Figure) -> Chart {
    let axis = spec.x.clone().filter(|axis| records.iter().all(|record| axis_value(record, axis).is_some()));
    let mut lines: BTreeMap<String, Series> = BTreeMap::new();
    let one = records.iter().all(|record| record.structure == records[0].structure);
    for record in records {
        let structure = if one { String::new() } else { format!("{} ", record.structure) };
        let label = format!("{} ({structure}{})", record.op, record.variant);
        let x = axis.as_ref().and_then(|axis| axis_value(record, axis));
        let line = lines.entry(label.clone()).or_insert_with(|| Series { label, points: Vec::new() });
        line.points.push((x.unwrap_or(0.0), record.mops));
    }
    let mut lines: Vec<_> = lines.into_values().collect();
    lines.iter_mut().for_each(|line| line.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
    let is_emulated = records.iter().any(|record| record.is_emulated());
    Chart {
        title: caption.to_owned(),
        x: axis,
        log_x: spec.log_x,
        lines,
        limits: limits(records),
        is_emulated,
    }
}

/// Returns the limits of the records by name. Emulated records have none, because their limits would flatten
/// the lines.
fn limits(records: &[&Record]) -> BTreeMap<String, f64> {
    let limit = |record: &&Record| Some((record.limit.clone()?, record.limit_mops?));
    records.iter().filter(|record| !record.is_emulated()).filter_map(limit).collect()
}

fn table(records: &[&Record]) -> String {
    let mut text = String::from(
        "<details open><summary>All numbers</summary><table>\
         <tr><th>structure<th>variant<th>op<th>bits<th>n<th>params\
         <th>M ops/s<th>of limit<th>median ms<th>interval ms<th>reps<th>verified\n",
    );
    for record in records {
        let (low, high) = record.interval_ms();
        let class = if record.verified { "" } else { " class=\"fault\"" };
        let verified = record.fault.as_deref().unwrap_or(if record.verified { "yes" } else { "no" });
        let ratio = record.ratio.map_or_else(String::new, |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            text,
            "<tr{class}><td>{}<td>{}<td>{}<td>{}/{}<td class=n>{}<td>{}\
             <td class=n>{}<td class=n>{ratio} {}<td class=n>{:.3}\
             <td class=n>{low:.3} to {high:.3}<td class=n>{}<td>{}",
            escape(&record.structure),
            escape(&record.variant),
            escape(&record.op),
            record.key_bits,
            record.value_bits,
            record.n,
            escape(&describe(&record.params)),
            throughput(record.mops),
            escape(record.limit.as_deref().unwrap_or("")),
            record.median_ms,
            record.reps,
            escape(verified),
        );
    }
    text + "</table>" + COLUMNS + "</details>\n"
}

fn comparison_table(comparisons: &[Comparison]) -> String {
    let mut text = String::from(
        "<h2>Against the baseline</h2><table><tr><th>record<th>before ms<th>now ms<th>speedup<th>verdict\n",
    );
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.3}"));
    for comparison in comparisons {
        let _ = writeln!(
            text,
            "<tr><td>{}<td class=n>{}<td class=n>{}<td class=n>{}<td>{}",
            escape(&comparison.identity),
            number(comparison.before_ms),
            number(comparison.after_ms),
            number(comparison.speedup()),
            comparison.verdict
        );
    }
    text + "</table>\n"
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compare::tests::record;
    use crate::engine::record::Param;

    fn records() -> Vec<Record> {
        let at = |load: f64, op: &str, mops: f64| Record {
            params: [("load_factor".to_owned(), Param::Number(load))].into(),
            mops,
            ..record(op, 1.0, 1.5)
        };
        vec![
            at(0.5, "insert", 900.0),
            at(0.9, "insert", 500.0),
            at(0.5, "find_hit", 1_800.0),
            at(0.9, "find_hit", 1_500.0),
        ]
    }

    #[test]
    fn a_page_has_figures_with_axes_legend_and_limit() {
        let page = page(&records(), &[], &[]).unwrap();
        for part in [
            "<svg",
            "load_factor",
            "million operations a second",
            "insert (default)",
            "limit line128",
            "0.50",
        ] {
            assert!(page.contains(part), "'{part}' is missing");
        }
        assert!(!page.contains("no measurement of speed"));
        assert!(
            !page.contains("http://")
                || page.matches("http").count() == page.matches("http://www.w3.org").count()
        );
    }

    #[test]
    fn structures_that_are_compared_share_a_figure() {
        let mut records = records();
        records[2].structure = "SlabHash".to_owned();
        records[3].structure = "SlabHash".to_owned();
        let page = page(&records, &[], &[]).unwrap();
        assert_eq!(page.matches("<svg").count(), 1);
        for label in ["insert (HashMap default)", "find_hit (SlabHash default)", "HashMap and SlabHash"] {
            assert!(page.contains(label), "'{label}' is missing");
        }
    }

    #[test]
    fn emulated_figures_say_so_and_show_no_limit() {
        let mut records = records();
        records.iter_mut().for_each(|record| record.driver = "emulator".to_owned());
        let page = page(&records, &[], &[]).unwrap();
        let figure = &page[page.find("<svg").unwrap()..page.find("</svg>").unwrap()];
        assert!(figure.contains("no measurement of speed"), "a figure is copied without the page's banner");
        assert!(!figure.contains("limit"), "{figure}");
        let table = &page[page.find("</svg>").unwrap()..];
        assert!(table.contains("0.50 line128"), "the numbers are still there");
    }

    #[test]
    fn emulated_and_wrong_results_are_marked() {
        let mut records = records();
        records[0].driver = "emulator".to_owned();
        records[1].verified = false;
        records[1].fault = Some("key <7> is lost".to_owned());
        let page = page(&records, &[], &[]).unwrap();
        assert!(page.contains("emulator: no measurement of speed"));
        assert!(page.contains("key &lt;7&gt; is lost"));
    }

    #[test]
    fn without_an_axis_there_are_bars() {
        let records: Vec<_> = ["insert", "find_hit"].into_iter().map(|op| record(op, 1.0, 2.0)).collect();
        let page = page(&records, &[], &[]).unwrap();
        assert!(page.matches("<rect").count() >= 2, "{page}");
        assert!(page.contains("find_hit (default)"));
    }
}
