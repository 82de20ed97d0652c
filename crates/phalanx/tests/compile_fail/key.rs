//! A type without words as key.
use phalanx::HashMap;

fn main() {
    let _map = HashMap::<String, u32>::with_capacity(100);
}
