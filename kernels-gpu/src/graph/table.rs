//! Sizes of tables, and the arena that they come from.
//!
//! ```text
//! arena    | slab 0 | slab 1 | ...            | ... slab `len` - 1 |      taken from the front
//! state    | used, 8 bytes | 52 numbers of free tables | 52 first places | places, with the free tables |
//! ```
//!
//! The free tables of a class are a stack: places with the indices of their first slabs. All bytes of a free
//! table are ones. Launches that take tables add none to a stack, and those that add take none: so the
//! number of free tables is the only word that threads contend for, and no thread waits for another.
use super::record::RECORD_SLOTS;
use simt::{Global, Order, Scope, device, recheck};

/// Bytes of a slab.
pub const SLAB_BYTES: usize = 128;
/// Number of sizes of tables.
pub const CLASSES: u32 = 52;
/// Index of the word of the arena's state with the number of free tables of the first class; the others
/// follow.
pub const ARENA_COUNTS: usize = 2;
/// Index of the word of the arena's state with the first place of the first class; the others follow.
pub const ARENA_FIRSTS: usize = ARENA_COUNTS + CLASSES as usize;
/// Number of words of the arena's state before the places.
pub const ARENA_HEAD: usize = ARENA_FIRSTS + CLASSES as usize;
/// Maximum number of slabs of an arena.
pub const MOST_ARENA: u32 = 1 << 27;

/// Returns the number of buckets of a table of class `class`: 2, 3, 4, 6, 8, 12, ...
///
/// ```
/// use phalanx_kernels::graph::{buckets_of, class_for};
///
/// assert_eq!([0, 1, 2, 3, 4].map(buckets_of), [2, 3, 4, 6, 8]);
/// assert_eq!([1, 2, 3, 5, 7].map(class_for), [0, 0, 1, 3, 4]);
/// ```
#[device]
pub const fn buckets_of(class: u32) -> u32 {
    (2 + class % 2) << (class / 2)
}

/// Returns the smallest class whose tables have at least `buckets` buckets, which is at most 2^26.
#[device]
pub const fn class_for(buckets: u32) -> u32 {
    if buckets <= 2 {
        return 0;
    }
    // The classes of 2^k and 3 x 2^(k - 1) buckets are 2 k - 2 and 2 k - 1.
    let log = 31 - (buckets - 1).leading_zeros();
    let class = 2 * log - 1;
    if buckets <= buckets_of(class) { class } else { class + 1 }
}

/// Returns the class of a table for `edges` edges with `slots` slots per bucket, at a load of at most
/// `tenths` tenths, or `None` if no class has as many buckets. `tenths` is 1 to 10.
///
/// ```
/// use phalanx_kernels::graph::{buckets_of, growth_class};
///
/// assert_eq!(growth_class(38, 30, 6).map(buckets_of), Some(3));
/// assert_eq!(growth_class(1 << 20, 30, 6).map(buckets_of), Some(65_536));
/// assert_eq!(growth_class(126, 30, 7).map(buckets_of), Some(6));
/// assert_eq!(growth_class(u64::MAX, 30, 6), None);
/// ```
#[device]
pub const fn growth_class(edges: u64, slots: u32, tenths: u32) -> Option<u32> {
    if edges > (slots as u64) << 40 {
        return None;
    }
    let buckets = (edges * 10).div_ceil(slots as u64 * tenths as u64);
    if buckets <= MOST_ARENA as u64 / 2 { Some(class_for(buckets as u32)) } else { None }
}

/// Returns the number of slabs of the pool and of the arena for a vertex with `edges` edges, with `slots`
/// slots per slab and a load of tables of `tenths` tenths. Before a vertex gets a table, it has a slab.
///
/// ```
/// use phalanx_kernels::graph::slabs_for;
///
/// assert_eq!([7, 8, 37, 38].map(|edges| slabs_for(edges, 30, 6)), [(0, 0), (1, 0), (1, 0), (1, 3)]);
/// ```
#[device]
pub const fn slabs_for(edges: u64, slots: u32, tenths: u32) -> (u32, u32) {
    let record = RECORD_SLOTS as u64;
    if edges <= record + slots as u64 {
        return ((edges > record) as u32, 0);
    }
    match growth_class(edges, slots, tenths) {
        Some(class) => (1, buckets_of(class)),
        None => (1, 0),
    }
}

/// Returns the first place of each class in an arena of `slabs` slabs, and the number of all places: a class
/// has one for each table of its size that the arena has room for.
///
/// ```
/// use phalanx_kernels::graph::places_of;
///
/// let (firsts, all) = places_of(12);
/// assert_eq!((firsts[..6].to_vec(), firsts[51], all), (vec![0, 6, 10, 13, 15, 16], 17, 17));
/// ```
pub fn places_of(slabs: u32) -> ([u32; CLASSES as usize], u32) {
    let (mut firsts, mut all) = ([0; CLASSES as usize], 0);
    for (class, first) in firsts.iter_mut().enumerate() {
        *first = all;
        all += slabs / buckets_of(class as u32);
    }
    (firsts, all)
}

/// The arena as a kernel sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Arena {
    slabs: Global<u64>,
    state: Global<u32>,
    len: u32,
}

impl Arena {
    /// Returns the arena of `len` slabs.
    ///
    /// # Safety
    /// - `slabs` points to `len` slabs and `state` to [`ARENA_HEAD`] words and the [`places_of`] as many
    ///   slabs, in device memory, aligned to [`SLAB_BYTES`], that outlive all uses of the arena. `len` is at
    ///   most [`MOST_ARENA`].
    /// - At first all bytes of the slabs are ones, the words before [`ARENA_FIRSTS`] are 0, and those from
    ///   there on are the first places. Only kernels of a graph have written to them.
    pub unsafe fn new(slabs: *mut u64, state: *mut u32, len: u32) -> Self {
        // SAFETY: the caller's obligation.
        unsafe { Self { slabs: Global::new(slabs), state: Global::new(state), len } }
    }
}

#[device]
impl Arena {
    /// Returns the address of a slab.
    ///
    /// # Safety
    /// - Nothing is accessed through the pointer unless `index` is below the number of slabs.
    pub(super) unsafe fn slab(self, index: u32) -> Global<u64> {
        // SAFETY: the caller's obligation.
        unsafe { self.slabs.offset(index as usize * (SLAB_BYTES / 8)) }
    }

    /// Returns the location of the number of free tables of a class. It is negative while threads that have
    /// found none are giving back what they took.
    fn count(self, class: u32) -> Global<u32> {
        // SAFETY: a word of the state.
        unsafe { self.state.offset(ARENA_COUNTS + (class % CLASSES) as usize) }
    }

    /// Returns the place of the free table with this number.
    ///
    /// # Safety
    /// - The arena has room for more than `number` tables of the class.
    unsafe fn place(self, class: u32, number: u32) -> Global<u32> {
        // SAFETY: a word of the state.
        let first = unsafe { self.state.offset(ARENA_FIRSTS + (class % CLASSES) as usize) };
        let place = first.load(Order::Weak, Scope::Device) + number;
        // SAFETY: the caller's obligation.
        unsafe { self.state.offset(ARENA_HEAD + place as usize) }
    }

    /// Takes a table, whose bytes are all ones, and returns the index of its first slab. Returns `None` if
    /// the arena has no room. No table is freed in the same launch.
    pub(super) fn allocate(self, class: u32) -> Option<u32> {
        let count = self.count(class);
        // mutation: block unreached, because no two blocks of the explorers take free tables of a size.
        if count.load(Order::Relaxed, Scope::Device).cast_signed() > 0 {
            // mutation: block unreached, because no two blocks of the explorers take free tables of a size.
            let free = count.fetch_add(u32::MAX, Order::Relaxed, Scope::Device).cast_signed();
            if recheck(free > 0) {
                // SAFETY: as many tables of the class exist.
                let place = unsafe { self.place(class, free.cast_unsigned() - 1) };
                // mutation: block weak equivalent, because places are written in earlier launches.
                return Some(place.load(Order::Relaxed, Scope::Device));
            }
            // mutation: block unreached, because no two blocks of the explorers give back what they took.
            count.fetch_add(1, Order::Relaxed, Scope::Device);
        }
        self.extend(buckets_of(class))
    }

    /// Takes slabs that were in no table before. A table that is too large for the rest is taken and given
    /// back: meanwhile others may find too little room, too. A loop of compare-and-swaps would take a time
    /// that is quadratic in the number of lanes.
    fn extend(self, slabs: u32) -> Option<u32> {
        // SAFETY: the first two words of the state, which is aligned to 128 bytes. 64 bits do not overflow.
        let used = unsafe { self.state.cast::<u64>() };
        let (slabs, len) = (slabs as u64, self.len as u64);
        // mutation: early equivalent, because a relaxed load may return an older word, too: the addition
        // shows whether there is room.
        if slabs > len.saturating_sub(used.load(Order::Relaxed, Scope::Device)) {
            return None;
        }
        let first = used.fetch_add(slabs, Order::Relaxed, Scope::Device);
        if !recheck(first + slabs <= len) {
            // mutation: block unreached, because no two blocks of the explorers give back what they took.
            // mutation: tear unreached, because no explored schedule lets a thread take slabs between both
            // accesses, or needs those that a lost addition leaves unused.
            used.fetch_add(slabs.wrapping_neg(), Order::Relaxed, Scope::Device);
            return None;
        }
        Some(first as u32)
    }

    /// Adds a table, whose bytes are all ones, to the free ones of its class. No table is taken in the same
    /// launch, and nothing uses this one any more.
    ///
    /// # Safety
    /// - `base` is the first slab of a table of this class.
    pub(super) unsafe fn free(self, class: u32, base: u32) {
        let free = self.count(class).fetch_add(1, Order::Relaxed, Scope::Device);
        // SAFETY: as many tables of the class exist.
        // mutation: block weak late equivalent, because only later launches read the place.
        unsafe { self.place(class, free) }.store(base, Order::Relaxed, Scope::Device);
    }
}
