//! Batches whose outcomes are known, on the device.
use crate::map::batches::check_same_device;
use crate::map::check;
use crate::{Outcome, Result};
use gpu::{Buffer, Device, Slice};

/// The edges of a batch, and the codes of their outcomes.
pub struct Executed {
    sources: Buffer<u32>,
    targets: Buffer<u32>,
    outcomes: Buffer<u8>,
}

impl Executed {
    /// Copies a batch to the device.
    pub fn new(device: &Device, (sources, targets): (&[u32], &[u32]), outcomes: &[Outcome]) -> Result<Self> {
        check("targets", sources.len(), targets.len())?;
        check("outcomes", sources.len(), outcomes.len())?;
        let codes: Vec<u8> = outcomes.iter().map(|&outcome| outcome as u8).collect();
        let (sources, targets) = (device.from_slice(sources)?, device.from_slice(targets)?);
        Ok(Self { sources, targets, outcomes: device.from_slice(&codes)? })
    }

    /// Returns the batch as slices.
    pub fn slices(&self) -> ExecutedSlices<'_> {
        let Self { sources, targets, outcomes } = self;
        ExecutedSlices { sources: sources.into(), targets: targets.into(), outcomes: outcomes.into() }
    }
}

/// As [`Executed`], in memory of the caller.
#[derive(Clone, Copy)]
pub struct ExecutedSlices<'a> {
    pub sources: Slice<'a, u32>,
    pub targets: Slice<'a, u32>,
    pub outcomes: Slice<'a, u8>,
}

impl<'a> ExecutedSlices<'a> {
    /// Checks lengths and devices, and waits for what writes the slices.
    pub fn new(
        device: &Device,
        (sources, targets): (Slice<'a, u32>, Slice<'a, u32>),
        outcomes: Slice<'a, u8>,
    ) -> Result<Self> {
        check("targets", sources.len(), targets.len())?;
        check("outcomes", sources.len(), outcomes.len())?;
        let devices = [sources.device(), targets.device(), outcomes.device()];
        let names = ["sources", "targets", "outcomes"].into_iter();
        names.zip(devices).try_for_each(|(name, found)| check_same_device(device, name, found))?;
        device.synchronize()?;
        Ok(Self { sources, targets, outcomes })
    }
}
