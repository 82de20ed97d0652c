//! Copies of items in device memory, for tables whose image is behind the bus: which slots have one, how
//! lookups read them, and how changes keep them right. [`refresh`](super::refresh) chooses and fills them.
//!
//! ```text
//! group     | version | links of the slots | bucket b | bucket 2b | bucket 2b + 1 |
//!                       4 bits a slot: 0, or the number of the group's line that has a copy of the item
//! lines     | copies of items of group 0 | of group 1 | ...           0 to 15 lines a group
//! heat      | a byte for each slot: how often, or how recently, sampled lookups have read its item
//! ```
//!
//! A link changes only while its slot is locked. A copy equals its item whenever the slot is not locked.
//!
//! # Cost
//!
//! The links lie beside the version, in the line of fingerprints that a lookup has read, so a hit costs one
//! line of device memory more and none of the image. Of 16 warps, one notes the items that its lookups have
//! found, which costs a load and at most one compare-and-swap for each. An update in place of a cached item
//! takes two fences and a store more. A removal, or an update by a new item, of a cached one takes an atomic
//! more.
use super::kind::Config;
use super::lines::CacheView;
use super::view::PersistentView;
use simt::hash::mix64;
use simt::{Global, Order, Scope, Thread, device};

/// Bits of a link.
const LINK: u32 = 0xf;

/// Number of warps, one of which notes what its lookups have found.
const SAMPLE: usize = 16;

#[device(caller)]
impl<C: Config> PersistentView<C> {
    /// Returns whether the table has a cache.
    #[device]
    pub(super) fn has_cache(self) -> bool {
        C::CACHES && self.cache().share != 0
    }

    /// Returns the word of a slot's link, and the number of its first bit.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, of a kind that has caches.
    #[device]
    unsafe fn link_word(self, position: u32) -> (Global<u32>, u32) {
        let slot = position % (C::SLOTS << C::LEVELS);
        // SAFETY: the caller's obligation. The words of links follow the version, which stands for the links
        // of the slots that no group has.
        let word = unsafe { self.version(position / C::SLOTS).offset((slot / 8) as usize) };
        (word, slot % 8 * 4)
    }

    /// Returns the link of a slot: 0, or the number of its group's line, from 1 on.
    ///
    /// # Safety
    /// - As for [`Self::link_word`].
    pub(super) unsafe fn link(self, position: u32, order: Order) -> u32 {
        // SAFETY: the caller's obligation.
        let (word, shift) = unsafe { self.link_word(position) };
        word.load(order, Scope::Device) >> shift & LINK
    }

    /// Links a slot that the caller has locked, after the copy has been written.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, which the caller has locked and which has no link.
    pub(super) unsafe fn set_link(self, position: u32, link: u32) {
        // SAFETY: the caller's obligation.
        let (word, shift) = unsafe { self.link_word(position) };
        word.fetch_or(link << shift, Order::Release, Scope::Device);
    }

    /// Removes the link of a slot that the caller has locked, if it has one. The version advances before the
    /// slot or the line is used for another item.
    ///
    /// # Safety
    /// - The position is that of a slot of the table, which the caller has locked.
    pub(super) unsafe fn unlink(self, position: u32) {
        if self.has_cache() {
            // SAFETY: the caller's obligation.
            unsafe {
                if self.link(position, Order::Relaxed) != 0 {
                    let (word, shift) = self.link_word(position);
                    word.fetch_and(!(LINK << shift), Order::Release, Scope::Device);
                }
            }
        }
    }

    /// Returns the first word of line `link` of a position's group.
    #[device]
    pub(super) fn line(self, position: u32, link: u32) -> Global<u32> {
        let group = position / (C::SLOTS << C::LEVELS);
        let line = CacheView::lines(group, self.cache().share) as usize + link as usize - 1;
        self.cache().lines.at(line * self.geometry().item_words() as usize)
    }

    /// Returns the first word of the copy of a slot's item, if there is one.
    ///
    /// # Safety
    /// - The position is that of a slot of the table.
    pub(super) unsafe fn copy_of(self, position: u32, order: Order) -> Option<Global<u32>> {
        if !self.has_cache() {
            return None;
        }
        // SAFETY: the caller's obligation.
        let link = unsafe { self.link(position, order) };
        if link == 0 { None } else { Some(self.line(position, link)) }
    }

    /// Notes that a lookup has found its key in a slot, if its warp is one of those that do.
    pub(super) fn note_read(self, position: u32) {
        let CacheView { heat, turn, stamp, .. } = self.cache();
        if !C::CACHES || heat.is_empty() || !(Thread::index() / 32 + turn as usize).is_multiple_of(SAMPLE) {
            return;
        }
        let (word, shift) = (heat.at((position / 4) as usize), position % 4 * 8);
        let seen = word.load(Order::Relaxed, Scope::Device);
        let byte = seen >> shift & 0xff;
        let next = if stamp != 0 { stamp } else { (byte + 1).min(0xff) };
        if next != byte {
            // One attempt: an item for which it fails is read by others, too.
            let noted = seen & !(0xff << shift) | next << shift;
            let _ = word.compare_exchange(seen, noted, Order::Relaxed, Scope::Device);
        }
    }

    /// Returns the links of four slots, from position `first` on, in the low bits of a word.
    ///
    /// # Safety
    /// - As for [`Self::link_word`], for each of them. `first` is a multiple of 4.
    pub(super) unsafe fn links(self, first: u32) -> u32 {
        // SAFETY: the caller's obligation.
        let (word, shift) = unsafe { self.link_word(first) };
        word.load(Order::Relaxed, Scope::Device) >> shift & 0xffff
    }

    /// Returns the bytes that order four slots, from position `first` on, by the use of a copy.
    pub(super) fn scores(self, first: u32) -> u32 {
        let CacheView { heat, turn, .. } = self.cache();
        if heat.is_empty() {
            return mix64((turn as u64) << 32 | first as u64) as u32;
        }
        heat.at((first / 4) as usize).load(Order::Relaxed, Scope::Device)
    }
}
