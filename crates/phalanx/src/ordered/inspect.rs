//! Checks and measurements of a B-tree or skip list.
use super::kernels::Task;
use super::tree::Tree;
use crate::map::batches::keys_of;
use crate::map::encoding::Word;
use crate::{Error, Result};
use gpu::AsSlice;

/// Result of [`Tree::examine`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Examined {
    /// Pairs in leaves.
    pub pairs: u64,
    /// Levels, including the leaf level.
    pub depth: u32,
    /// Inner nodes.
    pub inner: u64,
    /// Old versions of leaves that are not freed.
    pub versions: u64,
}

/// Nodes read by descents to keys: see [`BTree::walks`](crate::BTree::walks).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walks {
    /// Number of keys.
    pub keys: u64,
    /// Nodes read per level, leaves first. The last element counts all levels from the sixth up.
    pub nodes: Vec<u64>,
    /// Right links followed, to nodes that were split off after the node that led there was read.
    pub links: u64,
}

impl<K: Word, V: Word> Tree<K, V> {
    /// Counts the nodes read by descents to keys: see [`BTree::walks`](crate::BTree::walks).
    pub fn walks(&self, keys: impl AsSlice<K>) -> Result<Walks> {
        let keys = keys_of(&self.handle.device, keys)?;
        let reads = self.handle.device.zeroed::<u64>(8)?;
        let stream = self.handle.device.default_stream();
        self.task(&stream, Task::CountReads { keys, reads: reads.global() })?;
        let mut nodes = reads.read()?;
        let links = nodes.pop().unwrap_or(0);
        Ok(Walks { keys: keys.len() as u64, nodes, links })
    }

    /// Checks all nodes: see [`BTree::validate`](crate::BTree::validate).
    pub fn examine(&self) -> Result<Examined> {
        let report = self.handle.device.zeroed::<u64>(11)?;
        let task = Task::Examine { report: report.global() };
        let (stats, pairs) = self.handle.exclusive(|stream, memory| {
            // SAFETY: the lock excludes other launches, and all earlier ones have ended. The slice outlives
            // this call.
            unsafe { self.handle.kernels().launch_task(stream, memory.now(), task)? };
            stream.synchronize()?;
            Ok((memory.pool.stats()?, memory.counts()?.live as u64))
        })?;
        let found = report.read()?;
        let (versions, undated) = (found[9], found[10]);
        let live = ((stats.live + stats.retired) as u64).saturating_sub(versions);
        let problems = [
            (undated != 0, format!("{undated} leaves have no timestamp")),
            (found[0] != live, format!("{live} slabs are live, but {} are nodes", found[0])),
            (found[1] + 2 != live, format!("{live} nodes are live, but {} of them are reachable", found[1])),
            (found[2] != 0, format!("{} nodes are latched", found[2])),
            (found[3] != 0, format!("{} pairs are in the wrong place", found[3])),
            (found[4] != 0, format!("{} children do not match their parents' entries", found[4])),
            (found[5] != 0, format!("{} links do not lead to the next node", found[5])),
            (found[6] != pairs, format!("{pairs} pairs are counted, but {} are in leaves", found[6])),
        ];
        match problems.into_iter().find(|(is, _)| *is) {
            Some((_, problem)) => Err(Error::Invalid(problem)),
            None => Ok(Examined { pairs, depth: found[7] as u32, inner: found[8], versions }),
        }
    }
}
