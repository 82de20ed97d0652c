//! The emulator (to come): the seam that both back ends fill.
#![allow(missing_docs, unused_variables, clippy::missing_safety_doc)]
use crate::{Order, Scope, Word};

pub mod public {}

pub fn thread_index() -> u32 { unimplemented!() }
pub fn block_index() -> u32 { unimplemented!() }
pub fn block_size() -> u32 { unimplemented!() }
pub fn grid_size() -> u32 { unimplemented!() }
pub fn lane() -> u32 { unimplemented!() }
pub fn clock() -> u64 { unimplemented!() }
pub fn timer() -> u64 { unimplemented!() }
pub fn spin_hint() { unimplemented!() }
pub fn trap() -> ! { unimplemented!() }
pub fn ballot(mask: u32, vote: bool) -> u32 { unimplemented!() }
pub fn any(mask: u32, vote: bool) -> bool { unimplemented!() }
pub fn shuffle(mask: u32, value: u32, rank: u32, segment: u32) -> u32 { unimplemented!() }
pub fn shuffle_xor(mask: u32, value: u32, flip: u32, segment: u32) -> u32 { unimplemented!() }
pub fn shuffle_up(mask: u32, value: u32, by: u32, segment: u32) -> u32 { unimplemented!() }
pub fn shuffle_down(mask: u32, value: u32, by: u32, segment: u32) -> u32 { unimplemented!() }
pub fn match_any(mask: u32, value: u32) -> u32 { unimplemented!() }
pub fn reduce_add(mask: u32, value: u32) -> u32 { unimplemented!() }
pub fn reduce_min(mask: u32, value: u32) -> u32 { unimplemented!() }
pub fn reduce_max(mask: u32, value: u32) -> u32 { unimplemented!() }
pub fn warp_sync(mask: u32) { unimplemented!() }
pub fn block_sync() { unimplemented!() }
pub unsafe fn load<T: Word>(pointer: *const T, order: Order, scope: Scope) -> T { unimplemented!() }
pub unsafe fn load_vec<T: Word, const N: usize>(pointer: *const T, order: Order, scope: Scope) -> [T; N] { unimplemented!() }
pub unsafe fn store<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) { unimplemented!() }
pub unsafe fn compare_exchange<T: Word>(pointer: *mut T, current: T, new: T, order: Order, scope: Scope) -> T { unimplemented!() }
pub unsafe fn exchange<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T { unimplemented!() }
pub unsafe fn fetch_add<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T { unimplemented!() }
pub unsafe fn fetch_min<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T { unimplemented!() }
pub unsafe fn fetch_max<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T { unimplemented!() }
pub unsafe fn fetch_or<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T { unimplemented!() }
pub unsafe fn fetch_and<T: Word>(pointer: *mut T, value: T, order: Order, scope: Scope) -> T { unimplemented!() }
pub fn fence(scope: Scope) { unimplemented!() }
pub fn shared_site<const BYTES: usize>(site: usize) -> u64 { unimplemented!() }
pub unsafe fn load_shared<T: Word>(address: u64) -> T { unimplemented!() }
pub unsafe fn store_shared<T: Word>(address: u64, value: T) { unimplemented!() }
pub unsafe fn fetch_add_shared(address: u64, value: u32) -> u32 { unimplemented!() }
