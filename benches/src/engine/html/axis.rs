//! Axes: scales, ticks, and labels that do not overlap.
use std::ops::Range;

/// Width of a label in pixels per character, about.
pub const CHARACTER: usize = 7;

/// Number of ticks above which an axis uses round numbers instead of the values themselves.
const MOST_VALUES: usize = 12;

/// Position on an axis, and label.
pub type Tick = (f64, String);

/// Axis of the values of a figure.
pub enum Heights {
    /// From 0 to this end.
    Linear(f64),
    /// Decimal logarithms, from one power of ten to another.
    Log(i32, i32),
}

impl Heights {
    /// Returns the axis for values: a logarithmic one, if wanted, for positive values.
    pub fn of(values: impl Iterator<Item = f64> + Clone, is_log: bool) -> Self {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let top = values.fold(1e-9, f64::max);
        if is_log && least > 0.0 {
            let low = least.log10().floor() as i32;
            return Self::Log(low, (top.log10().ceil() as i32).max(low + 1));
        }
        Self::Linear(top * 1.08)
    }

    pub fn position(&self, value: f64) -> f64 {
        if matches!(self, Self::Log(..)) { value.log10() } else { value }
    }

    pub fn range(&self) -> Range<f64> {
        match *self {
            Self::Linear(top) => 0.0..top,
            Self::Log(low, high) => f64::from(low)..f64::from(high),
        }
    }

    pub fn ticks(&self) -> Vec<Tick> {
        match *self {
            Self::Linear(top) => rounded(0.0, top, 8),
            Self::Log(low, high) => {
                (low..=high).map(|power| (f64::from(power), format!("{}", 10f64.powi(power)))).collect()
            }
        }
    }
}

/// Horizontal axis.
pub struct Axis {
    pub name: String,
    /// Whether positions are logarithms to base 2.
    pub is_log: bool,
}

impl Axis {
    /// Returns the position of a value.
    pub fn position(&self, value: f64) -> f64 {
        if self.is_log { value.log2() } else { value }
    }

    /// Returns ticks for points at `values` (ascending), on an axis of `width` pixels from `low` to `high`.
    pub fn ticks(&self, values: &[f64], width: f64, (low, high): (f64, f64)) -> Vec<Tick> {
        let tick = |value: &f64| (self.position(*value), count(*value));
        let pixels = width / (high - low);
        if self.is_log && values.iter().all(|value| power_of_two(*value).is_some()) {
            return powers(values, pixels);
        }
        let ticks = if values.len() <= MOST_VALUES {
            values.iter().map(tick).collect()
        } else {
            rounded(low, high, MOST_VALUES)
        };
        apart(ticks, pixels)
    }
}

/// Returns ticks at powers of two from the first value on, at the smallest distance that the labels permit.
fn powers(values: &[f64], pixels: f64) -> Vec<Tick> {
    let exponent = |value: Option<&f64>| value.and_then(|value| power_of_two(*value)).unwrap_or(0);
    let (first, last) = (exponent(values.first()), exponent(values.last()));
    let tick = |exponent: i32| (f64::from(exponent), count(f64::from(exponent).exp2()));
    let every = |step: usize| (first..=last).step_by(step).map(tick).collect::<Vec<_>>();
    let fits = |ticks: &Vec<Tick>| apart(ticks.clone(), pixels).len() == ticks.len();
    (1..).map(every).find(fits).unwrap_or_default()
}

/// Drops each tick whose label would touch that of the last one kept.
fn apart(ticks: Vec<Tick>, pixels: f64) -> Vec<Tick> {
    let mut kept: Vec<Tick> = Vec::new();
    for (position, label) in ticks {
        let half = |label: &str| ((label.len() + 2) * CHARACTER) as f64 / 2.0;
        let is_free = |(last, other): &Tick| (position - last) * pixels >= half(other) + half(&label);
        if kept.last().is_none_or(is_free) {
            kept.push((position, label));
        }
    }
    kept
}

/// Returns at most about `most` ticks at multiples of 1, 2 or 5 times a power of ten.
pub fn rounded(low: f64, high: f64, most: usize) -> Vec<Tick> {
    let least = (high - low) / most as f64;
    let power = 10f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= least);
    let step = step.unwrap_or(least);
    let ticks = (low / step).ceil() as i64..=(high / step).floor() as i64;
    ticks.map(|index| index as f64 * step).map(|value| (value, plain(value).to_string())).collect()
}

/// Formats a number: powers of two from 1024 on as such, other large numbers with an SI prefix.
pub fn count(value: f64) -> String {
    if let Some(exponent) = power_of_two(value).filter(|exponent| *exponent >= 10) {
        return format!("2^{exponent}");
    }
    let prefixes = [(1e9, " G"), (1e6, " M"), (1e3, " k")];
    let (unit, prefix) = prefixes.into_iter().find(|(unit, _)| value.abs() >= *unit).unwrap_or((1.0, ""));
    format!("{}{prefix}", plain(value / unit))
}

/// Removes the errors of binary fractions.
fn plain(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

fn power_of_two(value: f64) -> Option<i32> {
    let exponent = value.log2();
    (exponent.fract() == 0.0 && (0.0..63.0).contains(&exponent)).then_some(exponent as i32)
}

/// Formats a number with three significant digits, and all digits before the point.
pub fn three_digits(value: f64) -> String {
    let magnitude = if value == 0.0 { 0 } else { value.abs().log10().floor() as i32 };
    format!("{value:.*}", (2 - magnitude).clamp(0, 9) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(is_log: bool, values: &[f64]) -> Vec<String> {
        let axis = Axis { name: "n".to_owned(), is_log };
        let ends = (axis.position(values[0]), axis.position(values[values.len() - 1]));
        axis.ticks(values, 600.0, ends).into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn sizes_are_powers_of_two_or_have_prefixes() {
        assert_eq!(labels(true, &[65536.0, 262_144.0, 524_288.0]), ["2^16", "2^17", "2^18", "2^19"]);
        assert_eq!(labels(true, &[8.0, 16.0]), ["8", "16"]);
        let wide = [2f64.powi(4), 2f64.powi(40)];
        assert_eq!(labels(true, &wide)[..4], ["16", "128", "2^10", "2^13"], "at equal distances");
        assert_eq!(labels(true, &[8.0, 100.0, 1000.0, 45e6]), ["8", "100", "1 k", "45 M"]);
        assert_eq!(labels(false, &[0.05, 0.5, 0.95]), ["0.05", "0.5", "0.95"]);
    }

    #[test]
    fn labels_never_overlap() {
        let many: Vec<f64> = (0..40).map(|exponent| f64::from(exponent).exp2()).collect();
        let close: Vec<f64> = (0..12).map(|index| 0.9 + f64::from(index) / 1e4).chain([9.0]).collect();
        for (is_log, values) in [(true, &many), (false, &close), (false, &many)] {
            let axis = Axis { name: "n".to_owned(), is_log };
            let (low, high) = (axis.position(values[0]), axis.position(values[values.len() - 1]));
            let ticks = axis.ticks(values, 600.0, (low, high));
            assert!(ticks.len() >= 2, "{ticks:?}");
            for pair in ticks.windows(2) {
                let room = (pair[1].0 - pair[0].0) * 600.0 / (high - low);
                assert!(room >= ((pair[0].1.len() + pair[1].1.len()) * CHARACTER) as f64 / 2.0, "{ticks:?}");
            }
        }
    }

    #[test]
    fn values_of_all_magnitudes_fit_a_logarithmic_axis() {
        let axis = Heights::of([0.027, 27.0].into_iter(), true);
        let labels: Vec<_> = axis.ticks().into_iter().map(|tick| tick.1).collect();
        assert_eq!(labels, ["0.01", "0.1", "1", "10", "100"]);
        assert!(axis.range().contains(&axis.position(0.027)) && axis.range().contains(&axis.position(27.0)));
        assert_eq!(Heights::of([0.0, 27.0].into_iter(), true).position(27.0), 27.0);
    }

    #[test]
    fn ticks_are_round_numbers() {
        let labels = |top: f64| rounded(0.0, top, 6).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(labels(33.0), ["0", "10", "20", "30"]);
        assert_eq!(labels(0.7), ["0", "0.2", "0.4", "0.6"]);
        assert_eq!(
            [1234.5, 99.94, 1.234, 0.0123, 0.0].map(three_digits),
            ["1234", "99.9", "1.23", "0.0123", "0.00"]
        );
    }
}
