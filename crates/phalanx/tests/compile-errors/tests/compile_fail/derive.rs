//! Structs and enums that have no words.
use phalanx::{Key, Value};

#[derive(Clone, Copy, Debug, Key)]
struct TooWide(u64, bool);

#[derive(Clone, Copy, Debug, Key)]
struct Generic<T>(T);

#[derive(Clone, Copy, Debug, Value)]
struct Nothing;

#[derive(Clone, Copy, Debug, Key)]
enum Color {
    Red,
    Green,
}

fn main() {}
