//! The PTX of the structures' kernels.
use crate::Result;
use gpu::{Device, Program};

/// Makes a program of the files that the build script has found for a feature of `phalanx-kernels`: its PTX,
/// and machine code for sm_90 if the package ships it (otherwise, the file is empty).
#[cfg(feature = "cuda")]
macro_rules! program {
    ($feature:literal) => {
        Program {
            name: "phalanx-kernels",
            ptx: &[
                (80, include_bytes!(env!(concat!("PHALANX_PTX_", $feature, "_SM_80")))),
                (90, include_bytes!(env!(concat!("PHALANX_PTX_", $feature, "_SM_90")))),
                (90, include_bytes!(env!(concat!("PHALANX_CODE_", $feature, "_SM_90")))),
            ],
        }
    };
}
/// Kernels of this package's structures, a program per family that is on. Structures register them with their
/// device themselves. A program that launches kernels of `phalanx-kernels` itself registers them by
/// [`register_kernels`].
static PROGRAMS: &[Program] = &[
    #[cfg(all(feature = "cuda", feature = "hash-map"))]
    program!("HASH_MAP"),
    #[cfg(all(feature = "cuda", feature = "_slab-alloc"))]
    program!("SLAB_ALLOC"),
    #[cfg(all(feature = "cuda", feature = "slab-hash"))]
    program!("SLAB_HASH"),
    #[cfg(all(feature = "cuda", feature = "btree"))]
    program!("BTREE"),
    #[cfg(all(feature = "cuda", feature = "mvbtree"))]
    program!("MVBTREE"),
    #[cfg(all(feature = "cuda", feature = "skip-list"))]
    program!("SKIP_LIST"),
    #[cfg(all(feature = "cuda", feature = "primitives"))]
    program!("PRIMITIVES"),
    #[cfg(all(feature = "cuda", feature = "cache-table"))]
    program!("CACHE_TABLE"),
    #[cfg(all(feature = "cuda", feature = "tiered-map"))]
    program!("TIERED_MAP"),
    #[cfg(all(feature = "cuda", feature = "persistent-map"))]
    program!("PERSISTENT_MAP"),
    #[cfg(all(feature = "cuda", feature = "dynamic-graph"))]
    program!("DYNAMIC_GRAPH"),
    #[cfg(all(feature = "cuda", feature = "sharded-map"))]
    program!("SHARDED_MAP"),
    #[cfg(all(feature = "cuda", feature = "variants"))]
    program!("BASELINES"),
];

/// Registers the kernels of this package's structures with a device, for programs that launch them without a
/// structure. Structures do it themselves.
///
/// ```
/// let device = phalanx::Device::from_environment()?;
/// phalanx::register_kernels(&device);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Cost
///
/// Reads the names of the kernels on the host, once a device. Nothing is compiled before its first launch.
pub fn register_kernels(device: &Device) {
    PROGRAMS.iter().for_each(|program| device.add_program(program));
}

/// Returns the device that a builder names or, without a name, that of the environment, with this package's
/// kernels registered.
pub(crate) fn open(device: Option<&Device>) -> Result<Device> {
    let device = device.cloned().map_or_else(Device::from_environment, Ok)?;
    register_kernels(&device);
    Ok(device)
}
