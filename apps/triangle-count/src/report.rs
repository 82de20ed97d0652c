//! Tables and drawings.
use crate::stream::Moment;
use indicatif::HumanCount;
use std::io::{Result, Write};

/// Columns of a bar.
const WIDTH: u64 = 40;
/// Maximum number of lines of the drawing.
const LINES: usize = 24;

/// Returns the moments that are drawn: all, or some at equal distances, the last one among them.
fn some(moments: &[Moment]) -> impl Iterator<Item = &Moment> {
    let step = moments.len().div_ceil(LINES).max(1);
    moments.iter().rev().step_by(step).collect::<Vec<_>>().into_iter().rev()
}

/// Prints the number of triangles over time, with a bar for each moment.
///
/// # Errors
/// Returns [`std::io::Error`] when writing to `out` fails.
pub fn draw(moments: &[Moment], out: &mut impl Write) -> Result<()> {
    let most = moments.iter().map(|moment| moment.triangles).max().unwrap_or(0).max(1);
    writeln!(out, "{:>16} {:>16} {:>20}", "edges read", "edges", "triangles")?;
    for moment in some(moments) {
        let [read, edges, triangles] =
            [moment.read, moment.edges, moment.triangles].map(|n| HumanCount(n).to_string());
        let bar = "#".repeat((u128::from(moment.triangles) * u128::from(WIDTH) / u128::from(most)) as usize);
        writeln!(out, "{}", format!("{read:>16} {edges:>16} {triangles:>20} {bar}").trim_end())?;
    }
    Ok(())
}

/// Writes all moments, a line each: edges read, edges, triangles and milliseconds, separated by tabs.
///
/// # Errors
/// Returns [`std::io::Error`] when writing to `out` fails.
pub fn write(moments: &[Moment], mut out: impl Write) -> Result<()> {
    writeln!(out, "read\tedges\ttriangles\tms")?;
    for Moment { read, edges, triangles, time } in moments {
        writeln!(out, "{read}\t{edges}\t{triangles}\t{:.3}", time.as_secs_f64() * 1e3)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn moment(read: u64) -> Moment {
        Moment { read, edges: read / 2, triangles: read * 10, time: Duration::from_micros(1500) }
    }

    #[test]
    fn few_lines_are_drawn_and_the_last_one_among_them() {
        let moments: Vec<Moment> = (1..=1000).map(moment).collect();
        let mut text = Vec::new();
        draw(&moments, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= LINES + 1);
        assert!(lines[lines.len() - 1].ends_with(&format!("10,000 {}", "#".repeat(40))), "{text}");
        draw(&[], &mut Vec::new()).unwrap();
    }

    #[test]
    fn all_moments_are_written() {
        let mut text = Vec::new();
        write(&[moment(4), moment(8)], &mut text).unwrap();
        assert_eq!(text, b"read\tedges\ttriangles\tms\n4\t2\t40\t1.500\n8\t4\t80\t1.500\n");
    }
}
