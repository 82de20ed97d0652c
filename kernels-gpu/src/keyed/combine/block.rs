//! Equal operations of a block on equal keys: the groups of its warps, which one lane executes for all.
//!
//! In a batch with Zipf-distributed keys nearly every warp has the most frequent key, so a block still brings
//! it once per warp. Batches therefore combine the groups of a block's warps, too, but only where a sample
//! of the batch has equal keys ([`SkewHint`]): grouping costs batches of distinct keys 5 %.
//!
//! ```text
//! is the batch skewed?                      a word of device memory; one barrier makes the block agree
//! group the lanes of each warp              see the parent module
//! publish the first lane of each group      its key, operation and merged argument, in shared memory
//! find the groups with the same operation   at most one per warp and hash: a table has a byte for each
//! the first lane of all executes it         with the merged argument of all groups
//! every lane computes its own result        from that of the executing lane: groups first, then lanes
//! ```
//!
//! The operations take effect in the order of the warps, at the moment at which that of the executing lane
//! does. A warp waits for the others of its block at the barriers only, between which no operation waits for
//! another one of the block; so an operation ends if it ends without this.
//!
//! Between the barriers, state is in shared memory rather than in registers: the probe loop needs those.
use super::super::bucket_probe::Request;
use super::super::counters::SkewHint;
use super::super::kind::Kind;
use super::super::operation::{Change, Combination, Operation, Outcome};
use super::super::slot::{Scalar, Slot};
use super::{Group, HASH_BITS, code, combines, follow, joins, short_hash};
use core::marker::PhantomData;
use simt::{Block, Shared, SharedShape, Shuffle, Thread, Word, device};

/// Maximum number of threads of a block whose operations are combined.
const THREADS: u32 = 128;
const WARPS: u32 = THREADS / 32;

/// Executes the operation of every lane of the block that passes `pending`, as [`Kind::execute`] does. If the
/// batch is skewed, one lane executes each group of equal operations on a key. All threads of the block call
/// it together, and not again before a barrier.
#[device(caller)]
pub(crate) fn execute<M: Kind, O: Operation>(
    map: M::View,
    pending: bool,
    operation: O,
    key: M::Key,
    argument: M::Value,
) -> (Outcome, M::Value) {
    let board = Board::of_block();
    let is_skewed = Thread::block_size() <= THREADS && board.is_skewed(M::counters(map).skew_hint());
    if !is_skewed && const { is_apart::<M, O>() } {
        return M::execute(map, pending, operation, key, argument);
    }
    let mut request = (pending, operation, key, argument);
    if is_skewed {
        let group = Group::of(joins::<M, O>(pending, operation), operation, key);
        M::counters(map).skew_hint().note(group.has_others());
        request = board.join::<M, O>(group, request);
    }
    let (acts, operation, key, total) = request;
    let (outcome, value) = M::execute(map, acts, operation, key, total);
    // Found anew, so that it takes no register meanwhile.
    if is_skewed {
        Board::of_block().result::<M::Slot, O>(operation, outcome, value)
    } else {
        (outcome, value)
    }
}

/// Returns whether the code that executes an operation is compiled once more for blocks that do not combine.
/// It is where combination takes registers from the operation: mixed batches of distinct keys run 7 % faster
/// so, and insertions into slab lists 4 %. Other operations lose nothing by a common code.
#[device]
const fn is_apart<M: Kind, O: Operation>() -> bool {
    !combines::<M, O>(Combination::Always)
}

/// Words by which the threads of a block cooperate, in shared memory: columns with a word of each thread, a
/// table, and a word of the block.
#[derive(Clone, Copy)]
struct Board(Shared<u64>);

/// Size in units of 8 bytes: see the constants below.
impl SharedShape for Board {
    type Word = u64;
    const LEN: usize = (SKEW as usize + 8) / 8;
}

/// Place of a word of each thread, of type `T`: the first byte.
struct Column<T>(u32, PhantomData<T>);

const COLUMN: u32 = THREADS * 4;
/// Key of the group that the thread represents.
const KEY: Column<u64> = Column(0, PhantomData);
/// Merged argument of that group.
const TOTAL: Column<u64> = Column(2 * COLUMN, PhantomData);
/// Argument of the groups before the thread's one. After the execution, in the executing thread's own word,
/// the returned value.
const VALUE: Column<u64> = Column(4 * COLUMN, PhantomData);
/// Argument of the lanes before the calling one in the group.
const BEFORE: Column<u64> = Column(6 * COLUMN, PhantomData);
/// Operation of that group, or, with the bit [`ALONE`], of a thread that represents no group.
const CODE: Column<u32> = Column(8 * COLUMN, PhantomData);
/// Lanes of the thread's group in its warp.
const LANES: Column<u32> = Column(9 * COLUMN, PhantomData);
/// Thread that executes the operation. After the execution, in that thread's own word, the outcome.
const FIRST: Column<u32> = Column(10 * COLUMN, PhantomData);
/// The lanes that represent groups, in a table: a byte for each hash and warp.
const TABLE: u32 = 11 * COLUMN;
/// Whether recent batches are skewed.
const SKEW: u32 = TABLE + (WARPS << HASH_BITS);

/// Bit in the code of a thread that represents no group. Codes of operations are small.
const ALONE: u32 = 1 << 31;

#[device]
impl Board {
    fn of_block() -> Self {
        Self(Shared::of::<Self>())
    }

    /// Returns the words from byte `first` on.
    #[device(caller)]
    fn words<T: Word>(self, first: u32, len: u32) -> Shared<T> {
        // SAFETY: the array is aligned to 16 bytes, and a constant above is a multiple of 8. The callers pass
        // constants, and lengths up to the next one.
        unsafe { self.0.cast::<u8>().part(first, len as usize * size_of::<T>()).cast() }
    }

    /// Returns the word of a thread.
    #[device(caller)]
    fn at<T: Word>(self, column: Column<T>, thread: u32) -> T {
        // SAFETY: below the length.
        unsafe { self.words(column.0, THREADS).load_unchecked(thread % THREADS) }
    }

    /// Writes the calling thread's word.
    #[device(caller)]
    fn put<T: Word>(self, column: Column<T>, word: T) {
        // SAFETY: below the length.
        unsafe { self.words(column.0, THREADS).store_unchecked(own(), word) }
    }

    /// Returns to all threads of the block whether it combines: if a sample of recent batches had equal keys,
    /// or if the block is to be a sample.
    fn is_skewed(self, hint: SkewHint) -> bool {
        let shared = self.words::<u32>(SKEW, 1);
        if Thread::index_in_block() == 0 {
            // mutation: early performance, because the hint only decides whether operations are combined.
            // mutation: skip late unreached, because explorers run block 0 of a launch, which is a sample and
            // does not read the word.
            shared.store(0, hint.is_skewed() as u32);
        }
        // mutation: skip unreached, because block 0 of a launch does not read the word.
        Block::sync();
        SkewHint::is_sample() || shared.load(0) != 0
    }

    /// Joins the calling lane's group with equal ones of other warps. Returns whether the calling lane
    /// executes an operation, the operation, its key and its argument. What it returns unchanged, it reads
    /// from the board, so that this takes no registers before.
    fn join<M: Kind, O: Operation>(
        self,
        group: Group,
        (pending, operation, key, argument): (bool, O, M::Key, M::Value),
    ) -> (bool, O, M::Key, M::Value) {
        let (total, before) = group.merge::<M::Slot, O>(operation, argument);
        // mutation: late equivalent, because the calling thread alone reads the word, after its next write.
        self.put(LANES, group.lanes);
        if O::RETURNS {
            // mutation: late equivalent, because the calling thread alone reads it, after its next write.
            self.put(BEFORE, before.to_u64());
        }
        self.publish(group.represents(), code(operation), key.to_u64(), total.to_u64());
        Block::sync();
        let (mut first, mut all, mut earlier) = (own(), total, total);
        if group.represents() {
            (first, all, earlier) = self.find::<M::Slot, O>(operation, key, total);
        }
        self.put(FIRST, first);
        if O::RETURNS {
            self.put(VALUE, earlier.to_u64());
        }
        let acts = pending && first == own() && group.leads();
        let operation = operation.map_words(|_| self.at(CODE, own()) & !ALONE);
        (acts, operation, M::Key::from_u64(self.at(KEY, own())), all)
    }

    /// Shows the block what the calling thread represents. Each thread writes its own words, so those of all
    /// are of this call. Of the lanes of a warp with the same hash at most one represents a group
    /// ([`Group::of`]), so a byte of the table has one writer.
    fn publish(self, represents: bool, code: u32, key: u64, total: u64) {
        // mutation: late equivalent, because other threads read the word after the next barrier.
        self.put(CODE, if represents { code } else { code | ALONE });
        // mutation: late equivalent, because other threads read the word after the next barrier.
        self.put(KEY, key);
        // mutation: late equivalent, because a thread writes to the table after it, before the next barrier,
        // or represents nothing: then no thread reads the word.
        self.put(TOTAL, total);
        if represents {
            let table = self.words::<u8>(TABLE, WARPS << HASH_BITS);
            // SAFETY: a hash is below `1 << HASH_BITS`.
            unsafe { table.store_unchecked(short_hash(code, key) * WARPS + own() / 32, (own() % 32) as u8) };
        }
    }

    /// Returns the thread that executes the operation of the group that the calling thread represents, the
    /// argument of all groups for which it does so, and that of the groups before the calling thread's one.
    ///
    /// The table may have bytes of an earlier call or block. A lane that one names is either not of this
    /// group, or the right one: a lane that represents a group has written the byte.
    fn find<S: Slot, O: Operation>(
        self,
        operation: O,
        key: S::Key,
        total: S::Value,
    ) -> (u32, S::Value, S::Value) {
        let (mut first, mut all, mut earlier, mut warp) = (u32::MAX, total, total, 0);
        let code = code(operation);
        let lanes = self.words::<u32>(TABLE, 1 << HASH_BITS).load_uninit(short_hash(code, key) as usize);
        while warp < WARPS {
            let thread = warp * 32 + (lanes >> (8 * warp)) % 32;
            if self.represents(thread, code, key.to_u64()) {
                earlier = if thread == own() { all } else { earlier };
                let argument = S::Value::from_u64(self.at(TOTAL, thread));
                let both = Request::<S, O>::changed_value(operation, all, argument);
                all = match operation.change() {
                    _ if first == u32::MAX => argument,
                    Change::Erase => all,
                    _ => both,
                };
                first = first.min(thread);
            }
            // Hidden, so that the loop is not unrolled.
            warp = simt::black_box(warp) + 1;
        }
        (first, all, earlier)
    }

    /// Returns whether a thread represents a group with an operation and a key.
    fn represents(self, thread: u32, code: u32, key: u64) -> bool {
        thread < Thread::block_size() && self.at(CODE, thread) == code && self.at(KEY, thread) == key
    }

    /// Returns the calling lane's result from that of the operation, which the executing lane passes.
    fn result<S: Slot, O: Operation>(
        self,
        operation: O,
        mut outcome: Outcome,
        mut value: S::Value,
    ) -> (Outcome, S::Value) {
        // Words of the calling thread, which no other has read.
        let first = self.at(FIRST, own());
        let earlier = if O::RETURNS { S::Value::from_u64(self.at(VALUE, own())) } else { value };
        if first == own() {
            self.put(FIRST, outcome as u32);
            if O::RETURNS {
                self.put(VALUE, value.to_u64());
            }
        }
        Block::sync();
        if first != own() {
            outcome = outcome.map_words(|_| self.at(FIRST, first));
            value = if O::RETURNS { S::Value::from_u64(self.at(VALUE, first)) } else { value };
            (outcome, value) = follow::<S, O>(operation, outcome, value, earlier);
        }
        let before = if O::RETURNS { S::Value::from_u64(self.at(BEFORE, own())) } else { value };
        Group::with_lanes(self.at(LANES, own())).result::<S, O>(operation, outcome, value, before)
    }
}

#[device]
fn own() -> u32 {
    Thread::index_in_block() % THREADS
}

#[cfg(test)]
mod tests {
    use super::super::tests::{KEYS, NOTHING, Step, decoded, execute_on, on_device, read, steps};
    use super::*;
    use crate::hash_map::DefaultTable;
    use crate::keyed::{Insert, InsertNew, OpCode, Packed, Upsert};
    use simt::emulator::{Emulator, Options};
    use simt::{GlobalSlice, Grid, kernel};

    /// Lets the lane that executes for a group do so on the model, in the order of the threads. `results`
    /// receives the outcome and the value of each thread, and the thread that executed its operation.
    #[device(caller)]
    fn play<O: Operation>(map: GlobalSlice<u32>, threads: GlobalSlice<u32>, decode: fn(OpCode) -> O) {
        let (board, at) = (Board::of_block(), 3 * own() as usize);
        let [code, key, argument] = [0, 1, 2].map(|word| threads.read(at + word));
        let (pending, operation) = (code != NOTHING, decode(OpCode::from_code(code)));
        let group = Group::of(pending, operation, key);
        let request = board.join::<DefaultTable, O>(group, (pending, operation, key, argument));
        let (acts, operation, key, total) = request;
        Block::sync();
        let leader = board.at(FIRST, own() / 32 * 32 + group.lanes.trailing_zeros());
        let mut result = (Outcome::Absent, total);
        for thread in 0..Thread::block_size() {
            if acts && own() == thread {
                let mut state = map.read(key as usize);
                result = execute_on(&mut state, operation, total);
                map.write(key as usize, state);
            }
            Block::sync();
        }
        let (outcome, value) = board.result::<Packed, O>(operation, result.0, result.1);
        [outcome as u32, value, leader].into_iter().zip(at..).for_each(|(word, at)| threads.write(at, word));
    }

    macro_rules! plays {
        ($($kernel:ident: $decode:expr;)*) => {$(
            #[kernel]
            fn $kernel(map: GlobalSlice<u32>, threads: GlobalSlice<u32>) {
                play(map, threads, $decode);
            }
        )*};
    }
    plays! {
        block_codes: |code| code;
        block_inserts: |_| Insert;
        block_new: |_| InsertNew;
        block_upserts: Upsert;
    }

    /// Requires that the threads have the results of operations that ran group by group, each in the order of
    /// the threads, and that equal operations on the key of most threads are one group.
    fn check<O: Operation>(
        decode: fn(OpCode) -> O,
        start: &[u32],
        after: &[u32],
        steps: &[Step],
        results: &[Step],
    ) {
        let mut order: Vec<usize> = (0..steps.len()).filter(|&thread| steps[thread][0] != NOTHING).collect();
        order.sort_by_key(|&thread| (results[thread][2], thread));
        let mut map = start.to_vec();
        for thread in order {
            let ([_, key, argument], [outcome, value, leader]) = (steps[thread], results[thread]);
            let operation = decoded(decode, steps[thread]);
            let expected = execute_on(&mut map[key as usize], operation, argument);
            assert_eq!(outcome, expected.0 as u32, "thread {thread} of {steps:?}");
            assert!(!O::RETURNS || value == expected.1, "thread {thread} of {steps:?} returns {value}");
            let other = steps[leader as usize];
            assert!(operation.is_same(decoded(decode, other)) && other[1] == key, "{thread} and {leader}");
        }
        assert_eq!(map, after, "{steps:?}");
    }

    fn run<O: Operation, K: simt::Kernel + Send + Sync + 'static>(
        decode: fn(OpCode) -> O,
        kernel: fn(GlobalSlice<u32>, GlobalSlice<u32>) -> K,
    ) {
        let device = Emulator::new(Options::default());
        for seed in 0..100 {
            // A block may end within a warp, or have fewer warps.
            let threads = [128, 72, 33, 8][seed as usize % 7 / 2];
            let steps: Vec<Step> =
                (0..4).flat_map(|warp| steps(seed + 1000 * warp)).take(threads as usize).collect();
            let start: Vec<u32> =
                (0..KEYS as u32).map(|key| if key % 3 == seed % 3 { 7 } else { 0 }).collect();
            let (map, words) = (on_device(&device, &start), on_device(&device, steps.as_flattened()));
            device.launch(Grid::new(1, threads), kernel(map, words)).unwrap();
            check(decode, &start, &read(map), &steps, read(words).as_chunks::<3>().0);
        }
    }

    #[test]
    fn blocks_have_the_results_of_a_serial_order() {
        run(|code| code, |map, threads| BlockCodes { map, threads });
        run(|_| Insert, |map, threads| BlockInserts { map, threads });
        run(|_| InsertNew, |map, threads| BlockNew { map, threads });
        run(Upsert, |map, threads| BlockUpserts { map, threads });
    }

    #[test]
    fn threads_with_one_key_have_one_leader() {
        let device = Emulator::new(Options::default());
        for key in 0..KEYS as u32 {
            let pending = |thread: u32| thread >= key && thread % 5 != key % 5;
            let step = |thread| [if pending(thread) { OpCode::ADD.code() } else { NOTHING }, key, thread];
            let steps: Vec<Step> = (0..THREADS).map(step).collect();
            let (map, words) = (on_device(&device, &[0; KEYS]), on_device(&device, steps.as_flattened()));
            device.launch(Grid::new(1, THREADS), BlockUpserts { map, threads: words }).unwrap();
            let results = read(words);
            let leader = (0..THREADS).find(|&thread| pending(thread)).unwrap();
            for (thread, result) in (0..THREADS).zip(results.as_chunks::<3>().0) {
                assert!(!pending(thread) || result[2] == leader, "key {key}, thread {thread}");
            }
        }
    }

    #[test]
    fn two_operations_on_a_key_have_a_leader_each() {
        let device = Emulator::new(Options::default());
        let codes = [OpCode::GET.code(), OpCode::INSERT.code()];
        for key in 0..KEYS as u32 {
            let steps: Vec<Step> =
                (0..THREADS).map(|thread| [codes[thread as usize % 2], key, thread]).collect();
            let (map, words) = (on_device(&device, &[0; KEYS]), on_device(&device, steps.as_flattened()));
            device.launch(Grid::new(1, THREADS), BlockCodes { map, threads: words }).unwrap();
            for (thread, result) in (0..THREADS).zip(read(words).as_chunks::<3>().0) {
                assert_eq!(result[2], thread % 2, "key {key}, thread {thread}");
            }
        }
    }
}
