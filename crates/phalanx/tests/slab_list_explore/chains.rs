//! Memory of lists: one bucket, its overflow bucket, and a pool with all but three slabs allocated.
use crate::common::Rng;
use crate::world::{Finding, Fixture, HasFixture, counted};
use gpu::{Buffer, Device};
use phalanx_kernels::keyed::{COUNTER_SHARDS, SHARD_WORDS, Scalar, Slot};
use phalanx_kernels::slab::list::{Lists, ListsView, Node};
use phalanx_kernels::slab::{Bitmaps, Handle, MOST_SUPER_BLOCKS, Pool, Supers};
use simt::Global;
use std::collections::{HashMap, HashSet};

/// Number of slabs in the pool.
const UNITS: usize = 32;
/// Number of free slabs.
pub const FREE: usize = 3;

/// Buffers of lists.
pub struct Chains {
    heads: Buffer<u64>,
    slabs: Buffer<u64>,
    bases: Buffer<u64>,
    live: Buffer<u32>,
    retired: Buffer<u32>,
    faults: Buffer<u64>,
    pub counters: Buffer<u64>,
}

impl Chains {
    fn new(device: &Device, slab_bytes: usize, buckets: u32) -> gpu::Result<Self> {
        let words = Bitmaps::words_for(UNITS);
        let slabs = device.filled::<u64>(UNITS * slab_bytes / 8, 0xff)?;
        let mut bases = vec![0; MOST_SUPER_BLOCKS + 1];
        bases[0] = slabs.pointer().expose_provenance() as u64;
        let mut live = vec![u32::MAX; words];
        live[0] = u32::MAX >> FREE;
        Ok(Self {
            heads: device.filled((buckets as usize + 1) * slab_bytes / 8, 0xff)?,
            slabs,
            bases: device.from_slice(&bases)?,
            live: device.from_slice(&live)?,
            retired: device.zeroed(words)?,
            faults: device.zeroed(1)?,
            counters: device.zeroed(COUNTER_SHARDS * SHARD_WORDS)?,
        })
    }

    fn pool<P: Pool>(&self) -> P {
        let (live, retired, faults) = (self.live.pointer(), self.retired.pointer(), self.faults.pointer());
        let supers = Supers { first: self.slabs.pointer(), joined: 1, table: self.bases.pointer() };
        // SAFETY: the memory has the right sizes and outlives every launch here; a super block has 2^5 slabs.
        unsafe { P::from_parts(Bitmaps::new(live, retired, faults, UNITS as u32), supers, 5) }
    }

    /// Returns the number of allocated slabs.
    fn live(&self) -> usize {
        let words = self.live.read().expect("memory");
        words[0].count_ones() as usize - (UNITS - FREE)
    }
}

/// Returns the words of a node's slots in the order in which they are filled, and its link.
fn contents<S: Slot, const W: u32, const L: usize>(words: &[u64]) -> (Vec<S::Word>, Handle) {
    let bytes: &[u8] = bytemuck::cast_slice(words);
    let start = words.as_ptr() as usize;
    // SAFETY: the node is only used to compute addresses, and nothing is accessed.
    let node = unsafe { Node::<S, W, L>::at(Global::new(words.as_ptr().cast_mut())) };
    let slot = |position| {
        let place = node.slot(position).as_ptr() as usize - start;
        bytemuck::pod_read_unaligned(&bytes[place..place + size_of::<S::Word>()])
    };
    let link = bytemuck::pod_read_unaligned(&bytes[bytes.len() - 4..]);
    ((0..Node::<S, W, L>::SLOTS).map(slot).collect(), Handle::from_word(link))
}

/// Returns the words of a list's slots in order. Checks that its slabs are live and in no other list, and
/// that empty slots are only at its end.
fn list_with<S: Slot, P: Pool, const W: u32, const L: usize>(
    chains: &Chains,
    bucket: u32,
    seen: &mut HashSet<u32>,
) -> Result<Vec<S::Word>, Finding> {
    let words = P::BYTES / 8;
    let (heads, slabs) = (chains.heads.read().expect("memory"), chains.slabs.read().expect("memory"));
    let pool = chains.pool::<P>();
    let is_free = |number: &u32| *number as usize >= UNITS - FREE;
    let is_live = |number: &u32| chains.live.read().expect("memory")[0] >> number & 1 != 0;
    let mut node = &heads[bucket as usize * words..][..words];
    let mut list = Vec::new();
    loop {
        let (slots, link) = contents::<S, W, L>(node);
        list.extend(slots);
        let Some(link) = link.some() else { break };
        let number = pool.number(link).filter(is_free).filter(is_live).ok_or(Finding::Link(bucket))?;
        if !seen.insert(number) {
            return Err(Finding::Link(bucket));
        }
        node = &slabs[number as usize * words..][..words];
    }
    let taken = list.iter().take_while(|&&word| !S::is_empty(word)).count();
    match list[taken..].iter().all(|&word| S::is_empty(word)) {
        true => Ok(list),
        false => Err(Finding::Gap(bucket)),
    }
}

/// Returns the pairs of all lists, in list order. Checks the layout and the counters.
pub fn contents_of<S: Slot, P: Pool, const W: u32, const L: usize>(
    chains: &Chains,
    buckets: u32,
) -> Result<Vec<(u64, u64)>, Finding> {
    let top = S::key(S::EMPTY).to_u64();
    let (mut seen, mut pairs) = (HashSet::new(), Vec::new());
    for bucket in 0..=buckets {
        for word in
            list_with::<S, P, W, L>(chains, bucket, &mut seen)?.into_iter().filter(|&word| S::is_live(word))
        {
            let stored = S::key(word).to_u64();
            let key = if bucket == buckets { top - stored } else { stored };
            pairs.push((key, S::value(word).to_u64()));
        }
    }
    let (live, reached) = (chains.live(), seen.len());
    if live != reached {
        return Err(Finding::Slabs { live, reached });
    }
    counted(&chains.counters, pairs.len(), pairs)
}

impl<S: Slot, P: Pool, const W: u32, const L: usize> HasFixture for Lists<S, P, W, L> {
    type Memory = Chains;

    const TAKES_MISS_CHANGES: bool = true;

    /// The list initially has up to three slabs, and the last one is nearly full.
    fn crowd(rng: &mut Rng) -> Fixture {
        let slots = u64::from(Node::<S, W, L>::SLOTS);
        let nodes = rng.pick(&[1, 1, 2, 3, 4]);
        let room = rng.pick(&[0, 0, 1, 2, 3, slots]);
        Fixture { buckets: 1, fill: nodes * slots - room, news: rng.pick(&[1, 2, 4, 8]) }
    }

    fn memory(device: &Device, buckets: u32) -> gpu::Result<Chains> {
        Chains::new(device, P::BYTES, buckets)
    }

    fn copy(to: &mut Chains, from: &Chains) -> gpu::Result<()> {
        to.heads.write(&from.heads.read()?)?;
        to.slabs.write(&from.slabs.read()?)?;
        to.live.write(&from.live.read()?)?;
        to.counters.write(&from.counters.read()?)
    }

    fn view(memory: &Chains, buckets: u32) -> ListsView<Self> {
        // SAFETY: the memory has the right sizes and initial contents, and outlives every launch here.
        unsafe { ListsView::new(memory.heads.pointer(), memory.counters.pointer(), memory.pool(), buckets) }
    }

    fn contents(memory: &Chains, buckets: u32) -> Result<HashMap<u64, u64>, Finding> {
        let pairs = contents_of::<S, P, W, L>(memory, buckets)?;
        let mut map = HashMap::new();
        match pairs.into_iter().find(|&(key, value)| map.insert(key, value).is_some()) {
            Some((key, _)) => Err(Finding::Twice(key)),
            None => Ok(map),
        }
    }
}
