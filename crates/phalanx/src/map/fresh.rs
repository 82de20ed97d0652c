//! New memory for large results.
#[cfg(target_os = "linux")]
use super::parallel::{each, pool};

/// Size of a large page, in bytes.
#[cfg(target_os = "linux")]
const LARGE_PAGE: usize = 2 << 20;

/// Returns an empty vector with room for `len` elements. The operating system provides a page when a thread
/// first writes to it, which takes several times as long as the results that fill a page of 4 KiB. So large
/// memory is asked for in large pages, each of which one thread touches here: threads that write to one new
/// page at the same time would each clear one.
pub fn room_for<T>(len: usize) -> Vec<T> {
    #[allow(unused_mut)] // where no large pages exist
    let mut room: Vec<T> = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    touch_large_pages(room.as_mut_ptr().cast(), len * size_of::<T>());
    room
}

/// Asks for large pages where the `bytes` bytes from `start` on contain whole ones, and writes to each. The
/// bytes are allocated and have no meaning yet.
#[cfg(target_os = "linux")]
fn touch_large_pages(start: *mut u8, bytes: usize) {
    let before = start.align_offset(LARGE_PAGE);
    let pages = bytes.saturating_sub(before) / LARGE_PAGE;
    let Some(pool) = pool(bytes).filter(|_| pages > 1) else { return };
    let first = start.wrapping_add(before);
    // SAFETY: the range is allocated, and the advice changes no byte of it. A refusal changes nothing.
    unsafe { libc::madvise(first.cast(), pages * LARGE_PAGE, libc::MADV_HUGEPAGE) };
    let first = first.expose_provenance();
    each(pool, pages, &|page| {
        let byte = std::ptr::with_exposed_provenance_mut::<u8>(first + page * LARGE_PAGE);
        // SAFETY: the page lies in the allocated bytes, and no other thread knows them. The write is volatile
        // so that the compiler keeps it.
        unsafe { byte.write_volatile(0) };
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room() {
        for len in [0, 1, 1000, 5 << 20] {
            let mut room = room_for::<u32>(len);
            assert!(room.is_empty() && room.capacity() >= len);
            room.extend(0..len as u32);
            assert!(room.iter().zip(0..).all(|(&found, index)| found == index));
        }
    }
}
