//! Tests of the behaviour common to all devices. They run on the emulator, on CUDA if there is a GPU, and
//! otherwise on the CUDA back end over a fake driver (`fake_driver.c`).
//!
//! `PHALANX_REQUIRE_CUDA=1` turns skipped CUDA tests into failures.

#[path = "suite/cases.rs"]
mod cases;
#[path = "suite/cuda_cases.rs"]
#[cfg(feature = "cuda")]
mod cuda_cases;
#[path = "suite/devices.rs"]
mod devices;
#[path = "suite/fake.rs"]
#[cfg(feature = "cuda")]
mod fake;
#[path = "suite/kernels.rs"]
#[allow(dead_code)]
mod kernels;

macro_rules! suite {
    ($device:ident, $cases:ident: $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                if let Some(device) = crate::devices::$device() {
                    crate::$cases::$case(&device);
                }
            }
        )*
    };
    ($device:ident) => {
        mod $device {
            suite! { $device, cases:
                says_what_it_is elements_come_back parts_are_written_and_read buffers_are_copied
                lengths_that_do_not_fit_are_errors empty_buffers_are_fine too_much_memory_is_an_error
                device_memory_is_no_slice a_file_needs_a_path kernels_write generic_kernels_are_found
                kernels_call_functions_and_read_tables kernels_without_arguments_run
                grids_that_no_device_runs_are_errors empty_grids_run_nothing persistent_grids_run_whole
                tiers_are_seen_by_both_sides host_visible_tiers_start_as_zeros files_survive
                longer_files_are_kept files_that_cannot_be_mapped_are_errors streams_keep_their_order
                streams_wait_for_events events_measure asynchronous_copies_happen_in_order
                buffers_may_be_dropped_while_kernels_run threads_share_a_device threads_use_streams_of_others
                devices_are_equal_to_themselves parts_are_borrowed kernels_write_parts
                memory_of_others_is_wrapped memory_that_cannot_be_wrapped_is_refused
                streams_of_others_are_wrapped staging_moves_data staging_copies_pinned_elements
                staging_is_kept_and_released columns_that_do_not_fit_are_errors
                staging_comes_after_submitted_work copies_between_devices_arrive slices_are_cast
            }
        }
    };
}

suite!(emulator);
suite!(cuda);

#[cfg(feature = "cuda")]
mod cuda_only {
    suite! { cuda, cuda_cases:
        kernels_are_compiled_once a_program_must_be_known a_kernel_must_be_in_the_ptx
        arguments_must_be_of_the_ptx_size ptx_for_newer_devices_is_refused
        broken_ptx_is_refused_with_the_compilers_words damaged_ptx_is_refused a_device_is_opened_once
        there_is_no_device_beyond_the_last memory_that_the_driver_does_not_know_is_refused
    }
}

#[cfg(feature = "cuda")]
mod over_our_driver {
    use crate::fake::{run_over, run_over_our_driver};
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    /// Runs a test over the driver of another version than its own.
    fn over_version(version: &str, test: &str) {
        run_over_our_driver(&[test], &[("FAKE_VERSION", version)]);
    }

    #[test]
    fn drivers_that_are_too_old_are_refused() {
        if std::env::var_os("FAKE_VERSION").is_none() {
            return over_version("10020", "drivers_that_are_too_old");
        }
        let error = gpu::Device::cuda(0).unwrap_err();
        assert!(matches!(error, gpu::Error::NoDriver { .. }), "{error}");
        crate::devices::expect_parts(&error, &["libcuda.so.1 is for CUDA 10.2", "CUDA 11.0 or later"]);
        assert!(gpu::Device::auto().is_emulator());
    }

    #[test]
    fn the_oldest_supported_driver_is_accepted() {
        if std::env::var_os("FAKE_VERSION").is_none() {
            return over_version("11000", "the_oldest_supported_driver");
        }
        assert_eq!(gpu::Device::cuda(0).unwrap().name(), "Driver of our own");
    }

    #[test]
    fn ptx_that_is_newer_than_the_driver_is_refused() {
        let Some(device) = crate::devices::cuda().filter(|_| std::env::var_os("FAKE_REFUSES_PTX").is_some())
        else {
            return run_over_our_driver(&["ptx_that_is_newer_than_the_driver"], &[("FAKE_REFUSES_PTX", "1")]);
        };
        let error = device.prepare::<crate::kernels::Idle>().unwrap_err();
        assert!(matches!(error, gpu::Error::Jit { .. }), "{error}");
        let parts = ["`idle`", "(222)", "driver older than the PTX version", "Unsupported .version 7.0"];
        crate::devices::expect_parts(&error, &parts);
        assert_eq!(device.from_slice(&[1u32]).unwrap().read().unwrap(), [1], "the device goes on");
    }

    /// A text, a folder, a library without functions, and paths that name nothing.
    #[test]
    fn libraries_that_are_no_driver_are_refused() {
        if let Some(part) = std::env::var_os("EXPECTED_REASON") {
            let error = gpu::Device::cuda(0).unwrap_err();
            assert!(matches!(error, gpu::Error::NoDriver { .. }), "{error}");
            crate::devices::expect_parts(&error, &[part.to_str().unwrap(), "Device::emulator"]);
            return assert!(gpu::Device::auto().is_emulator());
        }
        let folder = tempfile::tempdir().unwrap();
        let (text, empty) = (folder.path().join("text.so"), folder.path().join("empty.so"));
        std::fs::write(&text, "no library").unwrap();
        let mut paths = vec![
            (text.as_os_str(), "text.so"),
            (folder.path().as_os_str(), folder.path().to_str().unwrap()),
            (OsStr::new(""), "PHALANX_LIBCUDA is empty"),
            (OsStr::from_bytes(b"/nonexistent/\xff.so"), "/nonexistent/"),
        ];
        if crate::fake::compile("", &empty) {
            paths.push((empty.as_os_str(), "it has no function cuInit"));
        }
        for (path, reason) in paths {
            run_over(path, &["libraries_that_are_no_driver"], &[("EXPECTED_REASON", reason)]);
        }
    }

    #[test]
    fn the_cuda_back_end_passes() {
        run_over_our_driver(&["cuda::", "cuda_only::"], &[]);
    }

    #[test]
    fn files_that_the_driver_refuses_are_explained() {
        let Some(device) =
            crate::devices::cuda().filter(|_| std::env::var_os("FAKE_REFUSES_FILES").is_some())
        else {
            return run_over_our_driver(&["files_that_the_driver_refuses"], &[("FAKE_REFUSES_FILES", "1")]);
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        // SAFETY: nothing else accesses the file.
        let error = unsafe { device.map_file::<u32>(file.path(), 10) }.unwrap_err();
        assert!(matches!(error, gpu::Error::Register { .. }), "{error}");
        crate::devices::expect_parts(&error, &["801", "/dev/shm", file.path().to_str().unwrap()]);
    }

    #[test]
    fn what_belongs_to_another_context_or_device_is_refused() {
        let only_ours = |device: &gpu::Device| device.name() == "Driver of our own";
        let Some(device) = crate::devices::cuda().filter(only_ours) else {
            return run_over_our_driver(&["what_belongs_to_another_context"], &[]);
        };
        // SAFETY: refused; the driver does not access what these addresses stand for.
        unsafe {
            for (address, part) in [(0x10000, "another context"), (0x20000, "device 1")] {
                let error = device.wrap_memory::<u32>(address as *mut u32, 4).unwrap_err();
                assert!(matches!(error, gpu::Error::ForeignMemory { bytes: 16, .. }), "{error}");
                crate::devices::expect_parts(&error, &[part, "16 bytes"]);
            }
            for (handle, part) in [(0x1000, "another context"), (2, "per-thread")] {
                let error = device.wrap_stream(handle as *mut _).unwrap_err();
                assert!(matches!(error, gpu::Error::ForeignStream { .. }), "{error}");
                crate::devices::expect_parts(&error, &[part]);
            }
        }
    }

    #[test]
    fn copies_wait_for_streams_that_the_driver_does_not_order() {
        let only_ours = |device: &gpu::Device| device.name() == "Driver of our own";
        let Some(device) = crate::devices::cuda().filter(only_ours) else {
            return run_over_our_driver(&["copies_wait_for_streams_that_the_driver"], &[]);
        };
        let words = device.from_slice(&[1u32]).unwrap();
        let ordered = device.stream().unwrap();
        // SAFETY: the driver knows the handles, and they are not destroyed.
        let wrapped = unsafe { device.wrap_stream(ordered.raw_handle()).unwrap() };
        assert!(!waits_for_all(&device, &words));
        // SAFETY: as above.
        let unordered = unsafe { device.wrap_stream(0x2000 as *mut _).unwrap() };
        assert!(waits_for_all(&device, &words));
        drop((wrapped, unordered));
    }

    /// Returns whether a read waits for the whole device: the driver then fails with a code that it is told.
    fn waits_for_all(_device: &gpu::Device, words: &gpu::Buffer<u32>) -> bool {
        // SAFETY: the tests of this process run over the driver one at a time, and it reads the variable.
        unsafe { std::env::set_var("FAKE_REFUSES_WAITS", "1") };
        let refused = words.read().is_err();
        // SAFETY: as above.
        unsafe { std::env::remove_var("FAKE_REFUSES_WAITS") };
        refused
    }

    #[test]
    fn devices_copy_to_each_other_through_the_driver() {
        if std::env::var_os("FAKE_DEVICES").is_none() {
            return run_over_our_driver(&["devices_copy_to_each_other"], &[("FAKE_DEVICES", "2")]);
        }
        let [one, two] = [0, 1].map(|ordinal| gpu::Device::cuda(ordinal).unwrap());
        for _ in 0..2 {
            assert!(one.enable_peer(&two).unwrap() && two.enable_peer(&one).unwrap());
        }
        let (words, copy) = (one.from_slice(&[1u32, 2, 3]).unwrap(), two.from_slice(&[0u32; 4]).unwrap());
        for stream in [one.stream().unwrap(), two.stream().unwrap()] {
            // SAFETY: both buffers live until the copy has been executed, and nothing else accesses them.
            unsafe { stream.copy_peer(copy.slice(1..).unwrap(), words.slice(..).unwrap()).unwrap() };
            two.default_stream().wait(&stream.record().unwrap()).unwrap();
            assert_eq!(copy.read().unwrap(), [0, 1, 2, 3]);
        }
        let emulated = gpu::Device::emulator(gpu::emulator::Options::default());
        let error = emulated.enable_peer(&one).unwrap_err();
        crate::devices::expect_parts(&error, &["one of them is emulated"]);
        // SAFETY: the tests of this process run over the driver one at a time, and it reads the variable.
        unsafe { std::env::set_var("FAKE_REFUSES_PEERS", "1") };
        assert!(!one.enable_peer(&two).unwrap());
    }

    #[test]
    fn launches_that_the_driver_refuses_say_what_the_kernel_takes() {
        let only_ours = |device: &gpu::Device| device.name() == "Driver of our own";
        let Some(device) = crate::devices::cuda().filter(only_ours) else {
            return run_over_our_driver(&["launches_that_the_driver_refuses"], &[]);
        };
        // SAFETY: refused, so nothing runs.
        let error =
            unsafe { device.default_stream().launch(gpu::Grid::new(1, 1024), crate::kernels::Idle {}) }
                .unwrap_err();
        assert!(matches!(error, gpu::Error::Launch { .. }), "{error}");
        crate::devices::expect_parts(&error, &["1 blocks of 1024 threads", "(701)", "at most 512"]);
    }
}
