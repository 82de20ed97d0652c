//! Saved maps: a header, the keys, the values, and a checksum.
//!
//! ```text
//! "PHXMAP" · version u16 · key bits u32 · value bits u32 · pairs u64 · names · keys · values
//! · CRC-32 of all before
//! ```
//!
//! All numbers are little-endian. The names are those of the encodings of keys and values, each with its
//! length before it, a u16. A set has values of 0 bits, with an empty name. Version 1 has no names; its keys
//! and values are unsigned integers. The order of the pairs and the kind of map that wrote them do not
//! matter.
use super::encoding::{Word, decoded};
use super::launch::BatchOp;
use super::run::{self, Results};
use super::{Key, KeyWord, Map, Outcome, Outcomes, Pairs, Value, ValueWord};
use crate::{Error, Result};
use phalanx_kernels::keyed::Scalar;
use std::io::{Read, Write};
use std::ops::Range;

const MAGIC: &[u8; 6] = b"PHXMAP";
const VERSION: u16 = 2;
/// Number of pairs that are copied to the device at once.
const BATCH: usize = 1 << 22;

fn writing(source: std::io::Error) -> Error {
    Error::Io { doing: "writing", source }
}

fn reading(source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::UnexpectedEof => Error::Format("it is truncated".into()),
        _ => Error::Io { doing: "reading", source },
    }
}

/// A reader or writer, and the checksum of the bytes that passed through it.
pub struct Checked<S> {
    stream: S,
    checksum: crc32fast::Hasher,
}

impl<S> Checked<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, checksum: crc32fast::Hasher::new() }
    }
}

impl<S: Write> Checked<S> {
    /// Writes bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.checksum.update(bytes);
        self.stream.write_all(bytes).map_err(writing)
    }

    /// Writes the checksum and flushes.
    pub fn finish(mut self) -> Result<()> {
        let checksum = self.checksum.finalize().to_le_bytes();
        self.stream.write_all(&checksum).map_err(writing)?;
        self.stream.flush().map_err(writing)
    }
}

impl<S: Read> Checked<S> {
    fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.stream.read_exact(bytes).map_err(reading)?;
        self.checksum.update(bytes);
        Ok(())
    }

    /// Reads the bytes of a number.
    pub fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads words without trusting the announced count: memory grows only with the data that is actually
    /// read.
    pub fn words<T: Scalar>(&mut self, count: usize) -> Result<Vec<T>> {
        let mut words = Vec::new();
        while words.len() < count {
            let mut part = vec![T::from_u64(0); (count - words.len()).min(BATCH)];
            self.take(bytemuck::cast_slice_mut(&mut part))?;
            words.append(&mut part);
        }
        Ok(words)
    }

    /// Reads the checksum, and compares it with that of the bytes before.
    pub fn check(mut self) -> Result<()> {
        let mut expected = [0; 4];
        self.stream.read_exact(&mut expected).map_err(reading)?;
        if self.checksum.finalize() != u32::from_le_bytes(expected) {
            return Err(Error::Format("its checksum is wrong, so it is damaged".into()));
        }
        Ok(())
    }
}

/// How a file stores keys or values: the bits of their words, and the name of their encoding.
struct Column {
    bits: u32,
    name: String,
}

impl Column {
    /// The values of a set.
    const NONE: Self = Self { bits: 0, name: String::new() };

    fn of_keys<K: Key>() -> Self {
        Self { bits: K::Word::BITS, name: K::name() }
    }

    fn of_values<V: Value>() -> Self {
        Self { bits: V::Word::BITS, name: V::name() }
    }

    /// Returns whether the words are numbers, as all words of version 1 are.
    fn is_plain(&self) -> bool {
        self.bits == 0 || self.name == format!("u{}", self.bits)
    }
}

/// Writes words of keys and values with header and checksum.
fn write<K: Word, V: Word>(
    (keys, values): (&[K], &[V]),
    columns: [Column; 2],
    writer: impl Write,
) -> Result<()> {
    let mut writer = Checked::new(writer);
    writer.put(MAGIC)?;
    writer.put(&VERSION.to_le_bytes())?;
    for column in &columns {
        writer.put(&column.bits.to_le_bytes())?;
    }
    writer.put(&(keys.len() as u64).to_le_bytes())?;
    for column in &columns {
        let len = u16::try_from(column.name.len()).map_err(|_| {
            let (len, most) = (column.name.len(), u16::MAX);
            Error::Format(format!("the name of a type has {len} bytes, and a file has room for {most}"))
        })?;
        writer.put(&len.to_le_bytes())?;
        writer.put(column.name.as_bytes())?;
    }
    writer.put(bytemuck::cast_slice(keys))?;
    writer.put(bytemuck::cast_slice(values))?;
    writer.finish()
}

/// Reads the output of [`write`].
fn read<K: Word, V: Word>(reader: impl Read, columns: [Column; 2]) -> Result<Pairs<K, V>> {
    let mut reader = Checked::new(reader);
    let pairs = header(&mut reader, &columns)?;
    let keys = reader.words::<K>(pairs)?;
    let values = reader.words::<V>(if columns[1].bits == 0 { 0 } else { pairs })?;
    reader.check()?;
    Ok((keys, values))
}

/// Writes the words of pairs.
pub fn save<K: Key, V: Value>((keys, values): Pairs<K::Word, V::Word>, writer: impl Write) -> Result<()> {
    write((&keys, &values), [Column::of_keys::<K>(), Column::of_values::<V>()], writer)
}

/// Writes the words of keys.
pub fn save_keys<K: Key>(keys: &[K::Word], writer: impl Write) -> Result<()> {
    write::<_, u32>((keys, &[]), [Column::of_keys::<K>(), Column::NONE], writer)
}

/// Reads the words in the output of [`save`]. Each stands for a key or value.
pub fn read_pairs<K: Key, V: Value>(reader: impl Read) -> Result<Pairs<K::Word, V::Word>> {
    let (keys, values) = read(reader, [Column::of_keys::<K>(), Column::of_values::<V>()])?;
    check_words(&keys, K::decode)?;
    check_words(&values, V::decode)?;
    Ok((keys, values))
}

/// Returns an error if a word stands for no value.
fn check_words<T, W: Word>(words: &[W], decode: impl Fn(W) -> Option<T>) -> Result<()> {
    words.iter().try_for_each(|&word| decoded(word, &decode).map(drop))
}

/// Reads the output of [`save`] and passes the words of the pairs in chunks to `insert`, with the structure
/// that `build` creates for their number. All keys must be new.
pub fn load_into<K: Key, V: Value, T>(
    reader: impl Read,
    build: impl FnOnce(usize) -> Result<T>,
    insert: impl Fn(&T, &[K::Word], &[V::Word]) -> Result<Outcomes>,
) -> Result<T> {
    let (keys, values) = read_pairs::<K, V>(reader)?;
    let structure = build(keys.len().max(1))?;
    in_parts(keys.len(), |part| insert(&structure, &keys[part.clone()], &values[part]))?;
    Ok(structure)
}

/// Reads the output of [`save`] into the map that `build` creates for the number of pairs.
pub fn load<M: Map>(reader: impl Read, build: impl FnOnce(usize) -> Result<M>) -> Result<M> {
    load_into::<M::Key, M::Value, _>(reader, build, |map, keys, values| {
        run::with_values(map.inner(), BatchOp::InsertNew, keys, values).map(Results::into_outcomes)
    })
}

/// Reads the output of [`save`], from all of which `build` creates a map in one step. All keys must be
/// distinct.
pub fn load_at_once<M: Map>(
    reader: impl Read,
    build: impl FnOnce(&[KeyWord<M>], &[ValueWord<M>]) -> Result<M>,
) -> Result<M> {
    let (keys, values) = read_pairs::<M::Key, M::Value>(reader)?;
    let map = build(&keys, &values)?;
    if map.len()? == keys.len() { Ok(map) } else { Err(twice()) }
}

/// Reads the output of [`save_keys`]: see [`load_into`].
pub fn load_keys<K: Key, T>(
    reader: impl Read,
    build: impl FnOnce(usize) -> Result<T>,
    insert: impl Fn(&T, &[K::Word]) -> Result<Outcomes>,
) -> Result<T> {
    let (keys, _) = read::<K::Word, u32>(reader, [Column::of_keys::<K>(), Column::NONE])?;
    check_words(&keys, K::decode)?;
    let structure = build(keys.len().max(1))?;
    in_parts(keys.len(), |part| insert(&structure, &keys[part]))?;
    Ok(structure)
}

/// Inserts `len` elements in chunks. All of them must be new and fit.
fn in_parts(len: usize, insert: impl Fn(Range<usize>) -> Result<Outcomes>) -> Result<()> {
    for first in (0..len).step_by(BATCH) {
        let outcomes = match insert(first..len.min(first + BATCH)) {
            Err(Error::NoRoom { outcomes, .. }) => outcomes,
            // Nobody can retry the rest: the structure is dropped.
            Err(Error::Interrupted { source, .. }) => return Err(*source),
            inserted => inserted?,
        };
        if !outcomes.all_placed() {
            let placed = first + outcomes.asked() - outcomes.refused();
            return Err(Error::DoesNotFit { left_over: len - placed, pairs: len });
        }
        if outcomes.iter().any(|&outcome| outcome != Outcome::Inserted) {
            return Err(twice());
        }
    }
    Ok(())
}

fn twice() -> Error {
    Error::Format("a key occurs twice".into())
}

/// Reads the header of a map with these columns. Returns the number of pairs.
fn header<R: Read>(reader: &mut Checked<R>, columns: &[Column; 2]) -> Result<usize> {
    let wrong = |what: String| Err(Error::Format(what));
    if reader.number::<6>()? != *MAGIC {
        return wrong("it does not begin with PHXMAP".into());
    }
    let version = u16::from_le_bytes(reader.number()?);
    if !(1..=VERSION).contains(&version) {
        return wrong(format!("its format version is {version}; supported: 1 to {VERSION}"));
    }
    let bits = (u32::from_le_bytes(reader.number()?), u32::from_le_bytes(reader.number()?));
    let expected = (columns[0].bits, columns[1].bits);
    if bits != expected {
        return wrong(format!("it has {}; expected {}", contents(bits), contents(expected)));
    }
    let pairs = u64::from_le_bytes(reader.number()?);
    for column in columns {
        check_name(reader, version, column)?;
    }
    usize::try_from(pairs).or_else(|_| wrong("its number of pairs exceeds the address space".into()))
}

/// Describes a file whose keys and values have these bits.
fn contents((key, value): (u32, u32)) -> String {
    match value {
        0 => format!("a set with keys of {key} bits"),
        value => format!("a map with keys of {key} bits and values of {value} bits"),
    }
}

/// Reads the name of a column, if the version has names. Returns an error if it is not that of `column`.
fn check_name<R: Read>(reader: &mut Checked<R>, version: u16, column: &Column) -> Result<()> {
    let name = match version {
        1 if column.is_plain() => return Ok(()),
        1 => format!("u{}", column.bits).into_bytes(),
        _ => {
            let mut name = vec![0; usize::from(u16::from_le_bytes(reader.number()?))];
            reader.take(&mut name)?;
            name
        }
    };
    if name == column.name.as_bytes() {
        return Ok(());
    }
    let name = String::from_utf8_lossy(&name);
    Err(Error::Format(format!("it has keys or values of type `{name}`; expected `{}`", column.name)))
}
