//! Global memory. Every access is one instruction, assembled from its order, scope and width.
use crate::{Order, Scope, Word};
use core::arch::asm;
use simt_macros::device;

/// Calls `$go!(qualifiers, ...)` with the qualifiers of a load, a store or an atomic; the compiler folds the
/// branches.
macro_rules! spell {
    (load, $order:expr, $scope:expr, $go:ident!($($rest:tt)*)) => {
        match ($order, $scope) {
            (Order::Weak, _) => $go!("", $($rest)*),
            (Order::Relaxed | Order::Release, Scope::Block) => $go!(".relaxed.cta", $($rest)*),
            (Order::Relaxed | Order::Release, Scope::Device) => $go!(".relaxed.gpu", $($rest)*),
            (Order::Relaxed | Order::Release, Scope::System) => $go!(".relaxed.sys", $($rest)*),
            (_, Scope::Block) => $go!(".acquire.cta", $($rest)*),
            (_, Scope::Device) => $go!(".acquire.gpu", $($rest)*),
            (_, Scope::System) => $go!(".acquire.sys", $($rest)*),
        }
    };
    (store, $order:expr, $scope:expr, $go:ident!($($rest:tt)*)) => {
        match ($order, $scope) {
            (Order::Weak, _) => $go!("", $($rest)*),
            (Order::Relaxed | Order::Acquire, Scope::Block) => $go!(".relaxed.cta", $($rest)*),
            (Order::Relaxed | Order::Acquire, Scope::Device) => $go!(".relaxed.gpu", $($rest)*),
            (Order::Relaxed | Order::Acquire, Scope::System) => $go!(".relaxed.sys", $($rest)*),
            (_, Scope::Block) => $go!(".release.cta", $($rest)*),
            (_, Scope::Device) => $go!(".release.gpu", $($rest)*),
            (_, Scope::System) => $go!(".release.sys", $($rest)*),
        }
    };
    (atomic, $order:expr, $scope:expr, $go:ident!($($rest:tt)*)) => {
        match ($order, $scope) {
            (Order::Weak | Order::Relaxed, Scope::Block) => $go!(".relaxed.cta", $($rest)*),
            (Order::Weak | Order::Relaxed, Scope::Device) => $go!(".relaxed.gpu", $($rest)*),
            (Order::Weak | Order::Relaxed, Scope::System) => $go!(".relaxed.sys", $($rest)*),
            (Order::Acquire, Scope::Block) => $go!(".acquire.cta", $($rest)*),
            (Order::Acquire, Scope::Device) => $go!(".acquire.gpu", $($rest)*),
            (Order::Acquire, Scope::System) => $go!(".acquire.sys", $($rest)*),
            (Order::Release, Scope::Block) => $go!(".release.cta", $($rest)*),
            (Order::Release, Scope::Device) => $go!(".release.gpu", $($rest)*),
            (Order::Release, Scope::System) => $go!(".release.sys", $($rest)*),
            (Order::AcqRel, Scope::Block) => $go!(".acq_rel.cta", $($rest)*),
            (Order::AcqRel, Scope::Device) => $go!(".acq_rel.gpu", $($rest)*),
            (Order::AcqRel, Scope::System) => $go!(".acq_rel.sys", $($rest)*),
        }
    };
}

macro_rules! ld {
    ($qualifiers:literal, $type:literal, $class:ident, $pointer:expr, $out:ident) => {
        asm!(
            concat!("ld", $qualifiers, ".global", $type, " {}, [{}];"),
            out($class) $out, in(reg64) $pointer, options(nostack)
        )
    };
}

macro_rules! ld_b128 {
    ($qualifiers:literal, $pointer:expr, $low:ident, $high:ident) => {
        asm!(
            concat!(
                "{{ .reg .b128 whole; ld", $qualifiers, ".global.b128 whole, [{}]; ",
                "mov.b128 {{{}, {}}}, whole; }}"
            ),
            in(reg64) $pointer, out(reg64) $low, out(reg64) $high, options(nostack)
        )
    };
}

macro_rules! ld_v2 {
    ($qualifiers:literal, $type:literal, $class:ident, $pointer:expr, $a:ident $b:ident) => {
        asm!(
            concat!("ld", $qualifiers, ".global.v2", $type, " {{{}, {}}}, [{}];"),
            out($class) $a, out($class) $b, in(reg64) $pointer, options(nostack)
        )
    };
}

macro_rules! ld_v4 {
    (
        $qualifiers:literal, $type:literal, $class:ident, $pointer:expr,
        $a:ident $b:ident $c:ident $d:ident
    ) => {
        asm!(
            concat!("ld", $qualifiers, ".global.v4", $type, " {{{}, {}, {}, {}}}, [{}];"),
            out($class) $a, out($class) $b, out($class) $c, out($class) $d, in(reg64) $pointer,
            options(nostack)
        )
    };
}

/// Reads a word.
///
/// # Safety
/// - `pointer` is valid for reads, and a weak read does not race with a write.
#[device]
pub unsafe fn load<T: Word>(pointer: *const T, order: Order, scope: Scope) -> T {
    // SAFETY: one load of `size_of::<T>()` bytes, from a pointer for which the caller vouches.
    unsafe {
        match size_of::<T>() {
            1 => {
                let word: u32;
                spell!(load, order, scope, ld!(".u8", reg32, pointer, word));
                T::narrow(word as u128)
            }
            4 => {
                let word: u32;
                spell!(load, order, scope, ld!(".b32", reg32, pointer, word));
                T::narrow(word as u128)
            }
            8 => {
                let word: u64;
                spell!(load, order, scope, ld!(".b64", reg64, pointer, word));
                T::narrow(word as u128)
            }
            _ => load_b128(pointer.cast(), order, scope),
        }
    }
}

/// Reads sixteen bytes: in one access from sm_90 on, in two before. No code compiled for older architectures
/// relies on more.
#[device]
unsafe fn load_b128<T: Word>(pointer: *const u64, order: Order, scope: Scope) -> T {
    let (low, high): (u64, u64);
    // SAFETY: as in `load`.
    unsafe {
        if cfg!(target_feature = "sm_90") && order != Order::Weak {
            spell!(load, order, scope, ld_b128!(pointer, low, high));
        } else {
            spell!(load, order, scope, ld_v2!(".b64", reg64, pointer, low high));
        }
    }
    T::narrow(low as u128 | (high as u128) << 64)
}

/// Reads `N` neighbouring words.
///
/// # Safety
/// - `pointer` is valid for reads of `N` words and aligned to their total size, and weak reads do not race
///   with writes.
#[device]
pub unsafe fn load_vec<T: Word, const N: usize>(pointer: *const T, order: Order, scope: Scope) -> [T; N] {
    let mut words = [T::narrow(0); N];
    // SAFETY: one load of `N` words, from a pointer for which the caller vouches.
    unsafe {
        match (size_of::<T>(), N) {
            (_, 1) => words[0] = load(pointer, order, scope),
            (4, 2) => {
                let (a, b): (u32, u32);
                spell!(load, order, scope, ld_v2!(".b32", reg32, pointer, a b));
                fill(&mut words, [a as u128, b as u128]);
            }
            (4, 4) => {
                let (a, b, c, d): (u32, u32, u32, u32);
                spell!(load, order, scope, ld_v4!(".b32", reg32, pointer, a b c d));
                fill(&mut words, [a as u128, b as u128, c as u128, d as u128]);
            }
            (8, 2) => {
                let (a, b): (u64, u64);
                spell!(load, order, scope, ld_v2!(".b64", reg64, pointer, a b));
                fill(&mut words, [a as u128, b as u128]);
            }
            (1, 2) => {
                let (a, b): (u32, u32);
                spell!(load, order, scope, ld_v2!(".u8", reg32, pointer, a b));
                fill(&mut words, [a as u128, b as u128]);
            }
            (1, 4) => {
                let (a, b, c, d): (u32, u32, u32, u32);
                spell!(load, order, scope, ld_v4!(".u8", reg32, pointer, a b c d));
                fill(&mut words, [a as u128, b as u128, c as u128, d as u128]);
            }
            (1, 8) => fill_bytes(&mut words, load_vec::<u32, 2>(pointer.cast(), order, scope)),
            (1, 16) => fill_bytes(&mut words, load_vec::<u32, 4>(pointer.cast(), order, scope)),
            // `Global::load_vec` rejects all other sizes at compile time.
            _ => super::trap(),
        }
    }
    words
}

macro_rules! ld_if {
    ($qualifiers:literal, $type:literal, $class:ident, $wanted:ident, $pointer:expr, $a:ident) => {
        asm!(
            concat!(
                "{{ .reg .pred wanted; setp.ne.u32 wanted, {}, 0; ",
                "@wanted ld", $qualifiers, ".global", $type, " {}, [{}]; }}"
            ),
            in(reg32) $wanted, out($class) $a, in(reg64) $pointer, options(nostack)
        )
    };
}

macro_rules! ld_b128_if {
    ($qualifiers:literal, $wanted:ident, $pointer:expr, $low:ident, $high:ident) => {
        asm!(
            concat!(
                "{{ .reg .pred wanted; .reg .b128 whole; setp.ne.u32 wanted, {}, 0; @wanted ld", $qualifiers,
                ".global.b128 whole, [{}]; mov.b128 {{{}, {}}}, whole; }}"
            ),
            in(reg32) $wanted, in(reg64) $pointer, out(reg64) $low, out(reg64) $high, options(nostack)
        )
    };
}

macro_rules! ld_v2_if {
    ($qualifiers:literal, $type:literal, $class:ident, $wanted:ident, $pointer:expr, $a:ident $b:ident) => {
        asm!(
            concat!(
                "{{ .reg .pred wanted; setp.ne.u32 wanted, {}, 0; ",
                "@wanted ld", $qualifiers, ".global.v2", $type, " {{{}, {}}}, [{}]; }}"
            ),
            in(reg32) $wanted, out($class) $a, out($class) $b, in(reg64) $pointer, options(nostack)
        )
    };
}

/// Reads `N` neighbouring words if `wanted`; else the words are arbitrary. Predicated for words of 8 and 16
/// bytes; a branch for others.
///
/// # Safety
/// - As for `load_vec`, if `wanted`.
#[device]
pub unsafe fn load_vec_if<T: Word, const N: usize>(
    pointer: *const T,
    wanted: bool,
    order: Order,
    scope: Scope,
) -> [T; N] {
    let mut words = [T::narrow(0); N];
    let flag = wanted as u32;
    // SAFETY: one load under a predicate, from a pointer for which the caller vouches if the predicate holds.
    unsafe {
        match (size_of::<T>(), N) {
            (8, 1) => {
                let a: u64;
                spell!(load, order, scope, ld_if!(".b64", reg64, flag, pointer, a));
                fill(&mut words, [a as u128]);
            }
            (8, 2) => {
                let (a, b): (u64, u64);
                spell!(load, order, scope, ld_v2_if!(".b64", reg64, flag, pointer, a b));
                fill(&mut words, [a as u128, b as u128]);
            }
            (16, 1) if cfg!(target_feature = "sm_90") && order != Order::Weak => {
                let (a, b): (u64, u64);
                spell!(load, order, scope, ld_b128_if!(flag, pointer, a, b));
                fill(&mut words, [a as u128 | (b as u128) << 64]);
            }
            (16, 1) => {
                let (a, b): (u64, u64);
                spell!(load, order, scope, ld_v2_if!(".b64", reg64, flag, pointer, a b));
                fill(&mut words, [a as u128 | (b as u128) << 64]);
            }
            _ if wanted => words = load_vec(pointer, order, scope),
            _ => {}
        }
    }
    words
}

#[device]
fn fill<T: Word, const N: usize, const M: usize>(words: &mut [T; N], wide: [u128; M]) {
    let mut i = 0;
    while i < M {
        words[i] = T::narrow(wide[i]);
        i += 1;
    }
}

/// Splits words into bytes, the lowest byte first.
#[device]
fn fill_bytes<T: Word, const N: usize, const M: usize>(bytes: &mut [T; N], words: [u32; M]) {
    let mut i = 0;
    while i < N {
        bytes[i] = T::narrow((words[i / 4] >> (8 * (i % 4))) as u128);
        i += 1;
    }
}

macro_rules! st {
    ($qualifiers:literal, $type:literal, $class:ident, $pointer:expr, $value:expr) => {
        asm!(
            concat!("st", $qualifiers, ".global", $type, " [{}], {};"),
            in(reg64) $pointer, in($class) $value, options(nostack)
        )
    };
}

macro_rules! st_b128 {
    ($qualifiers:literal, $pointer:expr, $low:expr, $high:expr) => {
        asm!(
            concat!(
                "{{ .reg .b128 whole; mov.b128 whole, {{{}, {}}}; ",
                "st", $qualifiers, ".global.b128 [{}], whole; }}"
            ),
            in(reg64) $low, in(reg64) $high, in(reg64) $pointer, options(nostack)
        )
    };
}

macro_rules! st_v2 {
    ($qualifiers:literal, $pointer:expr, $low:expr, $high:expr) => {
        asm!(
            concat!("st", $qualifiers, ".global.v2.b64 [{}], {{{}, {}}};"),
            in(reg64) $pointer, in(reg64) $low, in(reg64) $high, options(nostack)
        )
    };
}

/// Writes a word.
///
/// # Safety
/// - `pointer` is valid for writes, and a weak write does not race with other accesses.
#[device]
pub unsafe fn store<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) {
    let wide = value.widen();
    // SAFETY: one store of `size_of::<T>()` bytes, to a pointer for which the caller vouches.
    unsafe {
        match size_of::<T>() {
            1 => spell!(store, order, scope, st!(".u8", reg32, pointer, wide as u32)),
            4 => spell!(store, order, scope, st!(".b32", reg32, pointer, wide as u32)),
            8 => spell!(store, order, scope, st!(".b64", reg64, pointer, wide as u64)),
            _ if cfg!(target_feature = "sm_90") && order != Order::Weak => {
                spell!(store, order, scope, st_b128!(pointer, wide as u64, (wide >> 64) as u64))
            }
            _ => spell!(store, order, scope, st_v2!(pointer, wide as u64, (wide >> 64) as u64)),
        }
    }
}

macro_rules! st_v2_b32 {
    ($qualifiers:literal, $pointer:expr, $a:expr, $b:expr) => {
        asm!(
            concat!("st", $qualifiers, ".global.v2.b32 [{}], {{{}, {}}};"),
            in(reg64) $pointer, in(reg32) $a, in(reg32) $b, options(nostack)
        )
    };
}

macro_rules! st_v4_b32 {
    ($qualifiers:literal, $pointer:expr, $a:expr, $b:expr, $c:expr, $d:expr) => {
        asm!(
            concat!("st", $qualifiers, ".global.v4.b32 [{}], {{{}, {}, {}, {}}};"),
            in(reg64) $pointer, in(reg32) $a, in(reg32) $b, in(reg32) $c, in(reg32) $d, options(nostack)
        )
    };
}

/// Writes `N` neighbouring words.
///
/// # Safety
/// - `pointer` is valid for writes of `N` words and aligned to their total size, and weak writes do not race
///   with other accesses.
#[device]
pub unsafe fn store_vec<T: Word, const N: usize>(pointer: *mut T, words: [T; N], order: Order, scope: Scope) {
    let word = |place: usize| words[place].widen() as u32;
    let long = |place: usize| words[place].widen() as u64;
    // SAFETY: one store of `N` words, to a pointer for which the caller vouches.
    unsafe {
        match (size_of::<T>(), N) {
            (_, 1) => store(pointer, words[0], order, scope),
            (4, 2) => spell!(store, order, scope, st_v2_b32!(pointer, word(0), word(1))),
            (4, 4) => {
                spell!(store, order, scope, st_v4_b32!(pointer, word(0), word(1), word(2), word(3)))
            }
            (8, 2) => spell!(store, order, scope, st_v2!(pointer, long(0), long(1))),
            // `Global::store_vec` rejects all other sizes at compile time.
            _ => super::trap(),
        }
    }
}

macro_rules! cas {
    (
        $qualifiers:literal, $type:literal, $class:ident, $pointer:expr,
        $current:expr, $new:expr, $old:ident
    ) => {
        asm!(
            concat!("atom", $qualifiers, ".global.cas", $type, " {}, [{}], {}, {};"),
            out($class) $old, in(reg64) $pointer, in($class) $current, in($class) $new, options(nostack)
        )
    };
}

macro_rules! cas_b128 {
    ($qualifiers:literal, $pointer:expr, $current:expr, $new:expr, $low:ident, $high:ident) => {
        asm!(
            concat!(
                "{{ .reg .b128 current, new, old; ",
                "mov.b128 current, {{{cl}, {ch}}}; mov.b128 new, {{{nl}, {nh}}}; atom",
                $qualifiers,
                ".global.cas.b128 old, [{at}], current, new; mov.b128 {{{ol}, {oh}}}, old; }}"
            ),
            at = in(reg64) $pointer,
            cl = in(reg64) $current as u64, ch = in(reg64) ($current >> 64) as u64,
            nl = in(reg64) $new as u64, nh = in(reg64) ($new >> 64) as u64,
            ol = out(reg64) $low, oh = out(reg64) $high, options(nostack)
        )
    };
}

/// Writes `new` if the word is `current`; returns the old word.
///
/// # Safety
/// - `pointer` is valid for reads and writes.
#[device]
pub unsafe fn compare_exchange<T: Word>(
    pointer: *mut T,
    current: T,
    new: T,
    order: Order,
    scope: Scope,
) -> T {
    let (current, new) = (current.widen(), new.widen());
    // SAFETY: one atomic of `size_of::<T>()` bytes, at a pointer for which the caller vouches.
    unsafe {
        match size_of::<T>() {
            4 => {
                let old: u32;
                spell!(atomic, order, scope, cas!(".b32", reg32, pointer, current as u32, new as u32, old));
                T::narrow(old as u128)
            }
            8 => {
                let old: u64;
                spell!(atomic, order, scope, cas!(".b64", reg64, pointer, current as u64, new as u64, old));
                T::narrow(old as u128)
            }
            16 if cfg!(target_feature = "sm_90") => {
                let (low, high): (u64, u64);
                spell!(atomic, order, scope, cas_b128!(pointer, current, new, low, high));
                T::narrow(low as u128 | (high as u128) << 64)
            }
            _ => super::trap(),
        }
    }
}

macro_rules! atom {
    ($qualifiers:literal, $name:literal, $class:ident, $pointer:expr, $value:expr, $old:ident) => {
        asm!(
            concat!("atom", $qualifiers, ".global", $name, " {}, [{}], {};"),
            out($class) $old, in(reg64) $pointer, in($class) $value, options(nostack)
        )
    };
}

macro_rules! fetch {
    ($($name:ident = $narrow:literal, $wide:literal;)*) => {$(
        /// Executes one read-modify-write; returns the old word.
        ///
        /// # Safety
        /// - `pointer` is valid for reads and writes.
        #[inline(always)]
        pub unsafe fn $name<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T {
            // SAFETY: one atomic of `size_of::<T>()` bytes, at a pointer for which the caller vouches.
            unsafe {
                match size_of::<T>() {
                    4 => {
                        let old: u32;
                        let value = value.widen() as u32;
                        spell!(atomic, order, scope, atom!($narrow, reg32, pointer, value, old));
                        T::narrow(old as u128)
                    }
                    8 => {
                        let old: u64;
                        spell!(atomic, order, scope, atom!($wide, reg64, pointer, value.widen() as u64, old));
                        T::narrow(old as u128)
                    }
                    _ => super::trap(),
                }
            }
        }
    )*};
}

fetch! {
    exchange = ".exch.b32", ".exch.b64";
    fetch_add = ".add.u32", ".add.u64";
    fetch_min = ".min.u32", ".min.u64";
    fetch_max = ".max.u32", ".max.u64";
    fetch_or = ".or.b32", ".or.b64";
    fetch_and = ".and.b32", ".and.b64";
}

#[device]
pub fn fence(scope: Scope) {
    // SAFETY: orders accesses and makes none.
    unsafe {
        match scope {
            Scope::Block => asm!("fence.acq_rel.cta;", options(nostack)),
            Scope::Device => asm!("fence.acq_rel.gpu;", options(nostack)),
            Scope::System => asm!("fence.acq_rel.sys;", options(nostack)),
        }
    }
}

#[device]
pub fn fence_sc(scope: Scope) {
    // SAFETY: orders accesses and makes none.
    unsafe {
        match scope {
            Scope::Block => asm!("fence.sc.cta;", options(nostack)),
            Scope::Device => asm!("fence.sc.gpu;", options(nostack)),
            Scope::System => asm!("fence.sc.sys;", options(nostack)),
        }
    }
}

macro_rules! ld_hot {
    ($qualifiers:literal, $pointer:expr, $word:ident) => {
        asm!(
            concat!(
                "{{ .reg .b64 keep; createpolicy.fractional.L2::evict_last.b64 keep, 1.0; ld", $qualifiers,
                ".global.L2::cache_hint.b32 {}, [{}], keep; }}"
            ),
            out(reg32) $word, in(reg64) $pointer, options(nostack)
        )
    };
}

macro_rules! atom_hot {
    ($qualifiers:literal, $name:literal, $pointer:expr, $value:expr, $old:ident) => {
        asm!(
            concat!(
                "{{ .reg .b64 keep; createpolicy.fractional.L2::evict_last.b64 keep, 1.0; atom", $qualifiers,
                ".global", $name, ".L2::cache_hint.b32 {}, [{}], {}, keep; }}"
            ),
            out(reg32) $old, in(reg64) $pointer, in(reg32) $value, options(nostack)
        )
    };
}

/// Reads a word that the L2 cache should keep.
///
/// # Safety
/// - As for `load`.
#[device]
pub unsafe fn load_hot(pointer: *const u32, order: Order, scope: Scope) -> u32 {
    let word: u32;
    // SAFETY: one load from a pointer for which the caller vouches.
    unsafe { spell!(load, order, scope, ld_hot!(pointer, word)) };
    word
}

macro_rules! hot {
    ($($name:ident = $operation:literal;)*) => {$(
        /// Executes one read-modify-write of a word that the L2 cache should keep; returns the old word.
        ///
        /// # Safety
        /// - `pointer` is valid for reads and writes.
        #[inline(always)]
        pub unsafe fn $name(pointer: *mut u32, value: u32, order: Order, scope: Scope) -> u32 {
            let old: u32;
            // SAFETY: one atomic at a pointer for which the caller vouches.
            unsafe { spell!(atomic, order, scope, atom_hot!($operation, pointer, value, old)) };
            old
        }
    )*};
}

hot! {
    fetch_and_hot = ".and";
    fetch_or_hot = ".or";
}
