//! Copies of pages that have changed, beside changes: what `sync` writes to a file.
//!
//! ```text
//! change                                    sync
//! (a) lock or claim the slot                clear the page's mark
//! (b) write the item                        read the slot bits
//! (c) change the slot bit                   read the items
//! (d) mark the page                         the mark is set again: discard the copy
//! (e) release the slot
//! ```
//!
//! The page's proofs say why the items of a copy are whole.
//!
//! # Cost
//!
//! [`persistent_list_dirty`] reads a word a page, and takes an atomic for each changed one.
//! [`persistent_copy_pages`] reads and writes each page once.
use simt::{Block, GlobalSlice, Order, Scope, Thread, device, fence, kernel, recheck};

/// Appends the numbers of the pages that have changed to `list`. `count` is 0 before. A thread for each page.
#[kernel]
pub fn persistent_list_dirty(dirty: GlobalSlice<u32>, list: GlobalSlice<u32>, count: GlobalSlice<u32>) {
    let page = Thread::index();
    if page < dirty.len() && dirty.at(page).load(Order::Relaxed, Scope::Device) != 0 {
        let index = count.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
        list.write(index as usize, page as u32);
    }
}

/// A level, and the pages of it that are copied.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PageCopies {
    /// All words of the level's pages.
    pub level: GlobalSlice<u32>,
    /// Numbers of the pages.
    pub list: GlobalSlice<u32>,
    /// A mark for each page of the level.
    pub dirty: GlobalSlice<u32>,
    /// Words in a page, and words of slot bits at its beginning.
    pub words: (u32, u32),
    /// Output: the pages.
    pub copies: GlobalSlice<u32>,
    /// Output: for each page 1 if its copy is consistent, or 0 if it must be copied again.
    pub whole: GlobalSlice<u32>,
}

/// Clears the marks of pages, and copies them, beside changes. A block for each page of the list.
#[kernel]
pub fn persistent_copy_pages(pages: PageCopies) {
    let index = Thread::block_index() as usize;
    if index >= pages.list.len() {
        return;
    }
    let page = pages.list.read(index) as usize;
    let (page_words, bits_words) = (pages.words.0 as usize, pages.words.1 as usize);
    let from = pages.level.part(page * page_words, page_words);
    let to = pages.copies.part(index * page_words, page_words);
    if Thread::index_in_block() == 0 {
        // Acquires the changes that were marked.
        // mutation: acquire equivalent, because nothing acquires what a copy has done: changes set marks by
        // updates that only release.
        pages.dirty.at(page).exchange(0, Order::AcqRel, Scope::Device);
    }
    Block::sync();
    // Slot bits first: an item whose bit is set was whole at that moment.
    copy_words(from, to, (0, bits_words), Order::Acquire);
    Block::sync();
    copy_words(from, to, (bits_words, page_words), Order::Relaxed);
    // Whoever has read a word of a later item sees the mark of the change that took the slot from the last.
    fence(Scope::Device);
    Block::sync();
    if Thread::index_in_block() == 0 {
        let mark = pages.dirty.at(page).load(Order::Relaxed, Scope::Device);
        // mutation: late store equivalent, because only later launches read the output.
        pages.whole.write(index, recheck(mark == 0) as u32);
    }
}

/// Copies the words from `range.0` up to `range.1`, both even, by all threads of the block: eight bytes at a
/// time, since small values change as a whole.
#[device]
fn copy_words(from: GlobalSlice<u32>, to: GlobalSlice<u32>, range: (usize, usize), order: Order) {
    let mut word = range.0 + 2 * Thread::index_in_block() as usize;
    while word < range.1 {
        // SAFETY: both pages have both words, and are aligned to a line.
        unsafe {
            let both = from.at(word).cast::<u64>().load(order, Scope::Device);
            // mutation: late store equivalent, because only later launches read the copy.
            to.at(word).cast::<u64>().store(both, Order::Weak, Scope::Device);
        }
        word += 2 * Thread::block_size() as usize;
    }
}
