//! Accesses to host memory, by size. The only module that performs them.
//!
//! Strong accesses are host atomics. Weak accesses are relaxed host atomics, so that a race of kernels is not
//! a race in Rust. Strong accesses of 16 bytes are single accesses (`cmpxchg16b` or equivalent, so that they
//! are consistent with accesses to the halves); weak ones are two accesses, as in PTX.
use crate::Order;
use portable_atomic::AtomicU128;
use simt_macros::device;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

/// A read-modify-write operation with its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    Exchange,
    Add,
    Min,
    Max,
    Or,
    And,
}

impl Update {
    /// Returns the value that replaces `old`, in the low `bytes` bytes.
    pub fn apply(self, old: u128, value: u128, bytes: usize) -> u128 {
        let wide = match self {
            Self::Exchange => value,
            Self::Add => old.wrapping_add(value),
            Self::Min => old.min(value),
            Self::Max => old.max(value),
            Self::Or => old | value,
            Self::And => old & value,
        };
        wide & (u128::MAX >> (128 - 8 * bytes))
    }
}

fn load_order(order: Order) -> Ordering {
    match order {
        Order::Weak | Order::Relaxed | Order::Release => Ordering::Relaxed,
        Order::Acquire | Order::AcqRel => Ordering::Acquire,
    }
}

fn store_order(order: Order) -> Ordering {
    match order {
        Order::Weak | Order::Relaxed | Order::Acquire => Ordering::Relaxed,
        Order::Release | Order::AcqRel => Ordering::Release,
    }
}

fn update_order(order: Order) -> Ordering {
    match order {
        Order::Weak | Order::Relaxed => Ordering::Relaxed,
        Order::Acquire => Ordering::Acquire,
        Order::Release => Ordering::Release,
        Order::AcqRel => Ordering::AcqRel,
    }
}

/// Reads 1, 4, 8 or 16 bytes.
///
/// # Safety
/// - `address` is valid for reads of `bytes` bytes, and aligned to them.
#[device]
pub unsafe fn load(address: usize, bytes: usize, order: Order) -> u128 {
    let at = load_order(order);
    // SAFETY: the caller's obligation; all accesses to device memory are atomic.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(address as *mut u8).load(at).into(),
            4 => AtomicU32::from_ptr(address as *mut u32).load(at).into(),
            8 => AtomicU64::from_ptr(address as *mut u64).load(at).into(),
            _ if order == Order::Weak => {
                let low = AtomicU64::from_ptr(address as *mut u64).load(at);
                let high = AtomicU64::from_ptr((address + 8) as *mut u64).load(at);
                u128::from(low) | u128::from(high) << 64
            }
            _ => AtomicU128::from_ptr(address as *mut u128).load(at),
        }
    }
}

/// Writes 1, 4, 8 or 16 bytes.
///
/// # Safety
/// - `address` is valid for writes of `bytes` bytes, and aligned to them.
#[device]
pub unsafe fn store(address: usize, bytes: usize, value: u128, order: Order) {
    let at = store_order(order);
    // SAFETY: the caller's obligation; all accesses to device memory are atomic.
    unsafe {
        match bytes {
            1 => AtomicU8::from_ptr(address as *mut u8).store(value as u8, at),
            4 => AtomicU32::from_ptr(address as *mut u32).store(value as u32, at),
            8 => AtomicU64::from_ptr(address as *mut u64).store(value as u64, at),
            _ if order == Order::Weak => {
                AtomicU64::from_ptr(address as *mut u64).store(value as u64, at);
                AtomicU64::from_ptr((address + 8) as *mut u64).store((value >> 64) as u64, at);
            }
            _ => AtomicU128::from_ptr(address as *mut u128).store(value, at),
        }
    }
}

/// Writes `new` if the value is `current`; returns the old value. 4, 8 or 16 bytes.
///
/// # Safety
/// - `address` is valid for reads and writes of `bytes` bytes, and aligned to them.
#[device]
pub unsafe fn compare_exchange(address: usize, bytes: usize, current: u128, new: u128, order: Order) -> u128 {
    let (at, failing) = (update_order(order), load_order(order));
    // SAFETY: the caller's obligation; all accesses to device memory are atomic.
    unsafe {
        match bytes {
            4 => AtomicU32::from_ptr(address as *mut u32)
                .compare_exchange(current as u32, new as u32, at, failing)
                .unwrap_or_else(|old| old)
                .into(),
            8 => AtomicU64::from_ptr(address as *mut u64)
                .compare_exchange(current as u64, new as u64, at, failing)
                .unwrap_or_else(|old| old)
                .into(),
            _ => AtomicU128::from_ptr(address as *mut u128)
                .compare_exchange(current, new, at, failing)
                .unwrap_or_else(|old| old),
        }
    }
}

macro_rules! update {
    ($atomic:ty, $word:ty, $address:expr, $update:expr, $value:expr, $order:expr) => {{
        let atomic = <$atomic>::from_ptr($address as *mut $word);
        let value = $value as $word;
        match $update {
            Update::Exchange => atomic.swap(value, $order),
            Update::Add => atomic.fetch_add(value, $order),
            Update::Min => atomic.fetch_min(value, $order),
            Update::Max => atomic.fetch_max(value, $order),
            Update::Or => atomic.fetch_or(value, $order),
            Update::And => atomic.fetch_and(value, $order),
        }
        .into()
    }};
}

/// Executes one read-modify-write of 4 or 8 bytes; returns the old value.
///
/// # Safety
/// - `address` is valid for reads and writes of `bytes` bytes, and aligned to them.
#[device]
pub unsafe fn update(address: usize, bytes: usize, update: Update, value: u128, order: Order) -> u128 {
    let at = update_order(order);
    // SAFETY: the caller's obligation; all accesses to device memory are atomic.
    unsafe {
        match bytes {
            4 => update!(AtomicU32, u32, address, update, value, at),
            _ => update!(AtomicU64, u64, address, update, value, at),
        }
    }
}

/// Executes an acquire-release fence among host threads.
pub fn fence() {
    std::sync::atomic::fence(Ordering::AcqRel);
}

/// Executes a sequentially consistent fence among host threads.
pub fn fence_sc() {
    std::sync::atomic::fence(Ordering::SeqCst);
}
