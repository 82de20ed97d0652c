//! CUDA devices. The only place of the project that names `cust`.
//!
//! `cust` gives devices, the primary context and streams. Where it lacks something (events that can be waited
//! for more than once, the compiler's log, memory that kernels share with the host) its raw functions are
//! called. Both reach the driver through `cuda-late`.
//!
//! A stream of `cust` is ordered with the driver's null stream, which the methods without a stream use: they
//! come after everything that was asked of the context before.

mod context;
mod driver;
mod follow;
mod kernels;
mod machine;
mod queue;

pub use queue::Mark;

use crate::Result;
use crate::device::{Device, Inner};
use crate::machine::Machine as _;
use context::Context;
use machine::Machine;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The device of an ordinal: the one that is open already, if one is.
pub fn open(ordinal: u32) -> Result<Device> {
    static OPEN: Mutex<BTreeMap<u32, Weak<Inner>>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.get(&ordinal).and_then(Device::upgrade) {
        return Ok(device);
    }
    let machine = Machine::new(Arc::new(Context::open(ordinal)?));
    let stream = machine.queue()?;
    let device = Device::new(Box::new(machine), stream);
    open.insert(ordinal, device.downgrade());
    Ok(device)
}
