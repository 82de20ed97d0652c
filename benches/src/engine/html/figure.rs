//! One figure as SVG: lines over a parameter, or bars if there is none, and the limits of the machine.
use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use std::collections::BTreeMap;

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

const WIDTH: u32 = 960;
/// Width of the legend beside a plot.
const LEGEND: u32 = 250;

/// Colour of the limits.
const LIMIT: RGBAColor = RGBAColor(0, 0, 0, 0.6);

const LABEL: &str = "million operations a second";
const EMULATED_LABEL: &str = "million operations a second (emulator: no measurement of speed)";

/// Data of a line or a bar.
pub struct Series {
    pub label: String,
    pub points: Vec<(f64, f64)>,
}

/// Contents of a figure.
pub struct Chart {
    pub title: String,
    /// Name of the horizontal axis; `None` draws bars.
    pub x: Option<String>,
    pub log_x: bool,
    pub lines: Vec<Series>,
    /// Throughput by limit name.
    pub limits: BTreeMap<String, f64>,
    /// Whether the axis must say that the values are not speeds.
    pub is_emulated: bool,
}

impl Chart {
    fn label(&self) -> &'static str {
        if self.is_emulated { EMULATED_LABEL } else { LABEL }
    }
}

/// Draws the chart.
pub fn draw(chart: &Chart) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height(chart))).into_drawing_area();
    area.fill(&WHITE)?;
    match &chart.x {
        Some(axis) if chart.log_x => lines(&area, chart, axis, span(chart).log_scale())?,
        Some(axis) => lines(&area, chart, axis, span(chart))?,
        None => bars(&area, chart)?,
    }
    area.present()?;
    drop(area);
    Ok(svg)
}

/// Returns the height of the figure, which leaves space for every line of the legend or every bar.
fn height(chart: &Chart) -> u32 {
    let entries = (chart.lines.len() + chart.limits.len()) as u32;
    480.max(70 + 20 * entries)
}

/// Returns the horizontal range, slightly wider than the points.
fn span(chart: &Chart) -> std::ops::Range<f64> {
    let xs = || chart.lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let (low, high) = (xs().fold(f64::INFINITY, f64::min), xs().fold(f64::NEG_INFINITY, f64::max));
    if chart.log_x {
        return low * 0.9..high * 1.1;
    }
    let margin = ((high - low) * 0.03).max(low.abs() * 0.01).max(1e-9);
    low - margin..high + margin
}

/// Returns the upper end of the vertical axis.
fn top(chart: &Chart) -> f64 {
    let points = chart.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    points.chain(chart.limits.values().copied()).fold(1e-9, f64::max) * 1.08
}

fn lines<X>(area: &Area<'_>, chart: &Chart, axis: &str, span: X) -> Outcome
where
    X: AsRangedCoord<Value = f64> + Clone,
    X::CoordDescType: ValueFormatter<f64>,
{
    let (plot, side) = area.split_horizontally(WIDTH - LEGEND);
    let mut canvas = ChartBuilder::on(&plot);
    let canvas = canvas.caption(&chart.title, ("sans-serif", 15)).margin(12);
    let canvas = canvas.x_label_area_size(44).y_label_area_size(76);
    let mut canvas = canvas.build_cartesian_2d(span, 0.0..top(chart))?;
    canvas.configure_mesh().x_desc(axis).y_desc(chart.label()).light_line_style(WHITE).draw()?;
    for (line, colour) in chart.lines.iter().zip(COLOURS.into_iter().cycle()) {
        let series = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
        canvas.draw_series(series.point_size(3))?;
    }
    let range = self::span(chart);
    for mops in chart.limits.values() {
        let ends = [(range.start, *mops), (range.end, *mops)];
        canvas.draw_series(DashedLineSeries::new(ends, 6, 4, LIMIT.stroke_width(1)))?;
    }
    legend(&side, chart)
}

/// Draws the names of the lines beside the plot, where they cover no data.
fn legend(area: &Area<'_>, chart: &Chart) -> Outcome {
    let mut y = 50;
    let mut entry = |style: ShapeStyle, text: &str| {
        area.draw(&PathElement::new([(4, y + 7), (24, y + 7)], style))?;
        area.draw(&Text::new(text.to_owned(), (30, y), ("sans-serif", 13).into_font()))?;
        y += 20;
        Ok(())
    };
    for (line, colour) in chart.lines.iter().zip(COLOURS.into_iter().cycle()) {
        entry(colour.stroke_width(3), &line.label)?;
    }
    for (name, mops) in &chart.limits {
        entry(LIMIT.stroke_width(1), &format!("limit {name}: {}", crate::engine::table::throughput(*mops)))?;
    }
    Ok(())
}

/// Draws one bar per series, with the mean as its length and the label and value beside it.
fn bars(area: &Area<'_>, chart: &Chart) -> Outcome {
    let count = chart.lines.len() as f64;
    let right = top(chart);
    let mut canvas = ChartBuilder::on(area);
    let canvas = canvas.caption(&chart.title, ("sans-serif", 16)).margin(12).x_label_area_size(44);
    let mut canvas = canvas.y_label_area_size(8).build_cartesian_2d(0.0..right, count..0.0)?;
    canvas
        .configure_mesh()
        .x_desc(chart.label())
        .disable_y_mesh()
        .disable_y_axis()
        .light_line_style(WHITE)
        .draw()?;
    for (index, line) in chart.lines.iter().enumerate() {
        let mean = line.points.iter().map(|point| point.1).sum::<f64>() / line.points.len().max(1) as f64;
        let (from, to) = (index as f64 + 0.15, index as f64 + 0.85);
        let colour = COLOURS[index % COLOURS.len()].mix(0.55).filled();
        canvas.draw_series([Rectangle::new([(0.0, from), (mean, to)], colour)])?;
        let text = format!("{}: {}", line.label, crate::engine::table::throughput(mean));
        let style = ("sans-serif", 14).into_font();
        canvas.draw_series([Text::new(text, (right * 0.01, f64::midpoint(from, to) - 0.1), style)])?;
    }
    for (name, mops) in &chart.limits {
        let ends = [(*mops, 0.0), (*mops, count)];
        canvas.draw_series(DashedLineSeries::new(ends, 6, 4, LIMIT.stroke_width(1)))?;
        let style = ("sans-serif", 12).into_font();
        canvas.draw_series([Text::new(format!("limit {name}"), (*mops * 0.99, 0.02), style)])?;
    }
    Ok(())
}
