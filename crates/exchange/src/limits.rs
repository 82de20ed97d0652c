//! Bounds of an exchange.
use crate::{Error, Result};
use std::time::{Duration, Instant};

/// Bounds of an exchange: its memory and its waits. All ranks must have the same ones.
///
/// ```
/// use exchange::Limits;
///
/// let limits = Limits { part_bytes: 1 << 20, ..Limits::default() };
/// assert_eq!(limits.window_bytes(4), 4 << 20); // three times: two rounds of requests, and answers
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most bytes that a rank sends to another rank in one round; a multiple of 256, at most 256 MiB. Each
    /// rank has three windows of this size times the number of ranks.
    pub part_bytes: usize,
    /// Bytes of a slot of the padded exchange; a multiple of 256, at most `part_bytes`.
    pub slot_bytes: usize,
    /// Longest wait for other ranks, or for the device, in one step of an operation.
    pub deadline: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { part_bytes: 160 << 20, slot_bytes: 16 << 10, deadline: Duration::from_secs(10) }
    }
}

/// Unit of the sizes: the alignment of allocations.
const UNIT: usize = 256;

/// Largest part and largest message, in bytes. NCCL is known to fail with messages from 512 MB on.
pub const MOST: usize = 256 << 20;

impl Limits {
    /// Returns the bytes of one window of a rank among `ranks` ranks.
    pub fn window_bytes(&self, ranks: usize) -> usize {
        self.part_bytes.saturating_mul(ranks)
    }

    /// Returns an error if a size is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        let fits = |bytes: usize, most: usize| bytes > 0 && bytes.is_multiple_of(UNIT) && bytes <= most;
        if !fits(self.part_bytes, MOST) {
            return Err(Error::arguments(
                "part_bytes",
                self.part_bytes,
                "it is a multiple of 256 up to 2^28",
            ));
        }
        if !fits(self.slot_bytes, self.part_bytes) {
            let most = self.part_bytes;
            let expected = format!("it is a multiple of 256 up to part_bytes, {most}");
            return Err(Error::arguments("slot_bytes", self.slot_bytes, expected));
        }
        Ok(())
    }

    /// Returns the sizes, which the ranks compare.
    pub(crate) fn words(&self) -> [u64; 2] {
        [self.part_bytes as u64, self.slot_bytes as u64]
    }

    /// Returns the end of a step that begins now.
    pub(crate) fn step_end(&self) -> Instant {
        let now = Instant::now();
        // A deadline beyond the clock's range: 30 years.
        now.checked_add(self.deadline).unwrap_or(now + Duration::from_secs(1 << 30))
    }
}
