//! The clock of a tree, for tests.
use super::MultiVersionBTree;
use crate::ordered::history::History;
use crate::{Key, Result, Value};

/// Sets the clock of a tree without snapshots as if `stamp` snapshots had been taken.
pub fn begin_at<K: Key, V: Value>(tree: &MultiVersionBTree<K, V>, stamp: u32) -> Result<()> {
    let begin = |history: &mut History| history.begin_at(stamp);
    tree.tree.handle.exclusive(|_, memory| memory.history.as_mut().map_or(Ok(()), begin))
}
