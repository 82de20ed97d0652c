//! Maps variant names to types: a kind of pool is chosen at run time, when a pool is built, but kernels are
//! compiled for types.
use gpu::{Grid, Stream};
use phalanx_kernels::slab::kernels::{SlabAllocate, SlabAllocateLone, SlabFree, SlabFreeLone, SlabRetire};
use phalanx_kernels::slab::{self, Bitmaps, Pool, Supers, Visitor};
use simt::{GlobalSlice, Instance};
use std::marker::PhantomData;

/// Threads per block.
pub const THREADS: u32 = 256;

/// Raw pointers to a pool, from which views are created.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    pub bitmaps: Bitmaps,
    pub supers: Supers,
    pub shift: u32,
}

/// A batch on handles.
#[derive(Clone, Copy, Debug)]
pub enum Batch {
    Allocate { seed: u32 },
    AllocateLone { seed: u32 },
    Free,
    FreeLone,
    Retire,
}

/// A kind of pool.
pub trait Engine: Send + Sync {
    /// Returns the kind's name.
    fn name(&self) -> &'static str;

    /// Launches a batch.
    ///
    /// # Safety
    /// - `parts` are those of a live pool of this kind, and stay valid until the kernel has ended; so does
    ///   the slice.
    unsafe fn launch(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch,
        handles: GlobalSlice<u32>,
    ) -> gpu::Result<()>;
}

/// Returns the engine of pools with slabs of `bytes` bytes.
pub fn find(light: bool, bytes: usize) -> Option<Box<dyn Engine>> {
    slab::NAMES.iter().find_map(|name| slab::visit(name, Find { light, bytes }).flatten())
}

struct Find {
    light: bool,
    bytes: usize,
}

impl Visitor for Find {
    type Output = Option<Box<dyn Engine>>;

    fn visit<P: Pool + Instance>(self) -> Self::Output {
        let fits = P::CONTIGUOUS == self.light && P::BYTES == self.bytes;
        fits.then(|| Box::new(Of::<P>(PhantomData)) as Box<dyn Engine>)
    }
}

struct Of<P>(PhantomData<P>);

/// Returns the view of a pool of kind `P`. `parts` must be such a pool's.
pub fn view<P: Pool>(parts: Parts) -> P {
    // SAFETY: `Engine::launch` requires the parts of a live pool of this kind. Kernels use only handles that
    // the pool returned.
    unsafe { P::from_parts(parts.bitmaps, parts.supers, parts.shift) }
}

impl<P: Pool + Instance> Engine for Of<P> {
    fn name(&self) -> &'static str {
        P::NAME
    }

    unsafe fn launch(
        &self,
        stream: &Stream,
        parts: Parts,
        batch: Batch,
        handles: GlobalSlice<u32>,
    ) -> gpu::Result<()> {
        let pool = view::<P>(parts);
        let grid = Grid::for_items(handles.len(), THREADS);
        // SAFETY: the caller's obligations. The grid has a thread for every element.
        unsafe {
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
