//! Division of the budget: how many shards, and how much memory for shards and for the elements of a batch.
//!
//! ```text
//! budget  | image, counters | image, counters | ...  | elements, workspace | the same | hot   | counters
//!         | slots for shards, at least 3             | chunk buffers                  | pairs | in place
//! ```
//!
//! Unless their size is given, the hot pairs begin with a small sample, and take slots while they pay
//! (`adapt.rs`).
use super::chunk::buffer_bytes;
use super::hot::{BUCKET_BYTES, sample_bytes};
use super::partition::Ranges;
use super::shard::Size;
use crate::hash_map::kernels::Kernels;
use crate::map::encoding::Word;
use crate::{Error, Result};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS, SKETCH_REGISTERS};
use phalanx_kernels::tiered::MOST_BITS;

/// Words of a table's counters.
pub const COUNTER_WORDS: usize = COUNTER_SHARDS * SHARD_WORDS;
/// Number of chunk buffers, and so of chunks in flight: while one is sorted, another is copied.
pub const CHUNK_BUFFERS: usize = 3;
/// Streams of operations in place.
pub const PLACES: usize = 4;
/// Shards in flight at most: one each on the way in, in a kernel, on the way out, and in the hands of the
/// host.
pub const DEPTH: usize = 4;
/// Least number of slots: one each on the way in, in a kernel, and on the way out.
pub const LEAST_SLOTS: usize = 3;
/// Bounds of the number of elements in a chunk.
pub const CHUNKS: (usize, usize) = (128, 1 << 26);
/// Share of a small budget for the chunks of a batch: one in this number.
const OF_SMALL_CHUNKS: usize = 3;
/// Bytes of chunks that are enough: with more, only the other share grows.
const ENOUGH_CHUNKS: usize = 64 << 20;
/// Share of a large budget for the chunks of a batch: one in this number. The rest keeps shards on the
/// device.
const OF_CHUNKS: usize = 4;
/// Share of the budget for one shard, if the number of shards is not given: one in this number.
pub const OF_SHARD: usize = 48;
/// Share of the budget that the hot pairs may have, unless it is given: one in this number.
const OF_HOT: usize = 3;
/// Bytes of a shard up to which a larger number of shards gains nothing.
pub const SMALL_SHARD: usize = 1 << 20;

/// Shape of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One table in device memory.
    Resident,
    /// One table in host memory: a baseline.
    Flat,
    /// 2^`bits` shards in host memory.
    Sharded {
        /// Bits of a hash that select the shard.
        bits: u32,
    },
}

impl Form {
    /// Returns whether the map is divided into shards.
    pub fn is_sharded(self) -> bool {
        matches!(self, Self::Sharded { .. })
    }
}

/// Requirements of a map.
#[derive(Clone, Copy, Debug)]
pub struct Wish {
    /// Pairs of all shards.
    pub pairs: usize,
    /// Slots of all shards, for these pairs.
    pub slots: usize,
    /// Number of shards, if it is given.
    pub shards: Option<usize>,
    /// Whether the map is a baseline without shards.
    pub is_flat: bool,
    /// Bytes for hot pairs, if they are given.
    pub hot: Option<usize>,
    /// Ranges of keys, if shards have them.
    pub ranges: Option<Ranges>,
}

impl Wish {
    /// Returns the number of shards of a form.
    fn shards(&self, form: Form) -> usize {
        match (form, self.ranges) {
            (Form::Sharded { .. }, Some(ranges)) => ranges.count,
            (Form::Sharded { bits }, None) => 1 << bits,
            (Form::Resident | Form::Flat, _) => 1,
        }
    }

    /// Returns the bytes of device memory for the ranges.
    fn range_bytes<K>(&self) -> usize {
        self.ranges.map_or(0, |ranges| ranges.device_bytes::<K>())
    }
}

/// Division of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan<Z = Size> {
    pub form: Form,
    /// Size of each shard.
    pub size: Z,
    /// Maximum number of elements in a chunk.
    pub chunk: usize,
    /// Number of device buffers for shards.
    pub slots: usize,
    /// The part of the hot pairs.
    pub hot: Share,
    /// Number of shards of a new map.
    pub shards: usize,
}

/// Device memory for hot pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Bytes that they always have.
    pub fixed: usize,
    /// Most bytes that slots give them while they pay.
    pub most: usize,
}

impl Share {
    /// Returns the bytes that are allocated with the slots: those of the hot pairs, or of a sample of them.
    pub fn initial(self) -> usize {
        if self.most > 0 { sample_bytes(self.most) } else { self.fixed }
    }
}

/// Bytes of counters.
pub const COUNTERS: usize = 8 * COUNTER_WORDS;
/// Bytes of the counters of operations in place, and of a sketch.
const FIXED: usize = PLACES * COUNTERS + 4 * SKETCH_REGISTERS;

/// Returns the size of one of 2^`bits` shards. Shards differ by chance: each has four standard deviations
/// more slots than the average.
fn shard_size<K, V>(kernels: &dyn Kernels<K, V>, slots: usize, bits: u32) -> Result<Size> {
    let mean = slots.div_ceil(1 << bits);
    let spread = if bits == 0 { 0 } else { 4 * mean.isqrt() };
    Size::of(kernels, mean.saturating_add(spread))
}

/// Returns the size of a new shard that has a range of keys: it has no more pairs than the range has keys.
fn range_size<K, V>(kernels: &dyn Kernels<K, V>, wish: Wish, ranges: Ranges) -> Result<Size> {
    let mean = wish.slots.div_ceil(ranges.count);
    let most = (ranges.each as f64 * wish.slots as f64 / wish.pairs as f64).ceil();
    Size::of(kernels, mean.saturating_add(4 * mean.isqrt()).min(most as usize))
}

/// Returns the bytes of chunks of `len` elements.
pub fn chunks_bytes<K: Word, V: Word>(form: Form, len: usize) -> usize {
    CHUNK_BUFFERS * buffer_bytes::<K, V>(len, form.is_sharded())
}

/// Returns the bytes that tables need on the device, with this number of slots for shards.
fn tables_bytes(form: Form, size: Size, slots: usize) -> usize {
    match form {
        Form::Resident => size.byte_len(),
        Form::Flat => 0,
        Form::Sharded { .. } => slots.saturating_mul(size.byte_len().saturating_add(COUNTERS)),
    }
}

/// Returns the least budget of a form.
fn least<K: Word, V: Word>(form: Form, size: Size) -> usize {
    tables_bytes(form, size, LEAST_SLOTS).saturating_add(FIXED + chunks_bytes::<K, V>(form, CHUNKS.0))
}

/// Returns the forms that a map may have, the best one first.
fn forms<K: Word, V: Word>(
    kernels: &dyn Kernels<K, V>,
    wish: Wish,
    budget: usize,
) -> Result<Vec<(Form, Size)>> {
    if let Some(ranges) = wish.ranges {
        let form = Form::Sharded { bits: ranges.bits() };
        return Ok(vec![(form, range_size(kernels, wish, ranges)?)]);
    }
    let flat = |form| -> Result<_> { Ok((form, shard_size(kernels, wish.slots, 0)?)) };
    let sharded =
        |bits| -> Result<_> { Ok((Form::Sharded { bits }, shard_size(kernels, wish.slots, bits)?)) };
    match wish.shards {
        _ if wish.is_flat => Ok(vec![flat(Form::Flat)?]),
        Some(asked) if asked.is_power_of_two() && asked <= 1 << MOST_BITS => {
            Ok(vec![sharded(asked.trailing_zeros())?])
        }
        Some(asked) => Err(Error::Shards { asked, most: 1 << MOST_BITS }),
        None => {
            let most = (budget / OF_SHARD).max(SMALL_SHARD);
            let mut split = sharded(MOST_BITS)?;
            for bits in (1..MOST_BITS).rev() {
                let larger = sharded(bits)?;
                if larger.1.byte_len() > most {
                    break;
                }
                split = larger;
            }
            let whole = flat(Form::Resident).ok();
            Ok(whole.into_iter().chain([split]).collect())
        }
    }
}

/// Returns the least budget with which a map can be built.
pub fn least_budget<K: Word, V: Word>(kernels: &dyn Kernels<K, V>, wish: Wish) -> Result<usize> {
    let all = forms(kernels, wish, 0)?;
    let least = all.into_iter().map(|(form, size)| least::<K, V>(form, size)).min();
    Ok(least.unwrap_or(usize::MAX).saturating_add(wish.range_bytes::<K>()))
}

/// Divides a budget.
pub fn divide<K: Word, V: Word>(kernels: &dyn Kernels<K, V>, wish: Wish, budget: usize) -> Result<Plan> {
    let rest = budget.saturating_sub(wish.range_bytes::<K>());
    let fits = |&(form, size): &(Form, Size)| least::<K, V>(form, size) <= rest;
    match forms(kernels, wish, budget)?.into_iter().find(fits) {
        Some((form, size)) => Ok(divide_for::<K, V>((form, size, wish.shards(form)), rest, wish.hot)),
        None => Err(Error::DeviceBudget { asked: budget, needed: least_budget(kernels, wish)? }),
    }
}

/// Divides a budget for a map of at least 2^`bits` shards.
pub fn split<K: Word, V: Word>(
    kernels: &dyn Kernels<K, V>,
    (slots, bits): (usize, u32),
    budget: usize,
    hot: Option<usize>,
) -> Result<Plan> {
    let mut needed = usize::MAX;
    for bits in bits..=MOST_BITS {
        let (form, size) = (Form::Sharded { bits }, shard_size(kernels, slots, bits)?);
        needed = needed.min(least::<K, V>(form, size));
        if least::<K, V>(form, size) <= budget && size.byte_len() <= (budget / OF_SHARD).max(SMALL_SHARD) {
            return Ok(divide_for::<K, V>((form, size, 1 << bits), budget, hot));
        }
    }
    Err(Error::DeviceBudget { asked: budget, needed })
}

/// Divides a budget for a form that fits it.
fn divide_for<K: Word, V: Word>(
    (form, size, shards): (Form, Size, usize),
    budget: usize,
    hot: Option<usize>,
) -> Plan {
    let needed = tables_bytes(form, size, LEAST_SLOTS) + FIXED;
    let chunk = chunk_len::<K, V>(form, share_of_chunks(budget).min(budget - needed));
    let left = budget - FIXED - chunks_bytes::<K, V>(form, chunk);
    let plan = Plan { form, size, chunk, slots: 0, hot: Share::default(), shards };
    if !form.is_sharded() {
        return plan;
    }
    let (each, most) = (size.byte_len() + COUNTERS, shards.max(LEAST_SLOTS));
    let is_all_on_device = left / each >= most;
    let room = left - LEAST_SLOTS * each;
    let buckets = |bytes: usize| bytes / BUCKET_BYTES * BUCKET_BYTES;
    let hot = match hot {
        Some(bytes) => Share { fixed: buckets(bytes.min(room)), most: 0 },
        None if is_all_on_device => Share::default(),
        None => Share { fixed: 0, most: buckets((budget / OF_HOT).min(room)) },
    };
    // A sample that leaves no room for slots is none.
    let hot = if hot.initial() > room { Share::default() } else { hot };
    Plan { slots: ((left - hot.initial()) / each).min(most), hot, ..plan }
}

/// Returns the bytes of a budget for the chunks of a batch.
pub fn share_of_chunks(budget: usize) -> usize {
    (budget / OF_CHUNKS).max((budget / OF_SMALL_CHUNKS).min(ENOUGH_CHUNKS))
}

/// Returns the largest length of chunks that need at most `bytes` bytes.
pub fn chunk_len<K: Word, V: Word>(form: Form, bytes: usize) -> usize {
    let (mut low, mut high) = (CHUNKS.0 / 128, CHUNKS.1 / 128);
    while low < high {
        let middle = (low + high).div_ceil(2);
        match chunks_bytes::<K, V>(form, 128 * middle) <= bytes {
            true => low = middle,
            false => high = middle - 1,
        }
    }
    128 * low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::variant::VariantTag;
    use phalanx_kernels::hash_map::DefaultTable;

    /// The only variant that is compiled for these tests.
    const VARIANT: VariantTag<DefaultTable> = VariantTag::NEW;

    /// Returns the wish for a map without ranges.
    fn wish(slots: usize, shards: Option<usize>) -> Wish {
        Wish { pairs: slots / 2, slots, shards, is_flat: false, hot: None, ranges: None }
    }

    /// Returns the bytes of device memory that a map allocates.
    fn used(plan: Plan) -> usize {
        tables_bytes(plan.form, plan.size, plan.slots)
            + FIXED
            + chunks_bytes::<u32, u32>(plan.form, plan.chunk)
            + plan.hot.initial()
    }

    #[test]
    fn a_table_of_16_gib_in_a_budget_of_4() {
        let plan = divide(&VARIANT, wish(1 << 31, None), 4 << 30).unwrap();
        assert_eq!((plan.form, plan.shards), (Form::Sharded { bits: 8 }, 256));
        assert!(plan.slots > 16 && plan.chunk > 1 << 22 && plan.hot.most > 1300 << 20, "{plan:?}");
        assert!(used(plan) <= 4 << 30 && used(plan) > 15 << 28, "{plan:?}");
        let needed = least_budget(&VARIANT, wish(1 << 31, None)).unwrap();
        assert!(needed < 8 << 20, "{needed}");
    }

    #[test]
    fn every_budget_from_the_least_on_suffices() {
        for (slots, shards) in
            [(1000, None), (1000, Some(8)), (1 << 20, None), (1 << 20, Some(1)), (1, Some(64))]
        {
            let wish = wish(slots, shards);
            let needed = least_budget(&VARIANT, wish).unwrap();
            assert!(divide(&VARIANT, wish, needed - 1).is_err());
            for more in [0, 1, 1000, 1 << 16, 1 << 20, 1 << 26] {
                let plan = divide(&VARIANT, wish, needed + more).unwrap();
                assert!(used(plan) <= needed + more, "{plan:?}");
                assert!(plan.slots >= 3 || plan.form == Form::Resident, "{plan:?}");
            }
        }
    }

    /// Returns the wish for a map of `each` keys in each of 2^10 ranges.
    fn ranges(each: u64, pairs: usize) -> Wish {
        let ranges = Ranges::new(0, (each << 10) - 1, each).ok();
        Wish { pairs, ranges, hot: Some(0), ..wish((pairs as f64 / 0.8).ceil() as usize, None) }
    }

    /// Returns the bytes of an image for each key of a full range.
    fn bytes_per_key<V: Word>(kernels: &dyn Kernels<V, V>, each: u64) -> f64 {
        let wish = ranges(each, (each as usize) << 10);
        range_size(kernels, wish, wish.ranges.unwrap()).unwrap().byte_len() as f64 / each as f64
    }

    /// The figures of `docs/structures/tiered-map.md`.
    #[test]
    fn bytes_per_key_of_full_ranges() {
        for each in [1 << 8, 1 << 10, 1 << 12, 1 << 16, 1 << 20] {
            let (bytes, page) = (bytes_per_key(&VARIANT, each), 10.2 + 1250.0 / each as f64);
            assert!((bytes / page - 1.0).abs() < 0.02, "{each}: {bytes} {page}");
        }
    }

    #[test]
    fn a_range_has_room_for_its_keys_and_no_more() {
        let dense = ranges(1000, 1_024_000);
        let size = |wish: Wish| range_size(&VARIANT, wish, wish.ranges.unwrap()).unwrap().slots;
        assert!((1250..1300).contains(&size(dense)), "{}", size(dense));
        assert_eq!(size(ranges(1000, 5_000_000)), size(dense));
        assert!(size(ranges(1 << 40, 1_024_000)) > 1350, "with a margin, since keys are not dense");
        let plan = divide(&VARIANT, dense, 1 << 18).unwrap();
        assert_eq!((plan.shards, plan.form, plan.hot), (1024, Form::Sharded { bits: 10 }, Share::default()));
        let (used, needed) = (used(plan) + 4 * 1023, least_budget(&VARIANT, dense).unwrap());
        assert!(used <= 1 << 18 && used + plan.size.byte_len() + COUNTERS > 1 << 18, "{used}");
        assert!(divide(&VARIANT, dense, needed).is_ok() && divide(&VARIANT, dense, needed - 1).is_err());
    }

    #[test]
    fn a_map_is_split_until_three_shards_fit() {
        let plan = split::<u32, u32>(&VARIANT, (1 << 20, 1), 4 << 20, None).unwrap();
        assert!(used(plan) <= 4 << 20 && plan.size.byte_len() <= 1 << 20 && plan.slots >= 3, "{plan:?}");
        assert!(split::<u32, u32>(&VARIANT, (1 << 20, 1), 1000, None).is_err());
    }
}
