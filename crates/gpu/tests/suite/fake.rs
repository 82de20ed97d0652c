//! Reruns tests of this binary over the driver of `fake_driver.c`.
use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

/// Runs the tests whose names contain one of `filters` in a separate process, which uses the fake driver's
/// GPU. Does nothing in such a process.
pub fn run_over_our_driver(filters: &[&str], environment: &[(&str, &str)]) {
    if std::env::var_os("PHALANX_LIBCUDA").is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so.1");
    if compile(include_str!("fake_driver.c"), &library) {
        run_over(library.as_os_str(), filters, environment);
    }
}

/// Compiles a library. Returns whether there is a compiler.
pub fn compile(text: &str, library: &Path) -> bool {
    let source = library.with_extension("c");
    std::fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-pthread", "-o"]).args([library, &source]);
    match compiler.status() {
        Ok(status) => assert!(status.success(), "cc failed on the driver"),
        Err(error) => println!("skipped: no C compiler ({error})"),
    }
    library.exists()
}

/// Runs the tests whose names contain one of `filters` in a separate process, whose driver is `library`.
pub fn run_over(library: &OsStr, filters: &[&str], environment: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(filters).arg("--nocapture").env("PHALANX_LIBCUDA", library).env("PHALANX_REQUIRE_CUDA", "1");
    let output = command.envs(environment.iter().copied()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    assert!(out.contains(" passed; 0 failed") && !out.contains(" 0 passed"), "nothing was tested:\n{out}");
}
