//! Litmus tests of the memory model: many runs of a program of two to four threads, beside each other.
//!
//! ```text
//! round r   locations X, Y, Z of run i: three arrays, one word per run at a scattered place; 0 before
//! thread    one operation of `ops` after the other, by one of the program's threads
//! results   a byte per operation of each thread of run i: what was read
//! stress    further blocks, which send atomics to a few lines meanwhile
//! ```
//!
//! The threads of a run have the same lane of warps that meet before each round, so that they execute it at
//! nearly the same time. What was read stays in registers until the last operation has been submitted, unless
//! an operation depends on it. Otherwise a thread would wait for each load before its next access, and no
//! load could be late. The stress delays accesses to those parts of the second-level cache that have the
//! lines, more for some multiprocessors than for others.
//!
//! [`litmus_run`] executes the programs and stores what each operation read. [`litmus_count`] then counts how
//! often each outcome occurred: the registers of all threads, and the final values of the locations, as a
//! number of 18 bits. The host decodes it.
//!
//! ```
//! use phalanx_kernels::litmus::{Code, OPS, THREADS};
//!
//! // A thread stores 1 to X; another one loads from X.
//! let mut ops = [0; (THREADS * OPS) as usize];
//! ops[0] = Code { kind: Code::STORE, location: 1, value: 1, ..Code::default() }.to_word();
//! ops[OPS as usize] = Code { kind: Code::LOAD, location: 1, ..Code::default() }.to_word();
//! assert_eq!(Code::from_word(ops[0]).value, 1);
//! ```
//!
//! # Cost
//!
//! Per run of a program, its accesses, 12 bytes of locations, a word per thread, and an atomic of a count.
//! [`Code`] is arithmetic.
use simt::hash::mix32;
use simt::{Global, GlobalSlice, Order, Scope, Thread, black_box, device, fence, fence_sc, kernel};

/// Maximum number of threads of a program.
pub const THREADS: u32 = 4;
/// Maximum number of operations of a thread.
pub const OPS: u32 = 4;
/// Number of locations of a run.
pub const LOCATIONS: u32 = 3;
/// Maximum number of operations of a program that read.
pub const READS: u32 = 6;
/// Number of bits of an outcome: two for each read, and two for each location, the first read lowest.
pub const OUTCOME_BITS: u32 = 2 * (READS + LOCATIONS);

/// An operation as a word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// Number of what it does: a constant of this type.
    pub kind: u32,
    /// Number of its location, from 1.
    pub location: u32,
    /// Value that it writes, at most 3.
    pub value: u32,
    /// Memory order: 0 relaxed, 1 acquire, 2 release, 3 both.
    pub order: u32,
    /// 1 if the scope is the block, 0 for the device.
    pub in_block: u32,
}

#[device]
impl Code {
    /// No operation.
    pub const NOTHING: u32 = 0;
    /// Stores `value`.
    pub const STORE: u32 = 1;
    /// Loads.
    pub const LOAD: u32 = 2;
    /// Exchanges the value of the location and `value`.
    pub const EXCHANGE: u32 = 3;
    /// A fence.
    pub const FENCE: u32 = 4;
    /// A sequentially consistent fence.
    pub const FENCE_SC: u32 = 5;
    /// Loads from the location whose number the operation before has read.
    pub const LOAD_THERE: u32 = 6;
    /// Stores the value that the operation before has read.
    pub const STORE_READ: u32 = 7;

    /// Returns the operation as a word.
    pub const fn to_word(self) -> u32 {
        self.kind | self.location << 4 | self.value << 8 | self.order << 12 | self.in_block << 16
    }

    /// Returns the operation of a word.
    pub const fn from_word(word: u32) -> Self {
        Self {
            kind: word & 15,
            location: word >> 4 & 15,
            value: word >> 8 & 15,
            order: word >> 12 & 15,
            in_block: word >> 16 & 15,
        }
    }

    fn order(self) -> Order {
        match self.order {
            0 => Order::Relaxed,
            1 => Order::Acquire,
            2 => Order::Release,
            _ => Order::AcqRel,
        }
    }

    fn scope(self) -> Scope {
        if self.in_block != 0 { Scope::Block } else { Scope::Device }
    }

    /// Executes the operation on the locations of a run. Returns what it read, or 0; `last` is what the
    /// operation before has read.
    fn execute(self, locations: Locations, last: u32) -> u32 {
        let (order, scope) = (self.order(), self.scope());
        match self.kind {
            Self::STORE => locations.at(self.location).store(self.value, order, scope),
            Self::STORE_READ => locations.at(self.location).store(last, order, scope),
            Self::LOAD => return locations.at(self.location).load(order, scope),
            Self::LOAD_THERE => return locations.at(last).load(order, scope),
            Self::EXCHANGE => return locations.at(self.location).exchange(self.value, order, scope),
            Self::FENCE => fence(scope),
            Self::FENCE_SC => fence_sc(scope),
            _ => {}
        }
        0
    }
}

/// The locations of a run. The words of neighbouring runs are in different lines, so that the lanes of a warp
/// access different parts of the second-level cache, of which some answer later than others.
#[derive(Clone, Copy)]
struct Locations {
    words: GlobalSlice<u32>,
    run: u32,
}

#[device]
impl Locations {
    /// Returns a location. Number 0, which an address reads if its writer is late, is a word beside them.
    fn at(self, location: u32) -> Global<u32> {
        let room = self.words.len() / (LOCATIONS as usize + 1);
        // Odd, and different for each location: a permutation of the places of an array.
        let factor = 0x3c6e_f372_u32.wrapping_mul(location).wrapping_add(0x9e37_79b1);
        self.words.at(location as usize * room + (self.run.wrapping_mul(factor) as usize & (room - 1)))
    }
}

/// Runs of a program.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Litmus {
    /// [`OPS`] operations of each of [`THREADS`] threads.
    pub ops: GlobalSlice<u32>,
    /// The words of `LOCATIONS + 1` locations, each a power of two of at least `runs` and at most 2^32; 0
    /// before.
    pub words: GlobalSlice<u32>,
    /// Output: a word per run and thread, with a byte for each operation.
    pub results: GlobalSlice<u32>,
    /// Number of times that warps have come to a round, a word per warp of the grid, of which one for the
    /// warps that have the same runs is used; 0 before.
    pub arrived: GlobalSlice<u32>,
    /// Number of runs: those of all rounds.
    pub runs: u32,
    /// Number of threads of the program.
    pub threads: u32,
    /// 1 if the threads of a run are in one block, 0 if each is in a block of its own.
    pub one_block: u32,
    /// Maximum number of looks at the other warps of the same runs before a round.
    pub patience: u32,
    /// Numbers delays, and chooses lines under stress.
    pub seed: u32,
    /// Lines under stress, [`LINE`] words each.
    pub lines: GlobalSlice<u32>,
    /// Number of the last blocks of the grid which only cause stress.
    pub stressing: u32,
    /// Maximum number of accesses of a thread that causes stress.
    pub stress: u32,
    /// Number of blocks that have executed all rounds: a word, which is 0 before.
    pub done: GlobalSlice<u32>,
}

/// Words of a line of the second-level cache.
pub const LINE: u32 = 32;

/// Delays have fewer bits: enough for the time that a fence takes when many threads write.
const MOST_DELAY: u32 = 14;

/// Number of lines that a launch puts under stress.
const HOT_LINES: u32 = 4;

/// The part of a program that the calling thread has in each round.
#[derive(Clone, Copy)]
struct Role {
    /// Thread of the program.
    thread: u32,
    /// Run, from 0 in the round. Those of a warp follow each other, and other warps have the same runs.
    run: u32,
}

/// The operations of a thread of a program.
#[derive(Clone, Copy)]
struct Ops([Code; OPS as usize]);

#[device]
impl Ops {
    /// Returns whether there are two relaxed accesses of the device's scope, of these kinds.
    fn are(&self, first: u32, second: u32) -> bool {
        let Self([a, b, c, _]) = self;
        let (plain, ended) = (a.order | a.in_block | b.order | b.in_block, c.kind == Code::NOTHING);
        plain == 0 && ended && a.kind == first && b.kind == second
    }

    /// Executes the operations on the locations of a run. Returns what each has read, or 0.
    fn execute(&self, locations: Locations) -> [u32; OPS as usize] {
        let Self([a, b, c, d]) = *self;
        let (x, y) = (locations.at(a.location), locations.at(b.location));
        let (order, scope) = (Order::Relaxed, Scope::Device);
        // Two accesses with no instruction between them are more often late than those of the general case.
        if self.are(Code::LOAD, Code::LOAD) {
            let first = x.load(order, scope);
            return [first, y.load(order, scope), 0, 0];
        }
        if self.are(Code::STORE, Code::STORE) {
            x.store(a.value, order, scope);
            y.store(b.value, order, scope);
            return [0; OPS as usize];
        }
        if self.are(Code::STORE, Code::LOAD) {
            x.store(a.value, order, scope);
            return [0, y.load(order, scope), 0, 0];
        }
        if self.are(Code::LOAD, Code::STORE) {
            let first = x.load(order, scope);
            y.store(b.value, order, scope);
            return [first, 0, 0, 0];
        }
        // Nothing uses what was read before the last operation, except one that depends on it.
        let first = a.execute(locations, 0);
        let second = b.execute(locations, first);
        let third = c.execute(locations, second);
        [first, second, third, d.execute(locations, third)]
    }
}

#[device]
impl Litmus {
    /// Returns the number of runs of a group of blocks in a round.
    fn runs_of_group(self) -> u32 {
        let size = Thread::block_size();
        if self.one_block != 0 { size / 32 / self.threads * 32 } else { size }
    }

    /// Returns the number of blocks that execute programs.
    fn testing(self) -> u32 {
        Thread::grid_size() - self.stressing
    }

    /// Returns the number of groups of blocks.
    fn groups(self) -> u32 {
        if self.one_block != 0 { self.testing() } else { self.testing() / self.threads }
    }

    /// Returns the calling thread's role, if it has one.
    fn role(self) -> Option<Role> {
        let (block, index, each) = (Thread::block_index(), Thread::index_in_block(), self.runs_of_group());
        let warp = index / 32;
        let (thread, group, own) = if self.one_block != 0 {
            (warp % self.threads, block, warp / self.threads * 32 + index % 32)
        } else {
            (block % self.threads, block / self.threads, index)
        };
        if own >= each || group >= self.groups() {
            return None;
        }
        Some(Role { thread, run: group * each + own })
    }

    /// Waits for the other warps of the same runs, but not for long.
    fn meet(self, run: u32, round: u32) {
        let word = self.arrived.at((run / 32) as usize);
        if Thread::lane() == 0 {
            word.fetch_add(1, Order::Relaxed, Scope::Device);
        }
        let mut looks = 0;
        while looks < self.patience && word.load(Order::Relaxed, Scope::Device) < (round + 1) * self.threads {
            looks += 1;
        }
    }

    /// Returns the operations of a thread of the program.
    fn ops_of(self, thread: u32) -> Ops {
        let place = (thread * OPS) as usize;
        Ops(core::array::from_fn(|op| Code::from_word(self.ops.read(place + op))))
    }

    /// Executes the operations of a role in a run.
    fn execute(self, thread: u32, ops: &Ops, run: u32) {
        // The same for all lanes of a warp, which execute the operations together; often short.
        let random = mix32((run / 32) ^ self.seed.wrapping_add(thread << 28));
        let mut delay = (random >> 8) & ((1 << (random % MOST_DELAY)) - 1);
        while delay > 0 {
            delay = black_box(delay) - 1;
        }
        let bytes = ops.execute(Locations { words: self.words, run }).map(|read| read & 0xff);
        let result = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | bytes[3] << 24;
        self.results.write((run * self.threads + thread) as usize, result);
    }

    /// Sends atomics to a few lines until all programs are executed, or for a limited number of times. The
    /// blocks have different parts in it.
    fn disturb(self) {
        let (block, lines) = (Thread::block_index(), self.lines.len() as u32 / LINE);
        let mine = mix32(block ^ mix32(self.seed));
        let done = self.done.at(0);
        let (mut sent, mut ended) = (0, lines == 0);
        while sent < self.stress && !ended {
            let hot = mix32(self.seed.wrapping_add(mine + sent % 2) % HOT_LINES) % lines;
            let word = self.lines.at((hot * LINE + Thread::lane()) as usize);
            if mine & 1 == 0 {
                word.fetch_add(1, Order::Relaxed, Scope::Device);
            } else {
                word.store(sent, Order::Relaxed, Scope::Device);
            }
            sent += 1;
            // Few looks: they wait, and atomics do not.
            if sent.is_multiple_of(64) {
                ended = done.load(Order::Relaxed, Scope::Device) >= self.testing();
            }
        }
    }
}

/// Executes a program as often as there are runs, by the threads of the grid, in rounds. Warps that have the
/// same runs meet before each round. The block size is a power of two, and at least 32 times the number of
/// threads of the program.
#[kernel]
pub fn litmus_run(job: Litmus) {
    if Thread::block_index() >= job.testing() {
        job.disturb();
        return;
    }
    if let Some(Role { thread, run }) = job.role() {
        let (ops, at_once) = (job.ops_of(thread), job.groups() * job.runs_of_group());
        let (mut round, mut first) = (0, run);
        while first < job.runs {
            job.meet(run, round);
            job.execute(thread, &ops, first);
            (round, first) = (round + 1, first + at_once);
        }
    }
    if Thread::index_in_block() == 0 {
        job.done.at(0).fetch_add(1, Order::Relaxed, Scope::Device);
    }
}

/// Counts the outcomes of all runs, each by one thread, and clears their locations. `reads` has the places,
/// among the operations of all threads, of the [`READS`] that an outcome tells; numbers beyond the operations
/// stand for none.
#[kernel]
pub fn litmus_count(job: Litmus, reads: GlobalSlice<u32>, counts: GlobalSlice<u64>) {
    let mut run = Thread::index() as u32;
    while run < job.runs {
        let (mut outcome, mut read) = (0, 0);
        while read < READS {
            let place = reads.read(read as usize);
            if place < job.threads * OPS {
                let result = job.results.read((run * job.threads + place / OPS) as usize);
                outcome |= (result >> (8 * (place % OPS)) & 3) << (2 * read);
            }
            read += 1;
        }
        let (locations, mut location) = (Locations { words: job.words, run }, 0);
        while location < LOCATIONS {
            let word = locations.at(location + 1);
            outcome |= (word.load(Order::Relaxed, Scope::Device) & 3) << (2 * (READS + location));
            word.store(0, Order::Relaxed, Scope::Device);
            location += 1;
        }
        counts.at(outcome as usize).fetch_add(1, Order::Relaxed, Scope::Device);
        run += Thread::count() as u32;
    }
}
