//! Primitives for device code: thread and tile ids, collectives, ordered memory operations, and the
//! work-sharing loop.
//!
//! A kernel is written once against this crate and runs on two back ends. Compiled for `nvptx64`, it becomes
//! PTX for an NVIDIA GPU. Compiled for the host, it runs on an emulator of the same execution model
//! ([`emulator`]), whose lanes are coroutines and whose schedules can be explored and replayed. Nothing else
//! in the project contains `asm!`, an intrinsic or an atomic of `core`.
//!
//! | word | meaning |
//! |---|---|
//! | [`Thread`] | the calling thread: its index in the block, the grid and the warp |
//! | [`Tile`] | 1 to 32 neighbouring lanes that execute an operation together, and their collectives |
//! | [`share_work`] | lets a tile execute the operation of each of its lanes, one after the other |
//! | [`Global`], [`GlobalSlice`] | pointers to global memory whose accesses name an [`Order`] and a [`Scope`] |
//! | [`BoundedSlice`] | a slice whose length a count in device memory may limit |
//! | [`heap_allocate`], [`heap_free`] | the driver's own allocator in kernels |
//! | [`poison`], [`unpoison`] | tell the emulator which memory kernels have freed |
//! | [`fence`], [`fence_sc`], [`Block::sync`] | fences and barriers |
//! | [`shared!`], [`Shared`], [`SharedShape`] | shared memory of a block |
//! | [`Kernel`], [`kernel`], [`instances!`] | entry points and their typed launches |
//! | [`Instance`], [`Name`] | the types that generic kernels are compiled for, and their names |
//!
//! The examples of this crate call `run(grid, words, kernel)`, which they do not show: it launches a kernel
//! on the emulator, with a slice of the words as its argument.
//!
//! ```
//! use simt::{GlobalSlice, Grid, Order, Scope, Thread, black_box, clock, fault, fence, kernel, pause};
//! use simt::{spin_hint, timer, trap};
//!
//! /// Block 0 publishes a number; block 1 waits for it.
//! #[kernel]
//! fn pass(words: GlobalSlice<u32>) {
//!     let (number, flag) = (words.at(0), words.at(1));
//!     if Thread::block_index() == 0 {
//!         number.store(42, Order::Relaxed, Scope::Device);
//!         fence(Scope::Device);
//!         flag.store(1, Order::Relaxed, Scope::Device);
//!         return;
//!     }
//!     let (steps, nanoseconds, mut rounds) = (clock(), timer(), 0);
//!     while flag.load(Order::Relaxed, Scope::Device) == 0 {
//!         rounds += 1;
//!         match rounds {
//!             1..10 => spin_hint(),
//!             10..10_000 => pause(100),
//!             _ => trap(), // ends the launch with an error
//!         }
//!     }
//!     fence(Scope::Device);
//!     if number.load(Order::Relaxed, Scope::Device) != 42 || clock() < steps || timer() <= nanoseconds {
//!         fault("the number is not published"); // the emulator reports it; a GPU continues
//!     }
//!     words.write(2, black_box(rounds));
//! }
//! # use simt::emulator::run_example as run;
//!
//! let mut words = [0; 3];
//! run(Grid::new(2, 1), &mut words, |words| Pass { words });
//! assert_eq!(words[..2], [42, 1]);
//! ```
//!
//! In the next example the lanes of a tile execute the operation of each of them together:
//!
//! ```
//! use simt::{GlobalSlice, Grid, Thread, Tile, kernel, share_work};
//!
//! /// Each of the first eight lanes wants the sum of a row of eight words.
//! #[kernel]
//! fn sum_rows(words: GlobalSlice<u32>) {
//!     let (lane, mut sum) = (Thread::lane(), 0);
//!     share_work(Tile::<8>::lockstep(), lane < 8, |op| {
//!         let row = op.from_owner(lane);
//!         let index = (row * 8 + op.tile().rank()) as usize;
//!         let word = if op.is_active() { words.read(index) } else { 0 };
//!         let total = op.tile().reduce_add(word);
//!         if op.is_mine() {
//!             sum = total;
//!         }
//!         true // this operation has one step
//!     });
//!     if lane < 8 {
//!         words.write(64 + lane as usize, sum);
//!     }
//! }
//! # use simt::emulator::run_example as run;
//!
//! let mut words: Vec<u32> = (0..72).collect();
//! run(Grid::new(1, 32), &mut words, |words| SumRows { words });
//! assert_eq!(words[64..66], [(0..8).sum(), (8..16).sum()]);
//! ```
//!
//! Kernels may also allocate memory by the driver's allocator:
//!
//! ```
//! use simt::{Global, GlobalSlice, Grid, Order, Scope, heap_allocate, heap_free, kernel, poison, unpoison};
//!
//! #[kernel]
//! fn allocate(words: GlobalSlice<u32>) {
//!     let pointer = heap_allocate(16).cast::<u32>();
//!     if pointer.is_null() {
//!         return;
//!     }
//!     // SAFETY: an allocation of 16 bytes, which no other thread knows and which is freed once.
//!     unsafe {
//!         let word = Global::new(pointer);
//!         poison(|| word, 16, 0); // an access would now be reported
//!         unpoison(|| word);
//!         word.store(7, Order::Weak, Scope::Device);
//!         words.write(0, word.load(Order::Weak, Scope::Device));
//!         heap_free(pointer.cast());
//!     }
//! }
//! # use simt::emulator::run_example as run;
//!
//! let mut words = [0];
//! run(Grid::new(1, 1), &mut words, |words| Allocate { words });
//! assert_eq!(words, [7]);
//! ```
//!
//! # Cost
//!
//! On a GPU, a function is one instruction per warp or a few, unless it states more; `PTX:` names it. Access
//! to memory, collectives, barriers and fences have sections on their types. `fence` waits until the thread's
//! earlier writes are visible in the scope; `fence_sc` takes longer. `clock` and `timer` read a register,
//! `spin_hint` and `pause` give up the multiprocessor for the time that they state. `share_work` executes as
//! many rounds as the busiest tile of the warp has steps, with a ballot, a vote and the collectives of the
//! steps. `heap_allocate` and `heap_free` call the driver's allocator, which takes locks in device memory.
//! `poison` and `unpoison` are nothing on a GPU.
//!
//! On the emulator, an access costs a check of its address and a host atomic. A collective, a barrier or a
//! hint costs a switch of stacks per lane. No time there says anything about a GPU.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(
    target_arch = "nvptx64",
    feature(asm_experimental_arch, link_llvm_intrinsics, stdarch_nvptx),
    allow(internal_features)
)]

#[cfg_attr(target_arch = "nvptx64", path = "nvptx/mod.rs")]
#[cfg_attr(not(target_arch = "nvptx64"), path = "emulator/mod.rs")]
mod backend;

mod block;
#[cfg(not(target_arch = "nvptx64"))]
mod grid;
pub mod hash;
mod kernel;
mod memory;
mod name;
mod order;
mod thread;
mod tile;
mod word;
mod work_sharing;

pub use block::{Block, Shared};
#[cfg(not(target_arch = "nvptx64"))]
pub use grid::Grid;
pub use kernel::{Instance, Kernel};
pub use memory::{
    BoundedSlice, Global, GlobalSlice, fence, fence_sc, heap_allocate, heap_free, poison, unpoison,
};
pub use name::Name;
pub use order::{Order, Scope};
pub use simt_macros::{device, instances, kernel};
pub use thread::{Thread, black_box, bound, clock, fault, pause, recheck, spin_hint, timer, trap};
pub use tile::{Convergence, Independent, Lockstep, Shuffle, Tile};
pub use word::{SharedShape, Word};
pub use work_sharing::{CurrentOp, Queue, share_work};

#[cfg(not(target_arch = "nvptx64"))]
pub use backend::public as emulator;

#[doc(hidden)]
pub mod private {
    //! Items that the macros of this crate expand to. Not for direct use.
    #[cfg(target_arch = "nvptx64")]
    pub use crate::backend::follow;
    pub use crate::backend::{SharedAddress, shared_site};
    #[cfg(not(target_arch = "nvptx64"))]
    pub use crate::kernel::symbol_of;
    pub use crate::name::is_name;
}
