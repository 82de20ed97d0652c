//! Ranks as threads with emulated devices. The last one ends, or sleeps, instead of being killed or stopped.
use super::Event;
use super::ranks::{Said, limits, work};
use crate::machine::Gpu;
use crate::subjects::exchange::devices;
use anyhow::{Context, Result};
use phalanx::exchange::{Exchange, Meeting};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

/// Time for which a stopped rank sleeps.
const SLEEP: Duration = Duration::from_secs(4);

/// Lookups of the last rank before the event.
const LOOKUPS: usize = 5;

/// Runs the ranks. Returns the time from the event until the last of the others has an error.
pub fn run(gpu: &Gpu, ranks: usize, event: Event) -> Result<Duration> {
    let (meeting, devices) = (Meeting::new(ranks)?, devices(gpu, ranks)?);
    // When the event was, and when the last error came.
    let times = Mutex::new((None, Instant::now()));
    let note = |said: Said| {
        if said == Said::Lost {
            times.lock().expect("no rank panics").1 = Instant::now();
        }
        Ok(())
    };
    let start = Instant::now();
    thread::scope(|scope| {
        let rank = |(rank, device)| {
            let (meeting, times) = (&meeting, &times);
            scope.spawn(move || {
                let exchange = Exchange::peer(meeting, rank, &device, limits())?;
                if rank + 1 < ranks || event == Event::Sockets {
                    return work(exchange, event, note, || true);
                }
                let mut lookups = 0;
                let say = |_| Ok(());
                work(exchange, event, say, || {
                    lookups += 1;
                    if lookups > LOOKUPS {
                        times.lock().expect("no rank panics").0 = Some(Instant::now());
                        thread::sleep(if event == Event::Stopped { SLEEP } else { Duration::ZERO });
                    }
                    lookups <= LOOKUPS
                })
            })
        };
        let threads: Vec<_> = devices.into_iter().enumerate().map(rank).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no rank panics"))
    })?;
    let (event_at, lost_at) = *times.lock().expect("no rank panics");
    match event {
        Event::Sockets => Ok(start.elapsed()),
        _ => Ok(lost_at - event_at.context("the last rank never came to the event")?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::DeviceChoice;

    #[test]
    fn ranks_that_end_or_sleep_are_an_error_on_the_others() {
        let gpu = Gpu::open(DeviceChoice::Emulator).unwrap();
        for event in [Event::Sockets, Event::Killed, Event::Stopped] {
            let took = run(&gpu, 3, event).unwrap();
            assert!(event == Event::Sockets || took < super::super::MOST, "{event:?}: {took:?}");
        }
    }
}
