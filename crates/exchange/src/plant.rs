//! Planted faults, by which tests show that they would find such a fault.

/// A fault that a [`Meeting`](crate::Meeting) plants in one step of one rank.
///
/// A step is a point at which all ranks meet. Step 0 makes the exchange; [`Exchange`](crate::Exchange) lists
/// the steps of its operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Planted {
    /// The rank.
    pub rank: usize,
    /// The step, counted from 0.
    pub step: u64,
    /// The fault.
    pub fault: Fault,
}

/// Kind of a planted fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The rank ends, and the operating system or the exchange notices it.
    Die,
    /// The rank stops, and nothing notices it but the others' deadline.
    Stall,
    /// The rank stops in this step, after it has learnt where its data go in the memory of the others. It
    /// goes on when they have given it up.
    Pause,
    /// The data that the rank receives in this step are not written to its window.
    /// In an exchange without windows, the data that it sends are not written.
    DropRound,
    /// The data that the rank receives in this step are written to the part of the next source.
    /// In an exchange without windows, so are the data that it sends.
    WrongSlot,
    /// The number of elements for the next rank, which the rank tells the others in this step, is one too
    /// large.
    CountOffByOne,
}
