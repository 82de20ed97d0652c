//! `kmer-count` with one device and with several: the program that lies beside this one.
use crate::machine::Gpu;
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{env, fs};
use workloads::random::{Source, below};

/// Reads of 100 bases each, on a GPU and on the emulator.
const READS: [usize; 2] = [4_000_000, 200];

/// Counts the k-mers of random reads with one device and with `ranks`, and compares what is written. Returns
/// the time that several take.
pub fn compare(gpu: &Gpu, ranks: usize) -> Result<Duration> {
    let is_emulator = gpu.device.is_emulator();
    let program = beside("kmer-count")?;
    let folder = env::temp_dir().join(format!("phalanx-kmers-{}", std::process::id()));
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let reads = folder.join("reads.fa");
    fs::write(&reads, random_reads(READS[usize::from(is_emulator)]))?;
    let count = |gpus: usize, output: &Path| {
        let start = Instant::now();
        let mut command = Command::new(&program);
        command.arg(&reads).args(["--gpus", &gpus.to_string(), "--output"]).arg(output);
        command.args(["--device", if is_emulator { "emulator" } else { "cuda" }]);
        let ended = command.output().with_context(|| format!("cannot start {}", program.display()))?;
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        ensure!(ended.status.success(), "kmer-count with {gpus} devices failed: {told}");
        let written = fs::read(output).with_context(|| format!("cannot read {}", output.display()))?;
        Ok((start.elapsed(), written))
    };
    let ((one, expected), (all, found)) =
        (count(1, &folder.join("one"))?, count(ranks, &folder.join("all"))?);
    drop(fs::remove_dir_all(&folder));
    ensure!(expected == found, "one device and {ranks} write different counts");
    println!(
        "   kmer-count: {:.2} s with one device, {:.2} s with {ranks}",
        one.as_secs_f64(),
        all.as_secs_f64()
    );
    Ok(all)
}

/// Returns the path of another program in the folder of this one.
fn beside(name: &str) -> Result<PathBuf> {
    let path = env::current_exe()?.with_file_name(name);
    ensure!(path.exists(), "{} is not there: build it, or pack both by `cargo xtask bundle`", path.display());
    Ok(path)
}

/// Returns reads in the format FASTA.
fn random_reads(reads: usize) -> String {
    let source = Source::new(1, "reads of the scale-out program");
    let bases = source.generate(reads * 100, |generator, _| b"ACGT"[below(generator, 4) as usize] as char);
    let mut text = String::with_capacity(reads * 112);
    for (number, read) in bases.chunks(100).enumerate() {
        text.push_str(&format!(">{number}\n"));
        text.extend(read);
        text.push('\n');
    }
    text
}
