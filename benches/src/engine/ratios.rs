//! Ratios of a suite's throughputs to those of a baseline, beside what a paper reports.
use super::record::{Record, describe};
use super::suite::{Against, Suite};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Cell, CellAlignment, Table};

/// A record and its baseline.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio<'a> {
    /// The record.
    pub record: &'a Record,
    /// Throughput of the baseline.
    pub baseline: f64,
}

impl Ratio<'_> {
    /// Returns the throughput divided by that of the baseline.
    pub fn value(&self) -> f64 {
        self.record.mops / self.baseline
    }
}

impl Against {
    /// Returns the records of a suite that have a baseline among them.
    pub fn ratios<'a>(&self, records: &[&'a Record]) -> Vec<Ratio<'a>> {
        let is_asked = |record: &Record| self.ops.is_empty() || self.ops.contains(&record.op);
        let asked = records.iter().copied().filter(|record| is_asked(record));
        let (baselines, others): (Vec<_>, Vec<_>) = asked.partition(|record| self.is_baseline(record));
        let ratio = |record: &'a Record| {
            let baseline = baselines.iter().find(|baseline| self.is_of(baseline, record))?;
            Some(Ratio { record, baseline: baseline.mops })
        };
        others.into_iter().filter_map(ratio).collect()
    }

    fn is_baseline(&self, record: &Record) -> bool {
        self.params.iter().all(|(name, value)| record.params.get(name) == Some(value))
    }

    /// Returns whether `baseline` is that of `record`. It may lack parameters that do not concern it.
    fn is_of(&self, baseline: &Record, record: &Record) -> bool {
        let identity = |record: &Record| {
            let Record { structure, variant, op, key_bits, value_bits, n, .. } = record;
            (structure.clone(), variant.clone(), op.clone(), *key_bits, *value_bits, *n)
        };
        let mut others = baseline.params.iter().filter(|(name, _)| !self.params.contains_key(*name));
        identity(baseline) == identity(record)
            && others.all(|(name, value)| record.params.get(name) == Some(value))
    }

    /// Returns the parameters of the baseline as text.
    pub fn name(&self) -> String {
        describe(&self.params)
    }
}

/// Formats the ratios that the suites ask for as tables for the terminal; empty if there are none.
pub fn tables(records: &[Record], suites: &[Suite]) -> String {
    let of_suite = |suite: &Suite| {
        let records: Vec<_> = records.iter().filter(|record| record.suite == suite.name).collect();
        suite.against.iter().map(|against| table(suite, against, &records)).collect::<String>()
    };
    suites.iter().map(of_suite).collect()
}

fn table(suite: &Suite, against: &Against, records: &[&Record]) -> String {
    let ratios = against.ratios(records);
    if ratios.is_empty() {
        return String::new();
    }
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_header(HEADINGS);
    for ratio in &ratios {
        let cells = row(ratio).into_iter().enumerate().map(|(column, text)| match column > 1 {
            true => Cell::new(text).set_alignment(CellAlignment::Right),
            false => Cell::new(text),
        });
        table.add_row(cells);
    }
    format!("{} against {}\n{table}\nThe paper: {}\n", suite.name, against.name(), against.paper)
}

/// Headings of the columns of [`row`]. The first two are texts, the others numbers.
pub const HEADINGS: [&str; 5] = ["op", "params", "M ops/s", "baseline", "ratio"];

/// Returns the cells of a ratio.
pub fn row(ratio: &Ratio<'_>) -> [String; 5] {
    let Record { op, params, mops, .. } = ratio.record;
    let [own, baseline] = [*mops, ratio.baseline].map(|number| format!("{number:.1}"));
    [op.clone(), describe(params), own, baseline, format!("{:.2}", ratio.value())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compare::tests::record as example;
    use crate::engine::record::Param;

    fn record(op: &str, mops: f64, params: &[(&str, &str)]) -> Record {
        let param = |(name, value): &(&str, &str)| ((*name).to_owned(), Param::Text((*value).to_owned()));
        let params = params.iter().map(param).collect();
        Record { suite: "a/b".to_owned(), op: op.to_owned(), mops, params, ..example(op, 1.0, 1.0) }
    }

    fn against(ops: &[&str]) -> Against {
        let params = [("placement".to_owned(), Param::Text("remote".to_owned()))].into();
        let ops = ops.iter().map(|op| (*op).to_owned()).collect();
        Against { params, ops, paper: "2 to 9 against another".to_owned() }
    }

    #[test]
    fn records_are_compared_with_the_baseline_of_their_parameters() {
        let remote = |keys, mops| record("insert", mops, &[("keys", keys), ("placement", "remote")]);
        let own = |keys, mops| record("insert", mops, &[("keys", keys), ("oversubscription", "25")]);
        let records =
            [own("MI", 30.0), own("SU", 8.0), own("ZZ", 1.0), remote("SU", 4.0), remote("MI", 10.0)];
        let all: Vec<_> = records.iter().collect();
        let ratios = against(&[]).ratios(&all);
        assert_eq!(ratios.iter().map(Ratio::value).collect::<Vec<_>>(), [3.0, 2.0]);
        assert!(against(&["remove"]).ratios(&all).is_empty());
        assert_eq!(row(&ratios[0])[2..], ["30.0", "10.0", "3.00"]);
    }

    #[test]
    fn other_sizes_are_no_baseline() {
        let mut records = [record("get", 2.0, &[]), record("get", 1.0, &[("placement", "remote")])];
        assert_eq!(against(&[]).ratios(&records.iter().collect::<Vec<_>>()).len(), 1);
        records[1].n += 1;
        assert!(against(&[]).ratios(&records.iter().collect::<Vec<_>>()).is_empty());
    }
}
