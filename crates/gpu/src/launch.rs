//! Names and sizes of launches.
use crate::{Error, Kernel, Result};
pub use simt::Grid;
use simt::emulator::Emulator;

/// A kernel and the grid it was launched on, for messages. Where no launch was asked for the grid is empty,
/// and not shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchName {
    pub(crate) kernel: KernelId,
    pub(crate) grid: Grid,
}

impl LaunchName {
    pub(crate) fn of<K: Kernel>(grid: Grid) -> Self {
        Self { kernel: KernelId::of::<K>(), grid }
    }

    /// The kernel's symbol in PTX.
    pub fn symbol(&self) -> String {
        self.kernel.symbol()
    }

    /// The grid.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Refuses grids that no device can run. An empty grid is none of them.
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

/// Which kernel: what its type says of itself.
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

/// A launch whose type only itself knows.
pub(crate) trait AnyLaunch {
    fn name(&self) -> LaunchName;

    /// The kernel's struct as bytes.
    #[cfg(feature = "cuda")]
    fn arguments(&self) -> (*const u8, usize);

    /// Runs it on an emulator.
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

    /// The kernel's body is not instantiated: all of a structure's together take minutes to compile.
    #[cfg(not(feature = "emulator"))]
    fn emulate(&self, _emulator: &Emulator) -> Result<()> {
        Err(Error::NotEmulated { launch: self.name() })
    }
}
