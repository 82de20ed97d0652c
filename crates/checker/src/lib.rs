//! Histories of concurrent operations and their linearizability
