//! Tables and drawings.
use crate::stream::BatchState;
use indicatif::HumanCount;
use std::io::{Result, Write};

/// Columns of a bar.
const WIDTH: u64 = 40;
/// Maximum number of lines of the drawing.
const LINES: usize = 24;

/// Returns the states that are drawn: all, or some at equal distances, the last one among them.
fn some(states: &[BatchState]) -> impl Iterator<Item = &BatchState> {
    let step = states.len().div_ceil(LINES).max(1);
    states.iter().rev().step_by(step).collect::<Vec<_>>().into_iter().rev()
}

/// Prints the number of triangles over time, with a bar for each batch.
///
/// # Errors
/// Returns [`std::io::Error`] when writing to `out` fails.
pub fn draw(states: &[BatchState], out: &mut impl Write) -> Result<()> {
    let most = states.iter().map(|state| state.triangles).max().unwrap_or(0).max(1);
    writeln!(out, "{:>16} {:>16} {:>20}", "edges read", "edges", "triangles")?;
    for state in some(states) {
        let [read, edges, triangles] =
            [state.read, state.edges, state.triangles].map(|n| HumanCount(n).to_string());
        let bar = "#".repeat((u128::from(state.triangles) * u128::from(WIDTH) / u128::from(most)) as usize);
        writeln!(out, "{}", format!("{read:>16} {edges:>16} {triangles:>20} {bar}").trim_end())?;
    }
    Ok(())
}

/// Writes all states, a line each: edges read, edges, triangles and milliseconds, separated by tabs.
///
/// # Errors
/// Returns [`std::io::Error`] when writing to `out` fails.
pub fn write(states: &[BatchState], mut out: impl Write) -> Result<()> {
    writeln!(out, "read\tedges\ttriangles\tms")?;
    for BatchState { read, edges, triangles, time } in states {
        writeln!(out, "{read}\t{edges}\t{triangles}\t{:.3}", time.as_secs_f64() * 1e3)?;
    }
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn state(read: u64) -> BatchState {
        BatchState { read, edges: read / 2, triangles: read * 10, time: Duration::from_micros(1500) }
    }

    #[test]
    fn few_lines_are_drawn_and_the_last_one_among_them() {
        let states: Vec<BatchState> = (1..=1000).map(state).collect();
        let mut text = Vec::new();
        draw(&states, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines.len() <= LINES + 1);
        assert!(lines[lines.len() - 1].ends_with(&format!("10,000 {}", "#".repeat(40))), "{text}");
        draw(&[], &mut Vec::new()).unwrap();
    }

    #[test]
    fn all_moments_are_written() {
        let mut text = Vec::new();
        write(&[state(4), state(8)], &mut text).unwrap();
        assert_eq!(text, b"read\tedges\ttriangles\tms\n4\t2\t40\t1.500\n8\t4\t80\t1.500\n");
    }
}
