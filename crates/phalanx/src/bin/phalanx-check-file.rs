//! Verifies the file of a persistent map: `phalanx-check-file PATH`. It needs no GPU and changes nothing.
use phalanx::persistent_map::check_file;
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(path), None) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: phalanx-check-file PATH");
        return ExitCode::from(2);
    };
    match check_file(path) {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
