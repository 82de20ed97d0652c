//! Concurrent data structures for GPUs
