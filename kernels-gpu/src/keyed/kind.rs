//! The interface between kinds of structure on one side and entry points, sessions and hosts on the other.
use super::counters::Counters;
use super::operation::{Combination, Operation, Outcome};
use super::slot::{Scalar, Slot};
use simt::{Convergence, Global, Name, Order, Scope, Tile, device};

/// A kind of structure: the types it stores, its view, and its operations.
///
/// Kinds have a name, too: [`simt::Instance`].
///
/// # Safety
/// - All functions access only the memory from which the view was made.
#[device(caller)]
pub unsafe trait Kind: Copy + Send + Sync + 'static {
    /// Key type.
    type Key: Scalar;
    /// Value type. Structures of keys alone have one and ignore it.
    type Value: Scalar;
    /// Slot format.
    type Slot: Slot<Key = Self::Key, Value = Self::Value>;
    /// View of the structure in a kernel.
    type View: View<Kind = Self>;

    /// Whether the structure needs a 16-byte compare-and-swap, hence sm_90.
    const NEEDS_WIDE_SWAP: bool = size_of::<<Self::Slot as Slot>::Word>() == 16 && !Self::Slot::PUBLISHES;
    /// Number of lanes in the tile that executes an operation.
    const TILE: u32;
    /// Maximum number of registers per thread of a writing kernel.
    const REGISTERS: u32;
    /// Maximum number of registers per thread of a kernel that writes and returns no values.
    const UPDATES_IN: u32 = Self::REGISTERS;
    /// Maximum number of registers per thread of a kernel that only looks keys up.
    const READS_IN: u32 = Self::REGISTERS;

    /// Where one lane executes equal operations on a key for all lanes that ask for them
    /// ([`Operation::COMBINES`]).
    const COMBINES: Combination = Combination::Never;
    /// Whether a key has at most one pair. If not, equal removals are not combined.
    const UNIQUE: bool = true;

    /// Executes the operation of every lane of the warp that passes `pending`. All lanes call it together.
    fn execute<O: Operation>(
        view: Self::View,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value);

    /// Prepares the calling block to use the structure. All threads of a block call it before their first use
    /// of the structure in a kernel. A structure that frees memory while others may read it enters an epoch
    /// here ([`crate::reclaim`]); most structures do nothing. A block may enter any number of structures and
    /// leave them in any order.
    fn enter(_view: Self::View) {}

    /// Ends the use that [`Self::enter`] began. All threads of the block call it after their last use. A
    /// kernel that has entered must leave before it ends; otherwise the structure's memory is no longer freed
    /// while kernels run.
    fn leave(_view: Self::View) {}

    /// Returns the structure's counters.
    fn counters(view: Self::View) -> Counters;

    /// Returns the number of threads that a scan of the whole structure takes.
    fn scan_threads(view: Self::View) -> usize;

    /// Calls `see` for the entries that belong to thread `thread` of a scan. Requires exclusive access to the
    /// structure. The lanes of a warp call it together, for consecutive thread numbers of which the first is
    /// a multiple of 32. They also call `see` together, with `None` where a lane has no entry.
    fn scan(view: Self::View, thread: usize, see: impl FnMut(Option<EntryRef<Self>>));

    /// Removes the pair in a slot that a scan has shown. Must not run concurrently with any other operation.
    /// Returns whether the pair was still present.
    fn erase(slot: Global<<Self::Slot as Slot>::Word>) -> bool {
        Self::Slot::erase(slot, Self::Slot::key(slot.load(Order::Relaxed, Scope::Device)))
    }
}

/// A [`Kind`] whose operations are executed by tiles of `W` lanes.
pub trait TileKind<const W: u32>: Kind {
    /// Executes the operations of all lanes that pass `pending`, each by the lane's tile, and returns to each
    /// lane its own result.
    fn share<O: Operation>(
        view: Self::View,
        tile: Tile<W, impl Convergence>,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value);
}

/// The view of a structure, which kernels take by value.
pub trait View: Copy + core::fmt::Debug + Send + Sync {
    /// Kind of the structure.
    type Kind: Kind<View = Self>;
}

/// A pair and its slot, as a scan shows it.
#[derive(Clone, Copy, Debug)]
pub struct EntryRef<M: Kind> {
    /// The key.
    pub key: M::Key,
    /// The value.
    pub value: M::Value,
    slot: Global<<M::Slot as Slot>::Word>,
}

#[device]
impl<M: Kind> EntryRef<M> {
    /// Returns an entry for the pair in `slot`.
    pub fn new(slot: Global<<M::Slot as Slot>::Word>, key: M::Key, value: M::Value) -> Self {
        Self { key, value, slot }
    }

    /// Reads the pair in `slot`, if there is one. `aliased` is whether keys are stored under an alias there
    /// (see [`Slot::RESERVED`]).
    #[device(caller)]
    pub fn read(slot: Global<<M::Slot as Slot>::Word>, aliased: bool) -> Option<Self> {
        let word = slot.load(Order::Relaxed, Scope::Device);
        if !M::Slot::is_live(word) {
            return None;
        }
        let key = M::Slot::unalias(M::Slot::key(word), aliased);
        Some(Self::new(slot, key, M::Slot::value(word)))
    }

    /// Removes the pair. Must not run concurrently with any other operation. Returns whether the pair was
    /// still present.
    #[device(caller)]
    pub fn erase(self) -> bool {
        M::erase(self.slot)
    }
}

/// Completes the name of a kind: lanes per tile x slots or words per lane, and the types of key and value.
pub(crate) const fn kind_name<S: Slot>(name: Name, lanes: u32, each: usize) -> Name {
    let name = name.tile(lanes, each).unsigned::<S::Key>();
    if S::HAS_VALUE { name.unsigned::<S::Value>() } else { name }
}
