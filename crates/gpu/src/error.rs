//! What can go wrong: what was asked, what was found, what to do.
use crate::{LaunchName, Tier};
use std::path::PathBuf;

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a device did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program was built without the CUDA back end.
    #[error("CUDA devices are not built in: enable the feature `cuda`, or use Device::emulator")]
    NotBuiltIn,

    /// No CUDA driver, or one that does not work.
    #[error(
        "no CUDA driver answers ({reason}): install NVIDIA's driver and check that `nvidia-smi` lists a GPU, \
         or use Device::auto or Device::emulator, which need none"
    )]
    NoDriver {
        /// What the loader or the driver said.
        reason: String,
    },

    /// There are fewer devices.
    #[error(
        "there is no CUDA device {asked}: the driver shows {found}, counted from 0 (CUDA_VISIBLE_DEVICES may \
         hide some)"
    )]
    NoSuchDevice {
        /// The ordinal.
        asked: u32,
        /// How many there are.
        found: u32,
    },

    /// The text names no device.
    #[error("`{text}` names no device: say auto, emulator, cuda or cuda:N")]
    BadDeviceName {
        /// What was given.
        text: String,
    },

    /// The memory is used up.
    #[error(
        "no {bytes} bytes of {tier} memory: {free} of {total} are free; drop buffers, make the structure \
         smaller, or choose another tier"
    )]
    OutOfMemory {
        /// The tier.
        tier: Tier,
        /// What was asked.
        bytes: usize,
        /// Bytes free.
        free: usize,
        /// Bytes in all.
        total: usize,
    },

    /// The size of a buffer overflows.
    #[error("{len} elements of {element} bytes are more than an address can count")]
    TooLarge {
        /// Elements.
        len: usize,
        /// Bytes of each.
        element: usize,
    },

    /// The lengths do not fit together.
    #[error("{what}: {asked} elements at offset {offset} do not fit a buffer of {len}")]
    Length {
        /// The method.
        what: &'static str,
        /// Elements given.
        asked: usize,
        /// Where they start.
        offset: usize,
        /// Elements of the buffer.
        len: usize,
    },

    /// The host does not see the buffer's memory.
    #[error(
        "the host does not see {tier} memory: use read and write, or make the buffer on Tier::Pinned or \
         Tier::Managed"
    )]
    NotHostVisible {
        /// The tier.
        tier: Tier,
    },

    /// The tier needs something else.
    #[error("a buffer on Tier::File needs a path: use Device::map_file")]
    NeedsPath,

    /// The file cannot be mapped.
    #[error("cannot map {bytes} bytes of {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Bytes asked.
        bytes: usize,
        /// What the system said.
        source: std::io::Error,
    },

    /// The changes of a mapped file cannot be written.
    #[error("cannot write a mapped file's changes to its disk: {source}")]
    Flush {
        /// What the system said.
        source: std::io::Error,
    },

    /// The driver does not take the file's memory.
    #[error(
        "the CUDA driver refuses to map {} for kernels ({cause}): it takes files on tmpfs (/dev/shm) or \
         hugetlbfs, and refuses most disk file systems (ext4, overlay); put the file there, or use \
         Tier::Pinned and write it out",
        path.display()
    )]
    Register {
        /// The file.
        path: PathBuf,
        /// What the driver said.
        cause: String,
    },

    /// The device knows no PTX of the kernel's package.
    #[error(
        "{launch}: the device knows no program `{program}` (it knows {known}): pass its Program to \
         Device::add_program before the first launch"
    )]
    UnknownProgram {
        /// The launch.
        launch: LaunchName,
        /// The package.
        program: &'static str,
        /// Those it knows.
        known: String,
    },

    /// No PTX of the program runs on the device.
    #[error(
        "{launch}: program `{program}` has PTX for {available} and the device is sm_{arch}: build it for \
         sm_{arch} or an older one"
    )]
    NoPtx {
        /// The launch.
        launch: LaunchName,
        /// The package.
        program: &'static str,
        /// The device's architecture.
        arch: u32,
        /// What there is.
        available: String,
    },

    /// The program's PTX does not hold the kernel.
    #[error(
        "{launch}: the PTX of `{program}` for sm_{arch} has no entry of that name{similar}: list the type in \
         `instances!` and build the PTX anew"
    )]
    UnknownKernel {
        /// The launch.
        launch: LaunchName,
        /// The package.
        program: &'static str,
        /// The architecture of the PTX.
        arch: u32,
        /// Names that resemble it, in words.
        similar: String,
    },

    /// The host and the PTX do not mean the same arguments.
    #[error(
        "{launch}: the PTX takes arguments of {device:?} bytes and the host passes one of {host}: the PTX is \
         of another version than the host's code; build it anew"
    )]
    Arguments {
        /// The launch.
        launch: LaunchName,
        /// Bytes of the host's struct.
        host: usize,
        /// Bytes of each parameter in PTX.
        device: Vec<usize>,
    },

    /// The driver's compiler refuses the PTX.
    #[error(
        "{launch}: the driver cannot compile its PTX ({cause}); a driver older than the PTX version is a \
         common reason\n{log}"
    )]
    Jit {
        /// The launch.
        launch: LaunchName,
        /// What the driver said.
        cause: String,
        /// The compiler's log.
        log: String,
    },

    /// No device can run the grid.
    #[error("{launch}: a grid has at most 2147483647 blocks of 1 to 1024 threads")]
    Grid {
        /// The launch.
        launch: LaunchName,
    },

    /// The driver refuses the launch.
    #[error("{launch}: {cause}{hint}")]
    Launch {
        /// The launch.
        launch: LaunchName,
        /// What the driver said.
        cause: String,
        /// What the kernel takes, where that matters.
        hint: String,
    },

    /// A kernel was to run on the emulator, and the program was built without it.
    #[error(
        "{launch} is to run on the emulator, which this build leaves out; turn on the feature `emulator`, or \
         take a CUDA device"
    )]
    NotEmulated {
        /// The launch.
        launch: LaunchName,
    },

    /// A kernel failed on the emulator.
    #[error("{launch}: {failure}")]
    Emulator {
        /// The launch.
        launch: LaunchName,
        /// What went wrong where, and how to replay it.
        #[source]
        failure: Box<simt::emulator::Failure>,
    },

    /// A kernel failed on a CUDA device, and took the device's context with it.
    #[error(
        "{device} is lost: {cause}. A kernel trapped or touched memory that is not its own; the last one \
         launched was {last}. The contents of all buffers are gone and every later call fails: end the \
         process. To find the line, run the same calls on Device::emulator"
    )]
    DeviceLost {
        /// The device's name.
        device: String,
        /// What the driver said.
        cause: String,
        /// The last launch before.
        last: String,
    },

    /// Another call of the driver failed.
    #[error("{call}: {cause}")]
    Driver {
        /// The function.
        call: &'static str,
        /// What the driver said.
        cause: String,
    },

    /// Two events of different devices have no time between them.
    #[error("the events are of different devices ({this} and {other}): time is told within one")]
    OtherDevice {
        /// The one's device.
        this: String,
        /// The other's.
        other: String,
    },
}
