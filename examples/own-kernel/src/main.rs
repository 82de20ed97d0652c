//! Prices orders on the device: a kernel of this program's own looks up each product in a hash map.
use own_kernel_device::PriceOrders;
use phalanx::gpu::{Grid, Kernel, Program};
use phalanx::hash_map::Growth;
use phalanx::kernels::hash_map::DefaultTable;
use phalanx::{Device, HashMap, Outcome};

/// The kernels of the device crate as PTX, which a GPU needs.
static PROGRAM: Program = Program { name: PriceOrders::PROGRAM, ptx: PTX };

#[cfg(feature = "cuda")]
const PTX: &[(u32, &[u8])] = &[(80, include_bytes!(env!("OWN_KERNEL_PTX")))];
#[cfg(not(feature = "cuda"))]
const PTX: &[(u32, &[u8])] = &[];

fn main() -> Result<(), phalanx::Error> {
    let device = Device::from_environment()?;
    device.add_program(&PROGRAM);

    // With this policy no call replaces the table, so a view of it stays valid.
    let prices =
        HashMap::<u32, u32>::builder().device(&device).capacity(100).growth(Growth::Fixed).build()?;
    assert_eq!(prices.insert(&[1, 2, 3], &[250, 400, 999])?, [Outcome::Inserted; 3]);

    let products = device.from_slice(&[1u32, 3, 1, 7])?;
    let quantities = device.from_slice(&[2u32, 1, 10, 5])?;
    let costs = device.zeroed::<u64>(4)?;
    // SAFETY: the map does not grow. The map and the buffers outlive the kernel: `costs.read()` below waits
    // for its end. Nothing else accesses `costs` meanwhile, and nothing writes the other buffers.
    unsafe {
        let launch = PriceOrders {
            prices: prices.view::<DefaultTable>()?,
            products: products.global(),
            quantities: quantities.global(),
            costs: costs.global(),
        };
        device.default_stream().launch(Grid::for_items(products.len(), 128), launch)?;
    }
    let costs = costs.read()?;
    assert_eq!(costs, [500, 999, 2500, 0]);
    println!("{} orders cost {costs:?}, computed on {}", costs.len(), device.name());
    Ok(())
}
