//! Faults of copies and allocations of the emulator, which calls of random scripts meet.
use crate::common::Rng;
use gpu::Device;

/// A fault that a call may meet.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// One copy fails, after this number of others.
    Copy(u64),
    /// All allocations fail, after this number.
    Allocations(u64),
}

/// A fault, and whether a call has met it.
pub struct Injected<'a> {
    device: &'a Device,
    fault: Fault,
    pub has_struck: bool,
}

impl<'a> Injected<'a> {
    /// Returns no fault, or, for one of three calls, one that strikes early or late.
    pub fn random(device: &'a Device, rng: &mut Rng) -> Self {
        let (which, after) = (rng.below(6), number(rng));
        let fault = match which {
            0 => Fault::Copy(after),
            1 => Fault::Allocations(after / 4),
            _ => Fault::None,
        };
        Self { device, fault, has_struck: false }
    }

    /// Returns no fault, or, for one of three calls, a lack of memory.
    pub fn of_allocations(device: &'a Device, rng: &mut Rng) -> Self {
        let (which, after) = (rng.below(3), number(rng));
        let fault = if which == 0 { Fault::Allocations(after / 4) } else { Fault::None };
        Self { device, fault, has_struck: false }
    }

    /// Makes a call that may meet the fault.
    pub fn during<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let handle = self.device.emulator_handle().expect("an emulated device");
        match self.fault {
            Fault::None => {}
            Fault::Copy(after) => drop(handle.fail_copy(after)),
            Fault::Allocations(after) => drop(handle.fail_allocations_after(after)),
        }
        let said = call();
        let (copies, allocations) = (handle.fail_copy(u64::MAX), handle.fail_allocations_after(u64::MAX));
        self.has_struck = match self.fault {
            Fault::None => false,
            Fault::Copy(_) => copies == u64::MAX,
            Fault::Allocations(_) => allocations == 0,
        };
        said
    }
}

/// Returns a number of copies: often a small one, of any size up to 128.
fn number(rng: &mut Rng) -> u64 {
    let bound = 1 << rng.below(8);
    rng.below(bound)
}
