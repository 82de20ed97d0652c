//! Device that runs the subjects, and its selection.
use crate::engine::benchmark::Machine;
use anyhow::Result;
use clap::ValueEnum;
use gpu::{Device, Program, Stream};
use std::sync::{Mutex, PoisonError};

/// Device selection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// A CUDA device if available, else the emulator.
    Auto,
    /// A CUDA device, or an error.
    Cuda,
    /// The emulator.
    Emulator,
}

impl DeviceChoice {
    /// Returns the name of the choice on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

/// PTX that is registered with a device when it is opened.
static PROGRAMS: Mutex<Vec<&Program>> = Mutex::new(Vec::new());

/// Adds the PTX of another package to that of every device opened later.
pub fn add_program(program: &'static Program) {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner).push(program);
}

/// Device, and the stream that all launches use.
#[derive(Debug)]
pub struct Gpu {
    /// Device.
    pub device: Device,
    /// Stream of all launches.
    pub stream: Stream,
    /// Choice by which the device was opened.
    pub choice: DeviceChoice,
}

impl Gpu {
    /// Opens a device.
    ///
    /// # Errors
    /// Returns [`gpu::Error`] when the chosen driver or device is not available.
    pub fn open(choice: DeviceChoice) -> Result<Self> {
        let device = match choice {
            DeviceChoice::Auto => Device::from_environment()?,
            DeviceChoice::Cuda => Device::cuda(0)?,
            DeviceChoice::Emulator => Device::named("emulator")?,
        };
        phalanx::register_kernels(&device);
        let programs = PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
        programs.iter().for_each(|program| device.add_program(program));
        let stream = device.stream()?;
        Ok(Self { device, stream, choice })
    }
}

impl Machine for Gpu {
    fn name(&self) -> String {
        self.device.name()
    }

    fn driver(&self) -> String {
        self.device.driver()
    }

    fn is_emulator(&self) -> bool {
        self.device.is_emulator()
    }

    fn time(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<f64> {
        let start = self.stream.record()?;
        work()?;
        let end = self.stream.record()?;
        end.synchronize()?;
        Ok(end.elapsed_ms(&start)?)
    }
}
