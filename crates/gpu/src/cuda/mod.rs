//! CUDA devices. The only module of the project that uses `cust`.
//!
//! `cust` provides devices, the primary context and streams. This module calls the raw functions for what
//! `cust` lacks: events on which several streams can wait, the compiler's log, and memory shared between
//! kernels and the host. Both reach the driver through `cuda-late`.
//!
//! A `cust` stream is ordered with the driver's null stream, which the methods without a stream use. These
//! methods therefore execute after all work submitted to the context before.

mod context;
mod driver;
mod events;
mod follow;
mod foreign;
mod frame;
mod host_memory;
mod kernels;
mod machine;
mod machine_code;
mod queue;
mod text;

pub use queue::Mark;

use crate::Result;
use crate::device::{Device, Inner};
use crate::machine::Machine as _;
use context::Context;
use machine::Machine;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Returns the device with the given ordinal; reuses it if it is already open.
pub fn open(ordinal: u32) -> Result<Device> {
    static OPEN: Mutex<BTreeMap<u32, Weak<Inner>>> = Mutex::new(BTreeMap::new());
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(device) = open.get(&ordinal).and_then(Device::upgrade) {
        return Ok(device);
    }
    let machine = Machine::new(Arc::new(Context::open(ordinal)?));
    let stream = machine.queue(false)?;
    let device = Device::new(Box::new(machine), stream);
    open.insert(ordinal, device.downgrade());
    Ok(device)
}
