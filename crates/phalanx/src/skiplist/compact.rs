//! Compaction of a list: frees nodes that have merged or have no pairs left, and rebuilds the index layers.
use super::kernels::{CompactStep, Kernels, Nodes};
use crate::Result;
use crate::map::counts::Counts;
use crate::map::encoding::Word;
use crate::map::launch::nothing;
use crate::ordered::memory::Memory;
use crate::ordered::tree::Tree;
use crate::primitives::{Bits, Workspace, sort_bytes};
use gpu::{Buffer, Stream};
use phalanx_kernels::skiplist::Layout;

/// Slabs that every list has besides data nodes and index: the root, which belongs to the index, and the
/// overflow leaf of the reserved key.
const OTHERS: usize = 2;

/// Exclusive access to a list, and the means to launch on it.
#[derive(Clone, Copy)]
struct Exclusive<'a, K, V> {
    kernels: &'a dyn Kernels<K, V>,
    stream: &'a Stream,
    memory: &'a Memory,
}

impl<K: Word, V: Word> Exclusive<'_, K, V> {
    fn launch(self, step: CompactStep<K>) -> Result<()> {
        // SAFETY: the handle's lock excludes other launches, and all earlier ones have ended. The slices'
        // buffers wait for the launch when they are dropped.
        unsafe { self.kernels.launch_compaction(self.stream, self.memory.now(), step)? };
        Ok(())
    }

    /// Counts the data nodes that stay, and lists as many as `nodes` has elements for.
    fn gather(self, nodes: Nodes<K>) -> Result<usize> {
        let count = self.stream.device().zeroed::<u64>(1)?;
        self.launch(CompactStep::Gather { nodes, count: count.global() })?;
        Ok(count.read()?[0] as usize)
    }

    /// Returns the index layout for `nodes` data nodes, and the number of slabs that are free once it is
    /// built.
    fn layout(self, nodes: usize) -> (Layout, usize) {
        let slots = self.kernels.shape().slots;
        let free = self.memory.pool.capacity().saturating_sub(nodes + OTHERS);
        let layout = Layout::within(nodes as u64, u64::from(slots * 7 / 10).max(2), free as u64);
        (layout, free - layout.slabs() as usize)
    }
}

/// Memory for a compaction, all of which is allocated before anything is changed.
struct Plan<K: Word> {
    lows: Buffer<K>,
    handles: Buffer<u32>,
    slabs: Buffer<u32>,
    counts: Buffer<u64>,
    layout: Layout,
}

impl<K: Word> Plan<K> {
    /// Lists the data nodes that stay, and sorts them.
    fn new<V: Word>(list: Exclusive<'_, K, V>, layout: Layout) -> Result<Self> {
        let (device, nodes) = (list.stream.device(), layout.nodes as usize);
        let (mut lows, mut handles) = (device.buffer::<K>(nodes)?, device.buffer::<u32>(nodes)?);
        let mut work = Workspace::new(list.stream, sort_bytes::<K, u32>(nodes))?;
        list.gather(Nodes { lows: lows.global(), handles: handles.global() })?;
        work.sort_pairs_in_place(&mut lows, &mut handles, Bits::ALL)?;
        let (slabs, counts) = (device.buffer::<u32>(layout.slabs() as usize)?, device.zeroed(3)?);
        Ok(Self { lows, handles, slabs, counts, layout })
    }

    /// Returns the steps that change the list.
    fn steps(&self) -> [CompactStep<K>; 5] {
        let nodes = Nodes { lows: self.lows.global(), handles: self.handles.global() };
        let (slabs, counts, layout) = (self.slabs.global(), self.counts.global(), self.layout);
        let claim = |anywhere| CompactStep::Claim { slabs, counts, layout, anywhere };
        let index = CompactStep::Index { nodes, slabs, layout };
        [CompactStep::Sweep, CompactStep::Relink { nodes }, claim(false), claim(true), index]
    }
}

/// Compacts a list if that frees at least `least` slabs. Returns the number of freed slabs. If there is no
/// memory for it, the list is unchanged.
pub fn compact<K: Word, V: Word>(
    tree: &Tree<K, V>,
    kernels: &dyn Kernels<K, V>,
    least: usize,
) -> Result<usize> {
    tree.handle.exclusive(|stream, memory| {
        let before = memory.pool.stats()?.free;
        let list = Exclusive { kernels, stream, memory };
        let (layout, after) = list.layout(list.gather(Nodes { lows: nothing(), handles: nothing() })?);
        if after.saturating_sub(before) < least {
            return Ok(0);
        }
        let plan = Plan::new(list, layout)?;
        plan.steps().into_iter().try_for_each(|step| list.launch(step))?;
        stream.device().synchronize()?;
        let counts = memory.counts()?;
        Counts { long: 0, ..counts }.write(&mut memory.counters)?;
        memory.directory.forgotten(counts.live as u64);
        memory.generation += 1;
        Ok(memory.pool.stats()?.free.saturating_sub(before))
    })
}
