//! The page with figures.
use crate::figure::{Line, bars, lines};
use crate::history::{Batch, History, Stage};
use crate::report::NO_SPEED;
use anyhow::Result;
use phalanx::gpu::Device;
use std::fmt::Write;

const STYLE: &str = "\
    body{font:15px/1.5 system-ui,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#222}\
    figure{margin:1em 0}svg{max-width:100%;height:auto}figcaption{color:#555}";

/// Returns the complete page. `summary` states the parameters.
///
/// # Errors
/// Returns [`anyhow::Error`] when a figure cannot be drawn.
pub fn page(history: &History, device: &Device, summary: &str) -> Result<String> {
    let name = escaped(&device.name());
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>embedding-cache</title>\
         <style>{STYLE}</style>\n<h1>embedding-cache</h1>\n<p>{name}</p>\n<p>{}</p>\n",
        escaped(summary)
    );
    let window = history.window;
    let back = format!(
        "Percentage of the items evicted in a batch that were requested again within {window} batches: each \
         is a mistake of the rule. The last {window} batches are missing: their windows have not passed."
    );
    let speed = if device.is_emulator() { NO_SPEED } else { "including copies to and from the device" };
    let figures = [
        ("Hit rate", hit_rates(history)?, "Dashed lines mark the batches before which the hot set moved."),
        ("Admission", admission(history)?, "Items per batch: missed, admitted, refused and evicted ones."),
        ("Wrong evictions", returns(history)?, &back),
        ("Throughput by stage", throughput(history)?, speed),
    ];
    for (title, svg, caption) in figures {
        let caption = escaped(caption);
        writeln!(page, "<h2>{title}</h2>\n<figure>{svg}<figcaption>{caption}</figcaption></figure>")?;
    }
    page += "</html>\n";
    Ok(page)
}

fn hit_rates(history: &History) -> Result<String> {
    let series = [
        line("training", &history.batches, Batch::hit_rate),
        line("serving", &history.batches, Batch::served_hit_rate),
    ];
    Ok(lines("hit rate in percent", &series, &moves(history))?)
}

fn admission(history: &History) -> Result<String> {
    let of = |label, count: fn(&Batch) -> u64| line(label, &history.batches, |batch| count(batch) as f64);
    let series = [
        of("missed", |batch| batch.missed),
        of("admitted", |batch| batch.admitted),
        of("refused", |batch| batch.refused),
        of("evicted", |batch| batch.evicted),
    ];
    Ok(lines("items", &series, &moves(history))?)
}

fn returns(history: &History) -> Result<String> {
    let series = [line("requested again", history.judged(), Batch::return_rate)];
    Ok(lines("percent of evicted items", &series, &moves(history))?)
}

fn throughput(history: &History) -> Result<String> {
    let total = history.total();
    let rates = Stage::ALL.map(|stage| (stage.name(), total.work(stage).rate()));
    Ok(bars("million rows a second", &rates)?)
}

fn line(label: &'static str, batches: &[Batch], value: impl Fn(&Batch) -> f64) -> Line {
    let points = batches.iter().enumerate().map(|(number, batch)| (number as f64, value(batch)));
    Line { label, points: points.collect() }
}

/// Returns the batches before which the hot set moved.
fn moves(history: &History) -> Vec<f64> {
    let numbered = history.batches.iter().enumerate();
    numbered.filter(|(_, batch)| batch.has_moved).map(|(number, _)| number as f64).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
