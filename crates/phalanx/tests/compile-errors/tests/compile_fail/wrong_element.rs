use gpu::{Device, Grid};
use simt::{GlobalSlice, Thread, kernel};

#[kernel]
fn fill(out: GlobalSlice<u32>, value: u32) {
    out.write(Thread::index(), value);
}

fn main() {
    let device = Device::emulator(Default::default());
    let out = device.zeroed::<u64>(32).unwrap();
    let stream = device.default_stream();
    unsafe { stream.launch(Grid::new(0, 32), Fill { out: out.global(), value: 1 }) }.unwrap();
}
