//! Test cases for devices with a driver and PTX.
use crate::devices::expect_parts;
use crate::kernels::{Count, Fill, Idle};
use gpu::{Device, Error, Grid, Kernel, Program};

/// Defines a kernel with false information about its program.
macro_rules! impostor {
    ($name:ident: $program:literal, $symbol:literal, $bytes:literal) => {
        #[derive(Clone, Copy)]
        #[repr(C)]
        struct $name([u8; $bytes]);

        impl Kernel for $name {
            const PROGRAM: &'static str = $program;
            const NAME: &'static str = $symbol;
            const INSTANCE: Option<&'static str> = None;

            fn run(self) {}
        }
    };
}

fn refused<K: Kernel + Send + Sync + 'static>(device: &Device, kernel: K) -> Error {
    // SAFETY: refused, so nothing runs.
    unsafe { device.default_stream().launch(Grid::new(2, 64), kernel) }.unwrap_err()
}

pub fn kernels_are_compiled_once(device: &Device) {
    device.prepare::<Fill>().unwrap();
    let (out, before) = (device.zeroed::<u32>(4).unwrap(), device.jit_ms());
    assert!(before > 0.0);
    // Other tests may compile kernels meanwhile, so the test bounds the time of this kernel.
    let start = std::time::Instant::now();
    for _ in 0..100 {
        // SAFETY: the buffer lives until it is read.
        unsafe { device.default_stream().launch(Grid::new(1, 32), Fill { out: out.global(), value: 3 }) }
            .unwrap();
    }
    assert_eq!(out.read().unwrap(), [3; 4]);
    assert!(start.elapsed().as_secs_f64() < 2.0);
}

pub fn a_program_must_be_known(device: &Device) {
    impostor!(Stranger: "strangers", "fill", 24);
    let error = refused(device, Stranger([0; 24]));
    assert!(matches!(error, Error::UnknownProgram { program: "strangers", .. }), "{error}");
    expect_parts(&error, &["gpu", "add_program", "2 blocks of 64 threads"]);
}

pub fn a_kernel_must_be_in_the_ptx(device: &Device) {
    impostor!(Missing: "phalanx-gpu", "size", 24);
    let error = refused(device, Missing([0; 24]));
    assert!(matches!(error, Error::UnknownKernel { arch: 80, .. }), "{error}");
    assert!(error.to_string().contains("it has size__large, size__small"), "{error}");
    assert!(matches!(device.prepare::<Missing>(), Err(Error::UnknownKernel { .. })));
}

pub fn arguments_must_be_of_the_ptx_size(device: &Device) {
    impostor!(Short: "phalanx-gpu", "count", 8);
    let is_refused = || {
        let error = refused(device, Short([0; 8]));
        assert!(matches!(&error, Error::Arguments { host: 8, device, .. } if *device == [16]), "{error}");
    };
    is_refused();
    // The kernel is now loaded, by the type with the correct size.
    device.prepare::<Count>().unwrap();
    is_refused();
}

pub fn ptx_for_newer_devices_is_refused(device: &Device) {
    static FUTURE: Program = Program { name: "future", ptx: &[(9999, b"")] };
    impostor!(Tomorrow: "future", "fill", 24);
    device.add_program(&FUTURE);
    let error = refused(device, Tomorrow([0; 24]));
    assert!(matches!(error, Error::NoPtx { .. }), "{error}");
    assert!(error.to_string().contains("sm_9999"), "{error}");
}

pub fn broken_ptx_is_refused_with_the_compilers_words(device: &Device) {
    const TEXT: &[u8] =
        b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry broken() { no_such_opcode; ret; }";
    static BROKEN: Program = Program { name: "broken-program", ptx: &[(80, TEXT)] };
    impostor!(Broken: "broken-program", "broken", 0);
    device.add_program(&BROKEN);
    let error = refused(device, Broken([]));
    assert!(matches!(&error, Error::Jit { log, .. } if log.contains("no_such_opcode")), "{error}");
    assert!(error.to_string().contains("`broken`"), "{error}");
    // SAFETY: the kernel does nothing.
    unsafe { device.default_stream().launch(Grid::new(1, 32), Idle {}) }.unwrap();
    device.synchronize().unwrap();
}

pub fn damaged_ptx_is_refused(device: &Device) {
    /// A header, and the first bytes of compressed text.
    const TEXT: &[u8] = b"// header\n// entries cut\n\x28\xb5\x2f\xfd\x20\x1f\xf9\x00\x00.visible";
    static DAMAGED: Program = Program { name: "damaged-program", ptx: &[(80, TEXT)] };
    static NO_TEXT: Program = Program { name: "no-text", ptx: &[(80, b"\xff\xfe")] };
    static EMPTY: Program = Program { name: "empty-program", ptx: &[(80, b"")] };
    impostor!(Truncated: "damaged-program", "cut", 0);
    impostor!(Bytes: "no-text", "bytes", 0);
    impostor!(Absent: "empty-program", "absent", 0);
    [&DAMAGED, &NO_TEXT, &EMPTY].into_iter().for_each(|program| device.add_program(program));
    let error = refused(device, Truncated([]));
    assert!(matches!(error, Error::DamagedPtx { program: "damaged-program", .. }), "{error}");
    expect_parts(&error, &["`cut`", "rebuild the program"]);
    let error = refused(device, Bytes([]));
    assert!(matches!(error, Error::DamagedPtx { program: "no-text", .. }), "{error}");
    let error = refused(device, Absent([]));
    assert!(matches!(error, Error::UnknownKernel { program: "empty-program", .. }), "{error}");
    // SAFETY: the kernel does nothing.
    unsafe { device.default_stream().launch(Grid::new(1, 32), Idle {}) }.unwrap();
    device.synchronize().unwrap();
}

pub fn a_device_is_opened_once(device: &Device) {
    assert_eq!(Device::cuda(0).unwrap(), *device);
    assert_eq!(Device::named("cuda").unwrap(), *device);
    assert_eq!(Device::named("cuda:0").unwrap(), *device);
}

pub fn there_is_no_device_beyond_the_last(_: &Device) {
    let error = Device::cuda(1000).unwrap_err();
    assert!(matches!(error, Error::NoSuchDevice { asked: 1000, .. }), "{error}");
}

pub fn memory_that_the_driver_does_not_know_is_refused(device: &Device) {
    let mut word = Box::new(0u32);
    // SAFETY: refused.
    let error = unsafe { device.wrap_memory(&raw mut *word, 1) }.unwrap_err();
    assert!(matches!(error, Error::ForeignMemory { bytes: 4, .. }), "{error}");
    expect_parts(&error, &["does not know"]);
}
