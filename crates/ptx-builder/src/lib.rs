//! Builds a device crate to PTX with rustc's own nvptx64 target
