//! All pairs of a map, on the host.
use super::engine::Launch;
use super::{HashMap, Key, Value};
use crate::Result;
use gpu::Buffer;
use phalanx_kernels::probing::Scalar;

/// Slots that are exported at a time: what bounds the device memory that an export needs, at 64 MiB.
const SLOTS: usize = 1 << 22;

impl<K: Key, V: Value> HashMap<K, V> {
    /// All pairs as they are now, copied to the host before the first is given, in no order.
    ///
    /// # Errors
    /// The device's.
    pub fn iter(&self) -> Result<impl Iterator<Item = (K, V)> + use<K, V>> {
        let (keys, values) = self.export()?;
        Ok(keys.into_iter().zip(values))
    }

    /// All keys and, at the same places, their values, in no order. Needs 64 MiB of device memory at most.
    ///
    /// # Errors
    /// The device's.
    #[doc(alias = "retrieve_all")]
    pub fn export(&self) -> Result<(Vec<K>, Vec<V>)> {
        self.export_by(SLOTS)
    }

    /// Exports so many slots at a time, all under one lock: the pairs are those of one moment.
    fn export_by(&self, slots: usize) -> Result<(Vec<K>, Vec<V>)> {
        let table = self.write();
        let slots = slots.min(table.positions());
        let (keys, values) = (self.device.buffer(slots)?, self.device.buffer(slots)?);
        let mut part = Part { keys, values, count: self.device.zeroed(1)? };
        let live = table.counts()?.live;
        let (mut keys, mut values) = (Vec::with_capacity(live), Vec::with_capacity(live));
        for first in (0..table.positions()).step_by(slots) {
            part.count.fill_bytes(0)?;
            self.launch_on(&table, part.launch(first))?;
            let found = part.count.read()?[0] as usize;
            append(&mut keys, &part.keys, found)?;
            append(&mut values, &part.values, found)?;
        }
        Ok((keys, values))
    }
}

/// Room for the pairs of some slots.
struct Part<K, V> {
    keys: Buffer<K>,
    values: Buffer<V>,
    count: Buffer<u64>,
}

impl<K: Key, V: Value> Part<K, V> {
    fn launch(&self, first: usize) -> Launch<K, V> {
        let (keys, values, count) = (self.keys.slice(), self.values.slice(), self.count.slice());
        Launch::Export { first: first as u64, keys, values, count }
    }
}

/// Appends the first `count` elements of a buffer.
fn append<T: Scalar>(to: &mut Vec<T>, from: &Buffer<T>, count: usize) -> Result<()> {
    let len = to.len();
    to.resize(len + count, T::from_u64(0));
    Ok(from.read_into(0, &mut to[len..])?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpu::Device;
    use std::collections::BTreeMap;

    #[test]
    fn parts_of_any_size_make_the_whole() {
        let device = Device::emulator(Default::default());
        let map = HashMap::<u32, u64>::builder().device(&device).capacity(200).build().unwrap();
        let keys: Vec<u32> = (0..150).map(|n| if n < 4 { u32::MAX - n } else { n * 7 }).collect();
        let values: Vec<u64> = keys.iter().map(|&key| u64::from(key) << 20).collect();
        map.insert(&keys, &values).unwrap();
        let expected: BTreeMap<_, _> = keys.into_iter().zip(values).collect();
        for slots in [1, 33, 256, usize::MAX] {
            let (keys, values) = map.export_by(slots).unwrap();
            assert_eq!(keys.len(), expected.len(), "{slots} slots at a time");
            assert_eq!(keys.into_iter().zip(values).collect::<BTreeMap<_, _>>(), expected);
        }
    }
}
