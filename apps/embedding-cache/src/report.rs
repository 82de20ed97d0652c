//! The table in the terminal.
use crate::history::{Batch, History, Stage};
use anyhow::Result;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::HumanCount;
use phalanx::gpu::Device;
use std::io::Write;
use std::time::Duration;

/// Remark beside times of the emulator.
pub const NO_SPEED: &str = "emulator: no measurement of speed";

/// Prints the counts of the training and the time of each stage.
///
/// # Errors
/// Returns [`anyhow::Error`] when writing to `out` fails.
pub fn print(history: &History, device: &Device, out: &mut impl Write) -> Result<()> {
    writeln!(out, "{}", device.name())?;
    writeln!(out, "{}", counts(history))?;
    let remark = if device.is_emulator() { format!(" ({NO_SPEED})") } else { String::new() };
    writeln!(out, "\ntimes{remark}\n{}", stages(&history.total()))?;
    Ok(writeln!(out, "\nall rows in cache and store are those of the model")?)
}

fn counts(history: &History) -> Table {
    let (total, last) = (history.total(), history.last_quarter());
    let mut table = blank(&["", "all batches", "last quarter"]);
    let count = |value: u64| HumanCount(value).to_string();
    let percent = |value: f64| format!("{value:.2} %");
    let mut counted = |name: &str, of: fn(&Batch) -> u64| {
        table.add_row([name.to_owned(), count(of(&total)), count(of(&last))]);
    };
    counted("training requests", |batch| batch.requests);
    counted("missed items", |batch| batch.missed);
    counted("admitted", |batch| batch.admitted);
    counted("refused", |batch| batch.refused);
    counted("evicted", |batch| batch.evicted);
    counted("promoted", |batch| batch.promoted);
    table.add_row(["hit rate of training".to_owned(), percent(total.hit_rate()), percent(last.hit_rate())]);
    table.add_row([
        "hit rate of serving".to_owned(),
        percent(total.served_hit_rate()),
        percent(last.served_hit_rate()),
    ]);
    let returned = history.return_rate().map_or_else(|| "none judged".to_owned(), percent);
    let name = format!("evicted items back within {} batches", history.window);
    table.add_row([name, returned, String::new()]);
    aligned(table)
}

fn stages(total: &Batch) -> Table {
    let mut table = blank(&["stage", "rows", "seconds", "M rows/s", "share of time"]);
    let all: Duration = Stage::ALL.iter().map(|stage| total.work(*stage).time).sum();
    for stage in Stage::ALL {
        let work = total.work(stage);
        let share = 100.0 * work.time.as_secs_f64() / all.as_secs_f64().max(1e-9);
        table.add_row([
            stage.name().to_owned(),
            HumanCount(work.rows).to_string(),
            format!("{:.3}", work.time.as_secs_f64()),
            format!("{:.2}", work.rate()),
            format!("{share:.1} %"),
        ]);
    }
    aligned(table)
}

fn blank(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY).set_header(header.iter().copied());
    table
}

/// Aligns all columns but the first to the right.
fn aligned(mut table: Table) -> Table {
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}
