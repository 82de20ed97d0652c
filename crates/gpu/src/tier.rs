//! Memory tiers.

/// Location of the memory of a [`Buffer`](crate::Buffer). Kernels access all tiers alike; the emulator
/// supports all.
///
/// ```
/// use gpu::Tier;
///
/// assert!(Tier::Pinned.is_host_visible() && !Tier::Device.is_host_visible());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// Device memory. CUDA: `cuMemAlloc`.
    Device,
    /// Host memory that kernels read and write in place, over the bus. CUDA: `cuMemHostAlloc`, mapped; from
    /// 64 MiB on `cuMemHostRegister` of anonymous memory, which takes a tenth of the time.
    Pinned,
    /// Memory that migrates to the processor that accesses it. CUDA: `cuMemAllocManaged`; refused if the
    /// device has less free memory, since kernels would then wait for page migration.
    Managed,
    /// A file mapped into host memory, which kernels read and write in place; it outlives the process. CUDA:
    /// `cuMemHostRegister`.
    File,
}

impl Tier {
    /// Returns `true` if the host can access the memory as a slice.
    pub fn is_host_visible(self) -> bool {
        self != Tier::Device
    }
}

impl std::fmt::Display for Tier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Tier::Device => "device",
            Tier::Pinned => "pinned",
            Tier::Managed => "managed",
            Tier::File => "file",
        })
    }
}
