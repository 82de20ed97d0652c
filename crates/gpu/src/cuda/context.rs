//! A device's primary context, shared by everything created in it.
use super::driver::{self, Code, describe, failed};
use super::events::Events;
use super::kernels::Kernels;
use crate::machine::{Facts, id_of};
use crate::{Error, LaunchName, Result};
use cust::context::CurrentContext;
use cust::device::{Device, DeviceAttribute};
use cust::error::CudaResult;
use cust::sys;
use std::sync::{Mutex, OnceLock, PoisonError};

/// The context, the properties of its device, and the kernels loaded into it.
#[derive(Debug)]
pub struct Context {
    pub facts: Facts,
    pub kernels: Kernels,
    /// Whether a stream was wrapped that the null stream does not wait for.
    has_unordered_streams: OnceLock<()>,
    /// Last launch, reported as the probable cause when the context is lost.
    last_launch: Mutex<Option<LaunchName>>,
    /// Events that nobody uses. Creating one takes longer than recording it.
    pub events: Events,
    /// Declared after `kernels`, so that the kernels are unloaded before the context is released.
    primary: cust::context::Context,
}

impl Context {
    pub fn open(ordinal: u32) -> Result<Self> {
        let device = driver::device(ordinal)?;
        let facts = facts(ordinal, device)?;
        let primary =
            cust::context::Context::new(device).map_err(|error| failed("cuDevicePrimaryCtxRetain", error))?;
        tracing::debug!(
            device = facts.name,
            driver = facts.driver,
            arch = facts.arch,
            "opened a CUDA device"
        );
        let (kernels, events, last_launch) = (Kernels::default(), Events::default(), Mutex::new(None));
        let has_unordered_streams = OnceLock::new();
        Ok(Self { facts, kernels, has_unordered_streams, last_launch, events, primary })
    }

    /// Makes the context current in the calling thread. Always calls the driver, which takes tens of
    /// nanoseconds: a cached record would be wrong as soon as another library in the process changes the
    /// current context.
    pub fn bind(&self) -> Result<()> {
        self.check_cust("cuCtxSetCurrent", CurrentContext::set_current(&self.primary))
    }

    /// Notes that the null stream does not wait for every stream.
    pub fn add_unordered_stream(&self) {
        self.has_unordered_streams.get_or_init(|| ());
    }

    /// Makes the context current, and work submitted to the null stream from now on come after all other.
    pub fn order_null_stream(&self) -> Result<()> {
        if self.has_unordered_streams.get().is_some() { self.synchronize() } else { self.bind() }
    }

    /// Returns the driver's handle.
    pub fn raw(&self) -> sys::CUcontext {
        self.primary.as_raw()
    }

    /// Returns `true` if `context` is this one.
    pub fn is(&self, context: sys::CUcontext) -> bool {
        context == self.raw()
    }

    /// Returns whether the hardware lets this device access the memory of the device with another ordinal.
    pub fn can_access(&self, other: u32) -> Result<bool> {
        let [this, other] = [driver::device(self.facts.ordinal)?, driver::device(other)?];
        let mut can = 0;
        // SAFETY: two devices of the driver; the call writes an `int`.
        let code = unsafe { sys::cuDeviceCanAccessPeer(&mut can, this.as_raw(), other.as_raw()) };
        self.check("cuDeviceCanAccessPeer", code as Code)?;
        Ok(can != 0)
    }

    pub fn check_cust<T>(&self, call: &'static str, answer: CudaResult<T>) -> Result<T> {
        answer.map_err(|error| self.error(call, error as Code))
    }

    pub fn check(&self, call: &'static str, code: Code) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    pub fn error(&self, call: &'static str, code: Code) -> Error {
        if !driver::is_fatal(code) {
            return Error::Driver { call, cause: describe(code) };
        }
        let last = *self.last_launch.lock().unwrap_or_else(PoisonError::into_inner);
        Error::DeviceLost {
            device: self.facts.name.clone(),
            cause: describe(code),
            last: last.map_or("none".to_owned(), |launch| launch.to_string()),
        }
    }

    pub fn note_launch(&self, launch: LaunchName) {
        *self.last_launch.lock().unwrap_or_else(PoisonError::into_inner) = Some(launch);
    }

    /// Waits for all streams.
    pub fn synchronize(&self) -> Result<()> {
        self.bind()?;
        self.check_cust("cuCtxSynchronize", CurrentContext::synchronize())
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // Unloading the kernels needs the context to be current. A lost context needs no unloading.
        if let Err(error) = self.bind() {
            tracing::debug!(%error, "a context is dropped that cannot be made current");
        }
        self.kernels.unload();
        self.events.destroy();
    }
}

fn facts(ordinal: u32, device: Device) -> Result<Facts> {
    let attribute = |attribute| {
        let value = device.get_attribute(attribute).map_err(|error| failed("cuDeviceGetAttribute", error))?;
        Ok::<u32, Error>(u32::try_from(value).unwrap_or(0))
    };
    let major = attribute(DeviceAttribute::ComputeCapabilityMajor)?;
    let minor = attribute(DeviceAttribute::ComputeCapabilityMinor)?;
    let arch = 10 * major + minor;
    let multiprocessors = attribute(DeviceAttribute::MultiprocessorCount)?;
    let name = device.name().map_err(|error| failed("cuDeviceGetName", error))?;
    Ok(Facts {
        uuid: uuid(device, &format!("{name}:{ordinal}")),
        name,
        driver: driver::version(),
        ordinal,
        multiprocessors,
        resident: multiprocessors * attribute(DeviceAttribute::MaxThreadsPerMultiprocessor)?,
        arch,
        cas128: arch >= 90,
    })
}

/// Returns the UUID of a device, or one made of its name if the driver reports none: it is older than 11.4.
fn uuid(device: Device, name: &str) -> [u8; 16] {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the call writes the 16 bytes, and the device is one of the driver's.
    let code = unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, device.as_raw()) } as Code;
    if code == 0 { uuid.bytes.map(|byte| byte as u8) } else { id_of(name) }
}
