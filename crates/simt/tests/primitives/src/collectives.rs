//! Collectives, of tiles of 4 and 32 lanes, in lockstep and each tile for itself.
use simt::{Convergence, Global, Independent, Instance, Lockstep, Order, Scope, Tile, kernel};

/// A kind of tile.
#[derive(Clone, Copy)]
pub struct Of<const W: u32, C>(core::marker::PhantomData<C>);

macro_rules! collectives {
    ($($(#[$doc:meta])* $name:ident($tile:ident, $value:ident) $body:expr;)*) => {
        /// What a tile can do.
        pub trait Group: Instance {
            $($(#[$doc])* fn $name(value: u32) -> u32;)*
        }

        impl<const W: u32, C: Convergence> Group for Of<W, C>
        where
            Self: Instance,
        {
            $(
                #[inline(always)]
                fn $name($value: u32) -> u32 {
                    let $tile = Tile::<W, C>::this();
                    $body
                }
            )*
        }

        $(
            $(#[$doc])*
            #[kernel]
            pub fn $name<G: Group>(out: Global<u32>, value: u32, kind: core::marker::PhantomData<G>) {
                let _ = kind;
                out.store(G::$name(value), Order::Weak, Scope::Device);
            }
        )*
    };
}

collectives! {
    /// The rank.
    rank(tile, _value) tile.rank();
    /// All votes.
    ballot(tile, value) tile.ballot(value == 7);
    /// Whether one votes yes.
    any(tile, value) tile.any(value == 7) as u32;
    /// Whether all do.
    all(tile, value) tile.all(value == 7) as u32;
    /// Whether one of those that meet does.
    any_converged(tile, value) tile.any_converged(value == 7) as u32;
    /// The lowest rank that does.
    elect(tile, value) tile.elect(value == 7).unwrap_or(99);
    /// From a rank.
    shuffle(tile, value) tile.shuffle(value, 3);
    /// From a rank, 64 bits.
    shuffle_wide(tile, value) tile.shuffle(value as u64 * 0x1_0000_0001, 3) as u32;
    /// From across.
    shuffle_xor(tile, value) tile.shuffle_xor(value, 1);
    /// From below.
    shuffle_up(tile, value) tile.shuffle_up(value, 1);
    /// From above.
    shuffle_down(tile, value) tile.shuffle_down(value, 1);
    /// Who holds the same.
    match_any(tile, value) tile.match_any(value);
    /// Who holds the same low bits.
    match_bits(tile, value) tile.match_bits::<2>(value);
    /// The sum.
    reduce_add(tile, value) tile.reduce_add(value);
    /// The smallest.
    reduce_min(tile, value) tile.reduce_min(value);
    /// The largest.
    reduce_max(tile, value) tile.reduce_max(value);
    /// The meeting itself.
    tile_sync(tile, value) {
        tile.sync();
        value
    };
}

simt::instances! {
    types {
        lockstep4: Of<4, Lockstep>,
        lockstep32: Of<32, Lockstep>,
        independent4: Of<4, Independent>,
        independent32: Of<32, Independent>,
    }
    kernels {
        Rank, Ballot, Any, All, AnyConverged, Elect, Shuffle, ShuffleWide, ShuffleXor, ShuffleUp, ShuffleDown,
        MatchAny, MatchBits,
        ReduceAdd, ReduceMin, ReduceMax, TileSync,
    }
}
