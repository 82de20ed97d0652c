//! The benchmark program, with the variant of this package.

phalanx_bench::bench! { phalanx_test_variant::LinearTable }
