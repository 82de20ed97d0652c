//! Buffers on an emulator, for tests.
#![allow(dead_code)] // each test program uses a part
use simt::emulator::{Detect, Emulator, Failure, Mode, Options, Schedule};
use simt::{GlobalSlice, Grid, Kernel, Word};

/// Creates a device in fast mode with two workers.
pub fn fast() -> Emulator {
    Emulator::new(Options { mode: Mode::Fast { workers: 2 }, ..Options::default() })
}

/// Creates a device that explores random schedules with all detectors.
pub fn random(seed: u64) -> Emulator {
    Emulator::new(Options::explore(Schedule::Random { seed }))
}

/// Creates a device that explores random schedules with these detectors.
pub fn random_with(seed: u64, detect: Detect) -> Emulator {
    Emulator::new(Options { detect, ..Options::explore(Schedule::Random { seed }) })
}

/// Returns the devices on which every correct kernel must pass.
pub fn devices() -> Vec<Emulator> {
    let pct = Emulator::new(Options::explore(Schedule::Pct { seed: 1, depth: 3 }));
    vec![fast(), random(1), random(2), pct]
}

/// A buffer on an emulator; freed on drop.
pub struct Buffer<T> {
    device: Emulator,
    pointer: *mut T,
    len: usize,
}

impl<T: Word> Buffer<T> {
    pub fn uninitialized(device: &Emulator, len: usize) -> Self {
        let pointer = device.allocate(len * size_of::<T>(), align_of::<T>()).cast();
        Self { device: device.clone(), pointer, len }
    }

    pub fn from_slice(device: &Emulator, words: &[T]) -> Self {
        let buffer = Self::uninitialized(device, words.len());
        // SAFETY: `words.len()` words were allocated, and no kernel runs.
        unsafe {
            buffer.pointer.copy_from_nonoverlapping(words.as_ptr(), words.len());
            device.mark_initialized(buffer.pointer.cast(), size_of_val(words));
        }
        buffer
    }

    pub fn zeroed(device: &Emulator, len: usize) -> Self {
        Self::from_slice(device, &vec![T::narrow(0); len])
    }

    pub fn slice(&self) -> GlobalSlice<T> {
        // SAFETY: `len` words were allocated.
        unsafe { GlobalSlice::from_raw_parts(self.pointer, self.len) }
    }

    pub fn read(&self) -> Vec<T> {
        // SAFETY: `len` words were allocated, and no kernel runs.
        unsafe { std::slice::from_raw_parts(self.pointer, self.len) }.to_vec()
    }

    pub fn pointer(&self) -> *mut T {
        self.pointer
    }
}

impl<T> Drop for Buffer<T> {
    fn drop(&mut self) {
        // SAFETY: no kernel and no slice uses the buffer any more.
        unsafe { self.device.free(self.pointer.cast()) };
    }
}

/// Launches a kernel on buffers of zeros with these lengths. Returns their contents.
pub fn on_zeros<T: Word, K: Kernel + Send + Sync + 'static, const N: usize>(
    device: &Emulator,
    lens: [usize; N],
    grid: Grid,
    kernel: impl FnOnce([GlobalSlice<T>; N]) -> K,
) -> Result<[Vec<T>; N], Failure> {
    let buffers = lens.map(|len| Buffer::zeroed(device, len));
    device.launch(grid, kernel(buffers.each_ref().map(Buffer::slice)))?;
    Ok(buffers.map(|buffer| buffer.read()))
}

/// Returns the source line of a failure.
pub fn line(failure: &Failure) -> u32 {
    failure.location.as_ref().map_or(0, |at| at.line)
}
