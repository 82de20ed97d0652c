//! The addresses of rows that a batch returned, and the check of the rows there.
use super::inputs::{Inputs, RowOf};
use crate::machine::Gpu;
use anyhow::{Result, ensure};
use gpu::{Buffer, Device};

/// Initial value of addresses: no row is there.
const UNWRITTEN: u8 = 0xff;

/// Maximum number of bytes between the first row and the end of the last one that are read at once.
const MOST_BYTES: u64 = 1 << 28;

/// Output of `get_ref`.
pub struct Addresses {
    device: Device,
    buffer: Buffer<u64>,
}

impl Addresses {
    /// Allocates room for so many addresses.
    pub fn new(gpu: &Gpu, len: usize) -> Result<Self> {
        Ok(Self { device: gpu.device.clone(), buffer: gpu.device.filled(len, UNWRITTEN)? })
    }

    /// Returns the output.
    pub fn buffer(&mut self) -> &mut Buffer<u64> {
        &mut self.buffer
    }

    /// Overwrites the addresses.
    pub fn forget(&mut self) -> Result<()> {
        Ok(self.buffer.fill_bytes(UNWRITTEN)?)
    }

    /// Checks that each address is 0 or that of a row of the source `of` states.
    ///
    /// # Errors
    /// Returns [`anyhow::Error`] for any other address or row.
    pub fn verify(&self, inputs: &Inputs, dim: usize, of: impl Fn(usize) -> RowOf) -> Result<()> {
        let mut sorted: Vec<(u64, usize)> = Vec::with_capacity(self.buffer.len());
        for (index, address) in self.buffer.read()?.into_iter().enumerate() {
            let is_absent = of(index) == RowOf::Unwritten;
            ensure!((address == 0) == is_absent, "element {index}: address {address}, {:?}", of(index));
            ensure!(address != u64::MAX, "element {index}: its address was not written");
            if !is_absent {
                sorted.push((address, index));
            }
        }
        sorted.sort_unstable();
        let twice = sorted.windows(2).find(|pair| pair[0].0 + 4 * dim as u64 > pair[1].0);
        ensure!(twice.is_none(), "rows overlap: {twice:?} are addresses and elements");
        let mut rest = &sorted[..];
        while let Some((first, _)) = rest.first() {
            let (chunk, others) = rest.split_at(rest.partition_point(|row| row.0 - first < MOST_BYTES));
            self.check_rows(chunk, inputs, dim, &of)?;
            rest = others;
        }
        Ok(())
    }

    /// Checks rows with ascending addresses.
    fn check_rows(
        &self,
        rows: &[(u64, usize)],
        inputs: &Inputs,
        dim: usize,
        of: &impl Fn(usize) -> RowOf,
    ) -> Result<()> {
        let (first, last) = (rows[0].0, rows[rows.len() - 1].0);
        let len = (last - first) as usize / 4 + dim;
        // SAFETY: both ends are rows of the table, whose rows are one allocation on one tier, which lives
        // longer than this buffer. No launch writes them meanwhile, because the verification waits.
        let memory = unsafe { self.device.wrap_memory(first as usize as *mut f32, len)? };
        let elements = memory.read()?;
        for (address, index) in rows {
            let at = (address - first) as usize / 4;
            let row = &elements[at..at + dim];
            ensure!(
                inputs.is_row(of(*index), row),
                "element {index}: the row at its address is {row:?}, not {:?}",
                of(*index)
            );
        }
        Ok(())
    }
}
