//! Detectors of the exploring mode that need the happens-before order.
//!
//! (Missing lanes are detected where lanes meet; bad addresses and uninitialised reads where memory is
//! accessed.)
pub mod clock;
pub mod order;
pub mod race;
pub mod stale;
pub mod versions;
