//! What every device does, held to by the emulator, by CUDA where there is a GPU, and by the CUDA back end over a driver of
//! our own (`fake_driver.c`) everywhere else.
//!
//! `PHALANX_REQUIRE_CUDA=1` turns the skipping of CUDA tests into failures.

#[path = "suite/cases.rs"]
mod cases;
#[path = "suite/cuda_cases.rs"]
#[cfg(feature = "cuda")]
mod cuda_cases;
#[path = "suite/devices.rs"]
mod devices;
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
                says_what_it_is
                elements_come_back
                parts_are_written_and_read
                buffers_are_copied
                lengths_that_do_not_fit_are_errors
                empty_buffers_are_fine
                too_much_memory_is_an_error
                device_memory_is_no_slice
                a_file_needs_a_path
                kernels_write
                generic_kernels_are_found
                kernels_call_functions_and_read_tables
                kernels_without_arguments_run
                grids_that_no_device_runs_are_errors
                empty_grids_run_nothing
                persistent_grids_run_whole
                tiers_are_seen_by_both_sides
                host_visible_tiers_start_as_zeros
                files_survive
                longer_files_are_kept
                files_that_cannot_be_mapped_are_errors
                streams_keep_their_order
                streams_wait_for_events
                events_measure
                asynchronous_copies_happen_in_order
                buffers_may_be_dropped_while_kernels_run
                threads_share_a_device
                devices_are_equal_to_themselves
            }
        }
    };
}

suite!(emulator);
suite!(cuda);

#[cfg(feature = "cuda")]
mod cuda_only {
    suite! { cuda, cuda_cases:
        kernels_are_compiled_once
        a_program_must_be_known
        a_kernel_must_be_in_the_ptx
        arguments_must_be_of_the_ptx_size
        ptx_for_newer_devices_is_refused
        broken_ptx_is_refused_with_the_compilers_words
        a_device_is_opened_once
        there_is_no_device_beyond_the_last
    }
}
