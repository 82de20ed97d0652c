//! All arguments of a call reach the library: those in registers, on the stack and in floating-point
//! registers, on the first call (which loads the library) and on later ones.
use cuda_late::{NOT_SUPPORTED, PATH_VARIABLE, library};
use std::ffi::c_void;
use std::process::Command;
use std::ptr::without_provenance_mut as fake;

const DRIVER: &str = r#"
#include <stdint.h>
/* Calls one of its own functions by name: with a leaking trampoline that would come back to the caller's. */
__attribute__((visibility("default"))) int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuInit(unsigned flags) {
  int version = 0;
  cuDriverGetVersion(&version);
  return version == 13000 ? (int)flags + 1 : -1;
}
int cuLaunchKernel(void *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
  uint64_t sum = (uint64_t)f + 2 * gx + 3 * gy + 5 * gz + 7 * bx + 11 * by + 13 * bz + 17 * shared
               + 19 * (uint64_t)stream + 23 * (uint64_t)parameters + 29 * (uint64_t)extra;
  return (int)sum;
}
int cuTexRefSetMipmapLevelClamp(void *texture, float low, float high) {
  return (int)(uint64_t)texture + (int)(low * 100) + (int)(high * 10000);
}
"#;

unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
    fn cuLaunchKernel(
        f: *mut c_void,
        gx: u32,
        gy: u32,
        gz: u32,
        bx: u32,
        by: u32,
        bz: u32,
        shared: u32,
        stream: *mut c_void,
        parameters: *mut c_void,
        extra: *mut c_void,
    ) -> u32;
    fn cuTexRefSetMipmapLevelClamp(texture: *mut c_void, low: f32, high: f32) -> u32;
    fn cuProfilerStop() -> u32;
}

fn build_driver(folder: &std::path::Path) -> std::path::PathBuf {
    let (source, library) = (folder.join("driver.c"), folder.join("libfake.so"));
    std::fs::write(&source, DRIVER).unwrap();
    let status =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status().unwrap();
    assert!(status.success(), "cc failed on the fake driver");
    library
}

fn launch() -> u32 {
    // SAFETY: the fake driver only adds its arguments.
    unsafe { cuLaunchKernel(fake(1), 1, 2, 3, 4, 5, 6, 7, fake(8), fake(9), fake(10)) }
}

const SUM: u32 = 1 + 2 + 6 + 15 + 28 + 55 + 78 + 119 + 152 + 207 + 290;

#[test]
fn calls_are_forwarded_with_their_arguments() {
    let folder = tempfile::tempdir().unwrap();
    let path = build_driver(folder.path());
    // SAFETY: the only test of this process, before anything else reads the environment.
    unsafe { std::env::set_var(PATH_VARIABLE, &path) };
    // The first calls, from several threads at once: each must arrive intact.
    let sums: Vec<u32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(launch)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(sums, [SUM; 8]);
    assert_eq!(launch(), SUM);
    // SAFETY: as above.
    unsafe {
        assert_eq!(cuTexRefSetMipmapLevelClamp(fake(3), 0.5, 0.25), 3 + 50 + 2500);
        assert_eq!(cuInit(41), 42);
        assert_eq!(cuProfilerStop(), NOT_SUPPORTED, "the fake driver has no such function");
    }
    assert_eq!(library().unwrap().path(), path.to_str().unwrap());
}
