//! Batches whose outcomes are known, on the device.
use crate::map::check;
use crate::{Outcome, Result};
use gpu::{Buffer, Device};

/// The edges of a batch, and the codes of their outcomes.
pub struct Executed {
    pub sources: Buffer<u32>,
    pub targets: Buffer<u32>,
    pub outcomes: Buffer<u8>,
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
}
