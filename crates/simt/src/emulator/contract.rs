//! The emulator's signatures, so that what uses it compiles until it is merged. It allocates and runs nothing.
#![allow(clippy::all)]
use crate::{Grid, Kernel};
#[derive(Clone, Debug)]
pub struct Emulator(std::sync::Arc<Options>);
#[derive(Clone, Debug)]
pub struct Options { pub mode: Mode, pub stale_l1: bool, pub step_limit: u64, pub stack_bytes: usize, pub cas128: bool }
impl Default for Options {
    fn default() -> Self { Self { mode: Mode::Fast { workers: 2 }, stale_l1: false, step_limit: 0, stack_bytes: 0, cas128: true } }
}
#[derive(Clone, Debug)]
pub enum Mode { Fast { workers: usize }, Explore(()) }
#[derive(Debug)]
pub struct Report { pub steps: u64 }
#[derive(Debug)]
pub struct Failure(&'static str);
impl std::fmt::Display for Failure { fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str(self.0) } }
impl std::error::Error for Failure {}
impl Emulator {
    pub fn new(options: Options) -> Self { Self(options.into()) }
    pub fn options(&self) -> &Options { &self.0 }
    pub fn allocate(&self, bytes: usize, align: usize) -> *mut u8 {
        unsafe { std::alloc::alloc_zeroed(std::alloc::Layout::from_size_align(bytes, align).unwrap()) }
    }
    pub unsafe fn free(&self, _pointer: *mut u8) {}
    pub unsafe fn adopt(&self, _pointer: *mut u8, _bytes: usize) {}
    pub unsafe fn disown(&self, _pointer: *mut u8) {}
    pub unsafe fn mark_initialized(&self, _pointer: *const u8, _bytes: usize) {}
    pub fn launch<K: Kernel + Send + Sync + 'static>(&self, _grid: Grid, _kernel: K) -> Result<Report, Failure> {
        Err(Failure("the emulator is not merged yet"))
    }
}
