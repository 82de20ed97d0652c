//! Seeded inputs: key sequences, Zipf, YCSB, genomes
