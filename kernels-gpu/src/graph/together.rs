//! Additions to counts of vertices: of a lane's consecutive elements with one vertex, and of the lanes of a
//! warp, at once. A vertex with a large share of a batch otherwise gets as many atomic additions, one after
//! the other.
use simt::hash::mix32;
use simt::{Tile, bound, device};

/// Consecutive elements of a lane with one vertex.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repeats {
    /// The vertex; arbitrary if there are none.
    pub vertex: u32,
    /// Number of elements, at most 31.
    pub many: u32,
}

/// Binary digits of [`MOST_REPEATS`].
const DIGITS: u32 = 5;
/// Maximum number of elements that are counted at once.
const MOST_REPEATS: u32 = (1 << DIGITS) - 1;

#[device]
impl Repeats {
    /// Returns an element with `vertex`, or none.
    pub(super) fn once(vertex: u32, is_counted: bool) -> Self {
        Self { vertex, many: is_counted as u32 }
    }

    /// Adds an element with `vertex` if `is_counted`. Returns the elements before, to be written, if they
    /// cannot be counted together with this one; otherwise none.
    pub(super) fn add(&mut self, vertex: u32, is_counted: bool) -> Self {
        // mutation: less half performance, because a number that is written earlier costs one more write.
        // mutation: more unreached, because no lane of the explorers has 32 elements with a vertex in a row.
        let ends =
            is_counted && self.many != 0 && (self.vertex != vertex || self.many == bound(MOST_REPEATS));
        let due = Self { vertex: self.vertex, many: if ends { self.many } else { 0 } };
        if is_counted {
            *self = Self { vertex, many: if ends { 1 } else { self.many + 1 } };
        }
        due
    }
}

/// The lanes of a warp that change the same vertex, of which one writes for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Together {
    /// Whether the lane writes.
    pub is_leader: bool,
    /// The number that it adds.
    pub many: u32,
}

/// Groups the lanes whose number `many` is not 0 by their vertex, and adds their numbers, which are at most
/// [`MOST_REPEATS`]. All lanes of the warp call it together.
///
/// Lanes with one hash of eight bits are found by ballots. Of these, lanes whose vertex is not that of the
/// first one write for themselves.
#[device]
pub(super) fn together(vertex: u32, many: u32) -> Together {
    let (warp, vote) = (Tile::<32>::lockstep(), many != 0);
    let same = warp.match_bits::<8>(mix32(vertex));
    let leader = (same & warp.ballot(vote)).trailing_zeros() % 32;
    let is_same = warp.shuffle(vertex, leader) == vertex;
    let joined = warp.ballot(vote && is_same) & same;
    let (mut sum, mut digit) = (0, 0);
    // mutation: more equivalent, because numbers have no further digit.
    // mutation: less unreached, because no lane of the explorers has 16 elements with a vertex in a row.
    while digit < bound(DIGITS) {
        sum += (warp.ballot(many >> digit & 1 != 0) & joined).count_ones() << digit;
        digit += 1;
    }
    if is_same {
        Together { is_leader: vote && warp.rank() == leader, many: sum }
    } else {
        Together { is_leader: vote, many }
    }
}
