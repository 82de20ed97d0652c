//! Where memory lies.

/// Where the memory of a [`Buffer`](crate::Buffer) lies. Kernels see all tiers alike; the emulator has them
/// all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tier {
    /// The device's own memory. CUDA: `cuMemAlloc`.
    Device,
    /// Memory of the host that kernels read and write in place, over the bus. CUDA: `cuMemHostAlloc`, mapped.
    Pinned,
    /// Memory that moves to whoever touches it. CUDA: `cuMemAllocManaged`; refused where the device has not
    /// as much free, since kernels then wait for pages to move.
    Managed,
    /// A file mapped into the host's memory, which kernels read and write in place; it survives the process.
    /// CUDA: `cuMemHostRegister`.
    File,
}

impl Tier {
    /// Whether the host sees the memory as a slice.
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
