//! Internals that the structures do not expose to users. These tests are not part of the library, whose test
//! build would compile all kernels again.
#[path = "insides/clock.rs"]
mod clock;
#[path = "insides/defaults.rs"]
mod defaults;
#[path = "insides/export.rs"]
mod export;
#[path = "insides/frozen.rs"]
mod frozen;
#[path = "insides/lists.rs"]
mod lists;
#[path = "insides/tables.rs"]
mod tables;
#[path = "insides/workspaces.rs"]
mod workspaces;
