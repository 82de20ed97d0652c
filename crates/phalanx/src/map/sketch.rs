//! Estimates of the number of pairs that a batch will add, so that a structure grows once, before the launch.
use super::launch::BatchOp;
use crate::Result;
use gpu::{Device, Stream};
use phalanx_kernels::keyed::SKETCH_REGISTERS;
use simt::GlobalSlice;

/// Smallest batch for which a blocking call makes room before its launch. A smaller one grows the structure
/// only if elements are refused: that costs less than an estimate for every batch.
pub const LEAST: usize = 1 << 12;

/// Returns whether a blocking call estimates how many pairs a batch will add.
pub fn is_worthwhile(op: BatchOp, len: usize) -> bool {
    op.places_all() && len >= LEAST
}

/// Returns an estimate of the number of distinct keys that `launch` adds to a sketch (see
/// `phalanx_kernels::keyed::sketch_absent`), at most `most`. It is raised by four standard errors (7 %), so
/// that it is hardly ever too low. Waits for the launch.
pub fn estimate(
    device: &Device,
    most: usize,
    launch: impl FnOnce(&Stream, GlobalSlice<u32>) -> gpu::Result<()>,
) -> Result<usize> {
    let registers = device.zeroed(SKETCH_REGISTERS)?;
    launch(&device.default_stream(), registers.global())?;
    Ok(raised(&registers.read()?, most))
}

/// Returns the estimate from a sketch's registers, raised and limited as [`estimate`] does.
pub fn raised(registers: &[u32], most: usize) -> usize {
    let error = 1.04 / (SKETCH_REGISTERS as f64).sqrt();
    let raised = distinct(registers) * (1.0 + 4.0 * error);
    (raised.ceil() as usize).min(most)
}

/// Returns the estimate of HyperLogLog: by the harmonic mean, or by linear counting while many registers are
/// zero.
fn distinct(registers: &[u32]) -> f64 {
    let many = registers.len() as f64;
    let zeros = registers.iter().filter(|&&rank| rank == 0).count();
    let mut ranks = [0u32; 64];
    registers.iter().for_each(|&rank| ranks[rank as usize % 64] += 1);
    let of_rank = |(rank, &many): (usize, &u32)| f64::from(many) * 0.5f64.powi(rank as i32);
    let sum: f64 = ranks.iter().enumerate().map(of_rank).sum();
    let estimate = 0.7213 / (1.0 + 1.079 / many) * many * many / sum;
    if estimate <= 2.5 * many && zeros > 0 { many * (many / zeros as f64).ln() } else { estimate }
}

#[cfg(test)]
mod tests {
    use super::*;
    use phalanx_kernels::keyed::{Scalar, sketched};

    fn of<K: Scalar>(keys: impl Iterator<Item = K>) -> f64 {
        let mut registers = vec![0; SKETCH_REGISTERS];
        for (register, rank) in keys.map(sketched) {
            registers[register] = rank.max(registers[register]);
        }
        distinct(&registers)
    }

    /// The bound is four standard errors.
    #[test]
    fn estimates_are_close() {
        assert_eq!(of(std::iter::empty::<u32>()), 0.0);
        for many in [1, 10, 1000, 5000, 10_000, 20_000, 100_000, 1_000_000u32] {
            let (dense, sparse) = (of(0..many), of((0..u64::from(many)).map(|key| key << 32)));
            let repeated = of((0..3 * many).map(|key| key % many * 16));
            for found in [dense, sparse, repeated] {
                assert!((found / f64::from(many) - 1.0).abs() < 0.066, "{found} for {many}");
            }
        }
    }
}
