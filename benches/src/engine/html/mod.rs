//! Self-contained HTML report: one figure per group of records, followed by a table of all numbers.
use super::compare::Comparison;
use super::ratios::{self, HEADINGS};
use super::record::Record;
use super::suite::{Figure, Suite};
use super::table::{self, Column, EMULATOR_BANNER, Output};
use anyhow::{Result, anyhow};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

mod axis;
mod charts;
mod figure;

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
    let run = |record: &Record| {
        let dirty = if record.dirty { ", with uncommitted changes" } else { "" };
        escape(&format!("{} (driver {}), commit {}{dirty}", record.device, record.driver, record.commit))
    };
    let _ = writeln!(text, "<p>{}</p>", records.iter().map(run).sorted().dedup().join("<br>"));
    text
}

fn section(name: &str, records: &[&Record], suite: Option<&Suite>) -> Result<String> {
    let mut text = format!("<h2>{}</h2>\n", escape(suite.map_or(name, |suite| suite.title.as_str())));
    let about = suite.map_or("", |suite| suite.about.as_str());
    let _ = writeln!(text, "<p>Suite <code>{}</code>. {}</p>", escape(name), escape(about));
    let spec = suite.map_or_else(|| guess(records), |suite| suite.figure.clone());
    for chart in charts::charts(records, &spec) {
        let svg = figure::draw(&chart).map_err(|error| anyhow!("the figure of {name}: {error}"))?;
        let _ = writeln!(text, "<figure>{svg}<figcaption>{}</figcaption></figure>", escape(&chart.caption));
    }
    text += &suite.map_or_else(String::new, |suite| ratio_tables(suite, records));
    text += &table(records);
    Ok(text)
}

/// Returns the ratios to the baselines of a suite.
fn ratio_tables(suite: &Suite, records: &[&Record]) -> String {
    let mut text = String::new();
    for against in &suite.against {
        let ratios = against.ratios(records);
        if ratios.is_empty() {
            continue;
        }
        let _ = writeln!(text, "<p>Ratios to {}. The paper: {}</p>", against.name(), escape(&against.paper));
        let _ = writeln!(text, "<table><tr><th>{}", HEADINGS.join("<th>"));
        for ratio in &ratios {
            let _ = writeln!(text, "<tr><td>{}", ratios::row(ratio).map(|cell| escape(&cell)).join("<td>"));
        }
        text += "</table>\n";
    }
    text
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
    Figure { x, ..Figure::default() }
}

fn table(records: &[&Record]) -> String {
    let columns = table::columns(Output::Page);
    let headings = columns.clone().map(|column| column.heading).join("<th>");
    let mut text = format!("<details><summary>All numbers</summary><table><tr><th>{headings}\n");
    for record in records {
        let fault = if record.verified { "" } else { " class=\"fault\"" };
        let cell = |column: &Column| {
            let class = if column.is_number { " class=n" } else { "" };
            format!("<td{class}>{}", escape(&(column.text)(record)))
        };
        let _ = writeln!(text, "<tr{fault}>{}", columns.clone().map(cell).join(""));
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
    use crate::engine::suite::Plot;

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
            "<svg", "load_factor", "10^6 operations per second", "load-factor: insert", "limit line128",
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
    fn structures_and_variants_of_an_operation_share_a_figure() {
        let mut records = records();
        let other = |record: &Record| Record { structure: "SlabHash".to_owned(), ..record.clone() };
        let variant = |record: &Record| Record { variant: "light".to_owned(), ..other(record) };
        records.extend(records.clone().iter().flat_map(|record| [other(record), variant(record)]));
        let page = page(&records, &[], &[]).unwrap();
        assert_eq!(page.matches("<svg").count(), 2, "one for insert, one for find_hit");
        for label in ["hashmap/load-factor: insert", ">\nHashMap\n<", "SlabHash default", "SlabHash light"] {
            assert!(page.contains(label), "'{label}' is missing");
        }
    }

    #[test]
    fn a_plot_combines_operations_and_fields() {
        let plot = |title: &str, y: &str| Plot { title: title.to_owned(), ops: vec![], y: y.to_owned() };
        let suite = Suite {
            name: "hashmap/load-factor".to_owned(),
            figure: Figure {
                x: Some("load_factor".to_owned()),
                plots: vec![plot("rates of both", "mops"), plot("steps", "steps")],
                ..Figure::default()
            },
            ..crate::engine::catalog::select(&["hashmap/load-factor".to_owned()]).unwrap().remove(0)
        };
        let mut records = records();
        let counted = [("steps".to_owned(), 7.25)].into();
        records[1].counted = Some(counted);
        records[3].counted = records[1].counted.clone();
        let page = page(&records, &[suite], &[]).unwrap();
        assert_eq!(page.matches("<svg").count(), 2);
        assert!(page.contains("load-factor: rates of both") && page.contains("load-factor: steps"));
        assert!(page.contains("7.25"), "two records have this counter: bars with their values");
    }

    #[test]
    fn figures_have_the_last_verified_record_of_a_measurement() {
        let mut records = records();
        records.extend([123.0, 456.0].map(|mops| Record { mops, ..records[2].clone() }));
        records[5].verified = false;
        records.remove(0);
        let page = page(&records, &[], &[]).unwrap();
        let figures = &page[..page.rfind("</svg>").unwrap()];
        assert_eq!(figures.matches("<circle").count(), 2, "a line of find_hit, and one insert alone");
        assert!(!figures.contains("insert"));
        records[4].verified = true;
        assert_ne!(figures, &super::page(&records, &[], &[]).unwrap()[..figures.len()]);
    }

    #[test]
    fn a_line_with_a_single_point_becomes_a_bar() {
        let all = records();
        let page = page(&[all[0].clone(), all[2].clone()], &[], &[]).unwrap();
        let svg = &page[page.find("<svg").unwrap()..page.find("</svg>").unwrap()];
        assert!(!svg.contains("<circle") && svg.matches("<rect").count() >= 2, "{svg}");
        let page = super::page(&all[..1], &[], &[]).unwrap();
        assert!(!page.contains("<svg"), "one number needs no figure");
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
        assert!(page.contains("find_hit") && page.contains("hashmap/load-factor: rates"));
    }
}
