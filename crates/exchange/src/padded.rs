//! Exchanges of small batches: one slot of fixed size for each pair of ranks, and no wait of the host.
//!
//! # Layout of a slot
//!
//! ```text
//! bytes 0 to 7    number of elements that the sender has for the receiver, a u64
//! bytes 8 to 15   shape: operation and sizes, a u64 (`Exchange::slot_shape`)
//! bytes 16 on     the first elements, as many as fit
//! ```
//!
//! The count may exceed the capacity. Sender and receiver then both know that more elements remain, and all
//! ranks learn it when they compare the counts in [`Exchange::rounds`].
use crate::transport::{self, Lane, RoundPlan, check_equal};
use crate::{Error, Exchange, Result};
use bytemuck::Pod;
use gpu::{Buffer, Device, Slice, Stream, Tier};
use std::marker::PhantomData;

/// Bytes of a slot before its elements.
pub const SLOT_HEADER: usize = 16;

/// Pinned memory for the headers of the slots that have arrived. The host reads it after a wait for the
/// stream, because methods of buffers would wait for the whole device.
#[derive(Debug)]
pub struct Headers(Buffer<u64>);

impl Headers {
    pub fn new(device: &Device, ranks: usize) -> Result<Self> {
        Ok(Self(device.buffer_on(Tier::Pinned, ranks * SLOT_HEADER / size_of::<u64>())?))
    }

    /// Submits copies of the headers of slots of `slot` bytes.
    fn download(&self, stream: &Stream, slots: Slice<'_, u8>, slot: usize) -> Result<()> {
        let headers = self.0.slice(..)?.cast::<u8>()?;
        for rank in 0..slots.len() / slot {
            let (to, from) = (rank * SLOT_HEADER, rank * slot);
            let to = headers.slice(to..to + SLOT_HEADER)?;
            // SAFETY: the window and this memory live as long as the exchange, whose operations use both in
            // the order of the stream; the host reads after a wait.
            unsafe { transport::copy(stream, to, slots.slice(from..from + SLOT_HEADER)?)? };
        }
        Ok(())
    }

    /// Returns the count and the shape of each header. The stream has executed the copies.
    fn read(&self) -> Vec<[u64; 2]> {
        let Some(start) = self.0.host_pointer() else { return Vec::new() };
        // SAFETY: the host can access these initialised words, and no copy to them runs.
        let words = unsafe { std::slice::from_raw_parts(start.as_ptr(), self.0.len()) };
        words.chunks_exact(2).map(|header| [header[0], header[1]]).collect()
    }
}

/// The slots that have arrived in a padded exchange of elements `T` with answers `A`. Made by
/// [`Exchange::padded`].
///
/// If `A` has a size, the caller calls [`answer`](Self::answer) once. Dropping it before ends the exchange.
#[derive(Debug)]
pub struct Padded<'a, T, A> {
    exchange: &'a mut Exchange,
    shape: u64,
    owes_answer: bool,
    of: PhantomData<(T, A)>,
}

/// Padded exchanges.
impl Exchange {
    /// Returns the number of elements of a slot.
    pub fn slot_capacity<T: Pod, A: Pod>(&self) -> usize {
        let element = size_of::<T>().max(size_of::<A>()).max(1);
        (self.limits().slot_bytes - SLOT_HEADER) / element
    }

    /// Returns the shape that the header of each slot has: a number made of the operation, which is the
    /// caller's choice, and of the sizes of `T` and `A`.
    pub fn slot_shape<T: Pod, A: Pod>(operation: u32) -> u64 {
        u64::from(operation) << 32 | (size_of::<T>() as u64 & 0xffff) << 16 | size_of::<A>() as u64 & 0xffff
    }

    /// Writes a batch that is grouped by owner to slots: headers, and the first elements for each rank. A
    /// kernel that partitions a batch can write slots itself.
    ///
    /// Cost: waits for the device, and copies twice for each rank.
    ///
    /// # Errors
    /// [`Error::Arguments`] unless `slots` has the bytes of N slots and `batch` the elements of `counts`;
    /// [`Error::Device`] when a copy fails.
    pub fn fill_slots<T: Pod, A: Pod>(
        &self,
        operation: u32,
        slots: &mut Buffer<u8>,
        batch: Slice<'_, T>,
        counts: &[usize],
    ) -> Result<()> {
        self.check_slots(slots.len())?;
        self.check_counts(counts, batch.len())?;
        let (shape, capacity) = (Self::slot_shape::<T, A>(operation), self.slot_capacity::<T, A>());
        let mut first = 0;
        for (rank, count) in counts.iter().enumerate() {
            let at = rank * self.limits().slot_bytes;
            slots.write_at(at, bytemuck::bytes_of(&[*count as u64, shape]))?;
            let elements = batch.slice(first..first + (*count).min(capacity))?;
            slots.copy_at(at + SLOT_HEADER, elements.cast::<u8>()?)?;
            first += count;
        }
        Ok(())
    }

    /// Sends slot `i` of `slots` to rank `i`, for all ranks. The host waits for no device: it submits the
    /// exchange to the [stream](Self::stream), and later work there can use the slots that arrive.
    ///
    /// Cost: each rank sends N - 1 slots, whatever their counts.
    ///
    /// ```
    /// use exchange::{Exchange, Limits, Meeting};
    ///
    /// let device = gpu::Device::emulator(Default::default());
    /// let mut exchange = Exchange::emulated(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// let mut slots = device.zeroed::<u8>(exchange.limits().slot_bytes)?;
    /// let batch = device.from_slice(&[5u32, 6, 7])?;
    /// exchange.fill_slots::<u32, ()>(1, &mut slots, batch.slice(..)?, &[3])?;
    /// let mut arrived = exchange.padded::<u32, ()>(1, slots.slice(..)?)?;
    /// assert_eq!(arrived.counts()?, [3]);
    /// assert_eq!(arrived.part(0)?.slice(..3)?.read()?, [5, 6, 7]);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Arguments`] unless `slots` has the bytes of N slots; [`Error::PeerLost`] when a rank is lost;
    /// [`Error::Mismatch`] if operation or types differ between ranks (by NCCL, [`Padded::counts`] finds
    /// this); [`Error::Device`] when a device failed.
    pub fn padded<'a, T: Pod, A: Pod>(
        &'a mut self,
        operation: u32,
        slots: Slice<'_, u8>,
    ) -> Result<Padded<'a, T, A>> {
        self.check_alive()?;
        if let Err(error) = self.check_slots(slots.len()) {
            // The others have no step in which this rank could refuse.
            self.abandon();
            return Err(error);
        }
        let shape = Self::slot_shape::<T, A>(operation);
        self.move_slots(Lane::Even, shape, slots)?;
        Ok(Padded { exchange: self, shape, owes_answer: size_of::<A>() > 0, of: PhantomData })
    }

    fn check_slots(&self, bytes: usize) -> Result<()> {
        let expected = self.ranks() * self.limits().slot_bytes;
        let text = || format!("{} slots of {} bytes", self.ranks(), self.limits().slot_bytes);
        if bytes == expected {
            Ok(())
        } else {
            Err(Error::arguments("the bytes of the slots", bytes, text()))
        }
    }

    fn move_slots(&mut self, lane: Lane, shape: u64, slots: Slice<'_, u8>) -> Result<()> {
        let (ranks, stride) = (self.ranks(), self.limits().slot_bytes);
        let slot = |rank: usize| slots.slice(rank * stride..(rank + 1) * stride);
        let sends = (0..ranks).map(slot).collect::<gpu::Result<_>>()?;
        let receives = vec![stride; ranks];
        self.step(|transport, deadline| {
            let after = transport.stream().clone();
            let plan = RoundPlan { lane, shape, sends, receives, stride, after, deadline };
            transport.begin(plan)?.order(transport.stream())
        })?;
        self.count_round((ranks - 1) * stride);
        Ok(())
    }
}

impl<T: Pod, A: Pod> Padded<'_, T, A> {
    /// Returns the slots that have arrived, in the order of the senders: see the layout in
    /// [`SLOT_HEADER`].
    ///
    /// # Errors
    /// [`Error::Device`] when the window is smaller, which does not happen.
    pub fn slots(&self) -> Result<Slice<'_, u8>> {
        let bytes = self.exchange.ranks() * self.exchange.limits().slot_bytes;
        Ok(self.exchange.transport().window(Lane::Even).slice(..bytes)?)
    }

    /// Returns the elements of the slot of a sender. Only as many as its count says were written.
    ///
    /// # Errors
    /// [`Error::Device`] for a rank that does not exist.
    pub fn part(&self, from: usize) -> Result<Slice<'_, T>> {
        let (slot, element) = (self.exchange.limits().slot_bytes, size_of::<T>());
        let begin = from * slot + SLOT_HEADER;
        let bytes = element * self.exchange.slot_capacity::<T, A>();
        Ok(self.slots()?.slice(begin..begin + bytes)?.cast()?)
    }

    /// Returns the slots of the answers of all ranks, after sending slot `i` of `answers` to rank `i`.
    /// Answers have the layout of requests, and their headers are not used.
    ///
    /// # Errors
    /// As [`Exchange::padded`]; [`Error::Arguments`] also if there are answers already, or `A` has no size.
    pub fn answer(&mut self, answers: Slice<'_, u8>) -> Result<Slice<'_, u8>> {
        let is_due = std::mem::take(&mut self.owes_answer);
        let checked = self.exchange.check_slots(answers.len());
        if let (Err(error), _) | (Ok(()), Some(error)) =
            (checked, (!is_due).then(|| Error::arguments("answers", answers.len(), "none are due")))
        {
            self.exchange.abandon();
            return Err(error);
        }
        self.exchange.move_slots(Lane::Answer, self.shape, answers)?;
        Ok(self.exchange.transport().window(Lane::Answer).slice(..answers.len())?)
    }

    /// Waits for the device, and returns the number of elements that each rank has for this one. If one
    /// exceeds [`Exchange::slot_capacity`], the remaining elements go by [`Exchange::rounds`].
    ///
    /// # Errors
    /// [`Error::Mismatch`] if the headers have different shapes; [`Error::PeerLost`] when the device does not
    /// complete the exchange before the deadline; [`Error::Device`] when a device failed.
    pub fn counts(&mut self) -> Result<Vec<u64>> {
        let slot = self.exchange.limits().slot_bytes;
        self.exchange.headers().download(self.exchange.stream(), self.slots()?, slot)?;
        self.exchange.wait()?;
        let headers = self.exchange.headers().read();
        check_equal("shape of a slot", headers.iter().map(|header| header[1]))?;
        Ok(headers.iter().map(|header| header[0]).collect())
    }
}

impl<T, A> Drop for Padded<'_, T, A> {
    fn drop(&mut self) {
        if self.owes_answer {
            self.exchange.abandon();
        }
    }
}
