//! Errors. Each message states the request, the finding and a remedy.
use crate::name::LaunchName;
use crate::tier::Tier;
use std::fmt;
use std::path::PathBuf;

/// Result of an operation of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a device operation. `Debug` prints the message, as `Display` does, so a `main` that returns
/// [`Result`] shows it.
///
/// ```
/// let error = gpu::Error::NeedsPath;
/// assert_eq!(format!("{error:?}"), error.to_string());
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An event has no time.
    #[error("the time between two events was asked for, and one has none: record both by Stream::record")]
    NoTime,

    /// The program was built without the CUDA back end.
    #[error("CUDA devices are not built in: enable the feature `cuda`, or use Device::emulator")]
    NotBuiltIn,

    /// The CUDA driver is missing, does not work or is too old.
    #[error(
        "no working CUDA driver ({reason}): install NVIDIA's driver and check that `nvidia-smi` lists a GPU, \
         or use Device::auto or Device::emulator, which need none"
    )]
    NoDriver {
        /// Message of the loader or the driver.
        reason: String,
    },

    /// The ordinal exceeds the number of devices.
    #[error(
        "there is no CUDA device {asked}: the driver shows {found}, numbered from 0 (CUDA_VISIBLE_DEVICES \
         may hide some)"
    )]
    NoSuchDevice {
        /// Requested ordinal.
        asked: u32,
        /// Number of devices found.
        found: u32,
    },

    /// The text is no device name.
    #[error("{from}`{text}` is not a device name: use auto, emulator, cuda or cuda:N")]
    BadDeviceName {
        /// Text passed.
        text: String,
        /// Where the text comes from: `PHALANX_DEVICE=`, or nothing for an argument.
        from: &'static str,
    },

    /// The device's memory is exhausted.
    #[error(
        "{bytes} bytes of {tier} memory requested, but only {free} of {total} are free: drop buffers, make \
         the structure smaller, or choose another tier"
    )]
    OutOfMemory {
        /// Requested tier.
        tier: Tier,
        /// Requested bytes.
        bytes: usize,
        /// Free bytes.
        free: usize,
        /// Total bytes.
        total: usize,
    },

    /// The size of a buffer overflows.
    #[error("{len} elements of {element} bytes exceed the address space")]
    TooLarge {
        /// Number of elements.
        len: usize,
        /// Bytes per element.
        element: usize,
    },

    /// The elements do not fit the buffer.
    #[error("{what}: {asked} elements at offset {offset} exceed the buffer of {len}")]
    Length {
        /// Name of the method.
        what: &'static str,
        /// Number of elements passed.
        asked: usize,
        /// Offset of the first element.
        offset: usize,
        /// Number of elements in the buffer.
        len: usize,
    },

    /// The range of a slice is reversed, or not within the buffer or slice.
    #[error("the range from {start} up to but excluding {end} is not within the {len} elements")]
    SliceRange {
        /// First index of the range.
        start: usize,
        /// End of the range (exclusive).
        end: usize,
        /// Number of elements that there are.
        len: usize,
    },

    /// The host cannot access the buffer's memory.
    #[error(
        "the host cannot access {tier} memory directly: use read and write, or create the buffer on \
         Tier::Pinned or Tier::Managed"
    )]
    NotHostVisible {
        /// Tier of the buffer.
        tier: Tier,
    },

    /// A buffer on [`Tier::File`] needs a path.
    #[error("a buffer on Tier::File needs a path: use Device::map_file")]
    NeedsPath,

    /// The file cannot be mapped.
    #[error("cannot map {bytes} bytes of {}: {source}", path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Requested bytes.
        bytes: usize,
        /// Error of the operating system.
        source: std::io::Error,
    },

    /// The changes of a mapped file cannot be written to disk.
    #[error("cannot write the changes of a mapped file to disk: {source}")]
    Flush {
        /// Error of the operating system.
        source: std::io::Error,
    },

    /// The driver refuses to register the file's memory.
    #[error(
        "the CUDA driver refuses to map {} for kernels ({cause}): it accepts files on tmpfs (/dev/shm) or \
         hugetlbfs, and refuses most disk file systems (ext4, overlay); move the file, or use Tier::Pinned \
         and write the data out",
        path.display()
    )]
    Register {
        /// Path of the file.
        path: PathBuf,
        /// Error of the driver.
        cause: String,
    },

    /// Memory of another library cannot be used.
    #[error("cannot wrap {bytes} bytes of another library at {address:#x}: {cause}")]
    ForeignMemory {
        /// Device address.
        address: usize,
        /// Requested bytes.
        bytes: usize,
        /// Reason.
        cause: String,
    },

    /// A stream of another library cannot be used.
    #[error("cannot wrap a stream of another library: {cause}")]
    ForeignStream {
        /// Reason.
        cause: String,
    },

    /// No program is registered under the name of the kernel's package.
    #[error(
        "{launch}: no program `{program}` is registered on the device (registered: {known}): pass its \
         Program to Device::add_program before the first launch"
    )]
    UnknownProgram {
        /// The launch.
        launch: LaunchName,
        /// Name of the package.
        program: &'static str,
        /// Names of the registered programs.
        known: String,
    },

    /// The program has no PTX that runs on the device.
    #[error(
        "{launch}: program `{program}` has PTX for {available}, but the device is sm_{arch}: build it for \
         sm_{arch} or an older architecture"
    )]
    NoPtx {
        /// The launch.
        launch: LaunchName,
        /// Name of the package.
        program: &'static str,
        /// Architecture of the device.
        arch: u32,
        /// Architectures for which the program has PTX.
        available: String,
    },

    /// The program's PTX lacks the kernel.
    #[error(
        "{launch}: the PTX of `{program}` for sm_{arch} has no entry of that name{similar}: list the type in \
         `instances!` and rebuild the PTX"
    )]
    UnknownKernel {
        /// The launch.
        launch: LaunchName,
        /// Name of the package.
        program: &'static str,
        /// Architecture of the PTX.
        arch: u32,
        /// Description of entries with similar names.
        similar: String,
    },

    /// The program's PTX cannot be unpacked or is no text.
    #[error("{launch}: the PTX of `{program}` is damaged ({cause}): rebuild the program")]
    DamagedPtx {
        /// The launch.
        launch: LaunchName,
        /// Name of the package.
        program: &'static str,
        /// Cause.
        cause: String,
    },

    /// The host and the PTX disagree on the size of the arguments.
    #[error(
        "{launch}: the PTX takes arguments of {device:?} bytes, but the host passes {host}: the PTX was \
         built from another version than the host code; rebuild it"
    )]
    Arguments {
        /// The launch.
        launch: LaunchName,
        /// Bytes of the host's argument struct.
        host: usize,
        /// Bytes of each parameter in the PTX.
        device: Vec<usize>,
    },

    /// The driver's compiler rejects the PTX.
    #[error(
        "{launch}: the driver cannot compile the PTX ({cause}); a common reason is a driver older than the \
         PTX version\n{log}"
    )]
    Jit {
        /// The launch.
        launch: LaunchName,
        /// Error of the driver.
        cause: String,
        /// Log of the compiler.
        log: String,
    },

    /// The grid exceeds the limits of every device.
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
        /// Error of the driver.
        cause: String,
        /// The kernel's resource needs, if they explain the refusal.
        hint: String,
    },

    /// The program was built without the emulator.
    #[error("the emulator is not built in: enable the feature `emulator`, or use a CUDA device")]
    NotEmulated,

    /// There is no CUDA device, and the program was built without the emulator.
    #[error("no device: the emulator is not built in (enable the feature `emulator`), and {cause}")]
    NoDevice {
        /// Reason why there is no CUDA device.
        cause: Box<Error>,
    },

    /// A kernel failed on the emulator.
    #[error("{launch}: {failure}")]
    Emulator {
        /// The launch.
        launch: LaunchName,
        /// Description and location of the failure, and how to replay it.
        #[source]
        failure: Box<simt::emulator::Failure>,
    },

    /// A kernel failed on a CUDA device and destroyed the device's context.
    #[error(
        "{device} is lost: {cause}. A kernel trapped or accessed memory outside its buffers; the last launch \
         was {last}. The contents of all buffers are lost and every later call fails: end the process. To \
         find the line, run the same calls on Device::emulator"
    )]
    DeviceLost {
        /// Name of the device.
        device: String,
        /// Error of the driver.
        cause: String,
        /// Last launch before the failure.
        last: String,
    },

    /// Any other call of the driver failed.
    #[error("{call}: {cause}")]
    Driver {
        /// Name of the function.
        call: &'static str,
        /// Error of the driver.
        cause: String,
    },

    /// Memory cannot be copied directly between two devices.
    #[error("cannot copy from {from} to {to}: {cause}")]
    PeerCopy {
        /// Device of the destination.
        to: String,
        /// Device of the source.
        from: String,
        /// Reason.
        cause: &'static str,
    },

    /// The elements of a slice cannot be read as elements of another type.
    #[error(
        "{bytes} bytes at {address:#x} are no elements of {element} bytes aligned to {align}: slice at \
         multiples of both"
    )]
    Cast {
        /// Device address.
        address: usize,
        /// Size of the slice in bytes.
        bytes: usize,
        /// Bytes per element of the other type.
        element: usize,
        /// Alignment of the other type in bytes.
        align: usize,
    },

    /// Two events belong to different devices, so no time between them is defined.
    #[error(
        "the events belong to different devices ({this} and {other}): time can be measured only within one"
    )]
    OtherDevice {
        /// Device of one event.
        this: String,
        /// Device of the other event.
        other: String,
    },
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
