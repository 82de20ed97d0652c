//! The sweep: finds the versions that a live snapshot can read, unlinks all others and frees them. It
//! requires exclusive access to the tree.
//!
//! ```text
//! 1. mark      every version is marked as retired
//! 2. sweep     from each leaf through its versions: needed ones lose their mark, the others are unlinked
//! 3. clear     slabs that are still marked are made blank; then the pool reclaims them
//! ```
//!
//! A version may be linked behind several leaves, and one may need it while another does not. So none is
//! freed before all leaves have been processed.
use super::version::Version;
use crate::keyed::Slot;
use crate::ordered::meta::Meta;
use crate::ordered::node::Node;
use crate::ordered::nodes::Nodes;
use crate::ordered::types::{Types, VersionsOf};
use crate::ordered::versioning::Versions;
use crate::slab::{Handle, Pool};
use simt::{GlobalSlice, Order, Scope, device};

impl Version {
    /// Whether one of the snapshots reads this version, if the next newer version has the stamp `newer`.
    #[device(caller)]
    fn is_seen(self, newer: u32, pins: GlobalSlice<u32>) -> bool {
        let (mut seen, mut index) = (false, 0);
        while index < pins.len() {
            let pin = pins.read(index);
            seen |= pin < newer && self.stamp().is_some_and(|stamp| stamp <= pin);
            index += 1;
        }
        seen
    }
}

#[device(caller)]
impl<T: Types, const W: u32, const L: usize> Nodes<T, W, L> {
    /// Returns the node and the meta of slab `number`, if it is live and there are versions.
    fn meta_of(self, number: u32) -> Option<(Node<T::Slot, W, L>, Meta)> {
        let pool = self.pool;
        if !VersionsOf::<T>::VERSIONED || number as usize >= pool.units() || !pool.bitmaps().is_live(number) {
            return None;
        }
        let node = self.node(pool.handle(number));
        let header = node.header().load(Order::Relaxed, Scope::Device);
        Some((node, Meta::read(T::Slot::value(header))))
    }

    /// Marks slab `number` as retired, if it is a version.
    pub(crate) fn mark_version(self, number: u32) {
        if self.meta_of(number).is_some_and(|(_, meta)| meta.is_old()) {
            self.pool.bitmaps().mark(number, true);
        }
    }

    /// Processes the versions of slab `number`, if it is a leaf, for snapshots with the stamps `pins`.
    pub(crate) fn sweep(self, number: u32, pins: GlobalSlice<u32>) {
        let Some((mut newer, _)) = self.meta_of(number).filter(|(_, meta)| meta.is_leaf()) else { return };
        let mut version = self.version_of(newer);
        if pins.is_empty() {
            // No snapshot reads the past: the leaf is reset as if there were no versions, and the host may
            // restart the clock.
            return self.reset_version(newer, version);
        }
        let mut next = version.old;
        while let (Some(old), Some(stamp)) = (next.some(), version.stamp()) {
            // Slabs beyond the last version that a snapshot can read may have been freed.
            if !Version::FIRST.is_seen(stamp, pins) {
                break;
            }
            let found = self.version_of(self.node(old));
            if found.is_seen(stamp, pins) {
                self.relink(newer, version, old);
                self.pool.number(old).into_iter().for_each(|number| self.pool.bitmaps().mark(number, false));
                (newer, version) = (self.node(old), found);
            }
            next = found.old;
        }
        self.relink(newer, version, Handle::NONE);
    }

    fn version_of(self, node: Node<T::Slot, W, L>) -> Version {
        Version::of::<T::Slot>(node.version().load(Order::Relaxed, Scope::Device))
    }

    /// Sets the previous version of a version. Several leaves may do so for a version that they share; they
    /// store the same.
    fn relink(self, newer: Node<T::Slot, W, L>, version: Version, old: Handle) {
        if version.old != old {
            let word = version.before(old).word::<T::Slot>();
            newer.version().store(word, Order::Relaxed, Scope::Device);
        }
    }

    fn reset_version(self, leaf: Node<T::Slot, W, L>, version: Version) {
        if version != Version::FIRST {
            leaf.version().store(Version::FIRST.word::<T::Slot>(), Order::Relaxed, Scope::Device);
        }
    }

    /// Makes slab `number` blank, if it is marked as retired, by the calling lane alone.
    pub(crate) fn clear_marked(self, number: u32) {
        let pool = self.pool;
        if number as usize >= pool.units() || !pool.bitmaps().is_marked(number) {
            return;
        }
        let node = self.node(pool.handle(number));
        let mut position = 0;
        while position < W * L as u32 {
            node.word(position).store(T::Slot::EMPTY, Order::Relaxed, Scope::Device);
            position += 1;
        }
    }
}
