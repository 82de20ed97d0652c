//! Kinds of table: sizes of keys and values, levels, hash locations, slots and lanes.
use core::fmt;
use simt::{Instance, Name};

/// The constants of a kind of table.
pub trait Config: Copy + Send + Sync + fmt::Debug + 'static {
    /// Words of 8 bytes in a key: 1, 2, 4 or 8.
    const KEY_WORDS: u32;
    /// Bytes in a value: 8, or 0 if tables of the kind have values of any size.
    const VALUE_BYTES: u32;
    /// Number of levels.
    const LEVELS: u32;
    /// Number of hash locations of a key.
    const HASHES: u32;
    /// Slots in a bucket: 4, 8, 16 or 32.
    const SLOTS: u32;
    /// Lanes that search a key together. They read one bucket each at the same time.
    const LANES: u32;

    /// Whether items are keys and values of 8 bytes. Operations then access an item as a whole, and an update
    /// writes the value in place.
    const IS_SMALL: bool = Self::KEY_WORDS == 1 && Self::VALUE_BYTES == 8;
    /// Buckets in which a key can be.
    const CANDIDATES: u32 = Self::LEVELS * Self::HASHES;
    /// Slots of a bucket that items may take. Where an update writes a new item, one slot is spare.
    const USABLE: u32 = if Self::IS_SMALL { Self::SLOTS } else { Self::SLOTS - 1 };

    /// Whether tables of the kind may have a cache: links of a group's slots have room beside its version.
    const CACHES: bool = Self::LEVELS <= 2 && Self::SLOTS >= 8;
}

/// The kind of table with keys of `8 K` bytes, values of `V` bytes (0: any number), `L` levels, `H` hash
/// locations, `S` slots in a bucket, and tiles of `W` lanes.
///
/// With `W = L H` a tile reads all buckets of a key at once. With fewer lanes, it reads the buckets of the
/// first hash location first, and those of the next ones only if the key was not there.
#[derive(Clone, Copy, Debug)]
pub struct Levels<const K: u32, const V: u32, const L: u32, const H: u32, const S: u32, const W: u32>;

impl<const K: u32, const V: u32, const L: u32, const H: u32, const S: u32, const W: u32> Config
    for Levels<K, V, L, H, S, W>
{
    const KEY_WORDS: u32 = {
        assert!(K == 1 || K == 2 || K == 4 || K == 8, "keys have 8, 16, 32 or 64 bytes");
        K
    };
    const VALUE_BYTES: u32 = {
        assert!(V == 0 || V == 8 && K == 1, "values have any size, or 8 bytes if keys do");
        V
    };
    const LEVELS: u32 = {
        assert!(1 <= L && L <= 4, "a table has 1 to 4 levels");
        L
    };
    const HASHES: u32 = {
        assert!(1 <= H && H <= 4, "a key has 1 to 4 hash locations");
        H
    };
    const SLOTS: u32 = {
        assert!(S == 4 || S == 8 || S == 16 || S == 32, "a bucket has 4, 8, 16 or 32 slots");
        S
    };
    const LANES: u32 = {
        assert!((L * H).is_multiple_of(W) && W.is_power_of_two(), "lanes read whole buckets");
        W
    };
}

impl<const K: u32, const V: u32, const L: u32, const H: u32, const S: u32, const W: u32> Instance
    for Levels<K, V, L, H, S, W>
{
    const NAME: &'static str = const {
        let name = Name::of("levels_").number(L as usize).text("l").number(H as usize).text("h");
        let name = name.number(S as usize).text("s").number(W as usize).text("w_k").number(8 * K as usize);
        &name.text(if V == 8 { "_v8" } else { "" })
    }
    .as_str();
}
