//! Direct exchanges: data move in one step, from the senders' memory to that of the receivers.
//!
//! Rounds bound the memory of an exchange, and let a caller use the elements of a round while the next one
//! moves. An all-to-all needs neither: its caller has memory for everything, and waits for all of it. So each
//! piece is copied once, to its place, and no window is used.
use crate::rounds::{Header, check_headers, offsets};
use crate::transport::DirectPlan;
use crate::{Error, Exchange, Result};
use bytemuck::Pod;
use gpu::{Slice, SliceMut};

/// Direct exchanges.
impl Exchange {
    /// Sends each element of `send` to its owner, and writes what arrives to the beginning of `into`, in the
    /// order of the senders' ranks. Returns the number of elements from each rank. `send` is grouped by
    /// owner, and the `i`-th of `counts` is the number of elements for rank `i`. `operation` is a number of
    /// the caller's choice that must be the same on all ranks.
    ///
    /// The result is there when the [stream](Self::stream) has executed the call, and `send` must not change
    /// before. After an error the contents of `into` are undefined.
    ///
    /// Cost: each rank tells the others 8 · (N + 5) bytes. Then each element is copied once, from `send` to
    /// `into`. By NCCL, the call waits for the device once, for the counts;
    /// [`all_to_all_sized`](Self::all_to_all_sized) does not.
    ///
    /// # Errors
    /// [`Error::Arguments`] unless `send` and `into` belong to this rank's device, `send` has as many
    /// elements as `counts`, which has a number per rank, and `T` has a size and fits a part of a window;
    /// [`Error::Refused`] if this is so on another rank; [`Error::Mismatch`] if operation or types differ
    /// between ranks; [`Error::NoRoom`], on all ranks, if `into` of a rank is too small; [`Error::PeerLost`]
    /// when a rank is lost; [`Error::Damaged`] if a rank sends another size than it announced;
    /// [`Error::Device`] when a device failed. After the last three the exchange is at its end.
    pub fn all_to_all<T: Pod>(
        &mut self,
        operation: u32,
        send: Slice<'_, T>,
        counts: &[usize],
        into: SliceMut<'_, T>,
    ) -> Result<Vec<usize>> {
        let checked = self.check_direct(&send, counts, &into);
        let moved = self.move_direct(operation, (send, counts), (&into, None), checked.is_err());
        match (moved, checked) {
            (Err(Error::Refused { .. }), Err(refusal)) => Err(refusal),
            (moved, _) => moved,
        }
    }

    /// As [`all_to_all`](Self::all_to_all), for a caller that knows how many elements arrive: the `i`-th of
    /// `receives` is the number of those from rank `i`. For operations whose counts all ranks can compute, or
    /// have [told each other](Self::agree) before.
    ///
    /// Between threads, all ranks compare `receives` with `counts` before data move. By NCCL nothing is
    /// compared: if a rank sends another number of elements than the receiver expects, or executes another
    /// operation, the elements may be wrong, or the call waits until the deadline.
    ///
    /// Cost: as `all_to_all`; by NCCL, no step for the counts, and no wait for the device.
    ///
    /// ```
    /// use exchange::{Exchange, Limits, Meeting};
    ///
    /// let device = gpu::Device::auto();
    /// let mut exchange = Exchange::peer(&Meeting::new(1)?, 0, &device, Limits::default())?;
    /// let (send, mut into) = (device.from_slice(&[5u32, 6, 7])?, device.zeroed::<u32>(3)?);
    /// exchange.all_to_all_sized(1, send.slice(..)?, &[3], into.slice_mut(..)?, &[3])?;
    /// exchange.wait()?; // since the host reads
    /// assert_eq!(into.read()?, [5, 6, 7]);
    /// # Ok::<(), exchange::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Arguments`] as for `all_to_all`, and unless `receives` has a number per rank and `into` has
    /// room for their sum; [`Error::Damaged`], on all ranks, if a rank sends another number of elements than
    /// the receiver expects; [`Error::Mismatch`], [`Error::PeerLost`] and [`Error::Device`] as for
    /// `all_to_all`. After any error the exchange is at its end.
    pub fn all_to_all_sized<T: Pod>(
        &mut self,
        operation: u32,
        send: Slice<'_, T>,
        counts: &[usize],
        into: SliceMut<'_, T>,
        receives: &[usize],
    ) -> Result<()> {
        self.check_alive()?;
        let checked = self.check_direct(&send, counts, &into);
        let moved = checked
            .and_then(|()| self.check_receives(receives, into.len()))
            .and_then(|()| self.move_direct(operation, (send, counts), (&into, Some(receives)), false));
        moved.map(drop).inspect_err(|error| self.mark_lost(error))
    }

    /// Moves a batch that fits its counts, unless it is refused. `into` is borrowed mutably by the caller.
    fn move_direct<T: Pod>(
        &mut self,
        operation: u32,
        (send, counts): (Slice<'_, T>, &[usize]),
        (into, receives): (&SliceMut<'_, T>, Option<&[usize]>),
        is_refused: bool,
    ) -> Result<Vec<usize>> {
        let (rank, ranks, element) = (self.rank(), self.ranks(), size_of::<T>());
        let capacity = into.len() as u64;
        let header = Header { operation, element, answer: 0, is_refused, capacity, receives, counts };
        let (header, send) = (header.words(ranks), send.cast::<u8>());
        let sends = match (is_refused, send) {
            (true, _) => Vec::new(),
            (false, send) => pieces(send?, counts, element)?,
        };
        let to_others = sends.iter().enumerate().map(|(to, piece)| if to == rank { 0 } else { piece.len() });
        let (to_others, receives) = (to_others.sum(), receives.map(<[usize]>::to_vec));
        let into = into.slice(..)?.cast()?;
        let check = check_headers;
        let from = self.step(|transport, deadline| {
            transport.direct(DirectPlan { header, check, sends, receives, element, into, deadline })
        })?;
        self.count_round(to_others);
        Ok(from)
    }

    fn check_direct<T: Pod>(
        &self,
        send: &Slice<'_, T>,
        counts: &[usize],
        into: &SliceMut<'_, T>,
    ) -> Result<()> {
        self.check_arguments(send, counts, size_of::<T>())?;
        self.check_device("the ordinal of the device of the results", into.device())
    }

    fn check_receives(&self, receives: &[usize], room: usize) -> Result<()> {
        if receives.len() != self.ranks() {
            let expected = format!("there are {} ranks", self.ranks());
            return Err(Error::arguments("the number of sizes", receives.len(), expected));
        }
        let sum = receives.iter().try_fold(0usize, |sum, count| sum.checked_add(*count));
        match sum.filter(|sum| *sum <= room) {
            Some(_) => Ok(()),
            None => {
                let expected = format!("there is room for {room} elements");
                Err(Error::arguments("the sum of the sizes", sum.unwrap_or(usize::MAX), expected))
            }
        }
    }
}

/// Returns the bytes for each rank.
fn pieces<'a>(send: Slice<'a, u8>, counts: &[usize], element: usize) -> Result<Vec<Slice<'a, u8>>> {
    let begins = offsets(counts);
    let piece = |(begin, count): (&usize, &usize)| send.slice(element * begin..element * (begin + count));
    Ok(begins.iter().zip(counts).map(piece).collect::<gpu::Result<_>>()?)
}
