//! Without a driver, every function returns "no device". One test per process, since the result never changes
//! within one.
use cuda_late::{NO_DEVICE, PATH_VARIABLE, library};

unsafe extern "C" {
    fn cuInit(flags: u32) -> u32;
    fn cuDeviceGetCount(count: *mut i32) -> u32;
    fn cuLaunchKernel() -> u32;
    fn cuProfilerStop() -> u32;
}

#[test]
fn every_function_answers_no_device() {
    // SAFETY: the only test of this process, before anything else reads the environment.
    unsafe { std::env::set_var(PATH_VARIABLE, "/nonexistent/libcuda.so.1") };
    let mut count = -1;
    // SAFETY: without a driver the functions read no argument.
    let answers =
        unsafe { [cuInit(0), cuDeviceGetCount(&mut count), cuLaunchKernel(), cuProfilerStop(), cuInit(0)] };
    assert_eq!(answers, [NO_DEVICE; 5]);
    assert_eq!(count, -1);
    let reason = library().unwrap_err().to_string();
    assert!(reason.contains("/nonexistent/libcuda.so.1"), "{reason}");
}
