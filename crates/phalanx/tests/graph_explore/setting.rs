//! Conditions of a run.
use gpu::Device;
use simt::emulator::{Fault, Options, Schedule, WeakMemory};

/// Conditions of a run.
#[derive(Clone, Debug)]
pub struct Setting {
    pub seed: u64,
    pub weak_memory: WeakMemory,
    /// Whether the device has a 16-byte compare-and-swap.
    pub cas128: bool,
    /// Number of threads of launches that fill the device; a block has 128.
    pub resident_threads: u32,
    /// Faults injected into the kernels.
    pub faults: Vec<Fault>,
}

impl Setting {
    pub fn new(seed: u64) -> Self {
        Self { seed, weak_memory: WeakMemory::Off, cas128: true, resident_threads: 64, faults: Vec::new() }
    }

    /// Returns the device: random schedules alternate with priority-based ones.
    pub fn device(&self) -> Device {
        let seed = self.seed;
        let schedule = match seed % 3 {
            0 => Schedule::Random { seed },
            1 => Schedule::Pct { seed, depth: 3 },
            _ => Schedule::Pct { seed, depth: 10 },
        };
        Device::emulator(Options {
            stale_l1: true,
            weak_memory: self.weak_memory,
            cas128: self.cas128,
            resident_threads: self.resident_threads,
            faults: self.faults.clone(),
            step_limit: 1 << 20,
            ..Options::explore(schedule)
        })
    }
}

/// Error of a run, without addresses, which differ from run to run.
pub fn told(text: &str) -> String {
    let words = text.split_inclusive(|letter: char| !letter.is_alphanumeric());
    words.map(|word| if word.starts_with("0x") { "address " } else { word }).collect()
}
