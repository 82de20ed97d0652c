//! Runs cells of the streams on the emulator: every situation, and a part of the cells of every structure.
use phalanx_bench::machine::{DeviceChoice, Gpu};
use phalanx_bench::streams::cell::{self, Cell};

/// Few keys, because the emulator executes each lane separately.
const SIZES: [usize; 1] = [400];

fn run(filter: &str, keep: impl Fn(usize, &Cell) -> bool) {
    let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
    for (index, cell) in cell::all(&SIZES, filter).into_iter().enumerate() {
        if keep(index, &cell) {
            let done = cell::run(&gpu.device, cell, 0.0, &|_| {})
                .unwrap_or_else(|error| panic!("{cell}: {error:#}"));
            assert!(done.rounds == 2 && done.operations > 0);
        }
    }
}

#[test]
fn every_structure_runs_a_part_of_its_cells() {
    run("", |index, _| index % 11 == 0);
}

#[test]
fn every_situation_runs() {
    run("", |_, cell| cell.beside != cell::Beside::Growth);
}
