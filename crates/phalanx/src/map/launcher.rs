//! Maps variant names to types: a variant is chosen at run time, when a structure is built, but kernels are
//! compiled for types. This module has the parts that all families share.
use super::launch::{self, Batch, Scan, THREADS};
use super::structure::{Scanner, Scans};
use crate::Result;
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::Kind;
use phalanx_kernels::keyed::kernels::Rehash;
use simt::{GlobalSlice, Instance};
use std::any::TypeId;
use std::marker::PhantomData;

/// A variant whose view is created from `P`: raw pointers to the structure's memory.
pub trait Viewed<P>: Kind + Instance {
    /// Returns the view of a structure of this variant. `parts` must be its memory.
    fn view(parts: P) -> Self::View;
}

/// The variant `M` as a value.
pub struct Of<M>(pub PhantomData<M>);

/// Launches on structures of one variant, whose memory is a `P`.
pub trait Launcher<P, K, V>: Send + Sync {
    /// Returns the variant's type. A name is not sufficient: another variant may have the same one.
    fn kind(&self) -> TypeId;

    /// Returns the number of threads of a scan of the whole structure.
    fn scan_threads(&self, parts: P) -> usize;

    /// Launches a batch.
    ///
    /// # Safety
    /// - `parts` are those of a live structure of this variant, and stay valid until the kernel has ended; so
    ///   do the slices.
    /// - No exclusive operation runs meanwhile.
    unsafe fn launch(&self, stream: &Stream, parts: P, batch: Batch<K, V>) -> gpu::Result<()>;

    /// Launches a scan.
    ///
    /// # Safety
    /// - As for [`Self::launch`], and nothing else runs on the structure meanwhile.
    unsafe fn scan(&self, stream: &Stream, parts: P, scan: Scan<K, V>) -> gpu::Result<()>;

    /// Inserts the pairs of a structure whose keys are absent from another into it, and counts those that do
    /// not fit.
    ///
    /// # Safety
    /// - As for [`Self::scan`], for both structures.
    unsafe fn rehash(&self, stream: &Stream, from: P, into: P, refused: GlobalSlice<u64>) -> gpu::Result<()>;
}

impl<P, M: Viewed<P>> Launcher<P, M::Key, M::Value> for Of<M> {
    fn kind(&self) -> TypeId {
        TypeId::of::<M>()
    }

    fn scan_threads(&self, parts: P) -> usize {
        M::scan_threads(M::view(parts))
    }

    unsafe fn launch(&self, stream: &Stream, parts: P, batch: Batch<M::Key, M::Value>) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::batch::<M>(stream, M::view(parts), batch) }
    }

    unsafe fn scan(&self, stream: &Stream, parts: P, scan: Scan<M::Key, M::Value>) -> gpu::Result<()> {
        // SAFETY: the caller's obligations.
        unsafe { launch::scan::<M>(stream, M::view(parts), scan) }
    }

    unsafe fn rehash(&self, stream: &Stream, from: P, into: P, refused: GlobalSlice<u64>) -> gpu::Result<()> {
        let (from, into) = (M::view(from), M::view(into));
        let grid = Grid::for_items(M::scan_threads(from), THREADS);
        // SAFETY: the caller's obligations. The grid has the threads that a scan needs.
        unsafe { stream.launch(grid, Rehash::<M> { from, into, refused }) }
    }
}

/// Calls `run`, which may scan a structure of `pairs` pairs. Each scan runs to completion.
///
/// # Safety
/// - As for [`Launcher::scan`], from this call until it returns.
pub unsafe fn scans<P: Copy, K, V>(
    launcher: &(impl Launcher<P, K, V> + ?Sized),
    stream: &Stream,
    parts: P,
    pairs: usize,
    run: Scans<'_, K, V>,
) -> Result<()> {
    let scan = |scan: Scan<K, V>| -> Result<()> {
        // SAFETY: the caller's obligations. The wait ends the use of the slices.
        unsafe { launcher.scan(stream, parts, scan)? };
        Ok(stream.synchronize()?)
    };
    run(Scanner { scan: &scan, threads: launcher.scan_threads(parts), pairs })
}

/// Defines `any(name)`, which returns the engine called `name`: a box of a `Box<dyn Engine<K, V>>` of its own
/// key and value types. `any` is not generic, so the emulator's kernels are compiled in this crate, and not
/// again in every program that creates a structure.
macro_rules! engines {
    ($family:ident) => {
        $crate::map::launcher::engines!($family: Config);
    };
    ($family:ident: $kind:ident) => {
        $crate::map::launcher::finds!(any, Find: Engine, $family of $family: $kind);
    };
}
pub(crate) use engines;

/// Defines `$any(name)`, which returns the `$engine` for the variant called `name` among those listed by the
/// module `$kinds` of the family `$family`, as [`engines!`] does.
macro_rules! finds {
    ($any:ident, $find:ident: $engine:ident, $kinds:ident of $family:ident: $kind:ident) => {
        fn $any(name: &str) -> Option<Box<dyn std::any::Any>> {
            $kinds::visit(name, $find)
        }

        struct $find;

        impl $family::Visitor for $find {
            type Output = Box<dyn std::any::Any>;

            fn visit<M: $family::$kind + simt::Instance>(self) -> Self::Output {
                let engine: Box<dyn $engine<M::Key, M::Value>> = Box::new(Of::<M>(std::marker::PhantomData));
                Box::new(engine)
            }
        }
    };
}
pub(crate) use finds;
