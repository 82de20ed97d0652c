//! Growth of a hash map: when a table is replaced by a larger one, and how.
#[allow(unused_imports)] // for links in the documentation
use super::HashMap;
use super::kernels::Kernels;
#[cfg(feature = "sharded-map")]
use super::kernels::Reader;
#[cfg(feature = "sharded-map")]
use super::owned;
use super::table::Table;
#[cfg(feature = "sharded-map")]
use super::table::{Current, Memory};
use crate::Result;
use crate::error::made_room;
use crate::map::checks::Checks;
use crate::map::counts::{Counts, distinct};
use crate::map::encoding::Word;
use crate::map::frozen::Freezer;
use crate::map::handle::Handle;
use crate::map::launch::{Batch, BatchOp};
use crate::map::sketch;
#[cfg(feature = "sharded-map")]
use crate::map::structure::Readable;
use crate::map::structure::{HostKeys, Room, Scans, Structure, with_scanner};
use gpu::{Device, Stream};
#[cfg(feature = "sharded-map")]
use phalanx_kernels::sharded::owned::Owned;
use simt::BoundedSlice;
#[cfg(feature = "sharded-map")]
use std::sync::{Arc, PoisonError};

/// Policy for a full map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Growth {
    /// The table never grows: pairs that do not fit are refused. Only [`HashMap::compact`] reclaims the slots
    /// of removed keys.
    Fixed,
    /// A blocking call that had refused pairs, or that leaves the table too full, rehashes the table: into
    /// one of the same size if reclaiming the slots of removed keys suffices, else into one of twice the
    /// size, or larger if the refused pairs need it. Both tables exist during the rehash. If there is no
    /// memory for the refused pairs, the call returns [`Error::NoRoom`](crate::Error::NoRoom).
    ///
    /// A call with 4096 elements or more that may not fit first estimates on the device how many distinct
    /// absent keys it has, and rehashes once, before it inserts. A mixed batch does not.
    ///
    /// Batches on device buffers and your own kernels never grow a map: call [`HashMap::reserve`] before
    /// them.
    ///
    /// A table is too full if more than nine tenths of its slots are taken; for load factors above 0.8, if
    /// the taken share exceeds the midpoint between the load factor and 1.
    Doubling,
}

/// Share of the slots that blocking calls may change before one reads the counters of a table that is not
/// full: removed keys may have made probe sequences long.
const CHECKED: usize = 16;

/// A table that is replaced by a larger one when it is full.
pub struct Growing<K, V> {
    pub handle: Handle<dyn Kernels<K, V>, Table>,
    pub load_factor: f64,
    pub growth: Growth,
    pub checks: Checks,
    /// Which kernels may be in flight whose loads are weak, and which that write.
    pub freezer: Freezer,
}

/// Returns the number of taken slots above which a blocking call rehashes. It is well above the load factor,
/// so that a few removed keys do not cause a rehash of a table at its capacity.
pub fn most_taken(load_factor: f64, slots: usize) -> usize {
    (slots as f64 * (0.5 + load_factor / 2.0).max(0.9)) as usize
}

/// Returns the number of slots of the table that replaces one of `slots` slots and must hold `pairs`.
pub fn size_for(load_factor: f64, pairs: usize, slots: usize, counts: Counts) -> usize {
    let wanted = (pairs as f64 / load_factor) as usize;
    // A rehash that leaves less than a tenth of the slots to take would be due again too soon.
    let pays = counts.taken > counts.live && pairs + slots / 10 <= most_taken(load_factor, slots);
    if wanted <= slots && pays { slots } else { wanted.max(slots * 2) }
}

impl<K: Word, V: Word> Growing<K, V> {
    /// Waits for all earlier launches and returns the counters.
    pub fn counts(&self) -> Result<Counts> {
        self.handle.settled()?.counts()
    }

    /// Rehashes into a table of at least `slots` slots. On error the table is unchanged.
    pub fn replace(&mut self, slots: usize) -> Result<()> {
        let table = self.rehash(&self.handle.read(), slots)?;
        *self.handle.get_mut() = table;
        Ok(())
    }

    /// See [`most_taken`].
    fn most_taken(&self, slots: usize) -> usize {
        most_taken(self.load_factor, slots)
    }

    /// Replaces the table by one that holds `refused` more pairs. Returns `false` if there is no memory for
    /// it.
    fn grow(&self, table: &mut Table, counts: Counts, refused: usize) -> Result<bool> {
        let grown =
            self.rehash(table, size_for(self.load_factor, counts.live + refused, table.slots(), counts));
        made_room(grown.map(|grown| {
            *table = grown;
            true
        }))
    }

    /// Returns whether the table takes `more` pairs without being too full afterwards.
    fn takes(&self, table: &Table, counts: Counts, more: usize) -> bool {
        counts.taken.saturating_add(more) <= self.most_taken(table.slots())
    }

    /// Records a lookup in order, and returns its kernels.
    #[cfg(feature = "sharded-map")]
    fn reader_in_order(&self) -> &dyn Reader<K, V> {
        // Kernels with a view may run at any time.
        if self.checks.are_viewed() || !self.freezer.look_up_in_order() {
            return self.handle.kernels();
        }
        self.reader()
    }

    /// Submits a batch to a stream.
    fn launch(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        let table = self.handle.read();
        // SAFETY: the table outlives the launch, since dropping its buffers waits for it, and so do the
        // slices' buffers. Batches may run concurrently; exclusive operations take the write lock and wait
        // for the device.
        let launched = unsafe { self.handle.kernels().launch_batch(stream, &table.raw(), batch) };
        self.checks.submitted(batch.op, batch.keys.max_len());
        Ok(launched?)
    }

    /// Estimates the number of pairs that a batch will add, unless they fit in any case.
    fn overflow(&self, keys: BoundedSlice<K>) -> Result<Option<usize>> {
        let table = self.handle.settled()?;
        if self.takes(&table, table.counts()?, keys.max_len()) {
            return Ok(None);
        }
        let kernels = self.handle.kernels();
        sketch::estimate(&self.handle.device, keys.max_len(), |stream, registers| {
            // SAFETY: as for `Structure::submit`. The estimate waits for the launch.
            unsafe { kernels.launch_sketch(stream, &table.raw(), keys, registers) }
        })
        .map(Some)
    }

    fn rehash(&self, table: &Table, mut slots: usize) -> Result<Table> {
        loop {
            if let Some(table) = table.rehashed(self.handle.kernels(), slots)? {
                return Ok(table);
            }
            slots += slots / 4 + 1;
        }
    }
}

impl<K: Word, V: Word> Structure for Growing<K, V> {
    type Key = K;
    type Value = V;

    fn device(&self) -> &Device {
        &self.handle.device
    }

    fn submit(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        if batch.op.writes() {
            self.freezer.thaw(&self.handle.device)?;
        }
        self.launch(stream, batch)
    }

    /// A table that may have to grow counts the distinct absent keys of the batch.
    fn needs_whole(&self, op: BatchOp, keys: &HostKeys<'_, K>) -> Result<bool> {
        if !self.grows() || !sketch::is_worthwhile(op, keys.len) {
            return Ok(false);
        }
        let fits = self.checks.fits(keys.len, self.most_taken(self.handle.read().slots()));
        if fits {
            return Ok(false);
        }
        let table = self.handle.settled()?;
        Ok(!self.takes(&table, self.checks.count(|| table.counts())?, keys.len))
    }

    fn reserve_for(&self, batch: &Batch<K, V>) -> Result<()> {
        if !self.grows() || !sketch::is_worthwhile(batch.op, batch.keys.max_len()) {
            return Ok(());
        }
        let Some(more) = self.overflow(batch.keys)? else { return Ok(()) };
        // Another thread may have grown the table meanwhile.
        self.handle.exclusive(|_, table| {
            let counts = table.counts()?;
            if self.takes(table, counts, more) { Ok(()) } else { self.grow(table, counts, more).map(drop) }
        })
    }

    fn scans(&self, run: Scans<'_, K, V>) -> Result<()> {
        let kernels = self.handle.kernels();
        self.handle.exclusive(|stream, table| {
            let size = (kernels.scan_threads(&table.raw()), table.counts()?.live);
            // SAFETY: the lock excludes other launches, and all earlier ones have ended.
            with_scanner(stream, size, |scan| unsafe { kernels.launch_scan(stream, &table.raw(), scan) }, run)
        })
    }

    fn generation(&self) -> u64 {
        self.handle.read().generation()
    }

    fn grows(&self) -> bool {
        self.growth == Growth::Doubling
    }

    fn grow(&self) -> Result<()> {
        let is_full = |table: &Table| -> Result<Option<Counts>> {
            let counts = self.checks.count(|| table.counts())?;
            let is_full = counts.taken > self.most_taken(table.slots()) || table.needs_rehash(counts);
            Ok(is_full.then_some(counts))
        };
        let is_due =
            |table: &Table| self.checks.is_due(self.most_taken(table.slots()), table.slots() / CHECKED);
        if !self.grows() || !is_due(&self.handle.read()) || is_full(&self.handle.read())?.is_none() {
            return Ok(());
        }
        // Another thread may have done it before this one has exclusive access.
        self.handle.exclusive(|_, table| match is_full(table)? {
            Some(counts) => self.grow(table, counts, 0).map(drop),
            None => Ok(()),
        })
    }

    fn grow_for(&self, refused: &[K], seen: Option<u64>) -> Result<Room> {
        if !self.grows() {
            return Ok(Room::None);
        }
        self.handle.exclusive(|_, table| {
            if seen.is_some_and(|generation| generation != table.generation()) {
                // Another thread has grown the table meanwhile, perhaps enough.
                return Ok(Room::More);
            }
            self.grow(table, table.counts()?, distinct(refused)).map(Room::more_if)
        })
    }

    fn len(&self) -> Result<usize> {
        Ok(self.counts()?.live)
    }

    fn clear(&mut self) -> Result<()> {
        self.handle.get_mut().clear()
    }

    fn memory_usage(&self) -> usize {
        self.handle.read().memory_usage()
    }

    #[cfg(feature = "sharded-map")]
    fn submit_in_order(&self, stream: &Stream, batch: Batch<K, V>) -> Result<()> {
        if batch.op.writes() {
            self.freezer.write_in_order(&self.handle.device)?;
            return self.launch(stream, batch);
        }
        let table = self.handle.read();
        // SAFETY: as in `launch`. A read-only kernel comes after all that the caller has submitted and before
        // all that it will submit, and other writers first wait: see `Freezer::thaw`.
        unsafe { Ok(self.reader_in_order().launch_look_up(stream, &table.raw(), batch)?) }
    }

    #[cfg(feature = "sharded-map")]
    fn is_unsettled(&self) -> bool {
        self.freezer.is_unsettled() && !self.checks.are_viewed()
    }

    #[cfg(feature = "sharded-map")]
    fn settle(&self) -> Result<()> {
        self.freezer.settle(&self.handle.device)
    }

    #[cfg(feature = "sharded-map")]
    fn readable(&self) -> Option<Arc<dyn Readable<K, V>>> {
        let (kernels, current) = (self.handle.kernels().boxed(), self.handle.read().current());
        Some(Arc::new(SharedTable { kernels, current }))
    }
}

/// A map's table, for other devices. It follows the map through rehashes.
#[cfg(feature = "sharded-map")]
struct SharedTable<K, V> {
    kernels: Box<dyn Kernels<K, V>>,
    current: Current,
}

#[cfg(feature = "sharded-map")]
impl<K: Word, V: Word> SharedTable<K, V> {
    fn memory(&self) -> Arc<Memory> {
        // The pointer is valid even after a panic.
        self.current.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(feature = "sharded-map")]
impl<K: Word, V: Word> Readable<K, V> for SharedTable<K, V> {
    fn id(&self) -> usize {
        Arc::as_ptr(&self.current).addr()
    }

    fn device(&self) -> Device {
        self.memory().device().clone()
    }

    fn look_up(&self, stream: &Stream, batch: Batch<K, V>) -> Result<Arc<dyn Send + Sync>> {
        debug_assert!(!batch.op.writes());
        let memory = self.memory();
        // SAFETY: the caller keeps the memory until the launch has ended. The batch only reads the table,
        // with which operations of its owner may overlap.
        unsafe { self.kernels.launch_batch(stream, &memory.raw(), batch)? };
        Ok(memory)
    }

    fn look_up_owned(
        &self,
        stream: &Stream,
        batch: Batch<K, V>,
        owned: Owned,
    ) -> Result<Option<Arc<dyn Send + Sync>>> {
        debug_assert!(!batch.op.writes());
        let Some(kernels) = owned::find::<K, V>(self.kernels.variant()) else { return Ok(None) };
        let memory = self.memory();
        // SAFETY: as in `look_up`.
        unsafe { kernels.look_up_owned(stream, &memory.raw(), batch, owned)? };
        Ok(Some(memory))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::launch::BatchOp;
    use crate::map::sketch::LEAST;
    use crate::map::variant::VariantTag;
    use phalanx_kernels::hash_map::DefaultTable;

    /// The only variant that is compiled for these tests.
    const VARIANT: VariantTag<DefaultTable> = VariantTag::NEW;

    /// Returns a map for 100 pairs.
    fn growing(device: &Device) -> Growing<u32, u32> {
        let table = Table::new(device, &VARIANT, 125, (u32::MAX, 0)).unwrap();
        Growing {
            handle: Handle::new(device.clone(), VARIANT.boxed(), table),
            load_factor: 0.8,
            growth: Growth::Doubling,
            checks: Checks::default(),
            freezer: Freezer::default(),
        }
    }

    /// Returns whether a map for 100 pairs grows before a batch of these keys.
    fn grows_for(op: BatchOp, keys: &[u32]) -> bool {
        let device = Device::emulator(Default::default());
        let keys = device.from_slice(keys).unwrap();
        let map = growing(&device);
        let before = map.handle.read().slots();
        map.reserve_for(&Batch::new(op, keys.global())).unwrap();
        let slots = map.handle.read().slots();
        let holds_them = slots * 8 / 10 >= keys.len();
        assert!(slots == before || holds_them, "{slots} slots");
        holds_them
    }

    #[test]
    fn a_batch_that_will_not_fit_is_no_surprise() {
        let (many, few): (Vec<u32>, Vec<u32>) = (0..LEAST as u32).map(|n| (n, n % 10)).unzip();
        assert!(grows_for(BatchOp::InsertNew, &many) && grows_for(BatchOp::Replace, &many));
        assert!(!grows_for(BatchOp::Insert, &few), "ten keys fit");
        assert!(!grows_for(BatchOp::Remove, &many) && !grows_for(BatchOp::Mixed, &many), "may add nothing");
        assert!(!grows_for(BatchOp::Insert, &many[1..]), "a small batch");
    }

    /// A batch in order that writes does not unsettle the map; one that is not does, and so does a view.
    #[cfg(feature = "sharded-map")]
    #[test]
    fn batches_in_order_keep_a_map_settled() {
        let device = Device::emulator(Default::default());
        let (stream, map) = (device.stream().unwrap(), growing(&device));
        let keys = device.from_slice(&[1u32, 2, 3]).unwrap();
        let (values, found) = (device.from_slice(&[4u32, 5, 6]).unwrap(), device.zeroed::<u32>(3).unwrap());
        let outcomes = device.zeroed::<u8>(3).unwrap();
        let outcomes = outcomes.global();
        let insert =
            Batch { arguments: values.global(), outcomes, ..Batch::new(BatchOp::Insert, keys.global()) };
        let get = Batch { results: found.global(), outcomes, ..Batch::new(BatchOp::Get, keys.global()) };
        assert!(map.is_unsettled());
        map.settle().unwrap();
        map.submit_in_order(&stream, insert).unwrap();
        assert!(!map.is_unsettled());
        map.submit_in_order(&stream, get).unwrap();
        assert_eq!(found.read().unwrap(), [4, 5, 6]);
        let is_read_only = || map.reader_in_order().variant().name.starts_with("phased_");
        assert!(is_read_only());
        map.submit(&stream, get).unwrap();
        assert!(!map.is_unsettled(), "it only reads");
        map.submit(&stream, insert).unwrap();
        assert!(map.is_unsettled() && !is_read_only());
        map.settle().unwrap();
        assert!(is_read_only());
        map.checks.viewed();
        assert!(!map.is_unsettled() && !is_read_only(), "kernels with the view may always write");
    }
}
