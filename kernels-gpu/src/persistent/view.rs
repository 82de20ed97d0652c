//! The table as kernels see it: places of slots and items, and the changes of their states.
use super::fingerprint::Fingerprint;
use super::hashed::Hashed;
use super::kind::Config;
use super::layout::{Geometry, Place};
use super::lines::CacheView;
use core::marker::PhantomData;
use simt::{Global, GlobalSlice, Order, Scope, device, fence};

/// Maximum number of levels of a table.
pub const MOST_LEVELS: usize = 4;

/// A table as a kernel sees it.
///
/// ```
/// use phalanx_kernels::persistent::{CacheView, Config, Geometry, Levels, PersistentView};
/// use simt::GlobalSlice;
///
/// type Kind = Levels<1, 8, 2, 2, 8, 1>;
///
/// /// Returns the view of a table of two levels in device memory.
/// ///
/// /// # Safety
/// /// - As for `PersistentView::new`.
/// unsafe fn view(
///     levels: [*mut u32; 4],
///     fingerprints: *mut u32,
///     dirty: GlobalSlice<u32>,
///     reserved: GlobalSlice<u32>,
/// ) -> PersistentView<Kind> {
///     let geometry = Geometry::new(16 << 10, (Kind::SLOTS, 4), 0).with_first(127);
///     // SAFETY: the caller's obligation.
///     let view = unsafe { PersistentView::<Kind>::new(levels, fingerprints, geometry, 42) };
///     assert!(view.geometry().groups() == 127);
///     view.with_pages(dirty, false).with_reserved(reserved)
/// }
///
/// /// Returns the view with a cache of five lines for each group, chosen at random.
/// ///
/// /// # Safety
/// /// - As for `PersistentView::with_cache`: `lines` has 5 * 127 items.
/// unsafe fn cached(
///     view: PersistentView<Kind>,
///     (lines, nothing): (GlobalSlice<u32>, GlobalSlice<u32>),
///     counts: GlobalSlice<u64>,
/// ) -> PersistentView<Kind> {
///     let cache = CacheView { lines, heat: nothing, counts, share: 5 << 16, turn: 0, stamp: 0 };
///     // SAFETY: the caller's obligation.
///     unsafe { view.with_cache(cache) }
/// }
/// // A group has the fingerprints of three buckets, and 16 bytes for its version.
/// assert_eq!(PersistentView::<Kind>::group_words(), 16);
/// ```
#[repr(C)]
pub struct PersistentView<C> {
    /// The pages of the levels, from the lowest one on. Those behind the last one are never accessed.
    levels: [Global<u32>; MOST_LEVELS],
    /// Numbers of the levels' first marks among those of all pages.
    first_pages: [u32; MOST_LEVELS],
    fingerprints: Global<u32>,
    geometry: Geometry,
    seed: u64,
    /// A word for each page of the image: not 0 if the page has changed. No words if nobody asks.
    dirty: GlobalSlice<u32>,
    /// A word for each bucket, if updates write new items: the slots that items have or are about to take.
    reserved: GlobalSlice<u32>,
    /// Whether the image outlives the process, so that writes of the image are ordered for all observers.
    is_shared: u32,
    cache: CacheView,
    of: PhantomData<C>,
}

impl<C> Clone for PersistentView<C> {
    #[device]
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for PersistentView<C> {}

impl<C> core::fmt::Debug for PersistentView<C> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("PersistentView")
            .field("levels", &self.levels)
            .field("geometry", &self.geometry)
            .finish()
    }
}

#[device]
impl<C: Config> PersistentView<C> {
    /// Returns a view of the table with these levels, from the lowest one on, and these fingerprints.
    ///
    /// # Safety
    /// - The first `C::LEVELS` of `levels` point to the pages of a level each, aligned to 128 bytes, of
    ///   memory that kernels can access and that outlives all uses.
    /// - `fingerprints` points to [`Self::group_words`] words for each group, aligned to 128 bytes, of device
    ///   memory. They were 0 before the first operation, and the slot bits of the image were 0 or
    ///   [`recover`](super::recover) has rebuilt the fingerprints from them.
    /// - Only operations of this kind with the same geometry and the same seed have written to them.
    /// - `geometry` has the slots of `C` and items with room for keys and values of `C`. A position, that is,
    ///   `groups * 2^levels * slots`, has at most 32 bits.
    pub unsafe fn new(
        levels: [*mut u32; MOST_LEVELS],
        fingerprints: *mut u32,
        geometry: Geometry,
        seed: u64,
    ) -> Self {
        // SAFETY: the caller's obligations. The memory is accessed by weak accesses only where nothing
        // writes.
        let (levels, fingerprints) =
            unsafe { (levels.map(|pages| Global::new(pages)), Global::new(fingerprints)) };
        // SAFETY: no element of an empty slice is ever accessed.
        let nothing = unsafe { GlobalSlice::from_raw_parts(fingerprints.as_ptr(), 0) };
        let (mut first_pages, mut above) = ([0; MOST_LEVELS], 1);
        while above < C::LEVELS {
            first_pages[above as usize] = first_pages[above as usize - 1] + geometry.pages(above - 1);
            above += 1;
        }
        let (dirty, reserved, of) = (nothing, nothing, PhantomData);
        let (is_shared, cache) = (0, CacheView::none(fingerprints));
        Self { levels, first_pages, fingerprints, geometry, seed, dirty, reserved, is_shared, cache, of }
    }

    /// Marks pages that change: `dirty` has a word for each page of the levels, from the lowest one on.
    /// `is_shared` is whether the image outlives the process.
    pub fn with_pages(self, dirty: GlobalSlice<u32>, is_shared: bool) -> Self {
        Self { dirty, is_shared: is_shared as u32, ..self }
    }

    /// Counts the slots of each bucket that are taken: a kind whose updates write new items needs a word for
    /// each bucket, `2^levels` for each group, which begins with the number of the bucket's items.
    pub fn with_reserved(self, reserved: GlobalSlice<u32>) -> Self {
        Self { reserved, ..self }
    }

    /// Keeps copies of items in a cache. All launches that use the table at the same time do, with the same
    /// lines and the same share. Without effect on a kind without caches.
    ///
    /// # Safety
    /// - The slices have the sizes that [`CacheView`] says, and outlive all uses of the view.
    pub unsafe fn with_cache(self, cache: CacheView) -> Self {
        Self { cache, ..self }
    }

    /// Returns whether the image outlives the process.
    fn is_shared(self) -> bool {
        self.is_shared != 0
    }

    /// Returns the cache.
    pub(super) fn cache(self) -> CacheView {
        self.cache
    }

    /// Returns the number of words of a group's fingerprints.
    pub const fn group_words() -> u32 {
        (C::SLOTS / 2) << C::LEVELS
    }

    /// Returns the geometry.
    pub fn geometry(self) -> Geometry {
        self.geometry
    }

    /// Returns the number of slots.
    pub(super) fn slots(self) -> u32 {
        self.geometry.groups() * ((1 << C::LEVELS) - 1) * C::SLOTS
    }

    /// Returns the position of the `index`-th slot in the order of the levels, from the lowest one on.
    pub(super) fn position_of(self, index: u32) -> u32 {
        let (mut number, mut above) = (index / C::SLOTS, 0);
        while number >= self.geometry.buckets(above) {
            number -= self.geometry.buckets(above);
            above += 1;
        }
        self.position_at((above, number), index % C::SLOTS)
    }

    /// Returns the position of slot `slot` of the bucket that is the `number`-th of the level `above` the
    /// lowest one.
    pub(super) fn position_at(self, (above, number): (u32, u32), slot: u32) -> u32 {
        let node = 1 << above | number & ((1 << above) - 1);
        ((number >> above) << C::LEVELS | node) * C::SLOTS + slot
    }

    /// Returns the seed of the hash function.
    pub(super) fn seed(self) -> u64 {
        self.seed
    }

    /// Returns the words of a value.
    pub(super) fn value_words(self) -> u32 {
        if C::VALUE_BYTES > 0 { C::VALUE_BYTES / 4 } else { self.geometry.value_words() }
    }

    /// Returns bucket `candidate` of a key: `LEVELS` buckets for each hash location, from the top level on.
    /// Buckets are numbered by groups; within a group, the lowest bucket has the number 1, and bucket `i` is
    /// below the buckets `2 i` and `2 i + 1`.
    pub(super) fn candidate(self, hashed: Hashed, candidate: u32) -> u32 {
        let (location, depth) = (candidate / C::LEVELS, candidate % C::LEVELS);
        let above = C::LEVELS - 1;
        let top = hashed.bucket(location, self.geometry.groups() << above);
        let (group, within) = (top >> above, top & ((1 << above) - 1));
        group << C::LEVELS | (1 << above | within) >> depth
    }

    /// Returns a bucket's level above the lowest one, and its number in this level.
    fn level(bucket: u32) -> (u32, u32) {
        let (group, node) = (bucket >> C::LEVELS, bucket & ((1 << C::LEVELS) - 1));
        let above = 31 - node.leading_zeros();
        (above, (group << above) + node - (1 << above))
    }

    /// Returns how many levels above a bucket's there are.
    pub(super) fn depth(bucket: u32) -> u32 {
        C::LEVELS - 1 - Self::level(bucket).0
    }

    /// Returns the place of a slot in the image.
    pub(super) fn place(self, position: u32) -> Place {
        self.geometry.place(Self::level(position / C::SLOTS), position % C::SLOTS)
    }

    /// Returns the rank of a slot among those that may have the same key: the item of lowest rank is the
    /// valid one. The ranks of a higher level are lower.
    pub(super) fn rank(self, position: u32) -> u64 {
        let (above, number) = Self::level(position / C::SLOTS);
        let depth = C::LEVELS - 1 - above;
        let slot = number as u64 * C::SLOTS as u64 + (position % C::SLOTS) as u64;
        (depth as u64) << 36 | slot
    }

    /// Returns the first word of a page.
    ///
    /// # Safety
    /// - The place is that of a slot of the table.
    unsafe fn page(self, place: Place) -> Global<u32> {
        // A chain of selections: the compiler would place an indexed array in local memory.
        let (mut pages, mut above) = (self.levels[0], 1);
        while above < C::LEVELS {
            pages = if place.above == above { self.levels[above as usize] } else { pages };
            above += 1;
        }
        // SAFETY: the level has this page.
        unsafe { pages.offset(place.page as usize * self.geometry.page_words() as usize) }
    }

    /// Returns the first word of an item.
    ///
    /// # Safety
    /// - The place is that of a slot of the table.
    pub(super) unsafe fn item(self, place: Place) -> Global<u32> {
        let within = self.geometry.bits_words() + place.index * self.geometry.item_words();
        // SAFETY: the page has this item.
        unsafe { self.page(place).offset(within as usize) }
    }

    /// Returns the word of a slot's bit, and the bit.
    ///
    /// # Safety
    /// - The place is that of a slot of the table.
    pub(super) unsafe fn slot_bit(self, place: Place) -> (Global<u32>, u32) {
        // SAFETY: a page begins with a bit for each of its slots.
        let word = unsafe { self.page(place).offset((place.index / 32) as usize) };
        (word, 1 << (place.index % 32))
    }

    /// Returns the version of a bucket's group.
    ///
    /// # Safety
    /// - The bucket is one of the table.
    pub(super) unsafe fn version(self, bucket: u32) -> Global<u32> {
        let group = (bucket >> C::LEVELS) as usize;
        // SAFETY: a group begins with its version.
        unsafe { self.fingerprints.offset(group * Self::group_words() as usize) }
    }

    /// Returns the word of a bucket's first two fingerprints.
    ///
    /// # Safety
    /// - The bucket is one of the table.
    pub(super) unsafe fn bucket(self, bucket: u32) -> Global<u32> {
        // SAFETY: a group has fingerprints for each of its buckets, and room for one more.
        unsafe { self.fingerprints.offset(bucket as usize * (C::SLOTS / 2) as usize) }
    }

    /// Returns the word of a slot's fingerprint.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    unsafe fn fingerprint_word(self, position: u32) -> Global<u32> {
        // SAFETY: fingerprints lie in the order of positions.
        unsafe { self.fingerprints.offset((position / 2) as usize) }
    }
}

#[device(caller)]
impl<C: Config> PersistentView<C> {
    /// Reads a slot's fingerprint.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn fingerprint(self, position: u32) -> Fingerprint {
        // SAFETY: the caller's obligation.
        let word = unsafe { self.fingerprint_word(position) }.load(Order::Relaxed, Scope::Device);
        Fingerprint::in_word(word, position % 2)
    }

    /// Reads a slot's fingerprint before all that the lane reads later.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn acquire_fingerprint(self, position: u32) -> Fingerprint {
        // SAFETY: the caller's obligation.
        let word = unsafe { self.fingerprint_word(position) }.load(Order::Acquire, Scope::Device);
        Fingerprint::in_word(word, position % 2)
    }

    /// Reads the fingerprints of four slots, from position `first` on.
    ///
    /// # Safety
    /// - The positions are those of slots of the table. `first` is a multiple of 4.
    pub(super) unsafe fn states(self, first: u32) -> [u32; 2] {
        // SAFETY: the caller's obligation. The words are aligned to 8 bytes.
        unsafe { self.fingerprint_word(first).load_vec::<2>(Order::Relaxed, Scope::Device) }
    }

    /// Makes a free slot a live one, while no operation runs on the table.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn revive(self, position: u32, hash: u32) {
        let bits = Fingerprint::live(hash).put_in(0, position % 2);
        // SAFETY: the caller's obligation.
        unsafe { self.fingerprint_word(position) }.fetch_or(bits, Order::Relaxed, Scope::Device);
        if !C::IS_SMALL {
            let taken = self.reserved.at((position / C::SLOTS) as usize);
            taken.fetch_add(1, Order::Relaxed, Scope::Device);
        }
    }

    /// Locks a live slot, while no operation runs on the table: its item is looked at again.
    ///
    /// # Safety
    /// - The position is that of a live slot of the table.
    pub(super) unsafe fn lock(self, position: u32) {
        let bits = Fingerprint::live(0).locked().put_in(0, position % 2);
        // SAFETY: the caller's obligation.
        unsafe { self.fingerprint_word(position) }.fetch_or(bits, Order::Relaxed, Scope::Device);
    }

    /// Returns whether a slot's bit says that it has an item.
    ///
    /// # Safety
    /// - The place is that of a slot of the table.
    pub(super) unsafe fn has_item(self, place: Place) -> bool {
        // SAFETY: the caller's obligation.
        let (word, bit) = unsafe { self.slot_bit(place) };
        word.load(Order::Relaxed, Scope::Device) & bit != 0
    }

    /// Replaces a slot's fingerprint if it is `from`. Returns whether it was.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn replace(
        self,
        position: u32,
        (from, to): (Fingerprint, Fingerprint),
        order: Order,
    ) -> bool {
        let half = position % 2;
        // SAFETY: the caller's obligation.
        let word = unsafe { self.fingerprint_word(position) };
        let mut seen = word.load(Order::Relaxed, Scope::Device);
        while Fingerprint::in_word(seen, half) == from {
            match word.compare_exchange(seen, to.put_in(seen, half), order, Scope::Device) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Frees a slot that the caller has claimed or locked, after all that it has written.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, which the caller has claimed or locked.
    pub(super) unsafe fn free(self, position: u32) {
        let mask = !(0xffff << (16 * (position % 2)));
        // SAFETY: the caller's obligation.
        unsafe { self.fingerprint_word(position) }.fetch_and(mask, Order::Release, Scope::Device);
    }

    /// Takes the item of a slot that the caller has locked from lookups; the slot is still the caller's. The
    /// version advances afterwards, and then the slot is freed.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, which the caller has locked.
    pub(super) unsafe fn retire(self, position: u32) {
        let half = position % 2;
        let kept = Fingerprint::claimed(0).put_in(u32::MAX, half);
        // SAFETY: the caller's obligation.
        unsafe { self.fingerprint_word(position) }.fetch_and(kept, Order::Release, Scope::Device);
    }

    /// Turns a slot that the caller has claimed for an update into a locked one, after all that it has
    /// written.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, which the caller has claimed with the hash 0.
    pub(super) unsafe fn show_locked(self, position: u32, hash: u32) {
        let bits = Fingerprint::live(hash).locked().put_in(0, position % 2);
        // SAFETY: the caller's obligation.
        unsafe { self.fingerprint_word(position) }.fetch_or(bits, Order::Release, Scope::Device);
    }

    /// Turns a slot that the caller has locked into a live one, after all that it has written.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, which the caller has locked.
    pub(super) unsafe fn unlock(self, position: u32) {
        let bit = Fingerprint::live(0).locked();
        let state = bit.put_in(0, position % 2) & !Fingerprint::live(0).put_in(0, position % 2);
        // SAFETY: the caller's obligation.
        unsafe { self.fingerprint_word(position) }.fetch_and(!state, Order::Release, Scope::Device);
    }

    /// Advances the version of a slot's group, after all that the caller has done before: an item has moved,
    /// or a slot without an item is about to become free.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn advance_version(self, position: u32) {
        // SAFETY: the caller's obligation.
        let version = unsafe { self.version(position / C::SLOTS) };
        version.fetch_add(1, Order::Release, Scope::Device);
    }

    /// Marks the page of a slot as changed, after the change and before the slot is released.
    pub(super) fn mark_dirty(self, place: Place) {
        if self.dirty.is_empty() {
            return;
        }
        let (mut first, mut above) = (0, 1);
        while above < C::LEVELS {
            first = if place.above == above { self.first_pages[above as usize] } else { first };
            above += 1;
        }
        // An addition to earlier marks: whoever reads one mark has all changes before it.
        self.dirty.at((first + place.page) as usize).fetch_or(1, Order::Release, Scope::Device);
    }

    /// Orders the caller's writes to the image before its later ones: for other threads, and for those who
    /// read the image after the process has died.
    pub(super) fn order_image(self) {
        if self.is_shared() {
            fence(Scope::System);
        } else {
            fence(Scope::Device);
        }
    }

    /// Reserves a slot of a bucket for an item, if updates need a spare one there. Returns whether there is
    /// one, or none is needed.
    pub(super) fn reserve(self, position: u32) -> bool {
        if C::IS_SMALL {
            return true;
        }
        let taken = self.reserved.at((position / C::SLOTS) as usize);
        if taken.fetch_add(1, Order::Relaxed, Scope::Device) < C::USABLE {
            return true;
        }
        taken.fetch_add(u32::MAX, Order::Relaxed, Scope::Device);
        false
    }

    /// Gives back the reservation of a slot that has lost its item, or has not got one.
    pub(super) fn unreserve(self, position: u32) {
        if !C::IS_SMALL {
            let taken = self.reserved.at((position / C::SLOTS) as usize);
            taken.fetch_add(u32::MAX, Order::Relaxed, Scope::Device);
        }
    }
}
