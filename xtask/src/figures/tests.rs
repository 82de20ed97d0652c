//! Tests with planted faults: stale blocks, queries without a record and with several.
use super::*;

const RECORDS: &str = r#"
{"op":"find_hit","n":1048576,"params":{"built":"insert"},"mops":6919.6,"verified":true}
{"op":"find_hit","n":16777216,"params":{"built":"insert"},"mops":812.34,"verified":true}
{"op":"find_miss","n":1048576,"params":{"built":"insert"},"mops":1.2345,"verified":true}
{"op":"sort","n":16777216,"params":{},"mops":100.0,"verified":true}
{"op":"sort","n":16777216,"params":{"distribution":"equal"},"mops":200.0,"verified":true}
{"op":"wrong","n":1,"params":{},"mops":1.0,"verified":false}
"#;

const FIGURES: &str = r#"
[table.rates]
corner = "operation"
all = { file = "gpu/suite", where = { built = "insert" } }
columns = [{ name = "2^20", where = { n = "2^20" } }, { name = "2^24", where = { n = "2^24" } }]
rows = [
    { name = "hit", where = { op = "find_hit" } },
    { name = "other", given = { "2^20" = "1 000" }, leaves_empty = ["2^24"] },
    { name = "miss", where = { op = "find_miss" }, leaves_empty = ["2^24"] },
]

[value.twice]
of = { file = "gpu/suite", where = { distribution = "equal" }, digits = 2 }
divided_by = { where = { op = "sort" }, without = ["distribution"] }
"#;

const PAGE: &str = "Before.\n\n<!-- figures: rates -->\n<!-- end -->\n\n\
    It is <!-- figures: twice -->3<!-- end --> times as fast.\n";

const WRITTEN: &str = "Before.\n\n<!-- figures: rates -->\n| operation | 2^20 | 2^24 |\n|---|---:|---:|\n\
    | hit | 6 920 | 812 |\n\
    | other | 1 000 |  |\n| miss | 1.23 |  |\n<!-- end -->\n\n\
    It is <!-- figures: twice -->2.0<!-- end --> times as fast.\n";

fn files(figures: &str, page: &str) -> Vec<File> {
    let texts = [(LIST, figures), ("docs/page.md", page), ("docs/results/gpu/suite.jsonl", RECORDS)];
    texts.map(|(path, text)| File::new(path, text)).to_vec()
}

fn reasons(figures: &str, page: &str) -> Vec<String> {
    check(&files(figures, page)).iter().map(ToString::to_string).collect()
}

/// Returns the text that `report --pages` writes.
fn written(figures: &str, page: &str) -> Result<String> {
    let files = files(figures, page);
    rewritten(&files[1], &toml::from_str(figures)?, &files)
}

fn query(text: &str) -> Result<f64> {
    let query: Query = toml::from_str(text)?;
    query.value(&files("", ""))
}

#[test]
fn blocks_are_written_and_then_up_to_date() {
    assert_eq!(written(FIGURES, PAGE).unwrap(), WRITTEN);
    assert_eq!(reasons(FIGURES, WRITTEN), [""; 0]);
    assert_eq!(written(FIGURES, WRITTEN).unwrap(), WRITTEN);
}

#[test]
fn stale_blocks_are_named_with_page_and_line() {
    let stale = reasons(FIGURES, &WRITTEN.replace("812", "813"));
    assert_eq!(stale.len(), 1, "{stale:?}");
    assert!(stale[0].starts_with("docs/page.md:3: figures `rates` differ"), "{stale:?}");
    let both = reasons(FIGURES, PAGE);
    assert!(both[0].contains("`rates`"), "{both:?}");
    assert!(both[1].starts_with("docs/page.md:6: figures `twice`"), "{both:?}");
}

#[test]
fn queries_match_exactly_one_record() {
    let none = reasons(&FIGURES.replace("find_miss", "find_mist"), WRITTEN);
    assert_eq!(none.len(), 1, "{none:?}");
    for part in ["docs/page.md:3", "`rates`", "`miss`, `2^20`", "gpu/suite", "no record", "find_mist"] {
        assert!(none[0].contains(part), "{part}: {none:?}");
    }
    let several = reasons(&FIGURES.replace(r#", where = { n = "2^24" }"#, ""), WRITTEN);
    assert_eq!(several.len(), 1, "{several:?}");
    assert!(["`rates`", "2 records", "differ in n"].iter().all(|part| several[0].contains(part)));
    assert!(written(&FIGURES.replace("find_miss", "find_mist"), PAGE).is_err());
}

#[test]
fn missing_fields_can_be_asked_for() {
    let sort = r#"file = "gpu/suite"
        where = { op = "sort" }"#;
    let error = format!("{:#}", query(sort).unwrap_err());
    assert!(error.contains("differ in distribution"), "{error}");
    assert_eq!(query(&format!("{sort}\nwithout = ['distribution']\nfactor = 0.5")).unwrap(), 50.0);
}

#[test]
fn wrong_results_and_missing_files_have_no_figure() {
    let error = |text: &str| format!("{:#}", query(text).unwrap_err());
    assert!(error("file = 'gpu/suite'\nwhere = { op = 'wrong' }").contains("not verified"));
    assert!(error("file = 'gpu/suite'\nwhere = { op = 'wrong' }\nfield = 'lines'").contains("`lines`"));
    assert!(error("file = 'gpu/none'").contains("docs/results/gpu/none.jsonl is missing"));
}

#[test]
fn names_must_be_described_and_used() {
    let unknown = reasons(FIGURES, &WRITTEN.replace("figures: twice", "figures: thrice"));
    assert!(unknown[0].contains("`thrice`") && unknown[0].contains(LIST), "{unknown:?}");
    assert!(unknown[1].contains("no page contains the figures `twice`"), "{unknown:?}");
    let unclosed = reasons(FIGURES, &WRITTEN.replacen(END, "", 1));
    assert!(unclosed[0].starts_with("docs/page.md:3: figures without"), "{unclosed:?}");
    assert!(reasons("table = 1", PAGE)[0].starts_with(LIST));
}

#[test]
fn figures_have_significant_digits_and_grouped_thousands() {
    let round = |value: f64, digits: usize| {
        toml::from_str::<Query>(&format!("digits = {digits}")).unwrap().rounded(value)
    };
    assert_eq!(round(183_661.2, 3), "184 000");
    assert_eq!(round(183_661.2, 4), "183 700");
    assert_eq!(round(0.024_9, 2), "0.025");
    assert_eq!(round(9.996, 3), "10.0");
    assert_eq!(round(999.6, 3), "1 000");
    assert_eq!(round(0.0, 3), "0.00");
}
