//! Structs as keys and values.
use crate::{Tested, agree, emulator};
use phalanx::{BTree, Error, HashMap, Key, Value};
use std::cmp::Ordering;

/// A point of a grid; 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key, Value)]
struct Cell {
    row: i16,
    column: i16,
}

/// Fields of several sizes; 33 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key, Value)]
struct Mixed(bool, char, i8, Tiny);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key, Value)]
struct Tiny {
    a: bool,
    b: bool,
    c: bool,
}

/// A field that takes the whole word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Key, Value)]
struct Id(u64);

#[derive(Clone, Copy, Debug, Value)]
struct Reading {
    mean: f32,
    samples: u32,
}

macro_rules! tested {
    ($($type:ty)*) => {$(
        impl Tested for $type {
            fn order(&self, other: &Self) -> Ordering {
                self.cmp(other)
            }
        }
    )*};
}
tested!(Cell Mixed Id Tiny);

#[test]
fn structs_agree_with_std() {
    agree::<Cell>(&emulator());
    agree::<Mixed>(&emulator());
    agree::<Id>(&emulator());
    agree::<Tiny>(&emulator());
}

#[test]
fn structs_are_words_of_their_fields() {
    let cell = Cell { row: -1, column: 2 };
    assert_eq!((Key::encode(cell), <Cell as Key>::WIDTH), (0x7fff_8002, 32));
    assert_eq!(
        (<Mixed as Key>::WIDTH, <Mixed as Key>::name()),
        (33, "(bool, char, i8, (bool, bool, bool))".into())
    );
    assert_eq!(<Mixed as Key>::decode(1 << 33), None);
    assert_eq!(<Tiny as Value>::decode(0b101), Some(Tiny { a: true, b: false, c: true }));
    assert_eq!(<Tiny as Value>::decode(0b1000), None);
}

#[test]
fn a_range_of_keys_is_one_of_structs() {
    let tree = BTree::<Cell, Reading>::builder().device(&emulator()).build().unwrap();
    let cells: Vec<_> = (-3..3).flat_map(|row| (-2..2).map(move |column| Cell { row, column })).collect();
    let reading = |cell: &Cell| Reading { mean: f32::from(cell.column), samples: 7 };
    assert!(tree.insert(&cells, &cells.iter().map(reading).collect::<Vec<_>>()).unwrap().all_placed());
    let row = tree.range(&[Cell { row: -2, column: i16::MIN }..=Cell { row: -2, column: i16::MAX }]).unwrap();
    let found: Vec<_> =
        row[0].iter().map(|(cell, reading)| (cell.row, reading.mean, reading.samples)).collect();
    assert_eq!(found, [(-2, -2.0, 7), (-2, -1.0, 7), (-2, 0.0, 7), (-2, 1.0, 7)]);
}

#[test]
fn files_of_other_structs_are_refused() {
    let map = HashMap::<Cell, u32>::builder().device(&emulator()).build().unwrap();
    let mut saved = Vec::new();
    map.save(&mut saved).unwrap();
    let load = HashMap::<u32, u32>::load(&saved[..], HashMap::builder().device(&emulator()));
    assert!(matches!(load, Err(Error::Format(what)) if what.contains("`(i16, i16)`; expected `u32`")));
}
