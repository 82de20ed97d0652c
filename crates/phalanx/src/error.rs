//! The errors of this crate.
use crate::map::Outcomes;
use std::fmt;

/// Result type of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reasons why an operation on a structure failed.
///
/// ```
/// use phalanx::{Error, Outcome, Outcomes};
///
/// let outcomes = Outcomes::from(vec![Outcome::Inserted, Outcome::Refused]);
/// let error = Error::NoRoom { outcomes, cause: None };
/// assert_eq!(error.outcomes().map(Outcomes::refused), Some(1));
/// assert_eq!(Error::ZeroCapacity.outcomes(), None);
/// ```
///
/// `Debug` prints the message, as `Display` does, so a `main` that returns [`Result`] shows it:
///
/// ```
/// assert_eq!(format!("{:?}", phalanx::Error::ZeroCapacity), "the capacity is 0; it must be at least 1");
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device failed: it is lost, out of memory or not available.
    #[error(transparent)]
    Device(#[from] gpu::Error),

    /// Slices that must have the same length differ in length.
    #[error("{what}: expected {expected} elements, found {found}")]
    Length {
        /// Name of the slice.
        what: &'static str,
        /// Expected number of elements.
        expected: usize,
        /// Actual number of elements.
        found: usize,
    },

    /// A capacity of 0 was requested.
    #[error("the capacity is 0; it must be at least 1")]
    ZeroCapacity,

    /// The rows of a cache table have an unsupported size.
    #[error(
        "rows of {dim} elements of {element} bytes requested; a row must have a multiple of 4 bytes, at most \
         4096"
    )]
    RowBytes {
        /// Elements in a row.
        dim: usize,
        /// Bytes in an element.
        element: usize,
    },

    /// Rows on the device begin at an address that is not a multiple of 4.
    #[error(
        "{what} begin at an address that is not a multiple of 4 bytes: slice their buffer at whole words"
    )]
    Misaligned {
        /// Name of the rows.
        what: &'static str,
    },

    /// The share of a cache table's rows that lie on the device is not a number from 0 to 1.
    #[error("the share of rows on the device must be a number from 0 to 1")]
    Share,

    /// A cache table was to have room for more keys than its maximum capacity.
    #[error(
        "room for {asked} keys requested, but the table grows to {most} at most: `set_max_capacity` first"
    )]
    AboveMaxCapacity {
        /// Requested number of keys.
        asked: usize,
        /// The table's maximum capacity.
        most: usize,
    },

    /// A cache table was to be cleared or to grow while leases hold rows of it.
    #[error("{leases} leases hold rows of the table: drop them first (those that were leaked never end)")]
    Leased {
        /// Number of leases.
        leases: usize,
    },

    /// A cache table was to grow while exports of it are under way.
    #[error(
        "{exports} exports of the table are under way: drop them first (those that were leaked never end)"
    )]
    Exported {
        /// Number of exports.
        exports: usize,
    },

    /// Scores by this rule of a cache table do not tell when a key was used last.
    #[error(
        "scores by the rule {rule} do not tell when a key was used: build the table with `EpochLru`, \
         `EpochLfu`, `Lru` or `Custom`, or export and save it as a whole"
    )]
    NoTime {
        /// Name of the table's rule.
        rule: String,
    },

    /// An epoch is lower than the one before.
    #[error("epoch {asked} follows epoch {current}: epochs of a cache table must not decrease")]
    Epoch {
        /// Requested epoch.
        asked: u32,
        /// The table's epoch.
        current: u32,
    },

    /// Tables of one call differ in what they must have in common.
    #[error(
        "table {index} differs from the first one in its {what}: one call takes cache tables of the same \
         device, variant and length of rows"
    )]
    Unlike {
        /// Number of the table, from 0.
        index: usize,
        /// Name of the property.
        what: &'static str,
    },

    /// Another number that must be at least 1 is 0.
    #[error("the number of {what} is 0; it must be at least 1")]
    Zero {
        /// Name of the items.
        what: &'static str,
    },

    /// A structure would be larger than can be addressed.
    #[error("{asked} {what} requested, but at most {most} are possible: split the keys over several maps")]
    TooLarge {
        /// Name of the items, with the name of the argument if there are several.
        what: &'static str,
        /// Requested number.
        asked: usize,
        /// Maximum number.
        most: usize,
    },

    /// The load factor is not in the range above 0 up to 1.
    #[error("the load factor is {0}; it must be above 0 and at most 1")]
    LoadFactor(f64),

    /// No variant has this name, for these key and value types.
    #[error("no variant is called `{name}` for these key and value types; available: {known}")]
    UnknownVariant {
        /// Requested name.
        name: String,
        /// Available names, separated by commas.
        known: String,
    },

    /// A view of another variant than the map's was requested.
    #[error(
        "a view of variant `{asked}` requested, but the structure is of variant `{found}`: build it with \
         `.variant(\"{asked}\")`"
    )]
    OtherVariant {
        /// Requested variant.
        asked: &'static str,
        /// The map's variant.
        found: String,
    },

    /// A stream or a buffer belongs to another device than the map.
    #[error(
        "{what} belongs to another device ({found}) than the structure ({map}): create it on `map.device()`"
    )]
    OtherDevice {
        /// Name of the argument.
        what: &'static str,
        /// The map's device.
        map: String,
        /// The argument's device.
        found: String,
    },

    /// The variant needs a 16-byte compare-and-swap, which the device lacks.
    #[error(
        "variant `{name}` needs a 16-byte compare-and-swap, which {device} does not have: for a hash map, \
         omit the variant or select one whose name begins with `published`; an ordered map needs keys and \
         values of 32 bits on this device"
    )]
    NeedsWideSwap {
        /// Name of the variant.
        name: String,
        /// Name of the device.
        device: String,
    },

    /// The slab size, in bytes, is not supported.
    #[error("slabs of {0} bytes requested; available sizes are 128 and 256")]
    SlabBytes(usize),

    /// The super block size, in slabs, is not a power of two from 32 to 2^24.
    #[error("super blocks of {0} slabs requested; the number must be a power of two from 32 to 2^24")]
    SuperBlock(usize),

    /// The pool would exceed its budget.
    #[error(
        "{asked} bytes of slabs requested, which exceeds the pool's budget of {budget} bytes: raise the \
         budget, or free slabs first"
    )]
    Budget {
        /// Bytes that the pool's slabs would occupy.
        asked: usize,
        /// The budget in bytes.
        budget: usize,
    },

    /// A map needs more device memory than its budget allows.
    #[error(
        "a budget of {asked} bytes of device memory was given, but {needed} are needed: raise the budget, or \
         divide the map into more shards"
    )]
    DeviceBudget {
        /// The budget in bytes.
        asked: usize,
        /// Bytes that would have to be in use at one time.
        needed: usize,
    },

    /// The number of shards of a map is not a power of two, or too large.
    #[error("{asked} shards requested; the number must be a power of two, at most {most}")]
    Shards {
        /// Requested number.
        asked: usize,
        /// Maximum number.
        most: usize,
    },

    /// A map cannot be divided into so many ranges of keys.
    #[error(
        "{asked} ranges of keys requested, but a map has 1 to {most}: choose more keys for each range or a \
         shorter range of all keys (with a start that is not above its end), or divide the keys by hash"
    )]
    Ranges {
        /// Requested number.
        asked: u64,
        /// Maximum number.
        most: u64,
    },

    /// The file in which a map keeps its shards cannot be created, extended, read or written.
    #[error(
        "{doing} {}the shards' file {} failed: {source}. The file must be a new one in a folder that can be \
         written, on a disk with room for all shards",
        bytes_of(*bytes),
        path.display()
    )]
    ShardFile {
        /// The failed action: creating, extending by, reading or writing.
        doing: &'static str,
        /// Number of bytes.
        bytes: u64,
        /// Path of the file.
        path: std::path::PathBuf,
        /// Error of the operating system.
        source: std::io::Error,
    },

    /// A persistent map cannot have the requested durability: the file has the other one, or the driver
    /// registers no mapping of it.
    #[cfg(feature = "persistent-map")]
    #[error(
        "the file `{}` offers the durability {offered:?} only, since {cause}: request \
         `.durability(Durability::{offered:?})`",
        .path.display()
    )]
    Durability {
        /// Path of the file.
        path: std::path::PathBuf,
        /// The only durability that the file offers.
        offered: crate::persistent_map::Durability,
        /// The reason.
        cause: String,
    },

    /// A call needs a file, but the map was built without one.
    #[cfg(feature = "persistent-map")]
    #[error("the map has no file: build it with `create`, `open` or `open_or_create`")]
    NoFile,

    /// Elements of a persistent map's batch begin at an address that kernels cannot access as words.
    #[cfg(feature = "persistent-map")]
    #[error("the {what} are not aligned to {bytes} bytes: copy them to a buffer of the device")]
    Alignment {
        /// Name of the argument.
        what: &'static str,
        /// Required alignment.
        bytes: usize,
    },

    /// Keys or values of a persistent map have an unsupported size.
    #[cfg(feature = "persistent-map")]
    #[error(
        "{what} of {bytes} bytes requested; keys have 8, 16, 32 or 64 bytes, values 8 to 1024 in steps of 4"
    )]
    ItemBytes {
        /// Keys or values.
        what: &'static str,
        /// Their size.
        bytes: usize,
    },

    /// The file of a persistent map cannot be used. The fault says why, and what to do.
    #[cfg(feature = "persistent-map")]
    #[error("the file `{}` of a persistent map: {fault}", .path.display())]
    PersistentFile {
        /// Path of the file.
        path: std::path::PathBuf,
        /// The reason.
        fault: crate::persistent_map::FileFault,
    },

    /// A batch that changes a map failed after some of its elements were done. The map is valid: each element
    /// is done as a whole, or not at all; outcomes and values of those that are done are lost. If the device
    /// is lost, elements that were executed in place may be done although they are not marked.
    #[error(
        "the batch was interrupted after {} of {} elements: {source}; retry those that are not done",
        .done.iter().filter(|&&is_done| is_done).count(),
        .done.len()
    )]
    Interrupted {
        /// Whether each element of the batch is done.
        done: Vec<bool>,
        /// The cause.
        source: Box<Error>,
    },

    /// A blocking call could not store some of its elements, and the structure could not grow.
    ///
    /// The other elements are done. `outcomes` holds the outcome of every element of the call, in the order
    /// of the elements. [`Outcome::Refused`](crate::Outcome::Refused) marks the elements that did not fit and
    /// those that the call did not attempt. Calls on structures of fixed capacity return `Ok` with such
    /// outcomes instead.
    #[error(
        "{} of {} elements do not fit, and the structure could not grow{}: free memory, or room on the disk \
         of a structure with a file, raise its budget or drop its snapshots, then retry the elements whose \
         outcome is `Refused`",
        .outcomes.refused(),
        .outcomes.asked(),
        .cause.as_ref().map_or(String::new(), |cause| format!(" ({cause})"))
    )]
    NoRoom {
        /// Outcome of each element.
        outcomes: Outcomes,
        /// The reason why the structure could not grow, if it is known.
        #[source]
        cause: Option<Box<Error>>,
    },

    /// The pairs or keys that a structure must store as a whole, when it is rebuilt in a new pool or loaded,
    /// do not fit the available memory. A structure that was to be rebuilt is unchanged; a structure that was
    /// to be loaded is not created.
    #[error(
        "{left_over} of {pairs} pairs or keys do not fit: raise the structure's budget or capacity, allow it \
         to grow, or free device memory"
    )]
    DoesNotFit {
        /// Pairs or keys that do not fit.
        left_over: usize,
        /// Total number of pairs or keys.
        pairs: usize,
    },

    /// The pool would have more slabs than handles can address.
    #[error(
        "a pool of {asked} slabs requested, but with super blocks of this size it has at most {most}: \
         request fewer slabs, or build the pool with larger super blocks"
    )]
    TooManySlabs {
        /// Slabs that the pool would have.
        asked: usize,
        /// Maximum number of slabs.
        most: usize,
    },

    /// A view of another kind of pool was requested.
    #[error("a view of a pool `{asked}` requested, but the pool is `{found}`")]
    OtherPool {
        /// Requested kind.
        asked: &'static str,
        /// The pool's kind.
        found: &'static str,
    },

    /// A pool was closed while slabs were allocated.
    #[error(
        "the pool cannot be closed: {live} slabs are live, the first of them {first}; free or retire them \
         first"
    )]
    Leak {
        /// Number of allocated slabs.
        live: usize,
        /// Handles of some of them.
        first: String,
    },

    /// The memory utilization is not in the range that slab lists can have.
    #[error(
        "the memory utilization is {asked}; it must be above 0 and at most {most:.2}, that of full slabs"
    )]
    Utilisation {
        /// Requested utilization.
        asked: f64,
        /// Maximum utilization, which only full slabs reach.
        most: f64,
    },

    /// The fill of nodes is not in the range above 0 up to 1.
    #[error("the fill is {0}; it must be above 0 and at most 1")]
    Fill(f64),

    /// Keys that must be strictly ascending are not.
    #[error(
        "the keys are not strictly ascending: {many} keys are not below the next one; sort them and remove \
         duplicates"
    )]
    Unsorted {
        /// Number of keys that are not below the next key.
        many: u64,
    },

    /// The tree has its maximum number of live snapshots.
    #[error("{most} snapshots are alive, which is the maximum: drop some before taking another")]
    Snapshots {
        /// Maximum number of live snapshots.
        most: usize,
    },

    /// All timestamps are used up while snapshots are alive. The clock restarts when no snapshot is alive.
    #[error("all timestamps are used up: drop all snapshots, after which the clock restarts")]
    Moments,

    /// A snapshot was requested in a stream, of a tree that updates in place: its clock does not advance
    /// while kernels run.
    #[error(
        "a tree that updates in place cannot take a snapshot in a stream: build it with \
         `.updates(Updates::OutOfPlace)`, or call `snapshot`, which waits"
    )]
    ClockStands,

    /// The snapshot belongs to another tree.
    #[error("the snapshot is of another tree: use it with the tree that it was taken of")]
    OtherTree,

    /// The bucket index is out of range.
    #[error("there is no bucket {bucket}: the structure has {count}")]
    Bucket {
        /// Requested bucket.
        bucket: u32,
        /// Number of buckets.
        count: u32,
    },

    /// A persistent map has no cache, or cannot have the one that was asked for.
    #[cfg(feature = "persistent-map")]
    #[error("no cache: {0}")]
    Cache(String),

    /// A structure violates its invariants.
    #[error("the structure is corrupt: {0}")]
    Invalid(String),

    /// A graph that stores edges at both ends cannot keep parallel edges.
    #[cfg(feature = "dynamic-graph")]
    #[error(
        "parallel edges are kept only by directed graphs that store edges at their sources: build the graph \
         with `Kind::Directed` and without `in_edges`, or without `parallel_edges`"
    )]
    ParallelHalves,

    /// The load of the tables of a graph is not in its range.
    #[cfg(feature = "dynamic-graph")]
    #[error("the load of tables is {asked}; it must be from 0.1 to {most}")]
    TableLoad {
        /// Requested load.
        asked: f64,
        /// Maximum load.
        most: f64,
    },

    /// A line of a file of edges is malformed.
    #[cfg(feature = "dynamic-graph")]
    #[error("{file}, line {line}: {fault}")]
    EdgeLine {
        /// Name of the file.
        file: String,
        /// Number of the line, from 1.
        line: u64,
        /// The expected form and the form that was found.
        fault: String,
    },

    /// A file of edges cannot be read.
    #[cfg(feature = "dynamic-graph")]
    #[error("reading edges from {file} failed: {source}")]
    EdgeFile {
        /// Name of the file.
        file: String,
        /// Error of the operating system or of the reader.
        source: std::io::Error,
    },

    /// An algorithm on a graph was given a vertex that does not exist.
    #[cfg(feature = "dynamic-graph")]
    #[error("there is no vertex {vertex}: the graph has {vertices}")]
    NoVertex {
        /// The vertex.
        vertex: u32,
        /// Number of vertices.
        vertices: usize,
    },

    /// A directed graph does not store edges at their targets.
    #[cfg(feature = "dynamic-graph")]
    #[error("the graph does not store edges at their targets: build it with `.in_edges(true)`")]
    NoInEdges,

    /// Compressed sparse rows are not those of a graph.
    #[cfg(feature = "dynamic-graph")]
    #[error("the rows are no graph: {0}")]
    Rows(&'static str),

    /// An algorithm for undirected graphs was called with a directed one.
    #[cfg(feature = "dynamic-graph")]
    #[error("the graph is directed: triangles are counted in undirected graphs, built by `Kind::Undirected`")]
    Directed,

    /// A parameter of PageRank is not in its range.
    #[cfg(feature = "dynamic-graph")]
    #[error("the {what} of PageRank is {value}; it must be from 0 to 1")]
    PageRank {
        /// Name of the parameter.
        what: &'static str,
        /// Its value.
        value: f64,
    },

    /// The lower end of a range is above its upper end.
    #[error("the range from {low} to {high} has its ends swapped: pass the lower one first")]
    Range {
        /// Lower end.
        low: String,
        /// Upper end.
        high: String,
    },

    /// The workspace is too small.
    #[error(
        "{what} needs a workspace of {needed} bytes, but it has {found}: create it with that size, or call \
         `reserve`"
    )]
    Workspace {
        /// Name of the primitive.
        what: &'static str,
        /// Required bytes.
        needed: usize,
        /// Bytes of the workspace.
        found: usize,
    },

    /// More elements than the primitive supports.
    #[error("{what} takes at most {most} elements, but {asked} were passed: split them")]
    TooMany {
        /// Name of the primitive.
        what: &'static str,
        /// Requested number of elements.
        asked: usize,
        /// Maximum number of elements.
        most: usize,
    },

    /// The bit range is empty, reversed or beyond the key.
    #[error(
        "the range of bits {first} to {end} is invalid for keys of {bits} bits: the first must be below the \
         end, and the end at most the key's bits"
    )]
    Bits {
        /// First bit of the range.
        first: u32,
        /// End of the range (exclusive).
        end: u32,
        /// Number of bits in a key.
        bits: u32,
    },

    /// A buffer belongs to another device than the stream.
    #[error("{what} belongs to another device ({found}) than the stream ({stream})")]
    Elsewhere {
        /// Name of the buffer.
        what: &'static str,
        /// The stream's device.
        stream: String,
        /// The buffer's device.
        found: String,
    },

    /// No tile has this name, for these kernels.
    #[error("no tile is called `{asked}` for kernels `{what}`; available: {known}")]
    UnknownTile {
        /// Requested tile.
        asked: String,
        /// Name of the kernels.
        what: String,
        /// Available names.
        known: String,
    },

    /// Ranks of a map on several devices could not exchange elements: see
    /// [`PeerLost`](exchange::Error::PeerLost) for the loss of a rank.
    #[cfg(feature = "sharded-map")]
    #[error(transparent)]
    Exchange(Box<exchange::Error>),

    /// This rank cannot read the tables of the other ranks.
    #[cfg(feature = "sharded-map")]
    #[error(
        "the tables of other ranks cannot be read from here: that needs ranks in one process, peer access \
         between their devices, and hash maps as shards; use `get`"
    )]
    NotReadable,

    /// Reading or writing a saved structure failed.
    #[error("{doing} a saved structure failed: {source}")]
    Io {
        /// The failed action: reading or writing.
        doing: &'static str,
        /// Error of the reader or writer.
        source: std::io::Error,
    },

    /// The data is not a saved structure, it is damaged, or a stored word is no key or value of the type.
    #[error("stored data cannot be read: {0}")]
    Format(String),
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the beginning of a message about a number of bytes of something, or nothing for 0.
fn bytes_of(bytes: u64) -> String {
    if bytes == 0 { String::new() } else { format!("{bytes} bytes of ") }
}

impl Error {
    /// Returns the outcomes of the elements if this is [`Error::NoRoom`].
    pub fn outcomes(&self) -> Option<&Outcomes> {
        match self {
            Self::NoRoom { outcomes, .. } => Some(outcomes),
            _ => None,
        }
    }

    /// Returns whether a rank of a map on several devices is lost, after which only the own shard can be
    /// used. O(1).
    ///
    /// ```
    /// assert!(!phalanx::Error::ZeroCapacity.is_peer_lost());
    /// ```
    #[cfg(feature = "sharded-map")]
    pub fn is_peer_lost(&self) -> bool {
        matches!(self, Self::Exchange(error) if matches!(**error, exchange::Error::PeerLost(_)))
    }

    /// Returns whether the cause is a lack of memory or capacity: a smaller request could succeed.
    pub(crate) fn is_lack_of_room(&self) -> bool {
        use gpu::Error::{OutOfMemory, TooLarge};
        use std::io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
        if let Self::ShardFile { source, .. } = self {
            return matches!(source.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        }
        #[cfg(feature = "persistent-map")]
        if let Self::PersistentFile { fault, .. } = self {
            use crate::persistent_map::FileFault::{Bounds, Full};
            return matches!(fault, Full { .. } | Bounds { .. });
        }
        matches!(
            self,
            Self::TooLarge { .. }
                | Self::Budget { .. }
                | Self::DeviceBudget { .. }
                | Self::NoRoom { .. }
                | Self::DoesNotFit { .. }
                | Self::TooManySlabs { .. }
                | Self::Device(OutOfMemory { .. } | TooLarge { .. })
        )
    }
}

#[cfg(feature = "sharded-map")]
impl From<exchange::Error> for Error {
    fn from(error: exchange::Error) -> Self {
        Self::Exchange(Box::new(error))
    }
}

/// Converts an error for lack of memory into the default value.
pub(crate) fn made_room<T: Default>(tried: Result<T>) -> Result<T> {
    match tried {
        Err(error) if error.is_lack_of_room() => Ok(T::default()),
        tried => tried,
    }
}

/// Treats lack of memory as success, for maintenance that a later call can repeat.
pub(crate) fn or_later<T: Default>(tried: Result<T>) -> Result<()> {
    made_room(tried).map(drop)
}
