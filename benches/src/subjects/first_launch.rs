//! First launches: the time until a program's first batch is complete, on a machine that has never compiled
//! the kernel.
//!
//! A process has only one first launch, so each repetition runs in its own process: this program, started for
//! one case. It starts its clock, opens the device (which starts the driver), creates the structure, runs the
//! operation once on an empty structure and stops the clock when the results are available. Only then does it
//! verify them. The driver's cache of compiled kernels is disabled.
//!
//! Every map supports this operation. The parameter `of` names the operation that is launched first.
use crate::engine::benchmark::{Benchmark, Metric, Structure, Verified};
use crate::engine::suite::Case;
use crate::machine::{DeviceChoice, Gpu};
use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::process::Command;
use std::time::Instant;

/// Name of the operation.
pub const OP: &str = "first_launch";

/// Subcommand of this program that measures a first launch.
pub const COMMAND: &str = "first-launch";

/// Function that returns all structures for one device.
pub type AllStructures = for<'a> fn(&'a Gpu) -> Vec<Box<dyn Structure + 'a>>;

/// Result of a first launch, as a line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    ms: f64,
    verified: Result<Verified, String>,
    table_bytes: Option<u64>,
}

impl Report {
    /// Performs the first launch of this process, on one of the structures that `all` returns. The driver
    /// must not have been used before.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the device is not available or fails, and when the case is invalid. A
    /// wrong result is not an error: the report describes it.
    pub fn of(choice: DeviceChoice, case: &Case, all: AllStructures) -> Result<Self> {
        let start = Instant::now();
        let gpu = Gpu::open(choice)?;
        let structures = all(&gpu);
        let structure = structures.iter().find(|structure| structure.name() == case.structure);
        let mut benchmark = structure.context("the structure is gone")?.prepare(case)?;
        benchmark.restore()?;
        benchmark.launch()?;
        gpu.device.synchronize()?;
        let ms = start.elapsed().as_secs_f64() * 1e3;
        let verified = benchmark.verify().map_err(|error| format!("{error:#}"));
        Ok(Self { ms, verified, table_bytes: table_bytes(benchmark.as_ref()) })
    }
}

fn table_bytes(benchmark: &dyn Benchmark) -> Option<u64> {
    benchmark.metrics().into_iter().find_map(|metric| match metric {
        Metric::TableBytes(bytes) => Some(bytes),
        _ => None,
    })
}

/// Case whose repetitions are processes.
pub struct FirstLaunch {
    choice: DeviceChoice,
    case: Case,
    report: Option<Report>,
}

impl FirstLaunch {
    /// Creates the first launch of the operation in the case's parameter `of`.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] when the parameter is missing or names [`OP`] itself.
    pub fn new(gpu: &Gpu, case: &Case) -> Result<Self> {
        let op = case.text("of")?;
        ensure!(op != OP, "`params.of` is the operation that is launched first, not '{OP}'");
        Ok(Self { choice: gpu.choice, case: Case { op, ..case.clone() }, report: None })
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new(std::env::current_exe().context("where this program lies")?);
        command.args([COMMAND, "--device", &self.choice.name(), &serde_json::to_string(&self.case)?]);
        command.env("CUDA_CACHE_DISABLE", "1");
        Ok(command)
    }
}

impl Benchmark for FirstLaunch {
    fn restore(&mut self) -> Result<()> {
        self.report = None;
        Ok(())
    }

    fn launch(&mut self) -> Result<()> {
        let output = self.command()?.output().context("cannot start this program anew")?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "the process with the first launch failed: {}", errors.trim());
        let report = serde_json::from_slice(&output.stdout);
        self.report = Some(report.context("what the process with the first launch said")?);
        Ok(())
    }

    fn own_ms(&self) -> Option<f64> {
        self.report.as_ref().map(|report| report.ms)
    }

    fn verify(&mut self) -> Result<Verified> {
        let report = self.report.as_ref().context("nothing was launched")?;
        report.verified.clone().map_err(anyhow::Error::msg)
    }

    fn operations(&self) -> u64 {
        self.case.n
    }

    fn metrics(&self) -> Vec<Metric> {
        let bytes = self.report.as_ref().and_then(|report| report.table_bytes);
        bytes.map(Metric::TableBytes).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::catalog::first_case;

    fn case() -> Case {
        first_case("hashmap/first-launch", 0)
    }

    fn launch(of: &str) -> Result<FirstLaunch> {
        let gpu = Gpu::open(DeviceChoice::Emulator)?;
        let mut case = case();
        case.params.insert("of".to_owned(), crate::engine::record::Param::Text(of.to_owned()));
        FirstLaunch::new(&gpu, &case)
    }

    fn report(op: &str) -> Result<Report> {
        let case = Case { op: op.to_owned(), ..case() };
        Report::of(DeviceChoice::Emulator, &case, |gpu| vec![Box::new(crate::subjects::hash_map::Maps(gpu))])
    }

    #[test]
    fn what_is_launched_must_be_something_else() {
        assert!(launch("insert").is_ok());
        assert!(launch(OP).err().unwrap().to_string().contains("not 'first_launch'"));
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        let nothing = Case { params: Default::default(), ..case() };
        assert!(FirstLaunch::new(&gpu, &nothing).err().unwrap().to_string().contains("params.of"));
    }

    #[test]
    fn the_process_reports_what_it_verified() {
        let report = self::report("insert").unwrap();
        assert_eq!(report.verified, Ok(Verified::all(1000)));
        assert!(report.ms > 0.0 && report.table_bytes.is_some());
        let unknown = self::report("fly");
        assert!(format!("{:#}", unknown.err().unwrap()).contains("'fly'"));
    }

    #[test]
    fn a_wrong_result_of_the_process_is_a_fault() {
        let mut launched = launch("insert").unwrap();
        assert!(launched.verify().is_err(), "nothing was launched");
        let verified = Err("key 7 has the value 8".to_owned());
        launched.report = Some(Report { ms: 1.0, verified, table_bytes: None });
        assert!(launched.verify().unwrap_err().to_string().contains("key 7"));
    }
}
