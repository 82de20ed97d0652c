//! libcuda bound on first use, so that one binary runs with and without a driver
