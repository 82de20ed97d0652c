//! Tests of the file on a recorded disk, and on the file system of the machine.
mod bad;
mod disk;
mod faults;
mod files;
mod fuzz;
mod replay;
mod script;
