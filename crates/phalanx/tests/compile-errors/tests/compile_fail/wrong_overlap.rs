use gpu::Device;

fn main() -> gpu::Result<()> {
    let mut words = Device::emulator(Default::default()).zeroed::<u32>(6)?;
    let mut low = words.slice_mut(0..4)?;
    let high = words.slice_mut(2..6)?;
    low.copy_from(high)
}
