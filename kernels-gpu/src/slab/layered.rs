//! Pools with separate parts for the layers of an index (section 4.2.1 of the OOPSLA 2026 paper on
//! oversubscribed memory).
//!
//! ```text
//! super block 0                               | 1, 2, ...
//! index layers, all together                  | data               Layered<P, false>
//! 3 and up | 2 | 1                            | data               Layered<P, true>
//! 1/64       7/64  7/8
//! ```
//!
//! The first super block belongs to the index and the others to the data, so the index can be in another tier
//! of memory than the data. A layer whose part is exhausted takes a slab from any other part.
use super::bitmaps::Bitmaps;
use super::handle::Handle;
use super::pool::{Pool, Supers, search_in};
use simt::{Global, Instance, Name, device};

/// A pool `P` whose first super block is reserved for the index, with a separate part for each layer if
/// `EACH`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Layered<P, const EACH: bool> {
    pool: P,
    /// Number of words of the first super block's bitmap.
    index_words: u32,
}

impl<P: Pool, const EACH: bool> Layered<P, EACH> {
    /// Returns the first word of a layer's part of the bitmap, and the number of its words.
    #[device]
    fn part(self, layer: u32) -> (u32, u32) {
        let (all, index) = (self.pool.bitmaps().words(), self.index_words);
        let (first, end) = match layer {
            0 => (index, all),
            _ if !EACH => (0, index),
            1 => (index / 8, index),
            2 => (index / 64, index / 8),
            _ => (0, index / 64),
        };
        (first, end.saturating_sub(first))
    }
}

impl<P: Pool, const EACH: bool> Instance for Layered<P, EACH> {
    const NAME: &'static str =
        const { &Name::of(if EACH { "apart" } else { "layered" }).part(P::NAME) }.as_str();
}

// SAFETY: all slabs are those of the inner pool.
unsafe impl<P: Pool, const EACH: bool> Pool for Layered<P, EACH> {
    const BYTES: usize = P::BYTES;
    const CONTIGUOUS: bool = P::CONTIGUOUS;

    unsafe fn from_parts(bitmaps: Bitmaps, supers: Supers, shift: u32) -> Self {
        // SAFETY: the caller's obligation.
        Self { pool: unsafe { P::from_parts(bitmaps, supers, shift) }, index_words: (1 << shift) / 32 }
    }

    #[device]
    fn bitmaps(self) -> Bitmaps {
        self.pool.bitmaps()
    }

    #[device(caller)]
    unsafe fn slab(self, handle: Handle) -> Global<u64> {
        // SAFETY: the caller's obligation.
        unsafe { self.pool.slab(handle) }
    }

    #[device]
    fn number(self, handle: Handle) -> Option<u32> {
        self.pool.number(handle)
    }

    #[device]
    fn handle(self, number: u32) -> Handle {
        self.pool.handle(number)
    }

    #[device(caller)]
    fn allocate_in(self, layer: u32, seed: u32) -> Option<Handle> {
        let (first, words) = self.part(layer);
        let own = if words > 0 { search_in(self, first, words, seed) } else { None };
        match own {
            Some(number) => Some(self.handle(number)),
            None => self.allocate(seed),
        }
    }

    #[device]
    fn is_for(self, number: u32, layer: u32) -> bool {
        let (first, words) = self.part(layer);
        (number / 32).wrapping_sub(first) < words
    }
}

#[cfg(test)]
mod tests {
    use super::super::pool::Light;
    use super::*;
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, Kernel, Thread};

    #[derive(Clone, Copy)]
    struct Take<P> {
        pool: P,
        layers: GlobalSlice<u32>,
        taken: GlobalSlice<u32>,
    }

    impl<P: Pool> Kernel for Take<P> {
        const PROGRAM: &'static str = "layered";
        const NAME: &'static str = "take";
        const INSTANCE: Option<&'static str> = None;

        fn run(self) {
            let index = Thread::index();
            if index < self.layers.len() {
                let handle = self.pool.allocate_in(self.layers.read(index), index as u32);
                self.taken.write(index, handle.unwrap_or(Handle::NONE).to_word());
            }
        }
    }

    fn zeroed<T>(device: &Emulator, len: usize) -> *mut T {
        let pointer = device.allocate(len * size_of::<T>(), 128);
        // SAFETY: just allocated with this size.
        unsafe {
            pointer.write_bytes(0, len * size_of::<T>());
            device.mark_initialized(pointer, len * size_of::<T>());
        }
        pointer.cast()
    }

    /// Returns the slabs that lanes allocate for these layers, from a pool of two super blocks of 2048.
    fn taken<const EACH: bool>(layers: &[u32]) -> Vec<u32> {
        const UNITS: usize = 4096;
        let (device, words) = (Emulator::new(Options::default()), Bitmaps::words_for(UNITS));
        let (asked, taken) = (zeroed::<u32>(&device, layers.len()), zeroed::<u32>(&device, layers.len()));
        // SAFETY: memory of these sizes, which nothing else uses.
        unsafe {
            asked.copy_from_nonoverlapping(layers.as_ptr(), layers.len());
            let bitmaps = Bitmaps::new(
                zeroed(&device, words),
                zeroed(&device, words),
                zeroed(&device, 1),
                UNITS as u32,
            );
            let base = zeroed(&device, UNITS * 16);
            let pool = Layered::<Light<128>, EACH>::from_parts(
                bitmaps,
                Supers { first: base, joined: 1, table: base },
                11,
            );
            let slice = |pointer| GlobalSlice::from_raw_parts(pointer, layers.len());
            let launch = Take { pool, layers: slice(asked), taken: slice(taken) };
            device.launch(Grid::for_items(layers.len(), 64), launch).unwrap();
            (0..layers.len()).map(|index| taken.add(index).read()).collect()
        }
    }

    #[test]
    fn layers_take_slabs_of_their_own_part() {
        let layers: Vec<u32> = (0..400).map(|index| index % 4).collect();
        for (layer, slab) in layers.iter().zip(taken::<false>(&layers)) {
            assert_eq!(*layer == 0, slab >= 2048, "layer {layer} has slab {slab}");
        }
        let layers: Vec<u32> = (0..120).map(|index| index % 4).collect();
        for (layer, slab) in layers.iter().zip(taken::<true>(&layers)) {
            let part = [2048..4096, 256..2048, 32..256, 0..32][*layer as usize].clone();
            assert!(part.contains(&slab), "layer {layer} has slab {slab}");
        }
    }

    #[test]
    fn a_layer_whose_part_is_full_takes_slabs_of_others() {
        let found = taken::<false>(&[0; 3000]);
        assert!(found.iter().all(|slab| *slab < 4096), "every lane has one");
        assert!(
            found.iter().any(|slab| *slab < 2048)
                && found.iter().filter(|slab| **slab >= 2048).count() > 2000
        );
    }
}
