//! A score policy that the library does not have.
use phalanx_kernels::cache::{ScorePolicy, Time};
use simt::device;

/// Evicts by the number of uses, of which half are forgotten for each period in which the key is not used;
/// among equal numbers, by the time of the last use. The parameter is the length of a period in batches.
///
/// ```text
/// bit  63 .. 32        31 .. 0
///      uses            time of the last use
/// ```
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Decaying {
    now: u32,
    period: u32,
}

#[device]
impl Decaying {
    fn score(self, uses: u64) -> u64 {
        let most = u32::MAX as u64;
        uses.min(most) << 32 | self.now as u64
    }
}

#[device]
impl ScorePolicy<u64> for Decaying {
    const NAME: &'static str = "decaying";

    fn new(time: Time, parameter: u32) -> Self {
        Self { now: time.now as u32, period: parameter.max(1) }
    }

    fn placed(self, given: u64) -> u64 {
        self.score(given)
    }

    fn used(self, old: u64, given: u64) -> u64 {
        let periods = self.now.saturating_sub(old as u32) / self.period;
        let remembered = if periods < 32 { (old >> 32) >> periods } else { 0 };
        self.score(remembered.saturating_add(given))
    }
}
