//! One kernel per primitive of `simt`. The test `ptx` beside this crate builds it and checks each
//! instruction.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

pub mod block;
pub mod collectives;
pub mod memory;
pub mod thread;
