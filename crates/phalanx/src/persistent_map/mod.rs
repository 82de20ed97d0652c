//! Hash map whose pairs survive the process, and loss of power. Incomplete: the file exists, the map does
//! not.
#![allow(dead_code, unused_imports, reason = "the map that uses the file is not written yet")]
pub(crate) mod file;

pub use file::{Epoch, FileFault, LayoutId, Report, Working, check_file};
