//! (temporary) every variant, small and full.
use phalanx::hash_map::{self, Growth, HashMap, Outcome};

#[test]
fn all_variants() {
    for name in hash_map::variants::<u32, u32>() {
        for (n, load) in [(5000usize, 0.8), (5000, 0.95), (1, 0.5), (3000, 1.0)] {
            let map = HashMap::<u32, u32>::builder()
                .capacity(n)
                .load_factor(load)
                .growth(Growth::Fixed)
                .variant(name)
                .build()
                .unwrap();
            let keys: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(0x9e3779b1)).collect();
            let values: Vec<u32> = keys.iter().map(|k| k ^ 77).collect();
            let o = map.insert(&keys, &values).unwrap();
            let ins = o.iter().filter(|o| **o == Outcome::Inserted).count();
            assert_eq!(map.len().unwrap(), ins);
            if load < 0.99 {
                assert_eq!(ins, n, "{name} {load}");
            }
            let got = map.get(&keys).unwrap();
            for i in 0..n {
                assert_eq!(got[i], (o[i] == Outcome::Inserted).then_some(values[i]));
            }
            let absent: Vec<u32> = (n as u32..2 * n as u32).map(|i| i.wrapping_mul(0x9e3779b1)).collect();
            assert!(map.get(&absent).unwrap().iter().all(|v| v.is_none()));
            println!("{name} {n} {load} ok {ins}");
        }
    }
}
