//! Backoff after failed latch attempts.
use simt::device;

/// Base of the backoff, in ns. The first pause is twice this value plus a share per tile; it doubles with
/// each failure. If many tiles want one latch, each attempt delays its holder, because all of them go to one
/// line of one slice of the cache; but a tile that sleeps when the latch is free delays its whole warp.
pub(crate) const FIRST_BACKOFF_NS: u32 = 16;

/// Counts one more failed attempt, and pauses. `share`, below [`FIRST_BACKOFF_NS`], is added to the base: it
/// differs between tiles that must not retry in step. The pause is doubled at most `most_doublings` times.
#[device(caller)]
pub(crate) fn back_off(failures: &mut u32, share: u32, most_doublings: u32) {
    *failures += 1;
    simt::pause((FIRST_BACKOFF_NS + share) << (*failures).min(most_doublings));
}
