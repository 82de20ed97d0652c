//! Kernels of the kinds of pool.
use super::memory::Memory;
use gpu::{Grid, Stream};
use phalanx_kernels::slab::kernels::{SlabAllocate, SlabAllocateLone, SlabFree, SlabFreeLone, SlabRetire};
use phalanx_kernels::slab::{self, Pool};
use simt::{GlobalSlice, Instance};
use std::marker::PhantomData;

/// Threads per block.
pub const THREADS: u32 = 256;

/// A batch on handles.
#[derive(Clone, Copy, Debug)]
pub enum Batch {
    Allocate { seed: u32 },
    AllocateLone { seed: u32 },
    Free,
    FreeLone,
    Retire,
}

/// Launches on pools of one kind.
pub trait Kernels: Send + Sync {
    /// Returns the kind's name.
    fn name(&self) -> &'static str;

    /// Launches a batch.
    ///
    /// # Safety
    /// - The pool is of this kind. It stays as it is until the kernel has ended, and so does the slice.
    unsafe fn launch_batch(
        &self,
        stream: &Stream,
        pool: &Memory,
        batch: Batch,
        handles: GlobalSlice<u32>,
    ) -> gpu::Result<()>;
}

/// Returns the kernels for pools with slabs of `bytes` bytes.
pub fn find(light: bool, bytes: usize) -> Option<&'static dyn Kernels> {
    slab::visit(&mut Find { light, bytes })
}

struct Find {
    light: bool,
    bytes: usize,
}

impl slab::Visitor for Find {
    type Output = &'static dyn Kernels;

    fn visit<P: Pool + Instance>(&mut self) -> Option<Self::Output> {
        let fits = P::CONTIGUOUS == self.light && P::BYTES == self.bytes;
        fits.then_some(const { &PoolTag::<P>(PhantomData) })
    }
}

/// The kind of pool `P` as a value.
struct PoolTag<P>(PhantomData<fn() -> P>);

impl<P: Pool + Instance> Kernels for PoolTag<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    unsafe fn launch_batch(
        &self,
        stream: &Stream,
        pool: &Memory,
        batch: Batch,
        handles: GlobalSlice<u32>,
    ) -> gpu::Result<()> {
        let grid = Grid::for_items(handles.len(), THREADS);
        // SAFETY: the caller's obligations. The grid has a thread for every element.
        unsafe {
            let pool: P = pool.view();
            match batch {
                Batch::Allocate { seed } => stream.launch(grid, SlabAllocate { pool, seed, handles }),
                Batch::AllocateLone { seed } => stream.launch(grid, SlabAllocateLone { pool, seed, handles }),
                Batch::Free => stream.launch(grid, SlabFree { pool, handles }),
                Batch::FreeLone => stream.launch(grid, SlabFreeLone { pool, handles }),
                Batch::Retire => stream.launch(grid, SlabRetire { pool, handles }),
            }
        }
    }
}
