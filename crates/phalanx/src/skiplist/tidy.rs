//! Putting a list in order: nodes that have merged are given back, and the index layers made anew.
use super::engine::{Engine, Nodes, Tidy};
use crate::btree::trees::{Memory, Trees};
use crate::map::counts::Counts;
use crate::map::launch::nothing;
use crate::map::owner::Memory as _;
use crate::primitives::{Bits, Workspace, sort_bytes};
use crate::{Key, Result, Value};
use gpu::{Buffer, Stream};
use phalanx_kernels::skiplist::Layout;

/// Slabs that every list has beside data nodes and index: the root, which is of the index, and the leaf of one key.
const OTHERS: usize = 2;

/// What is needed besides, all of it before anything is changed.
struct Plan<K: Key> {
    lows: Buffer<K>,
    handles: Buffer<u32>,
    slabs: Buffer<u32>,
    layout: Layout,
}

impl<K: Key> Plan<K> {
    /// Finds the data nodes that stay, and sorts them.
    fn new<V: Value>(
        engine: &dyn Engine<K, V>,
        stream: &Stream,
        memory: &Memory,
        slots: u32,
    ) -> Result<Self> {
        let (device, count) = (stream.device(), stream.device().zeroed::<u64>(1)?);
        let gather = |nodes: Nodes<K>| {
            let step = Tidy::Gather { nodes, count: count.slice() };
            // SAFETY: the lock keeps other launches out, and those asked for before have ended; the slices outlive this call.
            unsafe { engine.tidy(stream, memory.parts(), step) }
        };
        gather(Nodes { lows: nothing(), handles: nothing() })?;
        let nodes = count.read()?[0] as usize;
        let (mut lows, mut handles) = (device.buffer::<K>(nodes)?, device.buffer::<u32>(nodes)?);
        let mut work = Workspace::new(stream, sort_bytes::<K, u32>(nodes))?;
        device.synchronize()?;
        let mut count = count;
        count.fill_bytes(0)?;
        let step = Tidy::Gather {
            nodes: Nodes { lows: lows.slice(), handles: handles.slice() },
            count: count.slice(),
        };
        // SAFETY: as above.
        unsafe { engine.tidy(stream, memory.parts(), step)? };
        work.sort_pairs_in_place(&mut lows, &mut handles, Bits::ALL)?;
        let free = memory.pool.capacity().saturating_sub(nodes + OTHERS);
        let layout = Layout::within(nodes as u64, u64::from(slots * 7 / 10).max(2), free as u64);
        let slabs = device.buffer::<u32>(layout.slabs() as usize)?;
        Ok(Self { lows, handles, slabs, layout })
    }

    fn nodes(&self) -> Nodes<K> {
        Nodes { lows: self.lows.slice(), handles: self.handles.slice() }
    }

    /// The steps that change the list.
    fn steps(&self, count: &Buffer<u64>) -> [Tidy<K>; 4] {
        let (nodes, slabs) = (self.nodes(), self.slabs.slice());
        let claim = Tidy::Claim { slabs, count: count.slice() };
        [Tidy::Sweep, Tidy::Relink { nodes }, claim, Tidy::Index { nodes, slabs, layout: self.layout }]
    }
}

/// Puts a list in order. Gives how many slabs were free before and are now. Where this fails for want of memory, the list is as it was.
pub fn tidy<K: Key, V: Value>(trees: &Trees<K, V, dyn Engine<K, V>>) -> Result<(usize, usize)> {
    let slots = trees.owner.engine.shape().slots;
    trees.owner.alone(|engine, stream, memory| {
        let before = memory.pool.stats()?.free;
        let plan = Plan::new(engine, stream, memory, slots)?;
        let count = stream.device().zeroed::<u64>(1)?;
        for step in plan.steps(&count) {
            // SAFETY: as in `Plan::new`.
            unsafe { engine.tidy(stream, memory.parts(), step)? };
        }
        stream.device().synchronize()?;
        let counts = memory.counts()?;
        Counts { long: 0, ..counts }.write(&mut memory.tallies)?;
        memory.directory.forgotten(counts.live as u64);
        memory.age += 1;
        Ok((before, memory.pool.stats()?.free))
    })
}
