//! Saved maps: a header, the keys, the values, and a checksum.
//!
//! ```text
//! "PHXMAP" · version u16 · key bits u32 · value bits u32 · pairs u64 · keys · values · CRC-32 of all before
//! ```
//!
//! All numbers are little-endian. The order of the pairs and the kind of map that wrote them do not matter.
use super::{Key, Map, Outcome, Outcomes, Value};
use crate::{Error, Result};
use phalanx_kernels::keyed::Scalar;
use std::io::{Read, Write};
use std::ops::Range;

const MAGIC: &[u8; 6] = b"PHXMAP";
const VERSION: u16 = 1;
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
struct Checked<S> {
    stream: S,
    checksum: crc32fast::Hasher,
}

impl<S> Checked<S> {
    fn new(stream: S) -> Self {
        Self { stream, checksum: crc32fast::Hasher::new() }
    }
}

impl<S: Write> Checked<S> {
    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.checksum.update(bytes);
        self.stream.write_all(bytes).map_err(writing)
    }
}

impl<S: Read> Checked<S> {
    fn take(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.stream.read_exact(bytes).map_err(reading)?;
        self.checksum.update(bytes);
        Ok(())
    }

    fn number<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.take(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads words without trusting the announced count: memory grows only with the data that is actually
    /// read.
    fn words<T: Scalar>(&mut self, count: usize) -> Result<Vec<T>> {
        let mut words = Vec::new();
        while words.len() < count {
            let mut part = vec![T::from_u64(0); (count - words.len()).min(BATCH)];
            self.take(bytemuck::cast_slice_mut(&mut part))?;
            words.append(&mut part);
        }
        Ok(words)
    }
}

/// Contents of a file: keys and values. A set has no values.
struct Contents<K, V> {
    keys: Vec<K>,
    values: Vec<V>,
}

/// Writes keys and values with header and checksum. A set has no values, of 0 bits.
fn write<K: Key, V: Value>(keys: &[K], values: &[V], value_bits: u32, writer: impl Write) -> Result<()> {
    let mut writer = Checked::new(writer);
    writer.put(MAGIC)?;
    writer.put(&VERSION.to_le_bytes())?;
    writer.put(&K::BITS.to_le_bytes())?;
    writer.put(&value_bits.to_le_bytes())?;
    writer.put(&(keys.len() as u64).to_le_bytes())?;
    writer.put(bytemuck::cast_slice(keys))?;
    writer.put(bytemuck::cast_slice(values))?;
    let checksum = writer.checksum.finalize().to_le_bytes();
    writer.stream.write_all(&checksum).map_err(writing)?;
    writer.stream.flush().map_err(writing)
}

/// Reads the output of [`write`].
fn read<K: Key, V: Value>(reader: impl Read, value_bits: u32) -> Result<Contents<K, V>> {
    let mut reader = Checked::new(reader);
    let pairs = header(&mut reader, K::BITS, value_bits)?;
    let keys = reader.words::<K>(pairs)?;
    let values = reader.words::<V>(if value_bits == 0 { 0 } else { pairs })?;
    let mut expected = [0; 4];
    reader.stream.read_exact(&mut expected).map_err(reading)?;
    if reader.checksum.finalize() != u32::from_le_bytes(expected) {
        return Err(Error::Format("its checksum is wrong, so it is damaged".into()));
    }
    Ok(Contents { keys, values })
}

/// Writes pairs.
pub fn save<K: Key, V: Value>(keys: &[K], values: &[V], writer: impl Write) -> Result<()> {
    write(keys, values, V::BITS, writer)
}

/// Writes keys.
pub fn save_keys<K: Key>(keys: &[K], writer: impl Write) -> Result<()> {
    write::<K, u32>(keys, &[], 0, writer)
}

/// Reads the output of [`save`] and passes the pairs in chunks to `insert`, with the structure that `build`
/// creates for their number. All keys must be new.
pub fn load_into<K: Key, V: Value, T>(
    reader: impl Read,
    build: impl FnOnce(usize) -> Result<T>,
    insert: impl Fn(&T, &[K], &[V]) -> Result<Outcomes>,
) -> Result<T> {
    let Contents { keys, values } = read::<K, V>(reader, V::BITS)?;
    let structure = build(keys.len().max(1))?;
    in_parts(keys.len(), |part| insert(&structure, &keys[part.clone()], &values[part]))?;
    Ok(structure)
}

/// Reads the output of [`save`] into the map that `build` creates for the number of pairs.
pub fn load<M: Map>(reader: impl Read, build: impl FnOnce(usize) -> Result<M>) -> Result<M> {
    load_into(reader, build, |map, keys, values| map.insert_new(keys, values))
}

/// Reads the output of [`save`], from all of which `build` creates a map in one step. All keys must be
/// distinct.
pub fn load_at_once<M: Map>(
    reader: impl Read,
    build: impl FnOnce(&[M::Key], &[M::Value]) -> Result<M>,
) -> Result<M> {
    let Contents { keys, values } = read::<M::Key, M::Value>(reader, M::Value::BITS)?;
    let map = build(&keys, &values)?;
    if map.len()? == keys.len() { Ok(map) } else { Err(twice()) }
}

/// Reads the output of [`save_keys`]: see [`load_into`].
pub fn load_keys<K: Key, T>(
    reader: impl Read,
    build: impl FnOnce(usize) -> Result<T>,
    insert: impl Fn(&T, &[K]) -> Result<Outcomes>,
) -> Result<T> {
    let Contents { keys, .. } = read::<K, u32>(reader, 0)?;
    let structure = build(keys.len().max(1))?;
    in_parts(keys.len(), |part| insert(&structure, &keys[part]))?;
    Ok(structure)
}

/// Inserts `len` elements in chunks. All of them must be new and fit.
fn in_parts(len: usize, insert: impl Fn(Range<usize>) -> Result<Outcomes>) -> Result<()> {
    for first in (0..len).step_by(BATCH) {
        let outcomes = match insert(first..len.min(first + BATCH)) {
            Err(Error::NoRoom { outcomes }) => outcomes,
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

/// Reads the header of a map of these types. Returns the number of pairs.
fn header<R: Read>(reader: &mut Checked<R>, key_bits: u32, value_bits: u32) -> Result<usize> {
    let wrong = |what: String| Err(Error::Format(what));
    if reader.number::<6>()? != *MAGIC {
        return wrong("it does not begin with PHXMAP".into());
    }
    let version = u16::from_le_bytes(reader.number()?);
    if version != VERSION {
        return wrong(format!("its format version is {version}; supported: {VERSION}"));
    }
    let bits = (u32::from_le_bytes(reader.number()?), u32::from_le_bytes(reader.number()?));
    if bits != (key_bits, value_bits) {
        return wrong(format!("its keys and values have {bits:?} bits; expected ({key_bits}, {value_bits})"));
    }
    usize::try_from(u64::from_le_bytes(reader.number()?))
        .or_else(|_| wrong("its number of pairs exceeds the address space".into()))
}
