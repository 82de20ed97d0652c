//! Ranks that are threads of one process.
use crate::{Error, Result};
use exchange::{Exchange, Limits, Meeting};
use gpu::Device;
use std::ops::Range;
use std::thread;

/// Runs a function as each of the ranks of a new exchange, one for each device, in a thread of its own, and
/// returns the results in the order of the devices. Data move by [`Exchange::peer`].
///
/// ```
/// use phalanx::Device;
/// use phalanx::exchange::Limits;
/// use phalanx::sharded_map::{on_devices, share};
///
/// let devices = [(); 2].map(|()| Device::emulator(Default::default()));
/// let keys: Vec<u32> = (0..5).collect();
/// let limits = Limits { part_bytes: 1 << 12, slot_bytes: 256, ..Limits::default() };
/// let lens = on_devices(&devices, limits, |exchange| {
///     let own = &keys[share(keys.len(), exchange.rank(), exchange.ranks())];
///     Ok(own.len())
/// })?;
/// assert_eq!(lens, [2, 3]);
/// # Ok::<(), phalanx::Error>(())
/// ```
///
/// # Errors
/// The first error of a rank, and before all that is not the loss of another;
/// [`Error::Exchange`] for no device and for limits out of range. A panic of a rank
/// is passed on when all have ended.
pub fn on_devices<R: Send>(
    devices: &[Device],
    limits: Limits,
    run: impl Fn(Exchange) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let (meeting, run) = (&Meeting::new(devices.len())?, &run);
    let results: Vec<_> = thread::scope(|scope| {
        let rank = |(rank, device): (usize, &_)| {
            let device = Device::clone(device);
            scope.spawn(move || run(Exchange::peer(meeting, rank, &device, limits)?))
        };
        let threads: Vec<_> = devices.iter().enumerate().map(rank).collect();
        let end = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(end).collect()
    });
    first_cause(results)
}

/// Returns all results, or the error that explains the others.
fn first_cause<R>(results: Vec<Result<R>>) -> Result<Vec<R>> {
    use exchange::Error::{PeerLost, Refused};
    let follows = |result: &Result<R>| match result {
        Ok(_) => true,
        Err(Error::Exchange(error)) => matches!(**error, PeerLost(_) | Refused { .. }),
        Err(_) => false,
    };
    let mut results = results;
    if let Some(cause) = results.iter().position(|result| !follows(result)) {
        results.swap(0, cause);
    }
    results.into_iter().collect()
}

/// Returns the part of `len` elements for a rank, if they are divided evenly. O(1).
pub fn share(len: usize, rank: usize, ranks: usize) -> Range<usize> {
    let begin = |rank: usize| (len as u128 * rank as u128 / ranks.max(1) as u128) as usize;
    begin(rank)..begin(rank + 1)
}
