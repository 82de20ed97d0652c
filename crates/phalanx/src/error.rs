//! What can go wrong: what was asked, what was found, what to do.

/// What the functions of this crate return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a structure did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device did not do its part.
    #[error(transparent)]
    Device(#[from] gpu::Error),

    /// Slices that belong together have different lengths.
    #[error("{what}: {expected} elements were expected, as many as there are keys, and {found} were given")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Elements it should have.
        expected: usize,
        /// Elements it has.
        found: usize,
    },

    /// A structure for nothing.
    #[error("a capacity of 0 was asked for: ask for at least 1")]
    ZeroCapacity,

    /// More than a structure can address.
    #[error("{slots} slots were asked for, and a table has at most {most}: split the keys over several maps")]
    TooLarge {
        /// Slots asked.
        slots: usize,
        /// The most there are.
        most: usize,
    },

    /// A load factor that no table can have.
    #[error("a load factor of {0} was asked for: give one above 0 and at most 1")]
    LoadFactor(f64),

    /// No such kind of table.
    #[error("there is no variant `{name}` for these key and value types; there are {known}")]
    UnknownVariant {
        /// The name given.
        name: String,
        /// The names that fit.
        known: String,
    },

    /// A view of another kind of table than the map's.
    #[error(
        "a view of a table `{asked}` was asked for, and the map's is `{found}`: build it with `.variant(\"{asked}\")`"
    )]
    OtherVariant {
        /// The kind asked for.
        asked: &'static str,
        /// The map's.
        found: String,
    },

    /// A stream or a buffer that belongs to another device than the map.
    #[error("{what}: it is of another device ({found}) than the map ({map}): make it with `map.device()`")]
    OtherDevice {
        /// Which one.
        what: &'static str,
        /// The map's device.
        map: String,
        /// The other.
        found: String,
    },

    /// The device cannot run the variant.
    #[error(
        "variant `{name}` swaps 16 bytes at once, which {device} cannot: leave the variant out, or choose one whose name \
         begins with `published`"
    )]
    NeedsWideSwap {
        /// The variant.
        name: String,
        /// The device.
        device: String,
    },

    /// A range whose ends are swapped.
    #[error("the range from {low} to {high} is empty: its ends are swapped")]
    Range {
        /// Lower end.
        low: u64,
        /// Upper end.
        high: u64,
    },

    /// Reading or writing a saved structure.
    #[error("{doing} a saved map: {source}")]
    Io {
        /// Which of the two.
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },

    /// What is read is no saved map, or a damaged one.
    #[error("this is no saved map that can be read: {0}")]
    Format(String),
}

impl Error {
    /// Whether a smaller structure could be made.
    pub(crate) fn is_lack_of_room(&self) -> bool {
        use gpu::Error::{OutOfMemory, TooLarge};
        matches!(self, Self::TooLarge { .. } | Self::Device(OutOfMemory { .. } | TooLarge { .. }))
    }
}
