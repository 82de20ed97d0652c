//! Charts of a suite: one for each question, with all structures and variants that answer it.
use super::axis::{Axis, count};
use super::figure::{Chart, Limit, Series};
use crate::engine::record::Record;
use crate::engine::suite::{Figure, Plot};
use itertools::Itertools;
use std::collections::{BTreeMap, BTreeSet};

/// Field of a plot that is charted over epochs.
const EPOCHS: &str = "epochs";

/// Fields that depend on times.
const TIMED: [&str; 3] = ["mops", "median_ms", "gb_s"];

/// Beginning of the name of the trait that is the variant, followed by the structure.
const VARIANT: &str = "variant of ";

/// Limits above this multiple of the largest value are not drawn, because they would flatten everything else.
const HIGHEST_LIMIT: f64 = 2.0;

/// Maximum number of bars of several operations in a chart.
const MOST_BARS: usize = 16;

/// Returns the charts of a suite's verified records. Of several records of one measurement, the last counts.
///
/// Each plot has one chart for each width of keys and values: lines if the records have several values on
/// the axis. All other records of the plot make one chart with bars. Operations without a plot of their own
/// have a chart with lines each, and share the bars unless there are too many.
pub fn charts(records: &[&Record], figure: &Figure) -> Vec<Chart> {
    let records = newest(records);
    let mut charts = Vec::new();
    let mut rest = records.clone();
    for plot in &figure.plots {
        let own: Vec<_> = records.iter().copied().filter(|record| plot.includes(&record.op)).collect();
        let bars = lines(&own, figure, plot, &mut charts);
        charts.extend(Chart::of(&bars, None, plot));
        rest.retain(|record| !plot.includes(&record.op));
    }
    let mut bars = Vec::new();
    for op in rest.iter().map(|record| record.op.as_str()).unique() {
        let own: Vec<_> = rest.iter().copied().filter(|record| record.op == op).collect();
        bars.push(lines(&own, figure, &Plot::of_op(op), &mut charts));
    }
    let bars = if bars.iter().map(Vec::len).sum::<usize>() > MOST_BARS { bars } else { vec![bars.concat()] };
    charts.extend(bars.iter().filter_map(|bars| Chart::of(bars, None, &Plot::of_op(""))));
    charts.iter_mut().for_each(|chart| chart.log_y = figure.log_y);
    charts
}

/// Returns the last verified record of each measurement, in the order of their first ones.
fn newest<'a>(records: &[&'a Record]) -> Vec<&'a Record> {
    let verified = || records.iter().filter(|record| record.verified);
    let last: BTreeMap<_, _> = verified().map(|record| (record.identity(), *record)).collect();
    verified().map(|record| record.identity()).unique().map(|identity| last[&identity]).collect()
}

/// Adds a chart for each width whose records lie at several values of the axis. Returns the other records.
fn lines<'a>(
    records: &[&'a Record],
    figure: &Figure,
    plot: &Plot,
    charts: &mut Vec<Chart>,
) -> Vec<&'a Record> {
    if plot.y == EPOCHS {
        charts.extend(records.iter().filter_map(|record| epochs(record, plot)));
        return Vec::new();
    }
    let mut widths: BTreeMap<(u32, u32), Vec<&Record>> = BTreeMap::new();
    for record in records.iter().filter(|record| value(record, &plot.y).is_some()) {
        widths.entry((record.key_bits, record.value_bits)).or_default().push(record);
    }
    let mut rest = Vec::new();
    for group in widths.into_values() {
        let (placed, others) = split(&group, figure.x.as_deref());
        let axis = figure.x.as_ref().map(|name| Axis { name: name.clone(), is_log: figure.log_x });
        charts.extend(Chart::of(&placed, axis, plot));
        rest.extend(others);
    }
    rest
}

/// Splits records into those for lines over an axis and those for bars. Records that differ only in the axis
/// are a line. If most lines had a single point, these go to the bars, together with all other records at the
/// same values.
fn split<'a>(records: &[&'a Record], axis: Option<&str>) -> (Vec<&'a Record>, Vec<&'a Record>) {
    let Some(axis) = axis else { return (Vec::new(), records.to_vec()) };
    let mut lines: BTreeMap<Vec<(String, String)>, Vec<&Record>> = BTreeMap::new();
    let mut bars = Vec::new();
    for record in records {
        match axis_value(record, axis) {
            Some(_) => lines.entry(traits_beside(record, axis)).or_default().push(record),
            None => bars.push(*record),
        }
    }
    let single: Vec<&Record> = lines.values().filter(|line| line.len() == 1).map(|line| line[0]).collect();
    let is_line =
        |record: &Record| lines.get(&traits_beside(record, axis)).is_some_and(|line| line.len() > 1);
    if 2 * single.len() <= lines.len() {
        return (records.iter().copied().filter(|record| axis_value(record, axis).is_some()).collect(), bars);
    }
    let values: Vec<_> = single.iter().map(|record| axis_value(record, axis)).collect();
    bars.extend(records.iter().filter(|record| values.contains(&axis_value(record, axis))));
    (records.iter().copied().filter(|record| is_line(record)).collect(), bars)
}

/// Returns the traits of a record without the value on an axis.
fn traits_beside(record: &Record, axis: &str) -> Vec<(String, String)> {
    traits(record).into_iter().filter(|(name, _)| name != axis).collect()
}

fn axis_value(record: &Record, axis: &str) -> Option<f64> {
    if axis == "n" { Some(record.n as f64) } else { record.params.get(axis)?.number() }
}

/// Returns the field or counter of a record that a plot is about.
fn value(record: &Record, y: &str) -> Option<f64> {
    match y {
        "mops" => Some(record.mops),
        "median_ms" => Some(record.median_ms),
        "gb_s" => record.gb_s,
        "lines" => record.lines.as_ref().map(|lines| lines.iter().sum()),
        "overhead" => record.overhead.map(|overhead| 100.0 * overhead),
        counter => record.counted.as_ref()?.get(counter).copied(),
    }
}

/// Returns the name of a field's unit, and the factor to it. `top` is the largest value.
fn unit(y: &str, top: f64) -> (String, f64) {
    let fixed = match y {
        "mops" if top >= 1e3 => return ("10^9 operations per second".to_owned(), 1e-3),
        "mops" if top >= 1.0 => "10^6 operations per second",
        "mops" => return ("10^3 operations per second".to_owned(), 1e3),
        "median_ms" => "milliseconds",
        "gb_s" => "10^9 bytes per second",
        "lines" => "128-byte lines read per operation",
        "overhead" => "% of the memory that remains without garbage",
        counter => return (counter.replace('_', " "), 1.0),
    };
    (fixed.to_owned(), 1.0)
}

/// Returns the chart of one record's memory by epoch.
fn epochs(record: &Record, plot: &Plot) -> Option<Chart> {
    let epochs = record.epochs.as_ref()?;
    let series = |label: &str, field: usize| {
        let points = epochs.iter().map(|epoch| (epoch[0] as f64, epoch[field] as f64 / 1e6)).collect();
        Series { label: label.to_owned(), points }
    };
    Some(Chart {
        title: format!("{}: {}", record.suite, plot.title),
        caption: Traits::of(&[record]).common(record, ""),
        x: Some(Axis { name: "epoch".to_owned(), is_log: false }),
        y: "10^6 bytes".to_owned(),
        series: vec![series("retired so far", 1), series("reclaimed so far", 2)],
        ..Chart::default()
    })
}

impl Chart {
    /// Returns the chart of the records: bars if there is no axis. Fewer than two points make no chart.
    fn of(records: &[&Record], axis: Option<Axis>, plot: &Plot) -> Option<Self> {
        let first = records.first().filter(|_| records.len() > 1)?;
        let top = records.iter().filter_map(|record| value(record, &plot.y)).fold(0.0, f64::max);
        let (y, factor) = unit(&plot.y, top);
        let traits = Traits::of(records);
        let traits = Traits { axis: axis.as_ref().map(|axis| axis.name.clone()), ..traits };
        let mut series: Vec<Series> = Vec::new();
        for record in records {
            let label = traits.label(record);
            let x = axis.as_ref().and_then(|axis| axis_value(record, &axis.name)).unwrap_or(0.0);
            let point = (x, value(record, &plot.y)? * factor);
            match series.iter_mut().find(|series| series.label == label) {
                Some(series) => series.points.push(point),
                None => series.push(Series { label, points: vec![point] }),
            }
        }
        series.iter_mut().for_each(|series| series.points.sort_by(|a, b| a.0.total_cmp(&b.0)));
        let limits = if plot.y == "mops" { limits(records, axis.as_ref(), top, factor) } else { Vec::new() };
        let title = match plot.title.as_str() {
            "" if traits.differ.contains("op") => "rates",
            "" => &first.op,
            title => title,
        };
        let widths =
            if traits.differ.contains("bits") { String::new() } else { format!(", {}", bits(first)) };
        Some(Self {
            title: format!("{}: {title}{widths}", first.suite),
            caption: traits.common(first, title),
            x: axis,
            y,
            series,
            limits,
            is_emulated: TIMED.contains(&plot.y.as_str())
                && records.iter().any(|record| record.is_emulated()),
            ..Self::default()
        })
    }
}

/// Returns the limits of the records, with the ranges of the axis where they apply. Emulated records have
/// none, because their limits would flatten the lines.
fn limits(records: &[&Record], axis: Option<&Axis>, top: f64, factor: f64) -> Vec<Limit> {
    let mut limits: BTreeMap<&str, Limit> = BTreeMap::new();
    for record in records.iter().filter(|record| !record.is_emulated()) {
        let (Some(name), Some(mops)) = (&record.limit, record.limit_mops) else { continue };
        let x = axis.and_then(|axis| axis_value(record, &axis.name)).unwrap_or(0.0);
        let limit = Limit {
            name: name.clone(),
            value: mops * factor,
            from: x,
            to: x,
            is_drawn: mops <= HIGHEST_LIMIT * top,
        };
        let known = limits.entry(name).or_insert(limit);
        (known.from, known.to) = (known.from.min(x), known.to.max(x));
    }
    limits.into_values().collect()
}

/// Traits that tell the records of a chart apart. They are in the labels, and all others in the caption.
struct Traits {
    differ: BTreeSet<String>,
    axis: Option<String>,
}

/// Returns the names and texts of a record's traits, in the order of labels.
fn traits(record: &Record) -> Vec<(String, String)> {
    let params = record.params.iter().map(|(name, value)| {
        let value = value.number().map_or_else(|| value.to_string(), count);
        (name.clone(), format!("{name} = {value}"))
    });
    let fixed = [
        ("op".to_owned(), record.op.clone()),
        ("structure".to_owned(), record.structure.clone()),
        (format!("{VARIANT}{}", record.structure), record.variant.clone()),
        ("bits".to_owned(), format!("{}/{} bits", record.key_bits, record.value_bits)),
        ("n".to_owned(), format!("n = {}", count(record.n as f64))),
    ];
    let device = [("device".to_owned(), record.device.clone())];
    fixed.into_iter().chain(params).chain(device).collect()
}

/// Returns the widths of a record's keys and values.
fn bits(record: &Record) -> String {
    match record.value_bits {
        0 => format!("{}-bit keys", record.key_bits),
        bits if bits == record.key_bits => format!("{bits}-bit keys and values"),
        bits => format!("{}-bit keys, {bits}-bit values", record.key_bits),
    }
}

impl Traits {
    fn of(records: &[&Record]) -> Self {
        let all: Vec<BTreeMap<String, String>> =
            records.iter().map(|record| traits(record).into_iter().collect()).collect();
        let names: BTreeSet<&String> = all.iter().flat_map(BTreeMap::keys).collect();
        let differ = |name: &&&String| {
            // A variant is compared only with others of its structure: a baseline has only one.
            let told = |of: &BTreeMap<String, String>| !name.starts_with(VARIANT) || of.contains_key(**name);
            let told: Vec<_> =
                all.iter().filter(|traits| told(traits)).map(|traits| traits.get(**name)).collect();
            told.windows(2).any(|pair| pair[0] != pair[1])
        };
        Self { differ: names.iter().filter(differ).map(|name| (*name).clone()).collect(), axis: None }
    }

    /// Returns what tells a record apart from the others.
    fn label(&self, record: &Record) -> String {
        let is_told = |name: &String| self.differ.contains(name) && self.axis.as_ref() != Some(name);
        let texts = traits(record).into_iter().filter(|(name, _)| is_told(name)).map(|(_, text)| text);
        let label = texts.into_iter().join(" ");
        if label.is_empty() { record.variant.clone() } else { label }
    }

    /// Returns what all records have in common, except for what the title states.
    fn common(&self, record: &Record, title: &str) -> String {
        let is_common = |name: &String| {
            let is_unclear = name.starts_with(VARIANT) && self.differ.contains("structure");
            name != "bits" && !is_unclear && !self.differ.contains(name)
        };
        let common = traits(record).into_iter().filter(|(name, _)| is_common(name));
        common.map(|(_, text)| text).filter(|text| text != title).join(", ")
    }
}
