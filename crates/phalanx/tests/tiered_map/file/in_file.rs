//! The maps of [`crate::model`] in files of the kind of the parent module.
use super::STORAGE;
pub use crate::model::*;
use gpu::Device;
use phalanx::tiered_map::Builder;
use phalanx::{Key, TieredMap, Value};

pub fn small<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    crate::model::small(device).storage(STORAGE(path()))
}

pub fn divided<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    small(device).shards(4)
}

pub fn growing<K: Key, V: Value>(device: &Device) -> Builder<K, V> {
    divided(device).capacity(200)
}

pub const OUTGROWING: Option<New> = Some(outgrowing);

/// A resident map has no file.
pub const CHURNED: Option<New> = None;

pub fn outgrowing<K: Key, V: Value>(device: &Device, capacity: usize) -> TieredMap<K, V> {
    crate::model::outgrowing_of(TieredMap::builder().device(device).storage(STORAGE(path())), capacity)
}
