//! Where the operations on a shard are executed.

/// Policy of where a [`TieredMap`](super::TieredMap) executes the operations of a batch on a shard.
///
/// ```
/// use phalanx::TieredMap;
/// use phalanx::tiered_map::Placement;
///
/// let builder = TieredMap::<u32, u32>::builder().capacity(1000).shards(4).placement(Placement::AlwaysCopy);
/// let budget = builder.min_budget()?;
/// let map = builder.budget(budget).build()?;
/// assert!(map.insert(&[1, 2], &[10, 20])?.all_placed());
/// assert!(map.traffic().copied_out > 0 && map.traffic().in_place == 0);
/// assert!(Placement::Remote.is_flat() && !Placement::ByCost.is_flat());
/// # Ok::<(), phalanx::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Placement {
    /// Copies a shard to the device if the batch has so many operations on it that they would take longer in
    /// place than the copy ([`Costs`]); otherwise executes them in place, over the bus.
    #[default]
    ByCost,
    /// Copies each shard of which the batch has a key.
    AlwaysCopy,
    /// Executes all operations in place.
    AlwaysInPlace,
    /// A baseline: one table in pinned host memory, without shards. All operations are executed in place, in
    /// the order of the batch.
    Remote,
    /// A baseline: one table in managed memory, which migrates page by page. Building such a map fails if the
    /// device has less free memory than the table.
    Managed,
}

impl Placement {
    /// Returns whether the map is one table that is not partitioned.
    pub fn is_flat(self) -> bool {
        matches!(self, Self::Remote | Self::Managed)
    }
}

/// Costs by which [`Placement::ByCost`] decides.
///
/// ```
/// let costs = phalanx::tiered_map::Costs::default();
/// assert!(costs.copy_ns(1 << 20) > 0.0 && costs.in_place_ns(10, true) > costs.in_place_ns(10, false));
/// // Lookups in a shard of 1 MiB, which is not on the device yet.
/// let brings = |lookups| costs.brings(lookups, 1 << 20, (false, false));
/// assert!(brings(20_000) && !brings(2_000));
/// // 100 lookups in some of 256 shards.
/// let costs = phalanx::tiered_map::Costs { shard_ns: 4000.0, ..costs };
/// assert!(costs.scatters((100, 256), false) && !costs.scatters((1 << 20, 256), false));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// Time of a lookup in place, in ns, if the batch is sorted.
    pub access_ns: f64,
    /// Ratio of the time of an operation that writes to that of a lookup.
    pub write_ratio: f64,
    /// Rate of copies in one direction, in bytes per ns.
    pub copy_rate: f64,
    /// Time, in ns, that it takes to use a shard in a slot. Fewer lookups are executed in place, even if a
    /// slot has the shard.
    pub slot_ns: f64,
    /// Time, in ns, that it takes to submit the operations on a shard. If this, for all shards of a batch, is
    /// more than its operations take in place, they are executed so as they come, by one kernel: the batch is
    /// not sorted by shard.
    pub shard_ns: f64,
}

impl Default for Costs {
    /// Returns the costs of an H200 at a bus of PCIe 5. Slots take no time, so lookups use them whenever they
    /// have the shard, and neither do shards, so all batches are sorted.
    fn default() -> Self {
        Self { access_ns: 10.0, write_ratio: 2.0, copy_rate: 50.0, slot_ns: 0.0, shard_ns: 0.0 }
    }
}

impl Costs {
    /// Returns the time of a copy, in ns.
    pub fn copy_ns(&self, bytes: usize) -> f64 {
        bytes as f64 / self.copy_rate
    }

    /// Returns the time of operations in place, in ns.
    pub fn in_place_ns(&self, operations: usize, writes: bool) -> f64 {
        operations as f64 * self.access_ns * if writes { self.write_ratio } else { 1.0 }
    }

    /// Returns whether a shard of `bytes` bytes is brought to the device. Copies of both directions overlap,
    /// so the write-back of a shard that must be brought anyway costs nothing more.
    pub fn brings(&self, operations: usize, bytes: usize, (writes, is_there): (bool, bool)) -> bool {
        let ns = if is_there && !writes { self.slot_ns } else { self.copy_ns(bytes) };
        self.in_place_ns(operations, writes) > ns
    }

    /// Returns whether so many operations on so many shards are executed in place as they come.
    pub fn scatters(&self, (operations, shards): (usize, usize), writes: bool) -> bool {
        let submitted = self.shard_ns * shards.min(operations) as f64;
        submitted > UNSORTED * self.in_place_ns(operations, writes)
    }
}

/// Ratio of the time of an operation in place to that of one in the order of the buckets.
const UNSORTED: f64 = 2.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_operations_bring_a_shard() {
        let costs = Costs { access_ns: 10.0, write_ratio: 2.0, ..Costs::default() };
        let bytes = 8 << 20; // 168 us, which is 16 777 lookups
        assert!(costs.brings(17_000, bytes, (false, false)) && !costs.brings(16_000, bytes, (false, false)));
        assert!(costs.brings(8_500, bytes, (true, false)) && !costs.brings(8_000, bytes, (true, true)));
        assert!(costs.brings(1, bytes, (false, true)), "it is there");
        assert!(!costs.brings(0, bytes, (false, true)), "nothing to do");
        let costs = Costs { slot_ns: 1000.0, ..costs };
        assert!(costs.brings(101, bytes, (false, true)) && !costs.brings(100, bytes, (false, true)));
        assert!(costs.brings(8_500, bytes, (true, true)), "a write-back costs as much as before");
    }

    #[test]
    fn few_operations_are_not_sorted() {
        let costs = Costs { access_ns: 10.0, write_ratio: 2.0, shard_ns: 4000.0, ..Costs::default() };
        assert!(costs.scatters((1, 1), true), "one operation");
        // 1 ms for 256 shards.
        assert!(costs.scatters((51_000, 256), false) && !costs.scatters((52_000, 256), false));
        assert!(costs.scatters((25_000, 256), true) && !costs.scatters((26_000, 256), true));
        assert!(!costs.scatters((0, 256), false), "nothing to do");
        assert!(!Costs::default().scatters((1, 256), false), "shards take no time");
    }
}
