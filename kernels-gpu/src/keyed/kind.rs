//! What entry points, sessions and hosts know of a kind of structure.
use super::operation::{Operation, Outcome};
use super::slot::{Scalar, Slot};
use super::tallies::Tallies;
use simt::{Convergence, Global, Order, Scope, Tile};

/// A kind of structure: the types it stores, its view, and its operations.
///
/// The kinds that the kernels of this package are compiled for have a name besides ([`simt::Instance`]).
///
/// # Safety
/// - What the functions access lies in the memory that the view was made of.
pub unsafe trait Kind: Copy + Send + Sync + 'static {
    /// Keys.
    type Key: Scalar;
    /// Values. Structures of keys alone have some and ignore them.
    type Value: Scalar;
    /// Slots.
    type Slot: Slot<Key = Self::Key, Value = Self::Value>;
    /// The structure as a kernel sees it.
    type View: View<Kind = Self>;

    /// Whether it needs a compare-and-swap of 16 bytes: sm_90.
    const NEEDS_WIDE_SWAP: bool = size_of::<<Self::Slot as Slot>::Word>() == 16 && !Self::Slot::PUBLISHES;
    /// Lanes in the tile that executes an operation.
    const TILE: u32;
    /// Registers a thread of a writing kernel may have.
    const REGISTERS: u32;
    /// Registers a thread of a kernel that only looks keys up may have.
    const READS_IN: u32 = Self::REGISTERS;

    /// Executes the operation of every lane of the warp that says `pending`. All lanes call it together.
    fn execute<O: Operation>(
        view: Self::View,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value);

    /// What all threads of a block do before they first use the structure in a kernel: where it frees memory
    /// that others may read, it enters an epoch ([`crate::reclaim`]). Most need nothing. A block may enter
    /// any number of structures, and leave them in any order.
    #[inline(always)]
    #[track_caller]
    fn enter(_view: Self::View) {}

    /// What they do after they last use it. A kernel that has entered leaves before it ends: else the
    /// structure's memory is not freed any more while kernels run.
    #[inline(always)]
    #[track_caller]
    fn leave(_view: Self::View) {}

    /// The structure's counters.
    fn tallies(view: Self::View) -> Tallies;

    /// Threads that a scan of the whole structure takes.
    fn scan_threads(view: Self::View) -> usize;

    /// Shows the scan's thread `thread` its share of all places. Runs alone. The lanes of a warp call it
    /// together, for neighbouring threads the first of which is a multiple of 32, and `see` is called by them
    /// together, with nothing where a lane has no place to see.
    fn scan(view: Self::View, thread: usize, see: impl FnMut(Option<Place<Self>>));

    /// Removes the pair in a slot that a scan has shown. Only where no other operation runs. Returns whether
    /// it was still there.
    #[inline(always)]
    #[track_caller]
    fn erase(slot: Global<<Self::Slot as Slot>::Word>) -> bool {
        Self::Slot::erase(slot, Self::Slot::key(slot.load(Order::Relaxed, Scope::Device)))
    }
}

/// A [`Kind`] whose operations are executed by tiles of `W` lanes.
pub trait TileKind<const W: u32>: Kind {
    /// Executes the operations of all lanes that say `pending`, each by its tile, and gives each lane its own
    /// result.
    fn share<O: Operation, C: Convergence>(
        view: Self::View,
        tile: Tile<W, C>,
        pending: bool,
        operation: O,
        key: Self::Key,
        argument: Self::Value,
    ) -> (Outcome, Self::Value);
}

/// The view of a structure: what kernels take by value.
pub trait View: Copy + core::fmt::Debug + Send + Sync {
    /// The structure's kind.
    type Kind: Kind<View = Self>;
}

/// A pair and where it lies, as a scan shows it.
#[derive(Clone, Copy, Debug)]
pub struct Place<M: Kind> {
    /// The key.
    pub key: M::Key,
    /// The value.
    pub value: M::Value,
    slot: Global<<M::Slot as Slot>::Word>,
}

impl<M: Kind> Place<M> {
    /// A pair and its slot.
    #[inline(always)]
    pub fn new(slot: Global<<M::Slot as Slot>::Word>, key: M::Key, value: M::Value) -> Self {
        Self { key, value, slot }
    }

    /// A place that a scan of another kind, of the same slots, has shown.
    #[inline(always)]
    pub(crate) fn of<N: Kind<Key = M::Key, Value = M::Value, Slot = M::Slot>>(place: Place<N>) -> Self {
        Self { key: place.key, value: place.value, slot: place.slot }
    }

    /// The pair in `slot`, if there is one. Where keys are stored `aliased`, see [`Slot::RESERVED`].
    #[inline(always)]
    #[track_caller]
    pub fn read(slot: Global<<M::Slot as Slot>::Word>, aliased: bool) -> Option<Self> {
        let word = slot.load(Order::Relaxed, Scope::Device);
        if !M::Slot::is_live(word) {
            return None;
        }
        let key = M::Slot::unalias(M::Slot::key(word), aliased);
        Some(Self::new(slot, key, M::Slot::value(word)))
    }

    /// Removes the pair. Only where no other operation runs. Returns whether it was still there.
    #[inline(always)]
    #[track_caller]
    pub fn erase(self) -> bool {
        M::erase(self.slot)
    }
}
