//! Measures the hash map with criterion, timed by device events: `cargo bench -p phalanx-bench`.
//!
//! Runs on the device that [`gpu::Device::auto`] selects. On the emulator the sizes are small and the times
//! say nothing about speed.
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use phalanx_bench::engine::benchmark::{Benchmark, Machine, Structure};
use phalanx_bench::engine::suite::{Case, Selection, Suite};
use phalanx_bench::machine::DeviceChoice;
use phalanx_bench::machine::Gpu;
use phalanx_bench::subjects::hash_map::Maps;
use std::time::Duration;

const SUITE: &str = include_str!("../suites/hashmap/load-factor.toml");

/// Returns the cases of the suite that criterion repeats: a medium and a high load factor.
fn cases(machine: &dyn Machine) -> Vec<Case> {
    let suite =
        Suite::parse("hashmap/load-factor", SUITE).expect("the suite is part of the package and tested");
    let selection = Selection { emulator: machine.is_emulator(), quick: false, reps: None };
    let wanted = |case: &Case| case.number("load_factor").is_ok_and(|load| load == 0.8 || load == 0.95);
    suite.cases(selection, &[]).into_iter().filter(wanted).collect()
}

/// Runs one repetition and returns the time of the launch alone, measured by device events.
fn repetition(gpu: &Gpu, benchmark: &mut dyn Benchmark) -> Duration {
    benchmark.restore().expect("the state before the operation can be restored");
    let time = gpu.time(&mut || benchmark.launch()).expect("the launch succeeds");
    Duration::from_secs_f64(time / 1e3)
}

fn hash_map(criterion: &mut Criterion) {
    let gpu = Gpu::open(DeviceChoice::Auto).expect("there is always the emulator");
    let maps = Maps(&gpu);
    let mut group = criterion.benchmark_group(format!("hash_map on {}", gpu.name()));
    group.sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(2));
    for case in cases(&gpu) {
        let mut benchmark = maps.prepare(&case).expect("the case fits the device");
        group.throughput(Throughput::Elements(benchmark.operations()));
        let load = case.number("load_factor").expect("chosen by it");
        group.bench_function(BenchmarkId::new(&case.op, load), |bencher| {
            bencher.iter_custom(|times| (0..times).map(|_| repetition(&gpu, benchmark.as_mut())).sum());
        });
        benchmark.verify().expect("the last repetition's results are right");
    }
    group.finish();
}

criterion_group!(benches, hash_map);
criterion_main!(benches);
