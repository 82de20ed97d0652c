//! Device memory for batches on host slices. It is kept for the next call: allocating and freeing memory take
//! as long as a batch of a million elements, and freeing waits for the device.
use crate::Result;
use crate::map::host::upload_to;
use crate::map::launch::{Batch, BatchOp};
use crate::map::run::Results;
use crate::map::{Key, Value, Word};
use bytemuck::Pod;
use gpu::{Buffer, Device};

/// The columns of a batch on the device, each at least as long as the batch if the operation needs it.
pub struct Columns<K, V> {
    keys: Buffer<K>,
    arguments: Buffer<V>,
    results: Buffer<V>,
    outcomes: Buffer<u8>,
}

impl<K: Word, V: Word> Columns<K, V> {
    /// Creates columns without memory.
    pub fn new(device: &Device) -> Result<Self> {
        let (keys, arguments) = (device.buffer(0)?, device.buffer(0)?);
        Ok(Self { keys, arguments, results: device.buffer(0)?, outcomes: device.buffer(0)? })
    }

    /// Copies elements to the device, and returns them as a batch, which is valid until the next call.
    /// `arguments` may be empty. The device executes nothing that accesses the columns.
    pub fn fill<A: Key<Word = K>, B: Value<Word = V>>(
        &mut self,
        op: BatchOp,
        keys: &[A],
        arguments: &[B],
    ) -> Result<Batch<K, V>> {
        let (len, results) = (keys.len(), if returns(op) { keys.len() } else { 0 });
        reserve(&mut self.keys, len)?;
        reserve(&mut self.arguments, arguments.len())?;
        reserve(&mut self.results, results)?;
        reserve(&mut self.outcomes, len)?;
        upload_to(&mut self.keys, keys, A::encode)?;
        upload_to(&mut self.arguments, arguments, B::encode)?;
        Ok(Batch {
            arguments: self.arguments.global().part(0, arguments.len()),
            results: self.results.global().part(0, results),
            outcomes: self.outcomes.global().part(0, len),
            ..Batch::new(op, self.keys.global().part(0, len))
        })
    }

    /// Copies the results of the last batch, which had `len` elements and is executed, to the host.
    pub fn results(&self, op: BatchOp, len: usize) -> Result<Results<V>> {
        Results::of_device((&self.outcomes, len), (&self.results, if returns(op) { len } else { 0 }))
    }

    /// Frees the memory. Dropping a buffer waits for the device.
    pub fn release(&mut self) -> Result<()> {
        *self = Self::new(self.keys.device())?;
        Ok(())
    }

    /// Returns the bytes of device memory.
    pub fn memory_usage(&self) -> usize {
        let of_values = self.arguments.byte_len() + self.results.byte_len();
        self.keys.byte_len() + of_values + self.outcomes.byte_len()
    }
}

/// Returns whether an operation returns values.
fn returns(op: BatchOp) -> bool {
    matches!(op, BatchOp::Get)
}

/// Makes a buffer at least `len` elements long, and an eighth longer if there is memory for that, so that
/// slightly longer batches do not allocate each time. The elements are lost.
fn reserve<T: Pod>(buffer: &mut Buffer<T>, len: usize) -> Result<()> {
    if buffer.len() >= len {
        return Ok(());
    }
    let device = buffer.device().clone();
    *buffer = device.buffer(0)?; // frees the memory, which the new one may need
    *buffer = device.buffer(len.saturating_add(len / 8)).or_else(|_| device.buffer(len))?;
    Ok(())
}
