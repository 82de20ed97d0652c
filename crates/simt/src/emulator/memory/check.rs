//! The checks that precede each access to global memory.
use super::super::failure::FailureKind;
use super::super::lane::Lane;
use super::super::site::Site;
use super::registry::Found;
use simt_macros::device;

/// Effect of an access on the bytes that it covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Read,
    Write,
    /// Reads and may write.
    Update,
}

/// Ends the launch unless the access is aligned, lies in a live buffer and reads only initialised bytes.
#[device]
pub fn check(lane: &Lane, address: usize, bytes: usize, usage: Use, site: Site) {
    if address & (bytes - 1) != 0 {
        lane.fail(FailureKind::Misaligned { address, bytes }, site, None);
    }
    let worker = lane.worker();
    if let Some((name, offset)) = worker.run.world.registry.poison_at(address) {
        lane.fail(FailureKind::UseAfterReclaim { bytes, name, offset }, site, None);
    }
    let place = match worker.ranges.place(address, bytes) {
        Some(place) => place,
        None => match look_up(lane, address, bytes, site) {
            Some(place) => place,
            None => return,
        },
    };
    if worker.detect().uninitialized {
        check_written(lane, place, address, bytes, usage, site);
    }
}

#[cold]
fn look_up(lane: &Lane, address: usize, bytes: usize, site: Site) -> Option<usize> {
    let worker = lane.worker();
    let detect = worker.detect();
    match worker.run.world.registry.find_anywhere(address, bytes) {
        Found::Live(buffer) => return Some(worker.ranges.insert(buffer)),
        Found::Freed(within) if detect.use_after_free => {
            lane.fail(FailureKind::UseAfterFree { bytes, within }, site, None)
        }
        Found::Nothing(nearest) if detect.bounds => {
            lane.fail(FailureKind::OutOfBounds { address, bytes, nearest }, site, None)
        }
        Found::Freed(_) | Found::Nothing(_) => {}
    }
    None
}

fn check_written(lane: &Lane, place: usize, address: usize, bytes: usize, usage: Use, site: Site) {
    let buffers = lane.worker().ranges.buffers.borrow();
    let Some(buffer) = &buffers[place] else { return };
    if usage == Use::Write {
        buffer.set_written(address, bytes);
    } else if !buffer.is_written(address, bytes) {
        let within = Some(buffer.nearest(address));
        drop(buffers);
        lane.fail(FailureKind::Uninitialized { bytes, within }, site, None);
    }
}
