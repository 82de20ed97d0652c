//! Collectives of tiles of 4 and 32 lanes, in lockstep and independent.
use simt::{Convergence, Global, Independent, Instance, Lockstep, Order, Scope, Tile, kernel};

/// A type of tile.
#[derive(Clone, Copy)]
pub struct TileOf<const W: u32, C>(core::marker::PhantomData<C>);

macro_rules! collectives {
    ($($(#[$doc:meta])* $name:ident($tile:ident, $value:ident) $body:expr;)*) => {
        /// Collectives of a tile.
        pub trait Group: Instance {
            $($(#[$doc])* fn $name(value: u32) -> u32;)*
        }

        impl<const W: u32, C: Convergence> Group for TileOf<W, C>
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
    /// Returns the rank.
    rank(tile, _value) tile.rank();
    /// Returns all votes.
    ballot(tile, value) tile.ballot(value == 7);
    /// Returns whether any lane votes.
    any(tile, value) tile.any(value == 7) as u32;
    /// Returns whether all lanes vote.
    all(tile, value) tile.all(value == 7) as u32;
    /// Returns whether any participating lane votes.
    any_converged(tile, value) tile.any_converged(value == 7) as u32;
    /// Returns the lowest rank that votes.
    elect(tile, value) tile.elect(value == 7).unwrap_or(99);
    /// Shuffles from a rank.
    shuffle(tile, value) tile.shuffle(value, 3);
    /// Shuffles 64 bits from a rank.
    shuffle_wide(tile, value) tile.shuffle(value as u64 * 0x1_0000_0001, 3) as u32;
    /// Shuffles by xor of the rank.
    shuffle_xor(tile, value) tile.shuffle_xor(value, 1);
    /// Shuffles from below.
    shuffle_up(tile, value) tile.shuffle_up(value, 1);
    /// Shuffles from above.
    shuffle_down(tile, value) tile.shuffle_down(value, 1);
    /// Returns the ranks with the same value.
    match_any(tile, value) tile.match_any(value);
    /// Returns the ranks with the same low bits.
    match_bits(tile, value) tile.match_bits::<2>(value);
    /// Returns the sum.
    reduce_add(tile, value) tile.reduce_add(value);
    /// Returns the minimum.
    reduce_min(tile, value) tile.reduce_min(value);
    /// Returns the maximum.
    reduce_max(tile, value) tile.reduce_max(value);
    /// Synchronizes the tile.
    tile_sync(tile, value) {
        tile.sync();
        value
    };
}

simt::instances! {
    named {
        lockstep4: TileOf<4, Lockstep>,
        lockstep32: TileOf<32, Lockstep>,
        independent4: TileOf<4, Independent>,
        independent32: TileOf<32, Independent>,
    }
    kernels {
        Rank, Ballot, Any, All, AnyConverged, Elect, Shuffle, ShuffleWide, ShuffleXor, ShuffleUp, ShuffleDown,
        MatchAny, MatchBits,
        ReduceAdd, ReduceMin, ReduceMax, TileSync,
    }
}
