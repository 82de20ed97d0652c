//! One figure as SVG: lines over a parameter, or bars if there is none, and the limits of the machine.
use super::axis::{Axis, CHARACTER, Heights, Tick, rounded, three_digits};
use itertools::Itertools;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

type Outcome = Result<(), DrawingAreaErrorKind<std::io::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Colours that remain distinguishable in print and with colour blindness (Okabe and Ito).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(60, 60, 60),
];

const WIDTH: u32 = 1000;
/// Maximum width of a legend, and of the labels of bars.
const MOST_LEGEND: u32 = 500;
const MOST_LABEL: u32 = 640;
/// Height of an entry of the legend, and of a bar.
const ENTRY: u32 = 20;
const BAR: u32 = 24;

const FONT: (&str, i32) = ("sans-serif", 13);

/// Colour of the limits.
const LIMIT: RGBAColor = RGBAColor(0, 0, 0, 0.6);

/// Data of a line, or of a bar.
pub struct Series {
    pub label: String,
    pub points: Vec<(f64, f64)>,
}

/// Limit of the machine between two values on the axis.
pub struct Limit {
    pub name: String,
    pub value: f64,
    pub from: f64,
    pub to: f64,
    /// Whether the limit is drawn, or only stated.
    pub is_drawn: bool,
}

/// Contents of a figure.
#[derive(Default)]
pub struct Chart {
    pub title: String,
    /// Text below the figure.
    pub caption: String,
    /// Horizontal axis; `None` draws bars.
    pub x: Option<Axis>,
    /// Unit of the values.
    pub y: String,
    /// Whether the axis of the values of lines is logarithmic.
    pub log_y: bool,
    pub series: Vec<Series>,
    pub limits: Vec<Limit>,
    /// Whether the axis must say that the values are not speeds.
    pub is_emulated: bool,
}

impl Chart {
    fn unit(&self) -> String {
        let remark = if self.is_emulated { " (emulator: no measurement of speed)" } else { "" };
        format!("{}{remark}", self.y)
    }

    /// Returns the axis of the values.
    fn heights(&self) -> Heights {
        let points = self.series.iter().flat_map(|series| &series.points).map(|point| point.1);
        let limits = self.limits.iter().filter(|limit| limit.is_drawn).map(|limit| limit.value);
        Heights::of(points.chain(limits), self.log_y && self.x.is_some())
    }
}

impl Limit {
    fn label(&self) -> String {
        let remark = if self.is_drawn { "" } else { ", not drawn" };
        format!("limit {}: {}{remark}", self.name, three_digits(self.value))
    }
}

/// Draws the chart.
///
/// # Errors
/// Returns [`DrawingAreaErrorKind`] when the SVG back end cannot draw.
pub fn draw(chart: &Chart) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let mut svg = String::new();
    let entries = (chart.series.len() + chart.limits.len()) as u32;
    let height = match chart.x {
        Some(_) => 400.max(70 + ENTRY * entries),
        None => 100 + BAR * chart.series.len() as u32 + ENTRY * chart.limits.len() as u32,
    };
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    match &chart.x {
        Some(axis) => lines(&area, chart, axis)?,
        None => bars(&area, chart)?,
    }
    area.present()?;
    drop(area);
    Ok(svg)
}

/// Returns the width in pixels of the longest of some labels.
fn width<'a>(labels: impl Iterator<Item = &'a str>) -> u32 {
    (labels.map(|label| label.chars().count()).max().unwrap_or(0) * CHARACTER) as u32
}

/// Returns the ascending values on the horizontal axis.
fn values(chart: &Chart) -> Vec<f64> {
    let points = chart.series.iter().flat_map(|series| &series.points);
    points.map(|point| point.0).sorted_by(f64::total_cmp).dedup().collect()
}

/// Coordinate with given ticks.
struct Ticked {
    range: Range<f64>,
    ticks: Vec<Tick>,
}

impl Ranged for Ticked {
    type ValueType = f64;
    type FormatOption = NoDefaultFormatting;

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        RangedCoordf64::from(self.range.clone()).map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let is_bold = !hint.weight().allow_light_points();
        self.ticks.iter().filter(|_| is_bold).map(|tick| tick.0).collect()
    }
}

impl ValueFormatter<f64> for Ticked {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.0 == *value);
        tick.map_or_else(String::new, |tick| tick.1.clone())
    }
}

fn lines(area: &Area<'_>, chart: &Chart, axis: &Axis) -> Outcome {
    let limits: Vec<String> = chart.limits.iter().map(Limit::label).collect();
    let labels =
        chart.series.iter().map(|series| series.label.as_str()).chain(limits.iter().map(String::as_str));
    let plot_width = WIDTH - width(labels).min(MOST_LEGEND) - 40;
    let (plot, side) = area.split_horizontally(plot_width);
    let values = values(chart);
    let (first, last) = (axis.position(values[0]), axis.position(values[values.len() - 1]));
    let margin = (last - first) * 0.04;
    let (low, high) = (first - margin, last + margin);
    let ticks = axis.ticks(&values, f64::from(plot_width - 100), (low, high));
    let mut canvas = ChartBuilder::on(&plot);
    let canvas = canvas.caption(&chart.title, ("sans-serif", 15)).margin(12);
    let canvas = canvas.x_label_area_size(44).y_label_area_size(64);
    let x = Ticked { range: low..high, ticks };
    let heights = chart.heights();
    let y = Ticked { range: heights.range(), ticks: heights.ticks() };
    let mut canvas = canvas.build_cartesian_2d(x, y)?;
    let mut mesh = canvas.configure_mesh();
    let mesh = mesh.x_desc(&axis.name).y_desc(chart.unit()).light_line_style(WHITE).label_style(FONT);
    mesh.draw()?;
    for (index, series) in chart.series.iter().enumerate() {
        let points = series.points.iter().map(|(x, y)| (axis.position(*x), heights.position(*y)));
        canvas.draw_series(points.clone().map(|point| Circle::new(point, 3, style(index).filled())))?;
        if index < COLOURS.len() {
            canvas.draw_series(LineSeries::new(points, style(index)))?;
        } else {
            canvas.draw_series(DashedLineSeries::new(points, 8, 4, style(index)))?;
        }
    }
    for limit in chart.limits.iter().filter(|limit| limit.is_drawn) {
        let (from, to) = (axis.position(limit.from) - margin / 2.0, axis.position(limit.to) + margin / 2.0);
        let height = heights.position(limit.value);
        let ends = [(from, height), (to, height)];
        canvas.draw_series(DashedLineSeries::new(ends, 2, 4, LIMIT.stroke_width(1)))?;
    }
    legend(&side, chart, &limits)
}

/// Returns the style of a line. Lines beyond the number of colours are also dashed.
fn style(index: usize) -> ShapeStyle {
    COLOURS[index % COLOURS.len()].stroke_width(2)
}

/// Draws the names of the lines and limits beside the plot, where they cover no data.
fn legend(area: &Area<'_>, chart: &Chart, limits: &[String]) -> Outcome {
    let series =
        chart.series.iter().enumerate().map(|(index, series)| (sample(index), style(index), &series.label));
    let limits = chart.limits.iter().zip(limits).map(|(limit, label)| {
        let sample: &[_] = if limit.is_drawn { &[(4, 6), (10, 12), (16, 18), (22, 24)] } else { &[] };
        (sample, LIMIT.stroke_width(1), label)
    });
    for (index, (sample, style, label)) in series.chain(limits).enumerate() {
        let y = 50 + ENTRY as i32 * index as i32;
        for (from, to) in sample {
            area.draw(&PathElement::new([(*from, y + 7), (*to, y + 7)], style))?;
        }
        area.draw(&Text::new(label.clone(), (30, y), FONT))?;
    }
    Ok(())
}

/// Returns the dashes that show a line in the legend.
fn sample(index: usize) -> &'static [(i32, i32)] {
    if index < COLOURS.len() { &[(4, 24)] } else { &[(4, 12), (16, 24)] }
}

/// Draws one bar per series, with its label on the left and its value at its end. Several values make a mean.
fn bars(area: &Area<'_>, chart: &Chart) -> Outcome {
    let count = chart.series.len();
    let gutter = width(chart.series.iter().map(|series| series.label.as_str())).min(MOST_LABEL) + 16;
    // Leaves space for the values at the ends of the bars.
    let right = chart.heights().range().end * 1.06;
    let (plot, below) = area.split_vertically(100 + BAR * count as u32);
    let mut canvas = ChartBuilder::on(&plot);
    let canvas = canvas.caption(&chart.title, ("sans-serif", 15)).margin(12).x_label_area_size(44);
    let x = Ticked { range: 0.0..right, ticks: rounded(0.0, right, 8) };
    let mut canvas = canvas.y_label_area_size(gutter).build_cartesian_2d(x, count as f64..0.0)?;
    let mut mesh = canvas.configure_mesh();
    let mesh = mesh.x_desc(chart.unit()).disable_y_mesh().y_labels(0).light_line_style(WHITE);
    mesh.label_style(FONT).draw()?;
    for (index, series) in chart.series.iter().enumerate() {
        let mean = series.points.iter().map(|point| point.1).sum::<f64>() / series.points.len().max(1) as f64;
        let (from, middle, to) = (index as f64 + 0.15, index as f64 + 0.5, index as f64 + 0.85);
        canvas.draw_series([Rectangle::new([(0.0, from), (mean, to)], COLOURS[0].mix(0.7).filled())])?;
        let (left, y) = canvas.backend_coord(&(0.0, middle));
        let end = canvas.backend_coord(&(mean, middle)).0;
        let text = |anchor: HPos| TextStyle::from(FONT.into_font()).pos(Pos::new(anchor, VPos::Center));
        area.draw(&Text::new(series.label.clone(), (left - 8, y), text(HPos::Right)))?;
        area.draw(&Text::new(three_digits(mean), (end + 6, y), text(HPos::Left)))?;
    }
    for limit in chart.limits.iter().filter(|limit| limit.is_drawn) {
        let ends = [(limit.value, 0.0), (limit.value, count as f64)];
        canvas.draw_series(DashedLineSeries::new(ends, 2, 4, LIMIT.stroke_width(1)))?;
    }
    for (index, limit) in chart.limits.iter().enumerate() {
        below.draw(&Text::new(limit.label(), (gutter as i32 + 16, ENTRY as i32 * index as i32), FONT))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_labels_of_bars_are_not_cut_off() {
        let label = "long ".repeat(16);
        let chart = Chart {
            series: vec![Series { label: label.clone(), points: vec![(0.0, 1.0)] }],
            ..Chart::default()
        };
        let svg = draw(&chart).unwrap();
        let element = &svg[..svg.find(label.trim()).unwrap()];
        let x = element[element.rfind("<text").unwrap()..].split("x=\"").nth(1).unwrap();
        let end: usize = x[..x.find('"').unwrap()].parse().unwrap();
        assert!(element.contains("text-anchor=\"end\"") && end >= label.len() * CHARACTER, "{svg}");
    }
}
