//! `kmer-count` with one device and with several: the program that lies beside this one.
use super::Measured;
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};
use workloads::genome::Genome;

/// Input: reads without errors, from random places of a random genome.
#[derive(Clone, Copy)]
struct Input {
    /// Bases of the genome.
    genome: usize,
    reads: usize,
}

/// Bases of a read.
const READ: usize = 100;
/// Input on a GPU: each base is in 80 reads on average.
const LARGE: Input = Input { genome: 5_000_000, reads: 4_000_000 };
/// Input on the emulator: each base is in 20 reads.
const SMALL: Input = Input { genome: 1_000, reads: 200 };

/// A run of the program.
struct Run {
    took: Duration,
    /// Time of the counting stage, as the program prints it, in seconds.
    counting: f64,
    written: Vec<u8>,
}

/// Counts the k-mers of reads with one device and with `ranks`, and compares what is written. Returns the
/// time that several take, and how many times as fast as one they count.
pub fn compare(gpu: &Gpu, ranks: usize) -> Result<Measured> {
    let is_emulator = gpu.device.is_emulator();
    let program = beside("kmer-count")?;
    let folder = env::temp_dir().join(format!("phalanx-kmers-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let reads = folder.join("reads.fa");
    let input = if is_emulator { SMALL } else { LARGE };
    let count = |gpus| run(&program, (is_emulator, input), gpus, (&reads, &folder.join("counts")));
    let runs = write_reads(&reads, input).and_then(|()| Ok((count(1)?, count(ranks)?)));
    drop(fs::remove_dir_all(&folder));
    let (one, all) = runs?;
    ensure!(one.written == all.written, "one device and {ranks} write different counts");
    let [in_one, in_all] = [&one, &all].map(|run| run.took.as_secs_f64());
    println!("   kmer-count: {in_one:.2} s with one device, {in_all:.2} s with {ranks}");
    let speedup = one.counting / all.counting.max(1e-9);
    println!(
        "   counting stage: {:.3} s with one device, {:.3} s with {ranks} ({speedup:.2} times as fast)",
        one.counting, all.counting
    );
    Ok(Measured { took: all.took, speedup: Some(speedup) })
}

/// Runs the program on `gpus` devices.
fn run(
    program: &Path,
    (is_emulator, input): (bool, Input),
    gpus: usize,
    (reads, output): (&Path, &Path),
) -> Result<Run> {
    let start = Instant::now();
    let mut command = Command::new(program);
    command.arg(reads).args(["--gpus", &gpus.to_string(), "--output"]).arg(output);
    // Tables that need not grow.
    command.args(["--capacity", &(2 * input.genome).to_string()]);
    command.args(["--device", if is_emulator { "emulator" } else { "cuda" }]);
    let ended = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    let told = String::from_utf8_lossy(&ended.stderr);
    ensure!(ended.status.success(), "kmer-count with {gpus} devices failed: {told}");
    let took = start.elapsed();
    let written = fs::read(output).with_context(|| format!("cannot read {}", output.display()))?;
    let printed = String::from_utf8_lossy(&ended.stdout);
    let counting = counting_of(&printed).with_context(|| format!("no time of counting in: {printed}"))?;
    Ok(Run { took, counting, written })
}

/// Returns the seconds of the line `counting         0.123 s, ...`.
fn counting_of(printed: &str) -> Option<f64> {
    let mut words = printed.lines().find(|line| line.starts_with("counting "))?.split_whitespace().skip(1);
    words.next()?.parse().ok()
}

/// Returns the path of another program in the folder of this one.
fn beside(name: &str) -> Result<PathBuf> {
    let path = env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "{} is not there: build it, or pack both by `cargo xtask bundle`", path.display());
    Ok(path)
}

/// Writes reads in the format FASTA.
fn write_reads(path: &Path, Input { genome, reads }: Input) -> Result<()> {
    let reads = Genome::random(genome, 1).reads(reads, READ, 0.0, 2)?;
    let cannot = || format!("cannot write {}", path.display());
    let mut out = BufWriter::new(File::create(path).with_context(cannot)?);
    for (number, read) in reads.iter().enumerate() {
        writeln!(out, ">{number}").with_context(cannot)?;
        out.write_all(&read.bases).and_then(|()| out.write_all(b"\n")).with_context(cannot)?;
    }
    out.flush().with_context(cannot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_counting_is_read() {
        let printed =
            "reading          1.250 s, 3 million\ncounting         0.125 s, 2 million\ntime  2.00 s\n";
        assert_eq!(counting_of(printed), Some(0.125));
        assert_eq!(counting_of("reading 1 s\n"), None);
    }
}
