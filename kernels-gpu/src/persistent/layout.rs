//! Numbers of levels, buckets, slots and pages, and where an item lies in the image.
use simt::device;

/// The position of no slot.
pub const NOWHERE: u32 = u32::MAX;

/// Alignment of pages and of buckets' slot bits, in bytes: a line.
pub const PAGE_ALIGNMENT: u32 = 128;

/// Size and shape of a table: the parameters that its image was created with, and the number of its lowest
/// level.
///
/// Level `i` of an image has `first << i` buckets, in pages of its own. A table uses as many levels as its
/// kind has. A resize adds a level at the top, and no longer uses the lowest one.
///
/// ```
/// use phalanx_kernels::persistent::{Geometry, Place};
///
/// // Items of 16 bytes; buckets of 8 slots: a page of 16 KiB has a line of slot bits and 127 buckets.
/// let geometry = Geometry::new(16 << 10, (8, 4), 0);
/// assert_eq!((geometry.buckets_a_page(), geometry.bits_words()), (127, 32));
/// let geometry = geometry.with_first(130).with_lowest(1);
/// assert_eq!((geometry.first(), geometry.lowest()), (130, 1));
/// assert_eq!((geometry.groups(), geometry.buckets(1), geometry.pages(1)), (260, 520, 5));
/// // Bucket 127 of the upper level is the first one of its second page.
/// assert_eq!(geometry.place((1, 127), 3), Place { above: 1, page: 1, index: 3 });
/// // Keys of 8 bytes and values of 100.
/// let geometry = Geometry::new(20 << 10, (8, 28), 25);
/// assert_eq!((geometry.page_words(), geometry.item_words(), geometry.value_words()), (5120, 28, 25));
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Number of buckets of the image's first level.
    first: u32,
    /// Number of the lowest level in use.
    lowest: u32,
    /// Slots in a bucket.
    slots: u32,
    /// Words in an item: key, value and padding.
    item_words: u32,
    /// Words in a page.
    page_words: u32,
    /// Words of slot bits in a page.
    bits_words: u32,
    /// Buckets in a page.
    page_buckets: u32,
    /// Words of values.
    value_words: u32,
    /// ⌊2^64 / buckets⌋ + 1, for divisions.
    reciprocal: u64,
}

/// Where a slot lies: a level, a page of the level, and the slot's number within the page.
///
/// ```
/// use phalanx_kernels::persistent::{Geometry, Place};
///
/// let geometry = Geometry::new(16 << 10, (8, 4), 0).with_first(130);
/// assert_eq!(geometry.place((1, 127), 3), Place { above: 1, page: 1, index: 3 });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the level above the lowest one in use.
    pub above: u32,
    /// Number of the page within the level.
    pub page: u32,
    /// Number of the slot within the page.
    pub index: u32,
}

#[device]
impl Geometry {
    /// Returns the geometry of pages of `page_bytes` bytes, of buckets with `slots` slots, and of items with
    /// `item_words` words, of which the value has `value_words` (0 if it is a constant of the kind). It has
    /// no buckets yet.
    pub fn new(page_bytes: u32, (slots, item_words): (u32, u32), value_words: u32) -> Self {
        let (page_words, line) = (page_bytes / 4, PAGE_ALIGNMENT / 4);
        let bits_words = |buckets: u32| (buckets * slots).div_ceil(32).div_ceil(line) * line;
        let mut buckets = page_words / (slots * item_words);
        while buckets > 0 && bits_words(buckets) + buckets * slots * item_words > page_words {
            buckets -= 1;
        }
        let bits_words = bits_words(buckets);
        let reciprocal = if buckets > 1 { u64::MAX / buckets as u64 + 1 } else { 0 };
        Self {
            first: 0,
            lowest: 0,
            slots,
            item_words,
            page_words,
            bits_words,
            page_buckets: buckets,
            value_words,
            reciprocal,
        }
    }

    /// Sets the number of buckets of the image's first level.
    pub fn with_first(self, first: u32) -> Self {
        Self { first, ..self }
    }

    /// Sets the number of the lowest level in use.
    pub fn with_lowest(self, lowest: u32) -> Self {
        Self { lowest, ..self }
    }

    /// Returns the number of buckets of the image's first level.
    pub fn first(self) -> u32 {
        self.first
    }

    /// Returns the number of the lowest level in use.
    pub fn lowest(self) -> u32 {
        self.lowest
    }

    /// Returns the number of buckets in a page; 0 if a page has no room for a bucket.
    pub fn buckets_a_page(self) -> u32 {
        self.page_buckets
    }

    /// Returns the number of words of slot bits at the beginning of a page.
    pub fn bits_words(self) -> u32 {
        self.bits_words
    }

    /// Returns the number of words in a page.
    pub fn page_words(self) -> u32 {
        self.page_words
    }

    /// Returns the number of words in an item.
    pub fn item_words(self) -> u32 {
        self.item_words
    }

    /// Returns the number of words in a value; 0 if it is a constant of the kind.
    pub fn value_words(self) -> u32 {
        self.value_words
    }

    /// Returns the number of slots in a bucket.
    pub fn slots(self) -> u32 {
        self.slots
    }

    /// Returns the number of buckets of the lowest level in use, and so of groups.
    pub fn groups(self) -> u32 {
        self.first << self.lowest
    }

    /// Returns the number of buckets of the level `above` the lowest one in use.
    pub fn buckets(self, above: u32) -> u32 {
        self.groups() << above
    }

    /// Returns the number of pages of the level `above` the lowest one in use.
    pub fn pages(self, above: u32) -> u32 {
        self.buckets(above).div_ceil(self.page_buckets)
    }

    /// Returns where slot `slot` of the bucket lies that is the `number`-th of the level `above` the lowest
    /// one in use.
    pub fn place(self, (above, number): (u32, u32), slot: u32) -> Place {
        let page = if self.reciprocal == 0 {
            number
        } else {
            ((number as u128 * self.reciprocal as u128) >> 64) as u32
        };
        Place { above, page, index: (number - page * self.page_buckets) * self.slots + slot }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_full_and_buckets_do_not_overlap() {
        for (slots, item_words) in [(8, 4), (8, 34), (4, 4), (32, 6), (8, 272)] {
            for page_bytes in [4096, 8192, 16384, 65536] {
                let geometry = Geometry::new(page_bytes, (slots, item_words), item_words - 2);
                let (buckets, bytes) = (geometry.buckets_a_page(), slots * item_words * 4);
                let used = geometry.bits_words() * 4 + buckets * bytes;
                assert!(used <= page_bytes, "{geometry:?}");
                assert!(page_bytes < used + bytes + 2 * PAGE_ALIGNMENT, "{geometry:?}");
                assert!(geometry.bits_words() * 32 >= buckets * slots);
            }
        }
    }

    #[test]
    fn divisions_by_buckets_are_exact() {
        for page_bytes in [256, 384, 4096, 16384, 65536] {
            let geometry = Geometry::new(page_bytes, (8, 4), 0);
            let each = geometry.buckets_a_page();
            for bucket in (0..1000).chain([u32::MAX, u32::MAX - 1, 1 << 31, each * 7777 - 1, each * 7777]) {
                let place = geometry.place((0, bucket), 5);
                assert_eq!((place.page, place.index), (bucket / each, bucket % each * 8 + 5));
            }
        }
    }
}
