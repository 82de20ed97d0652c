//! What this package knows of its structures and users do not. Here, not in the library, whose tests would
//! compile all kernels once more.
#[path = "insides/export.rs"]
mod export;
#[path = "insides/frozen.rs"]
mod frozen;
#[path = "insides/lists.rs"]
mod lists;
#[path = "insides/moments.rs"]
mod moments;
#[path = "insides/tables.rs"]
mod tables;
#[path = "insides/workspaces.rs"]
mod workspaces;
