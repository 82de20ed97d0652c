//! The interface of versions: what nodes ask of them, and kinds without versions.
use crate::slab::{Handle, Pool};
use simt::device;

/// Largest timestamp. A read at this timestamp returns the current state.
pub const LATEST: u32 = u32::MAX - 3;

/// Value of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Number of snapshots taken so far.
    pub stamp: u32,
    /// Number of live host snapshots.
    pub pins: u32,
}

impl Time {
    /// Decodes the clock's word.
    #[device]
    pub const fn of(word: u64) -> Self {
        Self { stamp: word as u32, pins: (word >> 32) as u32 }
    }
}

/// Increment of the clock's word that counts one more live host snapshot.
pub const PIN: u64 = 1 << 32;

/// Raw parts of a [`Versions`] view.
#[derive(Clone, Copy, Debug)]
pub struct RawVersions {
    /// The clock's word: see [`Time`].
    pub clock: *mut u64,
    /// Value of the clock, where it does not move while kernels run.
    pub now: u32,
    /// One more than the stamp of the newest live host snapshot; 0 if there is none.
    pub since: u32,
    /// Timestamp at which kernels read: [`LATEST`], a snapshot's stamp, or [`FROM_PIN`].
    pub at: u32,
    /// Location of the read timestamp if `at` is [`FROM_PIN`].
    pub pin: *mut u32,
    /// Memory of the epochs.
    pub epochs: *mut u64,
    /// Number of participant slots of the epochs.
    pub places: u32,
    /// Capacity of each bag of the epochs, in items.
    pub room: u32,
}

impl RawVersions {
    /// The parts of a tree without versions.
    pub const NOTHING: Self = Self {
        clock: core::ptr::null_mut(),
        now: 0,
        since: 0,
        at: LATEST,
        pin: core::ptr::null_mut(),
        epochs: core::ptr::null_mut(),
        places: 0,
        room: 0,
    };
}

/// Value of [`RawVersions::at`] that makes kernels read at the timestamp in a pin's word in device memory.
pub const FROM_PIN: u32 = u32::MAX;

/// Versioning of leaves.
#[device]
pub trait Versions: Copy + core::fmt::Debug + Send + Sync + 'static {
    /// Whether leaves have versions.
    const VERSIONED: bool;
    /// Whether snapshots are taken while kernels run.
    const CLOCK_MOVES: bool;

    /// Creates the view that kernels take.
    ///
    /// # Safety
    /// - The pointers lead to words of device memory that live as long as the view is used: the clock's, the
    ///   pin's, and those of [`Epochs::new`](crate::reclaim::Epochs::new), which states its own requirements.
    unsafe fn new(parts: RawVersions) -> Self;

    /// Returns the timestamp at which the view reads.
    fn read_timestamp(self) -> u32;

    /// Returns the same view, reading at another timestamp.
    fn at_timestamp(self, at: u32) -> Self;

    /// Returns the stamp below which versions must not be changed in place.
    fn protected_below(self) -> u32;

    /// Reads the clock.
    fn time(self) -> Time;

    /// Advances the clock if it still has the value `from`, and returns that value.
    ///
    /// # Errors
    /// [`Err`] with the current value, if it differs from `from`.
    fn advance_clock(self, from: u64) -> Result<u64, u64>;

    /// Enters an epoch, by all threads of the participant (see [`Group`](crate::reclaim::Group)).
    ///
    /// # Safety
    /// - `pool` is the one from which the versions' copies are allocated.
    unsafe fn enter<P: Pool>(self, _pool: P) {}

    /// Leaves the epoch.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    unsafe fn leave<P: Pool>(self, _pool: P) {}

    /// Leaves the epoch and enters another one. Persistent kernels do so between two rounds.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    unsafe fn repin<P: Pool>(self, _pool: P) {}

    /// Retires a copy, by the calling lane alone: it is freed when no participant can hold it any more. A
    /// copy that is not retired stays linked behind its leaf until a sweep finds that no snapshot can read
    /// it.
    ///
    /// # Safety
    /// - As for [`Self::enter`].
    /// - `copy` is a live copy of these versions. A reader that starts later does not need it. It is retired
    ///   once.
    unsafe fn retire<P: Pool>(self, _pool: P, _copy: Handle) {}
}

/// No versions: the plain tree.
#[derive(Clone, Copy, Debug)]
pub struct Unversioned;

#[device]
impl Versions for Unversioned {
    const VERSIONED: bool = false;
    const CLOCK_MOVES: bool = false;

    unsafe fn new(_parts: RawVersions) -> Self {
        Self
    }

    fn read_timestamp(self) -> u32 {
        LATEST
    }

    fn at_timestamp(self, _at: u32) -> Self {
        self
    }

    fn protected_below(self) -> u32 {
        0
    }

    fn time(self) -> Time {
        Time::of(0)
    }

    fn advance_clock(self, from: u64) -> Result<u64, u64> {
        Ok(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_has_a_stamp_and_pins() {
        assert_eq!(Time::of(3 * PIN + 5), Time { stamp: 5, pins: 3 });
    }
}
