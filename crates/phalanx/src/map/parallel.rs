//! Conversions of many elements by several threads of the host. One thread moves 5 to 10 GB/s, and fewer
//! into new memory, whose pages the operating system provides on first use; the bus moves 55 GB/s.
use crate::Result;
use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

/// Number of elements up to which one thread converts them. Waking the others takes 30 to 50 µs, in which one
/// thread copies 256 KiB.
const ALONE: usize = 1 << 15;

/// The library's own threads, as many as rayon's default; none if they cannot be started. A caller often
/// holds the lock of a structure. Threads of the process's pool may wait for that lock in calls of their own,
/// and would then never convert anything; these threads only convert.
static POOL: LazyLock<Option<ThreadPool>> = LazyLock::new(|| {
    ThreadPoolBuilder::new().thread_name(|index| format!("phalanx-convert-{index}")).build().ok()
});

/// Returns the threads that work on `len` elements; `None` if the calling thread does so alone.
pub fn pool(len: usize) -> Option<&'static ThreadPool> {
    if is_alone(len) { None } else { POOL.as_ref() }
}

/// Returns whether the calling thread converts `len` elements alone. So does a thread of rayon's pool: while
/// it waited for others, it might execute a task of the caller that needs a lock which this call holds.
fn is_alone(len: usize) -> bool {
    len <= ALONE || rayon::current_thread_index().is_some()
}

/// Number of elements that a thread converts at a time.
const GRAIN: usize = 1 << 13;

/// Calls `work` for ranges that together are `0..len`.
fn in_ranges(len: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    match pool(len) {
        None => work(0..len),
        Some(pool) => {
            each(pool, len.div_ceil(GRAIN), &|part| work(part * GRAIN..len.min((part + 1) * GRAIN)));
        }
    }
}

/// Calls `work` for each number below `count`, on the threads of the pool. Neither this function nor rayon's
/// code below it depends on types of elements, so it is compiled once for all maps.
pub fn each(pool: &ThreadPool, count: usize, work: &(dyn Fn(usize) + Sync)) {
    pool.install(|| (0..count).into_par_iter().for_each(work));
}

/// Sorts elements by key. Equal elements change their order.
pub fn sort_by_key<T: Send, K: Ord>(elements: &mut [T], key: impl Fn(&T) -> K + Send + Sync) {
    match pool(elements.len()) {
        None => elements.sort_unstable_by_key(key),
        Some(pool) => pool.install(|| elements.par_sort_unstable_by_key(key)),
    }
}

/// The start of a slice whose parts several threads change.
struct Start<T>(*mut T);

// SAFETY: the threads get parts that do not overlap, as `part` demands, so each element is sent to one
// thread.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// Returns a part of the slice.
    ///
    /// # Safety
    /// - The range lies in the slice, which is borrowed for as long as the part.
    /// - No other part that is alive overlaps with this one.
    #[allow(clippy::mut_from_ref)] // parts do not overlap
    unsafe fn part(&self, range: &Range<usize>) -> &mut [T] {
        // SAFETY: the caller's obligations.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(range.start), range.len()) }
    }
}

/// Calls `work` for parts of `elements` and the range of each.
fn in_parts<T: Send>(elements: &mut [T], work: &(dyn Fn(&mut [T], Range<usize>) + Sync)) {
    let (start, len) = (Start(elements.as_mut_ptr()), elements.len());
    // SAFETY: `in_ranges` passes ranges below `len` that do not overlap, and `elements` is borrowed until it
    // returns.
    in_ranges(len, &|range| work(unsafe { start.part(&range) }, range));
}

/// Work on the same part of two slices, and its range.
type OnTwoParts<'a, A, B> = dyn Fn(&mut [A], &mut [B], Range<usize>) + Sync + 'a;

/// Calls `work` for the same parts of two slices of one length, and the range of each.
fn in_two_parts<A: Send, B: Send>((first, second): (&mut [A], &mut [B]), work: &OnTwoParts<'_, A, B>) {
    let len = first.len().min(second.len());
    let (first, second) = (Start(first.as_mut_ptr()), Start(second.as_mut_ptr()));
    // SAFETY: as in `in_parts`, for both slices.
    in_ranges(len, &|range| work(unsafe { first.part(&range) }, unsafe { second.part(&range) }, range));
}

/// Copies elements. Both slices have the same length.
pub fn copy<T: Copy + Send + Sync>(to: &mut [T], from: &[T]) {
    in_parts(to, &|to, range| to.copy_from_slice(&from[range]));
}

/// Calls `change` for each element.
pub fn for_each<T: Send>(elements: &mut [T], change: impl Fn(&mut T) + Sync) {
    in_parts(elements, &|part, _| part.iter_mut().for_each(&change));
}

/// Calls `set` for each element of `to` with that of `from`.
pub fn convert<A: Sync, B: Send>(to: &mut [B], from: &[A], set: impl Fn(&mut B, &A) + Sync) {
    let len = to.len().min(from.len());
    in_parts(&mut to[..len], &|to, range| {
        to.iter_mut().zip(&from[range]).for_each(|(to, from)| set(to, from));
    });
}

/// [`convert`] for two columns of one length. Waking the threads costs as much as copying 256 KiB, so both
/// are converted together.
pub fn convert_both<A: Sync, B: Send, C: Sync, D: Send>(
    to: (&mut [B], &mut [D]),
    (first, second): (&[A], &[C]),
    set: (impl Fn(&mut B, &A) + Sync, impl Fn(&mut D, &C) + Sync),
) {
    in_two_parts(to, &|to, to_second, range| {
        to.iter_mut().zip(&first[range.clone()]).for_each(|(to, from)| set.0(to, from));
        to_second.iter_mut().zip(&second[range]).for_each(|(to, from)| set.1(to, from));
    });
}

/// As [`convert`], from two columns; ends at the first error.
pub fn try_convert<A: Sync, B: Sync, C: Send>(
    to: &mut [C],
    (first, second): (&[A], &[B]),
    set: impl Fn(&mut C, &A, &B) -> Result<()> + Sync,
) -> Result<()> {
    let len = to.len().min(first.len()).min(second.len());
    let nothing: &mut [()] = &mut vec![(); len];
    try_convert_both((&mut to[..len], nothing), (first, second), |(to, ()), a, b| set(to, a, b))
}

/// As [`try_convert`], to two columns of one length.
pub fn try_convert_both<A: Sync, B: Sync, C: Send, D: Send>(
    to: (&mut [C], &mut [D]),
    (first, second): (&[A], &[B]),
    set: impl Fn((&mut C, &mut D), &A, &B) -> Result<()> + Sync,
) -> Result<()> {
    let failure = OnceLock::new();
    in_two_parts(to, &|to, also, range| {
        let from = first[range.clone()].iter().zip(&second[range]);
        let mut elements = to.iter_mut().zip(also).zip(from);
        if failure.get().is_none()
            && let Err(error) = elements.try_for_each(|(to, (first, second))| set(to, first, second))
        {
            // Another thread's error came first.
            drop(failure.set(error));
        }
    });
    failure.into_inner().map_or(Ok(()), Err)
}

/// Appends an element for each of two columns of the same length, to a vector with room for them. On error
/// appends nothing.
pub fn append<A: Sync, B: Sync, C: Copy + Send>(
    to: &mut Vec<C>,
    from: (&[A], &[B]),
    make: impl Fn(&A, &B) -> Result<C> + Sync,
) -> Result<()> {
    let more = from.0.len().min(from.1.len());
    to.reserve(more);
    let room: &mut [MaybeUninit<C>] = &mut to.spare_capacity_mut()[..more];
    try_convert(room, from, |to, first, second| {
        to.write(make(first, second)?);
        Ok(())
    })?;
    // SAFETY: `more` elements were written, as no error ended the conversion.
    unsafe { to.set_len(to.len() + more) };
    Ok(())
}

/// Appends what `make` returns for each element, to a vector with room for them. Returns whether `is` holds
/// for one of them. Reads all elements of a part, so that the loop needs no branch.
pub fn append_noting<A: Sync, B: Copy + Send>(
    to: &mut Vec<B>,
    from: &[A],
    make: impl Fn(&A) -> B + Sync,
    is: impl Fn(&A) -> bool + Sync,
) -> bool {
    to.reserve(from.len());
    let (found, room) = (OnceLock::new(), &mut to.spare_capacity_mut()[..from.len()]);
    in_parts(room, &|room: &mut [MaybeUninit<B>], range| {
        let from = &from[range];
        if from.iter().fold(false, |any, element| any | is(element)) {
            found.get_or_init(|| ());
        }
        room.iter_mut().zip(from).for_each(|(room, from)| {
            room.write(make(from));
        });
    });
    // SAFETY: `in_parts` has passed all of the room, each part of which was written.
    unsafe { to.set_len(to.len() + from.len()) };
    found.get().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn elements_keep_their_order() {
        for len in [0, 1, ALONE, ALONE + 1, 5 * GRAIN + 7] {
            let from: Vec<u32> = (0..len as u32).collect();
            let (mut copied, mut doubled, mut sums) = (vec![0; len], vec![0u64; len], vec![7]);
            convert_both(
                (&mut copied, &mut doubled),
                (&from, &from),
                (|to, &from| *to = from, |to, &from| *to = 2 * u64::from(from)),
            );
            append(&mut sums, (&from, &doubled), |&one, &two| Ok(u64::from(one) + two)).unwrap();
            assert_eq!(copied, from);
            let (mut noted, last) = (vec![7], len as u32);
            assert!(!append_noting(&mut noted, &from, |&from| from, |&from| from == last));
            assert_eq!(append_noting(&mut noted, &from, |&from| from, |&from| from + 1 == last), len > 0);
            assert!(noted[0] == 7 && noted[1..=len] == from && noted[len + 1..] == from);
            assert!(sums[1..].iter().zip(&from).all(|(&sum, &from)| sum == 3 * u64::from(from)));
            assert_eq!((sums[0], sums.len()), (7, len + 1));
        }
    }

    #[test]
    fn tasks_of_the_pool_convert_alone() {
        assert!(!is_alone(ALONE + 1) && is_alone(ALONE));
        let is_alone_there = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert!(is_alone_there.install(|| is_alone(ALONE + 1)));
    }

    #[test]
    fn an_error_appends_nothing() {
        for len in [3, 3 * ALONE] {
            let (from, mut to) = (vec![1u8; len], vec![0u8]);
            let fails = append(&mut to, (&from, &from), |_, _| Err(Error::ZeroCapacity));
            assert!(matches!(fails, Err(Error::ZeroCapacity)));
            assert_eq!(to, [0]);
        }
    }
}
