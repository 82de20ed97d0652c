//! A type without words as value.
use phalanx::HashMap;

fn main() {
    let _map = HashMap::<u32, Vec<u8>>::with_capacity(100);
}
