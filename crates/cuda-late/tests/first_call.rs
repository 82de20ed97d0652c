//! The first call of a process has floating-point arguments, which must survive the loading of the library.
use cuda_late::{PATH_VARIABLE, library};
use std::ffi::c_void;
use std::process::Command;

unsafe extern "C" {
    fn cuTexRefSetMipmapLevelClamp(texture: *mut c_void, low: f32, high: f32) -> u32;
}

#[test]
fn floating_point_arguments_live_through_the_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let (source, path) = (folder.path().join("driver.c"), folder.path().join("libfake.so"));
    let text = "int cuTexRefSetMipmapLevelClamp(char *t, float low, float high) {\n\
        return *t + low * 100 + high * 10000;\n\
        }\n";
    std::fs::write(&source, text).unwrap();
    assert!(
        Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(&path)
            .arg(&source)
            .status()
            .unwrap()
            .success()
    );
    // SAFETY: the only test of this process, before anything else reads the environment.
    unsafe { std::env::set_var(PATH_VARIABLE, &path) };
    let mut byte = 3u8;
    // SAFETY: the fake driver reads one byte at the pointer.
    let answer = unsafe { cuTexRefSetMipmapLevelClamp((&raw mut byte).cast(), 0.5, 0.25) };
    assert_eq!(answer, 3 + 50 + 2500);
    assert!(library().is_ok());
}
