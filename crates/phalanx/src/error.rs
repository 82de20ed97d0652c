//! What can go wrong: what was asked, what was found, what to do.
use crate::map::Outcomes;

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
    #[error("{what}: {expected} elements were expected, and {found} were given")]
    Length {
        /// Which slice.
        what: &'static str,
        /// Elements it should have.
        expected: usize,
        /// Elements it has.
        found: usize,
    },

    /// A structure with room for nothing was asked for.
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

    /// No such kind of structure.
    #[error("there is no variant `{name}` for these key and value types; there are {known}")]
    UnknownVariant {
        /// The name given.
        name: String,
        /// The names that fit.
        known: String,
    },

    /// A view of another kind than the map's.
    #[error(
        "a view of the kind `{asked}` was asked for, and the map is of the kind `{found}`: build it with \
         `.variant(\"{asked}\")`"
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
        "variant `{name}` swaps 16 bytes at once, which {device} cannot: for a hash map leave the variant \
         out, or choose one whose name begins with `published`; an ordered map has keys and values of 32 \
         bits there"
    )]
    NeedsWideSwap {
        /// The variant.
        name: String,
        /// The device.
        device: String,
    },

    /// No pool has slabs of this size.
    #[error("slabs of {0} bytes were asked for: there are slabs of 128 and of 256")]
    SlabBytes(usize),

    /// No pool has super blocks of this size.
    #[error("super blocks of {0} slabs were asked for: give a power of two from 32 to 2^24")]
    SuperBlock(usize),

    /// A pool that would be larger than its owner allows.
    #[error(
        "{asked} bytes of slabs were asked for, which is more than the pool's budget of {budget}: raise the \
         budget, or free slabs first"
    )]
    Budget {
        /// Bytes that the pool's slabs would have.
        asked: usize,
        /// Bytes it may have.
        budget: usize,
    },

    /// A blocking call found no room for some of its elements, and could make none.
    ///
    /// The elements that had room are done. The outcome of every element of the call is in `outcomes`, in the
    /// order of the elements; [`Outcome::Refused`](crate::Outcome::Refused) marks those that found no room
    /// and those that the call did not try. Calls on structures of fixed capacity return `Ok` with these
    /// outcomes instead.
    #[error(
        "{} of {} elements found no room, and the memory for more was not to be had: free memory of the \
         device, give the structure a larger budget or drop its snapshots, then ask again for the elements \
         whose outcome is `Refused`",
        .outcomes.refused(),
        .outcomes.asked()
    )]
    NoRoom {
        /// What became of each element.
        outcomes: Outcomes,
    },

    /// Pairs or keys that a structure must take as a whole, when it moves or is loaded, do not fit the memory
    /// that could be had. A structure that was to move is as it was; one that was to be loaded is not made.
    #[error(
        "{left_over} of {pairs} pairs or keys do not fit, and there is no room for more: give the structure \
         a larger budget, more slabs or leave to grow, or free memory of the device"
    )]
    DoesNotFit {
        /// Pairs or keys without room.
        left_over: usize,
        /// All pairs or keys.
        pairs: usize,
    },

    /// More slabs than handles can name.
    #[error(
        "a pool of {asked} slabs was asked for, and one like this has at most {most}: begin with a larger \
         capacity, or with larger super blocks"
    )]
    TooManySlabs {
        /// Slabs it would have.
        asked: usize,
        /// The most there are.
        most: usize,
    },

    /// A view of another kind of pool.
    #[error("a view of a pool `{asked}` was asked for, and the pool is `{found}`")]
    OtherPool {
        /// The kind asked for.
        asked: &'static str,
        /// The pool's.
        found: &'static str,
    },

    /// A pool was closed while slabs were allocated.
    #[error(
        "{live} slabs are live in the pool that was to be closed, the first of them {first}: free or retire \
         them before"
    )]
    Leak {
        /// How many.
        live: usize,
        /// Some of them.
        first: String,
    },

    /// A memory utilisation that no lists can have.
    #[error(
        "a memory utilisation of {asked} was asked for: give one above 0 and at most {most:.2}, which full \
         slabs have"
    )]
    Utilisation {
        /// Asked for.
        asked: f64,
        /// What can be had, if only just.
        most: f64,
    },

    /// A fill that no node can have.
    #[error("a fill of {0} was asked for: give one above 0 and at most 1")]
    Fill(f64),

    /// Keys that should have been in order.
    #[error(
        "the keys are not in order, {many} times not below the next: sort them, and leave out equal ones"
    )]
    Unsorted {
        /// How many.
        many: u64,
    },

    /// More snapshots than a tree can have at a time.
    #[error("a snapshot was asked for, and {most} are alive, which is the most there can be: drop some")]
    Snapshots {
        /// How many there can be.
        most: usize,
    },

    /// No stamp is left for another snapshot.
    #[error(
        "a snapshot was asked for, and all stamps are used up: drop those that live, and time begins anew"
    )]
    Moments,

    /// A snapshot in a stream, of a tree whose clock stands still while kernels run.
    #[error(
        "a snapshot in a stream was asked for, and the tree changes in place: build it with \
         `.updates(Updates::OutOfPlace)`, or take one by `snapshot`, which waits"
    )]
    ClockStands,

    /// A snapshot of another tree.
    #[error("a snapshot was given that is of another tree: ask the one that it was taken of")]
    OtherTree,

    /// No such bucket.
    #[error("bucket {bucket} was named, and there are {count}")]
    Bucket {
        /// Named.
        bucket: u32,
        /// Buckets there are.
        count: u32,
    },

    /// A structure is not as it should be.
    #[error("the structure is damaged: {0}")]
    Invalid(String),

    /// A range whose ends are swapped.
    #[error("the range from {low} to {high} is empty: its ends are swapped, give the lower one first")]
    Range {
        /// Lower end.
        low: u64,
        /// Upper end.
        high: u64,
    },

    /// A workspace that is too small.
    #[error(
        "{what} needs {needed} bytes of workspace and has {found}: make it with as many, or ask it to \
         `reserve` them"
    )]
    Workspace {
        /// What was asked for.
        what: &'static str,
        /// Bytes it needs.
        needed: usize,
        /// Bytes there are.
        found: usize,
    },

    /// More elements than a primitive counts.
    #[error("{what} was asked for {asked} elements, and takes at most {most}: split them")]
    TooMany {
        /// What was asked for.
        what: &'static str,
        /// How many elements.
        asked: usize,
        /// The most there are.
        most: usize,
    },

    /// No such bits.
    #[error(
        "bits {first} to {end} were asked for, and keys have {bits}: give a lower end before an upper one, \
         both within the key"
    )]
    Bits {
        /// The first bit.
        first: u32,
        /// The bit after the last.
        end: u32,
        /// Bits of a key.
        bits: u32,
    },

    /// A buffer of another device than the stream.
    #[error("{what}: it is of another device ({found}) than the stream ({stream})")]
    Elsewhere {
        /// Which buffer.
        what: &'static str,
        /// The stream's device.
        stream: String,
        /// The buffer's.
        found: String,
    },

    /// No such tile.
    #[error("there is no tile `{asked}` for kernels `{what}`; there are {known}")]
    UnknownTile {
        /// The tile's name.
        asked: String,
        /// What was asked for.
        what: String,
        /// The names there are.
        known: String,
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
    /// Returns the outcomes of the elements of a call that found no room for some of them.
    pub fn outcomes(&self) -> Option<&Outcomes> {
        match self {
            Self::NoRoom { outcomes } => Some(outcomes),
            _ => None,
        }
    }

    /// Whether a smaller structure could be made.
    pub(crate) fn is_lack_of_room(&self) -> bool {
        use gpu::Error::{OutOfMemory, TooLarge};
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::Budget { .. }
                | Self::NoRoom { .. }
                | Self::DoesNotFit { .. }
                | Self::TooManySlabs { .. }
                | Self::Device(OutOfMemory { .. } | TooLarge { .. })
        )
    }
}

/// What was made of memory, or nothing where there was too little of it.
pub(crate) fn made_room<T: Default>(tried: Result<T>) -> Result<T> {
    match tried {
        Err(error) if error.is_lack_of_room() => Ok(T::default()),
        tried => tried,
    }
}

/// Ends a call with maintenance that a later call can do as well: lack of memory is no error.
pub(crate) fn or_later<T: Default>(tried: Result<T>) -> Result<()> {
    made_room(tried).map(drop)
}
