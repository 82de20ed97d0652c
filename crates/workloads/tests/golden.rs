//! Inputs never change: compares their checksums with those that `independent.py` computes from the
//! definitions in the documentation. That script shares no code with this crate (it has its own ChaCha8).
use workloads::{Distribution, Genome, Sequence, UniqueKeys, Ycsb, YcsbOptions, checksum};

#[test]
fn unique_keys() {
    let keys = UniqueKeys::<u32>::new(1).present(100_000).unwrap();
    assert_eq!(keys[..2], [1_640_099_785, 4_001_230_128]);
    assert_eq!(checksum(&keys), 0x259a_9950_7602_677f);
    let keys = UniqueKeys::<u64>::new(1).absent(100_000).unwrap();
    assert_eq!(checksum(&keys), 0x238a_3190_1215_7a95);
}

#[test]
fn dense_unique_sequence() {
    let keys = Sequence::DU.keys_in_blocks(50_000, 16_384, 1).unwrap();
    assert_eq!(checksum(&keys), 0x3bc9_e65d_dedb_cac3);
}

#[test]
fn ycsb_a_with_zipf() {
    let distribution = Distribution::Zipf(0.99);
    let options = YcsbOptions { records: 10_000, operations: 50_000, distribution, seed: 1 };
    let stream = Ycsb::A.stream::<u32, u32>(&options).unwrap();
    let ops: Vec<u32> = stream.ops.iter().map(|&op| op as u32).collect();
    assert_eq!(checksum(&ops), 0xa51d_b3ea_cb14_6fe1);
    assert_eq!(checksum(&stream.keys), 0x33b9_4761_2527_37f2);
}

#[test]
fn genome() {
    let bases: Vec<u32> = Genome::random(50_000, 1).bases().iter().map(|&base| base.into()).collect();
    assert_eq!(checksum(&bases), 0x11da_80e1_0843_c21c);
}
