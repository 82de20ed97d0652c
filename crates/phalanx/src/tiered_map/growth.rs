//! Growth of single shards, and batches that need it.
use super::chunk::{Request, pinned, write_pinned};
use super::parts::{Area, Use};
use super::placement::Placement;
use super::plan::{COUNTER_WORDS, DEPTH, Form, PLACES};
use super::serve::fold;
use super::shard::{Image, Shard, Size, clear};
use super::shards::Shards;
use super::slots::Slots;
use super::tiers::{Tiers, empty_image};
use super::work::{Failure, Work};
use crate::error::or_later;
use crate::hash_map::{Growth, most_taken, size_for};
use crate::map::counts::{Counts, distinct};
use crate::map::encoding::Word;
use crate::map::launch::{Batch, BatchOp};
use crate::map::sketch;
use crate::{Error, Result};
use gpu::{Buffer, Tier};
use phalanx_kernels::keyed::{Outcome, SKETCH_REGISTERS};
use simt::GlobalSlice;
use std::collections::BTreeMap;

/// Number of elements of a shard that are looked up before a full estimate.
const SAMPLE: usize = 1 << 12;

impl<K: Word, V: Word, S: Shards<K, V>> Tiers<K, V, S> {
    /// Runs a batch, and retries refused elements as long as shards grow. Returns the number of elements that
    /// stay refused, for which there is no memory. Maintenance that lacks memory afterwards is left to the
    /// next call.
    pub fn run(&mut self, request: &mut Request<'_, K, V>) -> Result<u64> {
        let (op, len) = (request.op, request.len());
        self.finish_submitted()?;
        S::before_batch(self, request)?;
        let mut refused = self.attempt(request).map_err(|failure| interrupted(op, len, failure))?;
        if refused > 0 && op.places() && self.grows() {
            refused = self.retry(request)?;
        }
        let maintained = if op.writes() && self.grows() { or_later(S::maintain(self)) } else { Ok(()) };
        match maintained {
            Ok(()) => Ok(refused),
            Err(source) => Err(interrupted(op, len, self.failed(request, source))),
        }
    }

    /// Returns the failure of a step after a batch: all elements are done that are not refused.
    pub fn failed(&mut self, request: &Request<'_, K, V>, source: Error) -> Failure {
        self.settle();
        let outcomes = self.outcomes_of(request).unwrap_or_default();
        let is_done = |place| !request.is_refused(&outcomes, place);
        Failure::new(source, (0..request.len()).map(is_done).collect())
    }

    /// Returns whether shards grow.
    pub fn grows(&self) -> bool {
        self.config.growth == Growth::Doubling
    }

    /// Retries refused elements until none is, or there is no memory. Returns their number.
    pub fn retry(&mut self, request: &mut Request<'_, K, V>) -> Result<u64> {
        if let Some(columns) = request.on_device {
            return self.retry_on_device(request.op, columns);
        }
        loop {
            let refused = refused_of(request.outcomes);
            if refused.is_empty() {
                return Ok(0);
            }
            let mut again = Again::new(request, &refused);
            match S::grow_for(self, &again.keys) {
                Err(error) if error.is_lack_of_room() => return Ok(refused.len() as u64),
                Err(source) => {
                    return Err(interrupted(request.op, request.keys.len(), self.failed(request, source)));
                }
                Ok(()) => {}
            }
            if let Err(Failure { source, done }) = self.attempt(&mut again.request(request.op)) {
                return Err(again.interrupted(request, (&refused, &done), *source));
            }
            again.put(request, &refused);
        }
    }
}

impl<K: Word, V: Word> Tiers<K, V> {
    /// Grows the shards in which elements with these keys were refused.
    pub fn grow_for(&mut self, refused: &[K]) -> Result<()> {
        let mut by_shard = BTreeMap::<usize, Vec<K>>::new();
        for &key in refused {
            by_shard.entry(self.shard_of(key)).or_default().push(key);
        }
        let bits = self.bits();
        for (shard, keys) in by_shard {
            self.grow(shard, distinct(&keys))?;
            if self.bits() != bits {
                // The map has more shards, and all are larger.
                break;
            }
        }
        Ok(())
    }

    /// Grows shards for a large batch that has many new keys: once, instead of several times for the elements
    /// that a full shard refuses. If there is no memory, elements will be refused.
    pub fn grow_before(&mut self, request: &Request<'_, K, V>, work: &Work<Batch<K, V>>) -> Result<()> {
        if !self.grows() {
            return Ok(());
        }
        let all = (0..self.shards.len()).map(|shard| (shard, work.elements_of(shard)));
        let is_due = |&(shard, many): &_| sketch::is_worthwhile(request.op, many) && !self.takes(shard, many);
        let due: Vec<_> = all.filter(is_due).collect();
        let bits = self.bits();
        for (shard, more) in self.estimate(work, due)? {
            if self.bits() != bits {
                break;
            }
            if !self.takes(shard, more) {
                or_later(self.grow(shard, more))?;
            }
        }
        Ok(())
    }

    /// Returns whether a shard takes more pairs without being too full afterwards.
    fn takes(&self, shard: usize, more: usize) -> bool {
        let Shard { size, counts, .. } = &self.shards[shard];
        counts.taken.saturating_add(more) <= most_taken(self.inner.parameters.load_factor, size.slots)
    }

    /// Estimates how many pairs a batch will add to shards, of each of which it has the given number of
    /// elements. Returns the shards that may not take them, with these estimates. A few elements of each
    /// shard are looked up first, in place: the others need not be if most keys are present.
    fn estimate(
        &mut self,
        work: &Work<Batch<K, V>>,
        due: Vec<(usize, usize)>,
    ) -> Result<Vec<(usize, usize)>> {
        let (sampled, mut rest): (Vec<_>, Vec<_>) = due.into_iter().partition(|&(_, many)| many > 4 * SAMPLE);
        let absent = self.count_absent(work, &sampled, true)?;
        for (&(shard, many), absent) in sampled.iter().zip(absent) {
            let len = sample_of(work, shard).map_or(1, |sample| sample.keys.max_len());
            let more = (absent as f64 / len as f64 * many as f64).ceil() as usize;
            if !self.takes(shard, more) {
                rest.push((shard, many));
            }
        }
        let absent = self.count_absent(work, &rest, false)?;
        Ok(rest.into_iter().map(|(shard, _)| shard).zip(absent).collect())
    }

    /// Estimates for shards, of each of which the batch has the given number of elements, how many different
    /// keys are absent: among a few elements or all. Those with an image that kernels can access are
    /// estimated together.
    fn count_absent(
        &mut self,
        work: &Work<Batch<K, V>>,
        shards: &[(usize, usize)],
        samples: bool,
    ) -> Result<Vec<usize>> {
        let is_opened = |shard: &Shard| shard.is_blank() || shard.image.staged().is_some();
        let (opened, others): (Vec<_>, Vec<_>) =
            shards.iter().partition(|&&(shard, _)| is_opened(&self.shards[shard]));
        let mut absent = BTreeMap::new();
        let registers = self.registers(work);
        for group in others.chunks(registers.len() / SKETCH_REGISTERS) {
            let sketches = self.sketch(work, (group, samples), registers)?;
            for (registers, &(shard, many)) in sketches.chunks(SKETCH_REGISTERS).zip(group) {
                absent.insert(shard, sketch::raised(registers, many));
            }
        }
        for each in opened {
            absent.insert(each.0, self.count_absent_opened(work, each, samples)?);
        }
        Ok(shards.iter().map(|(shard, _)| absent[shard]).collect())
    }

    /// As [`Self::count_absent`], for a shard whose image may have to be created or read first. Waits.
    fn count_absent_opened(
        &mut self,
        work: &Work<Batch<K, V>>,
        (shard, many): (usize, usize),
        samples: bool,
    ) -> Result<usize> {
        self.inner.sketch.fill_bytes(0)?;
        let copy = self.open(shard)?;
        let (table, stream) = (self.raw_opened(shard, copy.as_ref()), self.places[0].stream.clone());
        let sample = sample_of(work, shard).filter(|_| samples);
        let all = work.parts_of(shard).map(|(_, batch)| batch).filter(|_| !samples);
        for batch in sample.into_iter().chain(all) {
            let registers = self.inner.sketch.global();
            // SAFETY: all live until the stream is waited for; nothing else uses the shard.
            unsafe { self.inner.kernels.launch_sketch(&stream, &table, batch.keys, registers)? };
        }
        stream.synchronize()?;
        self.stages.put(copy);
        Ok(sketch::raised(&self.inner.sketch.read()?, many))
    }

    /// Returns memory for the registers of at least one sketch: that of a chunk buffer, if it is not used.
    fn registers(&self, work: &Work<Batch<K, V>>) -> GlobalSlice<u32> {
        let room = self.buffers[1].words();
        match work.spilled.is_some() && room.len() > SKETCH_REGISTERS {
            true => room,
            false => self.inner.sketch.global(),
        }
    }

    /// Returns the sketches of the absent keys of some shards, all of which are computed concurrently.
    fn sketch(
        &mut self,
        work: &Work<Batch<K, V>>,
        (group, samples): (&[(usize, usize)], bool),
        registers: GlobalSlice<u32>,
    ) -> Result<Vec<u32>> {
        let registers = registers.part(0, group.len() * SKETCH_REGISTERS);
        let stream = self.places[0].stream.clone();
        // SAFETY: the registers live until the stream is waited for, and nothing else uses them.
        unsafe { stream.fill(registers, 0)? };
        stream.synchronize()?;
        let submitted = group.iter().enumerate().try_for_each(|(number, &(shard, many))| {
            let own = registers.part(number * SKETCH_REGISTERS, SKETCH_REGISTERS);
            match samples {
                true => self.sketch_sample(work, (shard, number % PLACES), own),
                false => self.sketch_all(work, (shard, many, number), own),
            }
        });
        self.wait_for_shards()?;
        submitted?;
        let mut sketches = vec![0; registers.len()];
        // SAFETY: as above; the vector lives until the wait.
        let read = unsafe { stream.download(&mut sketches, registers) };
        stream.synchronize()?;
        read?;
        Ok(sketches)
    }

    /// Submits a sketch of a few elements of a shard, which are looked up in place.
    fn sketch_sample(
        &self,
        work: &Work<Batch<K, V>>,
        (shard, place): (usize, usize),
        registers: GlobalSlice<u32>,
    ) -> Result<()> {
        let Some(Batch { keys, .. }) = sample_of(work, shard) else { return Ok(()) };
        let (table, stream) = (self.raw_in_place(shard, place), &self.places[place].stream);
        // SAFETY: all live until the streams are waited for; nothing changes the shard.
        unsafe { Ok(self.inner.kernels.launch_sketch(stream, &table, keys, registers)?) }
    }

    /// Submits a sketch of all elements of a shard: where they will be executed, so that a shard of which the
    /// batch has many elements is copied rather than read over the bus.
    fn sketch_all(
        &mut self,
        work: &Work<Batch<K, V>>,
        (shard, many, number): (usize, usize, usize),
        registers: GlobalSlice<u32>,
    ) -> Result<()> {
        let (mut area, mut table) = (Area::OfPlace(number), self.raw_in_place(shard, number % PLACES));
        let mut stream = self.places[number % PLACES].stream.clone();
        if self.brings(work, shard, many) {
            let held = self.slots.holding(shard);
            let slot = held.unwrap_or(number % DEPTH.min(self.slots.len()));
            self.copy_in(shard, slot, held.is_some())?;
            (area, table) = (Area::OfSlot(slot), self.raw_in_slot(shard, slot));
            stream = self.slots.get(slot).stream.clone();
        }
        let launch = |batch: Batch<K, V>| {
            // SAFETY: all live until the streams are waited for; nothing changes the shard.
            unsafe { Ok(self.inner.kernels.launch_sketch(&stream, &table, batch.keys, registers)?) }
        };
        // SAFETY: as above; streams that may run at the same time have different areas.
        unsafe { self.launch_parts(&stream, work, (shard, area, Use::Keys), launch, |_| {}) }
    }

    /// Rehashes shards that are too full, or in which removals have made probe sequences long.
    pub fn maintain(&mut self) -> Result<()> {
        (0..self.shards.len()).try_for_each(|shard| {
            let is_due = !self.takes(shard, 0) || self.shards[shard].needs_rehash();
            if is_due { self.grow(shard, 0) } else { Ok(()) }
        })
    }

    /// Grows a resident map for a large batch that has many new keys, as [`Self::grow_before`] does.
    pub fn grow_resident(&mut self, request: &Request<'_, K, V>) -> Result<()> {
        let many = request.keys.len();
        let is_due = !matches!(self.plan.form, Form::Sharded { .. })
            && self.grows()
            && sketch::is_worthwhile(request.op, many)
            && !self.takes(0, many);
        if !is_due {
            return Ok(());
        }
        self.allocate()?;
        self.inner.sketch.fill_bytes(0)?;
        let (table, buffer) = (self.raw_of_whole(), &self.buffers[0]);
        for range in self.chunks(many) {
            let (keys, registers) = (buffer.given(range.len()).keys, self.inner.sketch.global());
            // SAFETY: all live until the stream is waited for; nothing else uses table or chunk buffer.
            unsafe {
                buffer.upload_keys(request, &range)?;
                self.inner.kernels.launch_sketch(&buffer.stream, &table, keys.into(), registers)?;
            }
        }
        buffer.stream.synchronize()?;
        let more = sketch::raised(&self.inner.sketch.read()?, many);
        if self.takes(0, more) { Ok(()) } else { or_later(self.grow(0, more)) }
    }

    /// Replaces a shard's table by one that holds `more` more pairs. On error the shard has its pairs. A map
    /// whose tables then no longer fit the budget is divided into more shards.
    pub fn grow(&mut self, shard: usize, more: usize) -> Result<()> {
        let Shard { size, counts, .. } = self.shards[shard];
        let pairs = counts.live + more;
        let mut slots = size_for(self.inner.parameters.load_factor, pairs, size.slots, counts);
        if self.plan.form == Form::Flat && !self.config.placement.is_flat() {
            return self.grow_whole(slots);
        }
        loop {
            match self.rehashed(shard, slots) {
                Ok(Some(new)) => {
                    self.slots.forget(shard);
                    let old = std::mem::replace(&mut self.shards[shard], new);
                    self.spares.put(old.image);
                    return self.fit_slots();
                }
                Ok(None) => slots += slots / 4 + 1,
                Err(Error::DeviceBudget { .. }) if self.plan.form == Form::Resident => {
                    return self.grow_whole(slots);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns a shard with the pairs of another in at least `slots` slots, or `None` if they do not fit.
    pub fn rehashed(&mut self, shard: usize, slots: usize) -> Result<Option<Shard>> {
        let size = Size::of(&*self.inner.kernels, slots)?;
        if self.shards[shard].is_blank() {
            return Ok(Some(Shard::new(Image::Blank, size)));
        }
        let form = (self.plan.form, self.spares.source());
        let mut into = empty_image(&self.device, &self.ledger, form, size)?;
        let (copy, mut written) = (self.read_staged(shard)?, self.stage_for(&into)?);
        let image = self.shards[shard].words_at(copy.as_ref());
        let new_image = written.as_ref().map_or(into.words(), |stage| stage.global().part(0, size.words));
        let mut refused = self.device.buffer_on::<u64>(Tier::Pinned, 1)?;
        let mut sums = self.device.buffer_on::<u64>(Tier::Pinned, super::tiers::SUM_WORDS)?;
        write_pinned(&mut refused, 0);
        write_pinned(&mut sums, 0);
        let most = self.shards[shard].size.words.max(size.words);
        let is_on_device = self.slots.len() >= 2
            && most <= self.slots.words()
            && self.config.placement != Placement::AlwaysInPlace;
        let (counters, stream) = (self.places[0].counters.global(), self.places[0].stream.clone());
        let new = |memory| size.raw(memory, counters.as_ptr(), self.inner.view_parameters());
        // SAFETY: all memory lives until the stream is waited for; nothing else runs. Two slots are two
        // buffers, and both have the words of either table.
        unsafe {
            if is_on_device {
                let (from, to) = (self.slots.get(0), self.slots.get(1));
                let to = to.memory.global().part(0, size.words);
                stream.copy(from.memory.global().part(0, image.len()), image)?;
                stream.fill(to, 0xff)?;
                let (old, table) = (self.raw_in_slot(shard, 0), new(to.as_ptr()));
                self.inner.kernels.launch_rehash(&stream, &old, &table, refused.global())?;
                stream.copy(new_image, to)?;
            } else {
                let (old, table) = (self.raw_opened(shard, copy.as_ref()), new(new_image.as_ptr()));
                self.inner.kernels.launch_rehash(&stream, &old, &table, refused.global())?;
            }
            fold(&stream, counters, sums.global())?;
        }
        stream.synchronize()?;
        if is_on_device {
            self.slots.forget_all();
        }
        self.stages.put(copy);
        if pinned(&refused)[0] > 0 {
            return Ok(None);
        }
        self.write_staged(&mut into, written.as_mut())?;
        let words = pinned(&sums);
        let counts = Counts { live: words[0] as usize, taken: words[1] as usize, long: words[2] as usize };
        Ok(Some(Shard { image: into, size, counts, long: counts.long }))
    }

    /// Returns pinned memory with an empty table for an image that kernels cannot access.
    fn stage_for(&mut self, image: &Image) -> Result<Option<Buffer<u64>>> {
        let Some(image) = image.staged() else { return Ok(None) };
        let mut stage = self.stages.take(&self.device, image.len())?;
        clear(stage.as_mut_slice()?);
        Ok(Some(stage))
    }

    /// Replaces the slots by larger ones if the largest shard does not fit, and the memory suffices for the
    /// least number of them. If it does not suffice for half of the shards, divides the map into more shards,
    /// unless they have ranges of keys. Otherwise shards that do not fit are served in place.
    fn fit_slots(&mut self) -> Result<()> {
        let mut sizes: Vec<usize> = self.shards.iter().map(|shard| shard.size.words).collect();
        sizes.sort_unstable();
        let (median, largest) = (sizes[sizes.len() / 2], sizes[sizes.len() - 1]);
        if largest <= self.slots.words() || !matches!(self.plan.form, Form::Sharded { .. }) {
            return Ok(());
        }
        if self.hot.byte_len() > 0 && self.plan.hot.most > 0 {
            self.take_from_hot_pairs()?;
        }
        let all = self.slots.len() * (self.slots.words() + COUNTER_WORDS);
        let most = all / (DEPTH - 1) - COUNTER_WORDS.min(all / (DEPTH - 1));
        if median > most && self.inner.ranges.is_none() {
            let slots = self.shards.iter().map(|shard| shard.size.slots).sum();
            return or_later(self.repartition(slots));
        }
        if largest > most {
            return Ok(());
        }
        let many = (all / (largest + COUNTER_WORDS)).min(self.shards.len().max(DEPTH - 1));
        self.slots = Slots::default();
        // Without slots the map works in place, and the next growth tries again.
        or_later(Slots::new(&self.ledger, &self.device, many, largest).map(|slots| self.slots = slots))
    }
}

/// Returns a few elements of a shard, if the batch has any.
fn sample_of<K: Word, V: Word>(work: &Work<Batch<K, V>>, shard: usize) -> Option<Batch<K, V>> {
    work.parts_of(shard).next().map(|(_, batch)| batch.part(0, SAMPLE))
}

/// Returns the indices of the refused elements.
fn refused_of(outcomes: &[u8]) -> Vec<usize> {
    let is_refused = |&place: &usize| outcomes[place] == Outcome::Refused as u8;
    (0..outcomes.len()).filter(is_refused).collect()
}

/// Returns the error of a batch that failed, of `len` elements.
pub fn interrupted(op: BatchOp, len: usize, Failure { source, done }: Failure) -> Error {
    let is_partial = op.writes() && done.len() == len && done.iter().any(|&is_done| is_done);
    if is_partial { Error::Interrupted { done, source } } else { *source }
}

/// Elements that are tried again.
pub struct Again<K, V> {
    pub codes: Vec<u8>,
    pub keys: Vec<K>,
    pub arguments: Vec<V>,
    pub results: Vec<V>,
    pub outcomes: Vec<u8>,
}

impl<K: Word, V: Word> Again<K, V> {
    fn new(request: &Request<'_, K, V>, places: &[usize]) -> Self {
        Self {
            codes: pick(request.codes, places),
            keys: pick(request.keys, places),
            arguments: pick(request.arguments, places),
            results: pick(request.results, places),
            outcomes: pick(request.outcomes, places),
        }
    }

    pub fn request(&mut self, op: BatchOp) -> Request<'_, K, V> {
        let Self { codes, keys, arguments, results, outcomes } = self;
        Request { codes, arguments, results, ..Request::new(op, keys, outcomes) }
    }

    /// Stores the results at their indices in the whole batch.
    fn put(&self, request: &mut Request<'_, K, V>, places: &[usize]) {
        for (&place, &outcome) in places.iter().zip(&self.outcomes) {
            request.outcomes[place] = outcome;
        }
        for (&place, &value) in places.iter().zip(&self.results) {
            request.results[place] = value;
        }
    }

    /// Returns the error of the whole batch if these elements failed: all others are done, and some of these.
    fn interrupted(
        &self,
        request: &Request<'_, K, V>,
        (places, done): (&[usize], &[bool]),
        source: Error,
    ) -> Error {
        let mut all = vec![true; request.keys.len()];
        for (index, &place) in places.iter().enumerate() {
            all[place] = done.get(index).copied().unwrap_or(false);
        }
        interrupted(request.op, all.len(), Failure::new(source, all))
    }
}

/// Returns the elements at `places`, or nothing of an empty slice.
fn pick<T: Copy>(slice: &[T], places: &[usize]) -> Vec<T> {
    if slice.is_empty() { Vec::new() } else { places.iter().map(|&place| slice[place]).collect() }
}
