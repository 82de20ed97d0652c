//! The emulator: the back end that runs kernels on the host. Its user documentation is in [`public`].
//!
//! This file holds the functions that both back ends provide. The other files are:
//!
//! | file | contents |
//! |---|---|
//! | `machine`, `world`, `options`, `failure` | the device, its state and options, the failures of launches |
//! | `site`, `fault` | lines of kernel source, and changes of the operations there |
//! | `mutant` | the mutant of the process, and the record of the sites that it executes |
//! | `launch`, `run`, `worker` | launches as data; host threads, scheduling of blocks and lanes in fast mode |
//! | `block`, `lane`, `stacks`, `panics`, `overflow` | blocks, warps and barriers; coroutines |
//! | `collective` | rendezvous of lanes, and the results of collectives |
//! | `memory/` | live buffers, checks, and the only module that accesses memory |
//! | `explore/` | the exploring mode: decisions, schedules, traces |
//! | `crash` | stores to memory that survives the process, and crashes |
//! | `detect/` | happens-before, races, stale values, weak memory |
//!
//! A memory access consists of: the scheduling step (another lane may run first), the check (aligned, live,
//! initialised), the detectors in exploring mode, and the host atomic. Collectives and barriers consist of:
//! the step, the arrival, and completion or waiting.
mod block;
mod collective;
mod crash;
mod detect;
mod explore;
mod failure;
mod fault;
mod lane;
mod launch;
mod machine;
mod memory;
mod mutant;
mod options;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod overflow;
mod panics;
pub mod public;
mod run;
mod site;
mod stacks;
mod worker;
mod world;

use crate::{Order, Scope, SharedShape, Word};
use collective::{Kind, Operand, meet};
use failure::FailureKind;
use lane::Lane;
use memory::access::How;
use memory::arrays::Key;
use memory::atomics::Update;
use memory::{global, shared};
use simt_macros::device;
use site::Site;
use std::any::TypeId;
use std::panic::Location;

/// Returns the caller's source line.
#[device(caller)]
pub fn site() -> Site {
    Location::caller()
}

#[inline(never)]
pub fn thread_index() -> u32 {
    Lane::current().thread
}

#[inline(never)]
pub fn block_index() -> u32 {
    Lane::current().block_index
}

#[inline(never)]
pub fn block_size() -> u32 {
    Lane::current().block_size
}

#[inline(never)]
pub fn grid_size() -> u32 {
    Lane::current().grid_size
}

#[inline(never)]
pub fn lane() -> u32 {
    Lane::current().lane
}

pub fn clock() -> u64 {
    let worker = Lane::current().worker();
    worker.explorer().map_or_else(|| worker.steps(), explore::Explorer::steps)
}

pub fn timer() -> u64 {
    let lane = Lane::current();
    if let Some(explorer) = lane.explorer() {
        explorer.read_clock(lane);
    }
    lane.worker().run.world.next_time()
}

#[track_caller]
pub fn spin_hint() {
    let lane = Lane::current();
    match lane.explorer() {
        None => lane.spin(site()),
        Some(explorer) => explorer.spin(lane, site()),
    }
}

/// Executes a spin hint: the emulator measures time in steps.
#[track_caller]
pub fn pause(_nanoseconds: u32) {
    spin_hint();
}

#[track_caller]
pub fn trap() -> ! {
    Lane::current().fail(FailureKind::Trap, site(), None)
}

#[track_caller]
pub fn index_out_of_range(index: usize, len: usize) -> ! {
    Lane::current().fail(FailureKind::IndexOutOfRange { index, len }, site(), None)
}

#[track_caller]
pub fn heap_allocate(bytes: usize) -> *mut u8 {
    let lane = Lane::current();
    lane.step(site());
    lane.worker().run.world.registry.allocate(bytes, 16)
}

/// # Safety
/// - `pointer` is null, or came from `heap_allocate` and is not used afterwards. (Later use is reported.)
#[track_caller]
pub unsafe fn heap_free(pointer: *mut u8) {
    let lane = Lane::current();
    lane.step(site());
    let (worker, registry) = (lane.worker(), &lane.worker().run.world.registry);
    registry.free(pointer as usize);
    worker.ranges.refresh(registry);
}

/// Makes accesses to a part of a buffer failures.
pub fn poison(pointer: impl FnOnce() -> *mut u8, bytes: usize, name: u32) {
    Lane::current().worker().run.world.registry.poison(pointer() as usize, bytes, name);
}

/// Reverts `poison`.
pub fn unpoison(pointer: impl FnOnce() -> *mut u8) {
    let (lane, start) = (Lane::current(), pointer() as usize);
    let poisoned = lane.worker().run.world.registry.unpoison(start);
    if let (Some(bytes), Some(explorer)) = (poisoned, lane.explorer()) {
        explorer.reuse(start, bytes);
    }
}

#[track_caller]
pub fn fault(message: &'static str) {
    Lane::current().fail(FailureKind::Fault(message), site(), None)
}

macro_rules! collectives {
    ($($name:ident($value:ident: $type:ty) -> $result:ty = $kind:ident;)*) => {$(
        #[inline(always)]
        #[track_caller]
        pub fn $name(mask: u32, $value: $type) -> $result {
            meet(Kind::$kind, mask, Operand { value: $value.into(), ..Operand::default() }, site())
        }
    )*};
}

collectives! {
    ballot(vote: bool) -> u32 = Ballot;
    match_any(value: u32) -> u32 = MatchAny;
    reduce_add(value: u32) -> u32 = ReduceAdd;
    reduce_min(value: u32) -> u32 = ReduceMin;
    reduce_max(value: u32) -> u32 = ReduceMax;
}

macro_rules! shuffles {
    ($($name:ident = $kind:ident;)*) => {$(
        #[inline(always)]
        pub fn $name(site: Site, mask: u32, value: u32, select: u32, segment: u32) -> u32 {
            meet(Kind::$kind, mask, Operand { value, select, segment }, site)
        }
    )*};
}

shuffles! {
    shuffle = ShuffleIdx;
    shuffle_xor = ShuffleXor;
    shuffle_up = ShuffleUp;
    shuffle_down = ShuffleDown;
}

#[device(caller)]
pub fn any(mask: u32, vote: bool) -> bool {
    meet(Kind::Any, mask, Operand { value: vote.into(), ..Operand::default() }, site()) != 0
}

#[device(caller)]
pub fn warp_sync(mask: u32) {
    let site = site();
    if !Lane::current().skips(site) {
        meet(Kind::Sync, mask, Operand::default(), site);
    }
}

#[device(caller)]
pub fn block_sync() {
    let (lane, site) = (Lane::current(), site());
    if !lane.skips(site) {
        lane.block().barrier(lane, site);
    }
}

/// Returns a bound, which a mutant may have shifted. Host code may call it, too.
#[track_caller]
pub fn bound(count: u32) -> u32 {
    let (explorer, site) = (Lane::try_current().and_then(Lane::explorer), site());
    explorer.map_or(count, |explorer| explorer.bound(count, site))
}

/// Returns a condition, which a mutant may have made true. Host code may call it, too.
#[track_caller]
pub fn recheck(holds: bool) -> bool {
    let (explorer, site) = (Lane::try_current().and_then(Lane::explorer), site());
    explorer.map_or(holds, |explorer| explorer.recheck(holds, site))
}

/// Returns `word`: on the host nothing needs to be hidden from the compiler.
#[device]
pub fn black_box(word: u32) -> u32 {
    word
}

/// Reads a word.
///
/// # Safety
/// - `pointer` is valid for reads, and a weak read does not race.
#[device(caller)]
pub unsafe fn load<T: Word>(pointer: *const T, order: Order, scope: Scope) -> T {
    // SAFETY: the caller's obligation.
    T::narrow(unsafe { global::load(pointer as usize, How::of::<T>(order, scope), site()) })
}

/// Reads `N` neighbouring words, each by a separate access, in unspecified order: in exploring mode,
/// sometimes from the first, sometimes from the last.
///
/// # Safety
/// - `pointer` is valid for reads of `N` words, aligned to them all, and weak reads do not race.
#[device(caller)]
pub unsafe fn load_vec<T: Word, const N: usize>(pointer: *const T, order: Order, scope: Scope) -> [T; N] {
    // SAFETY: the caller's obligation.
    unsafe { load_words(pointer as usize, How::of::<T>(order, scope), site()) }
}

/// # Safety
/// - As for `load_vec`.
#[inline(never)]
unsafe fn load_words<T: Word, const N: usize>(first: usize, how: How, site: Site) -> [T; N] {
    let backwards = in_one_instruction(first, N * how.byte_len(), site);
    let mut words = [T::narrow(0); N];
    for place in 0..N {
        let place = if backwards { N - 1 - place } else { place };
        // SAFETY: the caller's obligation.
        words[place] = T::narrow(unsafe { global::load(first + place * how.byte_len(), how, site) });
    }
    words
}

/// Reads a word that a cache should keep; the emulator has no such cache.
///
/// # Safety
/// - As for `load`.
#[device(caller)]
pub unsafe fn load_hot(pointer: *const u32, order: Order, scope: Scope) -> u32 {
    // SAFETY: the caller's obligation.
    unsafe { load(pointer, order, scope) }
}

macro_rules! hot {
    ($($name:ident = $same:ident;)*) => {$(
        /// Executes one read-modify-write of a word that a cache should keep; the emulator has no such cache.
        ///
        /// # Safety
        /// - `pointer` is valid for reads and writes.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(pointer: *mut u32, value: u32, order: Order, scope: Scope) -> u32 {
            // SAFETY: the caller's obligation.
            unsafe { $same(pointer, value, order, scope) }
        }
    )*};
}

hot! {
    fetch_and_hot = fetch_and;
    fetch_or_hot = fetch_or;
}

/// Reads `N` neighbouring words if `wanted`; else returns zeros.
///
/// # Safety
/// - As for `load_vec`, if `wanted`.
#[device(caller)]
pub unsafe fn load_vec_if<T: Word, const N: usize>(
    pointer: *const T,
    wanted: bool,
    order: Order,
    scope: Scope,
) -> [T; N] {
    if wanted {
        // SAFETY: the caller's obligation.
        unsafe { load_vec(pointer, order, scope) }
    } else {
        [T::narrow(0); N]
    }
}

/// Writes a word.
///
/// # Safety
/// - `pointer` is valid for writes, and a weak write does not race.
#[device(caller)]
pub unsafe fn store<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) {
    // SAFETY: the caller's obligation.
    unsafe { global::store(pointer as usize, How::of::<T>(order, scope), site(), value.widen()) }
}

/// Writes `N` neighbouring words, each by a separate access, in unspecified order: in exploring mode,
/// sometimes from the first, sometimes from the last.
///
/// # Safety
/// - `pointer` is valid for writes of `N` words, aligned to them all, and weak writes do not race.
#[device(caller)]
pub unsafe fn store_vec<T: Word, const N: usize>(pointer: *mut T, words: [T; N], order: Order, scope: Scope) {
    // SAFETY: the caller's obligation.
    unsafe { store_words(pointer as usize, How::of::<T>(order, scope), site(), words) }
}

/// # Safety
/// - As for `store_vec`.
#[inline(never)]
unsafe fn store_words<T: Word, const N: usize>(first: usize, how: How, site: Site, words: [T; N]) {
    let backwards = in_one_instruction(first, N * how.byte_len(), site);
    for place in 0..N {
        let place = if backwards { N - 1 - place } else { place };
        // SAFETY: the caller's obligation.
        unsafe { global::store(first + place * how.byte_len(), how, site, words[place].widen()) }
    }
}

/// Ends the launch unless the first of several words is aligned to their total size. Returns `true` if they
/// are accessed from the last to the first.
fn in_one_instruction(first: usize, bytes: usize, site: Site) -> bool {
    if !first.is_multiple_of(bytes) {
        let kind = FailureKind::Misaligned { address: first, bytes };
        Lane::current().fail(kind, site, None);
    }
    Lane::current().explorer().is_some_and(|explorer| explorer.steps() % 2 == 1)
}

/// Writes `new` if the word is `current`; returns the old word.
///
/// # Safety
/// - `pointer` is valid for reads and writes.
#[device(caller)]
pub unsafe fn compare_exchange<T: Word>(
    pointer: *mut T,
    current: T,
    new: T,
    order: Order,
    scope: Scope,
) -> T {
    // SAFETY: the caller's obligation.
    T::narrow(unsafe {
        global::compare_exchange(
            pointer as usize,
            How::of::<T>(order, scope),
            site(),
            current.widen(),
            new.widen(),
        )
    })
}

macro_rules! updates {
    ($($name:ident = $update:ident;)*) => {$(
        /// Executes one read-modify-write; returns the old word.
        ///
        /// # Safety
        /// - `pointer` is valid for reads and writes.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T {
            let how = How::of::<T>(order, scope);
            let update = Update::$update;
            // SAFETY: the caller's obligation.
            T::narrow(unsafe { global::update(pointer as usize, how, site(), update, value.widen()) })
        }
    )*};
}

updates! {
    exchange = Exchange;
    fetch_add = Add;
    fetch_min = Min;
    fetch_max = Max;
    fetch_or = Or;
    fetch_and = And;
}

#[device(caller)]
pub fn fence(scope: Scope) {
    global::fence(scope, site());
}

#[device(caller)]
pub fn fence_sc(scope: Scope) {
    global::fence_sc(scope, site());
}

/// Returns the address of the array that a source line declares in the calling lane's block.
#[track_caller]
pub fn shared_site<const BYTES: usize>(function: usize) -> SharedAddress {
    shared::array(Key::Line(function, site()), BYTES)
}

/// Returns the address of the array of a shape in the calling lane's block.
#[track_caller]
pub fn shared_shape<S: SharedShape>() -> SharedAddress {
    shared::array(Key::Shape(TypeId::of::<S>()), S::LEN * size_of::<S::Word>())
}

/// Host address of shared memory.
pub type SharedAddress = u64;

/// Reads an element.
///
/// # Safety
/// - `address` lies in an array of `shared_site`, aligned for `T`.
#[device(caller)]
pub unsafe fn load_shared<T: Word>(address: SharedAddress) -> T {
    // SAFETY: the caller's obligation.
    T::narrow(unsafe { shared::load(address, size_of::<T>(), site()) })
}

/// Reads an element that may be uninitialised.
///
/// # Safety
/// - As for `load_shared`.
#[device(caller)]
pub unsafe fn load_shared_uninit<T: Word>(address: SharedAddress) -> T {
    // SAFETY: the caller's obligation.
    T::narrow(unsafe { shared::load_uninit(address, size_of::<T>(), site()) })
}

/// Writes an element.
///
/// # Safety
/// - As for `load_shared`.
#[device(caller)]
pub unsafe fn store_shared<T: Word>(address: SharedAddress, value: T) {
    // SAFETY: the caller's obligation.
    unsafe { shared::store(address, size_of::<T>(), value.widen(), site()) }
}

/// Adds to an element; returns the old value.
///
/// # Safety
/// - As for `load_shared`.
#[device(caller)]
pub unsafe fn fetch_add_shared(address: SharedAddress, value: u32) -> u32 {
    // SAFETY: the caller's obligation.
    unsafe { shared::update(address, Update::Add, value, site()) }
}

/// Adds to an element if `wanted` and returns the old value; else returns 0.
///
/// # Safety
/// - As for `load_shared`, if `wanted`.
#[device(caller)]
pub unsafe fn fetch_add_shared_if(wanted: bool, place: impl FnOnce() -> SharedAddress, value: u32) -> u32 {
    // SAFETY: the caller's obligation.
    if wanted { unsafe { shared::update(place(), Update::Add, value, site()) } } else { 0 }
}

/// Sets bits of an element.
///
/// # Safety
/// - As for `load_shared`.
#[device(caller)]
pub unsafe fn or_shared(address: SharedAddress, bits: u32) {
    // SAFETY: the caller's obligation.
    unsafe { shared::update(address, Update::Or, bits, site()) };
}
