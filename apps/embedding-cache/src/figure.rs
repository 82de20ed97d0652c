//! Figures as SVG: lines over the batches, and bars.
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Result of drawing.
pub type Drawn = Result<String, DrawingAreaErrorKind<std::io::Error>>;

/// A line over the numbers of the batches.
pub struct Line {
    pub label: &'static str,
    pub points: Vec<(f64, f64)>,
}

/// Colours that remain distinguishable in print and with colour blindness (Okabe and Ito).
const COLOURS: [RGBColor; 4] =
    [RGBColor(0, 114, 178), RGBColor(213, 94, 0), RGBColor(0, 158, 115), RGBColor(204, 121, 167)];

const WIDTH: u32 = 1000;
const FONT: (&str, i32) = ("sans-serif", 13);
/// Height of a bar.
const BAR: u32 = 28;

/// Draws lines over the batches, and a vertical line at each of `marks`.
pub fn lines(unit: &str, lines: &[Line], marks: &[f64]) -> Drawn {
    let mut svg = String::new();
    let points = || lines.iter().flat_map(|line| &line.points);
    let last = points().map(|point| point.0).fold(1.0, f64::max);
    let top = points().map(|point| point.1).fold(0.0, f64::max).max(1e-9) * 1.05;
    let area = SVGBackend::with_string(&mut svg, (WIDTH, 340)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut canvas = ChartBuilder::on(&area);
    let canvas = canvas.margin(12).x_label_area_size(40).y_label_area_size(72);
    let mut canvas = canvas.build_cartesian_2d(0.0..last, 0.0..top)?;
    let mut mesh = canvas.configure_mesh();
    mesh.x_desc("batch").y_desc(unit).light_line_style(WHITE).label_style(FONT).draw()?;
    for mark in marks {
        canvas.draw_series(DashedLineSeries::new(
            [(*mark, 0.0), (*mark, top)],
            2,
            4,
            BLACK.mix(0.5).stroke_width(1),
        ))?;
    }
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let style = colour.stroke_width(2);
        let series = canvas.draw_series(LineSeries::new(line.points.iter().copied(), style))?;
        let sample = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style);
        series.label(line.label).legend(sample);
    }
    let mut legend = canvas.configure_series_labels();
    legend.background_style(WHITE.mix(0.8)).border_style(BLACK.mix(0.3)).label_font(FONT).draw()?;
    area.present()?;
    drop(canvas);
    drop(area);
    Ok(svg)
}

/// Draws a bar for each label.
pub fn bars(unit: &str, bars: &[(&str, f64)]) -> Drawn {
    let mut svg = String::new();
    let right = bars.iter().map(|bar| bar.1).fold(0.0, f64::max).max(1e-9) * 1.1;
    let height = 70 + BAR * bars.len() as u32;
    let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut canvas = ChartBuilder::on(&area);
    let canvas = canvas.margin(12).x_label_area_size(40).y_label_area_size(170);
    let mut canvas = canvas.build_cartesian_2d(0.0..right, bars.len() as f64..0.0)?;
    let mut mesh = canvas.configure_mesh();
    let mesh = mesh.x_desc(unit).disable_y_mesh().y_labels(0).light_line_style(WHITE);
    mesh.label_style(FONT).draw()?;
    for (index, (label, value)) in bars.iter().enumerate() {
        let (from, middle, to) = (index as f64 + 0.15, index as f64 + 0.5, index as f64 + 0.85);
        canvas.draw_series([Rectangle::new([(0.0, from), (*value, to)], COLOURS[0].mix(0.7).filled())])?;
        let (left, y) = canvas.backend_coord(&(0.0, middle));
        let end = canvas.backend_coord(&(*value, middle)).0;
        let text = |anchor| TextStyle::from(FONT.into_font()).pos(Pos::new(anchor, VPos::Center));
        area.draw(&Text::new((*label).to_owned(), (left - 8, y), text(HPos::Right)))?;
        area.draw(&Text::new(format!("{value:.2}"), (end + 6, y), text(HPos::Left)))?;
    }
    area.present()?;
    drop(canvas);
    drop(area);
    Ok(svg)
}
