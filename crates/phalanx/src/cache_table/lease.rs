//! Leases: rows that are neither evicted nor removed until their lease ends.
use super::queue::{Mutex, MutexGuard, Queue, drop_ended};
use crate::Result;
use gpu::{Buffer, Device, Event, Stream};
use simt::GlobalSlice;
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

/// A lease of the rows that a call of [`Batches::get_ref`](super::Batches::get_ref) found.
///
/// Until it is dropped, no batch evicts or removes their keys: an insertion that finds no other victim is
/// [refused](crate::Outcome::Refused), and so is a removal. The lease ends behind the work that its stream
/// has when it is dropped. Work of other streams that reads the rows must have ended before.
///
/// ```
/// use phalanx::CacheTable;
///
/// let table = CacheTable::<u64, f32>::builder().capacity(128).build()?;
/// let (device, stream) = (table.device(), table.device().stream()?);
/// let (keys, mut outcomes) = (device.from_slice(&[7u64])?, device.zeroed::<u8>(1)?);
/// assert!(table.insert(&[7], &[0.5])?.all_placed());
/// let lease = table.on(&stream).get_ref(&keys, &mut device.zeroed(1)?, &mut outcomes)?;
/// assert_eq!((lease.number(), table.remove(&[7])?.as_slice()), (1, &[false][..]));
/// drop(lease);
/// assert_eq!(table.remove(&[7])?, [true]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// A lease that is leaked, by [`std::mem::forget`] for example, never ends:
/// [`CacheTable::leases`](super::CacheTable::leases) reports it.
#[derive(Debug)]
#[must_use = "the lease ends when it is dropped"]
pub struct Lease<'a> {
    leases: &'a Leases,
    stream: Stream,
    number: u64,
}

impl Lease<'_> {
    /// Returns the number of the lease: later ones have higher numbers.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        self.leases.end(self.number, &self.stream);
    }
}

/// The leases of a table.
#[derive(Debug)]
pub struct Leases<E = Event>(Mutex<State<E>>);

#[derive(Debug)]
struct State<E> {
    /// Positions of the slots of each lease that has not ended, by its number.
    current: BTreeMap<u64, Buffer<u32>>,
    /// Number of leases so far.
    count: u64,
    /// Buffers of leases that have ended, for later ones, and the ends of the work under these leases: the
    /// launch that writes a buffer may not have run yet.
    spare: Vec<(Buffer<u32>, Arc<E>)>,
    /// Ends of the streams' work under leases that have ended, for which no batch of inserters waits yet.
    ended: Vec<Arc<E>>,
    /// A bit for each slot, and whether the bits are those of the current leases.
    bits: Option<(Buffer<u32>, bool)>,
}

/// Number of buffers kept for later leases.
const MOST_SPARE: usize = 8;

impl Leases {
    /// Begins a lease of at most `len` slots, whose positions `submit` writes by a launch on the stream. The
    /// caller has entered the launch's group: this state is locked after that of the groups, never before.
    pub fn begin(
        &self,
        stream: &Stream,
        len: usize,
        submit: impl FnOnce(GlobalSlice<u32>) -> Result<()>,
    ) -> Result<Lease<'_>> {
        let number = self.add(stream.device(), stream, len, submit)?;
        Ok(Lease { leases: self, stream: stream.clone(), number })
    }
}

impl<E> Default for Leases<E> {
    fn default() -> Self {
        let (current, spare, ended) = (BTreeMap::new(), Vec::new(), Vec::new());
        Self(Mutex::new(State { current, count: 0, spare, ended, bits: None }))
    }
}

impl<E> Leases<E> {
    // The state is valid even after a panic.
    fn state(&self) -> MutexGuard<'_, State<E>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a lease: see [`begin`](Leases::begin). Returns its number.
    pub(super) fn add(
        &self,
        device: &Device,
        stream: &impl Queue<Event = E>,
        len: usize,
        submit: impl FnOnce(GlobalSlice<u32>) -> Result<()>,
    ) -> Result<u64> {
        let mut state = self.state();
        let fits = state.spare.iter().position(|(buffer, _)| buffer.len() == len);
        let positions = match fits.map(|place| state.spare.remove(place)) {
            Some((buffer, end)) => {
                stream.wait(&end)?;
                buffer
            }
            None => device.buffer(len)?,
        };
        submit(positions.global())?;
        state.count += 1;
        let number = state.count;
        state.current.insert(number, positions);
        if let Some((_, is_current)) = &mut state.bits {
            *is_current = false;
        }
        Ok(number)
    }

    /// Ends a lease behind the work of its stream. If the stream's end cannot be recorded, the lease stays.
    pub(super) fn end<Q: Queue<Event = E>>(&self, number: u64, stream: &Q) {
        let mut state = self.state();
        let Ok(end) = stream.record().map(Arc::new) else { return };
        // No batch of inserters may come for a long time. Events of a lost device stay.
        let _ = drop_ended::<Q, _>(&mut state.ended);
        state.ended.push(end.clone());
        if let Some(positions) = state.current.remove(&number)
            && state.spare.len() < MOST_SPARE
        {
            state.spare.push((positions, end));
        }
        if let Some((_, is_current)) = &mut state.bits {
            *is_current = false;
        }
    }

    /// Returns the numbers of the leases that have not ended.
    pub fn numbers(&self) -> Vec<u64> {
        self.state().current.keys().copied().collect()
    }

    /// Returns the device memory in use, in bytes.
    pub fn memory_usage(&self) -> usize {
        let state = self.state();
        let spare = state.spare.iter().map(|(buffer, _)| buffer);
        let positions = state.current.values().chain(spare).map(Buffer::byte_len);
        positions.sum::<usize>() + state.bits.as_ref().map_or(0, |(bits, _)| bits.byte_len())
    }

    /// Lets the stream wait for the work under leases that have ended. Returns the bits of the `slots` slots
    /// for the kernels that the stream executes next: no words if there are no leases. No other launch that
    /// uses the bits may run at the same time.
    pub fn bits(
        &self,
        device: &Device,
        stream: &impl Queue<Event = E>,
        slots: usize,
    ) -> Result<Option<GlobalSlice<u32>>> {
        let mut state = self.state();
        for event in &state.ended {
            stream.wait(event)?;
        }
        state.ended.clear();
        if state.current.is_empty() {
            return Ok(None);
        }
        let State { current, bits, .. } = &mut *state;
        // A table that has grown has more slots.
        let fits = bits.take().filter(|(words, _)| words.len() == slots.div_ceil(32));
        let (words, is_current) = bits.insert(match fits {
            Some(bits) => bits,
            None => (device.buffer(slots.div_ceil(32))?, false),
        });
        let leased = words.global();
        if !*is_current {
            // SAFETY: dropping the buffers waits for the launches.
            unsafe {
                stream.clear_bits(leased)?;
                for positions in current.values() {
                    stream.mark(positions.global(), leased)?;
                }
            }
            *is_current = true;
        }
        Ok(Some(leased))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache_table::queue::MANY_EVENTS;
    use simt::emulator::Options;

    #[test]
    fn events_of_ended_leases_do_not_accumulate() {
        let device = Device::emulator(Options::default());
        let play = move || {
            let (stream, leases) = (device.stream().unwrap(), Leases::default());
            for _ in 0..10 * MANY_EVENTS {
                drop(leases.begin(&stream, 1, |_| Ok(())).unwrap());
            }
            assert!(leases.state().ended.len() <= MANY_EVENTS);
        };
        shuttle::check_random(play, 1);
    }
}
