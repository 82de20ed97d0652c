//! Loops over many elements by rayon's current pool. Unlike rayon's own adapters, whose code is compiled anew
//! for each closure, these share one loop: programs that use them with many types compile in half the time.
use rayon::prelude::*;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Maximum number of elements that a thread takes at a time.
const GRAIN: usize = 1 << 12;

/// Calls `work` for ranges that together are `0..len` and do not overlap.
fn in_ranges(len: usize, work: &(dyn Fn(Range<usize>) + Sync)) {
    // Several ranges a thread, since some elements take longer than others.
    let grain = (len / (8 * rayon::current_num_threads())).clamp(1, GRAIN);
    let range = |index: usize| index * grain..len.min((index + 1) * grain);
    (0..len.div_ceil(grain)).into_par_iter().for_each(|index| work(range(index)));
}

/// Memory that several threads write, each its own part.
struct Start<T>(*mut MaybeUninit<T>);

// SAFETY: threads write elements of disjoint ranges (`tabulate`), so each element is sent to one thread.
unsafe impl<T: Send> Sync for Start<T> {}

/// Returns `len` elements; element `i` is `make(i)`.
///
/// ```
/// assert_eq!(workloads::parallel::tabulate(4, |index| index * index), [0, 1, 4, 9]);
/// ```
pub fn tabulate<T: Send>(len: usize, make: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let mut elements = Vec::with_capacity(len);
    let start = Start(elements.spare_capacity_mut().as_mut_ptr());
    in_ranges(len, &|range| {
        let start = &start;
        for index in range {
            // SAFETY: the capacity is at least `len`, and the ranges do not overlap.
            unsafe { (*start.0.add(index)).write(make(index)) };
        }
    });
    // SAFETY: the ranges together are `0..len`, so each element was written.
    unsafe { elements.set_len(len) };
    elements
}

/// Returns what `make` returns for each element.
///
/// ```
/// assert_eq!(workloads::parallel::map(&[1u32, 2], |&element| u64::from(element) * 3), [3, 6]);
/// ```
pub fn map<A: Sync, B: Send>(elements: &[A], make: impl Fn(&A) -> B + Sync) -> Vec<B> {
    tabulate(elements.len(), |index| make(&elements[index]))
}

/// Returns the number of indices below `len` for which `is` holds.
///
/// ```
/// assert_eq!(workloads::parallel::count(10_000, |index| index % 4 == 0), 2500);
/// ```
pub fn count(len: usize, is: impl Fn(usize) -> bool + Sync) -> usize {
    let sum = Mutex::new(0);
    in_ranges(len, &|range| {
        let count = range.filter(|&index| is(index)).count();
        *sum.lock().unwrap_or_else(PoisonError::into_inner) += count;
    });
    sum.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the least index below `len` for which `is` holds.
///
/// ```
/// assert_eq!(workloads::parallel::first(10_000, |index| index > 77), Some(78));
/// assert_eq!(workloads::parallel::first(10, |index| index > 77), None);
/// ```
pub fn first(len: usize, is: impl Fn(usize) -> bool + Sync) -> Option<usize> {
    let least = Mutex::new(None::<usize>);
    let found = || least.lock().unwrap_or_else(PoisonError::into_inner);
    in_ranges(len, &|range| {
        if found().is_some_and(|index| index < range.start) {
            return;
        }
        if let Some(index) = range.into_iter().find(|&index| is(index)) {
            let mut least = found();
            *least = Some(least.map_or(index, |other| other.min(index)));
        }
    });
    *found()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_those_of_loops_on_one_thread() {
        for len in [0, 1, GRAIN, GRAIN + 1, 9 * GRAIN + 5] {
            let is = |index: usize| index % 7 == 3;
            let expected: Vec<String> = (0..len).map(|index| index.to_string()).collect();
            assert_eq!(tabulate(len, |index| index.to_string()), expected);
            assert_eq!(map(&expected, String::len), expected.iter().map(String::len).collect::<Vec<_>>());
            assert_eq!(count(len, is), (0..len).filter(|&index| is(index)).count());
            for from in [0, len / 2, len.saturating_sub(1), len] {
                let expected = (from..len).find(|&index| is(index));
                assert_eq!(first(len, |index| index >= from && is(index)), expected);
            }
        }
    }
}
