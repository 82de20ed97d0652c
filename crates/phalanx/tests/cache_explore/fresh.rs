//! Tables of the library, as a user creates them, on an exploring device.
use gpu::Device;
use phalanx::CacheTable;
use simt::emulator::{Options, Schedule};

/// Warps that place keys in the last free slots run beside warps that look for the lowest score.
#[test]
fn a_new_table_has_no_uninitialized_scores() {
    let keys: Vec<u64> = (0..256).collect();
    for seed in 0..3 {
        let device = Device::emulator(Options::explore(Schedule::Random { seed }));
        let table = CacheTable::<u64, u32>::builder().capacity(128).variant("cache_1x8_u64_u64");
        let table = table.device(&device).build().unwrap();
        assert!(table.insert(&keys, &[7; 256]).unwrap().all_placed());
    }
}
