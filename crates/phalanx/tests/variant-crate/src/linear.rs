//! A probing scheme that the library does not have.
use phalanx_kernels::hash_map::{Cursor, Hashed, Probe};
use simt::{Name, device};

/// Linear probing: the next bucket is `STEP` buckets further.
#[derive(Clone, Copy, Debug)]
pub struct Linear<const STEP: u32>;

// SAFETY: the remainder is a bucket of the table.
unsafe impl<const STEP: u32> Probe for Linear<STEP> {
    const NAME: &'static str = const { &Name::of("linear").number(STEP as usize) }.as_str();
    const FILTER_BITS: u32 = 0;
    const EXTRA_PROBES: u32 = 0;

    #[device]
    fn advance(cursor: &mut Cursor, _hash: Hashed, buckets: u32) {
        // The number of buckets is prime, so any other step than a multiple of it leads to all of them.
        let step = if STEP.is_multiple_of(buckets) { 1 } else { STEP };
        cursor.bucket = ((cursor.bucket as u64 + step as u64) % buckets as u64) as u32;
    }
}
