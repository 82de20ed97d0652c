//! Number of buckets for a memory utilization (slab-hash paper, section III-C and figure 4c).
//!
//! The hash distributes keys randomly over the buckets. So a bucket has X pairs, where X is Poisson
//! distributed with the mean `pairs / buckets`, and `max(1, ceil(X / slots))` slabs.

/// Mean from which the distribution is wider than a slab, and its probabilities are too small to sum up.
const WIDE: f64 = 600.0;

/// Returns the mean number of slabs per bucket, for a mean of `load` pairs per bucket and `slots` pairs per
/// slab.
pub fn mean_slabs(load: f64, slots: usize) -> f64 {
    if load > WIDE {
        // The number of pairs in the last slab is uniformly distributed.
        return load / slots as f64 + (slots - 1) as f64 / (2 * slots) as f64;
    }
    let (mut probability, mut mean, mut below) = ((-load).exp(), 0.0, 0.0);
    let most = (load + 12.0 * load.sqrt()) as usize + 2 * slots;
    for pairs in 0..=most {
        mean += probability * pairs.div_ceil(slots).max(1) as f64;
        below += probability;
        probability *= load / (pairs + 1) as f64;
    }
    mean / below
}

/// Returns the memory utilization: bytes of the pairs divided by bytes of all slabs. `full` is the
/// utilization of a full slab.
pub fn utilisation(load: f64, slots: usize, full: f64) -> f64 {
    full * load / (slots as f64 * mean_slabs(load, slots))
}

/// Returns the smallest mean number of pairs per bucket that reaches a utilization, if any does.
pub fn load_for(wanted: f64, slots: usize, full: f64) -> Option<f64> {
    let most = 40 * slots;
    (1..=most * 20).map(|step| step as f64 / 20.0).find(|&load| utilisation(load, slots, full) >= wanted)
}

/// Returns the number of slabs for `pairs` pairs in `buckets` lists, without the first slab of each list:
/// 10 % and four standard deviations more than expected.
pub fn slabs_behind(pairs: usize, buckets: f64, slots: usize) -> usize {
    let behind = buckets * (mean_slabs(pairs as f64 / buckets, slots) - 1.0);
    (behind * 1.1 + 4.0 * behind.sqrt()) as usize + 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_a_slab_at_least() {
        assert!((mean_slabs(0.001, 15) - 1.0).abs() < 1e-9);
        // Half of the buckets with a mean of 15.5 pairs have more than 15.
        let slabs = mean_slabs(15.5, 15);
        assert!((1.4..1.6).contains(&slabs), "{slabs}");
        // Many slabs: half of the last one is empty.
        let slabs = mean_slabs(1500.0, 15);
        assert!((100.4..100.6).contains(&slabs), "{slabs}");
    }

    #[test]
    fn the_load_gives_the_utilisation() {
        for wanted in [0.1, 0.4, 0.6, 0.65, 0.8, 0.9] {
            let load = load_for(wanted, 15, 0.9375).unwrap();
            let reached = utilisation(load, 15, 0.9375);
            assert!((wanted..wanted + 0.02).contains(&reached), "{wanted}: {reached} at {load}");
        }
        assert_eq!(load_for(0.94, 15, 0.9375), None);
    }
}
