//! Detectors of the exploring mode that need to know what is ordered before what.
//!
//! (Missing lanes are found where lanes meet, bad addresses and unwritten memory where memory is accessed.)
pub mod clock;
pub mod order;
pub mod race;
pub mod stale;
pub mod versions;
