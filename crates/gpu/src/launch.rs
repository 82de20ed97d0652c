//! Names and grids of launches.
use crate::{Error, Kernel, Result};
pub use simt::Grid;
use simt::emulator::Emulator;

/// A kernel and its grid, for messages. The grid is empty, and not shown, if there was no launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchName {
    pub(crate) kernel: KernelId,
    pub(crate) grid: Grid,
}

impl LaunchName {
    pub(crate) fn of<K: Kernel>(grid: Grid) -> Self {
        Self { kernel: KernelId::of::<K>(), grid }
    }

    /// Returns the kernel's symbol in PTX.
    pub fn symbol(&self) -> String {
        self.kernel.symbol()
    }

    /// Returns the grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Refuses grids that exceed the limits of every device. A grid without blocks is accepted.
    pub(crate) fn check(self) -> Result<()> {
        let threads = 1..=1024;
        if threads.contains(&self.grid.threads) && self.grid.blocks <= i32::MAX as u32 {
            Ok(())
        } else {
            Err(Error::Grid { launch: self })
        }
    }
}

impl std::fmt::Display for LaunchName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kernel `{}`", self.symbol())?;
        if self.grid.blocks == 0 { Ok(()) } else { write!(f, " on {}", self.grid) }
    }
}

/// Identity of a kernel, from the constants of its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct KernelId {
    pub program: &'static str,
    pub name: &'static str,
    pub instance: Option<&'static str>,
    pub registers: Option<u32>,
}

impl KernelId {
    pub fn of<K: Kernel>() -> Self {
        let registers = K::REGISTERS;
        Self { program: K::PROGRAM, name: K::NAME, instance: K::INSTANCE, registers }
    }

    pub fn symbol(&self) -> String {
        simt::private::symbol_of(self.name, self.instance)
    }
}

/// A launch with its kernel type erased.
pub(crate) trait AnyLaunch {
    fn name(&self) -> LaunchName;

    /// Returns the address and size of the kernel's argument struct.
    #[cfg(feature = "cuda")]
    fn arguments(&self) -> (*const u8, usize);

    /// Runs the launch on an emulator.
    fn emulate(&self, emulator: &Emulator) -> Result<()>;
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
    fn emulate(&self, emulator: &Emulator) -> Result<()> {
        let failed = |failure| Error::Emulator { launch: self.name(), failure: Box::new(failure) };
        emulator.launch(self.grid, self.kernel).map(drop).map_err(failed)
    }

    /// Does not instantiate the kernel's body: compiling all kernels of a structure takes minutes.
    #[cfg(not(feature = "emulator"))]
    fn emulate(&self, _emulator: &Emulator) -> Result<()> {
        Err(Error::NotEmulated { launch: self.name() })
    }
}
