//! Names of kernels and launches.
use simt::{Grid, Kernel};

/// A kernel and its grid, for messages. The grid is empty, and not shown, if there was no launch.
///
/// ```
/// use gpu::{Device, Error, Grid};
/// use simt::kernel;
///
/// #[kernel]
/// fn nothing() {}
///
/// // SAFETY: the kernel accesses no memory.
/// let refused = unsafe { Device::auto().default_stream().launch(Grid::new(1, 5000), Nothing {}) };
/// let Err(Error::Grid { launch }) = refused else { panic!("{refused:?}") };
/// assert_eq!((launch.symbol().as_str(), launch.grid()), ("nothing", Grid::new(1, 5000)));
/// ```
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
