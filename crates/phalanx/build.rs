//! Builds the kernels to PTX (to come).
fn main() {}
