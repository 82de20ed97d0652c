//! The bridge from names to types: a kind of structure is chosen when one is made, and kernels are compiled
//! for types. What the bridges of all families have.
use super::launch::{self, Batch, Scan, THREADS};
use super::structure::{Scanner, Scans};
use crate::Result;
use gpu::{Grid, Stream};
use phalanx_kernels::keyed::Kind;
use phalanx_kernels::keyed::kernels::Rehash;
use simt::{GlobalSlice, Instance};
use std::any::TypeId;
use std::marker::PhantomData;

/// A kind whose view is made of `P`: plain pointers to where the host keeps its memory.
pub trait Viewed<P>: Kind + Instance {
    /// The view of a structure of this kind, whose memory `parts` must be.
    fn view(parts: P) -> Self::View;
}

/// The kind `M` as a value.
pub struct Of<M>(pub PhantomData<M>);

/// Launches on structures of one kind, whose memory is a `P`.
pub trait Launcher<P, K, V>: Send + Sync {
    /// The kind's type: a name alone may be borne by another one too.
    fn kind(&self) -> TypeId;

    /// The threads that a scan of the whole takes.
    fn scan_threads(&self, parts: P) -> usize;

    /// Launches a batch.
    ///
    /// # Safety
    /// - `parts` are those of a live structure of this kind, and stay so until the kernel has ended; so do
    ///   the slices.
    /// - Nothing that must run alone runs meanwhile.
    unsafe fn launch(&self, stream: &Stream, parts: P, batch: Batch<K, V>) -> gpu::Result<()>;

    /// Launches a scan.
    ///
    /// # Safety
    /// - As for [`Self::launch`], and nothing else runs on the structure meanwhile.
    unsafe fn scan(&self, stream: &Stream, parts: P, scan: Scan<K, V>) -> gpu::Result<()>;

    /// Inserts the pairs of a structure into another where they are not there, and counts those that found no
    /// room.
    ///
    /// # Safety
    /// - As for [`Self::scan`], of both.
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
        // SAFETY: the caller's promises.
        unsafe { launch::batch::<M>(stream, M::view(parts), batch) }
    }

    unsafe fn scan(&self, stream: &Stream, parts: P, scan: Scan<M::Key, M::Value>) -> gpu::Result<()> {
        // SAFETY: the caller's promises.
        unsafe { launch::scan::<M>(stream, M::view(parts), scan) }
    }

    unsafe fn rehash(&self, stream: &Stream, from: P, into: P, refused: GlobalSlice<u64>) -> gpu::Result<()> {
        let (from, into) = (M::view(from), M::view(into));
        let grid = Grid::for_items(M::scan_threads(from), THREADS);
        // SAFETY: the caller's promises; the grid has the threads that a scan takes.
        unsafe { stream.launch(grid, Rehash::<M> { from, into, refused }) }
    }
}

/// Lets `run` scan a structure of `pairs` pairs, each scan to its end.
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
        // SAFETY: the caller's promises; this waits for the slices' use.
        unsafe { launcher.scan(stream, parts, scan)? };
        Ok(stream.synchronize()?)
    };
    run(Scanner { scan: &scan, threads: launcher.scan_threads(parts), pairs })
}

/// Defines `any(name)`, which gives the engine called `name`: a box of a `Box<dyn Engine<K, V>>` of its own
/// key and value types. `any` is not generic, so that the emulator's kernels are compiled in this crate, and
/// not again in every program that makes a structure.
macro_rules! engines {
    ($family:ident) => {
        $crate::map::launcher::engines!($family: Config);
    };
    ($family:ident: $kind:ident) => {
        $crate::map::launcher::finds!(any, Find: Engine, $family of $family: $kind);
    };
}
pub(crate) use engines;

/// Defines `$any(name)`, which gives the `$engine` for the kind called `name` among the kinds that the module
/// `$kinds` of the family `$family` lists, as [`engines!`] says of its own.
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
