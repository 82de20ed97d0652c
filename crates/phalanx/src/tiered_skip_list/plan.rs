//! Division of the budget of a map of lists.
use super::lists::{ListSize, TABLE_WORDS};
use crate::map::encoding::Word;
use crate::skiplist::kernels::Kernels;
use crate::tiered_map::plan::{
    CHUNKS, COUNTERS, Form, LEAST_SLOTS, OF_SHARD, PLACES, Plan, SMALL_SHARD, Share, chunk_len, chunks_bytes,
    share_of_chunks,
};
use crate::tiered_map::shards::ImageSize;
use crate::{Error, Result};

/// Share of the budget for the splitters: one in this number.
const OF_SPLITTERS: usize = 64;
/// Least number of splitters, and most.
const SPLITTERS: (usize, usize) = (128, 1 << 17);
/// Most slots: each is looked at for each shard of a batch.
const MOST_SLOTS: usize = 1 << 9;
/// Bytes of the smallest list, if its size is not given.
const SMALLEST: usize = 1 << 16;

/// Requirements of a map of lists.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Pairs of all lists.
    pub pairs: usize,
    /// Pairs of a list, if that is given.
    pub of_list: Option<usize>,
    /// Whether the map is a baseline of one list.
    pub is_flat: bool,
}

/// Division of a budget: the plan, and the number of splitters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListPlan {
    pub plan: Plan<ListSize>,
    pub splitters: usize,
}

/// Returns the number of splitters for a budget.
fn splitters<K>(form: Form, budget: usize) -> usize {
    match form {
        Form::Sharded { .. } => (budget / OF_SPLITTERS / size_of::<K>()).clamp(SPLITTERS.0, SPLITTERS.1),
        Form::Resident | Form::Flat => 0,
    }
}

/// Returns the bytes on the device of a map without chunks and slots.
fn fixed<K>(form: Form, budget: usize) -> usize {
    PLACES * COUNTERS + 8 * TABLE_WORDS + splitters::<K>(form, budget) * size_of::<K>()
}

/// Returns the least budget of a form.
fn least<K: Word, V: Word>(form: Form, size: ListSize) -> usize {
    let slots = if form == Form::Flat { 0 } else { LEAST_SLOTS };
    let images = slots.saturating_mul(size.byte_len().saturating_add(COUNTERS));
    let rest = fixed::<K>(form, 0) + chunks_bytes::<K, V>(form, CHUNKS.0);
    // A larger budget has more splitters.
    images.saturating_add(rest).saturating_mul(OF_SPLITTERS + 1) / OF_SPLITTERS
}

/// Returns the form of a map.
fn form(wish: Wish) -> Form {
    if wish.is_flat { Form::Flat } else { Form::Sharded { bits: 0 } }
}

/// Returns the size of a list.
fn size<K: Word, V: Word>(kernels: &dyn Kernels<K, V>, wish: Wish, budget: usize) -> Result<ListSize> {
    if let Some(pairs) = if wish.is_flat { Some(wish.pairs) } else { wish.of_list } {
        return ListSize::for_pairs(kernels, pairs);
    }
    let mut bytes = (budget / OF_SHARD).max(SMALL_SHARD);
    while bytes > SMALLEST && least::<K, V>(form(wish), ListSize::within(kernels, bytes)) > budget {
        bytes /= 2;
    }
    Ok(ListSize::within(kernels, bytes))
}

/// Returns the least budget with which a map can be built.
pub fn least_budget<K: Word, V: Word>(kernels: &dyn Kernels<K, V>, wish: Wish) -> Result<usize> {
    Ok(least::<K, V>(form(wish), size(kernels, wish, 0)?))
}

/// Divides a budget.
pub fn divide<K: Word, V: Word>(kernels: &dyn Kernels<K, V>, wish: Wish, budget: usize) -> Result<ListPlan> {
    let (form, size) = (form(wish), size(kernels, wish, budget)?);
    let needed = least::<K, V>(form, size);
    if needed > budget {
        return Err(Error::DeviceBudget { asked: budget, needed });
    }
    let (fixed, image) = (fixed::<K>(form, budget), size.byte_len() + COUNTERS);
    let images = if form == Form::Flat { 0 } else { LEAST_SLOTS * image };
    let chunk = chunk_len::<K, V>(form, share_of_chunks(budget).min(budget - fixed - images));
    let left = budget - fixed - chunks_bytes::<K, V>(form, chunk);
    let slots = if form == Form::Flat { 0 } else { (left / image).min(MOST_SLOTS) };
    let plan = Plan { form, size, chunk, slots, hot: Share::default(), shards: 1 };
    Ok(ListPlan { plan, splitters: splitters::<K>(form, budget) })
}
