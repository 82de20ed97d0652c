//! A hash map on the memory and in the stream of another library.
//!
//! `Theirs` stands for that library. With cudarc, for example, the address is that of `CudaSlice::device_ptr`
//! and the handle is `CudaStream::cu_stream`; a C program passes its `CUdeviceptr` and `CUstream`. Both
//! libraries must use the primary context of the same device, which is the default of the CUDA runtime,
//! cudarc and candle.
use phalanx::HashMap;
use phalanx::gpu::{self, Buffer, Device, Stream};
use std::ffi::c_void;

/// Another library's memory and stream.
struct Theirs {
    keys: Buffer<u32>,
    values: Buffer<u32>,
    stream: Stream,
}

impl Theirs {
    fn new(device: &Device) -> gpu::Result<Self> {
        let keys = device.from_slice(&[7, 8, 9, 10])?;
        Ok(Self { keys, values: device.zeroed(4)?, stream: device.stream()? })
    }

    fn addresses(&self) -> (*mut u32, *mut u32, *mut c_void) {
        (self.keys.pointer(), self.values.pointer(), self.stream.raw_handle())
    }
}

/// Looks up `len` keys of another library in its stream, and writes the values to its memory.
///
/// # Safety
/// - The addresses are those of `len` keys and `len` values in memory of the map's device, and the stream
///   exists, until this function returns. Nothing else accesses the memory meanwhile.
unsafe fn look_up(
    map: &HashMap<u32, u32>,
    (keys, values, stream): (*mut u32, *mut u32, *mut c_void),
    len: usize,
) -> phalanx::Result<()> {
    let device = map.device();
    // SAFETY: the caller's obligations. All wrappers are dropped before the function returns.
    let (keys, mut values, stream) = unsafe {
        (device.wrap_memory(keys, len)?, device.wrap_memory(values, len)?, device.wrap_stream(stream)?)
    };
    let mut outcomes = device.zeroed::<u8>(len)?;
    map.on(&stream).get(&keys, &mut values, &mut outcomes)?;
    Ok(stream.synchronize()?)
}

fn main() -> phalanx::Result<()> {
    let map = HashMap::<u32, u32>::with_capacity(100)?;
    assert!(map.insert(&[8, 10], &[80, 100])?.all_placed());
    let theirs = Theirs::new(map.device())?;
    // SAFETY: the memory and the stream live until the end of `main`.
    unsafe { look_up(&map, theirs.addresses(), 4)? };
    let values = theirs.values.read()?;
    println!("values of 8 and 10: {} and {}", values[1], values[3]);
    assert_eq!((values[1], values[3]), (80, 100));

    // The other direction: what another library needs to use ours.
    let (own, stream) = (map.device().from_slice(&[1u32, 2])?, map.device().stream()?);
    println!("our memory is at {:?}, our stream is {:?}", own.pointer(), stream.raw_handle());
    Ok(())
}
