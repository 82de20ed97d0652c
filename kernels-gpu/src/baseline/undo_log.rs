//! Lists of slabs with an undo log: the baseline of the persistent map. It is the slab hash of the GPHash
//! paper's comparison (SlabHash-GPM), for keys and values of 8 bytes.
//!
//! ```text
//! slab  | key: 7 x 8 | next: 8 | value: 7 x 8 | unused: 8 |      128 bytes; all ones: empty
//! entry | slot + 1: 8 | old key: 8 | old value: 8 | link + 1: 8 | of the log
//! ```
//!
//! A tile of 16 lanes executes the operations of its lanes one after the other. It reads a slab of the key's
//! list by one access, a word per lane. The first free slot of a list follows all keys, so a free slot ends a
//! search. Slots of removed keys are not used again, and slabs are not freed.
//!
//! # Log
//! Before an operation changes a slot or a link, it writes the old contents to an entry of the log and
//! fences. After the change it fences again, and marks the entry as complete. Recovery would undo the changes
//! of entries that are not complete. Entries are taken in turn by the threads of a launch.
//!
//! # Orders
//! A key is claimed by a compare-and-swap, then its value is stored. A reader that sees the key without a
//! value reads the slab again. Loads are relaxed, as in [`chains`](super::chains): key and value are words of
//! one access.
//!
//! # Cost
//!
//! [`logged_execute`] reads one line per slab of the list up to the key. A change writes an entry of the log,
//! twice, and executes two fences besides the change itself.
use crate::keyed::{OpCode, Outcome};
use simt::hash::{mix64, reduce};
use simt::{Convergence, CurrentOp, Global, GlobalSlice, Lockstep, Order, Scope, Thread, Tile};
use simt::{device, fence, kernel, share_work};

/// Words of a slab, and lanes of a tile.
pub const SLAB: usize = 16;
/// Pairs of a slab.
pub const PAIRS: usize = 7;
/// Words of an entry of the log.
pub const ENTRY: usize = 4;
/// Word of an empty slot, of a link to nothing, and of a value that is not written yet.
pub const EMPTY: u64 = u64::MAX;
/// Key of a slot whose key was removed.
pub const REMOVED: u64 = u64::MAX - 1;

const LANES: u32 = SLAB as u32;
const NEXT: u32 = PAIRS as u32;
const VALUES: u32 = 8;
const NOWHERE: u32 = u32::MAX;
/// Outcome of an operation that has not ended.
const PENDING: u32 = u32::MAX;

/// The lists as kernels see them.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoggedLists {
    /// Slabs: first one for each list, then those that lists add. All ones: empty lists.
    pub slabs: GlobalSlice<u64>,
    /// Log, in the same memory as the slabs.
    pub log: GlobalSlice<u64>,
    /// Number of slabs that lists have added.
    pub added: GlobalSlice<u32>,
}

/// Elements of a batch. The slices that its operation does not use are empty.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct LoggedBatch {
    /// Keys, other than [`EMPTY`] and [`REMOVED`].
    pub keys: GlobalSlice<u64>,
    /// Values to write, other than [`EMPTY`].
    pub values: GlobalSlice<u64>,
    /// Output: values found.
    pub results: GlobalSlice<u64>,
    /// Output: outcomes.
    pub outcomes: GlobalSlice<u8>,
}

/// Result of reading a slab for an operation.
#[derive(Clone, Copy, Debug)]
struct Seen {
    slab: u32,
    /// Slot of the key.
    found: Option<u32>,
    /// First free slot.
    free: Option<u32>,
    old: u64,
    next: u32,
}

/// Next step of an operation: its outcome, or the slab to read.
#[derive(Clone, Copy, Debug)]
struct Step {
    outcome: u32,
    at: u32,
}

#[device]
impl Step {
    fn ends(outcome: Outcome) -> Self {
        Self { outcome: outcome as u32, at: NOWHERE }
    }

    fn goes_to(at: u32) -> Self {
        Self { outcome: PENDING, at }
    }
}

/// Operation of a lane.
#[derive(Clone, Copy, Debug)]
struct Operation {
    code: OpCode,
    key: u64,
    value: u64,
    /// First word of the thread's entry of the log.
    entry: u32,
}

#[device(caller)]
impl LoggedLists {
    fn word(self, slab: u32, word: u32) -> Global<u64> {
        self.slabs.at(slab as usize * SLAB + word as usize)
    }

    /// Writes the old contents of a slot, or of a link, to the log.
    fn log(self, entry: u32, (slot, key, value, link): (u64, u64, u64, u64)) {
        let entry = entry as usize;
        self.log.write(entry + 1, key);
        self.log.write(entry + 2, value);
        self.log.write(entry + 3, link);
        self.log.write(entry, slot);
        fence(Scope::System);
    }

    /// Marks the entry as complete, after the change.
    fn complete(self, entry: u32) {
        fence(Scope::System);
        self.log.write(entry as usize, 0);
        self.log.write(entry as usize + 3, 0);
    }

    /// Executes the operation on a slab, by one lane.
    fn act(self, operation: Operation, seen: Seen) -> Step {
        match (operation.code, seen.found, seen.free) {
            // The value is about to be written.
            (OpCode::GET, Some(_), _) if seen.old == EMPTY => Step::goes_to(seen.slab),
            (OpCode::GET, Some(_), _) => Step::ends(Outcome::Found),
            (OpCode::REMOVE, Some(slot), _) => self.remove(operation, seen, slot),
            (_, Some(slot), _) => self.replace(operation, seen, slot),
            (OpCode::INSERT, None, Some(slot)) => self.insert(operation, seen, slot),
            (OpCode::INSERT, None, None) if seen.next == NOWHERE => self.extend(operation, seen),
            (_, None, None) if seen.next != NOWHERE => Step::goes_to(seen.next),
            _ => Step::ends(Outcome::Absent),
        }
    }

    fn log_slot(self, operation: Operation, seen: Seen, slot: u32, key: u64) {
        let place = seen.slab as u64 * SLAB as u64 + slot as u64 + 1;
        self.log(operation.entry, (place, key, seen.old, 0));
    }

    fn replace(self, operation: Operation, seen: Seen, slot: u32) -> Step {
        self.log_slot(operation, seen, slot, operation.key);
        self.word(seen.slab, VALUES + slot).store(operation.value, Order::Relaxed, Scope::Device);
        self.complete(operation.entry);
        Step::ends(Outcome::Replaced)
    }

    fn insert(self, operation: Operation, seen: Seen, slot: u32) -> Step {
        self.log_slot(operation, seen, slot, EMPTY);
        let key = self.word(seen.slab, slot);
        let is_ours = key.compare_exchange(EMPTY, operation.key, Order::Relaxed, Scope::Device).is_ok();
        if is_ours {
            self.word(seen.slab, VALUES + slot).store(operation.value, Order::Relaxed, Scope::Device);
        }
        self.complete(operation.entry);
        if is_ours { Step::ends(Outcome::Inserted) } else { Step::goes_to(seen.slab) }
    }

    fn remove(self, operation: Operation, seen: Seen, slot: u32) -> Step {
        self.log_slot(operation, seen, slot, operation.key);
        let key = self.word(seen.slab, slot);
        let is_ours = key.compare_exchange(operation.key, REMOVED, Order::Relaxed, Scope::Device).is_ok();
        self.complete(operation.entry);
        Step::ends(if is_ours { Outcome::Removed } else { Outcome::Absent })
    }

    /// Links a new slab behind the last one. If another operation does so first, the new slab is lost.
    fn extend(self, operation: Operation, seen: Seen) -> Step {
        let slabs = (self.slabs.len() / SLAB) as u32;
        let added = self.added.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
        let lists = slabs / 2;
        if added >= slabs - lists {
            return Step::ends(Outcome::Refused);
        }
        self.log(operation.entry, (0, 0, 0, seen.slab as u64 + 1));
        let (link, new) = (self.word(seen.slab, NEXT), lists + added);
        let linked = match link.compare_exchange(EMPTY, new as u64, Order::Relaxed, Scope::Device) {
            Ok(_) => new,
            Err(other) => other as u32,
        };
        self.complete(operation.entry);
        Step::goes_to(linked)
    }
}

/// The operations of a lane and of the tile's current owner.
struct Pass {
    lists: LoggedLists,
    own: Operation,
    /// Slab that the current operation reads next.
    at: u32,
    outcome: u32,
    result: u64,
}

#[device(caller)]
impl Pass {
    /// Reads a slab for the current operation. Returns whether the operation has ended.
    fn round(&mut self, turn: CurrentOp<LANES, impl Convergence>) -> bool {
        let (tile, lists, own) = (turn.tile(), self.lists, self.own);
        let key = turn.from_owner(own.key);
        let operation =
            Operation { key, value: turn.from_owner(own.value), entry: turn.from_owner(own.entry), ..own };
        // Half of the slabs are the first ones of lists.
        let lists_len = (lists.slabs.len() / SLAB) as u32 / 2;
        let slab = if self.at == NOWHERE { reduce(mix64(key) as u32, lists_len) } else { self.at };
        let word = if turn.is_active() {
            lists.word(slab, tile.rank()).load(Order::Relaxed, Scope::Device)
        } else {
            EMPTY
        };
        let has_key = turn.is_active() && tile.rank() < NEXT;
        let found = tile.elect(has_key && word == key);
        let free = tile.elect(has_key && word == EMPTY);
        let old = tile.shuffle(word, VALUES + found.unwrap_or(0));
        let next = tile.shuffle(word, NEXT) as u32;
        let mut step = Step::goes_to(slab);
        if turn.is_active() && tile.rank() == 0 {
            step = lists.act(operation, Seen { slab, found, free, old, next });
        }
        let (outcome, at) = (tile.shuffle(step.outcome, 0), tile.shuffle(step.at, 0));
        if turn.is_mine() {
            (self.outcome, self.result) = (outcome, old);
        }
        self.at = if outcome == PENDING { at } else { NOWHERE };
        outcome != PENDING
    }
}

/// Executes one operation for each key: [`OpCode::GET`], [`OpCode::INSERT`], [`OpCode::REMOVE`], or with any
/// other code an update of keys that are present.
#[kernel]
pub fn logged_execute(lists: LoggedLists, code: u32, batch: LoggedBatch) {
    let index = Thread::index();
    let exists = index < batch.keys.len();
    let entries = (lists.log.len() / ENTRY) as u32;
    let own = Operation {
        code: OpCode::from_code(code),
        key: if exists { batch.keys.read(index) } else { EMPTY },
        value: if exists && !batch.values.is_empty() { batch.values.read(index) } else { 0 },
        entry: index as u32 % entries * ENTRY as u32,
    };
    let tile: Tile<LANES, Lockstep> = Tile::lockstep();
    let mut pass = Pass { lists, own, at: NOWHERE, outcome: PENDING, result: 0 };
    share_work(tile, exists, |turn| pass.round(turn));
    if exists {
        if !batch.results.is_empty() {
            batch.results.write(index, pass.result);
        }
        batch.outcomes.write(index, pass.outcome as u8);
    }
}
