//! A device crate: kernels, and nothing that needs a host.
#![cfg_attr(target_arch = "nvptx64", no_std)]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx))]

use phalanx_kernels::hash_map::{DefaultTable, MapView, PerLane, Session};
use simt::{GlobalSlice, Thread, kernel};

/// Writes the cost of each order: the price of its product in the map, times its quantity. An order of a
/// product without a price costs 0.
#[kernel]
pub fn price_orders(
    prices: MapView<DefaultTable>,
    products: GlobalSlice<u32>,
    quantities: GlobalSlice<u32>,
    costs: GlobalSlice<u64>,
) {
    let mut session = Session::new(prices, PerLane);
    let index = Thread::index();
    let is_order = index < products.len();
    // All lanes of a warp make each call of a session together; those without an order pass `None`.
    let price = session.get(if is_order { Some(products.read(index)) } else { None });
    if is_order {
        costs.write(index, price.unwrap_or(0) as u64 * quantities.read(index) as u64);
    }
    session.finish();
}
