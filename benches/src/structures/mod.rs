//! Structures that can be measured. A new one is a file here and a line in [`all`].
use crate::benchmark::{Machine, Structure};
use crate::cli::DeviceChoice;
use anyhow::Result;
use gpu::{Device, Stream};

pub mod both_widths;
pub mod btree;
pub mod concurrent_mix;
pub mod device_malloc;
pub mod driver;
pub mod first_launch;
pub mod hash_map;
pub mod increments;
pub mod limits;
pub mod map_plan;
pub mod mv_soak;
pub mod mvbtree;
pub mod ordered;
pub mod primitives;
pub mod segments;
pub mod sets;
pub mod skip_list;
pub mod slab_alloc;
pub mod slab_hash;
pub mod soak;
pub mod sorted_runs;

/// Returns all structures for one device.
pub fn all(gpu: &Gpu) -> Vec<Box<dyn Structure + '_>> {
    vec![
        Box::new(limits::Limits::new(gpu)),
        Box::new(hash_map::Maps::new(gpu)),
        Box::new(slab_alloc::Pools::new(gpu)),
        Box::new(device_malloc::Heap::new(gpu)),
        Box::new(slab_hash::SlabMaps::new(gpu)),
        Box::new(sets::SlabSets::new(gpu)),
        Box::new(sets::ChainSets::new(gpu)),
        Box::new(btree::Trees::new(gpu)),
        Box::new(skip_list::Lists::new(gpu)),
        Box::new(mvbtree::VersionedTrees::new(gpu)),
        Box::new(sorted_runs::Baseline::array(gpu)),
        Box::new(sorted_runs::Baseline::merge_tree(gpu)),
        Box::new(primitives::Sorts::new(gpu)),
        Box::new(primitives::Scans::new(gpu)),
        Box::new(segments::AllSegments::new(gpu)),
    ]
}

/// Opens the device and calls `use_it` with it and all structures.
///
/// # Errors
/// Returns [`anyhow::Error`] when the device is not available or `use_it` fails.
pub fn with_machine<T>(
    choice: DeviceChoice,
    use_it: impl FnOnce(&dyn Machine, &[Box<dyn Structure + '_>]) -> Result<T>,
) -> Result<T> {
    let gpu = Gpu::open(choice)?;
    use_it(&gpu, &all(&gpu))
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
        device.add_program(&phalanx::PROGRAM);
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
