//! Runs cells on the emulator, and tests that wrong results are detected.
use super::cell::{self, Cell};
use crate::machine::DeviceChoice;
use crate::machine::Gpu;

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
