//! Backoff after failed latch attempts.
use simt::device;

/// Base of the backoff, in ns. The first pause is twice this value plus a share per tile; it doubles with
/// each failure, up to about 2 µs. If many tiles want one latch, each attempt delays its holder, because all
/// of them go to one line of one slice of the cache.
pub(crate) const FIRST_BACKOFF_NS: u32 = 16;
/// Maximum number of times the pause is doubled.
const MOST_DOUBLINGS: u32 = 7;

/// Counts one more failed attempt, and pauses. `share`, below [`FIRST_BACKOFF_NS`], is added to the base: it
/// differs between tiles that must not retry in step.
#[device(caller)]
pub(crate) fn back_off(failures: &mut u32, share: u32) {
    *failures += 1;
    simt::pause((FIRST_BACKOFF_NS + share) << (*failures).min(MOST_DOUBLINGS));
}
