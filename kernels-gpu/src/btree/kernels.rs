//! Entry points of batches that are sorted by key before they are submitted.
//!
//! # Cost
//!
//! Each kernel reads a key and its place in the batch per element; otherwise as those of
//! [`crate::keyed::kernels`], except that neighbouring lanes descend to the same nodes. [`sorted_threads`] is
//! arithmetic on the host.
use crate::keyed::kernels::{Element, batch, read_if};
use crate::keyed::{Insert, OpCode, Operation, Remove};
use crate::ordered::view::{Config, TreeView};
use simt::{GlobalSlice, Instance, Thread, device, kernel};

/// Returns the index of the calling thread's element in a batch whose keys were sorted, and whether it has
/// one. The lanes of a tile take neighbouring keys. Tiles that run at the same time take theirs from `apart`
/// distant parts of the batch, because tiles with neighbouring keys would compete for the same leaves.
#[device]
fn spaced(width: u32, len: usize, apart: u32) -> (usize, bool) {
    let (tile, rank) = (Thread::index() / width as usize, Thread::index() % width as usize);
    let (groups, places) = (len.div_ceil(width as usize), apart.max(1) as usize);
    let each = groups.div_ceil(places);
    let index = (tile % places * each + tile / places) * width as usize + rank;
    (index, tile / places < each && index < len)
}

/// Returns the number of threads of a launch for `len` sorted keys, of which tiles of `width` lanes take
/// theirs from `apart` parts of the batch: see [`insert_sorted`].
///
/// ```
/// use phalanx_kernels::btree::kernels::sorted_threads;
///
/// assert_eq!(sorted_threads(4, 100, 8), 128); // 25 tiles, rounded up to 8 parts of 4
/// ```
pub fn sorted_threads(width: u32, len: usize, apart: u32) -> usize {
    len.div_ceil(width as usize).next_multiple_of(apart.max(1) as usize) * width as usize
}

/// Executes the calling thread's element of a batch whose `keys` were sorted: key `i` belongs to element
/// `order[i]` of the other slices.
#[device]
fn sorted<M: Config + Instance, O: Operation>(
    tree: TreeView<M>,
    operation: impl Fn(usize, bool) -> O,
    (keys, order, apart): (GlobalSlice<M::Key>, GlobalSlice<u32>, u32),
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let (index, exists) = spaced(M::TILE, keys.len(), apart);
    let (key, place) = (read_if(keys, index, exists), read_if(order, index, exists) as usize);
    let request = |place, exists| {
        let argument = read_if(arguments, place, exists && place < arguments.len());
        (operation(place, exists), key, argument)
    };
    batch::<M, _>(tree, Element::at((place, exists)), request, results, outcomes);
}

macro_rules! sorted {
    ($($(#[$doc:meta])* $name:ident: $operation:expr;)*) => {$(
        $(#[$doc])*
        #[kernel(registers = M::REGISTERS)]
        pub fn $name<M: Config + Instance>(
            tree: TreeView<M>,
            keys: GlobalSlice<M::Key>,
            order: GlobalSlice<u32>,
            apart: u32,
            arguments: GlobalSlice<M::Value>,
            outcomes: GlobalSlice<u8>,
        ) {
            // These operations return no value.
            let results = arguments.part(arguments.len(), 0);
            sorted::<M, _>(tree, |_, _| $operation, (keys, order, apart), arguments, results, outcomes);
        }
    )*};
}

sorted! {
    /// Inserts pairs whose keys were sorted: see [`coded_sorted`].
    insert_sorted: Insert;
    /// Removes keys that were sorted.
    remove_sorted: Remove;
}

/// Executes operations whose keys were sorted: each element's own if there are `codes`, else `code`. Key `i`
/// belongs to element `order[i]` of the other slices; tiles take theirs from `apart` parts of the batch. The
/// grid has [`sorted_threads`] threads.
#[allow(clippy::too_many_arguments)] // a kernel's arguments are named where it is launched
#[kernel(registers = M::REGISTERS)]
pub fn coded_sorted<M: Config + Instance>(
    tree: TreeView<M>,
    code: u32,
    codes: GlobalSlice<u8>,
    keys: GlobalSlice<M::Key>,
    order: GlobalSlice<u32>,
    apart: u32,
    arguments: GlobalSlice<M::Value>,
    results: GlobalSlice<M::Value>,
    outcomes: GlobalSlice<u8>,
) {
    let operation = |place, exists: bool| {
        let own = read_if(codes, place, exists && !codes.is_empty()) as u32;
        OpCode::from_code(if codes.is_empty() { code } else { own })
    };
    sorted::<M, _>(tree, operation, (keys, order, apart), arguments, results, outcomes);
}
