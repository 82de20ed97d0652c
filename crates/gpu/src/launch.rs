//! Launches of kernels of any type.
use crate::error::{Error, Result};
use crate::name::LaunchName;
#[cfg(feature = "emulator")]
use simt::emulator;
use simt::{Grid, Kernel};

/// Refuses grids that exceed the limits of every device. A grid without blocks is accepted.
pub(crate) fn check(launch: LaunchName) -> Result<()> {
    let threads = 1..=1024;
    if threads.contains(&launch.grid.threads) && launch.grid.blocks <= i32::MAX as u32 {
        Ok(())
    } else {
        Err(Error::Grid { launch })
    }
}

/// A launch with its kernel type erased.
pub(crate) trait AnyLaunch {
    fn name(&self) -> LaunchName;

    /// Returns the address and size of the kernel's argument struct.
    #[cfg(feature = "cuda")]
    fn arguments(&self) -> (*const u8, usize);

    /// Returns the launch for an emulator. Without the feature, no kernel's body is instantiated: compiling
    /// all kernels of a structure takes minutes.
    #[cfg(feature = "emulator")]
    fn emulated(&self) -> emulator::Launch;
}

pub(crate) struct Launch<K> {
    pub grid: Grid,
    #[cfg_attr(
        not(any(feature = "cuda", feature = "emulator")),
        expect(dead_code, reason = "nothing runs kernels")
    )]
    pub kernel: K,
}

impl<K: Kernel + Send + Sync + 'static> AnyLaunch for Launch<K> {
    fn name(&self) -> LaunchName {
        LaunchName::of::<K>(self.grid)
    }

    #[cfg(feature = "cuda")]
    fn arguments(&self) -> (*const u8, usize) {
        ((&raw const self.kernel).cast(), size_of::<K>())
    }

    #[cfg(feature = "emulator")]
    fn emulated(&self) -> emulator::Launch {
        emulator::Launch::new(self.grid, self.kernel)
    }
}
