//! The buffers of a device: live and freed addresses, and initialised bytes.
use super::super::failure::Nearest;
use super::super::options::{Mode, Options};
use super::super::world::World;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// Unused bytes after each buffer, so that an overrun does not reach the next buffer.
const GAP: usize = 128;
/// Limits of freed memory in quarantine, which is not allocated again.
const QUARANTINE_BYTES: usize = 64 << 20;
const QUARANTINE_BUFFERS: usize = 4096;
/// Fill byte of uninitialised memory, if reads of it are detected.
const POISON: u8 = 0xA5;

/// A live buffer.
pub struct Buffer {
    pub start: usize,
    pub bytes: usize,
    /// One bit per byte: set once written. `None` unless tracked.
    written: Option<Box<[AtomicU64]>>,
    /// Layout of the allocation; `None` for adopted host memory.
    layout: Option<Layout>,
}

impl Buffer {
    fn end(&self) -> usize {
        self.start + self.bytes
    }

    pub fn nearest(&self, address: usize) -> Nearest {
        Nearest { offset: address.wrapping_sub(self.start) as i64, bytes: self.bytes }
    }

    /// Returns `true` if all of the bytes have been written. The access lies within the buffer.
    pub fn is_written(&self, address: usize, bytes: usize) -> bool {
        let Some(written) = &self.written else { return true };
        let mut words = words_of(address - self.start, bytes);
        words.all(|(word, mask)| written[word].load(Ordering::Relaxed) & mask == mask)
    }

    /// Marks the bytes as written.
    pub fn set_written(&self, address: usize, bytes: usize) {
        let Some(written) = &self.written else { return };
        for (word, mask) in words_of(address - self.start, bytes) {
            if written[word].load(Ordering::Relaxed) & mask != mask {
                written[word].fetch_or(mask, Ordering::Relaxed);
            }
        }
    }
}

/// Returns the words of a bitmap that cover bits `first..first + count`, each with the mask of these bits.
fn words_of(first: usize, count: usize) -> impl Iterator<Item = (usize, u64)> {
    let last = first + count;
    (first / 64..last.div_ceil(64)).map(move |word| {
        let from = first.max(word * 64) % 64;
        let to = last.min(word * 64 + 64) - word * 64;
        (word, u64::MAX >> (64 - (to - from)) << from)
    })
}

/// Result of the look-up of an address.
pub enum Found {
    Live(Arc<Buffer>),
    Freed(Nearest),
    Nothing(Option<Nearest>),
}

#[derive(Default)]
struct Tables {
    live: BTreeMap<usize, Arc<Buffer>>,
    /// Freed buffers, by address, kept until a new buffer overlaps them.
    freed: BTreeMap<usize, usize>,
    /// Freed memory not yet returned to the host's allocator, oldest first.
    quarantine: VecDeque<(usize, Layout)>,
    quarantined: usize,
}

/// The buffers of a device.
pub struct Registry {
    tables: RwLock<Tables>,
    /// Devices whose buffers kernels of this one can access, too.
    peers: RwLock<Vec<Weak<World>>>,
    has_peers: AtomicBool,
    /// Number that changes whenever a buffer is added or removed.
    version: AtomicU64,
    /// Parts of buffers that kernels have freed: bytes and name, by address.
    poisoned: RwLock<BTreeMap<usize, (usize, u32)>>,
    poisons: AtomicUsize,
    running: AtomicUsize,
    track_written: bool,
    hoard: bool,
}

/// Guard of a running launch. Freed memory stays mapped while it lives, so a kernel that still uses it cannot
/// harm the host.
pub struct Running<'a>(&'a Registry);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.0.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.forget_poison();
            let mut tables = self.0.tables.write().unwrap_or_else(PoisonError::into_inner);
            self.0.shrink_quarantine(&mut tables);
        }
    }
}

impl Registry {
    pub fn new(options: &Options) -> Self {
        Self {
            tables: RwLock::default(),
            peers: RwLock::default(),
            has_peers: AtomicBool::new(false),
            version: AtomicU64::new(1),
            poisoned: RwLock::default(),
            poisons: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            track_written: options.detect.uninitialized,
            hoard: matches!(options.mode, Mode::Explore(_)),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Tables> {
        self.tables.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Tables> {
        self.version.fetch_add(1, Ordering::Release);
        self.tables.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that changes whenever a buffer that kernels can access is added or removed.
    pub fn version(&self) -> u64 {
        let own = self.version.load(Ordering::Acquire);
        if !self.has_peers.load(Ordering::Acquire) {
            return own;
        }
        let peers = self.peers();
        let peers = peers.iter().filter_map(Weak::upgrade);
        peers.fold(own, |sum, peer| sum.wrapping_add(peer.registry.version.load(Ordering::Acquire)))
    }

    fn peers(&self) -> RwLockReadGuard<'_, Vec<Weak<World>>> {
        self.peers.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets kernels access the buffers of another device. Repeated calls have no effect.
    pub fn add_peer(&self, peer: &Arc<World>) {
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        if !peers.iter().any(|known| std::ptr::eq(known.as_ptr(), Arc::as_ptr(peer))) {
            peers.push(Arc::downgrade(peer));
            self.has_peers.store(true, Ordering::Release);
        }
    }

    /// As [`find`](Self::find), also among the buffers of peers.
    pub fn find_anywhere(&self, address: usize, bytes: usize) -> Found {
        let own = self.find(address, bytes);
        if matches!(own, Found::Live(_)) {
            return own;
        }
        let peers: Vec<_> = self.peers().iter().filter_map(Weak::upgrade).collect();
        let mut in_peers = peers.iter().map(|peer| peer.registry.find(address, bytes));
        in_peers.find(|found| matches!(found, Found::Live(_))).unwrap_or(own)
    }

    pub fn start_launch(&self) -> Running<'_> {
        let _tables = self.read();
        self.running.fetch_add(1, Ordering::AcqRel);
        Running(self)
    }

    pub fn allocate(&self, bytes: usize, align: usize) -> *mut u8 {
        let padded = bytes.max(1).checked_add(GAP);
        let aligned = |size| Layout::from_size_align(size, align).and_then(|layout| layout.align_to(16));
        let Some(layout) = padded.and_then(|size| aligned(size).ok()) else {
            return std::ptr::null_mut();
        };
        // SAFETY: the layout is not empty.
        let pointer = unsafe { if self.track_written { alloc(layout) } else { alloc_zeroed(layout) } };
        if !pointer.is_null() {
            if self.track_written {
                // SAFETY: just allocated with this size.
                unsafe { pointer.write_bytes(POISON, layout.size()) };
            }
            let written =
                self.track_written.then(|| (0..bytes.div_ceil(64)).map(|_| AtomicU64::new(0)).collect());
            self.insert(Buffer { start: pointer as usize, bytes, written, layout: Some(layout) });
        }
        pointer
    }

    fn poisoned(&self) -> RwLockWriteGuard<'_, BTreeMap<usize, (usize, u32)>> {
        self.poisoned.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes accesses to the bytes failures, until [`Self::unpoison`] or the end of the last launch.
    pub fn poison(&self, start: usize, bytes: usize, name: u32) {
        let mut poisoned = self.poisoned();
        poisoned.insert(start, (bytes, name));
        self.poisons.store(poisoned.len(), Ordering::Release);
    }

    /// Allows accesses again. Returns the number of poisoned bytes, if any.
    pub fn unpoison(&self, start: usize) -> Option<usize> {
        if self.poisons.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut poisoned = self.poisoned();
        let removed = poisoned.remove(&start);
        self.poisons.store(poisoned.len(), Ordering::Release);
        removed.map(|(bytes, _)| bytes)
    }

    /// Allows accesses to all parts again.
    pub fn forget_poison(&self) {
        self.poisoned().clear();
        self.poisons.store(0, Ordering::Release);
    }

    /// Returns the name of the poisoned part that contains an address, and the offset in it.
    pub fn poison_at(&self, address: usize) -> Option<(u32, usize)> {
        if self.poisons.load(Ordering::Acquire) == 0 {
            return None;
        }
        let poisoned = self.poisoned.read().unwrap_or_else(PoisonError::into_inner);
        let (start, (bytes, name)) = poisoned.range(..=address).next_back()?;
        (address < start + bytes).then_some((*name, address - start))
    }

    pub fn adopt(&self, start: usize, bytes: usize) {
        self.insert(Buffer { start, bytes, written: None, layout: None });
    }

    /// Adopts host memory, unless a live buffer has it. Returns the bytes to that buffer's end if these are
    /// too few.
    pub fn try_adopt(&self, start: usize, bytes: usize) -> Result<(), usize> {
        match self.find(start, 1) {
            Found::Live(buffer) if buffer.end() - start < bytes => Err(buffer.end() - start),
            Found::Live(_) => Ok(()),
            Found::Freed(_) | Found::Nothing(_) => {
                self.adopt(start, bytes);
                Ok(())
            }
        }
    }

    fn insert(&self, buffer: Buffer) {
        let mut tables = self.write();
        while let Some((&start, &bytes)) =
            tables.freed.range(..buffer.end().max(buffer.start + 1)).next_back()
            && start + bytes > buffer.start
        {
            tables.freed.remove(&start);
        }
        tables.live.insert(buffer.start, Arc::new(buffer));
    }

    pub fn free(&self, start: usize) {
        let mut tables = self.write();
        let Some(layout) = tables.live.get(&start).and_then(|buffer| buffer.layout) else { return };
        if let Some(buffer) = tables.live.remove(&start) {
            tables.freed.insert(start, buffer.bytes.max(1));
            tables.quarantine.push_back((start, layout));
            tables.quarantined += layout.size();
        }
        self.shrink_quarantine(&mut tables);
    }

    /// Returns the oldest quarantined memory to the host, unless a launch is running. No launch can start
    /// while the tables are locked.
    fn shrink_quarantine(&self, tables: &mut Tables) {
        if self.running.load(Ordering::Acquire) > 0 {
            return;
        }
        let limit = if self.hoard { 4 * QUARANTINE_BYTES } else { QUARANTINE_BYTES };
        while tables.quarantined > limit || tables.quarantine.len() > QUARANTINE_BUFFERS {
            let Some((start, layout)) = tables.quarantine.pop_front() else { break };
            tables.quarantined -= layout.size();
            // SAFETY: allocated with this layout and freed by its owner; no launch is running that might
            // still use it.
            unsafe { dealloc(start as *mut u8, layout) };
        }
    }

    pub fn disown(&self, start: usize) {
        let mut tables = self.write();
        if tables.live.get(&start).is_some_and(|buffer| buffer.layout.is_none())
            && let Some(buffer) = tables.live.remove(&start)
        {
            tables.freed.insert(start, buffer.bytes.max(1));
        }
    }

    pub fn mark_initialized(&self, address: usize, bytes: usize) {
        if let (Found::Live(buffer), true) = (self.find(address, bytes), bytes > 0) {
            buffer.set_written(address, bytes);
        }
    }

    /// Looks an address up. A buffer is live only if it contains all of the bytes.
    pub fn find(&self, address: usize, bytes: usize) -> Found {
        let tables = self.read();
        let end = address.saturating_add(bytes);
        let below = tables.live.range(..=address).next_back().map(|(_, buffer)| buffer);
        if let Some(buffer) = below.filter(|buffer| end <= buffer.end()) {
            return Found::Live(buffer.clone());
        }
        if let Some((&start, &bytes)) = tables.freed.range(..end).next_back()
            && address < start + bytes
        {
            return Found::Freed(Nearest { offset: address.wrapping_sub(start) as i64, bytes });
        }
        let above = tables.live.range(address..).next().map(|(_, buffer)| buffer);
        let gap = |buffer: &&Arc<Buffer>| buffer.start.abs_diff(address).min(buffer.end().abs_diff(address));
        Found::Nothing(below.into_iter().chain(above).min_by_key(gap).map(|buffer| buffer.nearest(address)))
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let tables = self.tables.get_mut().unwrap_or_else(PoisonError::into_inner);
        let live = tables.live.values().filter_map(|buffer| Some((buffer.start, buffer.layout?)));
        for (start, layout) in live.chain(tables.quarantine.iter().copied()) {
            // SAFETY: allocated with this layout; the memory is freed together with the device.
            unsafe { dealloc(start as *mut u8, layout) };
        }
    }
}
