use gpu::Device;

fn main() -> gpu::Result<()> {
    let mut words = Device::emulator(Default::default()).zeroed::<u32>(6)?;
    let long = words.device().zeroed::<u64>(6)?;
    words.copy_from(&long)?;
    words.copy_from(&vec![0u32; 6])
}
