//! Kinds of cache table, and the list of the kernels that are compiled for each.
use super::mode::{Mode, Sought};
use super::policy::ScorePolicy;
use super::search::search;
use super::view::{CacheView, Config};
use crate::keyed::Scalar;
use core::marker::PhantomData;
use simt::{Instance, Name, device};

/// A kind of cache table: keys `K`, scores `S`, the policy `P`, and searches by tiles of `W` lanes, of which
/// each reads `N` words of digests at once: all 32 words of a bucket, or the 8 of a sector. If `D` is false,
/// a search compares all keys that it comes to, and not only those with the key's digest: for measurements of
/// what digests save.
#[derive(Clone, Copy, Debug)]
pub struct Cache<K, S, P, const W: u32, const N: usize, const D: bool = true>(PhantomData<(K, S, P)>);

impl<K: Scalar, S: Scalar, P: ScorePolicy<S>, const W: u32, const N: usize, const D: bool> Config
    for Cache<K, S, P, W, N, D>
{
    type Key = K;
    type Score = S;
    type Policy = P;
    const USES_DIGESTS: bool = D;

    #[device]
    fn search<M: Mode>(view: CacheView<Self>, pending: bool, key: K) -> Sought {
        search::<Self, M, W, N>(view, pending, key)
    }
}

impl<K: Scalar, S: Scalar, P: ScorePolicy<S>, const W: u32, const N: usize, const D: bool> Instance
    for Cache<K, S, P, W, N, D>
{
    const NAME: &'static str = const {
        let name = Name::of(P::NAME).part(if D { "" } else { "undigested" });
        &name.tile(W, N).unsigned::<K>().unsigned::<S>()
    }
    .as_str();
}

/// Compiles the kernels of cache tables for kinds of table, like [`simt::instances!`]. A package with a score
/// policy of its own needs this line:
///
/// ```ignore
/// phalanx_kernels::cache_instances! { types { decaying_4x8_u64_u64: DecayingCache } }
/// ```
#[macro_export]
macro_rules! cache_instances {
    ($($types:tt)*) => {
        ::simt::instances! {
            $($types)*
            kernels {
                $crate::cache::kernels::CacheGet, $crate::cache::kernels::CacheContains,
                $crate::cache::kernels::CacheGetRef, $crate::cache::kernels::CacheGetConcurrent,
                $crate::cache::kernels::CacheContainsConcurrent,
                $crate::cache::kernels::CacheInsert, $crate::cache::kernels::CacheInsertEvict,
                $crate::cache::kernels::CacheGetOrInsert, $crate::cache::kernels::CacheAccumulate,
                $crate::cache::kernels::CacheAssign, $crate::cache::kernels::CacheGetAndTouch,
                $crate::cache::kernels::CacheRemove,
                $crate::cache::many::CacheGetOfMany,
                $crate::cache::scan::CacheCount, $crate::cache::scan::CacheExport,
                $crate::cache::scan::CacheRemoveIf, $crate::cache::scan::CachePromote,
                $crate::cache::classify::CacheSample, $crate::cache::classify::CacheSetBounds,
                $crate::cache::classify::CacheClassify,
            }
            visitor: $crate::cache::Config
        }
    };
}
