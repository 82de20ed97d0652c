//! CUDA devices. The only place of the project that names `cust`.
//!
//! `cust` gives devices, the primary context and streams. Where it lacks something (events that can be waited for more than
//! once, the compiler's log, memory that kernels share with the host) its raw functions are called. Both reach the
//! driver through `cuda-late`.
//!
//! A stream of `cust` is ordered with the driver's null stream, which the methods without a stream use: they come after
//! everything that was asked of the context before.

mod context;
mod driver;
mod kernels;
mod machine;
mod queue;

pub use queue::Mark;

use crate::{Device, Result};
use context::Context;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// The device of an ordinal: the one that is open already, if one is.
pub fn open(ordinal: u32) -> Result<Device> {
    static OPEN: Mutex<Option<HashMap<u32, Weak<Context>>>> = Mutex::new(None);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    let contexts = open.get_or_insert_default();
    let context = match contexts.get(&ordinal).and_then(Weak::upgrade) {
        Some(context) => context,
        None => Arc::new(Context::open(ordinal)?),
    };
    contexts.insert(ordinal, Arc::downgrade(&context));
    Device::new(Arc::new(machine::Machine::new(context)))
}
