//! Pool with a planted bug, for mutation tests.
use phalanx_kernels::slab::{Bitmaps, Handle, Light, Pool, Supers};
use simt::{Global, Instance};
use std::marker::PhantomData;

/// Operations of a pool. The defaults are those of [`Light`]; a flaw overrides one of them.
pub trait PoolFlaw: Copy + Send + Sync + 'static {
    fn take(pool: Light<128>, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller of `FlawedPool` fulfils the obligations of `take`.
        unsafe { pool.take(index, bits) }
    }

    fn give(pool: Light<128>, index: u32, bits: u32) -> u32 {
        // SAFETY: the caller of `FlawedPool` fulfils the obligations of `give`.
        unsafe { pool.give(index, bits) }
    }

    fn extend(pool: Light<128>, link: Global<u32>, seed: u32) -> Handle {
        pool.extend(link, seed)
    }

    fn retire(pool: Light<128>, handle: Handle) {
        pool.retire(handle);
    }
}

/// Pool with a flaw.
#[derive(Clone, Copy)]
pub struct FlawedPool<F> {
    pool: Light<128>,
    of: PhantomData<F>,
}

impl<F: PoolFlaw> Instance for FlawedPool<F> {
    const NAME: &'static str = "flawed";
}

// SAFETY: the memory is that of the pool without the flaw.
unsafe impl<F: PoolFlaw> Pool for FlawedPool<F> {
    const BYTES: usize = 128;
    const CONTIGUOUS: bool = true;

    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self {
        // SAFETY: the caller fulfils the obligations of `from_parts`.
        Self { pool: unsafe { Light::from_parts(bitmaps, supers, shift) }, of: PhantomData }
    }

    fn bitmaps(self) -> Bitmaps {
        self.pool.bitmaps()
    }

    unsafe fn slab(self, handle: Handle) -> Global<u64> {
        // SAFETY: the caller fulfils the obligations of `slab`.
        unsafe { self.pool.slab(handle) }
    }

    fn number(self, handle: Handle) -> Option<u32> {
        self.pool.number(handle)
    }

    fn handle(self, number: u32) -> Handle {
        self.pool.handle(number)
    }

    unsafe fn take(self, index: u32, bits: u32) -> u32 {
        F::take(self.pool, index, bits)
    }

    unsafe fn give(self, index: u32, bits: u32) -> u32 {
        F::give(self.pool, index, bits)
    }

    fn extend(self, link: Global<u32>, seed: u32) -> Handle {
        F::extend(self.pool, link, seed)
    }

    fn retire(self, handle: Handle) {
        F::retire(self.pool, handle);
    }
}
