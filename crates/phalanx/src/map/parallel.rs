//! Conversions of many elements by several threads of the host. One thread moves 5 to 10 GB/s, and fewer
//! into new memory, whose pages the operating system provides on first use; the bus moves 55 GB/s.
use crate::Result;
use rayon::prelude::*;
use std::mem::MaybeUninit;

/// Number of elements up to which one thread converts them. Waking the others takes some 10 µs.
const ALONE: usize = 1 << 14;
/// Returns whether the calling thread converts `len` elements alone. So does a thread of rayon's pool: while
/// it waited for others, it might execute a task of the caller that needs a lock which this call holds.
fn is_alone(len: usize) -> bool {
    len <= ALONE || rayon::current_thread_index().is_some()
}

/// Number of elements that a thread converts at a time.
const GRAIN: usize = 1 << 13;

/// Returns whether `is` holds for an element. Reads all of them, so that the loop needs no branch.
pub fn any<T: Sync>(elements: &[T], is: impl Fn(&T) -> bool + Sync) -> bool {
    let any = |part: &[T]| part.iter().fold(false, |any, element| any | is(element));
    if is_alone(elements.len()) { any(elements) } else { elements.par_chunks(GRAIN).any(any) }
}

/// Copies elements. Both slices have the same length.
pub fn copy<T: Copy + Send + Sync>(to: &mut [T], from: &[T]) {
    match is_alone(from.len()) {
        true => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
        false => to.par_chunks_mut(GRAIN).zip(from.par_chunks(GRAIN)).for_each(|(to, from)| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }),
    }
}

/// Calls `change` for each element.
pub fn for_each<T: Send>(elements: &mut [T], change: impl Fn(&mut T) + Sync) {
    match is_alone(elements.len()) {
        true => elements.iter_mut().for_each(change),
        false => elements.par_chunks_mut(GRAIN).for_each(|part| part.iter_mut().for_each(&change)),
    }
}

/// Calls `set` for each element of `to` with that of `from`.
pub fn convert<A: Sync, B: Send>(to: &mut [B], from: &[A], set: impl Fn(&mut B, &A) + Sync) {
    let each = |to: &mut [B], from: &[A]| to.iter_mut().zip(from).for_each(|(to, from)| set(to, from));
    match is_alone(from.len()) {
        true => each(to, from),
        false => to.par_chunks_mut(GRAIN).zip(from.par_chunks(GRAIN)).for_each(|(to, from)| each(to, from)),
    }
}

/// As [`convert`], from two columns; ends at the first error.
pub fn try_convert<A: Sync, B: Sync, C: Send>(
    to: &mut [C],
    (first, second): (&[A], &[B]),
    set: impl Fn(&mut C, &A, &B) -> Result<()> + Sync,
) -> Result<()> {
    let each = |to: &mut [C], first: &[A], second: &[B]| {
        to.iter_mut().zip(first).zip(second).try_for_each(|((to, first), second)| set(to, first, second))
    };
    match is_alone(first.len()) {
        true => each(to, first, second),
        false => {
            let parts = to.par_chunks_mut(GRAIN).zip(first.par_chunks(GRAIN)).zip(second.par_chunks(GRAIN));
            parts.try_for_each(|((to, first), second)| each(to, first, second))
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;

    #[test]
    fn elements_keep_their_order() {
        for len in [0, 1, ALONE, ALONE + 1, 5 * GRAIN + 7] {
            let from: Vec<u32> = (0..len as u32).collect();
            let (mut copied, mut doubled, mut sums) = (vec![0; len], vec![0u64; len], vec![7]);
            copy(&mut copied, &from);
            convert(&mut doubled, &from, |to, &from| *to = 2 * u64::from(from));
            append(&mut sums, (&from, &doubled), |&one, &two| Ok(u64::from(one) + two)).unwrap();
            assert_eq!(copied, from);
            assert!(
                !any(&from, |&from| from == len as u32)
                    && any(&from, |&from| from + 1 == len as u32) == (len > 0)
            );
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
